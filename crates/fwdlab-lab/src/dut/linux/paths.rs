//! Alternatives to plain routing on a Linux DUT: connections that bypass it, address translation,
//! policy rules, a program in the driver.
//!
//! What the kernel lists shows that each is in force; each is removed as a whole. Start with
//! [`Linux::path`].

use std::fmt::Write;

use fwdlab_engine::forward;
use fwdlab_model::family::Generated;

use super::Linux;
use crate::dut::set::{Hook, Object};
use crate::dut::sweep::unused_v4;
use crate::dut::unix::Unix;
use crate::error::LabError;
use crate::host::not_understood;
use crate::host::{Command, Files, Limit, quoted};

/// Tables of nftables.
const FLOWTABLE: &str = "fwdlab_flowtable";
const NAT: &str = "fwdlab_nat";

/// Marks our policy rules (rtnetlink's `protocol`).
const CHOICES: &str = "197";
/// Priority of our first rule; they precede the kernel's rule of priority 32766.
const FIRST_CHOICE: u64 = 1000;

/// Returns what shows that a family is in force: a name and a command.
pub(super) fn shows(family: &str) -> Option<(&'static str, &'static str)> {
    Some(match family {
        "nft-flowtable" | "nft-nat" => super::apply::NFT,
        "policy-rules" => ("rules", "ip rule show"),
        "xdp" => XDP,
        _ => return None,
    })
}

/// What shows the programs of the ports: in the driver, and of tc.
const XDP: (&str, &str) = (
    "xdp",
    "ip -d link show dev $FWDLAB_IN; ip -d link show dev $FWDLAB_OUT",
);
const TC: (&str, &str) = (
    "tc",
    "for port in $FWDLAB_IN $FWDLAB_OUT; do for hook in ingress egress; do tc filter show dev $port $hook; done; done",
);

/// Returns what shows that a program of an object is attached.
pub(super) fn shows_object(object: &Object) -> (&'static str, &'static str) {
    match object.hook {
        Hook::Driver => XDP,
        Hook::Ingress | Hook::Egress => TC,
    }
}

impl Linux {
    /// Applies a family of this file; `None` if it is another one.
    pub(super) fn path(&self, one: &Generated) -> Option<Result<(), LabError>> {
        Some(match one.family.name {
            "nft-flowtable" => self.flowtable(one.is_on()),
            "nft-nat" => self.nat(one.is_on()),
            "policy-rules" => self.choices(one.count("n")),
            "xdp" => self.xdp(forward::OBJECT, one.value("program"), one.value("program")),
            _ => return None,
        })
    }

    fn flowtable(&self, is_on: bool) -> Result<(), LabError> {
        let text = flowtable(&self.sides.ports, is_on);
        let requested = text
            .lines()
            .filter(|line| line.contains("flow add"))
            .count();
        let look = |there: &str| {
            let rules = there.lines().filter(|line| line.contains("flow add"));
            self.same(requested as u64, rules.count(), "rules that bypass routing")
        };
        self.load_table(FLOWTABLE, "a flowtable", &text, look)
            .map(drop)
    }

    fn nat(&self, is_on: bool) -> Result<(), LabError> {
        let [_, output] = &self.sides.ports;
        let look = |there: &str| {
            let rules = there.lines().filter(|line| line.contains("masquerade"));
            self.same(u64::from(is_on), rules.count(), "rules that translate")
        };
        self.load_table(NAT, "translation of addresses", &nat(output, is_on), look)
            .map(drop)
    }

    /// Adds policy rules that match no frame: each is evaluated for every frame, before the routing
    /// tables.
    fn choices(&self, count: u64) -> Result<(), LabError> {
        let undo_commands = Command::new("ip", &["rule", "flush", "protocol", CHOICES]);
        let mut text = String::new();
        for n in 0..count {
            let _ = writeln!(
                text,
                "rule add from {} lookup main priority {} protocol {CHOICES}",
                unused_v4(n, 1),
                FIRST_CHOICE + n
            );
        }
        let action = format!("{count} rules of routing");
        self.undo
            .changing(&self.host, &action, undo_commands, || {
                self.host.feed("ip", &["-batch", "-"], &text)?;
                let there = self.host.query("ip", &["rule", "show"])?;
                let ours = there.lines().filter(|line| {
                    let number = line.split(':').next().and_then(|n| n.parse::<u64>().ok());
                    number.is_some_and(|n| (FIRST_CHOICE..FIRST_CHOICE + count).contains(&n))
                });
                self.same(count, ours.count(), &action)
            })
            .map(drop)
    }

