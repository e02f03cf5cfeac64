//! Ports that carry test frames: network interfaces of the kernel, and ports of user space, which
//! the kernel does not know.
//!
//! The only place that knows what an interface has and the others lack: link settings, an MTU,
//! addresses, neighbours, counters of a driver, timestamps of the kernel, and users other than us.
//! Code that needs one of these asks for the [`interface`](TrafficPort::interface). Start with
//! [`TrafficPort::take`].

use fwdlab_engine::PortSpec;
use fwdlab_engine::memif::Status;
use fwdlab_engine::part::PortFacts;

use super::counters::{self, Counters};
use super::lock::Role;
use super::user_port::UserPort;
use super::{Danger, Port, state};
use crate::error::LabError;

/// A port that is ours to send into, or to count at, until this value is dropped.
#[derive(Debug)]
pub enum TrafficPort {
    /// A network interface.
    Interface(Box<Port>),
    /// A port of user space.
    User(Box<UserPort>),
}

impl From<Port> for TrafficPort {
    fn from(port: Port) -> TrafficPort {
        TrafficPort::Interface(Box::new(port))
    }
}

impl TrafficPort {
    /// Reserves a port against other fwdlabs. An interface is inspected and refused if it is in
    /// use; a port of user space is opened, and a peer of it may come later.
    ///
    /// # Errors
    /// As [`Port::take`] and [`UserPort::take`].
    pub fn take(
        spec: &PortSpec,
        roles: &[Role],
        accepted: &[Danger],
    ) -> Result<TrafficPort, LabError> {
        Ok(match spec.is_interface() {
            true => Port::take(spec, roles, accepted)?.into(),
            false => TrafficPort::User(Box::new(UserPort::take(spec, accepted)?)),
        })
    }

    /// Returns a port that we made ourselves, or that another value of ours reserves.
    ///
    /// # Errors
    /// As [`Port::own_port`] and [`UserPort::own_port`].
    pub fn own_port(spec: &PortSpec) -> Result<TrafficPort, LabError> {
        Ok(match spec.is_interface() {
            true => Port::own_port(spec)?.into(),
            false => TrafficPort::User(Box::new(UserPort::own_port(spec)?)),
        })
    }

    /// Returns its location.
    pub fn spec(&self) -> &PortSpec {
        match self {
            TrafficPort::Interface(port) => &port.spec,
            TrafficPort::User(port) => port.spec(),
        }
    }

    /// Returns the network interface; `None` for a port of user space.
    pub fn interface(&self) -> Option<&Port> {
        match self {
            TrafficPort::Interface(port) => Some(port),
            TrafficPort::User(_) => None,
        }
    }

    /// Returns the network interface, which `user` needs.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: it is a port of user space.
    pub fn needs_interface(&self, user: &str) -> Result<&Port, LabError> {
        let kind = match self {
            TrafficPort::Interface(port) => return Ok(port),
            TrafficPort::User(port) => port.kind(),
        };
        Err(LabError::Preflight(format!(
            "{user} needs a network interface, and {} is a {kind} port",
            self.spec().interface
        )))
    }

    /// Returns the state of a memif port.
    pub fn memif(&self) -> Option<Status> {
        match self {
            TrafficPort::Interface(_) => None,
            TrafficPort::User(port) => port.memif(),
        }
    }

    /// Returns what is known of a port with a driver of DPDK, with the driver's counters.
    pub fn facts(&self) -> Option<PortFacts> {
        match self {
            TrafficPort::Interface(_) => None,
            TrafficPort::User(port) => port.facts().ok().flatten(),
        }
    }

    /// Returns its MAC address, if it has one.
    pub fn mac(&self) -> Option<[u8; 6]> {
        match self {
            TrafficPort::Interface(port) => port.facts.mac,
            TrafficPort::User(port) => port.mac(),
        }
    }

    /// Returns the kind of a virtual interface, such as `veth`.
    pub fn virtual_kind(&self) -> Option<&str> {
        self.interface()?.facts.kind.as_deref()
    }

    /// Reads the kernel's counters; `None` if it has none.
    ///
    /// # Errors
    /// As [`counters::read`].
    pub fn counters(&self) -> Result<Option<Counters>, LabError> {
        self.interface()
            .map(|port| counters::read(&port.spec))
            .transpose()
    }

    /// Checks that it can carry frames now. A port of user space waits for its peer or its link:
    /// what is due meanwhile counts as not sent.
    ///
    /// # Errors
    /// As [`state::check`].
    pub fn check(&self) -> Result<(), LabError> {
        self.interface()
            .map_or(Ok(()), |port| state::check(&port.spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: String) -> PortSpec {
        PortSpec {
            netns: None,
            interface: name,
        }
    }

    #[test]
    fn a_memif_port_has_one_user_and_nothing_of_an_interface() {
        let name = format!("memif:@fwdlab-test-{},role=server", std::process::id());
        let port = TrafficPort::take(&spec(name.clone()), &[Role::Send], &[]).unwrap();
        assert!(port.interface().is_none() && port.mac().is_none());
        assert_eq!(port.counters().unwrap(), None);
        port.check().unwrap();
        assert_eq!(port.memif().unwrap().connections, 0);
        let error = port.needs_interface("a capture").unwrap_err().to_string();
        assert_eq!(
            error,
            format!("a capture needs a network interface, and {name} is a memif port")
        );
        for other in [name.clone(), format!("{name},id=0")] {
            let error = TrafficPort::take(&spec(other), &[Role::Receive], &[]);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("another fwdlab sends on memif:"), "{error}");
        }
        // our own is the same port
        TrafficPort::own_port(port.spec()).unwrap();
        // the other end, and another interface, are other ports
        for other in [
            name.replace("server", "client"),
            name.replace("test", "test2"),
        ] {
            TrafficPort::take(&spec(other), &[Role::Send], &[]).unwrap();
        }
        let error = Port::take(&spec(name), &[Role::Send], &[]).unwrap_err();
        assert!(error.to_string().contains("is a memif port"), "{error}");
    }

    #[test]
    fn names_of_memif_ports_are_checked_first() {
        let inside = PortSpec {
            netns: Some("/run/netns/x".into()),
            interface: "memif:/run/x.sock".into(),
        };
        for (wrong, words) in [
            (inside, "in no network namespace"),
            (spec("memif:/x,role=master".into()), "role=client|server"),
        ] {
            let error = TrafficPort::take(&wrong, &[Role::Send], &[]).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
