//! Traffic profiles by name: shipped profiles are compiled into the program, others are in
//! `./profiles` or at a path.
//!
//! Reads files, and finds the capture files of a profile. `fwdlab_model::profile` defines the
//! meaning of a profile, `fwdlab_engine::traffic::compile` its frames. Start with [`load`].

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fwdlab_model::profile::{LARGEST_FILE, Profile};

use crate::exit_code::Usage;

macro_rules! shipped {
    ($($name:literal)*) => {
        /// Names and texts of the shipped profiles.
        pub const SHIPPED: &[(&str, &str)] = &[$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),*];
    };
}

shipped! {
    "rfc2544/64"
    "rfc2544/128"
    "rfc2544/256"
    "rfc2544/512"
    "rfc2544/1024"
    "rfc2544/1280"
    "rfc2544/1518"
    "flows/1"
    "flows/100"
    "flows/2000"
    "flows/5000"
    "flows/10k"
    "flows/100k"
    "flows/1M"
    "flows/10M"
    "fib/best"
    "fib/worst"
    "fib/random"
    "bimodal"
    "gre"
    "imix"
    "imix-trexbench"
    "imix512"
    "imix570"
    "imix6"
    "ipsec-imix"
    "ipv6-imix"
    "mpls"
    "qinq"
    "rfc4814"
    "standard-imix"
    "tcp-imix"
    "tcp-syn"
    "vlan"
    "vxlan"
    "dualstack/10-90"
    "dualstack/50-50"
    "dualstack/90-10"
    "dualstack/imix"
    "ipv6/66"
    "ipv6/84"
    "ipv6/128"
    "ipv6/256"
    "ipv6/512"
    "ipv6/1024"
    "ipv6/1280"
    "ipv6/1518"
    "ipv6/chain"
    "ipv4/options"
    "ipv4/fragments"
    "ipv4/ttl-1"
    "ipv6/destination-options"
    "ipv6/fragment"
    "ipv6/hop-by-hop"
    "ipv6/routing"
    "bench/udp-1pkt-simple"
    "bench/var1"
    "bench/var2"
    "bench/vm-none"
}

/// The folder of the user's own profiles.
const LOCAL: &str = "profiles";

/// A profile and its origin.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The profile.
    pub profile: Profile,
    /// Its file; `None` for a shipped profile.
    pub path: Option<PathBuf>,
}

impl Loaded {
    /// Opens a capture file of the profile, relative to the folder of the profile.
    pub fn open_capture(&self, name: &str) -> io::Result<Box<dyn io::Read>> {
        let folder = self.path.as_deref().and_then(Path::parent);
        let file = std::fs::File::open(folder.unwrap_or(Path::new("")).join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a file"));
        }
        Ok(Box::new(file))
    }
}

/// Returns the profile with this name: a path, a name in `./profiles`, or a shipped one.
pub fn load(name: &str) -> anyhow::Result<Loaded> {
    load_from(Path::new(""), name)
}

/// Like [`load`], for a name in a file of this folder.
pub fn load_from(folder: &Path, name: &str) -> anyhow::Result<Loaded> {
    let local = folder.join(LOCAL).join(format!("{name}.toml"));
    if name.ends_with(".toml") || name.starts_with('.') || Path::new(name).is_absolute() {
        return read(&folder.join(name));
    }
    if local.is_file() {
        let mut loaded = read(&local)?;
        loaded.profile.name = name.to_owned();
        return Ok(loaded);
    }
    match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        Some((name, text)) => Ok(Loaded {
            profile: Profile::parse(name, text)?,
            path: None,
        }),
        None => Err(Usage(format!(
            "there is no profile `{name}`, neither shipped nor as {}; `fwdlab traffic profile ls` lists them, and the name of your own \
             file must end in .toml",
            local.display()
        ))
        .into()),
    }
}

fn read(path: &Path) -> anyhow::Result<Loaded> {
    let shown = path.display();
    let metadata =
        std::fs::metadata(path).map_err(|error| Usage(format!("cannot read {shown}: {error}")))?;
    if !metadata.is_file() || metadata.len() > LARGEST_FILE as u64 {
        return Err(Usage(format!(
            "{shown} is not a profile: a profile has at most {LARGEST_FILE} bytes"
        ))
        .into());
    }
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(text)
        .map_err(|_| Usage(format!("{shown} is not a profile: it is not text (UTF-8)")))?;
    let mut profile = Profile::parse(&shown.to_string(), &text)?;
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    profile.name = stem.unwrap_or_default();
    Ok(Loaded {
        profile,
        path: Some(path.to_owned()),
    })
}

/// Returns all profiles by name, or the errors in them. Local profiles come first and take
/// precedence.
pub fn list() -> Vec<(String, anyhow::Result<Loaded>)> {
    let mut all: Vec<(String, anyhow::Result<Loaded>)> = Vec::new();
    for name in local_names(Path::new(LOCAL), "", 0) {
        let loaded = load(&name);
        all.push((name, loaded));
    }
    for (name, _) in SHIPPED {
        if !all.iter().any(|(known, _)| known == name) {
            all.push((String::from(*name), load(name)));
        }
    }
    all
}

/// Returns the sorted names of the profiles in a folder and its subfolders.
fn local_names(folder: &Path, prefix: &str, depth: usize) -> Vec<String> {
    const DEEPEST: usize = 4;
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if path.is_dir() && depth < DEEPEST {
            names.extend(local_names(&path, &format!("{prefix}{name}/"), depth + 1));
        } else if let Some(stem) = name.strip_suffix(".toml") {
            names.push(format!("{prefix}{stem}"));
        }
    }
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
        let mut shipped: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        shipped.sort_unstable();
        let mut files = local_names(&folder, "", 0);
        files.sort();
        assert_eq!(shipped, files);
        for (name, text) in SHIPPED {
            let profile = Profile::parse(name, text).unwrap();
            assert!(
                !profile.about.is_empty() && profile.source.is_some(),
                "{name}"
            );
        }
    }
}
