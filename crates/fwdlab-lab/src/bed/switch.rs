//! A switch between tester and DUT whose port counters can be queried: a Linux bridge through its
//! host, any other through its SNMP agent.
//!
//! Only reads the counters, and reports how timely they are. Start with [`BedSwitch::packets`].

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fwdlab_model::test_bed::SwitchPorts;

use crate::error::LabError;
use crate::host::Host;
use crate::interfaces::{Counted, counters_of, read_counters};
use crate::snmp::{self, Binding, Value};

/// Time limit for an answer of an agent.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of attempts, because a datagram may be lost.
const TRIES: u32 = 3;

/// More ports than any switch in a lab has.
const MOST_PORTS: usize = 4096;

/// ifName, ifHCInUcastPkts and ifHCOutUcastPkts of the IF-MIB (RFC 2863): a switch's own
/// announcements are not unicast.
const NAMES: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1];
const CAME: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 7];
const WENT: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 11];

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

/// An SNMP agent, and the interface numbers of the requested ports.
#[derive(Debug)]
pub(crate) struct Agent {
    socket: UdpSocket,
    at: SocketAddr,
    community: String,
    request_id: i32,
    numbers: BTreeMap<String, u32>,
}

impl Agent {
    /// Connects to an agent, and looks up its ports.
    ///
    /// # Errors
    /// It does not answer, or lacks one of these ports; the error lists those it has.
    pub fn open(at: SocketAddr, community: &str, ports: &[&str]) -> Result<Agent, LabError> {
        let any: SocketAddr = match at {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
        };
        let failed = |e| LabError::system(format!("ask the SNMP agent at {at}"), e);
        let socket = UdpSocket::bind(any).map_err(failed)?;
        socket.connect(at).map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut agent = Agent {
            socket,
            at,
            community: community.to_owned(),
            request_id: 1,
            numbers: BTreeMap::new(),
        };
        let mut known = BTreeMap::new();
        let mut last = NAMES.to_vec();
        for _ in 0..MOST_PORTS {
            let output = agent.query(std::slice::from_ref(&last), true)?;
            let Some((object, Value::Text(name))) = output.into_iter().next() else {
                break;
            };
            // an agent that goes backwards would be queried forever
            if !object.starts_with(&NAMES) || object <= last {
                break;
            }
            if let Some(number) = object.get(NAMES.len()) {
                known.insert(name, *number);
            }
            last = object;
        }
        for port in ports {
            let Some(number) = known.get(*port) else {
                let names: Vec<&str> = known.keys().map(String::as_str).take(20).collect();
                return Err(LabError::Preflight(format!(
                    "the switch at {at} has no port {port}; it has {}",
                    names.join(", ")
                )));
            };
            agent.numbers.insert((*port).to_owned(), *number);
        }
        Ok(agent)
    }

    /// Returns the counters of these ports: received and sent packets.
    fn packets(&mut self, ports: &[&str]) -> Result<Vec<(u64, u64)>, LabError> {
        let object = |of: [u32; 11], port: &str| {
            let number = self.numbers.get(port).copied().unwrap_or_default();
            [&of[..], &[number]].concat()
        };
        let objects: Vec<Vec<u32>> = ports
            .iter()
            .flat_map(|port| [object(CAME, port), object(WENT, port)])
            .collect();
        let output = self.query(&objects, false)?;
        let number = |at: usize| match output.get(at) {
            Some((object, Value::Number(number))) if *object == objects[at] => Ok(*number),
            _ => Err(LabError::Preflight(format!(
                "the switch at {} does not report what its ports counted (ifHCInUcastPkts, ifHCOutUcastPkts)",
                self.at
            ))),
        };
        (0..ports.len())
            .map(|port| Ok((number(2 * port)?, number(2 * port + 1)?)))
            .collect()
    }