    /// Attaches a program of an eBPF object to both ports.
    pub(super) fn object(&self, of: &Object) -> Result<(), LabError> {
        let read = std::fs::read(&of.path);
        let object =
            read.map_err(|e| LabError::system(format!("read {}", of.path.display()), e))?;
        match of.hook {
            Hook::Driver => self.xdp(&object, &of.section, ""),
            Hook::Ingress => self.tc(&object, &of.section, "ingress"),
            Hook::Egress => self.tc(&object, &of.section, "egress"),
        }
    }

    /// Loads a program of tc on both ports, `ingress` or `egress`.
    fn tc(&self, object: &[u8], section: &str, hook: &str) -> Result<(), LabError> {
        for port in &self.sides.ports {
            let there = self.host.query("tc", &["qdisc", "show", "dev", port])?;
            if there.contains("qdisc clsact") || there.contains("qdisc ingress") {
                return Err(LabError::Preflight(format!(
                    "{} already has a qdisc for programs of tc on {port}. Remove it: tc qdisc del dev {port} clsact",
                    self.host.name()
                )));
            }
            let file = format!("/run/fwdlab-tc-{port}.o");
            let undo_commands = Command::new("tc", &["qdisc", "del", "dev", port, "clsact"]);
            let action = format!("a program of tc on {port}");
            self.undo.changing(&self.host, &action, undo_commands, || {
                self.host.write(&file, object)?;
                let section = quoted(section);
                let load = format!(
                    "{}tc qdisc add dev {port} clsact && tc filter add dev {port} {hook} bpf direct-action object-file {file} section {section}; said=$?; \
                     rm -f {file}; exit $said",
                    self.with_bpf()
                );
                let load = Command::shell(&load).called(format!("load {section} on {port}"));
                self.host.run(&load, Limit::OURS)?;
                let there = self.host.query("tc", &["filter", "show", "dev", port, hook])?;
                match there.contains(" bpf ") {
                    true => Ok(()),
                    false => Err(self.not_kept(format!("{port} has no program of tc"))),
                }
            })?;
        }
        Ok(())
    }

    /// Loads an XDP program on both ports: also on the output, which receives the frames of the
    /// reverse direction. Its name must begin with `name`.
    fn xdp(&self, object: &[u8], section: &str, name: &str) -> Result<(), LabError> {
        for port in &self.sides.ports {
            if let Some(other) = self.program(port)? {
                return Err(LabError::Preflight(format!(
                    "{} already has an XDP program, {other}, on {port}. Detach it: ip link set dev {port} xdp off",
                    self.host.name()
                )));
            }
            let file = format!("/run/fwdlab-forward-{port}.o");
            let undo_commands = Command::new("ip", &["link", "set", "dev", port, "xdp", "off"]);
            let action = format!("a program in the driver of {port}");
            self.undo.changing(&self.host, &action, undo_commands, || {
                self.host.write(&file, object)?;
                let section = quoted(section);
                let load = format!(
                    "{}ip link set dev {port} xdp object {file} section {section}; said=$?; rm -f {file}; exit $said",
                    self.with_bpf()
                );
                let load = Command::shell(&load).called(format!("load {section} into the driver of {port}"));
                self.host.run(&load, Limit::OURS)?;
                match self.program(port)? {
                    Some(own) if own.starts_with(name) => Ok(()),
                    Some(own) => Err(self.not_kept(format!("{port} has the program {own}"))),
                    None => Err(self.not_kept(format!("{port} has no program in its driver"))),
                }
            })?;
        }
        Ok(())
    }

    /// Returns what precedes a command that loads an object. In a guest, the `/sys` of the DUT's
    /// network hides the file system that `ip` and `tc` need for it.
    fn with_bpf(&self) -> &'static str {
        match self.place.files() {
            Files::Guest => "mount -t bpf bpf /sys/fs/bpf; ",
            Files::Machine | Files::View | Files::Ours => "",
        }
    }

    /// Returns the name of a port's program.
    fn program(&self, port: &str) -> Result<Option<String>, LabError> {
        let output = self
            .host
            .query("ip", &["-d", "link", "show", "dev", port])?;
        let Some((_, rest)) = output.split_once("prog/xdp ") else {
            return Ok(None);
        };
        let mut words = rest.split_whitespace().skip_while(|word| *word != "name");
        match words.nth(1) {
            Some(name) => Ok(Some(name.to_owned())),
            // older versions of ip print no name, but there is a program
            None => Err(not_understood(
                self.host.as_ref(),
                &format!("ip -d link show dev {port}"),
                rest,
            )),
        }
    }
}

