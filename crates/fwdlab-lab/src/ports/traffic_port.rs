//! Ports that carry test frames: network interfaces of the kernel, and memif ports.
//!
//! The only place that knows what an interface has and a memif port lacks: link settings, an MTU,
//! addresses, neighbours, counters of a driver, timestamps of the kernel, and users other than us.
//! Code that needs one of these asks for the [`interface`](TrafficPort::interface). Start with
//! [`TrafficPort::take`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use fwdlab_engine::PortSpec;
use fwdlab_engine::memif::{self, Status};

use super::counters::{self, Counters};
use super::lock::{Lock, Role};
use super::{Danger, OF_TESTERS, Port, state};
use crate::error::LabError;

/// A port that is ours to send into, or to count at, until this value is dropped.
#[derive(Debug)]
pub enum TrafficPort {
    /// A network interface.
    Interface(Box<Port>),
    /// A memif port.
    Memif(MemifPort),
}

impl From<Port> for TrafficPort {
    fn from(port: Port) -> TrafficPort {
        TrafficPort::Interface(Box::new(port))
    }
}

impl TrafficPort {
    /// Reserves a port against other fwdlabs. An interface is inspected and refused if it is in
    /// use; a memif port is opened, and its peer may come later.
    ///
    /// # Errors
    /// As [`Port::take`] and [`MemifPort::take`].
    pub fn take(
        spec: &PortSpec,
        roles: &[Role],
        accepted: &[Danger],
    ) -> Result<TrafficPort, LabError> {
        Ok(match spec.is_memif() {
            true => TrafficPort::Memif(MemifPort::take(spec)?),
            false => Port::take(spec, roles, accepted)?.into(),
        })
    }

    /// Returns a port that we made ourselves, or that another value of ours reserves.
    ///
    /// # Errors
    /// As [`Port::own_port`], or if a memif port cannot be opened.
    pub fn own_port(spec: &PortSpec) -> Result<TrafficPort, LabError> {
        Ok(match spec.is_memif() {
            true => TrafficPort::Memif(MemifPort::own_port(spec)?),
            false => Port::own_port(spec)?.into(),
        })
    }

    /// Returns its location.
    pub fn spec(&self) -> &PortSpec {
        match self {
            TrafficPort::Interface(port) => &port.spec,
            TrafficPort::Memif(port) => &port.spec,
        }
    }

    /// Returns the network interface; `None` for a memif port.
    pub fn interface(&self) -> Option<&Port> {
        match self {
            TrafficPort::Interface(port) => Some(port),
            TrafficPort::Memif(_) => None,
        }
    }

    /// Returns the network interface, which `user` needs.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: it is a memif port.
    pub fn needs_interface(&self, user: &str) -> Result<&Port, LabError> {
        self.interface().ok_or_else(|| {
            LabError::Preflight(format!(
                "{user} needs a network interface, and {} is a memif port",
                self.spec().interface
            ))
        })
    }

    /// Returns the state of a memif port.
    pub fn memif(&self) -> Option<Status> {
        match self {
            TrafficPort::Interface(_) => None,
            TrafficPort::Memif(port) => Some(port.port.status()),
        }
    }

    /// Returns its MAC address, if it has one.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.interface()?.facts.mac
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

    /// Checks that it can carry frames now. A memif port waits for its peer: what is due meanwhile
    /// counts as not sent.
    ///
    /// # Errors
    /// As [`state::check`].
    pub fn check(&self) -> Result<(), LabError> {
        self.interface()
            .map_or(Ok(()), |port| state::check(&port.spec))
    }
}

/// A memif port that is open as long as this lives, with one connection for its sender and its
/// receiver.
#[derive(Debug)]
pub struct MemifPort {
    spec: PortSpec,
    port: memif::Port,
    _locks: Vec<Lock>,
}

impl MemifPort {
    /// Opens a memif port and reserves it against other fwdlabs. One process has both directions,
    /// because they are one connection.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: another fwdlab has it. Fails if its name is wrong, or its socket is
    /// in use.
    pub fn take(spec: &PortSpec) -> Result<MemifPort, LabError> {
        if spec.netns.is_some() {
            return Err(LabError::Preflight(format!(
                "{} is a socket, which is in no network namespace. Omit the namespace, and give the \
                 path of the socket",
                spec.interface
            )));
        }
        let options = memif::Options::named(&spec.interface).map_err(LabError::Preflight)?;
        let mut hasher = DefaultHasher::new();
        (&options.socket, options.role, options.id).hash(&mut hasher);
        let key = format!("memif-{:016x}", hasher.finish());
        let locks = OF_TESTERS.map(|role| Lock::take(spec, &key, role));
        let locks = locks.into_iter().collect::<Result<_, _>>()?;
        MemifPort::open(spec, locks)
    }

    /// As [`MemifPort::take`], for a port that we made ourselves, or that another value of ours
    /// reserves.
    ///
    /// # Errors
    /// Fails if its name is wrong, or its socket is in use.
    pub fn own_port(spec: &PortSpec) -> Result<MemifPort, LabError> {
        MemifPort::open(spec, Vec::new())
    }

    fn open(spec: &PortSpec, locks: Vec<Lock>) -> Result<MemifPort, LabError> {
        Ok(MemifPort {
            port: memif::open(spec)?,
            spec: spec.clone(),
            _locks: locks,
        })
    }

    /// Returns its location.
    pub fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// Waits until its peer is connected.
    ///
    /// # Errors
    /// Fails after this time, with what the peer did.
    pub fn wait_for_peer(&self, patience: Duration) -> Result<(), LabError> {
        Ok(self.port.wait_for_peer(patience)?)
    }

    /// Returns why it has no peer, if so.
    pub fn problem(&self) -> Option<String> {
        let status = self.status();
        let reason = status.problem.as_deref().unwrap_or("none has connected");
        (status.peer.is_none()).then(|| format!("{} has no peer: {reason}", self.spec.interface))
    }

    /// Returns its state.
    pub fn status(&self) -> Status {
        self.port.status()
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
