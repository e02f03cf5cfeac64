//! A routing daemon on a Linux DUT that learns the routes for test frames, and a full view with
//! them, from two peers: BGP sessions of bird.
//!
//! The work is done by a shell script, `bgp.sh` next to this file; this file adds its variables and
//! checks where it may run. Start with [`Linux::bgp`].

use fwdlab_model::family::Generated;
use fwdlab_model::trial::IpVersion;

use super::Linux;
use crate::error::LabError;
use crate::host::{Limit, quoted};
use crate::networks::mac;

/// The script; it stops by itself after some minutes.
const SCRIPT: &str = include_str!("bgp.sh");

/// Shows that it is in force.
pub(super) const SHOW: &str = "cat /run/fwdlab-bgp/dut.conf; birdc -r -s /run/fwdlab-bgp/dut.ctl show protocols all; \
                               birdc -r -s /run/fwdlab-bgp/dut.ctl show route count; \
                               echo \"routes in the kernel: $(ip -4 route show proto bird | wc -l)\"";

impl Linux {
    /// Starts the daemons, and waits until all routes are in the kernel; returns their number.
    pub(super) fn bgp(&self, one: &Generated, limit: Limit<'_>) -> Result<String, LabError> {
        self.has_daemons_of_its_own("routing daemons")?;
        let side = &self.sides.networks.output;
        let (first, length) = side.ipv4.behind;
        let n = one.count("n");
        let networks = 1_u64 << 24_u8.saturating_sub(length);
        if n < networks {
            return Err(LabError::Preflight(format!(
                "{} cannot learn test frames' networks with n = {n}: they are {networks}. Let n be {networks} or more",
                self.place.name()
            )));
        }
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        let words = format!(
            "n={n} views={} updates={} hold={} first={} networks={networks} prefix={} hop={} mac={} cpus={}\n",
            one.value("views"),
            one.count("updates"),
            one.count("hold"),
            u32::from(first),
            quoted(&side.prefix(IpVersion::Ipv4)),
            side.ipv4.next_hop,
            mac(side.tester_mac),
            cpus.join(","),
        );
        self.start_daemons(one, &format!("{words}{SCRIPT}"), limit)
    }
}
