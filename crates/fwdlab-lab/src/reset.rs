//! Resets of the embedded DUT: what is done to it while frames flow, to see for how long it forwards nothing (RFC 6201).
//!
//! All of it happens in the DUT's namespace and goes with it. Start with [`script`].

use fwdlab_model::reset::Reset;

use crate::bed::Bed;
use crate::configuration::shell;
use crate::error::LabError;
use crate::host::{Host, HostError, Limit};

/// The port that is taken down: the DUT's output.
const PORT: &str = "eth1";

/// What `sh` will do on the DUT as it stands now.
///
/// # Errors
/// The port's addresses and routes cannot be read.
pub(crate) fn script(reset: &Reset, bed: &Bed) -> Result<String, LabError> {
    Ok(match reset {
        Reset::Forwarding => "\
v4=/proc/sys/net/ipv4/ip_forward v6=/proc/sys/net/ipv6/conf/all/forwarding
set -e
echo 0 > $v4; [ ! -e $v6 ] || echo 0 > $v6
sleep 1
echo 1 > $v4; [ ! -e $v6 ] || echo 1 > $v6
"
        .into(),
        Reset::Interface => {
            let (four, six) = what_a_port_forgets(bed.host(0).as_ref())?;
            format!(
                "set -e\nip link set {PORT} down\nsleep 1\nip link set {PORT} up\n\
                 ip -4 -batch - <<'END'\n{four}END\nip -6 -batch - <<'END'\n{six}END\n"
            )
        }
        Reset::Command(command) => command.clone(),
    })
}

/// Has the DUT do it; returns when it is done.
///
/// # Errors
/// It failed, took longer than the limit, or was stopped.
pub(crate) fn perform(
    reset: &Reset,
    bed: &Bed,
    script: &str,
    limit: Limit<'_>,
) -> Result<(), LabError> {
    match shell(bed.place(0), script, limit) {
        Ok(_) => Ok(()),
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(source) => Err(LabError::NotReset {
            what: reset.to_string(),
            source: Box::new(source),
        }),
    }
}

/// Lines for `ip -4 -batch` and `ip -6 -batch` that set again what the kernel forgets of a port that goes down.
fn what_a_port_forgets(host: &dyn Host) -> Result<(String, String), HostError> {
    let of = |family: &str| {
        let show = |what: &[&str]| host.ask("ip", &[&[family], what].concat());
        Ok([
            addresses(&show(&["-o", "addr", "show", "dev", PORT])?),
            neighbours(&show(&["neigh", "show", "nud", "permanent", "dev", PORT])?),
            routes(&show(&["route", "show", "dev", PORT])?),
        ]
        .concat())
    };
    Ok((of("-4")?, of("-6")?))
}

/// `3: eth1    inet 198.19.0.1/30 scope global eth1\ ...`
fn addresses(text: &str) -> String {
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let (family, address) = (words.next()?, words.next()?);
        let at_once = if family == "inet6" { " nodad" } else { "" };
        Some(format!("addr replace {address} dev {PORT}{at_once}\n"))
    };
    text.lines().filter_map(of).collect()
}

/// `198.19.0.2 lladdr 02:00:02:5a:17:02 PERMANENT`
fn neighbours(text: &str) -> String {
    let of = |line: &str| {
        let (address, rest) = line.split_once(" lladdr ")?;
        let mac = rest.split_whitespace().next()?;
        Some(format!(
            "neigh replace {address} lladdr {mac} nud permanent dev {PORT}\n"
        ))
    };
    text.lines().filter_map(of).collect()
}

/// `198.19.0.0/16 via 198.19.0.2`; those that come with an address come by themselves.
fn routes(text: &str) -> String {
    let of = |line: &str| {
        let state = ["linkdown", "dead", "pref", "medium"];
        let words = line.split_whitespace().filter(|w| !state.contains(w));
        let words: Vec<&str> = words.collect();
        format!("route replace {} dev {PORT}\n", words.join(" "))
    };
    text.lines()
        .filter(|line| !line.contains("proto kernel") && !line.trim().is_empty())
        .map(of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of iproute2 6.1.
    #[test]
    fn what_ip_shows_is_what_ip_is_told() {
        assert_eq!(
            addresses(
                "3: eth1    inet 198.19.0.1/30 scope global eth1\\       valid_lft forever preferred_lft forever\n\
                 3: eth1    inet6 2001:2:0:8000::1/64 scope global nodad \\       valid_lft forever preferred_lft forever\n"
            ),
            "addr replace 198.19.0.1/30 dev eth1\naddr replace 2001:2:0:8000::1/64 dev eth1 nodad\n"
        );
        assert_eq!(
            neighbours("198.19.0.2 lladdr 02:00:02:5a:17:02 PERMANENT\n"),
            "neigh replace 198.19.0.2 lladdr 02:00:02:5a:17:02 nud permanent dev eth1\n"
        );
        assert_eq!(
            routes(
                "198.19.0.0/30 proto kernel scope link src 198.19.0.1\n198.19.0.0/16 via 198.19.0.2 linkdown\n\
                 2001:2:0:8000::/49 via 2001:2:0:8000::2 metric 1024 pref medium\n"
            ),
            "route replace 198.19.0.0/16 via 198.19.0.2 dev eth1\n\
             route replace 2001:2:0:8000::/49 via 2001:2:0:8000::2 metric 1024 dev eth1\n"
        );
    }
}
