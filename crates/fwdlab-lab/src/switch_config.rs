//! Configuration lines that make a switch behave like a cable, for the ports of a test bed and the
//! vendor of the switch.
//!
//! They come from the vendors' documentation and have **not been tried on a real switch**; each has
//! a comment with its purpose. Nothing here logs into a switch or changes it. Start with [`lines`].

use std::fmt::Write;

use fwdlab_model::test_bed::{Mac, Switch, TestBed};

/// The vendor of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// IOS and IOS XE, of Catalyst switches.
    Cisco,
    /// Junos with Enhanced Layer 2 Software, of EX and QFX switches.
    Juniper,
}

/// The known addresses behind the ports, by the keys of the bed's `[switch] ports`.
pub type Addresses = Vec<(&'static str, Mac)>;

/// The packet size that ports must accept, without Ethernet header and FCS: that of the tester's
/// largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mtu(pub u32);

/// Bytes of a frame in addition to its IP packet: Ethernet header and a VLAN tag.
const HEADER: u32 = 14 + 4;

/// Longest ageing time that both vendors accept.
const AGEING_S: u32 = 1_000_000;

/// Returns the lines for a switch of this vendor. `mtu`: the largest packet that ports of the bed
/// accept.
pub fn lines(
    vendor: Vendor,
    bed: &TestBed,
    switch: &Switch,
    addresses: &Addresses,
    mtu: Mtu,
) -> String {
    let sign = match vendor {
        Vendor::Cisco => "!",
        Vendor::Juniper => "#",
    };
    let mut text = format!(
        "{sign} {}: lines for {}. From documentation; not tried on a real switch: read them before you enter them.\n",
        bed.name,
        match vendor {
            Vendor::Cisco => "Cisco IOS and IOS XE (Catalyst), in configuration mode",
            Vendor::Juniper => "Junos with ELS (EX, QFX), in configuration mode",
        }
    );
    text += &match vendor {
        Vendor::Cisco => cisco(bed, switch, addresses, mtu),
        Vendor::Juniper => juniper(bed, switch, addresses, mtu),
    };
    text
}

/// Returns for each port its key, its name, the VLAN of its link and the name of that VLAN.
fn ports<'a>(bed: &TestBed, switch: &'a Switch) -> Vec<(&'static str, &'a str, u16, String)> {
    let named = switch.ports.named().into_iter();
    named
        .map(|(key, port)| {
            let (vlan, end) = match key.ends_with("-b") {
                false => (switch.vlans.a, "a"),
                true => (switch.vlans.b, "b"),
            };
            (key, port, vlan, vlan_name(bed, end))
        })
        .collect()
}

/// Letters, digits and hyphens, which all vendors accept.
fn vlan_name(bed: &TestBed, end: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = bed.name.chars().map(plain).take(20).collect();
    format!("fwdlab-{name}-{end}")
}

fn mac_by_key<'a>(addresses: &'a Addresses, key: &str) -> Option<&'a Mac> {
    addresses
        .iter()
        .find(|(known, _)| *known == key)
        .map(|(_, mac)| mac)
}

fn octets(mac: &Mac) -> [String; 6] {
    mac.0.map(|byte| format!("{byte:02x}"))
}

fn cisco(bed: &TestBed, switch: &Switch, addresses: &Addresses, Mtu(mtu): Mtu) -> String {
    let mut text = String::new();
    let all = ports(bed, switch);
    for (end, id) in [("a", switch.vlans.a), ("b", switch.vlans.b)] {
        let _ = write!(
            text,
            "! A VLAN for link {end}: frames go from one link to the other through the DUT alone.\nvlan {id}\n name {}\n exit\n\
             no spanning-tree vlan {id}\n! The receiver never sends: with 0, addresses never age.\nmac address-table aging-time 0 vlan {id}\n",
            vlan_name(bed, end)
        );
    }
    if mtu > 1500 {
        let _ = writeln!(
            text,
            "! Packets of {mtu} bytes. On some series this is for all ports and takes effect after a restart; on others it is `mtu {mtu}` of an \
             interface.\nsystem mtu {mtu}"
        );
    }
    for (key, port, vlan, _) in &all {
        let _ = write!(
            text,
            "interface {port}\n description {} {key}\n switchport\n switchport mode access\n switchport access vlan {vlan}\n\
             ! No DTP, CDP, LLDP, keepalives or spanning tree: an idle link is idle.\n switchport nonegotiate\n no cdp enable\n \
             no lldp transmit\n no lldp receive\n no keepalive\n spanning-tree bpdufilter enable\n spanning-tree portfast\n\
             ! A full ring counts the frames that it loses; pause frames would make the sender wait instead.\n flowcontrol receive off\n \
             flowcontrol send off\n\
             ! Test frames at line rate are no storm.\n no storm-control broadcast level\n no storm-control multicast level\n \
             no storm-control unicast level\n no switchport port-security\n\
             ! The shortest time over which rates are shown.\n load-interval 30\n no shutdown\n exit\n",
            bed.name
        );
    }
    for (key, port, vlan, _) in &all {
        match mac_by_key(addresses, key) {
            Some(mac) => {
                let o = octets(mac);
                let _ = writeln!(
                    text,
                    "mac address-table static {}{}.{}{}.{}{} vlan {vlan} interface {port}",
                    o[0], o[1], o[2], o[3], o[4], o[5]
                );
            }
            None => {
                let _ = writeln!(
                    text,
                    "! {key}: its address is not known; mac address-table static MAC vlan {vlan} interface {port}"
                );
            }
        }
    }
    text + "end\n"
}

