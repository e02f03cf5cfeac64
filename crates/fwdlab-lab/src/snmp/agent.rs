//! An SNMP agent of a device, and the counters of its ports: of a switch, or of a DUT without
//! login.
//!
//! Queries the IF-MIB (RFC 2863). Start with [`Agent::open`].

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::{Binding, Value};
use crate::error::LabError;
use crate::interfaces::Counted;

/// Time limit for an answer of an agent.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of attempts, because a datagram may be lost.
const TRIES: u32 = 3;

/// More ports than any switch in a lab has.
const MOST_PORTS: usize = 4096;

/// ifName, ifHCInUcastPkts and ifHCOutUcastPkts of the IF-MIB (RFC 2863): a device's own
/// announcements are not unicast.
const NAMES: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1];
const CAME: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 7];
const WENT: [u32; 11] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 11];

/// ifInDiscards and ifInErrors, ifOutDiscards and ifOutErrors there.
const DROPPED_IN: [[u32; 10]; 2] = [
    [1, 3, 6, 1, 2, 1, 2, 2, 1, 13],
    [1, 3, 6, 1, 2, 1, 2, 2, 1, 14],
];
const DROPPED_OUT: [[u32; 10]; 2] = [
    [1, 3, 6, 1, 2, 1, 2, 2, 1, 19],
    [1, 3, 6, 1, 2, 1, 2, 2, 1, 20],
];

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
                    "the SNMP agent at {at} has no port {port}; it has {}",
                    names.join(", ")
                )));
            };
            agent.numbers.insert((*port).to_owned(), *number);
        }
        Ok(agent)
    }

    /// Returns the counters of these ports: received and sent packets.
    pub fn packets(&mut self, ports: &[&str]) -> Result<Vec<(u64, u64)>, LabError> {
        let objects: Vec<Vec<u32>> = ports
            .iter()
            .flat_map(|port| [self.object(&CAME, port), self.object(&WENT, port)])
            .collect();
        let output = self.query(&objects, false)?;
        let number = |at: usize| match output.get(at) {
            Some((object, Value::Number(number))) if *object == objects[at] => Ok(*number),
            _ => Err(LabError::Preflight(format!(
                "the SNMP agent at {} does not report what its ports counted (ifHCInUcastPkts, ifHCOutUcastPkts)",
                self.at
            ))),
        };
        (0..ports.len())
            .map(|port| Ok((number(2 * port)?, number(2 * port + 1)?)))
            .collect()
    }

    /// Returns what a port counted. Drops that the agent does not report are not counted.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn counted(&mut self, port: &str) -> Result<Counted, LabError> {
        let (rx_packets, tx_packets) = self.packets(&[port])?[0];
        let objects = [DROPPED_IN, DROPPED_OUT].concat();
        let objects = Vec::from_iter(objects.iter().map(|of| self.object(of, port)));
        let drops = self.query(&objects, false)?.into_iter();
        let drops = drops.map(|(_, value)| match value {
            Value::Number(number) => number,
            Value::Text(_) | Value::Other(_) => 0,
        });
        let drops: Vec<u64> = drops.collect();
        Ok(Counted {
            rx_packets,
            rx_dropped: drops.iter().take(2).sum(),
            tx_packets,
            tx_dropped: drops.iter().skip(2).sum(),
        })
    }

    /// Returns the object of a port in a column of a table.
    fn object(&self, column: &[u32], port: &str) -> Vec<u32> {
        let number = self.numbers.get(port).copied().unwrap_or_default();
        [column, &[number]].concat()
    }

    fn query(&mut self, objects: &[Vec<u32>], is_next: bool) -> Result<Vec<Binding>, LabError> {
        let mut reason = "no reply".to_owned();
        for _ in 0..TRIES {
            self.request_id = self.request_id.wrapping_add(1) & i32::MAX;
            let question = super::get(&self.community, self.request_id, objects, is_next);
            // no agent is listening; it may be at the next attempt
            if let Err(error) = self.socket.send(&question) {
                reason = error.to_string();
                continue;
            }
            let mut answer = [0; 65_536];
            while let Ok(length) = self.socket.recv(&mut answer) {
                match super::values(&answer[..length], &self.community, self.request_id) {
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
            "the SNMP agent at {} does not answer SNMPv2c with this community: {reason}. Check snmp and community in the test-bed file, or omit them",
            self.at
        )))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::host::Host;

    /// A device with these ports that counts 10 more packets with every query.
    pub(crate) fn device(names: &'static [&'static str]) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            let mut count = 0;
            // it ends with the test
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                count += 10;
                let output = crate::snmp::tests::answered(&bytes[..length], &|object, is_next| {
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
