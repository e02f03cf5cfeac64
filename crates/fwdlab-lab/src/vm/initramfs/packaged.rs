//! Programs that this machine lacks, from packages that are unpacked in the cache instead of
//! installed.
//!
//! Start with [`package_of`] and [`root_of`].

use sha2::{Digest, Sha256};

use crate::sys::hex;
use crate::vm::image::cache::{Cache, Entry, Facts, Kind, Report};
use crate::vm::image::error::ImageError;
use crate::vm::image::packages::{self, with_lists};

/// The maximum number of packages and their size in bytes: more than any program of a router needs;
/// refuses a package that depends on a desktop.
const LARGEST: (usize, u64) = (40, 150_000_000);

/// Returns the Debian package that contains a program.
pub(crate) fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "ip" | "tc" | "bridge" | "ss" | "nstat" => "iproute2",
        "nft" => "nftables",
        "iptables" | "ip6tables" | "iptables-save" | "iptables-restore" | "iptables-legacy"
        | "iptables-nft" | "ebtables" => "iptables",
        "ipset" => "ipset",
        "conntrack" => "conntrack",
        "ipvsadm" => "ipvsadm",
        "ethtool" => "ethtool",
        "wg" | "wg-quick" => "wireguard-tools",
        "modprobe" | "depmod" | "insmod" | "lsmod" | "rmmod" | "kmod" => "kmod",
        "ping" => "iputils-ping",
        "sysctl" | "ps" | "free" => "procps",
        "brctl" => "bridge-utils",
        "vtysh" => "frr",
        "bird" => "bird2",
        "snmpd" => "snmpd",
        "tcpdump" => "tcpdump",
        "nsenter" | "unshare" | "mount" => "util-linux",
        "busybox" => "busybox-static",
        "sshd" => "openssh-server",
        _ => return None,
    })
}

/// Returns an entry with these packages, and those they need in addition to this machine's,
/// unpacked in its directory `root`.
pub(crate) fn root_of(
    names: &[&str],
    cache: &Cache,
    report: Report<'_>,
) -> Result<Entry, ImageError> {
    let name = format!("programs:{}", names.join(","));
    if let Some(checksum) = cache.checksum_of(&name)
        && let Some(entry) = cache.find(Kind::Programs, &checksum, report)
    {
        return Ok(entry);
    }
    let requested = with_lists(cache, report, |apt, report| {
        let Some(all) = apt.closure(names, cache)? else {
            return Ok(None);
        };
        let bytes: u64 = all.iter().map(|package| package.bytes).sum();
        if all.is_empty() {
            return Ok(None);
        }
        if all.len() > LARGEST.0 || bytes > LARGEST.1 {
            return Err(ImageError::NotFetched {
                item: names.join(", "),
                reason: format!(
                    "it takes {} packages with {:.0} MB, which is too much for a guest's memory",
                    all.len(),
                    bytes as f64 / 1e6
                ),
            });
        }
        let mut sum = Sha256::new();
        for package in &all {
            sum.update(format!("{}\n", package.sha256));
        }
        let checksum = hex(&sum.finalize());
        let title = format!("programs of {}", names.join(", "));
        let entry = cache.make(Kind::Programs, &checksum, &title, report, |new, report| {
            report(&format!(
                "downloading {} for the guest ({:.1} MB)",
                names.join(", "),
                bytes as f64 / 1e6
            ));
            let files = new.with_extension("packages");
            for file in apt.download(&all, &files)? {
                packages::unpack(&file, &new.join("root"))?;
            }
            let versions = all
                .iter()
                .map(|package| (package.name.clone(), package.version.clone()));
            Ok(versions.collect::<Facts>())
        })?;
        Ok(Some((checksum, entry)))
    })?;
    let Some((checksum, entry)) = requested.found else {
        let mut cause =
            "the package lists of this machine do not have them, or not all they need".to_owned();
        if let Some(not_updated) = requested.not_updated {
            cause = format!("{cause}, and new lists could not be had: {not_updated}");
        }
        return Err(ImageError::NotFetched {
            item: format!("the packages {}", names.join(", ")),
            reason: cause,
        });
    };
    cache.keep_name(&name, &checksum)?;
    Ok(entry)
}
