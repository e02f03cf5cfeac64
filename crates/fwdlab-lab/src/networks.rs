//! The addresses of a test bed: of the tester's ports, the DUT's ports and the networks behind
//! them.
//!
//! Values, and one set of them for the embedded bed. Nothing here configures them: that is done by
//! the DUT ([`crate::dut`]) and the bed ([`crate::bed::veth`]). Start with [`Networks`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fwdlab_engine::Addresses;
use fwdlab_model::trial::IpVersion;
use serde::{Deserialize, Serialize};

/// All addresses of a bed. They are the same on every path, so that one frame template serves all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Networks {
    /// The side on which test frames enter the DUT.
    pub input: Side,
    /// The side on which they leave it.
    pub output: Side,
    /// The port outside the test.
    pub management: Management,
}

/// One side of the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// MAC address of the tester's port.
    pub tester_mac: [u8; 6],
    /// MAC address of the DUT's port.
    pub dut_mac: [u8; 6],
    /// IPv4 addresses.
    pub ipv4: Subnet<Ipv4Addr>,
    /// IPv6 addresses.
    pub ipv6: Subnet<Ipv6Addr>,
}

/// The network of a port of the DUT, and the one behind its next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet<A> {
    /// The DUT's address.
    pub dut: A,
    /// Prefix length of its network.
    pub length: u8,
    /// The next hop: the tester, as a phantom router (RFC 2544 appendix C).
    pub next_hop: A,
    /// The network behind it, which contains the addresses of test frames: prefix and its length.
    pub behind: (A, u8),
    /// The first of these addresses; one per flow of test frames follows.
    pub first: A,
}

/// The management port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Management {
    /// Its MAC address at the tester.
    pub tester_mac: [u8; 6],
    /// Its MAC address at the DUT.
    pub dut_mac: [u8; 6],
    /// The tester's address, in a /30 network.
    pub tester: Ipv4Addr,
    /// The DUT's.
    pub dut: Ipv4Addr,
}

/// Identifies a side of the DUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where test frames enter it.
    Input,
    /// Where they leave it.
    Output,
}

impl Networks {
    /// The addresses of every embedded bed: local unicast MAC addresses (RFC 4814 §4.2), the
    /// networks for benchmarks (RFC 2544, RFC 5180), and a link-local network (RFC 3927) for
    /// management, so that it overlaps with no network of any test.
    pub const EMBEDDED: Networks = Networks {
        input: Side {
            tester_mac: [0x02, 0, 1, 0x5a, 0x17, 0x01],
            dut_mac: [0x02, 0, 1, 0xd0, 0x17, 0x01],
            ipv4: Subnet {
                dut: Ipv4Addr::new(198, 18, 0, 1),
                length: 30,
                next_hop: Ipv4Addr::new(198, 18, 0, 2),
                behind: (Ipv4Addr::new(198, 18, 0, 0), 16),
                first: Ipv4Addr::new(198, 18, 10, 1),
            },
            ipv6: Subnet {
                dut: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1),
                length: 64,
                next_hop: Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2),
                behind: (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 49),
                first: Ipv6Addr::new(0x2001, 2, 0, 0x10, 0, 0, 0, 1),
            },
        },
        output: Side {
            tester_mac: [0x02, 0, 2, 0x5a, 0x17, 0x02],
            dut_mac: [0x02, 0, 2, 0xd0, 0x17, 0x02],
            ipv4: Subnet {
                dut: Ipv4Addr::new(198, 19, 0, 1),
                length: 30,
                next_hop: Ipv4Addr::new(198, 19, 0, 2),
                behind: (Ipv4Addr::new(198, 19, 0, 0), 16),
                first: Ipv4Addr::new(198, 19, 10, 1),
            },
            ipv6: Subnet {
                dut: Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 1),
                length: 64,
                next_hop: Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2),
                behind: (Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 0), 49),
                first: Ipv6Addr::new(0x2001, 2, 0, 0x8010, 0, 0, 0, 1),
            },
        },
        management: Management {
            tester_mac: [0x02, 0, 3, 0x5a, 0x17, 0x03],
            dut_mac: [0x02, 0, 3, 0xd0, 0x17, 0x03],
            tester: Ipv4Addr::new(169, 254, 11, 2),
            dut: Ipv4Addr::new(169, 254, 11, 1),
        },
    };

    /// Returns one side.
    pub fn side(&self, end: End) -> &Side {
        match end {
            End::Input => &self.input,
            End::Output => &self.output,
        }
    }

    /// Returns the addresses of frames in the forward direction.
    pub fn forward(&self) -> Addresses {
        self.addresses(&self.input)
    }

    /// Returns the addresses of frames in the reverse direction: other ports, the same flows.
    pub fn reverse(&self) -> Addresses {
        self.addresses(&self.output)
    }

    fn addresses(&self, side: &Side) -> Addresses {
        let Networks { input, output, .. } = self;
        Addresses {
            source_mac: side.tester_mac,
            destination_mac: side.dut_mac,
            ipv4: (input.ipv4.first, output.ipv4.first),
            ipv6: (input.ipv6.first, output.ipv6.first),
        }
    }

    /// Returns true if the bed already routes this address.
    pub fn contain(&self, address: IpAddr) -> bool {
        [&self.input, &self.output]
            .iter()
            .any(|side| is_in(address, side.behind(address.is_ipv6())))
    }
}

