//! Reads programs and libraries without running them: which libraries they need, and where their
//! debug sections begin.
//!
//! Only 64-bit little-endian ELF files, which the emulated machine runs; a damaged file is treated
//! as no program, and never panics. Start with [`needs`] and [`cut`]; names are those of elf(5).

use std::fs;
use std::path::{Path, PathBuf};

/// What the dynamic loader must find before a program runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ElfNeeds {
    /// The dynamic loader.
    pub(crate) interpreter: Option<String>,
    /// Names of libraries.
    pub(crate) libraries: Vec<String>,
    /// Directories that are searched first; `$ORIGIN` is the program's own.
    pub(crate) folders: Vec<String>,
}

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const PF_X: u64 = 1;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const SHT_SYMTAB: u64 = 2;
const SHT_DYNSYM: u64 = 11;
/// STT_FUNC and STT_GNU_IFUNC.
const STT_FUNC: [u64; 2] = [2, 10];
/// Length of an entry of a table of symbols.
const SYMBOL: u64 = 24;

/// The relevant fields of a program header.
struct Segment {
    kind: u64,
    is_code: bool,
    offset: u64,
    address: u64,
    length: u64,
}

/// Reads a number of this many bytes.
fn number(file: &[u8], at: u64, bytes: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let field = file.get(at..at.checked_add(bytes)?)?;
    Some(
        field
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)),
    )
}

fn segments(file: &[u8]) -> Option<Vec<Segment>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (
        number(file, 32, 8)?,
        number(file, 54, 2)?,
        number(file, 56, 2)?,
    );
    let segment = |i: u64| {
        let at = table.checked_add(i * size)?;
        Some(Segment {
            kind: number(file, at, 4)?,
            is_code: number(file, at.checked_add(4)?, 4)? & PF_X != 0,
            offset: number(file, at.checked_add(8)?, 8)?,
            address: number(file, at.checked_add(16)?, 8)?,
            length: number(file, at.checked_add(32)?, 8)?,
        })
    };
    (0..count).map(segment).collect()
}

/// Returns the program without what only debuggers read: everything after the last loaded segment.
/// `None` if it is not such a program.
pub(super) fn cut(file: &[u8]) -> Option<Vec<u8>> {
    let segments = segments(file)?;
    let loaded = segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let ends = loaded.map(|segment| segment.offset.checked_add(segment.length));
    let end = usize::try_from(ends.collect::<Option<Vec<_>>>()?.into_iter().max()?).ok()?;
    let mut short = file.get(..end.max(64))?.to_vec();
    // e_shoff, e_shnum and e_shstrndx: there are no sections any more
    short[40..48].fill(0);
    short[60..64].fill(0);
    Some(short)
}

/// Returns what a program or library needs; `None` if it is neither.
pub(crate) fn needs(file: &[u8]) -> Option<ElfNeeds> {
    let segments = segments(file)?;
    let mut needs = ElfNeeds::default();
    if let Some(segment) = segments.iter().find(|segment| segment.kind == PT_INTERP) {
        needs.interpreter = text(file, segment.offset);
    }
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else {
        return Some(needs);
    };
    let entry = |i: u64| {
        let at = dynamic.offset.checked_add(i * 16)?;
        Some((number(file, at, 8)?, number(file, at.checked_add(8)?, 8)?))
    };
    let entries: Vec<(u64, u64)> = (0..dynamic.length / 16)
        .map_while(entry)
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let Some(&(_, names)) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB) else {
        return Some(needs);
    };
    let names = segments.iter().find_map(|segment| {
        let within = names.checked_sub(segment.address)?;
        let holds_it = segment.kind == PT_LOAD && within < segment.length;
        holds_it.then(|| segment.offset.checked_add(within))?
    })?;
    for (tag, value) in entries {
        let text = || text(file, names.checked_add(value)?);
        match tag {
            DT_NEEDED => needs.libraries.push(text()?),
            DT_RPATH | DT_RUNPATH => needs.folders.extend(text()?.split(':').map(str::to_owned)),
            _ => {}
        }
    }
    Some(needs)
}

/// Returns the address of what is at an offset of the file, if it is code.
pub(crate) fn address_of(file: &[u8], offset: u64) -> Option<u64> {
    segments(file)?.iter().find_map(|segment| {
        // the kernel maps whole pages
        let (first, page) = (segment.offset & !0xfff, segment.address & !0xfff);
        let within = offset.checked_sub(first)?;
        (segment.kind == PT_LOAD && segment.is_code && within < segment.length + 0x1000)
            .then(|| page + within)
    })
}

/// Returns address, length and name of the functions of a program or library, as far as it has
/// symbols.
pub(crate) fn functions(file: &[u8]) -> Vec<(u64, u64, String)> {
    let whole = symbols_of(file, SHT_SYMTAB);
    match whole.is_empty() {
        true => symbols_of(file, SHT_DYNSYM),
        false => whole,
    }
}

