//! Draws folded stacks into a directory for inspection: two flame graphs, their difference, and its
//! table.
//!
//! `cargo run -p fwdlab-report --example flame -- BEFORE.folded AFTER.folded FRAMES FOLDER`
//!
//! Folded output of `perf script` from a real DUT works, too; FRAMES is then the number of frames
//! that it forwarded during the recording.

use std::io::Error;
use std::path::Path;

use fwdlab_model::stacks::{Profile, Stacks, difference, perf};
use fwdlab_report::flame;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [before, after, frames, folder] = &arguments[..] else {
        return Err(Error::other("say BEFORE.folded AFTER.folded FRAMES FOLDER").into());
    };
    let frames = frames.parse()?;
    let read = |path: &String| -> Result<Profile, Box<dyn std::error::Error>> {
        let text = std::fs::read_to_string(path)?;
        let stacks = match perf::is_perf(&text) {
            true => perf::read(&text)?,
            false => text.parse::<Stacks>()?,
        };
        Ok(stacks.per(frames))
    };
    let (before, after) = (read(before)?, read(after)?);
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("before.svg"), flame::graph("before", &before)?)?;
    std::fs::write(folder.join("after.svg"), flame::graph("after", &after)?)?;
    std::fs::write(
        folder.join("difference.svg"),
        flame::difference("difference", &before, &after)?,
    )?;
    let rows = difference(&before, &after);
    let table = flame::differences(&rows, ["before", "after"], 1.0);
    std::fs::write(folder.join("difference.txt"), table.text(80))?;
    std::fs::write(folder.join("difference.md"), table.markdown())?;
    std::fs::write(folder.join("difference.csv"), table.csv())?;
    Ok(())
}
