//! A real VPP that is already running: settings appear in its own tables, and it is left as it was.
//!
//! The VPP build next to the repository is unpacked once; if it is missing, or does not start here,
//! the test is skipped. Measurements with VPP are tested with the program.

use crate::vpp_build;

use std::process::Command;
use std::sync::Arc;

use fwdlab_lab::bed::Bed;
use fwdlab_lab::control::Control;
use fwdlab_lab::dut::{Dut, SweptParameter, Vpp};
use fwdlab_lab::host::Netns;
use fwdlab_lab::host::undo::Undo;
use fwdlab_lab::networks::Networks;
use fwdlab_lab::placement::Placement;
use fwdlab_model::campaign::{self, Kind};
use fwdlab_model::trial::IpVersion;

#[test]
fn an_external_vpp_is_restored() {
    let test = "an_external_vpp_is_restored";
    if !fwdlab_lab::user_namespace::is_root() {
        return println!("SKIPPED: {test}: not root");
    }
    let program = match vpp_build::unpacked() {
        Ok(program) => program,
        Err(reason) => return println!("SKIPPED: {test}: {reason}"),
    };
    // a VPP that is not ours: that of a bed
    let ours = campaign::Dut {
        kind: Kind::Vpp,
        program: Some(program.to_str().unwrap().into()),
        ..campaign::Dut::default()
    };
    let bed = Bed::up_vpp(&ours, false, &Placement::default()).unwrap();
    let namespace = bed.dut(0).name().to_owned();
    let socket = std::env::temp_dir().join(format!("{namespace}-vpp/cli.sock"));
    let (socket, vppctl) = (socket.to_str().unwrap(), program.with_file_name("vppctl"));
    let tables = || {
        let requested = [
            "show ip fib summary",
            "show ip6 fib summary",
            "show acl-plugin acl",
            "show acl-plugin interface",
        ];
        let printed = requested.map(|line| {
            let output = Command::new(&vppctl)
                .args(["-s", socket, line])
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        });
        // an interface that once had an ACL stays in its list, without any
        let printed = printed.join("\n");
        let lines = printed
            .lines()
            .filter(|line| !line.starts_with("sw_if_index"));
        lines.collect::<Vec<_>>().join("\n")
    };

    let record = tempfile::NamedTempFile::new().unwrap();
    let undo = Arc::new(Undo::new(record.reopen().unwrap()));
    let ports = ["host-eth0", "host-eth1"];
    let host = Arc::new(Netns::bare(&namespace));
    let dut = Vpp::new(host, socket, ports, Networks::EMBEDDED, undo)
        .with_program(vppctl.to_str().unwrap());
    assert!(dut.port_problems().unwrap().is_empty());
    assert!(dut.counters().unwrap().is_some() && !dut.is_kernel());

    let (before, control) = (tables(), Control::default());
    for version in [IpVersion::Ipv4, IpVersion::Ipv6] {
        for swept in [SweptParameter::Routes, SweptParameter::Rules] {
            let change = dut.set(&swept, version, 500, &control).unwrap().unwrap();
            let with = tables();
            let word = match (&swept, version) {
                (SweptParameter::Routes, IpVersion::Ipv4) => " 500",
                // including the routes of the two ports
                (SweptParameter::Routes, IpVersion::Ipv6) => " 502",
                _ => "count 501 tag {fwdlab}",
            };
            assert!(with.contains(word) && with != before, "{swept:?}: {with}");
            dut.undo_change(change, fwdlab_lab::host::Limit::OURS)
                .unwrap();
            assert_eq!(tables(), before, "{swept:?}, {version:?}");
        }
    }
    let pairs = [("2001:2::/49".to_owned(), "2001:2:0:8000::/49".to_owned())];
    dut.filter(&pairs, 25, &mut |_| Ok(())).unwrap();
    assert!(tables().contains("count 25 tag {fwdlab_filters}"));
    // another process that finds the record could do it as well, and twice
    assert_eq!(dut.undo(), Vec::<String>::new());
    assert_eq!(dut.undo(), Vec::<String>::new());
    assert_eq!(tables(), before);

    let none = dut.account().unwrap().unwrap()().unwrap();
    assert_eq!((none.frames, none.packets_in()), (0, None), "{none:?}");
    // a VPP that has ended has nothing to undo, and is not waited for
    dut.set(&SweptParameter::Routes, IpVersion::Ipv4, 5, &control)
        .unwrap();
    drop(bed);
    let gone = dut.port_problems().unwrap_err().to_string();
    assert!(gone.contains(&namespace), "{gone}");
}
