//! Detects that a link of the test bed goes down during a trial, even if it comes back at once.
//!
//! Listens to the kernel's link messages in every namespace of the bed; ports of other hosts have
//! to be polled. The caller decides what an event means for a trial. Start with
//! [`LinkWatch::open`].

use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::bed::Bed;
use crate::error::LabError;
use crate::host::netns::within;

/// The end of an event that reports a link going down.
pub(crate) const WENT_DOWN: &str = "went down";

/// Multicast group of link messages (RTMGRP_LINK).
const GROUP_LINK: u32 = 1;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const IFLA_IFNAME: u16 = 3;
const IFF_LOWER_UP: u32 = 1 << 16;

/// Sockets that collect link messages.
#[derive(Debug)]
pub(super) struct LinkWatch {
    sockets: Vec<(String, OwnedFd)>,
    /// Number of hosts: the tester's, and those of the DUTs.
    hosts: usize,
}

impl LinkWatch {
    /// Starts to listen in all namespaces of a bed.
    pub fn open(bed: &Bed) -> Result<LinkWatch, LabError> {
        let names = bed.namespaces().iter();
        let sockets = names
            .map(|name| Ok((name.clone(), within(name, || subscribe(name))?)))
            .collect::<Result<_, LabError>>()?;
        Ok(LinkWatch {
            sockets,
            hosts: 1 + bed.duts(),
        })
    }

    /// Returns true if it listens to every host of the bed.
    pub fn covers_all_hosts(&self) -> bool {
        self.sockets.len() == self.hosts
    }

    /// Returns the events since the last call: `eth1 in fwdlab-x-dut0 went down`.
    pub fn events(&mut self) -> Result<Vec<String>, LabError> {
        let mut events = Vec::new();
        for (namespace, socket) in &self.sockets {
            let mut buffer = vec![0u8; 65536];
            loop {
                match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((length, _)) if length > 0 => {
                        for name in links_down(&buffer[..length]) {
                            events.push(format!("{name} in {namespace} {WENT_DOWN}"));
                        }
                    }
                    Ok(_) | Err(rustix::io::Errno::AGAIN) => break,
                    Err(rustix::io::Errno::NOBUFS) => {
                        events.push(format!(
                            "more link messages in {namespace} than could be read"
                        ));
                    }
                    Err(e) => {
                        return Err(LabError::system(
                            format!("watch the links of {namespace}"),
                            e,
                        ));
                    }
                }
            }
        }
        events.dedup();
        Ok(events)
    }
}

fn subscribe(namespace: &str) -> Result<OwnedFd, LabError> {
    let action = || format!("watch the links of {namespace}");
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| LabError::system(action(), e))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP_LINK))
        .map_err(|e| LabError::system(action(), e))?;
    Ok(socket)
}

/// Returns the names of interfaces that a datagram of netlink messages reports as down or deleted.
fn links_down(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    // struct nlmsghdr: length 4, type 2, flags 2, sequence 4, port 4; then struct ifinfomsg: 16
    // bytes, flags at 8
    while let Some(header) = bytes.get(..32) {
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let length = word(0) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let flags = word(24);
        let Some(message) = bytes.get(..length).filter(|_| length >= 32) else {
            break;
        };
        let down = kind == RTM_DELLINK || (kind == RTM_NEWLINK && flags & IFF_LOWER_UP == 0);
        if down {
            names.extend(attribute(&message[32..], IFLA_IFNAME));
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    names
}

fn attribute(mut bytes: &[u8], requested: u16) -> Option<String> {
    while let Some(header) = bytes.get(..4) {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]);
        let value = bytes.get(4..length)?;
        if kind == requested {
            let text = value.split(|&b| b == 0).next().unwrap_or_default();
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u32, name: &str) -> Vec<u8> {
        let mut attributes = Vec::new();
        attributes.extend((4 + name.len() as u16 + 1).to_ne_bytes());
        attributes.extend(IFLA_IFNAME.to_ne_bytes());
        attributes.extend(name.as_bytes());
        attributes.resize((attributes.len() + 1).next_multiple_of(4), 0);
        let mut bytes = Vec::new();
        bytes.extend((32 + attributes.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend([0; 8]);
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn only_links_that_go_down_count() {
        let mut datagram = message(RTM_NEWLINK, IFF_LOWER_UP | 1, "tx0");
        datagram.extend(message(RTM_NEWLINK, 1, "eth1"));
        datagram.extend(message(RTM_DELLINK, IFF_LOWER_UP, "rx0"));
        assert_eq!(links_down(&datagram), ["eth1", "rx0"]);
        for cut in 0..datagram.len() {
            // a torn datagram must not panic
            let _ = links_down(&datagram[..cut]);
        }
    }
}
