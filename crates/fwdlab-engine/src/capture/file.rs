//! Capture files of any size, frame by frame through a window of bounded size.
//!
//! The caller opens the file and passes a reader; [`fwdlab_packet::pcap`] implements the formats.
//! Start with [`Frames::next`].

use std::io::{self, Read};

use fwdlab_packet::pcap::{Decoder, Frame, PcapError, Piece};

/// Bytes read from the file at a time. The window holds no more than this and one record.
const READ_BYTES: usize = 1 << 18;

/// Why reading stopped.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The bytes are not a capture, or it is damaged.
    #[error("{0}")]
    Format(#[from] PcapError),
}

/// Frames of a capture file, in its order.
pub struct Frames<R> {
    file: R,
    decoder: Decoder,
    /// Bytes of the file; those from `at` on have not been used.
    window: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Frames<R> {
    /// Reads from the start of a file.
    pub fn new(file: R) -> Frames<R> {
        Frames {
            file,
            decoder: Decoder::new(),
            window: Vec::new(),
            at: 0,
            ended: false,
        }
    }

    /// Passes the next frame to `take`; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged or truncated: the rest cannot be read either.
    pub fn next<T>(&mut self, take: impl FnOnce(Frame<'_>) -> T) -> Result<Option<T>, FileError> {
        loop {
            let rest = &self.window[self.at..];
            let needed = match self.decoder.next(rest)? {
                Piece::Frame(frame, used) => {
                    let taken = take(frame);
                    self.at += used;
                    return Ok(Some(taken));
                }
                Piece::Other(used) => {
                    self.at += used;
                    continue;
                }
                Piece::Needs(needed) => needed,
            };
            if !self.ended {
                self.read(needed)?;
                continue;
            }
            // a file may end between two records, but an empty file is invalid
            if rest.is_empty() && self.decoder.offset() > 0 {
                return Ok(None);
            }
            let begin = self.decoder.offset();
            return Err(FileError::Format(PcapError::Truncated {
                begin,
                offset: begin + rest.len() as u64,
                missing: (needed - rest.len()) as u64,
            }));
        }
    }

    /// Reads until `needed` unused bytes are available, or the file ends.
    fn read(&mut self, needed: usize) -> Result<(), FileError> {
        self.window.drain(..self.at);
        self.at = 0;
        while self.window.len() < needed && !self.ended {
            let have = self.window.len();
            let mut part = self.file.by_ref().take(READ_BYTES as u64);
            self.ended = part.read_to_end(&mut self.window)? < READ_BYTES;
            debug_assert!(self.window.len() >= have);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_packet::pcap::{self, Format, Writer};

    fn file(format: Format, frames: usize) -> Vec<u8> {
        let mut file = Vec::new();
        let writer = Writer::start(format, pcap::ETHERNET, &mut file);
        for n in 0..frames {
            let bytes = vec![n as u8; 60 + 97 * n % 9_000];
            writer.frame(&Frame::new(n as u64 * 1000, &bytes), &mut file);
        }
        file
    }

    /// Returns few bytes at a time, as pipes do.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(7).min(self.0.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn all(file: impl Read) -> (Vec<(u64, Vec<u8>)>, Option<String>) {
        let mut frames = Frames::new(file);
        let mut found = Vec::new();
        loop {
            match frames.next(|frame| (frame.timestamp_ns, frame.bytes.to_vec())) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    #[test]
    fn frames_are_those_of_the_file_in_memory() {
        for format in [Format::Micro, Format::Nano, Format::Ng] {
            let file = file(format, 300);
            let expected: Vec<(u64, Vec<u8>)> = pcap::frames(&file)
                .map(|frame| frame.unwrap())
                .map(|frame| (frame.timestamp_ns, frame.bytes.to_vec()))
                .collect();
            assert_eq!(expected.len(), 300);
            assert!(file.len() > 3 * READ_BYTES, "the window moves");
            assert_eq!(all(&file[..]), (expected.clone(), None));
            assert_eq!(all(Slow(&file)), (expected, None));
        }
    }

    #[test]
    fn the_window_stays_small() {
        let file = file(Format::Ng, 2000);
        let mut frames = Frames::new(&file[..]);
        while frames.next(|_| ()).unwrap().is_some() {
            assert!(frames.window.capacity() <= 4 * READ_BYTES);
        }
        assert!(file.len() > 8 * 4 * READ_BYTES / 4);
    }

    #[test]
    fn a_truncated_file_yields_its_frames_and_then_an_error() {
        let file = file(Format::Nano, 3);
        let (frames, error) = all(&file[..file.len() - 1]);
        assert_eq!(frames.len(), 2);
        assert!(error.unwrap().contains("1 bytes before the end"));
        let (frames, error) = all(&b""[..]);
        assert!(frames.is_empty() && error.unwrap().contains("ends at byte 0"));
        let (_, error) = all(&b"no capture at all"[..]);
        assert!(error.unwrap().contains("not a capture file"));
    }
}
