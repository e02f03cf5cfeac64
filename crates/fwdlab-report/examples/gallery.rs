//! Writes the page of every run of the test data into a directory, for inspection in a browser.
//!
//! `cargo run -p fwdlab-report --example gallery -- FOLDER`

#[path = "../tests/common/mod.rs"]
mod common;

use fwdlab_report::html::{ShownFacts, page};
use fwdlab_report::run::Run;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else {
        return Err(std::io::Error::other("say into which folder"));
    };
    std::fs::create_dir_all(&folder)?;
    for run in common::all() {
        let shown = Run {
            trials: &run.trials,
            rebuilds: &run.rebuilds,
            ..Run::new(&run.info, &run.summary)
        };
        let page = page(&shown, ShownFacts::Brief);
        let path = std::path::Path::new(&folder).join(run.name);
        std::fs::write(path.with_extension("html"), page)?;
    }
    Ok(())
}
