//! Ports are safe: what an interface is used for is looked at before frames are sent on it or a program is attached to it.
//!
//! A port that somebody needs is refused unless its danger is accepted by name, one by one; a port that another fwdlab uses
//! is refused always. What happens on the port is for engines. Start with [`Port::take`]; [`destinations`] judges addresses,
//! [`look`] reads what the kernel knows of an interface, `beyond` where frames go that are sent on it, [`lock`] keeps two of us
//! apart.

mod beyond;
mod card;
pub mod counters;
mod danger;
pub mod destinations;
pub mod lock;
pub mod look;
pub mod private;
pub mod state;
mod sys;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fwdlab_engine::PortSpec;

pub use card::Stamping;
pub use danger::{Danger, dangers};
pub use lock::{Lock, Role};
pub use look::Facts;

use crate::error::LabError;

/// How long a port may take to have a link, and how often it is asked.
const LINK_PATIENCE: Duration = Duration::from_secs(4);
const LINK_POLL: Duration = Duration::from_millis(20);

/// An interface that is ours to use until this value is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Port {
    /// Where it is.
    pub spec: PortSpec,
    /// What it is.
    pub facts: Facts,
    _locks: Vec<Lock>,
}

impl Port {
    /// Looks at an interface, refuses it when somebody needs it, and keeps other fwdlabs from it.
    ///
    /// `accepted` are the dangers that the user has accepted in so many words.
    ///
    /// # Errors
    /// [`LabError::Preflight`]: there is no such interface, it is down, in use, or another fwdlab has it. Nothing was changed.
    pub fn take(spec: &PortSpec, roles: &[Role], accepted: &[Danger]) -> Result<Port, LabError> {
        card::sweep();
        let facts = look::look(spec)?;
        let mut found = dangers(&facts);
        if roles.contains(&Role::Send) {
            found.extend(danger::dangers_beyond(&beyond::beyond(spec)?));
        }
        let found: Vec<(Danger, String)> = found
            .into_iter()
            .filter(|(danger, _)| !accepted.contains(danger))
            // a program looks at frames that arrive: it is in the way of another, and of nobody who sends
            .filter(|(danger, _)| *danger != Danger::XdpProgram || roles.contains(&Role::Receive))
            .collect();
        if !found.is_empty() {
            return Err(refusal(spec, roles, &found));
        }
        if !facts.up {
            return Err(LabError::Preflight(format!(
                "{} is down. Bring it up with: ip {}link set {} up",
                spec.interface,
                in_netns(spec),
                spec.interface
            )));
        }
        wait_for_link(spec)?;
        let locks = roles
            .iter()
            .map(|&role| Lock::take(spec, facts.index, role))
            .collect::<Result<_, _>>()?;
        Ok(Port {
            spec: spec.clone(),
            facts,
            _locks: locks,
        })
    }

    /// A port that we made ourselves, or that another value of ours keeps others from.
    ///
    /// # Errors
    /// There is no such port, or it has no link.
    pub fn of_ours(spec: &PortSpec) -> Result<Port, LabError> {
        let facts = look::look(spec)?;
        wait_for_link(spec)?;
        Ok(Port {
            spec: spec.clone(),
            facts,
            _locks: Vec::new(),
        })
    }
}

/// A link that was set up a moment ago may need some seconds.
fn wait_for_link(spec: &PortSpec) -> Result<(), LabError> {
    let began = Instant::now();
    loop {
        match state::check(spec) {
            Ok(()) => return Ok(()),
            Err(_) if began.elapsed() < LINK_PATIENCE => thread::sleep(LINK_POLL),
            Err(error) => {
                return Err(LabError::Preflight(format!(
                    "{error}. Is the cable in, and is the other end up?"
                )));
            }
        }
    }
}

/// The file of a network namespace as people name it: a name (`ip netns`), a path, or the id of a process.
pub fn netns(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

fn in_netns(spec: &PortSpec) -> String {
    match &spec.netns {
        Some(path) if path.starts_with("/run/netns") => match path.file_name() {
            Some(name) => format!("-n {} ", name.to_string_lossy()),
            None => String::new(),
        },
        _ => String::new(),
    }
}

fn refusal(spec: &PortSpec, roles: &[Role], found: &[(Danger, String)]) -> LabError {
    let what = if roles.contains(&Role::Send) {
        "refusing to send on"
    } else {
        "refusing to attach to"
    };
    let reasons: Vec<&str> = found.iter().map(|(_, words)| words.as_str()).collect();
    let mut flags: Vec<&str> = Vec::new();
    for (danger, _) in found {
        if !flags.contains(&danger.flag()) {
            flags.push(danger.flag());
        }
    }
    LabError::Preflight(format!(
        "{what} {}: {}. Use another port, or, if nobody needs this one, add {}",
        spec.interface,
        reasons.join("; "),
        flags.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_as_people_name_them() {
        assert_eq!(netns("gen"), Path::new("/run/netns/gen"));
        assert_eq!(netns("42"), Path::new("/proc/42/ns/net"));
        assert_eq!(netns("/proc/self/ns/net"), Path::new("/proc/self/ns/net"));
    }

    #[test]
    fn a_refusal_says_why_and_what_to_say() {
        let spec = PortSpec {
            netns: None,
            interface: "eth0".into(),
        };
        let found = [
            (Danger::Address, "it has the address 10.0.0.5".to_owned()),
            (Danger::Address, "it has the address 10.0.0.6".to_owned()),
            (
                Danger::DefaultRoute,
                "it carries the default route".to_owned(),
            ),
        ];
        let words = refusal(&spec, &[Role::Send], &found).to_string();
        assert_eq!(
            words,
            "refusing to send on eth0: it has the address 10.0.0.5; it has the address 10.0.0.6; it carries the default \
             route. Use another port, or, if nobody needs this one, add --allow-address --allow-default-route"
        );
    }
}
