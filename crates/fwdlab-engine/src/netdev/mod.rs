//! Queries to the kernel's `netdev` family over generic netlink: devices, and the threads that
//! serve them.
//!
//! The callers interpret the answers. Start with [`Offers::query`] and [`napi_threads`].

mod features;
mod pass;
mod peer;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send,
    socket_with,
};

pub use self::features::Offers;
pub use self::pass::XdpPass;
pub(crate) use self::pass::attach;
pub(crate) use self::peer::{check_cpus, check_queues};
use crate::error::EngineError;
use crate::port::interface_index;

/// `struct nlmsghdr`, `struct genlmsghdr`.
const HEADER: usize = 16 + 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETNSID: u16 = 90;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
/// The family that resolves the numbers of all others.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_PID: u16 = 4;

/// Returns the number by which the calling thread's network namespace knows another one, an open
/// file; -1 if it has none.
///
/// # Errors
/// If the file is not a network namespace.
pub fn namespace_number(namespace: BorrowedFd<'_>) -> io::Result<i32> {
    let socket = route_socket()?;
    let file = namespace.as_raw_fd().to_ne_bytes();
    // `struct rtgenmsg` is as long as `struct genlmsghdr`, and its first byte may be 0, too
    send_request(
        &socket,
        &request(RTM_GETNSID, NLM_F_REQUEST, 0, NETNSA_FD, &file),
    )?;
    let number = number(&receive_reply(&socket)?, NETNSA_NSID);
    number.map(u32::cast_signed).ok_or_else(no_answer)
}

/// Returns the kernel's threads that serve an interface of the calling thread's namespace
/// (`threaded` NAPI), oldest first; empty if there are none. Searching by name is not enough:
/// threads of other namespaces may have the same names.
///
/// # Errors
/// If the kernel does not report them (before Linux 6.8), or there is no such interface.
pub fn napi_threads(interface: &str) -> Result<Vec<u32>, EngineError> {
    let index = interface_index(interface)?;
    let answers = Netdev::open()
        .and_then(|netdev| {
            let of = index.to_ne_bytes();
            netdev.dump(NETDEV_CMD_NAPI_GET, NETDEV_A_NAPI_IFINDEX, &of)
        })
        .map_err(|e| EngineError::system(format!("find the threads of {interface}"), e))?;
    let mut threads: Vec<(u32, u32)> = answers
        .iter()
        .filter(|answer| number(answer, NETDEV_A_NAPI_IFINDEX) == Some(index))
        .filter_map(|answer| {
            Some((
                number(answer, NETDEV_A_NAPI_ID)?,
                number(answer, NETDEV_A_NAPI_PID)?,
            ))
        })
        .collect();
    threads.sort_unstable();
    Ok(threads.into_iter().map(|(_, thread)| thread).collect())
}

/// The family, in the namespace in which it was opened.
struct Netdev {
    socket: OwnedFd,
    family: u16,
}

impl Netdev {
    /// Finds the family.
    ///
    /// # Errors
    /// If the kernel has none (before Linux 6.3).
    fn open() -> io::Result<Netdev> {
        let socket = netlink_socket(Some(netlink::GENERIC))?;
        let family = request(
            GENL_ID_CTRL,
            NLM_F_REQUEST,
            CTRL_CMD_GETFAMILY,
            CTRL_ATTR_FAMILY_NAME,
            b"netdev\0",
        );
        send_request(&socket, &family)?;
        let family = attribute(&receive_reply(&socket)?, CTRL_ATTR_FAMILY_ID)
            .and_then(|value| Some(u16::from_ne_bytes(*value.first_chunk()?)))
            .ok_or_else(no_answer)?;
        Ok(Netdev { socket, family })
    }

    /// Sends a request with one attribute and returns the answer.
    ///
    /// # Errors
    /// If there is none, or it lacks that attribute.
    fn get(&self, command: u8, kind: u16, value: &[u8]) -> io::Result<Vec<u8>> {
        send_request(
            &self.socket,
            &request(self.family, NLM_F_REQUEST, command, kind, value),
        )?;
        let answer = receive_reply(&self.socket)?;
        attribute(&answer, kind).ok_or_else(no_answer)?;
        Ok(answer)
    }

    /// Sends a request with one attribute and returns all answers.
    fn dump(&self, command: u8, kind: u16, value: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        send_request(
            &self.socket,
            &request(
                self.family,
                NLM_F_REQUEST | NLM_F_DUMP,
                command,
                kind,
                value,
            ),
        )?;
        let mut answers = Vec::new();
        loop {
            match take(&receive_reply(&self.socket)?, &mut answers) {
                DatagramKind::More => {}
                DatagramKind::Done => return Ok(answers),
                DatagramKind::Error => return Err(no_answer()),
            }
        }
    }
}

