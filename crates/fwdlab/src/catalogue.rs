//! The catalogue: questions that people ask of routers, each as a campaign that answers it. They are in the program.
//!
//! An entry is an ordinary campaign file that says its `question` and what it `needs`. What a campaign means is
//! `fwdlab_model::campaign`'s. To add one: a file in `catalogue/GROUP/`, and its name in the table here. Start with [`find`].

use std::path::Path;

use fwdlab_lab::user_namespace;
use fwdlab_model::campaign::Campaign;

macro_rules! shipped {
    ($($name:literal)*) => {
        /// All entries, by group.
        pub const ALL: &[Entry] = &[$(Entry {
            name: $name,
            text: include_str!(concat!("../catalogue/", $name, ".toml")),
        }),*];
    };
}

shipped! {
    "traffic/address-family"
    "traffic/directions"
    "traffic/flows"
    "traffic/frame-size"
    "traffic/imix"
    "traffic/ipv4-oddities"
    "traffic/ipv6-headers"
    "traffic/million-flows"
    "traffic/mixes"
    "traffic/tags"
    "paths/bridge"
    "paths/flowtable"
    "paths/jail"
    "paths/nat"
    "paths/policy-routing"
    "paths/tunnels"
    "paths/vrf"
    "paths/xdp"
    "firewall/freebsd"
    "firewall/freebsd-rules"
    "firewall/iptables"
    "firewall/many-rules"
    "firewall/many-states"
    "firewall/rules"
    "firewall/sets"
    "firewall/stateful"
    "firewall/states"
    "firewall/ten-million-states"
    "routes/churn-rate"
    "routes/destinations"
    "routes/fib"
    "routes/fib-cases"
    "routes/full-view"
    "routes/ipv6-fib"
    "routes/rewritten"
    "routes/session-cleared"
    "tuning/before-after"
    "tuning/busy-polling"
    "tuning/early-demux"
    "tuning/entropy"
    "tuning/freebsd-process-limit"
    "tuning/governor"
    "tuning/gro"
    "tuning/huge-pages"
    "tuning/hyper-threads"
    "tuning/idle-states"
    "tuning/interrupt-moderation"
    "tuning/irq-affinity"
    "tuning/mitigations"
    "tuning/numa"
    "tuning/offloads"
    "tuning/packet-steering"
    "tuning/queues"
    "tuning/receive-budget"
    "tuning/ring-sizes"
    "tuning/rss-hash"
    "tuning/rss-queues"
    "tuning/source-validation"
    "tuning/threaded-napi"
    "overload/livelock"
    "overload/management"
    "overload/recovery"
    "overload/shape"
    "gateways/openvpn"
    "gateways/openvpn-sizes"
    "gateways/openvpn-tunnels"
    "gateways/tunnels"
    "systems/linux-vpp"
    "systems/matrix"
    "versions/kernels"
    "versions/patch"
    "energy/loads"
    "exact/rule"
}

/// A campaign of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Group and name.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

impl Entry {
    /// What it says, read.
    ///
    /// # Panics
    /// When the file is no campaign: a test reads all of them.
    pub fn campaign(&self) -> Campaign {
        match Campaign::parse(self.name, self.text) {
            Ok(campaign) => campaign,
            Err(error) => unreachable!("the catalogue: {error}"),
        }
    }

    /// What of this is not here, as far as can be seen without asking the system to change anything.
    pub fn missing(&self) -> Vec<String> {
        let is_here = |need: &str| match need.split_once(' ') {
            None if need == "root" => user_namespace::is_root(),
            Some(("program", "vpp")) => {
                std::env::var_os("FWDLAB_VPP").is_some() || is_program("vpp")
            }
            Some(("program", name)) => is_program(name),
            Some((gigabytes, "GB of memory")) => {
                let here = rustix::system::sysinfo();
                let bytes = here.totalram as u64 * u64::from(here.mem_unit);
                (gigabytes.parse()).is_ok_and(|needed: u64| bytes >= needed * 1_000_000_000)
            }
            Some((number, "CPUs")) => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                number.parse().is_ok_and(|needed: usize| cpus >= needed)
            }
            // a test bed or an archive: nobody knows before it is asked
            _ => false,
        };
        let mut needs = self.campaign().needs;
        needs.retain(|need| !is_here(need));
        needs
    }

    /// The file under another name: a campaign of the user's own.
    pub fn copied(&self, name: &str) -> String {
        let (_, own) = self.name.rsplit_once('/').unwrap_or_default();
        self.text.replace(
            &format!("campaign = \"{own}\""),
            &format!("campaign = \"{name}\""),
        )
    }
}

/// The entry of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// The text of a campaign: of a file, or of an entry where there is no such file.
pub fn text(file: &Path) -> std::io::Result<String> {
    match (std::fs::read_to_string(file), file.to_str().and_then(find)) {
        (Err(error), Some(entry)) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(entry.text.to_owned())
        }
        (read, _) => read,
    }
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // what an administrator uses is not in everybody's path
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_campaigns_that_say_what_they_answer_and_need() {
        for entry in ALL {
            let campaign = entry.campaign();
            let (_, own) = entry.name.split_once('/').unwrap();
            assert_eq!(campaign.name, own);
            assert!(
                campaign.question.ends_with('?') && campaign.question.len() < 90,
                "{}",
                entry.name
            );
            assert!(
                !campaign.about.is_empty() && !campaign.needs.is_empty(),
                "{}",
                entry.name
            );
            let copied = Campaign::parse("x", &entry.copied("mine")).unwrap();
            assert_eq!(
                (copied.name.as_str(), copied.cases.len()),
                ("mine", campaign.cases.len())
            );
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue");
        let groups = std::fs::read_dir(folder).unwrap().flatten();
        let files = groups.flat_map(|group| std::fs::read_dir(group.path()).unwrap().flatten());
        assert_eq!(files.count(), ALL.len(), "each file is in the table");
    }

    #[test]
    fn a_file_comes_before_an_entry() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flows.toml");
        std::fs::write(&file, "mine").unwrap();
        assert_eq!(text(&file).unwrap(), "mine");
        assert_eq!(
            text(Path::new("traffic/flows")).unwrap(),
            find("traffic/flows").unwrap().text
        );
        assert!(text(Path::new("traffic/flaws")).is_err());
    }
}
