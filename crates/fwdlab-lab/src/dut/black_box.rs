//! A DUT without login: frames pass through it, and that is all.
//!
//! Nothing can be applied, and only counters of ports can be read, by SNMP. Requests are refused
//! with a suggestion what to do instead, and values that cannot be read are absent, not zero. Start
//! with [`BlackBox`].

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fwdlab_model::trial::IpVersion;

use super::{Change, Configuration, Dut, PortPair, Route, SweptParameter, refuse};
use crate::control::Control;
use crate::error::LabError;
use crate::host::Limit;
use crate::interfaces::Counted;
use crate::snmp::agent::Agent;

/// A DUT of which only the name is known, and perhaps an SNMP agent.
#[derive(Debug)]
pub struct BlackBox {
    name: String,
    counters: Option<AgentCounters>,
}

/// The counters of its ports, by their names in an agent.
#[derive(Debug)]
struct AgentCounters {
    agent: Mutex<Agent>,
    ports: [String; 2],
    /// How old they may be; unknown if absent.
    settle: Option<Duration>,
}

impl BlackBox {
    /// Creates a DUT with this name.
    pub fn new(name: &str) -> BlackBox {
        BlackBox {
            name: name.to_owned(),
            counters: None,
        }
    }

    /// Reads the counters of these ports from an agent, whose counters may be that old.
    pub(crate) fn with_agent(
        self,
        agent: Agent,
        ports: [String; 2],
        settle: Option<Duration>,
    ) -> BlackBox {
        let agent = Mutex::new(agent);
        BlackBox {
            counters: Some(AgentCounters {
                agent,
                ports,
                settle,
            }),
            ..self
        }
    }
}

impl Dut for BlackBox {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        ": fwdlab cannot log into it"
    }

    /// Does nothing: the owner has already made it a router.
    fn prepare(&self) -> Result<BTreeMap<String, String>, LabError> {
        Ok(BTreeMap::new())
    }

    fn apply(&self, configuration: &Configuration, _: &Control) -> Result<String, LabError> {
        refuse(
            self,
            format!("apply the configuration `{}`", configuration.name),
            "apply it by hand, and measure without it",
        )
    }

    fn route(&self, routes: &[Route]) -> Result<String, LabError> {
        match routes.first() {
            None => Ok(String::new()),
            Some(Route {
                network: (network, length),
                ..
            }) => refuse(
                self,
                format!("add {} routes, such as to {network}/{length}", routes.len()),
                "add them by hand, or offer frames that need none",
            ),
        }
    }

    fn set(
        &self,
        swept: &SweptParameter,
        _: IpVersion,
        value: u64,
        _: &Control,
    ) -> Result<Option<Change>, LabError> {
        match swept {
            SweptParameter::Stream | SweptParameter::Units => Ok(None),
            _ => refuse(
                self,
                format!("set the swept value {value}"),
                "set it by hand and measure each value in a separate run; flows and sizes are set in the tester and can be swept",
            ),
        }
    }

    fn filter(
        &self,
        _: &[(String, String)],
        rules: u32,
        _: &mut dyn FnMut(String) -> Result<(), LabError>,
    ) -> Result<Change, LabError> {
        refuse(
            self,
            format!("set {rules} filters"),
            "set them by hand, and leave this modifier out",
        )
    }

    fn counters(&self) -> Result<Option<PortPair<Counted>>, LabError> {
        let Some(of) = &self.counters else {
            return Ok(None);
        };
        let mut agent = of.agent.lock().unwrap_or_else(PoisonError::into_inner);
        let [input, output] = &of.ports;
        Ok(Some(PortPair {
            input: agent.counted(input)?,
            output: agent.counted(output)?,
        }))
    }

    fn age_of_counters(&self) -> Option<Duration> {
        match &self.counters {
            Some(of) => of.settle,
            None => Some(Duration::ZERO),
        }
    }

    fn port_problems(&self) -> Result<Vec<String>, LabError> {
        Ok(Vec::new())
    }

    /// Nothing was changed.
    fn undo_change(&self, _: Change, _: Limit<'_>) -> Result<(), LabError> {
        Ok(())
    }

    fn undo(&self) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::reset::Reset;

    use super::*;
    use crate::networks::End;

    #[test]
    fn a_black_box_refuses_requests_with_advice_and_has_no_readings() {
        let dut = BlackBox::new("fw1");
        let control = Control::default();
        let mut report = |text: String| -> Result<(), LabError> { panic!("{text}") };
        let configuration = Configuration::parse("nft -f 100.nft").unwrap();
        let route = Route {
            network: ("48.0.0.0".parse().unwrap(), 22),
            out: End::Output,
        };
        let v4 = IpVersion::Ipv4;
        for (refused, words) in [
            (
                dut.apply(&configuration, &control).map(drop),
                "`nft -f 100.nft`",
            ),
            (dut.route(&[route]).map(drop), "48.0.0.0/22"),
            (
                dut.set(&SweptParameter::Rules, v4, 7, &control).map(drop),
                "set the swept value 7",
            ),
            (dut.plan_reset(&Reset::Interface).map(drop), "`interface`"),
            (dut.filter(&[], 25, &mut report).map(drop), "25 filters"),
            (
                dut.begin_updates(v4, &mut report).map(drop),
                "update routes",
            ),
        ] {
            let text = refused.unwrap_err().to_string();
            assert!(
                text.starts_with("cannot ") && text.contains(words),
                "{text}"
            );
            assert!(
                text.contains("fw1: fwdlab cannot log into it; "),
                "what to do instead: {text}"
            );
        }
        // set by the tester, not on the DUT
        assert_eq!(
            dut.set(&SweptParameter::Stream, v4, 7, &control).unwrap(),
            None
        );
        assert_eq!(dut.route(&[]).unwrap(), "");
        assert!(dut.prepare().unwrap().is_empty() && dut.offloads().is_empty());
        assert_eq!(dut.counters().unwrap(), None);
        assert_eq!(dut.waited(), None);
        assert_eq!(dut.undo(), Vec::<String>::new());
    }
}
