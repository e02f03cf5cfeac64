//! The command line of pkt-gen: its options, their meaning, and what is refused.
//!
//! Pure: words in, [`Arguments`] out. [`Arguments::remarks`] lists options that are accepted
//! without effect, to be printed once. Numbers are parsed completely or refused; the original reads
//! `1e6` as 1. Start with [`Arguments::parse`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fwdlab_model::trial::IpVersion;

use super::range::Range;

/// One-letter options with a value, and those without.
const WITH_VALUE: &[u8] = b"afFnildsDSbcopTwRCHPMeEmt";
const WITHOUT_VALUE: &[u8] = b"46NIWvXrzZAhBU";

/// Returns true if this argument takes the next one as its value, as in `-i eth0`.
pub fn awaits_value(argument: &[u8]) -> bool {
    let [b'-', letters @ ..] = argument else {
        return false;
    };
    let value = letters.iter().position(|l| WITH_VALUE.contains(l));
    value.is_some_and(|at| at + 1 == letters.len())
}

/// The function of pkt-gen (`-f`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Counts received frames.
    Rx,
    /// Sends frames.
    Tx,
    /// Sends requests and waits for replies.
    Ping,
    /// Sends received frames back.
    Pong,
    /// Sends numbered frames.
    TxSeq,
    /// Checks the numbers of received frames.
    RxSeq,
}

impl Function {
    const ALL: [(&'static str, Function); 6] = [
        ("rx", Function::Rx),
        ("tx", Function::Tx),
        ("ping", Function::Ping),
        ("pong", Function::Pong),
        ("txseq", Function::TxSeq),
        ("rxseq", Function::RxSeq),
    ];

    /// Returns the batch size of the original.
    fn burst(self) -> u32 {
        match self {
            Function::Ping | Function::Pong => 1,
            _ => 512,
        }
    }
}

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The function.
    pub function: Function,
    /// The interface as typed, without `netmap:`.
    pub interface: Interface,
    /// Frames to send, or round trips to make; `None` for no limit.
    pub frames: Option<u64>,
    /// Frame size, in bytes without FCS.
    pub size: u16,
    /// For random frame sizes: the smallest size; `size` is the upper limit, excluded.
    pub least_size: Option<u16>,
    /// Requested frames per batch; `None` for the default, which is then printed.
    pub burst: Option<u32>,
    /// Source addresses and ports.
    pub source: Range,
    /// Destination addresses and ports.
    pub destination: Range,
    /// Both ranges as typed.
    pub addresses_typed: (String, String),
    /// Source MAC; `None` for the port's own.
    pub source_mac: Option<[u8; 6]>,
    /// Destination MAC.
    pub destination_mac: [u8; 6],
    /// The CPU of the sending thread.
    pub cpu: Option<usize>,
    /// CPUs to use; 0 for all.
    pub cpus: usize,
    /// Interval between two lines of output.
    pub report: Duration,
    /// Delay before the first frame.
    pub wait: Duration,
    /// Stop after one second without received frames (`-W`).
    pub until_silence: bool,
    /// Frames per second; `None` for no limit.
    pub rate_pps: Option<u64>,
    /// A capture file with the frame to send.
    pub capture: Option<String>,
    /// Random source addresses and ports.
    pub random_source: bool,
    /// Random destination addresses and ports.
    pub random_destination: bool,
    /// Numbers without prefixes (`-N`).
    pub plain: bool,
    /// Print mean and deviation of the recent rates (`-A`).
    pub average: bool,
    /// Count 24 bytes of framing per frame (`-B`).
    pub framing: bool,
    /// Print more (`-v`).
    pub verbose: bool,
    /// Messages about options that are accepted without effect.
    pub remarks: Vec<String>,
}

/// The port of `-i`, in netmap's syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// As typed.
    pub typed: String,
    /// Everything after `netmap:`.
    pub name: String,
    /// The name without ring and flags, if it seems to have some: `ix0` for `ix0-1/T`.
    pub without_ring: Option<String>,
}

