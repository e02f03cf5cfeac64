//! Ports of hosts that stand: what they are, who needs them, and how they are taken up and given back.
//!
//! In the words of the system that has them: `ip` of Linux, `ifconfig` of FreeBSD (**not yet run on the real thing**), and VPP's command line.
//! What is changed is written down first. Start with [`take`].

use std::sync::Arc;

use fwdlab_model::test_bed::Mac;
use serde::Deserialize;

use crate::dut::vpp::cli::Cli;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Failure, Host, Limit};

/// What is known of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub mac: [u8; 6],
    /// The largest packet; nothing where its system has another word for that.
    pub mtu: Option<u32>,
    /// Shall it be up?
    pub is_up: bool,
    /// Is there somebody at the other end? Nothing where it does not say.
    pub has_link: Option<bool>,
    /// It is a TAP device, whose kernel does not count the frames that an XDP program takes.
    pub is_tap: bool,
}

/// Whose words are understood on a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Words<'a> {
    Linux,
    FreeBsd,
    Vpp(&'a Cli),
}

/// What `ip -json link` says of a port.
#[derive(Debug, Deserialize)]
struct OfLinux {
    address: Option<String>,
    mtu: u32,
    flags: Vec<String>,
    linkinfo: Option<LinkInfo>,
}

#[derive(Debug, Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

/// Looks at a port, refuses one that is in use, and takes it up.
pub(super) fn take(
    host: &Arc<dyn Host>,
    port: &str,
    words: Words<'_>,
    undo: &Undo,
) -> Result<Link, LabError> {
    let link = look(host.as_ref(), port, words)?;
    if let Some(why) = in_use(host.as_ref(), port, words)? {
        return Err(LabError::Preflight(format!(
            "{port} of {} is no port for a test: {why}. Give the test bed another port, or take that away there first",
            host.name()
        )));
    }
    take_up(host, port, &link, words, undo)?;
    Ok(link)
}

/// Takes a port up that is down.
pub(super) fn take_up(
    host: &Arc<dyn Host>,
    port: &str,
    link: &Link,
    words: Words<'_>,
    undo: &Undo,
) -> Result<(), LabError> {
    if link.is_up {
        return Ok(());
    }
    let of = |lines: [String; 2]| {
        lines.map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Command::new(words[0], &words[1..])
        })
    };
    let [up, down] = match words {
        Words::Linux => of(["up", "down"].map(|to| format!("ip link set dev {port} {to}"))),
        Words::FreeBsd => of(["up", "down"].map(|to| format!("ifconfig {port} {to}"))),
        Words::Vpp(cli) => {
            ["up", "down"].map(|to| cli.each(&format!("set interface state {port} {to}\n")))
        }
    };
    undo.before(host, &format!("{port} taken up"), down)?;
    host.run(&up, Limit::OURS)?;
    Ok(())
}

/// What is known of a port.
pub(crate) fn look(host: &dyn Host, port: &str, words: Words<'_>) -> Result<Link, LabError> {
    let (said, asked, found) = match words {
        Words::Linux => {
            let line = ["-json", "-details", "link", "show", "dev", port];
            let said = host.ask("ip", &line).map_err(|e| missing(host, port, e))?;
            let found = of_linux(&said);
            (said, format!("ip {}", line.join(" ")), found)
        }
        Words::FreeBsd => {
            let said = host
                .ask("ifconfig", &[port])
                .map_err(|e| missing(host, port, e))?;
            let found = of_freebsd(&said);
            (said, format!("ifconfig {port}"), found)
        }
        Words::Vpp(cli) => {
            let line = format!("show hardware-interfaces {port}");
            let said = cli.ask(&line)?;
            let state = cli.ask(&format!("show interface {port}"))?;
            let found = of_vpp(&said, &state, port);
            (said, line, found)
        }
    };
    found.ok_or_else(|| {
        let said: String = said.trim().chars().take(80).collect();
        LabError::Preflight(format!(
            "`{asked}` on {} gives \"{}\", which is no port with a MAC address. Try it there by hand",
            host.name(),
            said.escape_debug()
        ))
    })
}

