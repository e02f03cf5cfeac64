//! A Linux DUT as a gateway: a second router behind it, and tunnels of OpenVPN between the two.
//!
//! What is done is a text for the DUT's shell, `openvpn.sh` beside this file. Start with [`Linux::openvpn`].

use fwdlab_model::family::Generated;

use super::Linux;
use crate::error::LabError;
use crate::host::{Files, Limit};

/// The text; it ends by itself after some seconds.
const SCRIPT: &str = include_str!("openvpn.sh");

/// What shows that it is in force.
pub(super) const SHOW: &str = "ip rule; ip route show table 100; ip -br address; ip -n far -br address; \
                               tail -n 20 $FWDLAB_DAEMONS/*.log 2>/dev/null || :";

impl Linux {
    /// Makes the second router, and the tunnels to it; returns what was said meanwhile.
    pub(super) fn openvpn(&self, one: &Generated, limit: Limit<'_>) -> Result<String, LabError> {
        self.has_daemons_of_its_own("a gateway")?;
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        let words = format!("tunnels={} cpus={}\n", one.count("tunnels"), cpus.join(","));
        self.start_daemons(one, &format!("{words}{SCRIPT}"), limit)
    }

    /// Carries out the text of a family that starts daemons, which takes as long as it needs; returns what it said.
    pub(super) fn start_daemons(
        &self,
        one: &Generated,
        text: &str,
        limit: Limit<'_>,
    ) -> Result<String, LabError> {
        let limit = Limit {
            time: Limit::OURS.time,
            ..limit
        };
        let command = self.users_command(text).called(format!("{one}"));
        Ok(self.place.run(&command, limit)?.text())
    }

    /// Daemons that are generated end with the place, and what they route would be the way to a machine of its own, too.
    ///
    /// # Errors
    /// It is one.
    pub(super) fn has_daemons_of_its_own(&self, what: &str) -> Result<(), LabError> {
        match self.place.files() {
            Files::View => Ok(()),
            _ => Err(LabError::Preflight(format!(
                "{} cannot have {what} generated: that is for the DUTs of the embedded test bed, with isolation. For a machine of its own \
                 write a set with its daemons' configuration",
                self.place.name()
            ))),
        }
    }
}