impl Side {
    /// Returns the next hop on this side.
    pub fn next_hop(&self, version: IpVersion) -> IpAddr {
        match version {
            IpVersion::Ipv4 => self.ipv4.next_hop.into(),
            IpVersion::Ipv6 => self.ipv6.next_hop.into(),
        }
    }

    /// Returns the network behind the next hop as text: `198.18.0.0/16`.
    pub fn prefix(&self, version: IpVersion) -> String {
        let (network, length) = self.behind(version == IpVersion::Ipv6);
        format!("{network}/{length}")
    }

    fn behind(&self, is_ipv6: bool) -> (IpAddr, u8) {
        match is_ipv6 {
            false => (self.ipv4.behind.0.into(), self.ipv4.behind.1),
            true => (self.ipv6.behind.0.into(), self.ipv6.behind.1),
        }
    }
}

fn is_in(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    let length = u32::from(length);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (u32::from(a) ^ u32::from(n)).leading_zeros() >= length,
        (IpAddr::V6(a), IpAddr::V6(n)) => (u128::from(a) ^ u128::from(n)).leading_zeros() >= length,
        _ => false,
    }
}

/// Formats a MAC address.
pub(crate) fn mac(bytes: [u8; 6]) -> String {
    bytes.map(|b| format!("{b:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_bed_routes_the_networks_for_benchmarks() {
        let bed = Networks::EMBEDDED;
        for (address, is_there) in [
            ("198.18.0.0", true),
            ("198.19.255.255", true),
            ("198.17.255.255", false),
            ("198.20.0.0", false),
            ("2001:2::", true),
            ("2001:2:0:ffff:ffff:ffff:ffff:ffff", true),
            ("2001:2:1::", false),
        ] {
            assert_eq!(bed.contain(address.parse().unwrap()), is_there, "{address}");
        }
        assert_eq!(bed.output.prefix(IpVersion::Ipv6), "2001:2:0:8000::/49");
        assert_eq!(bed.input.prefix(IpVersion::Ipv4), "198.18.0.0/16");
        // other ports, the same flows
        let (there, undo) = (bed.forward(), bed.reverse());
        assert_ne!(there.source_mac, undo.source_mac);
        assert_eq!((there.ipv4, there.ipv6), (undo.ipv4, undo.ipv6));
    }

    /// The bed routes the addresses of test frames, each on its side.
    #[test]
    fn flows_begin_in_the_networks_behind_the_next_hops() {
        let Networks { input, output, .. } = Networks::EMBEDDED;
        let Addresses { ipv4, ipv6, .. } = Networks::EMBEDDED.forward();
        for (address, side) in [
            (IpAddr::from(ipv4.0), input),
            (ipv4.1.into(), output),
            (ipv6.0.into(), input),
            (ipv6.1.into(), output),
        ] {
            assert!(is_in(address, side.behind(address.is_ipv6())), "{address}");
        }
    }
}
