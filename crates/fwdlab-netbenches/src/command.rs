//! Parses the command line at the start of a log: program, addresses, frames and flows.
//!
//! It has only what the line contains: a missing option is absent, and defaults of pkt-gen are not
//! filled in. Start with [`Command::parse`].

use fwdlab_model::trial::IpVersion;

use super::scan::{Scan, find, shown, whole, words};

/// Bytes of the FCS, which pkt-gen's `-l` does not include.
const FCS: u32 = 4;

/// The command that was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The host, if the line contains it (`CMD on HOST:`).
    pub host: Option<String>,
    /// `pkt-gen`, `equilibrium`.
    pub program: String,
    /// `rx`, `tx`, `ping`, `pong`.
    pub function: Option<String>,
    /// The port.
    pub interface: Option<String>,
    /// Frames to send (`-n`).
    pub frames: Option<u64>,
    /// Frame size with FCS: the value of `-l` plus 4.
    pub frame_size_bytes: Option<u32>,
    /// Requested frames per second (`-R`).
    pub rate_pps: Option<u64>,
    /// From `-4`, `-6`, or else the form of the addresses.
    pub ip_version: Option<IpVersion>,
    /// Number of combinations of the address and port ranges; absent if none are given.
    pub flows: Option<u64>,
    /// Threads (`-p`).
    pub threads: Option<u64>,
}

impl Command {
    /// Parses `CMD: pkt-gen ...` or `CMD on HOST: ...`; `None` for any other line.
    pub fn parse(line: &[u8]) -> Option<Command> {
        let mut scan = Scan(line.strip_prefix(b"CMD")?);
        let mut command = Command::default();
        if scan.skip_text(b" on ") {
            let colon = find(scan.0, b": ")?;
            command.host = Some(shown(&scan.0[..colon]));
            scan.0 = &scan.0[colon..];
        }
        if !scan.skip_text(b":") {
            return None;
        }
        command.arguments(scan.0);
        Some(command)
    }

    fn arguments(&mut self, text: &[u8]) {
        let mut words = words(text).map(unquoted).peekable();
        // `sudo pkt-gen`, `nice -n -20 pkt-gen`: the program is the first word with the name of
        // one.
        let mut first = None;
        for word in words.by_ref() {
            let name = word.rsplit(|b| *b == b'/').next().unwrap_or(word);
            first.get_or_insert_with(|| shown(name));
            if name == b"pkt-gen" || name.starts_with(b"equilibrium") {
                self.program = shown(name);
                break;
            }
        }
        if self.program.is_empty() {
            self.program = first.unwrap_or_default();
            return;
        }
        let pkt_gen = self.program == "pkt-gen";
        let (mut source, mut destination) = (None, None);
        while let Some(word) = words.next() {
            let [b'-', letter, attached @ ..] = word else {
                continue;
            };
            match letter {
                b'4' => self.ip_version = Some(IpVersion::Ipv4),
                b'6' => self.ip_version = Some(IpVersion::Ipv6),
                b'f' | b'i' | b'n' | b'l' | b'R' | b's' | b'd' | b'p' if pkt_gen => {
                    let value = if attached.is_empty() {
                        words.next().unwrap_or_default()
                    } else {
                        attached
                    };
                    match letter {
                        b'f' => self.function = Some(shown(value)),
                        b'i' => self.interface = Some(shown(value)),
                        b'n' => self.frames = whole(value),
                        b'l' => {
                            let size = whole(value).and_then(|l| u32::try_from(l).ok());
                            self.frame_size_bytes = size.and_then(|l| l.checked_add(FCS));
                        }
                        b'R' => self.rate_pps = whole(value).filter(|rate| *rate > 0),
                        b'p' => self.threads = whole(value),
                        b's' => source = Some(value),
                        _ => destination = Some(value),
                    }
                }
                // MAC addresses and other options whose value could look like an option.
                b'D' | b'S' | b'w' | b'T' | b'a' | b'b' | b'c' | b'P' | b'H' | b'C' | b'm'
                    if pkt_gen && attached.is_empty() =>
                {
                    words.next();
                }
                _ => {}
            }
        }
        self.flows = flows(source, destination);
        if self.ip_version.is_none() {
            self.ip_version = destination.or(source).map(|range| {
                let six = range.contains(&b'[') || range.iter().filter(|b| **b == b':').count() > 1;
                let dotted = range.contains(&b'.');
                if six && !dotted {
                    IpVersion::Ipv6
                } else {
                    IpVersion::Ipv4
                }
            });
        }
    }
}

/// Returns the number of flows of two ranges of addresses and ports in pkt-gen: every combination.
/// `None` if neither is given or one of them is not understood.
pub(super) fn flows(source: Option<&[u8]>, destination: Option<&[u8]>) -> Option<u64> {
    if source.is_none() && destination.is_none() {
        return None;
    }
    let of = |range: Option<&[u8]>| range.map_or(Some(1), combinations);
    of(source)?.checked_mul(of(destination)?)
}

