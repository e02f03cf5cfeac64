//! `.info` files: image, configuration and traffic of a series of runs.
//!
//! Three formats: `IMAGE="..."` lines (2016 and later), `Image: ...` lines, and these with the
//! DUT's `uname` as a line of its own (2015). Start with [`Info::parse`].

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::scan::shown;

/// The contents of an `.info` file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// The image on the DUT.
    pub image: Option<String>,
    /// The configuration set; the last component if it is a path.
    pub configuration: Option<String>,
    /// The pkt-gen configuration.
    pub traffic: Option<String>,
    /// The DUT's `uname -a`.
    pub uname: Option<String>,
    /// Start of the series, as written.
    pub started: Option<String>,
    /// End of the series, as written.
    pub ended: Option<String>,
    /// Lines that were not understood, for people.
    pub unknown: Vec<String>,
}

impl Info {
    /// Parses all formats.
    pub fn parse(bytes: &[u8]) -> Info {
        let mut info = Info::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            let line = line.trim_ascii();
            if !line.is_empty() && !info.line(&String::from_utf8_lossy(line)) {
                info.unknown.push(shown(line));
            }
        }
        info
    }

    fn line(&mut self, line: &str) -> bool {
        let system = ["FreeBSD ", "Linux ", "OpenBSD ", "NetBSD ", "DragonFly "];
        if system.iter().any(|name| line.starts_with(name)) {
            self.uname = Some(line.to_owned());
            return true;
        }
        let cut = line.find(['=', ':']);
        let Some((key, value)) = cut.map(|at| (&line[..at], &line[at + 1..])) else {
            return false;
        };
        let value = value.trim().trim_matches(['"', '\'']).trim();
        let value = (!value.is_empty() && value != "none").then(|| value.to_owned());
        let last = |path: String| -> Option<String> {
            let name = path.trim_end_matches('/').rsplit('/').next()?;
            (!name.is_empty()).then(|| name.to_owned())
        };
        match key.trim().to_ascii_lowercase().as_str() {
            "image" => self.image = value.and_then(last),
            "cfg" | "config" => self.configuration = value.and_then(last),
            "pktgen" | "pkt-gen" => self.traffic = value.and_then(last),
            "uname" => self.uname = value,
            "start time" | "start" | "date" => self.started = value,
            "end time" | "end" => self.ended = value,
            _ => return false,
        }
        true
    }
}

/// Parses the output of `date`: `Wed Aug 26 15:30:22 CEST 2015`. Unknown time zones count as UTC:
/// the day is right, give or take one.
pub fn time_of(text: &str) -> Option<Timestamp> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (zone, year) = match words[..] {
        [_, _, _, _, zone, year] => (zone, year),
        [_, _, _, _, year] => ("UTC", year),
        _ => return None,
    };
    let (month, day, clock) = (words[1], words[2], words[3]);
    let civil = DateTime::strptime("%b %d %H:%M:%S %Y", format!("{month} {day} {clock} {year}"));
    let hours = match zone {
        "CET" => 1,
        "CEST" => 2,
        _ => 0,
    };
    let zone = TimeZone::fixed(Offset::constant(hours));
    Some(civil.ok()?.to_zoned(zone).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats() {
        let new = Info::parse(b"IMAGE=\"\"\nCFG=\"bridge\"\nPKTGEN=\"inet6\"\nUNAME=\"FreeBSD hp 11.1-RELEASE-p1  amd64\"");
        assert_eq!(
            new,
            Info {
                configuration: Some("bridge".into()),
                traffic: Some("inet6".into()),
                uname: Some("FreeBSD hp 11.1-RELEASE-p1  amd64".into()),
                ..Info::default()
            }
        );
        let old = Info::parse(
            b"Image: none\nCFG: configs//eight\nStart time: Wed Aug 26 15:30:22 CEST 2015\nEnd time: Wed Aug 26 16:00:00 CEST 2015\n",
        );
        assert_eq!(
            old,
            Info {
                configuration: Some("eight".into()),
                started: Some("Wed Aug 26 15:30:22 CEST 2015".into()),
                ended: Some("Wed Aug 26 16:00:00 CEST 2015".into()),
                ..Info::default()
            }
        );
        let with_uname = Info::parse(b"Image: /x/BSDRP-295802D5330.img.xz\r\nCFG: none\r\nFreeBSD dut 10.2-RELEASE: x\n?\n\xff\n");
        assert_eq!(
            with_uname.image.as_deref(),
            Some("BSDRP-295802D5330.img.xz")
        );
        assert_eq!(with_uname.configuration, None);
        assert_eq!(
            with_uname.uname.as_deref(),
            Some("FreeBSD dut 10.2-RELEASE: x")
        );
        assert_eq!(with_uname.unknown.len(), 2);
        assert_eq!(Info::parse(b""), Info::default());
    }

    #[test]
    fn times_as_date_prints_them() {
        let time = |text| time_of(text).map(|time| time.to_string());
        let known = "Wed Aug 26 15:30:22 CEST 2015";
        assert_eq!(time(known).as_deref(), Some("2015-08-26T13:30:22Z"));
        let odd = "Tue Mar  1 08:00:00 XYZ 2016";
        assert_eq!(time(odd).as_deref(), Some("2016-03-01T08:00:00Z"));
        assert_eq!(
            time("Tue Mar 1 08:00:00 2016").as_deref(),
            Some("2016-03-01T08:00:00Z")
        );
        for text in [
            "",
            "yesterday",
            "a b c d e f",
            "Wed Feb 31 15:30:22 CEST 2015",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
