//! How a card of a Linux host spreads flows over its receive queues, as ethtool prints it. Start
//! with [`Hashing::of`].

use crate::error::LabError;
use crate::host::Host;

/// Kinds of packets for which a card has fields of its own.
const KINDS: [&str; 4] = ["udp4", "tcp4", "udp6", "tcp6"];

/// How a card chooses a receive queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashing {
    /// The key of the Toeplitz hash.
    pub key: Vec<u8>,
    /// The queues of the indirection table.
    pub table: Vec<u32>,
    /// What it hashes of each kind of packet: the kind, and the letters of the fields, both as
    /// ethtool writes them.
    pub fields: Vec<(&'static str, String)>,
}

impl Hashing {
    /// Reads it from a card.
    ///
    /// # Errors
    /// The driver does not show it, or uses another function.
    pub fn of(host: &dyn Host, port: &str) -> Result<Hashing, LabError> {
        let unknown = |reason: &str| {
            LabError::Preflight(format!(
                "the queues of {port} on {} cannot be predicted: {reason}. See `ethtool -x {port}` and `ethtool -n {port} rx-flow-hash udp4` there",
                host.name()
            ))
        };
        let shown = host.query("ethtool", &["-x", port])?;
        let table = table(&shown);
        let key = key(&shown).ok_or_else(|| unknown("its driver shows no key of a hash"))?;
        if table.is_empty() {
            return Err(unknown("its driver shows no indirection table"));
        }
        if let Some(function) = is_on(&shown).find(|name| *name != "toeplitz") {
            return Err(unknown(&format!(
                "it hashes with {function}, and only Toeplitz's function is known here"
            )));
        }
        let fields = KINDS.map(|kind| {
            let shown = host.query("ethtool", &["-n", port, "rx-flow-hash", kind])?;
            let shown = fields(&shown);
            shown
                .map(|letters| (kind, letters))
                .ok_or_else(|| unknown(&format!("its driver shows no fields for {kind}")))
        });
        Ok(Hashing {
            key,
            table,
            fields: fields.into_iter().collect::<Result<_, LabError>>()?,
        })
    }
}

/// Returns the indirection table; empty if there is none.
pub(super) fn table(text: &str) -> Vec<u32> {
    let table = text
        .split_once("indirection table")
        .map_or("", |(_, table)| table);
    let rows = table.lines().skip(1).map_while(|line| {
        let (at, queues) = line.split_once(':')?;
        at.trim().parse::<u64>().ok()?;
        Some(queues)
    });
    rows.flat_map(str::split_whitespace)
        .filter_map(|queue| queue.parse().ok())
        .collect()
}

fn key(text: &str) -> Option<Vec<u8>> {
    let (_, key) = text.split_once("RSS hash key:\n")?;
    let bytes = key.lines().next()?.trim().split(':');
    let bytes: Result<Vec<u8>, _> = bytes.map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes.ok()
}

/// Returns the functions and transformations of the hash that are on.
fn is_on(text: &str) -> impl Iterator<Item = &str> {
    (text.lines()).filter_map(|line| line.trim().strip_suffix(": on"))
}

/// Returns which fields of a frame are hashed, as the letters that set them.
pub(super) fn fields(text: &str) -> Option<String> {
    let letters = [
        ("IP SA", 's'),
        ("IP DA", 'd'),
        ("L4 bytes 0 & 1", 'f'),
        ("L4 bytes 2 & 3", 'n'),
    ];
    let found: String = letters
        .iter()
        .filter(|(words, _)| text.contains(words))
        .map(|(_, letter)| *letter)
        .collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::Scripted;

    /// Output of ethtool 6.1.
    const TABLE: &str = "RX flow hash indirection table for ens1 with 4 RX ring(s):\n    0:      0     1     2     3     0     1     2     3\n    \
                         8:      0     1     2     3     0     1     2     3\nRSS hash key:\n6d:5a:56:da\nRSS hash function:\n    toeplitz: on\n    xor: off\n    crc32: off\n";
    const UDP: &str =
        "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n";
    const TCP: &str = "TCP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\nL4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n\n";

    fn of(table: &'static str, fields: &'static str) -> Result<Hashing, String> {
        let host = Scripted::new(move |command, _| match command {
            "ethtool -x ens1" => table.into(),
            _ if command.ends_with("rx-flow-hash udp4") => fields.into(),
            _ => TCP.into(),
        });
        Hashing::of(&host, "ens1").map_err(|error| error.to_string())
    }

    #[test]
    fn a_card_is_read_as_ethtool_shows_it() {
        let found = of(TABLE, UDP).unwrap();
        assert_eq!(found.key, [0x6d, 0x5a, 0x56, 0xda]);
        assert_eq!(found.table, [[0, 1, 2, 3]; 4].concat());
        let letters: Vec<String> = found
            .fields
            .iter()
            .map(|(_, one)| one.to_string())
            .collect();
        assert_eq!(letters, ["sd", "sdfn", "sdfn", "sdfn"]);
    }

    #[test]
    fn what_is_not_known_is_no_answer() {
        let refused = "RX flow hash indirection table for ens1 with 1 RX ring(s):\nOperation not supported\nRSS hash key:\nOperation not supported\n";
        let xor: &'static str = TABLE
            .replace("toeplitz: on", "toeplitz: off")
            .replace("xor: off", "xor: on")
            .leak();
        let symmetric: &'static str =
            format!("{TABLE}RSS input transformation:\n    symmetric-xor: on\n").leak();
        for (table, fields, words) in [
            (refused, UDP, "shows no key"),
            (xor, UDP, "hashes with xor"),
            (symmetric, UDP, "hashes with symmetric-xor"),
            (
                TABLE,
                "Cannot get RX network flow hashing options\n",
                "no fields for udp4",
            ),
        ] {
            let error = of(table, fields).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
