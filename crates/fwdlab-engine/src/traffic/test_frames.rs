//! Test frames: UDP of one size, every flow equally often, between the ports of a tester.
//!
//! Frames of other kinds are [`Traffic`](super::Traffic). Start with [`TestFrames`].

use std::net::{Ipv4Addr, Ipv6Addr};

use fwdlab_model::trial::{self, Stream};
use fwdlab_packet::flow::{
    DEFAULT_DESTINATION_V4, DEFAULT_DESTINATION_V6, DEFAULT_SOURCE_V4, DEFAULT_SOURCE_V6,
};
use fwdlab_packet::{FlowSet, FrameSpec, FrameTemplate, IpVersion, MacAddr};
use serde::{Deserialize, Serialize};

use crate::error::EngineError;

/// UDP frames of one size, every flow equally often.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TestFrames {
    /// Their template.
    pub template: FrameTemplate,
    /// The addresses and ports they carry, every flow equally often.
    pub flows: FlowSet,
    /// The trial's nonce, in every signature.
    pub nonce: u16,
}

impl TestFrames {
    /// Returns the frames of a stream: flows of the default shape, starting at these addresses.
    ///
    /// # Errors
    /// [`EngineError::Frames`] if the frames are too small for the stream, or the flows do not fit
    /// the addresses.
    pub fn for_stream(
        stream: &Stream,
        addresses: &Addresses,
        reversed: bool,
        nonce: u16,
    ) -> Result<TestFrames, EngineError> {
        let (version, flows) = match stream.ip_version {
            trial::IpVersion::Ipv4 => {
                let (source, destination) = addresses.ipv4;
                let flows = FlowSet::from_v4(stream.flows, source, destination);
                (IpVersion::V4, flows)
            }
            trial::IpVersion::Ipv6 => {
                let (source, destination) = addresses.ipv6;
                let flows = FlowSet::from_v6(stream.flows, source, destination);
                (IpVersion::V6, flows)
            }
        };
        let template = FrameTemplate::new(&FrameSpec {
            source: MacAddr(addresses.source_mac),
            destination: MacAddr(addresses.destination_mac),
            version,
            frame_size: stream.frame_size_bytes.bytes(),
        });
        let flows = flows.map_err(|e| EngineError::Frames(e.to_string()))?;
        Ok(TestFrames {
            template: template.map_err(|e| EngineError::Frames(e.to_string()))?,
            flows: if reversed { flows.reversed() } else { flows },
            nonce,
        })
    }
}

/// Addresses of test frames, the same on all paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// The tester's sending ports.
    pub source_mac: [u8; 6],
    /// The DUT's receiving ports.
    pub destination_mac: [u8; 6],
    /// Source and destination of the first flow over IPv4, on the way there; swapped on the way
    /// back.
    pub ipv4: (Ipv4Addr, Ipv4Addr),
    /// The same over IPv6.
    pub ipv6: (Ipv6Addr, Ipv6Addr),
}

impl Addresses {
    /// Returns the addresses between these ports; flows begin at their defaults.
    pub const fn between(source_mac: [u8; 6], destination_mac: [u8; 6]) -> Addresses {
        Addresses {
            source_mac,
            destination_mac,
            ipv4: (DEFAULT_SOURCE_V4, DEFAULT_DESTINATION_V4),
            ipv6: (DEFAULT_SOURCE_V6, DEFAULT_DESTINATION_V6),
        }
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::units::FrameSize;

    use super::*;

    /// Frames of a stream have the addresses that the tester was opened with, swapped on the way
    /// back.
    #[test]
    fn frames_have_the_addresses_of_the_tester() {
        let addresses = Addresses {
            ipv4: ([198, 19, 7, 1].into(), [198, 18, 9, 1].into()),
            ipv6: (
                "2001:2:0:8007::1".parse().unwrap(),
                "2001:2:0:9::1".parse().unwrap(),
            ),
            ..Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        };
        for (ip_version, expect) in [
            (
                trial::IpVersion::Ipv4,
                [
                    "198.19.7.1:2000 > 198.18.9.1:2000",
                    "198.18.9.1:2000 > 198.19.7.1:2000",
                ],
            ),
            (
                trial::IpVersion::Ipv6,
                [
                    "[2001:2:0:8007::1]:2000 > [2001:2:0:9::1]:2000",
                    "[2001:2:0:9::1]:2000 > [2001:2:0:8007::1]:2000",
                ],
            ),
        ] {
            let stream = Stream {
                frame_size_bytes: FrameSize::new(128).unwrap(),
                ip_version,
                flows: 10,
            };
            for (reversed, expect) in [false, true].into_iter().zip(expect) {
                let frames = TestFrames::for_stream(&stream, &addresses, reversed, 1).unwrap();
                assert_eq!(frames.flows.flow(0).to_string(), expect);
                assert_eq!(frames.flows.len(), 10);
            }
            let wrong = Addresses {
                ipv4: (addresses.ipv4.0, addresses.ipv4.0),
                ipv6: (addresses.ipv6.0, addresses.ipv6.0),
                ..addresses
            };
            assert!(
                TestFrames::for_stream(&stream, &wrong, false, 1).is_err(),
                "one side"
            );
        }
    }
}