impl Interface {
    fn parse(typed: &str) -> Result<Interface, String> {
        let name = typed.strip_prefix("netmap:").unwrap_or(typed);
        let other = |what: &str| {
            Err(format!(
                "{what}: fwdlab uses interfaces of the kernel; name one with -i"
            ))
        };
        if name.is_empty() {
            return other("missing ifname");
        }
        if typed.starts_with("vale") {
            return other(&format!("`{typed}` is a VALE port, a switch inside netmap"));
        }
        if typed == "null" {
            return other("`null` is not a port but a way to measure netmap itself");
        }
        if name.contains(['{', '}']) {
            return other(&format!("`{typed}` is a netmap pipe"));
        }
        // both are kernel interfaces, used without netmap
        let name = name.strip_prefix("pcap:").unwrap_or(name);
        let name = name.strip_prefix("tap:").unwrap_or(name);
        Ok(Interface {
            typed: typed.to_owned(),
            name: name.to_owned(),
            without_ring: without_ring(name),
        })
    }

    /// Returns the interface with this name, or else the one named without the ring.
    pub fn choose(&self, exists: impl Fn(&str) -> bool) -> &str {
        match &self.without_ring {
            Some(short) if !exists(&self.name) => short,
            _ => &self.name,
        }
    }

    /// Returns the name that pkt-gen prints after `reading from`.
    pub fn shown(&self) -> String {
        format!("netmap:{}", self.name)
    }
}

/// Returns the interface of `ix0-1`, `ix0*`, `ix0^`, `ix0/T`, `ix0@conf:...`: rings, host rings,
/// flags and options.
fn without_ring(name: &str) -> Option<String> {
    let end = name.find(['/', '@', '*', '^', '+']).unwrap_or(name.len());
    let short = &name[..end];
    let short = match short.rsplit_once('-') {
        Some((before, ring)) if !ring.is_empty() && ring.bytes().all(|b| b.is_ascii_digit()) => {
            before
        }
        _ => short,
    };
    (!short.is_empty() && short != name).then(|| short.to_owned())
}

/// The reason for a refused command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// `-h`: print the usage.
    Help,
    /// An error.
    Wrong(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Help => Ok(()),
            Refusal::Wrong(what) => f.write_str(what),
        }
    }
}

/// The options of pkt-gen.
pub const OPTIONS: &str = "  -i INTERFACE   Interface; may have netmap: in front, and a ring (-1) or flags (/T) at the end
  -f FUNCTION    rx, tx, ping, pong, txseq or rxseq [default: rx]
  -n COUNT       Frames to send, or round trips of ping; 0 is unlimited [default: 0]
  -l SIZE        Frame size in bytes without FCS [default: 60]; with a second -l: random sizes,
                 from the second up to just below the first
  -R RATE        Frames per second; k, M and G may follow [default: as fast as possible]
  -4, -6         IPv4 or IPv6 [default: -4]
  -s SRC[:PORT[-SRC:PORT]]  Source, single or range [default: 10.0.0.1:1234; with -6 fd00::1]
  -d DST[:PORT[-DST:PORT]]  Destination, single or range [default: 10.1.0.1:1234; with -6 fd00:1::1]
  -S MAC         Source MAC [default: of the interface]
  -D MAC         Destination MAC [default: ff:ff:ff:ff:ff:ff]
  -z, -Z         Random source address and port; random destination
  -P FILE        Send the first frame of a capture file
  -w SECONDS     Wait before the first frame [default: 2]
  -W             rx: end when nothing has arrived for a second after the first frame
  -T MS          Time between reports [default: 1000]
  -N             Numbers without K, M and G
  -A             Print mean and standard deviation of the last 15 rates
  -B             Count 24 bytes of framing and FCS per frame in bps
  -a CPU         Pin the sender to this CPU
  -c CPUS        CPUs to use; 0 is all [default: 1]
  -v             Print the chosen engine and the reason
  -h             Print this and exit
Accepted without effect: -b -p -o -F -M -I -C -H -r -X -U -e -E -m
";

/// Returns the text that `-h` and every error print, with the original's first lines.
pub fn usage() -> String {
    format!("Usage:\npkt-gen arguments\n{OPTIONS}More options: fwdlab traffic pkt-gen --help\n")
}

