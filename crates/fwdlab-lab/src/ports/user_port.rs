//! Ports of user space: the kernel does not know them, and fwdlab has them for itself. memif ports
//! are shared with another process, DPDK ports have a driver in a process of ours.
//!
//! Both are open as long as a [`UserPort`] lives, with one connection or device for the sender and
//! the receiver. Start with [`UserPort::take`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use fwdlab_engine::memif::{self, Status};
use fwdlab_engine::part::PortFacts;
use fwdlab_engine::{PortSpec, dpdk};
use fwdlab_model::dpdk::device;

use super::binding::{self, Binding};
use super::lock::Lock;
use super::{Danger, LINK_POLL, OF_TESTERS};
use crate::error::LabError;

/// A port of user space that is open as long as this lives.
#[derive(Debug)]
pub struct UserPort {
    spec: PortSpec,
    open: Open,
    /// Gives the device back to its driver.
    _binding: Option<Binding>,
    _locks: Vec<Lock>,
}

#[derive(Debug)]
enum Open {
    Memif(memif::Port),
    /// With its MAC address.
    Dpdk(dpdk::Port, [u8; 6]),
}

/// What a port of user space has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserCounts {
    /// Frames sent, and frames that the peer had no room for.
    pub tx: (u64, u64),
    /// Frames received, and frames that were lost because the receiver was too slow; `None` if only
    /// the receiver counts.
    pub rx: Option<(u64, u64)>,
    /// How often the peer may have found no room in the ring to the receiver.
    pub rx_full: u64,
}

impl UserPort {
    /// Opens a port and reserves it against other fwdlabs. One process has both directions, because
    /// they are one connection or one device. A card is bound to a driver for user space first,
    /// unless the host needs it.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: another fwdlab has it, or its host needs it. Fails if its name is
    /// wrong, its socket is in use, or its device cannot be used.
    pub fn take(spec: &PortSpec, accepted: &[Danger]) -> Result<UserPort, LabError> {
        if spec.netns.is_some() {
            return Err(LabError::Preflight(format!(
                "{} is not known to the kernel, and is in no network namespace. Omit the namespace",
                spec.interface
            )));
        }
        let mut hasher = DefaultHasher::new();
        let (kind, card) = match spec.is_memif() {
            true => {
                let options =
                    memif::Options::named(&spec.interface).map_err(LabError::Preflight)?;
                (&options.socket, options.role, options.id).hash(&mut hasher);
                ("memif", None)
            }
            false => {
                let device = device(&spec.interface).map_err(LabError::Preflight)?;
                let device = device.split(',').next().unwrap_or_default();
                let card = binding::full_address(device);
                card.as_deref().unwrap_or(device).hash(&mut hasher);
                ("dpdk", card)
            }
        };
        let key = format!("{kind}-{:016x}", hasher.finish());
        let locks = OF_TESTERS.map(|role| Lock::take(spec, &key, role));
        let locks = locks.into_iter().collect::<Result<_, _>>()?;
        // only its owner may change its driver
        let binding = card.map(|card| binding::to_user_space(&card, accepted));
        UserPort::open(spec, locks, binding.transpose()?.flatten())
    }

    /// As [`UserPort::take`], for a port that we made ourselves, or that another value of ours
    /// reserves.
    ///
    /// # Errors
    /// Fails if its name is wrong, or it cannot be opened.
    pub fn own_port(spec: &PortSpec) -> Result<UserPort, LabError> {
        UserPort::open(spec, Vec::new(), None)
    }

    fn open(
        spec: &PortSpec,
        locks: Vec<Lock>,
        binding: Option<Binding>,
    ) -> Result<UserPort, LabError> {
        let open = match spec.is_memif() {
            true => Open::Memif(memif::open(spec)?),
            false => {
                let port = dpdk::open(spec)?;
                let mac = port.facts()?.mac;
                Open::Dpdk(port, mac)
            }
        };
        Ok(UserPort {
            spec: spec.clone(),
            open,
            _binding: binding,
            _locks: locks,
        })
    }

