//! Reads types and functions of the running kernel from its BTF (`Documentation/bpf/btf.rst`).
//!
//! Parses only as much as it needs to step from type to type. Start with [`read`].

use std::{fs, io};

/// The BTF of the running kernel.
pub(crate) const FILE: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const ENUM: u32 = 6;
const FUNCTION: u32 = 12;

/// Reads the BTF of the running kernel.
pub(crate) fn read() -> io::Result<Vec<u8>> {
    fs::read(FILE)
}

/// Returns the type id of the function with this name; `None` if there is none, or the bytes are
/// not BTF of this machine.
pub(crate) fn function(btf: &[u8], name: &str) -> Option<u32> {
    let parts = Parts::parse(btf)?;
    let found = parts
        .types()
        .find(|of| of.kind == FUNCTION && parts.string(of.label) == Some(name));
    found.map(|of| of.number)
}

/// Returns values and names of an enum; `None` if there is none, or the bytes are not BTF.
pub(crate) fn enum_values<'a>(btf: &'a [u8], name: &str) -> Option<Vec<(u32, &'a str)>> {
    let parts = Parts::parse(btf)?;
    let found = parts
        .types()
        .find(|of| of.kind == ENUM && parts.string(of.label) == Some(name))?;
    (found.rest.chunks(8))
        .map(|member| Some((word(member, 4)?, parts.string(word(member, 0)?)?)))
        .collect()
}

/// The type section and the string section.
#[derive(Clone, Copy)]
struct Parts<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

/// One type.
struct Type<'a> {
    number: u32,
    label: u32,
    kind: u32,
    /// The bytes behind the twelve common ones.
    rest: &'a [u8],
}

impl<'a> Parts<'a> {
    fn parse(btf: &'a [u8]) -> Option<Parts<'a>> {
        if u16::from_ne_bytes(*btf.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(btf, 4)? as usize;
        let part = |at: usize| {
            let (offset, length) = (word(btf, at)? as usize, word(btf, at + 4)? as usize);
            btf.get(header.checked_add(offset)?..)?.get(..length)
        };
        Some(Parts {
            types: part(8)?,
            strings: part(16)?,
        })
    }

    fn types(self) -> impl Iterator<Item = Type<'a>> {
        let mut at = 0;
        (1..).map_while(move |number| {
            let (label, info) = (word(self.types, at)?, word(self.types, at + 4)?);
            let (kind, members) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let rest = self
                .types
                .get(at + 12..)?
                .get(..trailing_bytes(kind, members))?;
            at += 12 + rest.len();
            Some(Type {
                number,
                label,
                kind,
                rest,
            })
        })
    }

    fn string(self, at: u32) -> Option<&'a str> {
        let text = self.strings.get(at as usize..)?;
        std::str::from_utf8(&text[..text.iter().position(|&byte| byte == 0)?]).ok()
    }
}

/// Returns the number of bytes behind the 12 common ones.
fn trailing_bytes(kind: u32, members: usize) -> usize {
    match kind {
        // int, variable, declaration tag
        1 | 14 | 17 => 4,
        // array
        3 => 12,
        // struct, union, section, 64-bit enum
        4 | 5 | 15 | 19 => 12 * members,
        // enum, function prototype
        ENUM | 13 => 8 * members,
        _ => 0,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: an int, a struct of two of them, `enum skb_drop_reason { SKB_NOT_DROPPED_YET,
    /// SKB_DROP_REASON_NO_SOCKET = 3 }`, a prototype with one argument, and two functions of it.
    fn example() -> Vec<u8> {
        let names = [
            "int",
            "pair",
            "skb_drop_reason",
            "SKB_NOT_DROPPED_YET",
            "SKB_DROP_REASON_NO_SOCKET",
            "asked_more",
            "asked",
        ];
        let strings = format!("\0{}\0", names.join("\0"));
        let [int, pair, reason, not_yet, no_socket, asked_more, asked] =
            names.map(|name| strings.find(&format!("\0{name}\0")).unwrap() as u32 + 1);
        let types: &[&[u32]] = &[
            &[int, 1 << 24, 4, 32],
            &[pair, 4 << 24 | 2, 8, 0, 1, 0, 0, 1, 32],
            &[reason, 6 << 24 | 2, 4, not_yet, 0, no_socket, 3],
            &[0, 13 << 24 | 1, 1, 0, 1],
            &[asked_more, 12 << 24, 4],
            &[asked, 12 << 24, 4],
        ];
        let types = types.concat();
        let bytes = types.len() as u32 * 4;
        let header = [24, 0, bytes, bytes, strings.len() as u32];
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        btf.extend(
            header
                .iter()
                .chain(&types)
                .flat_map(|word| word.to_ne_bytes()),
        );
        btf.extend(strings.as_bytes());
        btf
    }

    #[test]
    fn an_enum_is_found_behind_other_types() {
        let btf = example();
        assert_eq!(
            enum_values(&btf, "skb_drop_reason").unwrap(),
            [(0, "SKB_NOT_DROPPED_YET"), (3, "SKB_DROP_REASON_NO_SOCKET")]
        );
        assert_eq!(enum_values(&btf, "int"), None);
    }

    #[test]
    fn functions_are_numbered_among_all_types() {
        let btf = example();
        assert_eq!(function(&btf, "asked_more"), Some(5));
        assert_eq!(function(&btf, "asked"), Some(6));
        assert_eq!(function(&btf, "pair"), None, "a struct");
        assert_eq!(function(&btf, "ask"), None);
    }

    #[test]
    fn bytes_that_are_no_btf_or_cut_off_give_nothing() {
        let btf = example();
        assert_eq!(enum_values(b"", "skb_drop_reason"), None);
        assert_eq!(enum_values(&[0; 100], "skb_drop_reason"), None);
        for length in 0..btf.len() {
            assert_eq!(
                enum_values(&btf[..length], "skb_drop_reason"),
                None,
                "{length}"
            );
            assert_eq!(function(&btf[..length], "asked"), None, "{length}");
        }
        for at in 0..btf.len() {
            let mut lie = btf.clone();
            lie[at] = 0xff;
            let _ = (
                enum_values(&lie, "skb_drop_reason"),
                function(&lie, "asked"),
            );
        }
    }
}
