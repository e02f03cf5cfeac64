//! Ports of existing hosts: their properties, their users, and how they are taken up and restored.
//!
//! Uses the tools of the host's system: `ip` of Linux, `ifconfig` of FreeBSD (**not yet run on the
//! real thing**), and VPP's command line. Every change is recorded first. Start with [`take`].

use std::sync::Arc;

use fwdlab_model::test_bed::Mac;
use serde::Deserialize;

use crate::dut::vpp::cli::Cli;
use crate::error::LabError;
use crate::host::undo::Undo;
use crate::host::{Command, Failure, Host, Limit, quoted};
use crate::ports::routes;

/// Properties of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The port's own name, which all commands use; a test bed may use another name for it.
    pub name: String,
    pub mac: [u8; 6],
    /// The largest packet; `None` if the system has another notion of it.
    pub mtu: Option<u32>,
    /// Administrative state.
    pub is_up: bool,
    /// Whether the link has a carrier; `None` if unknown.
    pub has_link: Option<bool>,
    /// It is a TAP device, whose kernel does not count the frames that an XDP program takes.
    pub is_tap: bool,
}

/// The command language of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PortCommands<'a> {
    Linux,
    FreeBsd,
    Vpp(&'a Cli),
}

/// A port in the output of `ip -json link`.
#[derive(Debug, Deserialize)]
struct OfLinux {
    ifname: String,
    address: Option<String>,
    mtu: u32,
    flags: Vec<String>,
    linkinfo: Option<LinkInfo>,
}

#[derive(Debug, Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

/// Inspects a port, refuses one that is in use, and takes it up.
pub(super) fn take(
    host: &Arc<dyn Host>,
    port: &str,
    words: PortCommands<'_>,
    undo: &Undo,
) -> Result<Link, LabError> {
    let link = read_link(host.as_ref(), port, words)?;
    let port = &*link.name;
    if let Some(reason) = in_use(host.as_ref(), port, words)? {
        return Err(LabError::Preflight(format!(
            "{port} of {} cannot be used for tests: {reason}. Use another port in the test bed, or remove that first",
            host.name()
        )));
    }
    set_link_up(host, &link, words, undo)?;
    Ok(link)
}

/// Takes a port up that is down.
pub(super) fn set_link_up(
    host: &Arc<dyn Host>,
    link: &Link,
    words: PortCommands<'_>,
    undo: &Undo,
) -> Result<(), LabError> {
    let port = &link.name;
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
        PortCommands::Linux => of(["up", "down"].map(|to| format!("ip link set dev {port} {to}"))),
        PortCommands::FreeBsd => of(["up", "down"].map(|to| format!("ifconfig {port} {to}"))),
        PortCommands::Vpp(cli) => {
            ["up", "down"].map(|to| cli.each(&format!("set interface state {port} {to}\n")))
        }
    };
    undo.before(host, &format!("{port} brought up"), down)?;
    host.run(&up, Limit::OURS)?;
    Ok(())
}

