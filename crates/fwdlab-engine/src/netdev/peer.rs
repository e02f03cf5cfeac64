//! The other end of a veth pair: how many queues it receives from, also in another namespace.
//!
//! A frame that is sent through queue n of a veth arrives on queue n of its peer. Without such a
//! queue it bypasses the peer's XDP program, and senders of live frames share a queue and its
//! counters, which are then wrong. Start with [`check_queues`].

use std::io;

use super::{
    NLM_F_REQUEST, attribute_from, number_from, receive_reply, route_socket, send_request,
};
use crate::error::EngineError;
use crate::port::{PathSpec, interface_index, within};
use crate::sys::available_cpus;

const RTM_GETLINK: u16 = 18;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER: usize = 16 + 16;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_TARGET_NETNSID: u16 = 46;

/// Checks that the peer of each veth port receives from a queue for each sender, and returns the
/// smallest number of queues. Ports of other kinds have no such peer.
///
/// # Errors
/// If it has fewer.
pub(crate) fn check_queues(
    engine: &'static str,
    paths: &[PathSpec],
    senders: u32,
) -> Result<Option<u32>, EngineError> {
    let mut fewest: Option<u32> = None;
    for PathSpec { tx, .. } in paths {
        let queues = within(&tx.netns, || {
            let index = interface_index(&tx.interface)?;
            receive_queues(index).map_err(|e| {
                EngineError::system(format!("ask for the peer of {}", tx.interface), e)
            })
        })?;
        if let Some(queues) = queues.filter(|&queues| queues < senders) {
            return Err(EngineError::Unsupported {
                engine,
                action: format!(
                    "send with {senders} threads into {}: its veth peer has {queues} receive queues, and senders that share one \
                     make its counters wrong. Use at most {queues} senders, or create the pair with numrxqueues {senders} at \
                     the peer",
                    tx.interface
                ),
            });
        }
        fewest = fewest.into_iter().chain(queues).min();
    }
    Ok(fewest)
}

/// Returns a CPU for each of several senders whose queues the kernel chooses by their CPUs: the
/// given ones, or any that this process may use. At a veth, senders on CPUs of one queue would
/// share it.
///
/// # Errors
/// If there are too few.
pub(crate) fn check_cpus(
    engine: &'static str,
    paths: &[PathSpec],
    cpus: &[usize],
    senders: u32,
) -> Result<Vec<usize>, EngineError> {
    let queues = check_queues(engine, paths, senders)?;
    let available = match cpus {
        [] => available_cpus(),
        cpus => cpus.to_vec(),
    };
    let chosen = one_for_each_queue(&available, queues, senders);
    match chosen.len() == senders as usize {
        true => Ok(chosen),
        false => Err(EngineError::Unsupported {
            engine,
            action: format!(
                "send with {senders} threads on {} of the CPUs {available:?}: each needs a CPU of its own{}",
                chosen.len(),
                match queues {
                    Some(queues) => format!(
                        ", whose number modulo the {queues} receive queues of the veth peer is that of no other"
                    ),
                    None => String::new(),
                }
            ),
        }),
    }
}

/// Returns the first CPUs of which no two share a queue.
fn one_for_each_queue(cpus: &[usize], queues: Option<u32>, senders: u32) -> Vec<usize> {
    let queue = |cpu: usize| queues.map_or(cpu, |queues| cpu % queues.max(1) as usize);
    let mut chosen: Vec<usize> = Vec::new();
    for &cpu in cpus {
        if chosen.len() < senders as usize && chosen.iter().all(|&other| queue(other) != queue(cpu))
        {
            chosen.push(cpu);
        }
    }
    chosen
}

/// Returns the number of receive queues of an interface's veth peer; `None` if it is no veth.
fn receive_queues(index: u32) -> io::Result<Option<u32>> {
    let link = link(index, None)?;
    let Some(peer) = veth_peer(&link) else {
        return Ok(None);
    };
    let namespace = number_from(&link, HEADER, IFLA_LINK_NETNSID);
    let peer = self::link(peer, namespace)?;
    Ok(number_from(&peer, HEADER, IFLA_NUM_RX_QUEUES))
}

/// Returns the peer's index in its namespace.
fn veth_peer(link: &[u8]) -> Option<u32> {
    let info = attribute_from(link, HEADER, IFLA_LINKINFO)?;
    // its attributes begin at once
    let kind = attribute_from(info, 0, IFLA_INFO_KIND)?;
    let is_veth = kind.strip_suffix(b"\0").unwrap_or(kind) == b"veth";
    number_from(link, HEADER, IFLA_LINK).filter(|_| is_veth)
}

/// Returns the kernel's attributes of a link, in another namespace if its id is given.
fn link(index: u32, namespace: Option<u32>) -> io::Result<Vec<u8>> {
    let socket = route_socket()?;
    send_request(&socket, &request(index, namespace))?;
    let answer = receive_reply(&socket)?;
    match answer.len() > HEADER && answer[4..6] != super::NLMSG_ERROR.to_ne_bytes() {
        true => Ok(answer),
        false => Err(super::no_answer()),
    }
}

fn request(index: u32, namespace: Option<u32>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    bytes[20..24].copy_from_slice(&index.to_ne_bytes());
    if let Some(namespace) = namespace {
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(IFLA_TARGET_NETNSID.to_ne_bytes());
        bytes.extend(namespace.to_ne_bytes());
    }
    let length = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&length.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_get_cpus_of_different_queues() {
        assert_eq!(one_for_each_queue(&[0, 1, 2, 3], Some(2), 2), [0, 1]);
        assert_eq!(one_for_each_queue(&[0, 2, 3], Some(2), 2), [0, 3]);
        assert_eq!(one_for_each_queue(&[0, 2, 4], Some(2), 2), [0]);
        assert_eq!(one_for_each_queue(&[0, 2, 4], None, 2), [0, 2]);
        assert_eq!(one_for_each_queue(&[5, 5], None, 2), [5]);
    }

    #[test]
    fn loopback_is_no_veth_and_a_missing_interface_an_error() {
        assert_eq!(receive_queues(1).unwrap(), None);
        assert!(receive_queues(u32::MAX >> 1).is_err());
    }

    #[test]
    fn the_peer_of_a_veth_is_found_and_truncated_answers_do_not_panic() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let of_kind = |kind: &[u8]| {
            let mut bytes = request(7, None);
            bytes.extend(attribute(IFLA_LINK, &9_u32.to_ne_bytes()));
            bytes.extend(attribute(IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, kind)));
            bytes
        };
        assert_eq!(veth_peer(&of_kind(b"veth\0")), Some(9));
        assert_eq!(veth_peer(&of_kind(b"vlan\0")), None);
        let whole = of_kind(b"veth\0");
        for length in 0..whole.len() - 8 {
            assert_eq!(veth_peer(&whole[..length]), None);
        }
    }
}