/// The options as typed, before they are checked against each other.
#[derive(Default)]
struct Typed {
    function: Option<Function>,
    interface: Option<Interface>,
    frames: u64,
    sizes: Vec<u16>,
    burst: Option<u32>,
    six: bool,
    source: Option<String>,
    destination: Option<String>,
    source_mac: Option<String>,
    destination_mac: Option<String>,
    cpu: Option<usize>,
    cpus: Option<usize>,
    threads: u32,
    report_ms: Option<u64>,
    wait_s: Option<u64>,
    until_silence: bool,
    rate: u64,
    capture: Option<String>,
    random_source: bool,
    random_destination: bool,
    plain: bool,
    average: bool,
    framing: bool,
    verbose: bool,
    remarks: Vec<String>,
}

/// Bits of `-o` that have options of their own.
const OPTION_DUMP: u64 = 64;
const OPTION_RANDOM_SOURCE: u64 = 512;
const OPTION_RANDOM_DESTINATION: u64 = 1024;
const OPTION_AVERAGE: u64 = 2048;

impl Arguments {
    /// Parses a command line, for a host with this number of CPUs.
    ///
    /// # Errors
    /// [`Refusal`]
    pub fn parse(words: &[&str], host_cpus: usize) -> Result<Arguments, Refusal> {
        let mut typed = Typed {
            threads: 1,
            ..Typed::default()
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else {
                return wrong(format!("`{word}` is not an option"));
            };
            if letters == "-" {
                match words.next() {
                    Some(word) => return wrong(format!("`{word}` is not an option")),
                    None => break,
                }
            }
            for (at, letter) in letters.char_indices() {
                let known = |set: &[u8]| u8::try_from(letter).is_ok_and(|l| set.contains(&l));
                if known(WITHOUT_VALUE) {
                    typed.flag(letter)?;
                } else if known(WITH_VALUE) {
                    let attached = &letters[at + 1..];
                    let value = match attached {
                        "" => words.next().copied().ok_or_else(|| {
                            Refusal::Wrong(format!("option -{letter} needs a value"))
                        })?,
                        attached => attached,
                    };
                    typed
                        .value(letter, value)
                        .map_err(|what| Refusal::Wrong(format!("bad -{letter} {value}: {what}")))?;
                    break;
                } else {
                    return wrong(format!("bad option {letter}"));
                }
            }
        }
        typed.fit(host_cpus)
    }

    /// Returns the first and the last destination address.
    pub fn destinations(&self) -> (IpAddr, IpAddr) {
        ends(&self.destination, self.random_destination)
    }

    /// Returns the first and the last source address.
    pub fn sources(&self) -> (IpAddr, IpAddr) {
        ends(&self.source, self.random_source)
    }

    /// Returns the batch size in the original's `Sending N packets every` line and of `ping`.
    pub fn burst(&self) -> u32 {
        self.burst.unwrap_or(self.function.burst())
    }
}

fn ends(range: &Range, random: bool) -> (IpAddr, IpAddr) {
    match range.first {
        _ if !random => (range.first, range.last),
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into()),
        // only the group that varies is random
        IpAddr::V6(address) => {
            let with = |value| {
                let mut segments = address.segments();
                segments[range.groups.0] = value;
                Ipv6Addr::from(segments).into()
            };
            (with(0), with(u16::MAX))
        }
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Wrong(what.into()))
}

impl Typed {
    fn flag(&mut self, letter: char) -> Result<(), Refusal> {
        match letter {
            '4' => self.six = false,
            '6' => self.six = true,
            'N' => self.plain = true,
            'W' => self.until_silence = true,
            'v' => self.verbose = true,
            'z' => self.random_source = true,
            'Z' => self.random_destination = true,
            'A' => self.average = true,
            'B' => self.framing = true,
            'h' => return Err(Refusal::Help),
            'U' => {} // a patch of the original: checksums in software, as ours always are
            'I' => self.remark("-I: indirect buffers are netmap's"),
            'X' => self.remark_dump(),
            'r' => self.remark("-r: frames never have random contents"),
            _ => {}
        }
        Ok(())
    }