    fn query(&mut self, objects: &[Vec<u32>], is_next: bool) -> Result<Vec<Binding>, LabError> {
        let mut reason = "no reply".to_owned();
        for _ in 0..TRIES {
            self.request_id = self.request_id.wrapping_add(1) & i32::MAX;
            let question = snmp::get(&self.community, self.request_id, objects, is_next);
            // no agent is listening; it may be at the next attempt
            if let Err(error) = self.socket.send(&question) {
                reason = error.to_string();
                continue;
            }
            let mut answer = [0; 65_536];
            while let Ok(length) = self.socket.recv(&mut answer) {
                match snmp::values(&answer[..length], &self.community, self.request_id) {
                    Ok(Some(values)) => return Ok(values),
                    // an answer to an earlier query
                    Ok(None) => {}
                    Err(error) => {
                        reason = error.to_string();
                        break;
                    }
                }
            }
        }
        Err(LabError::Preflight(format!(
            "the SNMP agent of the switch at {} does not answer SNMPv2c with this community: {reason}. Check snmp and community in the test-bed file, or omit them",
            self.at
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch with these ports that counts 10 more packets with every query.
    fn switch(names: &'static [&'static str]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            let mut count = 0;
            // it ends with the test
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                count += 10;
                let output = snmp::tests::answered(&bytes[..length], &|object, is_next| {
                    let index = object.get(NAMES.len()).copied().unwrap_or_default();
                    match is_next {
                        true => {
                            let next = names.get(index as usize)?;
                            Some((
                                [&NAMES[..], &[index + 1]].concat(),
                                Value::Text((*next).to_owned()),
                            ))
                        }
                        false => {
                            let way = u64::from(object.starts_with(&WENT));
                            Some((
                                object.to_vec(),
                                Value::Number(count + u64::from(index) * 1000 + way),
                            ))
                        }
                    }
                });
                let _ = socket.send_to(&output, from);
            }
        });
        at
    }

    #[test]
    fn ports_of_an_agent_are_found_by_name_and_counted() {
        let at = switch(&["Gi1/0/1", "Gi1/0/2", "Gi1/0/3"]);
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

    /// The agent of net-snmp counts the frames of this machine's loopback interface.
    #[test]
    fn a_real_agent_reports_the_counters_of_its_ports() {
        let test = "a_real_agent_reports_the_counters_of_its_ports";
        let find = "PATH=$PATH:/usr/sbin; command -v snmpd";
        let Ok(program) = crate::host::Local.query("sh", &["-c", find]) else {
            return println!("SKIPPED: {test}: there is no snmpd");
        };
        let folder = tempfile::tempdir().unwrap();
        let at = {
            let free = UdpSocket::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap()
        };
        let file = folder.path().join("snmpd.conf");
        std::fs::write(
            &file,
            format!("rocommunity secret 127.0.0.1\nagentaddress udp:{at}\n"),
        )
        .unwrap();
        let mut command = std::process::Command::new(program.trim());
        command
            .args(["-f", "-Ln", "-C", "-I", "ifTable,ifXTable", "-c"])
            .arg(&file)
            .env("SNMP_PERSISTENT_DIR", folder.path());
        crate::sys::die_with_parent(&mut command);
        let mut child = command.spawn().unwrap();
        let started = std::time::Instant::now();
        let opened = loop {
            match Agent::open(at, "secret", &["lo"]) {
                Err(_) if started.elapsed() < Duration::from_secs(10) => {}
                opened => break opened,
            }
        };
        let output = opened.and_then(|mut agent| agent.packets(&["lo"]));
        let wrong = Agent::open(at, "secret", &["nosuch0"]);
        let _ = child.kill();
        let _ = child.wait();
        match output {
            Ok(counted) => assert_eq!(counted.len(), 1),
            Err(error) => panic!("{error}"),
        }
        let error = wrong.unwrap_err().to_string();
        assert!(error.contains("has no port nosuch0; it has"), "{error}");
    }

    #[test]
    fn a_missing_agent_is_reported() {
        let no_host = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let error = Agent::open(no_host, "public", &["x"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("does not answer SNMPv2c"), "{error}");
    }
}
