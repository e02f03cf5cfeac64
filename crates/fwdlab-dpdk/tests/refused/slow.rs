//! Tests that wait for a long time and need no CPU meanwhile.

use fwdlab_dpdk::sender;

use super::*;

/// A connection without a peer is a link that is down.
#[test]
fn a_trial_without_a_link_names_the_port() {
    let socket = std::env::temp_dir().join(format!("fwdlab-dpdk-none-{}", std::process::id()));
    let options = format!(
        ",role=server,socket={},socket-abstract=no",
        socket.display()
    );
    let port = port("net_memif", &options);
    let mut sender = sender(std::slice::from_ref(&port), &[], 1).unwrap();
    assert!(!facts(&port).has_link);
    sender.arm(&test_frames(64)).unwrap();
    sender.start(flat_out(10)).unwrap();
    until("the sender did not end", || sender.is_done());
    let error = sender.stop().unwrap_err().to_string();
    assert!(
        error.contains(&port.interface) && error.contains("no link after 10 s"),
        "{error}"
    );
}
