//! Fuzz target: profiles, from their text to the frames they mean.
//!
//! Whatever the bytes: no panic, and an error says where. What can be compiled can be sent, in both
//! directions. Start at [`profile`].

use fwdlab_engine::traffic::Addresses;
use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
use fwdlab_model::profile::Profile;

/// Panics if the parser or the compiler does, or if what they accept cannot be sent.
pub fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let profile = match Profile::parse("fuzz.toml", text) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(error.to_string().starts_with("fuzz.toml:"));
            return;
        }
    };
    for direction in [Direction::Forward, Direction::Reverse] {
        let setting = Setting {
            direction,
            addresses: Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
            vlan: None,
            link: None,
            read: &|_| Err(std::io::Error::other("nothing is read")),
        };
        let Ok(compiled) = compile(&profile, &setting) else {
            continue;
        };
        for stream in &compiled.traffic.streams {
            assert!(stream.timing.rate_pps > 0.0);
            for kind in stream.kinds.iter().take(8) {
                let machine = kind.program.machine(&kind.template);
                let mut machine = machine.expect("a program that was compiled");
                let mut buffer = vec![0; machine.buffer_len()];
                for _ in 0..3 {
                    let len = machine.render(&mut buffer, &fwdlab_packet::Signature::default());
                    assert!((60..=buffer.len()).contains(&len));
                }
            }
        }
    }
}