    fn value(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'f' => {
                let found = Function::ALL.iter().find(|(name, _)| *name == value);
                self.function = Some(found.ok_or("unrecognised function")?.1);
            }
            'i' => self.interface = Some(Interface::parse(value)?),
            'n' => self.frames = number(value)?,
            // from pkt-gen's first year: frames to send
            't' => {
                self.frames = number(value)?;
                self.function = Some(Function::Tx);
            }
            'l' => self.sizes.push(size(value)?),
            'b' => self.burst = Some(number(value)?).filter(|n| *n > 0),
            'd' => self.destination = Some(value.to_owned()),
            's' => self.source = Some(value.to_owned()),
            'D' => self.destination_mac = Some(value.to_owned()),
            'S' => self.source_mac = Some(value.to_owned()),
            'a' => self.cpu = number(value).map(Some)?,
            'c' => self.cpus = number(value).map(Some)?,
            'p' => self.threads = number(value)?,
            'T' => self.report_ms = number(value).map(Some)?,
            'w' => self.wait_s = number(value).map(Some)?,
            'R' => self.rate = number(value)?,
            'P' => self.capture = Some(value.to_owned()),
            'o' => self.bits(number(value)?),
            'F' => {
                let frags: u32 = number(value)?;
                if frags != 1 {
                    self.remark("-F: each frame is sent in one piece");
                }
            }
            'M' => self.remark("-M: each frame is sent in one piece"),
            'C' => self.remark("-C: the rings are those of the interface"),
            'H' => match number::<u32>(value)? {
                0 => {}
                10 | 12 => {
                    self.remark("-H: interfaces of the kernel do not accept a virtio-net header")
                }
                _ => return Err("bad virtio-net-header length: 0, 10 or 12".into()),
            },
            'e' | 'E' | 'm' => self.remark(&format!("-{letter}: buffers and pipes are netmap's")),
            _ => {}
        }
        Ok(())
    }

    fn bits(&mut self, bits: u64) {
        self.random_source |= bits & OPTION_RANDOM_SOURCE != 0;
        self.random_destination |= bits & OPTION_RANDOM_DESTINATION != 0;
        self.average |= bits & OPTION_AVERAGE != 0;
        if bits & OPTION_DUMP != 0 {
            self.remark_dump();
        }
        let known = OPTION_RANDOM_SOURCE | OPTION_RANDOM_DESTINATION | OPTION_AVERAGE | OPTION_DUMP;
        if bits & !known != 0 {
            self.remark(&format!(
                "-o {}: how the original fills its buffers",
                bits & !known
            ));
        }
    }

    fn remark(&mut self, words: &str) {
        if !self.remarks.iter().any(|remark| remark == words) {
            self.remarks.push(words.to_owned());
        }
    }

    fn remark_dump(&mut self) {
        self.remark("-X: frames are not printed; `tcpdump -xx` does that");
    }

    fn fit(mut self, host_cpus: usize) -> Result<Arguments, Refusal> {
        let Some(interface) = self.interface.take() else {
            return wrong("missing ifname");
        };
        let cpus = self.cpus.unwrap_or(1);
        if cpus > host_cpus {
            return wrong(format!(
                "{cpus} cpus is too high, have only {host_cpus} cpus"
            ));
        }
        if let Some(cpu) = self.cpu.filter(|cpu| *cpu >= host_cpus) {
            return wrong(format!(
                "bad -a {cpu}: this host has CPUs 0 to {}",
                host_cpus - 1
            ));
        }
        if self.threads == 0 {
            return wrong("bad nthreads 0");
        }
        let function = self.function.unwrap_or(Function::Rx);
        if self.threads > 1 {
            self.remark(&format!("-p {}: one thread sends", self.threads));
        }
        if self.burst.is_some() && !matches!(function, Function::Ping | Function::Pong) {
            self.remark("-b: the engine chooses its batches");
        }
        if function == Function::TxSeq && self.frames > 0 {
            self.remark("-n: txseq sends without end");
            self.frames = 0;
        }
        let (size, least_size) = match self.sizes[..] {
            [] => (60, None),
            [size] => (size, None),
            [size, .., least] => (size, Some(least)),
        };
        if let Some(least) = least_size.filter(|least| *least >= size) {
            return wrong(format!("bad pktminsize {least} [16..{size}]"));
        }
        let version = if self.six {
            IpVersion::Ipv6
        } else {
            IpVersion::Ipv4
        };
        let (source, source_typed) = address(self.source, version, 0)?;
        let (destination, destination_typed) = address(self.destination, version, 1)?;
        let destination_mac_typed = self
            .destination_mac
            .unwrap_or_else(|| "ff:ff:ff:ff:ff:ff".into());
        let report_ms = self.report_ms.unwrap_or(1000);
        Ok(Arguments {
            function,
            interface,
            frames: Some(self.frames).filter(|n| *n > 0),
            size,
            least_size,
            burst: self.burst,
            source,
            destination,
            addresses_typed: (source_typed, destination_typed),
            source_mac: self.source_mac.as_deref().map(mac).transpose()?,
            destination_mac: mac(&destination_mac_typed)?,
            cpu: self.cpu,
            cpus: if cpus == 0 { host_cpus } else { cpus },
            // the original does not print intervals below 10 ms
            report: Duration::from_millis(report_ms.max(10)),
            wait: Duration::from_secs(self.wait_s.unwrap_or(2)),
            until_silence: self.until_silence,
            rate_pps: Some(self.rate).filter(|rate| *rate > 0),
            capture: self.capture,
            random_source: self.random_source,
            random_destination: self.random_destination,
            plain: self.plain,
            average: self.average,
            framing: self.framing,
            verbose: self.verbose,
            remarks: self.remarks,
        })
    }
}

