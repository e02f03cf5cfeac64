//! A switch between tester and DUT whose port counters can be queried: a Linux bridge through its
//! host, any other through its SNMP agent.
//!
//! Only reads the counters, and reports how timely they are. Start with [`BedSwitch::packets`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fwdlab_model::test_bed::SwitchPorts;

use crate::error::LabError;
use crate::host::Host;
use crate::interfaces::{Counted, counters_of, read_counters};
use crate::snmp::agent::Agent;

/// Packets that ports of a switch have passed on, in the order in which frames pass them; unknown
/// ones are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwitchPackets {
    /// Received from the sender.
    pub from_sender: Option<u64>,
    /// Sent to the DUT.
    pub to_dut: Option<u64>,
    /// Received from the DUT.
    pub from_dut: Option<u64>,
    /// Sent to the receiver.
    pub to_receiver: Option<u64>,
    /// True if the counters are current, not some seconds old.
    pub is_prompt: bool,
}

/// A switch that can be queried, and its ports.
#[derive(Debug, Clone)]
pub(crate) struct BedSwitch {
    pub asked: SwitchAccess,
    pub ports: SwitchPorts,
}

/// How the counters are queried.
#[derive(Debug, Clone)]
pub(crate) enum SwitchAccess {
    /// From the host of the bridge.
    Host(Arc<dyn Host>),
    /// From its SNMP agent.
    Agent(Arc<Mutex<Agent>>),
}

impl BedSwitch {
    /// Returns the counters of its ports on the path of frames, or on the reverse path.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn packets(&self, undo: bool) -> Result<SwitchPackets, LabError> {
        let names: Vec<&str> = self
            .ports
            .named()
            .into_iter()
            .map(|(_, port)| port)
            .collect();
        let counted: BTreeMap<&str, (u64, u64)> = match &self.asked {
            SwitchAccess::Host(host) => {
                let table = read_counters(host.as_ref())?;
                let of = |port: &str| {
                    let Counted {
                        rx_packets,
                        tx_packets,
                        ..
                    } = counters_of(&table, port, host.as_ref())?;
                    Ok::<_, LabError>((rx_packets, tx_packets))
                };
                names
                    .into_iter()
                    .map(|port| Ok((port, of(port)?)))
                    .collect::<Result<_, LabError>>()?
            }
            SwitchAccess::Agent(agent) => {
                let mut agent = agent.lock().unwrap_or_else(PoisonError::into_inner);
                names.iter().copied().zip(agent.packets(&names)?).collect()
            }
        };
        let of = |port: &Option<String>| counted.get(port.as_deref()?).copied();
        let returned = |port| of(port).map(|(returned, _)| returned);
        let went = |port| of(port).map(|(_, went)| went);
        let SwitchPorts {
            tester_a,
            tester_2,
            dut_a,
            dut_b,
            tester_b,
        } = &self.ports;
        let is_prompt = matches!(self.asked, SwitchAccess::Host(_));
        Ok(match undo {
            false => SwitchPackets {
                from_sender: returned(tester_a)
                    .map(|first| first + returned(tester_2).unwrap_or_default()),
                to_dut: went(dut_a),
                from_dut: returned(dut_b),
                to_receiver: went(tester_b),
                is_prompt,
            },
            true => SwitchPackets {
                from_sender: returned(tester_b),
                to_dut: went(dut_b),
                from_dut: returned(dut_a),
                to_receiver: went(tester_a),
                is_prompt,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snmp::agent::tests::device;

    #[test]
    fn ports_of_an_agent_are_found_by_name_and_counted() {
        let at = device(&["Gi1/0/1", "Gi1/0/2", "Gi1/0/3"]);
        let error = Agent::open(at, "public", &["Gi1/0/9"])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("has no port Gi1/0/9; it has Gi1/0/1, Gi1/0/2, Gi1/0/3"),
            "{error}"
        );
        let agent = Agent::open(at, "public", &["Gi1/0/1", "Gi1/0/3"]).unwrap();
        let switch = BedSwitch {
            asked: SwitchAccess::Agent(Arc::new(Mutex::new(agent))),
            ports: SwitchPorts {
                tester_a: Some("Gi1/0/1".into()),
                dut_a: Some("Gi1/0/3".into()),
                ..SwitchPorts::default()
            },
        };
        let [before, after] = [false, false].map(|undo| switch.packets(undo).unwrap());
        assert!(!before.is_prompt);
        assert_eq!(before.from_dut, None);
        let since =
            |of: fn(&SwitchPackets) -> Option<u64>| of(&after).unwrap() - of(&before).unwrap();
        assert_eq!(
            (since(|of| of.from_sender), since(|of| of.to_dut)),
            (10, 10)
        );
        // port 3 is the third, and its counter of sent packets differs from that of received ones
        assert_eq!(before.to_dut.unwrap() - before.from_sender.unwrap(), 2001);
    }
}
