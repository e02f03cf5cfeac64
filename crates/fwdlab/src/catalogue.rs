//! The catalogue: common questions about routers, each as a campaign that answers it. The entries
//! are compiled into the program.
//!
//! An entry is an ordinary campaign file with a `question` and its `needs`.
//! `fwdlab_model::campaign` defines what a campaign means. To add an entry, add a file in
//! `catalogue/GROUP/` and its name to the table here. Start with [`find`].

use std::path::Path;
use std::sync::LazyLock;

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
    "overload/hold-timers"
    "overload/management"
    "overload/recovery"
    "overload/shape"
    "gateways/esp-sizes"
    "gateways/esp-tunnels"
    "gateways/exact-sizes"
    "gateways/exact-tunnels"
    "gateways/openvpn"
    "gateways/openvpn-sizes"
    "gateways/openvpn-tunnels"
    "gateways/tunnels"
    "gateways/wireguard-sizes"
    "gateways/wireguard-tunnels"
    "systems/linux-vpp"
    "systems/matrix"
    "versions/kernels"
    "versions/patch"
    "energy/loads"
    "exact/rule"
}

/// An entry of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Group and name.
    pub name: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

impl Entry {
    /// Returns the parsed campaign.
    ///
    /// # Panics
    /// If the file is not a valid campaign; a test parses all of them.
    pub fn campaign(&self) -> Campaign {
        match Campaign::parse(self.name, self.text) {
            Ok(campaign) => campaign,
            Err(error) => unreachable!("the catalogue: {error}"),
        }
    }

    /// Returns the needs that this machine is not known to meet. Changes nothing to find out.
    pub fn missing(&self) -> Vec<String> {
        let mut needs = self.campaign().needs;
        // keep what cannot be checked in advance, such as a test bed or an archive
        needs.retain(|need| is_met(need) != Some(true));
        needs
    }

    /// Returns the file under another name, as a campaign of the user.
    pub fn copied(&self, name: &str) -> String {
        let (_, own) = self.name.rsplit_once('/').unwrap_or_default();
        self.text.replace(
            &format!("campaign = \"{own}\""),
            &format!("campaign = \"{name}\""),
        )
    }
}

/// Returns the needs of a campaign that this machine is known not to meet.
pub fn lacking(needs: &[String]) -> Vec<&str> {
    let is_lacking = |need: &&str| *need != "root" && is_met(need) == Some(false);
    needs
        .iter()
        .map(String::as_str)
        .filter(is_lacking)
        .collect()
}

/// Returns whether this machine meets a need; `None` if that cannot be checked.
fn is_met(need: &str) -> Option<bool> {
    match need.split_once(' ') {
        None if need == "root" => Some(user_namespace::is_root()),
        _ if need == "a DUT that runs Linux" => Some(true),
        Some(("program", "vpp")) => {
            Some(std::env::var_os("FWDLAB_VPP").is_some() || is_program("vpp"))
        }
        Some(("program", name)) => Some(is_program(name)),
        Some(("module", name)) => Some(is_module(Path::new("/"), name, &SYMBOLS)),
        Some((gigabytes, "GB of memory")) => {
            let here = rustix::system::sysinfo();
            let bytes = here.totalram as u64 * u64::from(here.mem_unit);
            gigabytes
                .parse()
                .ok()
                .map(|needed: u64| bytes >= needed * 1_000_000_000)
        }
        Some((number, "CPUs")) => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            number.parse().ok().map(|needed: usize| cpus >= needed)
        }
        _ => None,
    }
}

/// Returns the entry with this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// Returns the text of a campaign: from the file, or from the catalogue entry if there is no such
/// file.
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
    // administrators' tools may be missing from a user's path
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.any(|folder| folder.join(name).is_file())
}

/// One function per module: its symbol shows that the module is built into the kernel, even if the
/// kernel lists no built-in modules.
const FUNCTIONS: [(&str, &str); 3] = [
    ("wireguard", "wg_xmit"),
    ("esp4", "esp_output"),
    ("xfrm_interface", "xfrmi_xmit"),
];

/// Symbols of this kernel: some megabytes, read once.
static SYMBOLS: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string("/proc/kallsyms").unwrap_or_default());

/// Returns true if the kernel below this root has the module: loaded, built in or loadable.
fn is_module(root: &Path, name: &str, symbols: &LazyLock<String>) -> bool {
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap_or_default();
    if root.join("sys/module").join(name).exists() {
        return true;
    }
    let release = read("proc/sys/kernel/osrelease");
    let folder = format!("lib/modules/{}", release.trim());
    if root.join(&folder).exists() {
        let lists = ["dep", "builtin"].map(|list| read(&format!("{folder}/modules.{list}")));
        // `kernel/net/xfrm/xfrm_interface.ko.xz: ...`
        let file = format!("/{name}.ko");
        let is_listed = |line: &str| line.split(':').next().unwrap_or(line).contains(&file);
        return lists.iter().flat_map(|list| list.lines()).any(is_listed);
    }
    let function = FUNCTIONS.iter().find(|(module, _)| *module == name);
    function.is_some_and(|(_, function)| symbols.contains(&format!(" {function}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_kernel_are_found_without_loading_them() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let text = || "0 t xesp_output\n0 T esp_output\n0 T wg_xmit_x\n".to_owned();
        let symbols = LazyLock::new(text as fn() -> String);
        let has = |name| is_module(root.path(), name, &symbols);
        write("proc/sys/kernel/osrelease", "9.9\n");
        assert!(has("esp4") && !has("wireguard") && !has("own"));
        write(
            "lib/modules/9.9/modules.dep",
            "kernel/a/wireguard.ko.xz: kernel/b/xfrm_interface.ko.xz\n",
        );
        write("lib/modules/9.9/modules.builtin", "kernel/b/own.ko\n");
        assert!(has("wireguard") && has("own") && !has("xfrm_interface") && !has("esp4"));
        write("sys/module/xfrm_interface/version", "1");
        assert!(has("xfrm_interface"));
        let needs = ["root", "program no-such", "a test bed", "module nothing"].map(str::to_owned);
        assert_eq!(lacking(&needs), ["program no-such", "module nothing"]);
    }

    #[test]
    fn entries_are_campaigns_with_question_and_requirements() {
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