/// Parses a range, or returns the default of this side (0 source, 1 destination). The original has
/// no default for IPv6.
fn address(
    typed: Option<String>,
    version: IpVersion,
    side: u8,
) -> Result<(Range, String), Refusal> {
    let Some(typed) = typed else {
        let address: IpAddr = match version {
            IpVersion::Ipv4 => Ipv4Addr::new(10, side, 0, 1).into(),
            IpVersion::Ipv6 => Ipv6Addr::new(0xfd00, side.into(), 0, 0, 0, 0, 0, 1).into(),
        };
        return Ok((Range::one(address), address.to_string()));
    };
    match Range::parse(&typed, version) {
        Ok(range) => Ok((range, typed)),
        Err(what) => wrong(format!("bad address range '{typed}': {what}")),
    }
}

/// Parses a complete number: `1000`, `14.88M`, `1k`.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let sense = || {
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        // 14.88M: the fraction may have as many digits as the factor has zeros
        let places = u32::try_from(fraction.len()).ok()?;
        let scale = 10_u64.checked_pow(places).filter(|s| factor % s == 0)?;
        let fraction: u64 = if places == 0 {
            0
        } else {
            fraction.parse().ok()?
        };
        whole
            .parse::<u64>()
            .ok()?
            .checked_mul(factor)?
            .checked_add(fraction * (factor / scale))
    };
    let value = sense().ok_or("not a whole number such as 1000, 14.88M or 1k")?;
    T::try_from(value).map_err(|_| "too large".to_owned())
}

fn size(text: &str) -> Result<u16, String> {
    match number::<u64>(text)? {
        size @ 16..=65_535 => Ok(size as u16),
        size => Err(format!("bad pktsize {size} [16..65535]")),
    }
}

