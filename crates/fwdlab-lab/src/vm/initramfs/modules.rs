//! The modules of a kernel that a router may need: all of networking and its dependencies, a sixth
//! of what a distribution ships.
//!
//! Reads lists of names, but no modules. Start with [`choose`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Recipe;
use super::tree::{Node, Source, Tree};
use crate::vm::image::error::ImageError;

/// Directories and modules, below `kernel/`.
const WANTED: &[&str] = &[
    "net/",
    "crypto/",
    "lib/",
    "arch/x86/crypto/",
    "drivers/virtio/",
    "drivers/char/virtio_console",
    "drivers/char/hw_random/virtio-rng",
    "drivers/block/virtio_blk",
    "drivers/net/amt",
    "drivers/net/bareudp",
    "drivers/net/bonding/",
    "drivers/net/dummy",
    "drivers/net/ethernet/intel/e1000/",
    "drivers/net/ethernet/intel/e1000e/",
    "drivers/net/geneve",
    "drivers/net/gtp",
    "drivers/net/ifb",
    "drivers/net/ipvlan/",
    "drivers/net/macsec",
    "drivers/net/macvlan",
    "drivers/net/macvtap",
    "drivers/net/net_failover",
    "drivers/net/netconsole",
    "drivers/net/netdevsim/",
    "drivers/net/nlmon",
    "drivers/net/ppp/",
    "drivers/net/tap",
    "drivers/net/team/",
    "drivers/net/tun",
    "drivers/net/veth",
    "drivers/net/virtio_net",
    "drivers/net/vmxnet3/",
    "drivers/net/vrf",
    "drivers/net/vxlan", // a file at first, a directory since 5.18
    "drivers/net/wireguard/",
    "fs/9p/",
    "fs/fuse/virtiofs",
    "fs/overlayfs/",
];

/// Wireless, storage, clusters, obsolete protocols, and transports that end in a host: nothing that
/// a router does.
const NOT_WANTED: &[&str] = &[
    "net/6lowpan/",
    "net/appletalk/",
    "net/ax25/",
    "net/bluetooth/",
    "net/caif/",
    "net/can/",
    "net/ceph/",
    "net/dccp/",
    "net/ieee802154/",
    "net/mac80211/",
    "net/mac802154/",
    "net/netrom/",
    "net/nfc/",
    "net/qrtr/",
    "net/rds/",
    "net/rose/",
    "net/rxrpc/",
    "net/sctp/",
    "net/smc/",
    "net/sunrpc/",
    "net/tipc/",
    "net/wireless/",
];

/// What modprobe reads; depmod makes it for all modules, so that modules that were left out are
/// known by name, and reported as missing files.
const INDEXES: &[&str] = &[
    "modules.alias.bin",
    "modules.builtin",
    "modules.builtin.alias.bin",
    "modules.builtin.bin",
    "modules.builtin.modinfo",
    "modules.dep",
    "modules.dep.bin",
    "modules.devname",
    "modules.order",
    "modules.softdep",
    "modules.symbols.bin",
    "modules.weakdep",
];

/// Puts the modules of a kernel into a guest, compressed or not, as the distribution ships them:
/// unpacking a dozen of them takes a guest with 6.12 a fifth of a second, and uncompressed ones
/// would take 20 MB more.
pub(super) fn put(folder: &Path, recipe: &Recipe<'_>, tree: &mut Tree) -> Result<(), ImageError> {
    let release = &recipe.kernel.release;
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path)
            .map_err(|e| ImageError::system(format!("read {}", path.display()), e))
    };
    let soft = read("modules.softdep").unwrap_or_default();
    let there = format!("usr/lib/modules/{release}");
    let chosen = choose(&read("modules.dep")?, &soft, recipe.words);
    let indexes = INDEXES
        .iter()
        .map(|&name| name.to_owned())
        .filter(|name| folder.join(name).exists());
    for name in chosen.into_iter().chain(indexes) {
        tree.put(
            &format!("{there}/{name}"),
            Node::File(Source::at(&folder.join(&name))?),
        );
    }
    Ok(())
}

