//! The VPP build next to the repository, or an installed VPP, for tests of several crates.
//!
//! A build is unpacked once, into the target's folder for temporary files. It starts nothing. Start
//! with [`unpacked`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the build, if it is elsewhere.
const BUILD: &str = "FWDLAB_VPP_BUILD";

/// Unpacks it once for all tests, and for those of the next run; without one, returns `vpp` in
/// PATH.
pub fn unpacked() -> Result<PathBuf, String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vpp");
    let folder = std::env::var_os(BUILD).map_or(beside, PathBuf::from);
    let archive = fs::read_dir(&folder).ok().and_then(|entries| {
        let mut all = entries.flatten().map(|entry| entry.path());
        all.find(|path| path.to_string_lossy().ends_with("x86_64.tar.xz"))
    });
    let Some(archive) = archive else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut installed = std::env::split_paths(&path).map(|folder| folder.join("vpp"));
        return installed.find(|vpp| vpp.is_file()).ok_or_else(|| {
            format!(
                "no build of VPP in {}, and no vpp in PATH",
                folder.display()
            )
        });
    };
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = File::create(tmp.join("vpp.lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    let whole = tmp.join(archive.file_stem().unwrap_or_default());
    if !whole.exists() {
        let part = tmp.join("vpp.part");
        let _ = fs::remove_dir_all(&part);
        fs::create_dir_all(&part).map_err(|e| e.to_string())?;
        let words = ["tar", "-xf", archive.to_str().unwrap_or_default(), "-C"];
        try_tool(&[&words[..], &[part.to_str().unwrap_or_default()]].concat())?;
        fs::rename(&part, &whole).map_err(|e| e.to_string())?;
    }
    let program = whole.join("vpp/bin/vpp");
    let libraries = try_tool(&["ldd", program.to_str().unwrap_or_default()])?;
    match libraries.lines().find(|line| line.contains("not found")) {
        None => Ok(program),
        Some(missing) => Err(format!("a library of VPP is missing: {}", missing.trim())),
    }
}

/// Returns the output of a tool, or why it failed.
fn try_tool(words: &[&str]) -> Result<String, String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|e| format!("{}: {e}", words[0]))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}
