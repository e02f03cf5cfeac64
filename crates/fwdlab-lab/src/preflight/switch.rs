//! Checks that the switch of a test bed forwards frames and sends none, like a cable.
//!
//! A Linux bridge is queried; for others only advice is possible. Nothing is changed. Start with
//! [`checks`].

use fwdlab_model::test_bed::{Mac, Switch};
use serde_json::Value;

use super::Check;
use crate::host::Host;
use crate::site::existing;

/// A test may take this long, and no address may age out meanwhile.
const LONG_S: u64 = 24 * 3600;

/// How to obtain the configuration lines.
const LINES: &str = "fwdlab bed switch-config --vendor cisco|juniper BED prints the lines";

/// Runs all checks of a switch, behind whose ports these addresses are.
pub(super) fn checks(switch: &Switch, addresses: &[(&'static str, Mac)]) -> Vec<Check> {
    let Some(place) = &switch.host else {
        return vec![Check::warn(
            "MAC ageing",
            "fwdlab cannot check this switch: a receiver never sends, and when its address ages out, its frames go to all ports",
            format!(
                "static addresses, or ageing longer than a test; no STP, LLDP, CDP, flow control or storm control: {LINES}"
            ),
        )];
    };
    let host = match existing::reach(place) {
        Ok(host) => host,
        Err(reason) => return vec![Check::fail("reached", reason, "look at its address")],
    };
    check_bridge(host.as_ref(), switch, addresses)
}

fn check_bridge(host: &dyn Host, switch: &Switch, addresses: &[(&'static str, Mac)]) -> Vec<Check> {
    let links = match host.query("ip", &["-json", "-details", "link", "show"]) {
        Ok(output) => serde_json::from_str::<Value>(&output).unwrap_or_default(),
        Err(error) => {
            return vec![Check::fail(
                "reached",
                error.to_string(),
                "see whether it can be reached by hand",
            )];
        }
    };
    let fdb = host.query("bridge", &["fdb", "show"]);
    let mut checks = judged(switch, addresses, &links, fdb.as_deref().ok());
    if let Err(error) = fdb {
        checks.push(Check::skip("MAC ageing", error.to_string()));
    }
    checks
}

/// Judges these links and this forwarding table.
fn judged(
    switch: &Switch,
    addresses: &[(&'static str, Mac)],
    links: &Value,
    fdb: Option<&str>,
) -> Vec<Check> {
    let all = links.as_array().map_or(&[][..], Vec::as_slice);
    let link = |name: &str| all.iter().find(|link| link["ifname"] == name);
    let mut checks = Vec::new();
    let mut bridges: Vec<(&str, &str)> = Vec::new();
    for (key, port) in switch.ports.named() {
        let Some(found) = link(port) else {
            let fix = "look at its name: ip -brief link";
            checks.push(Check::fail(
                "port",
                format!("there is no port {port} ({key})"),
                fix,
            ));
            continue;
        };
        match found["master"].as_str() {
            Some(bridge) => bridges.push((key, bridge)),
            None => checks.push(Check::fail(
                "port",
                format!("{port} ({key}) does not belong to a bridge"),
                format!("ip link set dev {port} master BRIDGE"),
            )),
        }
    }
    let mut names: Vec<&str> = bridges.iter().map(|(_, bridge)| *bridge).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let data = link(name).map_or(&Value::Null, |link| &link["linkinfo"]["info_data"]);
        let number = |key: &str| data[key].as_u64().unwrap_or_default();
        if number("stp_state") != 0 {
            checks.push(Check::warn(
                "spanning tree",
                format!("{name} speaks it: it blocks a port for 30 s after link-up, and sends frames on idle links"),
                format!("ip link set dev {name} type bridge stp_state 0"),
            ));
        }
        let joins = |end: &str| {
            bridges
                .iter()
                .any(|(key, bridge)| *bridge == name && key.ends_with(end))
        };
        if joins("-b") && (joins("-a") || joins("-2")) && number("vlan_filtering") == 0 {
            checks.push(Check::warn(
                "links",
                format!("{name} joins link a with link b: frames that it sends to all ports pass by the DUT"),
                format!("two bridges, or VLANs: ip link set dev {name} type bridge vlan_filtering 1"),
            ));
        }
        let ports = all.iter().filter(|link| link["master"] == name).count();
        let keys: Vec<&str> = bridges
            .iter()
            .filter(|(_, of)| *of == name)
            .map(|(key, _)| *key)
            .collect();
        // in 1/100 s; 0 forgets at once
        let ageing_s = number("ageing_time") / 100;
        checks.extend(ageing(switch, addresses, fdb, name, ports, &keys, ageing_s));
    }
    checks
}

fn ageing(
    switch: &Switch,
    addresses: &[(&'static str, Mac)],
    fdb: Option<&str>,
    bridge: &str,
    ports: usize,
    keys: &[&str],
    ageing_s: u64,
) -> Option<Check> {
    let name = "MAC ageing";
    if ports <= 2 {
        return Some(Check::ok(
            name,
            format!("{bridge} has two ports: there is nowhere else to send frames to"),
        ));
    }
    let fdb = fdb?;
    let named = switch.ports.named();
    let mut loose = Vec::new();
    for (key, port) in named.iter().filter(|(key, _)| keys.contains(key)) {
        let Some((_, address)) = addresses.iter().find(|(known, _)| known == key) else {
            continue;
        };
        let address: Vec<String> = address.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let address = address.join(":");
        let is_static = fdb.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.first() == Some(&&*address)
                && words.windows(2).any(|pair| pair == ["dev", *port])
                && words
                    .iter()
                    .any(|word| matches!(*word, "static" | "permanent"))
        });
        if !is_static {
            loose.push((*key, *port, address));
        }
    }
    if loose.is_empty() {
        return Some(Check::ok(
            name,
            format!("{bridge} never forgets an address"),
        ));
    }
    if ageing_s >= LONG_S {
        return Some(Check::ok(
            name,
            format!("{bridge} forgets an address after {} h", ageing_s / 3600),
        ));
    }
    let keys: Vec<&str> = loose.iter().map(|(key, ..)| *key).collect();
    let fixes: Vec<String> = loose
        .iter()
        .map(|(_, port, address)| format!("bridge fdb replace {address} dev {port} master static"))
        .collect();
    Some(Check::warn(
        name,
        format!(
            "{bridge} forgets who is at {} after {ageing_s} s, and a receiver never talks: its frames go to all {ports} ports then",
            keys.join(", ")
        ),
        fixes.join("; "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Status;
    use fwdlab_model::test_bed::SwitchPorts;

    fn switch() -> Switch {
        let port = |name: &str| Some(name.to_owned());
        Switch {
            host: None,
            snmp: None,
            community: None,
            ports: SwitchPorts {
                tester_a: port("s1"),
                dut_a: port("s3"),
                ..SwitchPorts::default()
            },
            vlans: Default::default(),
        }
    }

    /// Output of iproute2 6.1, shortened.
    fn links(ageing: u32, stp: u32) -> Value {
        let port = |name: &str| format!(r#"{{"ifname":"{name}","master":"br0"}}"#);
        let text = format!(
            r#"[{{"ifname":"br0","linkinfo":{{"info_kind":"bridge","info_data":{{"ageing_time":{ageing},"stp_state":{stp},"vlan_filtering":0}}}}}},{},{},{}]"#,
            port("s1"),
            port("s2"),
            port("s3")
        );
        serde_json::from_str(&text).unwrap()
    }

    fn words(checks: &[Check]) -> String {
        checks
            .iter()
            .map(|check| format!("{:?} {} {}\n", check.status, check.name, check.finding))
            .collect()
    }

    #[test]
    fn a_bridge_with_a_short_ageing_time_is_reported_with_a_fix() {
        let addresses = [
            ("tester-a", Mac([2, 0, 0, 0, 0, 1])),
            ("dut-a", Mac([2, 0, 0, 0, 0, 3])),
        ];
        let learned =
            "02:00:00:00:00:01 dev s1 master br0\n02:00:00:00:00:03 dev s3 master br0 static\n";
        let checks = judged(&switch(), &addresses, &links(30000, 0), Some(learned));
        let [check] = &checks[..] else {
            panic!("{}", words(&checks));
        };
        assert_eq!(check.status, Status::Warn);
        assert!(
            check.finding.contains("who is at tester-a after 300 s"),
            "{}",
            check.finding
        );
        assert_eq!(
            check.fix.as_deref(),
            Some("bridge fdb replace 02:00:00:00:00:01 dev s1 master static")
        );
        // a static entry at another port counts as missing
        let wrong = learned.replace("dev s3", "dev s2");
        let checks = judged(&switch(), &addresses, &links(30000, 0), Some(&wrong));
        assert!(
            checks[0].finding.contains("tester-a, dut-a"),
            "{}",
            words(&checks)
        );
        let known = learned.replace("s1 master br0", "s1 master br0 static");
        let checks = judged(&switch(), &addresses, &links(30000, 0), Some(&known));
        assert_eq!(checks[0].status, Status::Ok, "{}", words(&checks));
        let checks = judged(
            &switch(),
            &addresses,
            &links(100 * 100_000, 1),
            Some(learned),
        );
        assert!(
            words(&checks).contains("Warn spanning tree")
                && words(&checks).contains("Ok MAC ageing"),
            "{}",
            words(&checks)
        );
    }

    #[test]
    fn missing_ports_and_unreachable_switches_are_reported() {
        let none = Switch {
            ports: SwitchPorts {
                tester_b: Some("s9".into()),
                ..switch().ports
            },
            ..switch()
        };
        let output = words(&judged(&none, &[], &links(30000, 0), Some("")));
        assert!(
            output.contains("there is no port s9 (tester-b)"),
            "{output}"
        );
        let both = Switch {
            ports: SwitchPorts {
                tester_b: Some("s2".into()),
                ..switch().ports
            },
            ..switch()
        };
        let output = words(&judged(&both, &[], &links(30000, 0), Some("")));
        assert!(output.contains("joins link a with link b"), "{output}");
        let output = words(&checks(&switch(), &[]));
        assert!(
            output.contains("Warn MAC ageing fwdlab cannot check"),
            "{output}"
        );
    }
}