/// Returns addresses times ports of `198.18.10.1:2000-198.18.10.20`, `[2001:2::1]:53-[2001:2::14]`
/// or `2001:2::1-2001:2::14`.
fn combinations(range: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(range).ok()?;
    let text = text.replace(['"', '\'', '\\'], "");
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (end(first)?, end(last)?),
        None => (end(&text)?, end(&text)?),
    };
    let addresses = last.address.checked_sub(first.address)?.checked_add(1)?;
    let ports = match (first.port, last.port) {
        (Some(first), Some(last)) => u64::from(last.checked_sub(first)?) + 1,
        _ => 1,
    };
    u64::try_from(addresses).ok()?.checked_mul(ports)
}

/// One end of a range.
struct End {
    address: u128,
    port: Option<u16>,
}

fn end(text: &str) -> Option<End> {
    use std::net::{Ipv4Addr, Ipv6Addr};
    if let Some(inside) = text.strip_prefix('[') {
        let (address, after) = inside.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        let port = match after.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None => None,
        };
        return Some(End {
            address: address.into(),
            port,
        });
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(End {
            address: address.into(),
            port: None,
        });
    }
    let (address, port) = match text.split_once(':') {
        Some((address, port)) => (address, Some(port.parse().ok()?)),
        None => (text, None),
    };
    let address: Ipv4Addr = address.parse().ok()?;
    Some(End {
        address: u32::from(address).into(),
        port,
    })
}

/// Returns a word without its quotes.
fn unquoted(word: &[u8]) -> &[u8] {
    let start = word.iter().position(|b| !matches!(b, b'"' | b'\''));
    let end = word.iter().rposition(|b| !matches!(b, b'"' | b'\''));
    match (start, end) {
        (Some(start), Some(end)) => &word[start..=end],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Command {
        Command::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_sender_of_2000_flows() {
        let command = parse(
            "CMD on gen.lab: pkt-gen -f tx -N -i igb1 -n 80000000 -l 60 -4 -d 198.19.10.1:2000-198.19.10.100 -D \
             00:0d:b9:41:ca:3d -s 198.18.10.1:2000-198.18.10.20 -S 0c:c4:7a:ab:29:35 -w 2 -p 2",
        );
        assert_eq!(
            command,
            Command {
                host: Some("gen.lab".into()),
                program: "pkt-gen".into(),
                function: Some("tx".into()),
                interface: Some("igb1".into()),
                frames: Some(80_000_000),
                frame_size_bytes: Some(64),
                rate_pps: None,
                ip_version: Some(IpVersion::Ipv4),
                flows: Some(2000),
                threads: Some(2),
            }
        );
    }

    #[test]
    fn old_heads_and_ipv6() {
        let old = parse(
            "CMD: pkt-gen -f tx -i ncxl3 -n 1000000000 -l 60         -d 198.19.10.1:2000-198.19.10.100 -s 198.18.10.1:2000-198.18.10.20",
        );
        assert_eq!(
            (old.flows, old.ip_version),
            (Some(2000), Some(IpVersion::Ipv4))
        );
        let six = parse(
            r#"CMD: pkt-gen -N -f tx -l 62 -6 -d "[2001:2:0:8010::1]-[2001:2:0:8010::64]" -s "[2001:2:0:10::1]-[2001:2:0:10::14]""#,
        );
        assert_eq!(six.flows, Some(2000));
        assert_eq!(six.frame_size_bytes, Some(66));
        assert_eq!(six.ip_version, Some(IpVersion::Ipv6));
        let rx = parse("CMD: pkt-gen -N -f rx -i vcxl1 -w 4");
        assert_eq!(
            (rx.flows, rx.frame_size_bytes, rx.ip_version),
            (None, None, None)
        );
        assert_eq!(rx.function.as_deref(), Some("rx"));
        assert_eq!(
            parse("CMD: sudo /usr/local/bin/pkt-gen -f tx -R 380000").rate_pps,
            Some(380_000)
        );
        assert_eq!(
            parse("CMD: equilibrium -d 00:00:00:00:00:01 -4").program,
            "equilibrium"
        );
    }

    #[test]
    fn ranges() {
        for (range, count) in [
            ("198.18.10.1", Some(1)),
            ("198.18.10.1:2000", Some(1)),
            ("10.0.0.1:1000-10.0.0.1:1009", Some(10)),
            ("10.0.0.1:1000-10.0.0.2:1009", Some(20)),
            ("10.0.0.250-10.0.1.5", Some(12)),
            ("10.0.0.2-10.0.0.1", None),
            ("[2001:2::1]:53-[2001:2::ff]:53", Some(255)),
            ("2001:2::1-2001:2::14", Some(20)),
            ("[::]-[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]", None),
            ("nonsense", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(combinations(range.as_bytes()), count, "{range}");
        }
    }

    #[test]
    fn other_lines_are_no_commands() {
        for line in ["", "CMD", "CMD on host", "cmd: x", "Terminated"] {
            assert_eq!(Command::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(parse("CMD:").program, "");
        assert_eq!(parse("CMD: pkt-gen -l").frame_size_bytes, None);
    }
}
