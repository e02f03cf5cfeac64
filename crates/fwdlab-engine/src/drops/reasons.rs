//! The running kernel's names of drop reasons: the values of `enum skb_drop_reason` in its BTF.
//!
//! The numbers change from release to release, so a fixed table would be wrong. tracefs prints the
//! same names but is often not mounted, and the tracepoint program needs BTF anyway. Start with
//! [`Names`].

use std::collections::HashMap;
use std::io;

use crate::btf;

/// Number to name.
pub(super) struct Names(HashMap<u32, String>);

impl Names {
    /// Reads `/sys/kernel/btf/vmlinux`.
    pub(super) fn from_running_kernel() -> io::Result<Names> {
        let kernel = btf::read()?;
        let values = btf::enum_values(&kernel, "skb_drop_reason").ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "this kernel's BTF has no enum skb_drop_reason",
            )
        })?;
        let plain = |name: &str| {
            let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
            name.to_lowercase().replace('_', " ")
        };
        Ok(Names(
            values
                .into_iter()
                .map(|(value, name)| (value, plain(name)))
                .collect(),
        ))
    }

    /// Returns the name of a reason as counted by `bpf/drops.bpf.c`.
    pub(super) fn name(&self, reason: u32) -> String {
        // no frame is dropped for the reason "not dropped yet", so the program counts the rest
        // there
        if reason == 0 {
            return "other".into();
        }
        self.0
            .get(&reason)
            .cloned()
            .unwrap_or_else(|| format!("reason {reason}"))
    }
}