    /// Returns its location.
    pub fn spec(&self) -> &PortSpec {
        &self.spec
    }

    /// Returns its kind in words: `memif`.
    pub fn kind(&self) -> &'static str {
        match self.open {
            Open::Memif(_) => "memif",
            Open::Dpdk(..) => "DPDK",
        }
    }

    /// Returns its MAC address; a memif port has none.
    pub fn mac(&self) -> Option<[u8; 6]> {
        match self.open {
            Open::Memif(_) => None,
            Open::Dpdk(_, mac) => Some(mac),
        }
    }

    /// Returns the state of a memif port.
    pub fn memif(&self) -> Option<Status> {
        match &self.open {
            Open::Memif(port) => Some(port.status()),
            Open::Dpdk(..) => None,
        }
    }

    /// Returns what is known of a DPDK port; `None` for others.
    ///
    /// # Errors
    /// Its process has died, or its driver refuses.
    pub fn facts(&self) -> Result<Option<PortFacts>, LabError> {
        match &self.open {
            Open::Memif(_) => Ok(None),
            Open::Dpdk(port, _) => Ok(Some(port.facts()?)),
        }
    }

    /// Waits until its peer is connected, or its link is up; returns what that is.
    ///
    /// # Errors
    /// Fails after this time, with what the peer did.
    pub fn wait_for_peer(&self, patience: Duration) -> Result<String, LabError> {
        let port = match &self.open {
            Open::Dpdk(port, _) => port,
            Open::Memif(port) => {
                port.wait_for_peer(patience)?;
                let Status { peer, queues, .. } = port.status();
                let peer = peer.unwrap_or_else(|| "a peer that has left again".into());
                return Ok(format!("connected to {peer}, queues: {}", queues.0));
            }
        };
        let started = Instant::now();
        loop {
            let facts = port.facts()?;
            if facts.has_link {
                let speed = match facts.link_mbps {
                    Some(mbps) => format!("a link of {mbps} Mbit/s (L2)"),
                    None => "a link".into(),
                };
                return Ok(format!("{speed}, driver {}", facts.driver));
            }
            if started.elapsed() >= patience {
                return Err(LabError::Preflight(format!(
                    "{} has no link after {:.0} s. Is the cable in, and is the other end up?",
                    self.spec.interface,
                    patience.as_secs_f64()
                )));
            }
            std::thread::sleep(LINK_POLL);
        }
    }

    /// Returns true if the process that has its driver is gone.
    pub fn is_lost(&self) -> bool {
        self.facts().is_err()
    }

    /// Returns why it cannot carry frames, if so.
    pub fn problem(&self) -> Option<String> {
        let name = &self.spec.interface;
        match &self.open {
            Open::Memif(port) => {
                let status = port.status();
                let reason = status.problem.as_deref().unwrap_or("none has connected");
                (status.peer.is_none()).then(|| format!("{name} has no peer: {reason}"))
            }
            Open::Dpdk(port, _) => match port.facts() {
                Ok(facts) => (!facts.has_link).then(|| format!("{name} has no link")),
                Err(error) => Some(format!("{name} is lost: {error}")),
            },
        }
    }

    /// Returns how often its peer has connected; `None` if only links are known, and not their
    /// changes.
    pub fn connections(&self) -> Option<u64> {
        self.memif().map(|status| status.connections)
    }

    /// Returns the process at the other end, if it is known.
    pub fn process(&self) -> Option<u32> {
        self.memif()?.process
    }

    /// Reads what it has counted.
    ///
    /// # Errors
    /// As [`UserPort::facts`].
    pub fn counts(&self) -> Result<UserCounts, LabError> {
        Ok(match &self.open {
            Open::Memif(port) => {
                let status = port.status();
                UserCounts {
                    tx: (status.tx_packets, status.tx_dropped),
                    rx: None,
                    rx_full: status.rx_full,
                }
            }
            Open::Dpdk(port, _) => {
                let facts = port.facts()?;
                UserCounts {
                    tx: (facts.sent, 0),
                    rx: Some((facts.received, facts.missed)),
                    rx_full: 0,
                }
            }
        })
    }
}