fn mac(text: &str) -> Result<[u8; 6], Refusal> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    let ok = octets.iter_mut().all(|octet| {
        let part = parts.next().unwrap_or("");
        let hexadecimal =
            matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
        *octet = u8::from_str_radix(part, 16).unwrap_or(0);
        hexadecimal
    });
    if ok && parts.next().is_none() {
        Ok(octets)
    } else {
        wrong(format!("invalid MAC address '{text}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(line: &str) -> Result<Arguments, Refusal> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Arguments::parse(&words, 8)
    }

    fn good(line: &str) -> Arguments {
        parse(line).unwrap_or_else(|refusal| panic!("{line}: {refusal}"))
    }

    #[test]
    fn a_lab_senders_line() {
        let all = good(
            "-f tx -N -i igb1 -n 80000000 -l 60 -4 -d 198.19.10.1:2000-198.19.10.100 -D 00:0d:b9:41:ca:3d \
             -s 198.18.10.1:2000-198.18.10.20 -S 0c:c4:7a:ab:29:35 -w 4 -p 2 -T 2000 -U",
        );
        assert_eq!(all.function, Function::Tx);
        assert_eq!(all.interface.name, "igb1");
        assert_eq!((all.frames, all.size), (Some(80_000_000), 60));
        assert_eq!(
            (all.source.addresses(), all.destination.addresses()),
            (20, 100)
        );
        assert_eq!(all.destination_mac, [0, 0x0d, 0xb9, 0x41, 0xca, 0x3d]);
        assert_eq!(all.source_mac, Some([0x0c, 0xc4, 0x7a, 0xab, 0x29, 0x35]));
        assert_eq!((all.wait.as_secs(), all.report.as_millis()), (4, 2000));
        assert!(all.plain && !all.average && !all.framing);
        assert_eq!(all.remarks, ["-p 2: one thread sends"]);
    }

    #[test]
    fn defaults_are_the_originals() {
        let all = good("-i ix0");
        assert_eq!(all.function, Function::Rx);
        assert_eq!((all.frames, all.size, all.rate_pps), (None, 60, None));
        assert_eq!((all.wait.as_secs(), all.report.as_secs()), (2, 1));
        assert_eq!(
            all.source.to_string(),
            "range is 10.0.0.1:1234 to 10.0.0.1:1234"
        );
        assert_eq!(
            all.destination.to_string(),
            "range is 10.1.0.1:1234 to 10.1.0.1:1234"
        );
        assert_eq!(all.destination_mac, [0xff; 6]);
        assert_eq!((all.source_mac, all.burst()), (None, 512));
        assert_eq!(all.cpus, 1);
        assert!(!all.until_silence && all.remarks.is_empty());
    }

    #[test]
    fn letters_join_and_values_are_attached() {
        let all = good("-NWftx -iix0 -R1.5M -c0 -a3 -b 1k -o 2624");
        assert_eq!(all.function, Function::Tx);
        assert_eq!(
            (all.rate_pps, all.cpus, all.cpu),
            (Some(1_500_000), 8, Some(3))
        );
        assert_eq!(all.burst(), 1000);
        assert!(all.plain && all.until_silence && all.random_source && all.average);
        assert_eq!(all.remarks.len(), 2, "{:?}", all.remarks);
        assert!(awaits_value(b"-NWf") && awaits_value(b"-i"));
        for other in [&b"-ftx"[..], b"-N", b"-", b"x", b"--json", b""] {
            assert!(!awaits_value(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn interfaces_as_netmap_names_them() {
        for (typed, name, short) in [
            ("ix0", "ix0", None),
            ("netmap:ix0-1/T", "ix0-1/T", Some("ix0")),
            ("ix0-3", "ix0-3", Some("ix0")),
            ("ix0*", "ix0*", Some("ix0")),
            ("netmap:ix0^", "ix0^", Some("ix0")),
            ("br-lan", "br-lan", None),
            ("netmap:ix0@conf:rings=2", "ix0@conf:rings=2", Some("ix0")),
            ("pcap:ix0", "ix0", None),
        ] {
            let interface = Interface::parse(typed).unwrap();
            assert_eq!(interface.name, name);
            assert_eq!(interface.without_ring.as_deref(), short, "{typed}");
        }
        let ring = Interface::parse("veth-1").unwrap();
        assert_eq!(ring.choose(|name| name == "veth-1"), "veth-1");
        assert_eq!(ring.choose(|name| name == "veth"), "veth");
        for typed in ["vale0:1", "null", "netmap:", "ix0{1", "netmap:pipe}2"] {
            assert!(Interface::parse(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn refused_options_are_reported() {
        for (line, reason) in [
            ("", "missing ifname"),
            ("-f tx", "missing ifname"),
            ("-i", "needs a value"),
            ("-i ix0 -q", "bad option q"),
            ("-i ix0 extra", "`extra` is not an option"),
            ("-i ix0 -- extra", "`extra` is not an option"),
            ("-i ix0 -f send", "unrecognised function"),
            ("-i ix0 -n 1e6", "bad -n 1e6: not a whole number"),
            ("-i ix0 -n -1", "not a whole number"),
            ("-i ix0 -n 1.2345k", "not a whole number"),
            ("-i ix0 -n 99999999999G", "not a whole number"),
            ("-i ix0 -R .5M", "not a whole number"),
            ("-i ix0 -l 15", "bad pktsize 15 [16..65535]"),
            ("-i ix0 -l 70000", "bad pktsize"),
            ("-i ix0 -l 100 -l 100", "bad pktminsize 100 [16..100]"),
            ("-i ix0 -c 9", "9 cpus is too high, have only 8 cpus"),
            ("-i ix0 -a 8", "CPUs 0 to 7"),
            ("-i ix0 -p 0", "bad nthreads 0"),
            ("-i ix0 -H 7", "bad virtio-net-header length"),
            ("-i ix0 -D 1:2:3", "invalid MAC address '1:2:3'"),
            ("-i ix0 -S 1:2:3:4:5:678", "invalid MAC address"),
            ("-i ix0 -d 10.0.0.1:2-x", "bad address range '10.0.0.1:2-x'"),
            ("-i ix0 -6 -s 10.0.0.1", "not an IPv6 address"),
            ("-i vale0:1", "VALE port"),
        ] {
            match parse(line) {
                Err(Refusal::Wrong(what)) => assert!(what.contains(reason), "{line}: {what}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert_eq!(parse("-i ix0 -h"), Err(Refusal::Help));
    }

    #[test]
    fn old_forms() {
        let all = good("-i em0 -t 500111222 -l 60 -w 5");
        assert_eq!(
            (all.function, all.frames),
            (Function::Tx, Some(500_111_222))
        );
        let six = good("-i ix0 -6 -f tx");
        assert_eq!(six.addresses_typed.1, "fd00:1::1");
        let sizes = good("-i ix0 -f tx -l 1514 -l 64");
        assert_eq!((sizes.size, sizes.least_size), (1514, Some(64)));
        let ignored = good("-i ix0 -I -X -X -r -F 2 -F 1 -M 64 -C 1024 -H 10 -e 3 -E 1 -m x");
        assert_eq!(ignored.remarks.len(), 10, "{:?}", ignored.remarks);
    }

    proptest! {
        /// Nothing panics, and unknown words are always reported.
        #[test]
        fn any_words(words in prop::collection::vec("(-[a-zA-Z0-9]{0,3})|([0-9a-f:.@\\[\\]-]{0,20})|(.{0,6})", 0..8)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if Arguments::parse(&words, 2).is_ok() {
                prop_assert!(words[0].starts_with('-'));
            }
        }

        /// The order of the options does not matter.
        #[test]
        fn order_does_not_matter(
            n in 1_u64..1 << 40, size in 16_u16.., rate in 1_u64..1 << 31, seed in any::<u64>(),
        ) {
            let mut options = [
                "-i ix0".to_owned(), "-f tx".into(), format!("-n {n}"), format!("-l {size}"),
                format!("-R {rate}"), "-N".into(), "-z".into(), "-s 10.0.0.1:5-10.0.0.9:8".into(),
            ];
            let straight = good(&options.join(" "));
            prop_assert_eq!(straight.frames, Some(n));
            prop_assert_eq!(straight.rate_pps, Some(rate));
            prop_assert_eq!(straight.source.addresses() * straight.source.port_count(), 36);
            let turn = (seed % options.len() as u64) as usize;
            options.rotate_left(turn);
            prop_assert_eq!(good(&options.join(" ")), straight);
        }

        #[test]
        fn numbers_are_exact(value in any::<u64>(), thousandths in 0_u32..1000) {
            prop_assert_eq!(number::<u64>(&value.to_string()), Ok(value));
            let whole = value % 1_000_000;
            prop_assert_eq!(
                number::<u64>(&format!("{whole}.{thousandths:03}M")),
                Ok(whole * 1_000_000 + u64::from(thousandths) * 1000)
            );
        }
    }
}