/// The kind of a datagram of a dump.
#[derive(Debug, PartialEq, Eq)]
enum DatagramKind {
    More,
    Done,
    Error,
}

/// Extracts the messages of a datagram.
fn take(mut datagram: &[u8], answers: &mut Vec<Vec<u8>>) -> DatagramKind {
    loop {
        let Some(length) = datagram.first_chunk().map(|four| u32::from_ne_bytes(*four)) else {
            return DatagramKind::More;
        };
        let length = length as usize;
        let (Some(message), Some(kind)) = (datagram.get(..length), half(datagram, 4)) else {
            return DatagramKind::Error;
        };
        match kind {
            // the number behind its header is 0 if the dump succeeded
            NLMSG_DONE if message.get(16..20).is_none_or(|code| code == [0; 4]) => {
                return DatagramKind::Done;
            }
            NLMSG_DONE | NLMSG_ERROR => return DatagramKind::Error,
            _ if length < HEADER => return DatagramKind::Error,
            _ => answers.push(message.to_vec()),
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
}

fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no such answer")
}

/// Opens a socket for requests about interfaces of the calling thread's namespace.
pub(crate) fn route_socket() -> io::Result<OwnedFd> {
    netlink_socket(None) // NETLINK_ROUTE is protocol 0
}

fn netlink_socket(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

fn send_request(socket: &OwnedFd, request: &[u8]) -> io::Result<()> {
    rustix::io::retry_on_intr(|| send(socket, request, SendFlags::empty()))?;
    Ok(())
}

fn receive_reply(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; 32768];
    let (bytes, _) =
        rustix::io::retry_on_intr(|| recv(socket, &mut answer[..], RecvFlags::empty()))?;
    answer.truncate(bytes);
    Ok(answer)
}

/// Builds a request with one attribute.
fn request(family: u16, flags: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let attribute_bytes = 4 + value.len();
    let length = HEADER + attribute_bytes.next_multiple_of(4);
    let mut bytes = vec![];
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((attribute_bytes as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// Returns the value of the first attribute of this kind; `None` also if the answer is an error.
fn attribute(answer: &[u8], kind: u16) -> Option<&[u8]> {
    if half(answer, 4)? == NLMSG_ERROR {
        return None;
    }
    attribute_from(answer, HEADER, kind)
}

/// Returns the value of the first attribute of this kind behind a header of this length.
fn attribute_from(answer: &[u8], header: usize, kind: u16) -> Option<&[u8]> {
    let mut at = header;
    loop {
        let length = usize::from(half(answer, at)?);
        if length < 4 {
            return None;
        }
        // the upper two bits are flags about the value
        if half(answer, at + 2)? & 0x3fff == kind {
            return answer.get(at + 4..at + length);
        }
        at += length.next_multiple_of(4);
    }
}

/// Reads a 16-bit number.
fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number(answer: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_ne_bytes(*attribute(answer, kind)?.first_chunk()?))
}

fn number_from(answer: &[u8], header: usize, kind: u16) -> Option<u32> {
    let value = attribute_from(answer, header, kind)?;
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_threads_and_a_missing_interface_none_either() {
        match napi_threads("lo") {
            Ok(threads) => assert!(threads.is_empty(), "{threads:?}"),
            Err(error) => {
                return println!(
                    "SKIPPED: loopback_has_no_threads_and_a_missing_interface_none_either: {error}"
                );
            }
        }
        assert!(napi_threads("no-such-port").is_err());
    }

    /// A dump in the kernel's format: two messages in one datagram, the end in another.
    #[test]
    fn dumps_are_parsed_and_truncated_ones_do_not_panic() {
        let of = |id: u32| {
            request(
                0x1c,
                NLM_F_REQUEST,
                NETDEV_CMD_NAPI_GET,
                NETDEV_A_NAPI_ID,
                &id.to_ne_bytes(),
            )
        };
        let datagram = [of(7), of(8)].concat();
        let mut answers = Vec::new();
        assert_eq!(take(&datagram, &mut answers), DatagramKind::More);
        let ids: Vec<_> = answers
            .iter()
            .map(|answer| number(answer, NETDEV_A_NAPI_ID))
            .collect();
        assert_eq!(ids, [Some(7), Some(8)]);
        let end = |kind: u16, code: i32| {
            let mut bytes = 20_u32.to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend([0; 10]);
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert_eq!(take(&end(NLMSG_DONE, 0), &mut answers), DatagramKind::Done);
        assert_eq!(
            take(&end(NLMSG_DONE, -19), &mut answers),
            DatagramKind::Error
        );
        assert_eq!(
            take(&end(NLMSG_ERROR, -95), &mut answers),
            DatagramKind::Error
        );
        for length in 0..datagram.len() {
            let _ = take(&datagram[..length], &mut Vec::new());
        }
    }
}
