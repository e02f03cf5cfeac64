//! What cannot be done: the error names the port, the reason and the remedy.
//!
//! Start with [`errors_have_a_remedy`].

mod slow;

use fwdlab_dpdk::{receiver, sender};

use super::*;

fn named(interface: &str) -> PortSpec {
    PortSpec {
        netns: None,
        interface: interface.into(),
    }
}

#[test]
fn errors_have_a_remedy() {
    let open = |name: &str| {
        sender(&[named(name)], &[], 1)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    for (name, words) in [
        ("dpdk:", "dpdk:DEVICE[,OPTION=VALUE]"),
        ("dpdk:net_nonsense0", "librte-net-"),
        ("dpdk:net_af_packet77,iface=none0", "cannot open the device"),
    ] {
        let error = open(name);
        let begin = format!("cannot use the DPDK port {name}: ");
        assert!(
            error.starts_with(&begin) && error.contains(words),
            "{error}"
        );
    }
    // a card needs huge pages, and then a driver
    let error = open("dpdk:0000:7f:1f.7");
    assert!(
        error.contains("nr_hugepages") || error.contains("vfio-pci"),
        "{error}"
    );
}

#[test]
fn frames_and_users_that_do_not_fit_are_refused() {
    let port = port("net_ring", "");
    let mut first = sender(std::slice::from_ref(&port), &[], 1).unwrap();
    let error = first.arm(&test_frames(2000)).unwrap_err().to_string();
    assert!(
        error.contains("1996 bytes") && error.contains("up to 1522"),
        "{error}"
    );
    first.arm(&test_frames(1518)).unwrap();
    let ports = [port.clone()];
    let error = sender(&ports, &[], 1).map(drop).unwrap_err().to_string();
    assert!(error.contains("has a sender already"), "{error}");
    let queues = facts(&port).queues.1;
    let error = sender(&ports, &[], u32::from(queues) + 1).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains(&format!("use 1 to {queues} senders")),
        "{error}"
    );
    let one = receiver(&port, &[]).unwrap();
    let error = receiver(&port, &[]).map(drop).unwrap_err().to_string();
    assert!(error.contains("has a receiver already"), "{error}");
    // each may come again while the other has the port
    drop(first);
    let second = sender(&ports, &[], 1).unwrap();
    drop(one);
    receiver(&port, &[]).unwrap();
    drop(second);
}
