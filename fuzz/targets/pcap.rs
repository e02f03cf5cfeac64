//! Fuzz target: the reader of capture files.
//!
//! Whatever the bytes: no panic, an end, and no more frames than there are bytes for. What is read
//! is written and read again in every format. Start at [`pcap`].

use fwdlab_packet::pcap::{Format, Writer, frames};

/// Panics if the reader panics or does not read what was written.
pub fn pcap(data: &[u8]) {
    let found: Vec<_> = frames(data).map_while(Result::ok).collect();
    let bytes: usize = found.iter().map(|frame| frame.bytes.len()).sum();
    assert!(bytes <= data.len() && found.len() <= data.len() / 16);
    for format in [Format::Micro, Format::Nano, Format::Ng] {
        let mut file = Vec::new();
        let writer = Writer::start(format, fwdlab_packet::pcap::ETHERNET, &mut file);
        for frame in &found {
            writer.frame(frame, &mut file);
        }
        let mut again = frames(&file);
        for frame in &found {
            let read = again.next().expect("as many frames").expect("a whole file");
            assert_eq!(
                (read.bytes, read.original_len),
                (frame.bytes, frame.original_len)
            );
            if format == Format::Ng {
                assert_eq!(read.timestamp_ns, frame.timestamp_ns);
            }
        }
        assert!(again.next().is_none());
    }
}
