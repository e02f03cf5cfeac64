//! Open vSwitch with DPDK: `ovs-vswitchd` with its database, one bridge `br0` of the user-space
//! datapath, and the DUT's ports 1 and 2 in it, which are packet sockets (`net_af_packet`).
//!
//! Configurations are commands that run when it forwards. Start with [`OVS`].

use std::path::{Path, PathBuf};

use fwdlab_model::campaign::Kind;

use super::{CommandLine, DataPlane};
use crate::dut::set::Step;
use crate::error::LabError;

pub(super) static OVS: DataPlane = DataPlane {
    kind: Kind::OvsDpdk,
    name: "ovs-vswitchd",
    programs: &[
        "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
        "ovs-vswitchd",
    ],
    needs,
    install: "apt-get install openvswitch-switch-dpdk",
    // the bridge has a port of its own, which is a tap
    modules: &["tun"],
    takes: "commands such as 'ovs-ofctl add-flow br0 in_port=1,actions=output:2', a file of them, a program, or several of these",
    add,
    takes_later: |step| matches!(step, Step::Shell(_) | Step::Execute(_)),
    arguments: |_, _, _| ARGUMENTS.split(' ').map(str::to_owned).collect(),
    before: Some(DATABASE),
    after: Some(|_, on| on.run(BRIDGE, Kind::OvsDpdk).map(|()| None)),
    idle_threads: 1,
    slow_path: Some(
        "ovs-appctl dpif-netdev/pmd-stats-show | sed -n 's/.*miss with [a-z]* upcall: //p'",
    ),
};

const TOOLS: [&str; 5] = [
    "ovsdb-tool",
    "ovsdb-server",
    "ovs-vsctl",
    "ovs-ofctl",
    "ovs-appctl",
];

/// The database's schema, from the directory of the first tool.
const SCHEMA: &str = "../share/openvswitch/vswitch.ovsschema";

/// Of its messages only those that explain an error: it complains if it is stopped for long.
const ARGUMENTS: &str = "unix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovs-vswitchd.pid \
     --unixctl=/run/openvswitch/vswitchd.ctl -vconsole:warn -vsyslog:off -vfile:off -vtimeval:off \
     -vpoll_loop:off -vovs_rcu:off";

/// Nothing but frames causes work: flows do not expire, and nothing is revalidated or reported for
/// an hour. With a probability of 1 instead of 1/100, the first burst fills the exact match cache,
/// so that later ones do not differ.
const DATABASE: &str = "set -e
mkdir -p /run/openvswitch /usr/local/var/run
[ -e /usr/local/var/run/openvswitch ] || ln -s /run/openvswitch /usr/local/var/run/openvswitch
modprobe tun
tool=$(readlink -f \"$(command -v ovsdb-tool)\")
ovsdb-tool create /run/openvswitch/conf.db \"${tool%/*}/../share/openvswitch/vswitch.ovsschema\"
ovsdb-server /run/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --unixctl=/run/openvswitch/ovsdb.ctl \
    --no-chdir --detach --pidfile=/run/openvswitch/ovsdb-server.pid -vconsole:warn -vsyslog:off -vfile:off
ovs-vsctl --no-wait init -- set Open_vSwitch . other_config:dpdk-init=true \
    other_config:dpdk-extra='--no-huge --legacy-mem -m 128 --no-pci --no-shconf --no-telemetry --iova-mode=va' \
    other_config:dpdk-lcore-mask=0x1 other_config:pmd-cpu-mask=0x1 other_config:emc-insert-inv-prob=1 \
    other_config:max-idle=3600000 other_config:max-revalidator=3600000 other_config:stats-update-interval=3600000";

const BRIDGE: &str = "set -e
port() {
    echo \"-- add-port br0 $2 -- set interface $2 type=dpdk ofport_request=$(($1 + 1)) options:dpdk-devargs=net_af_packet$1,iface=$2,framesz=2048,framecnt=$3\"
}
ovs-vsctl --timeout=30 add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure $(port 0 $1 $3) $(port 1 $2 $3)
ln -s vswitchd.ctl /run/openvswitch/ovs-vswitchd.$(cat /run/openvswitch/ovs-vswitchd.pid).ctl
ovs-ofctl add-flow br0 in_port=1,actions=output:2
ovs-ofctl add-flow br0 in_port=2,actions=output:1";

fn needs(line: &CommandLine) -> Result<Vec<PathBuf>, LabError> {
    let tools = TOOLS.map(|tool| line.of.find(&[Path::new(tool)]));
    let mut all = tools.into_iter().collect::<Result<Vec<_>, _>>()?;
    all.push(line.of.find(&[&all[0].with_file_name(SCHEMA)])?);
    Ok(all)
}

/// One word is a program.
pub(super) fn add(line: &mut CommandLine, text: &str) -> bool {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(program), None) => {
            line.program = program.into();
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dut::Configuration;

    #[test]
    fn commands_run_after_the_start_and_one_word_is_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let line = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            let configuration = Configuration::named("x", &parts, folder.path()).unwrap();
            let of = CommandLine::of(Kind::OvsDpdk, Some(&configuration), Some("ls"));
            of.map(|line| line.expect("a data plane"))
        };
        let is = |name: &str| fs::canonicalize(Path::new("/bin").join(name)).unwrap();
        let flow = "ovs-ofctl add-flow br0 actions=drop";
        fs::write(folder.path().join("flows"), flow).unwrap();
        for configuration in [flow, "flows"] {
            let line = line(&[configuration]).unwrap();
            assert_eq!(line.program, is("ls"));
            let after = line.after.unwrap();
            assert_eq!(after.steps(), [Step::Shell(flow.into())]);
        }
        for program in ["/bin/sh", "sh"] {
            let line = line(&[program]).unwrap();
            assert_eq!((line.program, line.after), (is("sh"), None));
        }
        let reason = line(&["no-vswitch"]).err().unwrap().to_string();
        assert!(
            reason.contains("apt-get install openvswitch-switch-dpdk"),
            "{reason}"
        );
        fs::write(folder.path().join("a.nft"), "").unwrap();
        let reason = line(&["a.nft"]).err().unwrap().to_string();
        assert!(reason.contains("not for ovs-dpdk"), "{reason}");
    }
}
