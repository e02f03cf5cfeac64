//! What the running kernel calls its drop reasons: the values of `enum skb_drop_reason` in its BTF.
//!
//! The numbers change from release to release, so no table of ours could be right. tracefs prints the same names but is
//! often not mounted, and the tracepoint program needs BTF anyway. Start with [`Names`].

use std::collections::HashMap;
use std::{fs, io};

/// Number to name.
pub(super) struct Names(HashMap<u32, String>);

impl Names {
    /// Reads `/sys/kernel/btf/vmlinux`.
    pub(super) fn of_running_kernel() -> io::Result<Names> {
        let btf = fs::read("/sys/kernel/btf/vmlinux")?;
        let values = enum_values(&btf, "skb_drop_reason").ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "this kernel's BTF has no enum skb_drop_reason",
            )
        })?;
        let plain = |name: &str| {
            let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
            name.to_lowercase().replace('_', " ")
        };
        Ok(Names(
            values
                .into_iter()
                .map(|(value, name)| (value, plain(name)))
                .collect(),
        ))
    }

    /// The name of a reason as counted by `bpf/drops.bpf.c`.
    pub(super) fn name(&self, reason: u32) -> String {
        // nothing is dropped for the reason "not dropped yet": the program counts the rest there
        if reason == 0 {
            return "other".into();
        }
        self.0
            .get(&reason)
            .cloned()
            .unwrap_or_else(|| format!("reason {reason}"))
    }
}

const MAGIC: u16 = 0xeb9f;
const KIND_ENUM: u32 = 6;

/// Values and names of an enum in BTF (`Documentation/bpf/btf.rst` §2 and §4.1); `None` if it is not there or no BTF.
fn enum_values<'a>(btf: &'a [u8], wanted: &str) -> Option<Vec<(u32, &'a str)>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*btf.get(at..)?.first_chunk()?));
    if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
        return None;
    }
    let header = word(4)? as usize;
    let types = header + word(8)? as usize;
    let types_end = types + word(12)? as usize;
    let strings = header + word(16)? as usize;
    let string = |offset: u32| {
        let text = btf.get(strings.checked_add(offset as usize)?..)?;
        std::str::from_utf8(&text[..text.iter().position(|&byte| byte == 0)?]).ok()
    };
    let mut at = types;
    while at < types_end {
        let (name, info) = (word(at)?, word(at + 4)?);
        at += 12;
        let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        if kind == KIND_ENUM && string(name)? == wanted {
            return (at..)
                .step_by(8)
                .take(members)
                .map(|member| Some((word(member + 4)?, string(word(member)?)?)))
                .collect();
        }
        at += trailing_bytes(kind, members);
    }
    None
}

/// What follows a type's 12 bytes.
fn trailing_bytes(kind: u32, members: usize) -> usize {
    match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => 4,
        // array
        3 => 12,
        // struct, union, section, 64-bit enum
        4 | 5 | 15 | 19 => 12 * members,
        // enum, function prototype
        KIND_ENUM | 13 => 8 * members,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An int, then `enum skb_drop_reason { SKB_NOT_DROPPED_YET, SKB_DROP_REASON_NO_SOCKET = 3 }`.
    fn small_btf() -> Vec<u8> {
        let strings = b"\0int\0skb_drop_reason\0SKB_NOT_DROPPED_YET\0SKB_DROP_REASON_NO_SOCKET\0";
        let types: [u32; 11] = [
            1,
            1 << 24,
            4,
            32, // int, size 4, 32 bits
            5,
            KIND_ENUM << 24 | 2,
            4, // enum with two members
            21,
            0,
            41,
            3,
        ];
        let mut btf = vec![];
        btf.extend(MAGIC.to_ne_bytes());
        btf.extend([1, 0]);
        let types_bytes = size_of_val(&types) as u32;
        for word in [24, 0, types_bytes, types_bytes, strings.len() as u32] {
            btf.extend(word.to_ne_bytes());
        }
        types.iter().for_each(|word| btf.extend(word.to_ne_bytes()));
        btf.extend(strings);
        btf
    }

    #[test]
    fn an_enum_is_found_behind_other_types() {
        let btf = small_btf();
        let values = enum_values(&btf, "skb_drop_reason").unwrap();
        assert_eq!(
            values,
            [(0, "SKB_NOT_DROPPED_YET"), (3, "SKB_DROP_REASON_NO_SOCKET")]
        );
        assert_eq!(enum_values(&btf, "int"), None);
    }

    #[test]
    fn bytes_that_are_no_btf_or_cut_off_give_nothing() {
        let btf = small_btf();
        assert_eq!(enum_values(b"", "skb_drop_reason"), None);
        assert_eq!(enum_values(&[0; 100], "skb_drop_reason"), None);
        for length in 0..btf.len() {
            assert_eq!(
                enum_values(&btf[..length], "skb_drop_reason"),
                None,
                "{length}"
            );
        }
    }
}
