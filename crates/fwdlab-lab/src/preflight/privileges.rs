//! Checks that we have the privileges to measure.
//!
//! The full arrangement needs root of the host; without it a user namespace must do. `scratch`
//! tries what each engine really can do. Start with [`checks`].

use super::{Check, text};

/// Capabilities we use: number in `linux/capability.h`, name, and purpose.
const NEEDED: [(u32, &str, &str); 4] = [
    (12, "CAP_NET_ADMIN", "interfaces and XDP"),
    (21, "CAP_SYS_ADMIN", "network namespaces"),
    (
        23,
        "CAP_SYS_NICE",
        "priority of the generator and of the DUT's thread",
    ),
    (39, "CAP_BPF", "the sender and the counters"),
];

pub(super) fn checks() -> Vec<Check> {
    let status = text("/proc/self/status").unwrap_or_default();
    let uid_map = text("/proc/self/uid_map").unwrap_or_default();
    vec![
        privileges(&status, &uid_map),
        user_namespaces(
            effective_user(&status) == Some(0),
            text("/proc/sys/user/max_user_namespaces").as_deref(),
            text("/proc/sys/kernel/unprivileged_userns_clone").as_deref(),
            text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref(),
        ),
    ]
}

/// Returns true for root, of the host or of a user namespace.
pub(super) fn is_root() -> bool {
    effective_user(&text("/proc/self/status").unwrap_or_default()) == Some(0)
}

/// Judges `/proc/self/status` and `/proc/self/uid_map`.
fn privileges(status: &str, uid_map: &str) -> Check {
    const NAME: &str = "privileges";
    const FIX: &str = "sudo fwdlab doctor, and sudo for measurements";
    if effective_user(status) != Some(0) {
        return Check::warn(
            NAME,
            "not root: slower senders, no pinning, no counting in XDP",
            FIX,
        );
    }
    // the host's own map covers all users; that of a user namespace does not
    let mapped = uid_map
        .split_whitespace()
        .nth(2)
        .and_then(|count| count.parse::<u64>().ok());
    if mapped.is_some_and(|count| count < u64::from(u32::MAX)) {
        return Check::warn(NAME, "root of a user namespace only, not of this host", FIX);
    }
    let held = status_field(status, "CapEff")
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(0);
    let missing: Vec<String> = NEEDED
        .iter()
        .filter(|(bit, _, _)| held & (1 << bit) == 0)
        .map(|(_, name, purpose)| format!("{name} ({purpose})"))
        .collect();
    if missing.is_empty() {
        Check::ok(NAME, "root, with all capabilities needed for measurements")
    } else {
        Check::warn(
            NAME,
            format!("root without {}", missing.join(", ")),
            "run outside of the container, or start it with --privileged",
        )
    }
}

/// Judges the settings of the kernel and the distributions for user namespaces.
fn user_namespaces(
    root: bool,
    max: Option<&str>,
    clone: Option<&str>,
    apparmor: Option<&str>,
) -> Check {
    const NAME: &str = "user namespaces";
    if root {
        return Check::skip(NAME, "not needed: we are root");
    }
    let off = |sysctl: &str, value: u32| {
        Check::fail(
            NAME,
            format!("{sysctl} forbids them, and without root there is no alternative"),
            format!("sudo sysctl -w {sysctl}={value}, or sudo for measurements"),
        )
    };
    if max == Some("0") {
        off("user.max_user_namespaces", 10_000)
    } else if clone == Some("0") {
        off("kernel.unprivileged_userns_clone", 1)
    } else if apparmor.is_some_and(|value| value != "0") {
        off("kernel.apparmor_restrict_unprivileged_userns", 0)
    } else {
        Check::ok(NAME, "allowed")
    }
}

/// Returns the effective user: the second number of `Uid:`.
fn effective_user(status: &str) -> Option<u32> {
    status_field(status, "Uid")?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    const HOST: &str = "         0          0 4294967295";

    fn status(uid: u32, capabilities: &str) -> String {
        format!(
            "Name:\tfwdlab\nUid:\t1000\t{uid}\t0\t0\nCapInh:\t0000000000000000\nCapEff:\t{capabilities}\n"
        )
    }

    #[test]
    fn root_of_the_host_has_all_privileges() {
        assert_eq!(
            privileges(&status(0, "000001ffffffffff"), HOST).status,
            Status::Ok
        );
    }

    #[test]
    fn users_containers_and_user_namespaces_have_less() {
        let user = privileges(&status(1000, "0000000000000000"), HOST);
        assert!(
            user.status == Status::Warn && user.finding.starts_with("not root"),
            "{user:?}"
        );
        // what Docker grants by default
        let container = privileges(&status(0, "00000000a80425fb"), HOST);
        assert_eq!(container.status, Status::Warn);
        assert!(
            container.finding.contains("CAP_NET_ADMIN") && container.finding.contains("CAP_BPF"),
            "{container:?}"
        );
        let namespace = privileges(&status(0, "000001ffffffffff"), "0 1000 1");
        assert!(
            namespace.finding.contains("user namespace"),
            "{namespace:?}"
        );
    }

    #[test]
    fn user_namespaces_have_three_switches() {
        let failed = |max, clone, apparmor| {
            let check = user_namespaces(false, max, clone, apparmor);
            (check.status == Status::Fail).then(|| check.fix.expect("a failure has a fix"))
        };
        assert_eq!(failed(Some("96365"), None, None), None);
        assert_eq!(failed(Some("96365"), Some("1"), Some("0")), None);
        assert!(
            failed(Some("0"), None, None)
                .is_some_and(|fix| fix.contains("user.max_user_namespaces"))
        );
        assert!(
            failed(None, Some("0"), None)
                .is_some_and(|fix| fix.contains("unprivileged_userns_clone=1"))
        );
        assert!(failed(None, None, Some("1")).is_some_and(|fix| fix.contains("apparmor")));
        assert_eq!(
            user_namespaces(true, Some("0"), None, None).status,
            Status::Skip
        );
    }
}