fn juniper(bed: &TestBed, switch: &Switch, addresses: &Addresses, Mtu(mtu): Mtu) -> String {
    let mut text = String::new();
    let all = ports(bed, switch);
    text += "# A VLAN for each link: frames go from one link to the other through the DUT alone.\n";
    for (end, id) in [("a", switch.vlans.a), ("b", switch.vlans.b)] {
        let _ = writeln!(text, "set vlans {} vlan-id {id}", vlan_name(bed, end));
    }
    let _ = write!(
        text,
        "# The receiver never sends: the longest possible time (seconds, for all VLANs).\nset protocols l2-learning global-mac-table-aging-time \
         {AGEING_S}\n"
    );
    for (key, port, _, name) in &all {
        let _ = write!(
            text,
            "# {port}: {key}\nset interfaces {port} description \"{} {key}\"\nset interfaces {port} unit 0 family ethernet-switching \
             interface-mode access\nset interfaces {port} unit 0 family ethernet-switching vlan members {name}\nset interfaces {port} mtu {}\n\
             # No spanning tree, LLDP or LLDP-MED: an idle link is idle.\nset protocols rstp interface {port} disable\n\
             set protocols lldp interface {port} disable\nset protocols lldp-med interface {port} disable\n\
             # A full ring counts the frames that it loses; pause frames would make the sender wait instead.\nset interfaces {port} \
             ether-options no-flow-control\n\
             # Test frames at line rate are no storm (an error here: there was none).\ndelete interfaces {port} unit 0 family \
             ethernet-switching storm-control\n",
            bed.name,
            mtu + HEADER
        );
        match mac_by_key(addresses, key) {
            Some(mac) => {
                let _ = writeln!(
                    text,
                    "set vlans {name} switch-options interface {port}.0 static-mac {}",
                    octets(mac).join(":")
                );
            }
            None => {
                let _ = writeln!(
                    text,
                    "# {key}: its address is not known; set vlans {name} switch-options interface {port}.0 static-mac MAC"
                );
            }
        }
    }
    text + "# Look at it before it takes effect: show | compare; commit confirmed 5\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const BED: &str = "bed = 'rack_1'\n[generator]\nports = { a = 'ta' }\n[receiver]\nhost = 'ssh://r'\nports = { b = 'tb' }\n\
        [dut]\nhost = 'ssh://d'\nports = { a = 'da', b = 'db' }\n\
        [switch]\nports = { tester-a = 'Gi1/0/1', dut-a = 'Gi1/0/2', dut-b = 'Gi1/0/3', tester-b = 'Gi1/0/4' }\nvlans = { a = 11, b = 12 }\n";

    fn vendor_config(vendor: Vendor, mtu: u32) -> String {
        let bed = TestBed::parse("x", BED).unwrap();
        let addresses = vec![
            ("tester-a", Mac([2, 0, 0, 0, 0, 1])),
            ("tester-b", Mac([2, 0, 0xab, 0, 0, 4])),
        ];
        let switch = bed.switch.clone().unwrap();
        lines(vendor, &bed, &switch, &addresses, Mtu(mtu))
    }

    /// Every protocol that test frames must not meet is disabled on every port, and each link has
    /// its own VLAN.
    #[test]
    fn every_port_is_silent_and_in_the_vlan_of_its_link() {
        let text = vendor_config(Vendor::Cisco, 1500);
        let interfaces: Vec<&str> = text.split("interface Gi").skip(1).take(4).collect();
        for (interface, vlan) in interfaces.iter().zip([11, 11, 12, 12]) {
            for line in [
                &*format!("switchport access vlan {vlan}\n"),
                "no cdp enable",
                "no lldp transmit",
                "spanning-tree bpdufilter enable",
                "flowcontrol receive off",
                "no storm-control unicast level",
                "switchport nonegotiate",
                "no keepalive",
            ] {
                assert!(interface.contains(line), "{line}: {interface}");
            }
        }
        assert!(
            text.contains("mac address-table static 0200.ab00.0004 vlan 12 interface Gi1/0/4"),
            "{text}"
        );
        assert!(
            text.contains("aging-time 0 vlan 11")
                && text.contains("! dut-a: its address is not known"),
            "{text}"
        );
        assert!(!text.contains("system mtu"));
        assert!(vendor_config(Vendor::Cisco, 9000).contains("system mtu 9000"));

        let text = vendor_config(Vendor::Juniper, 9000);
        for (port, vlan) in [("1", "a"), ("2", "a"), ("3", "b"), ("4", "b")] {
            for line in [
                format!("set interfaces Gi1/0/{port} ether-options no-flow-control"),
                format!(
                    "set interfaces Gi1/0/{port} unit 0 family ethernet-switching vlan members fwdlab-rack-1-{vlan}"
                ),
                format!("set interfaces Gi1/0/{port} mtu 9018"),
                format!("set protocols rstp interface Gi1/0/{port} disable"),
                format!("set protocols lldp interface Gi1/0/{port} disable"),
                format!(
                    "delete interfaces Gi1/0/{port} unit 0 family ethernet-switching storm-control"
                ),
            ] {
                assert!(text.contains(&line), "{line}: {text}");
            }
        }
        assert!(
            text.contains("set vlans fwdlab-rack-1-b switch-options interface Gi1/0/4.0 static-mac 02:00:ab:00:00:04"),
            "{text}"
        );
        assert!(text.contains("global-mac-table-aging-time 1000000"));
        for vendor in [Vendor::Cisco, Vendor::Juniper] {
            assert!(
                vendor_config(vendor, 1500)
                    .lines()
                    .next()
                    .unwrap()
                    .contains("not tried on a real switch")
            );
        }
    }
}