fn missing(host: &dyn Host, port: &str, error: crate::host::HostError) -> LabError {
    match error.failure {
        Failure::Exit { .. } => LabError::Preflight(format!(
            "there is no port {port} on {}: {error}",
            host.name()
        )),
        _ => error.into(),
    }
}

fn mac(text: &str) -> Option<[u8; 6]> {
    let Mac(mac) = text.parse().ok()?;
    Some(mac)
}

fn of_linux(said: &str) -> Option<Link> {
    let links: Vec<OfLinux> = serde_json::from_str(said).ok()?;
    let link = links.into_iter().next()?;
    let is = |flag: &str| link.flags.iter().any(|one| one == flag);
    Some(Link {
        mac: mac(link.address.as_deref()?)?,
        mtu: Some(link.mtu),
        is_up: is("UP"),
        has_link: Some(is("LOWER_UP")),
        is_tap: (link.linkinfo).is_some_and(|info| info.info_kind.as_deref() == Some("tun")),
    })
}

/// `em0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500`, and behind it `ether` and `status`.
fn of_freebsd(said: &str) -> Option<Link> {
    let mut lines = said.lines();
    let head = lines.next()?;
    let flags = head.split_once('<')?.1.split_once('>')?.0;
    let mut words = head.split_whitespace();
    let mtu = words.find(|word| *word == "mtu").and_then(|_| words.next());
    let value = |name: &str| {
        let mut lines = said.lines().skip(1);
        lines.find_map(|line| Some(line.trim().strip_prefix(name)?.trim().to_owned()))
    };
    Some(Link {
        mac: mac(&value("ether ")?)?,
        mtu: mtu.and_then(|mtu| mtu.parse().ok()),
        is_up: flags.split(',').any(|flag| flag == "UP"),
        has_link: value("status:").map(|status| status == "active"),
        is_tap: false,
    })
}

/// Of its hardware a line with its name, number and link, and behind it `Ethernet address 02:fe:...`; of the interface one with its name,
/// number and state.
fn of_vpp(hardware: &str, state: &str, port: &str) -> Option<Link> {
    let is_own = |line: &&str| line.split_whitespace().next() == Some(port);
    let third = |line: &str| line.split_whitespace().nth(2) == Some("up");
    let mut lines = hardware.lines();
    let head = lines.find(is_own)?;
    let address = lines.find_map(|line| line.trim().strip_prefix("Ethernet address "))?;
    Some(Link {
        mac: mac(address.trim())?,
        mtu: None,
        is_up: third(state.lines().find(is_own)?),
        has_link: Some(third(head)),
        is_tap: false,
    })
}

/// Who needs this port, where that can be seen: what is forwarded by default, and our own way to the host.
pub(crate) fn in_use(
    host: &dyn Host,
    port: &str,
    words: Words<'_>,
) -> Result<Option<String>, LabError> {
    let (default, own) = match words {
        // the host does not see it
        Words::Vpp(_) => return Ok(None),
        Words::Linux => {
            let mut default = String::new();
            for family in ["-4", "-6"] {
                default += &host.ask("ip", &[family, "route", "show", "default", "dev", port])?;
            }
            let own = host.ask("ip", &["-oneline", "addr", "show", "dev", port])?;
            (default, own)
        }
        Words::FreeBsd => {
            // without such a route it fails
            let look = "for f in -inet -inet6; do route -n get $f default 2>/dev/null || :; done";
            let all = host.ask("sh", &["-c", look])?;
            let is_there = |line: &&str| line.trim() == format!("interface: {port}");
            let default = all.lines().find(is_there).unwrap_or_default().to_owned();
            (default, host.ask("ifconfig", &[port])?)
        }
    };
    if let Some(line) = default.lines().next() {
        return Ok(Some(format!(
            "the host's default route is there (`{}`)",
            line.trim()
        )));
    }
    let ours = host.ask("sh", &["-c", "echo \"${SSH_CONNECTION:-}\""])?;
    // client, its port, server, its port
    let Some(server) = ours.split_whitespace().nth(2) else {
        return Ok(None);
    };
    let is_there = own
        .split_whitespace()
        .any(|word| word.split('/').next() == Some(server));
    Ok(is_there.then(|| format!("it has {server}, by which fwdlab reaches the host")))
}

