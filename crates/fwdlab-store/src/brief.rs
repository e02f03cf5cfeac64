//! Files of a run without what identifies its host and user: the kernel's command line, and
//! directories of the command.
//!
//! Only headers contain that: `run.json`, and the events in which a run begins, continues, or has
//! its test bed. Everything else stays unchanged, byte for byte, and checksums are those of the new
//! content. The page is omitted because it is derived. Start with [`files`].

use std::fs;
use std::path::Path;

use fwdlab_model::facts::ShownFacts;
use serde_json::Value;

use crate::error::StoreError;
use crate::files::{CHECKSUMS, EVENTS, REPORT, REQUESTS, RUN};
use crate::seal::{self, Seal};

/// The checksum of a line or a file, its last member.
const SUM: &str = "crc32";

/// The name of a file, and its new content; `None` if it is omitted.
pub(crate) type Changed = (&'static str, Option<Vec<u8>>);

/// Returns what replaces files of a run in an archive: their new content, or nothing.
pub(crate) fn files(run: &Path) -> Result<Vec<Changed>, StoreError> {
    let read = |name: &str| {
        let path = run.join(name);
        match path.exists() {
            true => (fs::read(&path).map(Some)).map_err(StoreError::system("read", &path)),
            false => Ok(None),
        }
    };
    let bad = |name: &str| StoreError::NotBrief {
        path: run.join(name),
    };
    let mut all = vec![(REPORT, None), (REQUESTS, None)];
    if let Some(text) = read(RUN)? {
        all.push((RUN, Some(head(&text).ok_or_else(|| bad(RUN))?)));
    }
    if let Some(text) = read(EVENTS)? {
        all.push((EVENTS, Some(journal(&text).ok_or_else(|| bad(EVENTS))?)));
    }
    if let Some(list) = read(CHECKSUMS)? {
        let list = String::from_utf8_lossy(&list).into_owned();
        let mut text = String::new();
        for line in seal::entries(&list).lines() {
            let name = line.rsplit_once(' ').map_or(line, |(name, _)| name);
            match all.iter().find(|(own, _)| *own == name) {
                Some((_, None)) => {}
                Some((_, Some(content))) => {
                    text += &format!("{name} {:08X}\n", crc32fast::hash(content));
                }
                // of unchanged files: damage from before must still be detected
                None => text += &format!("{line}\n"),
            }
        }
        // a list that is damaged, or has no checksum, stays so
        match seal::check_list(&list) {
            Seal::Intact => seal::seal_list(&mut text),
            _ => text += &list[seal::entries(&list).len()..],
        }
        all.push((CHECKSUMS, Some(text.into_bytes())));
    }
    Ok(all)
}

/// Shortens the header of a run; `None` if it is damaged.
fn head(text: &[u8]) -> Option<Vec<u8>> {
    let (mut value, is_sealed) = opened(text)?;
    shorten(&mut value);
    let mut text = serde_json::to_vec_pretty(&value).ok()?;
    match is_sealed {
        true => seal::file(&mut text),
        false => text.push(b'\n'),
    }
    Some(text)
}

/// Shortens the headers in a journal.
fn journal(text: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let whole = line.strip_suffix(b"\n").unwrap_or(line);
        let has_head = [&b"\"info\":"[..], b"\"facts\":"]
            .iter()
            .any(|key| whole.windows(key.len()).any(|part| part == *key));
        if !has_head {
            all.extend_from_slice(line);
            continue;
        }
        let (mut value, is_sealed) = opened(whole)?;
        for key in ["info", "facts"] {
            if let Some(own) = value.get_mut(key) {
                shorten(own);
            }
        }
        let begin = all.len();
        all.extend(serde_json::to_vec(&value).ok()?);
        if is_sealed {
            seal::line(&mut all, begin);
        }
        all.extend_from_slice(&line[whole.len()..]);
    }
    Some(all)
}

/// Returns an undamaged text without its checksum, and whether it had one.
fn opened(text: &[u8]) -> Option<(Value, bool)> {
    let is_sealed = match seal::check(text) {
        Seal::Intact => true,
        Seal::None => false,
        Seal::Broken => return None,
    };
    let mut value: Value = serde_json::from_slice(text).ok()?;
    value.as_object_mut()?.remove(SUM);
    Some((value, is_sealed))
}

/// Removes everything that identifies somebody from a header or facts.
fn shorten(value: &mut Value) {
    let Some(own) = value.as_object_mut() else {
        return;
    };
    own.remove("kernel_command_line");
    if let Some(facts) = own.get_mut("facts").and_then(Value::as_object_mut) {
        facts.remove("kernel_command_line");
    }
    for key in ["command_line", "parameters"] {
        if let Some(words) = own.get_mut(key) {
            without_directories(words);
        }
    }
}

fn without_directories(value: &mut Value) {
    match value {
        Value::String(word) => *word = ShownFacts::Brief.word(word),
        Value::Array(all) => all.iter_mut().for_each(without_directories),
        Value::Object(all) => all.values_mut().for_each(without_directories),
        _ => {}
    }
}
