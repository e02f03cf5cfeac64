//! Lab and pkt-gen configurations of the archive: files of shell assignments, which are parsed and
//! never run.
//!
//! Only the description of frames is read; a value that needs shell evaluation is ignored. Start
//! with [`Traffic::parse`].

use fwdlab_model::trial::IpVersion;

use super::command::flows;
use super::scan::whole;

/// The frames of a pkt-gen configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frame size with FCS: `PKT_SIZE` plus 4.
    pub frame_size_bytes: Option<u32>,
    /// `AF`.
    pub ip_version: Option<IpVersion>,
    /// From `SENDER_LAB_NET` and `RECEIVER_LAB_NET`, if both are given.
    pub flows: Option<u64>,
}

impl Traffic {
    /// Parses `KEY="value"` and `: ${KEY:="value"}`; the last assignment counts.
    pub fn parse(bytes: &[u8]) -> Traffic {
        let mut traffic = Traffic::default();
        let (mut source, mut destination) = (None, None);
        for line in bytes.split(|byte| *byte == b'\n') {
            let Some((key, value)) = assignment(line.trim_ascii()) else {
                continue;
            };
            match key {
                b"PKT_SIZE" => {
                    let size = whole(value).and_then(|size| u32::try_from(size).ok());
                    traffic.frame_size_bytes = size.and_then(|size| size.checked_add(4));
                }
                b"AF" => {
                    traffic.ip_version = match value {
                        b"4" => Some(IpVersion::Ipv4),
                        b"6" => Some(IpVersion::Ipv6),
                        _ => None,
                    }
                }
                b"SENDER_LAB_NET" => source = Some(value),
                b"RECEIVER_LAB_NET" => destination = Some(value),
                _ => {}
            }
        }
        if source.is_some() && destination.is_some() {
            traffic.flows = flows(source, destination);
        }
        traffic
    }
}

fn assignment(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (line, end): (&[u8], &[u8]) = match line.strip_prefix(b": ${") {
        Some(inner) => (inner.strip_suffix(b"}")?, b":="),
        None => (line, b"="),
    };
    let at = super::scan::find(line, end)?;
    let (key, value) = (&line[..at], &line[at + end.len()..]);
    let name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    if key.is_empty() || !key.iter().all(name) {
        return None;
    }
    let value = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""))
        .unwrap_or(value);
    Some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_assignment() {
        let lab = b"#!/bin/sh\n: ${AF:=\"4\"}\n: ${SENDER_LAB_NET:=\"198.18.10.1:2001-198.18.10.20\"}\n: ${RECEIVER_LAB_NET:=\"198.19.10.1:2001-198.19.10.100\"}\n: ${PKT_SIZE:=\"60\"}\n";
        assert_eq!(
            Traffic::parse(lab),
            Traffic {
                frame_size_bytes: Some(64),
                ip_version: Some(IpVersion::Ipv4),
                flows: Some(2000)
            }
        );
        let six = b"PKT_SIZE=\"62\"\nAF=\"6\"\nSENDER_LAB_NET=\"\\\"[2001:2:0:10::1]-[2001:2:0:10::14]\\\"\"\nRECEIVER_LAB_NET=\"\\\"[2001:2:0:8010::1]-[2001:2:0:8010::64]\\\"\"\n";
        assert_eq!(
            Traffic::parse(six),
            Traffic {
                frame_size_bytes: Some(66),
                ip_version: Some(IpVersion::Ipv6),
                flows: Some(2000)
            }
        );
        assert_eq!(
            Traffic::parse(b"PKT_SIZE=$(reboot)\n\xff=\n=\n"),
            Traffic::default()
        );
    }
}
