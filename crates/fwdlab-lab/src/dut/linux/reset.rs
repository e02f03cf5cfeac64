//! Resets of a Linux DUT during traffic, to measure how long it forwards nothing (RFC 6201).
//!
//! A reset itself restores what it interrupts. Start with [`Linux::reset_script`].

use fwdlab_model::reset::Reset;

use super::Linux;
use crate::error::LabError;
use crate::host::HostError;
use crate::networks::End;

impl Linux {
    /// Returns the `sh` script for a reset of the DUT in its current state.
    pub(super) fn reset_script(&self, reset: &Reset) -> Result<String, LabError> {
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
                let port = self.sides.port(End::Output);
                let [four, six] = ["-4", "-6"].map(|family| self.restore_lines(family, port));
                let (four, six) = (four?, six?);
                format!(
                    "set -e\nip link set {port} down\nsleep 1\nip link set {port} up\n\
                     ip -4 -batch - <<'END'\n{four}END\nip -6 -batch - <<'END'\n{six}END\n"
                )
            }
            Reset::Command(command) => command.clone(),
        })
    }

    /// Returns lines for `ip -batch` of a family that restore what the kernel removes when a port
    /// goes down.
    fn restore_lines(&self, family: &str, port: &str) -> Result<String, HostError> {
        let show = |action: &[&str]| self.host.query("ip", &[&[family], action].concat());
        Ok([
            addresses(&show(&["-o", "addr", "show", "dev", port])?, port),
            neighbours(
                &show(&["neigh", "show", "nud", "permanent", "dev", port])?,
                port,
            ),
            routes(&show(&["route", "show", "dev", port])?, port),
        ]
        .concat())
    }
}

/// `3: eth1    inet 198.19.0.1/30 scope global eth1\ ...`
fn addresses(text: &str, port: &str) -> String {
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let (family, address) = (words.next()?, words.next()?);
        let at_once = if family == "inet6" { " nodad" } else { "" };
        Some(format!("addr replace {address} dev {port}{at_once}\n"))
    };
    text.lines().filter_map(of).collect()
}

/// `198.19.0.2 lladdr 02:00:02:5a:17:02 PERMANENT`
fn neighbours(text: &str, port: &str) -> String {
    let of = |line: &str| {
        let (address, rest) = line.split_once(" lladdr ")?;
        let mac = rest.split_whitespace().next()?;
        Some(format!(
            "neigh replace {address} lladdr {mac} nud permanent dev {port}\n"
        ))
    };
    text.lines().filter_map(of).collect()
}

/// `198.19.0.0/16 via 198.19.0.2`; routes of an address return with it.
fn routes(text: &str, port: &str) -> String {
    let of = |line: &str| {
        let state = ["linkdown", "dead", "pref", "medium"];
        let words = line.split_whitespace().filter(|w| !state.contains(w));
        let words: Vec<&str> = words.collect();
        format!("route replace {} dev {port}\n", words.join(" "))
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
    fn ip_shows_the_applied_settings() {
        assert_eq!(
            addresses(
                "3: eth1    inet 198.19.0.1/30 scope global eth1\\       valid_lft forever preferred_lft forever\n\
                 3: eth1    inet6 2001:2:0:8000::1/64 scope global nodad \\       valid_lft forever preferred_lft forever\n",
                "eth1"
            ),
            "addr replace 198.19.0.1/30 dev eth1\naddr replace 2001:2:0:8000::1/64 dev eth1 nodad\n"
        );
        assert_eq!(
            neighbours("198.19.0.2 lladdr 02:00:02:5a:17:02 PERMANENT\n", "eth1"),
            "neigh replace 198.19.0.2 lladdr 02:00:02:5a:17:02 nud permanent dev eth1\n"
        );
        assert_eq!(
            routes(
                "198.19.0.0/30 proto kernel scope link src 198.19.0.1\n198.19.0.0/16 via 198.19.0.2 linkdown\n\
                 2001:2:0:8000::/49 via 2001:2:0:8000::2 metric 1024 pref medium\n",
                "eth1"
            ),
            "route replace 198.19.0.0/16 via 198.19.0.2 dev eth1\n\
             route replace 2001:2:0:8000::/49 via 2001:2:0:8000::2 metric 1024 dev eth1\n"
        );
    }
}