/// Returns the properties of a port.
pub(crate) fn read_link(
    host: &dyn Host,
    port: &str,
    words: PortCommands<'_>,
) -> Result<Link, LabError> {
    let (output, requested, found) = match words {
        PortCommands::Linux => {
            let line = ["-json", "-details", "link", "show", "dev", port];
            let output = host
                .query("ip", &line)
                .map_err(|e| missing(host, port, e))?;
            let found = parse_linux(&output);
            (output, format!("ip {}", line.join(" ")), found)
        }
        PortCommands::FreeBsd => {
            let output = host
                .query("ifconfig", &[port])
                .map_err(|e| missing(host, port, e))?;
            let found = parse_freebsd(&output, port);
            (output, format!("ifconfig {port}"), found)
        }
        PortCommands::Vpp(cli) => {
            let line = format!("show hardware-interfaces {port}");
            let output = cli.query(&line)?;
            let state = cli.query(&format!("show interface {port}"))?;
            let found = parse_vpp(&output, &state, port);
            (output, line, found)
        }
    };
    found.ok_or_else(|| {
        let output: String = output.trim().chars().take(80).collect();
        LabError::Preflight(format!(
            "`{requested}` on {} gives \"{}\", which is not a port with a MAC address. Try it there by hand",
            host.name(),
            output.escape_debug()
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

fn parse_linux(output: &str) -> Option<Link> {
    let links: Vec<OfLinux> = serde_json::from_str(output).ok()?;
    let link = links.into_iter().next()?;
    let is = |flag: &str| link.flags.iter().any(|one| one == flag);
    Some(Link {
        name: link.ifname,
        mac: mac(link.address.as_deref()?)?,
        mtu: Some(link.mtu),
        is_up: is("UP"),
        has_link: Some(is("LOWER_UP")),
        is_tap: (link.linkinfo).is_some_and(|info| info.info_kind.as_deref() == Some("tun")),
    })
}

/// Parses `em0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500`, followed by
/// lines with `ether` and `status`.
fn parse_freebsd(output: &str, port: &str) -> Option<Link> {
    let mut lines = output.lines();
    let head = lines.next()?;
    let flags = head.split_once('<')?.1.split_once('>')?.0;
    let mut words = head.split_whitespace();
    let mtu = words.find(|word| *word == "mtu").and_then(|_| words.next());
    let value = |name: &str| {
        let mut lines = output.lines().skip(1);
        lines.find_map(|line| Some(line.trim().strip_prefix(name)?.trim().to_owned()))
    };
    Some(Link {
        name: port.to_owned(),
        mac: mac(&value("ether ")?)?,
        mtu: mtu.and_then(|mtu| mtu.parse().ok()),
        is_up: flags.split(',').any(|flag| flag == "UP"),
        has_link: value("status:").map(|status| status == "active"),
        is_tap: false,
    })
}

/// Parses the hardware output, a line with name, number and link, followed by `Ethernet address
/// 02:fe:...`, and the interface output, a line with name, number and state.
fn parse_vpp(hardware: &str, state: &str, port: &str) -> Option<Link> {
    let is_own = |line: &&str| line.split_whitespace().next() == Some(port);
    let third = |line: &str| line.split_whitespace().nth(2) == Some("up");
    let mut lines = hardware.lines();
    let head = lines.find(is_own)?;
    let address = lines.find_map(|line| line.trim().strip_prefix("Ethernet address "))?;
    Some(Link {
        name: port.to_owned(),
        mac: mac(address.trim())?,
        mtu: None,
        is_up: third(state.lines().find(is_own)?),
        has_link: Some(third(head)),
        is_tap: false,
    })
}

/// Returns who needs this port, as far as that can be seen: a default route, or our own connection
/// to the host.
pub(crate) fn in_use(
    host: &dyn Host,
    port: &str,
    words: PortCommands<'_>,
) -> Result<Option<String>, LabError> {
    let (default, own) = match words {
        // the host does not see it
        PortCommands::Vpp(_) => return Ok(None),
        PortCommands::Linux => {
            let default = routes::default_route(host, port)?;
            let own = host.query("ip", &["-oneline", "addr", "show", "dev", port])?;
            (default, own)
        }
        PortCommands::FreeBsd => {
            // without such a route it fails destination, gateway, flags, interface
            let all = host.query("netstat", &["-rn"])?;
            let mut routes = all.lines().filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let prefix = words.first().filter(|_| words.get(3) == Some(&port))?;
                routes::is_default(prefix).then(|| (*prefix).to_owned())
            });
            (routes.next(), host.query("ifconfig", &[port])?)
        }
    };
    if let Some(prefix) = default {
        return Ok(Some(routes::words(&prefix)));
    }
    let ours = host.query("sh", &["-c", "echo \"${SSH_CONNECTION:-}\""])?;
    // client, its port, server, its port
    let Some(server) = ours.split_whitespace().nth(2) else {
        return Ok(None);
    };
    let is_there = own
        .split_whitespace()
        .any(|word| word.split('/').next() == Some(server));
    Ok(is_there.then(|| format!("fwdlab reaches the host at its address {server}")))
}

/// Keeps a port of the tester from sending frames of its own: neighbour discovery, router
/// solicitations.
pub(super) fn silence(host: &Arc<dyn Host>, port: &str, undo: &Undo) -> Result<(), LabError> {
    let file = format!("/proc/sys/net/ipv6/conf/{port}/disable_ipv6");
    // a kernel without IPv6 sends nothing
    let Ok(before) = host.read(&file) else {
        return Ok(());
    };
    if before.starts_with(b"1") {
        return Ok(());
    }
    let undo_commands =
        Command::shell(&format!("echo 0 > {file}")).called(format!("restore {file}"));
    undo.before(host, &format!("IPv6 switched off at {port}"), undo_commands)?;
    Ok(host.write(&file, b"1")?)
}

/// Folders of administrators' programs, which are not in every user's PATH.
const PATH: &str = "PATH=$PATH:/usr/sbin:/sbin; ";

/// Prints everything on a router that a configuration may change, one item per line. Values:
/// `/proc/sys/net/ipv4/ip_forward:0`, `offload eth1 rx-gro-list:off`, `mtu eth1:1500`. Objects that
/// exist or not: `=-4 route 192.0.2.0/24 dev eth1`. Excluded are keys of TCP fast open, which are
/// made when they are first needed, files that trigger actions (`vm.drop_caches`), and addresses
/// and routes set by the kernel or a daemon (DHCP, BGP).
const LOOK: &str = r#"look() {
    find $settings -type f -perm -200 ! -name tcp_fastopen_key ! -name drop_caches ! -name compact_memory \
        ! -name stat_refresh -exec grep -Hs '' {} +
    for port in $ports; do
        ethtool -k "$port" 2>/dev/null | awk -F': ' -v port="$port" '!/fixed/ && $2 ~ /^(on|off)/ {
            gsub(/^[ \t]+/, "", $1); split($2, state, " "); print "offload " port " " $1 ":" state[1] }'
    done
    ip -oneline link show | awk '{ sub(/@.*|:$/, "", $2); for (i = 3; i < NF; i++) if ($i == "mtu") print "mtu " $2 ":" $(i + 1) }'
    for family in -4 -6; do
        ip $family -oneline addr show | awk '!/ (dynamic|temporary) / && !/ scope link / {
            name = $2; sub(/@.*/, "", name); text = ""
            for (i = 4; i < NF && $i != "scope"; i++) text = text " " $i
            print "='$family' addr dev " name text " scope " $(i + 1) ($3 == "inet6" ? " nodad" : "") }'
        for by in boot static; do
            ip $family -oneline route show table all proto $by | sed 's/ *\\\t*/ /g; s/ linkdown//g; s/ dead//g; s/ pref medium//; s/ error -[0-9]*//; s/ *$//' |
                awk '!/ expires / { print "='$family' route " $0 " proto '$by'" }'
        done
        ip $family rule show | awk '{ sub(/:$/, "", $1); sub(/ \[detached\]/, ""); pref = $1; $1 = ""; print "='$family' rule pref " pref $0 }'
        ip $family neigh show nud permanent | awk '{ print "='$family' neigh " $1 " dev " $3 " lladdr " $5 " nud permanent" }'
    done 2>/dev/null
}
"#;