/// A port of the tester says nothing of its own: no neighbour discovery, no router solicitations.
pub(super) fn silence(host: &Arc<dyn Host>, port: &str, undo: &Undo) -> Result<(), LabError> {
    let file = format!("/proc/sys/net/ipv6/conf/{port}/disable_ipv6");
    // a kernel without IPv6 says nothing
    let Ok(before) = host.read(&file) else {
        return Ok(());
    };
    if before.starts_with(b"1") {
        return Ok(());
    }
    let back = Command::shell(&format!("echo 0 > {file}")).called(format!("put {file} back"));
    undo.before(host, &format!("IPv6 switched off at {port}"), back)?;
    Ok(host.write(&file, b"1")?)
}

/// What configurations do to the rules of nftables is taken back: those of before are loaded again.
pub(super) fn keep_rules(host: &Arc<dyn Host>, undo: &Undo) -> Result<(), LabError> {
    let look =
        "PATH=$PATH:/usr/sbin:/sbin; command -v nft >/dev/null || exit 0; nft -s list ruleset";
    let rules = host.ask("sh", &["-c", look])?;
    let text = "PATH=$PATH:/usr/sbin:/sbin; command -v nft >/dev/null || exit 0; { echo flush ruleset; cat; } | nft -f -";
    let back = Command::new("sh", &["-c", text]).called("put the rules of nftables back");
    undo.before(host, "rules of nftables", back.with_input(rules))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_the_words_of_their_systems() {
        let expected = Link {
            mac: [2, 0, 0, 0, 0, 0x0a],
            mtu: Some(1500),
            is_up: true,
            has_link: Some(true),
            is_tap: false,
        };
        let linux = r#"[{"ifindex":2,"ifname":"eth1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"address":"02:00:00:00:00:0a"}]"#;
        assert_eq!(of_linux(linux), Some(expected.clone()));
        assert_eq!(of_linux("[]"), None);
        let tap = linux.replace(
            "\"mtu\"",
            r#""linkinfo":{"info_kind":"tun","info_data":{"type":"tap"}},"mtu""#,
        );
        let expected_tap = Link {
            is_tap: true,
            ..expected.clone()
        };
        assert_eq!(of_linux(&tap), Some(expected_tap));
        let freebsd = "em0: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500\n\
            \toptions=4e504bb<RXCSUM,TXCSUM,VLAN_MTU,LRO>\n\tether 02:00:00:00:00:0a\n\tinet 192.0.2.1 netmask 0xffffff00 broadcast 192.0.2.255\n\
            \tmedia: Ethernet autoselect (1000baseT <full-duplex>)\n\tstatus: active\n\tnd6 options=29<PERFORMNUD,IFDISABLED,AUTO_LINKLOCAL>\n";
        assert_eq!(of_freebsd(freebsd), Some(expected.clone()));
        let down = freebsd.replace("<UP,", "<").replace("active", "no carrier");
        let expected_down = Link {
            is_up: false,
            has_link: Some(false),
            ..expected.clone()
        };
        assert_eq!(of_freebsd(&down), Some(expected_down));
        assert_eq!(of_freebsd("ifconfig: interface em9 does not exist\n"), None);
        let vpp = "              Name                Idx   Link  Hardware\nhost-eth0                          1     up   host-eth0\n  \
            Link speed: unknown\n  RX Queues:\n    queue thread         mode\n    0     main (0)       interrupt\n  \
            Ethernet address 02:00:00:00:00:0a\n  Linux PACKET socket interface v3\n";
        let state = "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count\n\
            host-eth0                         1     down         9000/0/0/0\n";
        let expected_vpp = Link {
            mtu: None,
            is_up: false,
            ..expected
        };
        assert_eq!(of_vpp(vpp, state, "host-eth0"), Some(expected_vpp));
        assert_eq!(of_vpp(vpp, state, "host-eth1"), None);
    }
}