/// Returns a table with connection tracking; with a flowtable, known connections bypass routing.
fn flowtable(ports: &[String; 2], is_on: bool) -> String {
    let [input, output] = ports;
    let (table, rule) = match is_on {
        true => (
            format!(
                " flowtable known {{\n  hook ingress priority 0; devices = {{ {input}, {output} }};\n }}\n"
            ),
            "  meta l4proto { tcp, udp } flow add @known\n",
        ),
        false => (String::new(), ""),
    };
    format!(
        "add table inet {FLOWTABLE}\ndelete table inet {FLOWTABLE}\ntable inet {FLOWTABLE} {{\n{table} chain forward {{\n  type filter hook \
         forward priority 0; policy accept;\n{rule}  ct state established,related,new accept\n }}\n}}\n"
    )
}

/// Returns a table with connection tracking; with translation, connections leave with the DUT's
/// address.
fn nat(output: &str, is_on: bool) -> String {
    let rule = if is_on { "masquerade" } else { "accept" };
    format!(
        "add table inet {NAT}\ndelete table inet {NAT}\ntable inet {NAT} {{\n chain postrouting {{\n  type nat hook postrouting priority 100; \
         policy accept;\n  oifname \"{output}\" {rule}\n }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::linux;
    use super::*;
    use crate::host::scripted::Scripted;

    #[test]
    fn rules_that_the_kernel_does_not_list_are_not_in_force() {
        let (dut, host, _) = linux(Scripted::new(|command, _| match command {
            _ if command.starts_with("ip -d link") => "1: x: <UP>\n".into(),
            _ if command.starts_with("ip rule show") => {
                "0: from all lookup local\n1000: from 20.0.0.0 lookup main proto 197\n".into()
            }
            _ => String::new(),
        }));
        for (text, expect) in [
            ("xdp,program=forward", "has no program in its driver"),
            ("policy-rules,n=2", "2 rules of routing"),
            ("nft-nat,state=on", "rules that translate"),
            ("nft-flowtable,state=on", "rules that bypass routing"),
        ] {
            let error = dut
                .generate(&Generated::parse(text).unwrap()[0])
                .unwrap_err();
            assert!(error.to_string().contains(expect), "{text}: {error}");
        }
        dut.generate(&Generated::parse("policy-rules,n=1").unwrap()[0])
            .unwrap();
        assert!(
            host.commands()
                .iter()
                .any(|requested| requested.contains("xdp off"))
        );
    }

    /// The kernel's answer decides, for an object of the user's, too.
    #[test]
    fn a_program_that_is_not_attached_is_not_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prog.o");
        std::fs::write(&path, "an object").unwrap();
        let attach = |hook, answer: &'static str| {
            let (dut, host, _) = linux(Scripted::new(move |command, _| {
                let looks = ["ip -d", "tc filter show"].map(|look| command.starts_with(look));
                match looks.contains(&true) {
                    true => answer.into(),
                    false => String::new(),
                }
            }));
            let (path, section) = (path.clone(), "drop them".into());
            let attached = dut.object(&Object {
                path,
                section,
                hook,
            });
            (attached.map_err(|error| error.to_string()), host.commands())
        };
        let (refused, _) = attach(Hook::Driver, "1: x: <UP>\n");
        assert!(refused.unwrap_err().contains("no program in its driver"));
        let (refused, commands) = attach(Hook::Egress, "");
        assert!(refused.unwrap_err().contains("no program of tc"));
        let is_undone = |command: &String| command.contains("qdisc del");
        assert!(commands.iter().any(is_undone), "{commands:?}");
        let (attached, commands) = attach(Hook::Egress, "filter protocol all bpf chain 0\n");
        attached.unwrap();
        let is_load = |command: &&String| command.contains("load 'drop them' on");
        assert_eq!(
            commands.iter().filter(is_load).count(),
            2,
            "both ports: {commands:?}"
        );
    }

    #[test]
    fn programs_of_others_are_left_alone() {
        let (dut, host, _) = linux(Scripted::new(|command, _| match command {
            _ if command.starts_with("ip -d link") => {
                "1: x: <UP> xdp\n  prog/xdp id 7 name theirs tag 1\n".into()
            }
            _ => String::new(),
        }));
        let error = dut
            .generate(&Generated::parse("xdp,program=pass").unwrap()[0])
            .unwrap_err();
        assert!(error.to_string().contains("theirs"), "{error}");
        assert!(
            !host
                .commands()
                .iter()
                .any(|requested| requested.contains("xdp"))
        );
    }
}
