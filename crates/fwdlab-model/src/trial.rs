//! The request to an engine: a stream of frames, a load, a time.
//!
//! A [`Stream`] defines the frames and the number of flows; the engine chooses addresses from the
//! benchmark blocks. [`crate::result`] holds the results. Start with [`Stream`].

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{FrameSize, UnitError};

/// The network layer of a stream.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4 with UDP, 198.18.0.0/15 (RFC 2544).
    Ipv4,
    /// IPv6 with UDP, 2001:2::/48 (RFC 5180).
    Ipv6,
}

impl IpVersion {
    /// Returns the smallest frame of this version that has room for UDP and the signature, in bytes
    /// with FCS: 64 or 84.
    ///
    /// IPv6 with UDP and no payload would be 66 bytes (RFC 5180); 84 is the counterpart of 64 in
    /// RFC 8219.
    pub fn smallest_frame(self) -> FrameSize {
        let bytes = match self {
            IpVersion::Ipv4 => 64,
            IpVersion::Ipv6 => 84,
        };
        FrameSize::new(bytes).expect("64 and 84 are in range")
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpVersion::Ipv4 => "IPv4",
            IpVersion::Ipv6 => "IPv6",
        })
    }
}

/// Frames of one size and kind in a number of flows. Every flow gets the same number of frames.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Stream {
    /// Network layer.
    pub ip_version: IpVersion,
    /// Frame size in bytes, including the FCS.
    pub frame_size_bytes: FrameSize,
    /// Number of flows: distinct pairs of source and destination (RFC 2544 §12 requires one and
    /// many).
    pub flows: u32,
}

impl Stream {
    /// Returns a stream whose frames have room for UDP and our signature.
    ///
    /// # Errors
    /// If the frame size is below [`IpVersion::smallest_frame`], or there are no flows or more than
    /// 60000.
    pub fn new(ip_version: IpVersion, size: FrameSize, flows: u32) -> Result<Self, UnitError> {
        let smallest = ip_version.smallest_frame();
        if size < smallest {
            return Err(UnitError {
                text: size.to_string(),
                what: "frame size for this stream",
                reason: format!(
                    "{ip_version} with UDP and the 18-byte signature needs at least {smallest} bytes"
                ),
            });
        }
        if !(1..=60_000).contains(&flows) {
            return Err(UnitError {
                text: flows.to_string(),
                what: "number of flows",
                reason: "1 to 60000".into(),
            });
        }
        Ok(Stream {
            ip_version,
            frame_size_bytes: size,
            flows,
        })
    }

    /// Returns a name for tables, files and filters: `64B-2000flows-ipv4`.
    pub fn id(&self) -> String {
        let plural = if self.flows == 1 { "" } else { "s" };
        format!(
            "{}B-{}flow{plural}-{}",
            self.frame_size_bytes,
            self.flows,
            self.ip_version.to_string().to_lowercase()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_room_for_its_signature() {
        let size = |bytes| FrameSize::new(bytes).unwrap();
        assert!(Stream::new(IpVersion::Ipv4, size(64), 1).is_ok());
        let error = Stream::new(IpVersion::Ipv6, size(83), 1).unwrap_err();
        assert!(error.to_string().contains("84 bytes"), "{error}");
        assert!(Stream::new(IpVersion::Ipv6, size(84), 0).is_err());
        let stream = Stream::new(IpVersion::Ipv6, size(84), 2000).unwrap();
        assert_eq!(stream.id(), "84B-2000flows-ipv6");
        assert_eq!(Stream { flows: 1, ..stream }.id(), "84B-1flow-ipv6");
    }
}
