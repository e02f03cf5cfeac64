//! A capture file on the server, as a recording that a port sends: with times and addresses as
//! requested by a client.
//!
//! Start with [`Recorded::open`].

use std::fs::File;
use std::path::{Path, PathBuf};

use fwdlab_engine::capture::file::Frames;
use fwdlab_engine::replay::{Clock, Recording, Source, SourceError};

/// Changes to the frames of a file.
#[derive(Debug, Clone, Copy)]
pub struct PcapChanges {
    /// Replacement for the addresses of the file.
    pub source: Option<[u8; 6]>,
    pub destination: Option<[u8; 6]>,
    /// Gap between frames; `None`: as in the file, divided by `speed`.
    pub gap_us: Option<f64>,
    pub speed: f64,
    /// Minimum gap.
    pub least_us: f64,
}

/// A capture file, frame by frame.
pub struct Recorded {
    path: PathBuf,
    changes: PcapChanges,
    frames: Frames<File>,
    clock: Clock,
    /// The previous frame: when it was captured, and when it leaves.
    before_ns: Option<(u64, u64)>,
    number: u64,
}

impl Recorded {
    /// Checks the first frames of a file, and reads the rest while it is sent.
    pub fn open(path: &Path, how: PcapChanges) -> Result<Recording, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let frames = file(path).map_err(|error| wrong(&error))?;
        let recorded = Recorded {
            path: path.into(),
            changes: how,
            frames,
            clock: Clock::default(),
            before_ns: None,
            number: 0,
        };
        Recording::open(recorded).map_err(|error| error.to_string())
    }
}

fn file(path: &Path) -> std::io::Result<Frames<File>> {
    // a device or a pipe has no end
    match std::fs::metadata(path)?.is_file() {
        true => Ok(Frames::new(File::open(path)?)),
        false => Err(std::io::Error::other("it is not a file")),
    }
}

impl Source for Recorded {
    fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Option<u64>, SourceError> {
        let begin = bytes.len();
        self.number += 1;
        let (path, number) = (&self.path, self.number);
        let wrong = |what: String| format!("{}: frame {number}: {what}", path.display());
        let taken = self.frames.next(|frame| {
            let whole = frame.to_send().map_err(|error| wrong(error.to_string()))?;
            bytes.extend_from_slice(whole);
            Ok::<u64, String>(frame.timestamp_ns)
        });
        let Some(captured_ns) = taken.map_err(|error| wrong(error.to_string()))? else {
            return Ok(None);
        };
        // with a gap from the client the file's times do not matter
        let captured_ns: u64 = captured_ns?;
        let captured_ns = match self.changes.gap_us {
            Some(_) => 0,
            None => self.clock.at(captured_ns).map_err(wrong)?,
        };
        let frame = &mut bytes[begin..];
        if let Some(mac) = self.changes.destination {
            frame[..6].copy_from_slice(&mac);
        }
        if let Some(mac) = self.changes.source {
            frame[6..12].copy_from_slice(&mac);
        }
        let leaves_ns = self.before_ns.map_or(0, |(captured, left)| {
            let own_us = captured_ns.saturating_sub(captured) as f64 / 1e3;
            let gap_us = self.changes.gap_us.unwrap_or(own_us) / self.changes.speed;
            left + (gap_us.max(self.changes.least_us) * 1e3).round() as u64
        });
        self.before_ns = Some((captured_ns, leaves_ns));
        Ok(Some(leaves_ns))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        (self.frames, self.before_ns, self.number) = (file(&self.path)?, None, 0);
        self.clock = Clock::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_packet::pcap::{self, Format, Frame, Writer};

    #[test]
    fn times_and_addresses_are_as_the_client_wants_them() {
        let mut bytes = Vec::new();
        let writer = Writer::start(Format::Ng, pcap::ETHERNET, &mut bytes);
        for (at_us, first) in [(1000_u64, 1_u8), (1100, 2), (1101, 3)] {
            writer.frame(&Frame::new(at_us * 1000, &[first; 60]), &mut bytes);
        }
        let path = std::env::temp_dir().join(format!("fwdlab-trex-{}.pcapng", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let all = |how: PcapChanges| {
            let mut recorded = Recorded {
                path: path.clone(),
                changes: how,
                frames: file(&path).unwrap(),
                clock: Clock::default(),
                before_ns: None,
                number: 0,
            };
            let mut bytes = Vec::new();
            let mut times = Vec::new();
            for _ in 0..2 {
                while let Some(at) = recorded.next(&mut bytes).unwrap() {
                    times.push(at / 1000);
                }
                recorded.rewind().unwrap();
            }
            (times, bytes)
        };
        let plain = PcapChanges {
            source: None,
            destination: Some([9; 6]),
            gap_us: None,
            speed: 1.0,
            least_us: 0.0,
        };
        let (times, bytes) = all(plain);
        assert_eq!(times, [0, 100, 101, 0, 100, 101]);
        assert_eq!(
            (&bytes[..7], bytes[60 + 6]),
            (&[9, 9, 9, 9, 9, 9, 1][..], 2)
        );
        let least = PcapChanges {
            least_us: 30.0,
            speed: 2.0,
            ..plain
        };
        assert_eq!(all(least).0[..3], [0, 50, 80]);
        let even = PcapChanges {
            gap_us: Some(10.0),
            source: Some([8; 6]),
            ..plain
        };
        let (times, bytes) = all(even);
        assert_eq!(
            (&times[..3], &bytes[..12]),
            (&[0, 10, 20][..], &[9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8][..])
        );
        let refused = Recorded::open(Path::new("/dev/zero"), plain).err();
        assert!(refused.unwrap().contains("not a file"));
        std::fs::remove_file(&path).unwrap();
    }
}