/// Returns the functions of a table of symbols.
fn symbols_of(file: &[u8], kind: u64) -> Vec<(u64, u64, String)> {
    let header = |section: u64, field: u64, bytes: usize| {
        let at = number(file, 40, 8)?.checked_add(section * number(file, 58, 2)?)?;
        number(file, at.checked_add(field)?, bytes)
    };
    let sections = number(file, 60, 2).unwrap_or(0);
    let is_table = |section: &u64| header(*section, 4, 4) == Some(kind);
    let Some(table) = (0..sections).find(is_table) else {
        return Vec::new();
    };
    let names = header(table, 40, 4).and_then(|names| header(names, 24, 8));
    let (Some(begin), Some(size), Some(names)) =
        (header(table, 24, 8), header(table, 32, 8), names)
    else {
        return Vec::new();
    };
    let function = |at: u64| {
        let at = begin.checked_add(at * SYMBOL)?;
        let field = |offset: u64, bytes| number(file, at.checked_add(offset)?, bytes);
        let is_function = STT_FUNC.contains(&(field(4, 1)? & 15)) && field(6, 2)? != 0;
        let name = || text(file, names.checked_add(field(0, 4)?)?);
        is_function.then(|| Some((field(8, 8)?, field(16, 8)?, name()?)))?
    };
    (0..size / SYMBOL).filter_map(function).collect()
}

fn text(file: &[u8], at: u64) -> Option<String> {
    let rest = file.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// Returns where the dynamic loader searches libraries, on this machine or in packages unpacked
/// below a directory.
pub(crate) fn library_folders(root: Option<&Path>) -> Vec<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let usual = [format!("/usr/lib/{triplet}"), format!("/lib/{triplet}")];
    let usual = usual
        .into_iter()
        .chain(["/usr/lib64", "/lib64", "/usr/lib", "/lib"].map(str::to_owned));
    match root {
        Some(root) => usual
            .map(|folder| root.join(&folder[1..]))
            .filter(|folder| folder.is_dir())
            .collect(),
        None => configured()
            .into_iter()
            .chain(usual)
            .map(PathBuf::from)
            .filter(|folder| folder.is_dir())
            .collect(),
    }
}

/// Returns directories that an administrator added in ld.so.conf(5).
fn configured() -> Vec<String> {
    let files = super::super::image::cache::entries(Path::new("/etc/ld.so.conf.d"));
    let texts = files
        .chain([PathBuf::from("/etc/ld.so.conf")])
        .filter_map(|file| fs::read_to_string(file).ok());
    let lines = texts.flat_map(|text| {
        text.lines()
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let mut folders: Vec<String> = lines.filter(|line| line.starts_with('/')).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::host::{Command, Host, Limit, Local};

    #[test]
    fn a_program_without_its_debug_sections_runs() {
        let own = fs::read("/proc/self/exe").unwrap();
        let short = cut(&own).unwrap();
        assert!(
            short.len() * 10 < own.len() * 9,
            "{} of {}",
            short.len(),
            own.len()
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short");
        fs::write(&path, &short).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        // this test program, which only lists its tests; the shell retries while another test's
        // child holds the file open
        let line = format!(
            "for i in 1 2 3 4 5 6 7 8 9; do {0} --list && exit; sleep 0.1; done",
            path.display()
        );
        let output = Local.run(&Command::shell(&line), Limit::OURS).unwrap();
        assert!(
            output
                .text()
                .contains("a_program_without_its_debug_sections_runs: test")
        );
        // cutting it again changes nothing
        assert_eq!(cut(&short).as_deref(), Some(&short[..]));
    }

    /// Compares with the libraries that the loader has loaded.
    #[test]
    fn a_program_needs_what_the_loader_loads() {
        let own = needs(&fs::read("/proc/self/exe").unwrap()).unwrap();
        assert!(
            own.libraries.iter().any(|name| name == "libc.so.6"),
            "{own:?}"
        );
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        assert!(
            own.libraries
                .iter()
                .all(|name| maps.contains(name.trim_end_matches(char::is_numeric))),
            "{own:?}"
        );
        assert!(
            own.interpreter
                .is_some_and(|path| Path::new(&path).exists())
        );
    }

    #[test]
    fn damaged_files_are_no_programs() {
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(needs(b"#!/bin/sh\n"), None);
        assert_eq!(cut(b""), None);
        for length in [5, 20, 60, 64, 100, 500, 800] {
            assert_eq!(cut(&own[..length]), None);
            _ = (needs(&own[..length]), functions(&own[..length]));
        }
        let mut wild = own[..4096].to_vec();
        for at in 16..800 {
            wild[at] = 0xff;
            if at >= 128 && at % 8 != 7 {
                continue;
            }
            _ = (needs(&wild), cut(&wild), functions(&wild));
            _ = address_of(&wild, 4096);
        }
    }
}