/// Restores the state that it reads from its input. Some settings change others (`ip_forward`,
/// `conf/all`, groups of offloads, addresses and the routes over them), so this takes several
/// rounds. Settings of a link that did not exist before disappear with the link, and are not
/// touched.
const PUT_BACK: &str = r#"before=$(cat)
differing() {
    { printf '%s\n==\n' "$before"; look; } | awk '
        $0 == "==" { now = 1; next }
        /^=/ { if (now) is[$0]; else was[$0]; next }
        { at = index($0, ":"); name = substr($0, 1, at - 1); value = substr($0, at + 1) }
        !now { had[name] = value; next }
        (name in had) && had[name] != value { print name; print had[name] }
        function is_new(line) { return match(line, / dev [^ ]+/) && !(("mtu " substr(line, RSTART + 5, RLENGTH - 5)) in had) }
        function tell(what, line) { split(line, word, " "); print word[1]; sub(/^[^ ]+ [^ ]+/, word[2] " " what, line); print line }
        END {
            for (line in is) if (!(line in was) && !is_new(line)) tell("del", line)
            for (line in was) if (!(line in is)) tell("add", line)
        }'
}
for round in 1 2 3; do
    left=$(differing)
    [ -n "$left" ] || exit 0
    printf '%s\n' "$left" | while IFS= read -r name && IFS= read -r value; do
        case "$name" in
            /*) printf '%s\n' "$value" > "$name" ;;
            mtu*) ip link set dev "${name#mtu }" mtu "$value" ;;
            offload*) set -- $name; ethtool -K "$2" "$3" "$value" ;;
        esac
    done
    for family in -4 -6; do
        printf '%s\n' "$left" | sed -n "/^=$family\$/{n;p}" | ip -force $family -batch -
    done
done >/dev/null 2>&1
left=$(differing)
[ -z "$left" ] || { printf 'not as before: %s\n' "$left" >&2; exit 1; }
"#;

/// Records the state of the DUT so that it can be restored: nftables rules, settings of network and
/// memory, addresses, routes, their rules, MTUs and offloads of the DUT's ports, whether a set or a
/// command of its own changes them. The next test case must not be measured with them.
///
/// A namespace has its own network settings; memory settings belong to the machine, and another bed
/// may be changing them.
pub(super) fn keep(
    host: &Arc<dyn Host>,
    ports: [&str; 2],
    is_namespace: bool,
    undo: &Undo,
) -> Result<(), LabError> {
    let has_nft = "command -v nft >/dev/null || exit 0; ";
    let ask = |text: &str| host.query("sh", &["-c", &format!("{PATH}{text}")]);
    let undo_commands = |text: &str, action: &str| {
        let command = Command::new("sh", &["-c", &format!("{PATH}{text}")]);
        command.called(format!("restore {action}"))
    };
    let rules = ask(&format!("{has_nft}nft -s list ruleset"))?;
    let action = "the rules of nftables";
    let load = format!("{has_nft}{{ echo flush ruleset; cat; }} | nft -f -");
    undo.before(host, action, undo_commands(&load, action).with_input(rules))?;
    let settings = match is_namespace {
        true => "/proc/sys/net",
        false => "/proc/sys/net /proc/sys/vm",
    };
    let look = format!(
        "ports={} settings='{settings}'\n{LOOK}",
        quoted(&ports.join(" "))
    );
    let before = ask(&format!("{look}look || :"))?;
    let action = "settings, addresses, routes and offloads";
    let set = format!("{look}{PUT_BACK}");
    undo.before(host, action, undo_commands(&set, action).with_input(before))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_states_of_each_system_are_parsed() {
        let expected = Link {
            name: "eth1".into(),
            mac: [2, 0, 0, 0, 0, 0x0a],
            mtu: Some(1500),
            is_up: true,
            has_link: Some(true),
            is_tap: false,
        };
        let linux = r#"[{"ifindex":2,"ifname":"eth1","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"address":"02:00:00:00:00:0a"}]"#;
        assert_eq!(parse_linux(linux), Some(expected.clone()));
        assert_eq!(parse_linux("[]"), None);
        let named = |name: &str| Link {
            name: name.into(),
            ..expected.clone()
        };
        let tap = linux.replace(
            "\"mtu\"",
            r#""linkinfo":{"info_kind":"tun","info_data":{"type":"tap"}},"mtu""#,
        );
        let expected_tap = Link {
            is_tap: true,
            ..expected.clone()
        };
        assert_eq!(parse_linux(&tap), Some(expected_tap));
        let freebsd = "em0: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500\n\
            \toptions=4e504bb<RXCSUM,TXCSUM,VLAN_MTU,LRO>\n\tether 02:00:00:00:00:0a\n\tinet 192.0.2.1 netmask 0xffffff00 broadcast 192.0.2.255\n\
            \tmedia: Ethernet autoselect (1000baseT <full-duplex>)\n\tstatus: active\n\tnd6 options=29<PERFORMNUD,IFDISABLED,AUTO_LINKLOCAL>\n";
        assert_eq!(parse_freebsd(freebsd, "em0"), Some(named("em0")));
        let down = freebsd.replace("<UP,", "<").replace("active", "no carrier");
        let expected_down = Link {
            is_up: false,
            has_link: Some(false),
            ..named("em0")
        };
        assert_eq!(parse_freebsd(&down, "em0"), Some(expected_down));
        let no_port = "ifconfig: interface em9 does not exist\n";
        assert_eq!(parse_freebsd(no_port, "em9"), None);
        let vpp = "              Name                Idx   Link  Hardware\nhost-eth0                          1     up   host-eth0\n  \
            Link speed: unknown\n  RX Queues:\n    queue thread         mode\n    0     main (0)       interrupt\n  \
            Ethernet address 02:00:00:00:00:0a\n  Linux PACKET socket interface v3\n";
        let state = "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count\n\
            host-eth0                         1     down         9000/0/0/0\n";
        let expected_vpp = Link {
            mtu: None,
            is_up: false,
            ..named("host-eth0")
        };
        assert_eq!(parse_vpp(vpp, state, "host-eth0"), Some(expected_vpp));
        assert_eq!(parse_vpp(vpp, state, "host-eth1"), None);
    }
}
