//! Fonts of this machine, for pictures in pixels.
//!
//! Prefers a few well-known fonts and accepts any other. Start with [`files`].

use std::path::{Path, PathBuf};

/// Prefixes of file names, most wanted first.
const WANTED: [&str; 8] = [
    "DejaVuSans.",
    "DejaVuSans-Bold.",
    "DejaVuSansMono.",
    "LiberationSans-Regular",
    "LiberationMono-Regular",
    "NotoSans-Regular",
    "NotoSansMono",
    "Arial",
];
/// The number of files to look at.
const LOOKED_AT: usize = 5000;

/// Returns the contents of the font files; empty if there are none.
pub fn files() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = home
        .iter()
        .flat_map(|home| [home.join(".fonts"), home.join(".local/share/fonts")]);
    let all = [
        PathBuf::from("/usr/share/fonts"),
        PathBuf::from("/usr/local/share/fonts"),
    ];
    for folder in all.into_iter().chain(own) {
        collect(&folder, &mut found);
    }
    found.sort();
    let name = |path: &PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let requested = WANTED
        .iter()
        .filter_map(|requested| found.iter().find(|path| name(path).starts_with(requested)));
    let mut chosen: Vec<&PathBuf> = requested.collect();
    if chosen.is_empty() {
        chosen.extend(found.first());
    }
    chosen
        .into_iter()
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        // do not follow links to folders: they may form loops
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let ending = path
            .extension()
            .and_then(|ending| ending.to_str())
            .unwrap_or_default();
        match () {
            () if found.len() >= LOOKED_AT => return,
            () if kind.is_dir() => collect(&path, found),
            () if ["ttf", "otf", "ttc"].contains(&ending) => found.push(path),
            () => {}
        }
    }
}
