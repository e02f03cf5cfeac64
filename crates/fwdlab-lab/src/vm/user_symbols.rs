//! Names for the addresses of a program in user space, for the plugin that counts by function.
//!
//! They come from the symbols of the files that the process has mapped. What lies between
//! functions, or in a file without symbols, gets the name of the file. Counts nothing. Start with
//! [`of_maps`].

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::initramfs::elf;

/// What is not named.
const USER: &str = "[user]";

/// Returns names in lines of `/proc/kallsyms` for the code in a process's `/proc/PID/maps`; `read`
/// reads a file that it has mapped. The program is called `name`, whatever its file is called.
pub(crate) fn of_maps(
    maps: &str,
    (program, name): (&Path, &str),
    read: impl Fn(&Path) -> Option<Vec<u8>>,
) -> String {
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for mapping in maps.lines().filter_map(Mapping::parse) {
        let file = mapping
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        // `librte_ethdev.so.23.0` is `librte_ethdev`; `[vdso]` stays
        let short = file.split(".so").next().unwrap_or_default();
        let tag = match short.starts_with('[') {
            true => short.to_owned(),
            false if mapping.path == program => format!("[{name}]"),
            false => format!("[{short}]"),
        };
        names.entry(mapping.end).or_insert_with(|| USER.into());
        names.insert(mapping.begin, tag.clone());
        let Some(content) = read(mapping.path) else {
            continue;
        };
        let Some(loaded) = elf::address_of(&content, mapping.offset) else {
            continue;
        };
        let mut functions = elf::functions(&content);
        functions.sort();
        let mut covered = mapping.begin;
        for (address, size, name) in functions {
            let Some(begin) = address.checked_sub(loaded).map(|at| mapping.begin + at) else {
                continue;
            };
            if begin >= mapping.end {
                break;
            }
            if begin > covered {
                names.insert(covered, tag.clone());
            }
            names.insert(begin, format!("{name} {tag}"));
            covered = covered.max(begin.saturating_add(size));
        }
        if covered < mapping.end {
            names.entry(covered).or_insert(tag);
        }
    }
    let mut lines = String::new();
    for (address, name) in names {
        let _ = writeln!(lines, "{address:016x} t {name}");
    }
    lines
}

/// Returns the loader of a program, which is the first word of a command that executes it; `None`
/// for a static one.
pub(crate) fn loader(program: &Path) -> Option<String> {
    elf::needs(&fs::read(program).ok()?)?.interpreter
}

/// Code of a file that is mapped: `7f00-7f10 r-xp 00003000 fe:00 156 /usr/lib/libc.so.6`.
struct Mapping<'a> {
    begin: u64,
    end: u64,
    offset: u64,
    path: &'a Path,
}

impl Mapping<'_> {
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        if !words.next()?.contains('x') {
            return None;
        }
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping {
            begin: hex(begin)?,
            end: hex(end)?,
            offset: hex(words.next()?)?,
            path: Path::new(words.nth(2)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of this process, and its libraries, at their addresses.
    #[test]
    fn functions_of_a_process_have_their_names() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let program = fs::read_link("/proc/self/exe").unwrap();
        let lines = of_maps(&maps, (&program, "this"), |path| fs::read(path).ok());
        let all: BTreeMap<u64, &str> = lines
            .lines()
            .map(|line| {
                let (address, name) = line.split_once(" t ").unwrap();
                (u64::from_str_radix(address, 16).unwrap(), name)
            })
            .collect();
        let name_at = |address: u64| *all.range(..=address).next_back().unwrap().1;
        // in the middle of the first instructions
        let own = name_at(loader as *const () as u64 + 1);
        assert!(own.contains("loader") && own.ends_with(" [this]"), "{own}");
        assert_eq!(name_at(0xffff_ffff_f000), USER, "{lines}");

        // without the files, the file is the name
        let bare = of_maps(&maps, (Path::new(""), ""), |_| None);
        assert!(bare.contains(" t [libc]\n"), "{bare}");
        assert!(!bare.contains("loader"), "{bare}");
    }
}