/// Returns the files of modules that are wanted or named, and of those they need, from
/// `modules.dep` and `modules.softdep`.
fn choose(dependencies: &str, soft: &str, words: &BTreeSet<String>) -> BTreeSet<String> {
    let named: BTreeSet<String> = words.iter().map(|word| word.replace('-', "_")).collect();
    let lines = dependencies.lines().filter_map(|line| line.split_once(':'));
    let needs: BTreeMap<&str, Vec<&str>> = lines
        .map(|(file, needs)| (file, needs.split_whitespace().collect()))
        .collect();
    let files: BTreeMap<String, &str> = needs.keys().map(|file| (name(file), *file)).collect();
    let softly: BTreeMap<String, Vec<&str>> = soft
        .lines()
        .filter_map(|line| soft_needs(line, &files))
        .collect();

    let mut open: Vec<&str> = needs
        .keys()
        .copied()
        .filter(|file| is_needed(file) || named.contains(&name(file)))
        .collect();
    let mut chosen = BTreeSet::new();
    while let Some(file) = open.pop() {
        if chosen.insert(file.to_owned()) {
            open.extend(needs.get(file).into_iter().flatten());
            open.extend(softly.get(&name(file)).into_iter().flatten());
        }
    }
    chosen
}

/// `softdep NAME pre: A B post: C`
fn soft_needs<'a>(line: &str, files: &BTreeMap<String, &'a str>) -> Option<(String, Vec<&'a str>)> {
    let mut words = line.strip_prefix("softdep ")?.split_whitespace();
    let of = words.next()?.replace('-', "_");
    Some((
        of,
        words
            .filter_map(|word| files.get(&word.replace('-', "_")).copied())
            .collect(),
    ))
}

/// Returns the module of a file: `8021q` for `kernel/net/8021q/8021q.ko.xz`.
fn name(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or(file);
    last.split(".ko").next().unwrap_or(last).replace('-', "_")
}

fn is_needed(file: &str) -> bool {
    let Some(path) = file.strip_prefix("kernel/") else {
        // third-party modules were installed on purpose
        return true;
    };
    let is_in = |list: &[&str]| {
        list.iter().any(|&entry| {
            path.strip_prefix(entry)
                .is_some_and(|rest| entry.ends_with('/') || rest.starts_with(['.', '/']))
        })
    };
    is_in(WANTED) && !is_in(NOT_WANTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_networking_come_with_what_they_need() {
        let dependencies = "kernel/net/8021q/8021q.ko.xz: kernel/net/802/mrp.ko.xz\n\
            kernel/net/802/mrp.ko.xz:\n\
            kernel/net/bluetooth/bluetooth.ko.xz: kernel/drivers/radio.ko.xz\n\
            kernel/drivers/radio.ko.xz:\n\
            kernel/drivers/net/vxlan/vxlan.ko.xz: kernel/drivers/base/helper.ko.xz\n\
            kernel/drivers/net/veth.ko.xz:\n\
            kernel/drivers/net/vethother.ko.xz:\n\
            kernel/drivers/base/helper.ko.xz:\n\
            kernel/drivers/base/soft-one.ko.xz:\n\
            updates/own.ko:\n";
        let chosen = choose(
            dependencies,
            "# comment\nsoftdep veth pre: soft_one absent post: mrp\n",
            &BTreeSet::new(),
        );
        let names: Vec<String> = chosen.iter().map(|file| name(file)).collect();
        assert_eq!(
            names,
            ["helper", "soft_one", "veth", "vxlan", "mrp", "8021q", "own"]
        );
        // modules that a configuration names, in any directory
        let words = ["modprobe", "soft-one", "vethother"].map(str::to_owned);
        let chosen = choose(dependencies, "", &words.into());
        let is_there = |requested: &str| chosen.iter().any(|file| name(file) == requested);
        assert!(is_there("soft_one") && is_there("vethother") && !is_there("bluetooth"));
    }
}
