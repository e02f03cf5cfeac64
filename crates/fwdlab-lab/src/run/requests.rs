//! Requests to the management of a DUT while frames flow: each kind has its own thread, which
//! starts before the trial and keeps sending, independently of the others.
//!
//! Requests over a port use the bed's management port ([`Bed::add_management`]), or an address that
//! this machine reaches; the counts of the test contain none of their frames. `measure` evaluates
//! the answers. Start with [`Requesters::begin`].

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_model::management::{Asked, Fate, Request, Requests, Sent};
use rustix::net::ipproto::ICMP;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrV4, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use super::Control;
use super::manage::{Management, QueryResult, QueryThread};
use crate::bed::Bed;
use crate::error::LabError;
use crate::host::netns::within;
use crate::host::{Command, Failure, Host, Limit, Local};

/// Interval at which threads check whether a request is due.
const TICK: Duration = Duration::from_millis(2);

/// Number of different reasons that are kept per kind.
const REASONS: usize = 100;

/// Bytes of an echo and its reply: header, and as much data, which must come back.
const ECHO: usize = 16;

/// The requests of a trial in progress.
pub(super) struct Requesters {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Raw>>,
}

/// Observations of one thread.
struct Raw {
    request: String,
    sent: Vec<(Instant, Duration, Fate)>,
    /// Why some had no correct answer, and when the last of these was sent.
    reasons: Vec<(Instant, Fate, String)>,
    late: Duration,
}

/// Sends one request of a kind. Fails with its fate and a reason unless it was answered correctly.
type SendRequest = Box<dyn FnMut(Duration) -> Result<(), (Fate, String)> + Send>;

/// The ends of requests over a port.
#[derive(Debug, Clone)]
struct Way {
    /// The namespace of the tester's end; `None`: this machine's own.
    from: Option<String>,
    host: Arc<dyn Host>,
    own: Ipv4Addr,
    dut: Ipv4Addr,
}

impl Requesters {
    /// Starts the requests. Commands on the DUT run on these of its CPUs; if empty, on any.
    ///
    /// # Errors
    /// Fails if a request cannot even be sent: no agent, no socket.
    pub fn begin(
        bed: &Bed,
        requests: &Requests,
        cpus: &[usize],
        control: &Control,
    ) -> Result<Requesters, LabError> {
        let way = Way::for_requests(bed, requests)?;
        let mut prompts: Vec<(String, Option<String>, SendRequest)> = Vec::new();
        for typed in &requests.requests {
            let request = Request::parse(typed).map_err(LabError::Preflight)?;
            let ask = ask_of(&request, bed, &way, cpus, control)?;
            let from = way.from.clone().filter(|_| request.is_remote());
            prompts.push((typed.clone(), from, ask));
        }
        let mut requesters = Requesters {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        let every = Duration::from_nanos(requests.every_ns);
        let patience = Duration::from_nanos(requests.timeout_ns);
        for (request, from, ask) in prompts {
            let stop = requesters.stop.clone();
            requesters.threads.push(std::thread::spawn(move || {
                let mut raw = Raw {
                    request,
                    sent: Vec::new(),
                    reasons: Vec::new(),
                    late: Duration::ZERO,
                };
                let follow = || raw.follow(ask, &stop, every, patience);
                match from {
                    None => follow(),
                    Some(namespace) => {
                        if let Err(error) = within(&namespace, || {
                            follow();
                            Ok(())
                        }) {
                            let reason = error.to_string();
                            raw.reasons.push((Instant::now(), Fate::Wrong, reason));
                        }
                    }
                }
                raw
            }));
        }
        Ok(requesters)
    }

    /// Ends the threads, and returns the fates of the requests that were sent since the beginning
    /// of the trial.
    pub fn end(mut self, started: Instant) -> Vec<Asked> {
        self.stop.store(true, Ordering::Release);
        let threads = std::mem::take(&mut self.threads);
        let all = threads.into_iter().filter_map(|thread| thread.join().ok());
        all.map(|raw| Asked {
            requests: (raw.sent.iter())
                .filter_map(|(at, elapsed, fate)| {
                    let at = at.checked_duration_since(started)?;
                    Some(Sent {
                        at_ns: at.as_nanos() as u64,
                        took_ns: elapsed.as_nanos() as u64,
                        fate: *fate,
                    })
                })
                .collect(),
            reason: {
                // a wrong answer is more informative than a missing one
                let own = || raw.reasons.iter().filter(|(at, ..)| *at >= started);
                let wrong = own().find(|(_, fate, _)| *fate == Fate::Wrong);
                wrong
                    .or_else(|| own().next())
                    .map(|(.., cause)| cause.clone())
            },
            request: raw.request,
            late_ns: raw.late.as_nanos() as u64,
        })
        .collect()
    }
}

impl Drop for Requesters {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Raw {
    /// Sends requests until stopped. A late request is sent at once, without catching up: a slow
    /// answer delays those after it.
    fn follow(
        &mut self,
        mut ask: SendRequest,
        stop: &AtomicBool,
        every: Duration,
        patience: Duration,
    ) {
        // the tester must be on time; commands that it starts do not inherit this
        let _ = fwdlab_engine::sys::become_real_time();
        let mut due = Instant::now();
        while !stop.load(Ordering::Acquire) {
            let left = due.saturating_duration_since(Instant::now());
            if left > Duration::ZERO {
                std::thread::sleep(left.min(TICK));
                continue;
            }
            let at = Instant::now();
            self.late = self.late.max(at.saturating_duration_since(due));
            let fate = match ask(patience) {
                Ok(()) => Fate::Answered,
                Err((fate, reason)) => {
                    match self.reasons.iter().position(|(.., known)| *known == reason) {
                        Some(known) => self.reasons[known].0 = at,
                        None if self.reasons.len() < REASONS => {
                            self.reasons.push((at, fate, reason))
                        }
                        None => {}
                    }
                    fate
                }
            };
            let duration = at.elapsed();
            self.sent.push((at, duration, fate));
            due = (due + every).max(at + duration);
        }
    }
}

impl Way {
    fn for_requests(bed: &Bed, requests: &Requests) -> Result<Way, LabError> {
        let ends = bed.networks().management;
        match &requests.address {
            None => Ok(Way {
                from: Some(bed.generator().to_owned()),
                host: bed.tester().clone(),
                own: ends.tester,
                dut: ends.dut,
            }),
            Some(address) => Ok(Way {
                from: None,
                host: Arc::new(Local),
                own: Ipv4Addr::UNSPECIFIED,
                dut: address.parse().map_err(|_| {
                    LabError::Preflight(format!("`{address}` is not an IPv4 address"))
                })?,
            }),
        }
    }

    /// Calls `work` in the namespace of the tester's end of the port.
    fn in_tester_namespace<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, LabError> + Send,
    ) -> Result<T, LabError> {
        match &self.from {
            None => work(),
            Some(namespace) => within(namespace, work),
        }
    }
}

fn ask_of(
    request: &Request,
    bed: &Bed,
    way: &Way,
    cpus: &[usize],
    control: &Control,
) -> Result<SendRequest, LabError> {
    let dut = way.dut;
    Ok(match request {
        Request::Echo => {
            let socket = way.in_tester_namespace(|| echo_socket(dut))?;
            let mut sequence = 0_u16;
            let own = std::process::id() as u16;
            Box::new(move |patience| {
                sequence = sequence.wrapping_add(1);
                echo(&socket, (own, sequence), patience)
            })
        }
        Request::Tcp(port) => {
            let to = SocketAddr::from((dut, *port));
            Box::new(move |patience| {
                let connected = TcpStream::connect_timeout(&to, patience);
                connected.map(drop).map_err(|e| match e.kind() {
                    std::io::ErrorKind::TimedOut => lost(patience),
                    _ => (Fate::Wrong, e.to_string()),
                })
            })
        }
        Request::Snmp if way.from.is_none() => {
            let mut asker = QueryThread::new(None, (way.own, dut))?;
            Box::new(move |patience| check_result(asker.query(patience), patience))
        }
        Request::Snmp => {
            let managed = Management::begin(bed, cpus, &mut |_, _| Ok(()))?;
            Box::new(move |patience| check_result(managed.query(patience), patience))
        }
        Request::Ssh(port) => {
            let mut text = format!(
                "exec ssh -p {port} -o BatchMode=yes -o ControlMaster=no -o ControlPath=none -o LogLevel=ERROR"
            );
            // a bed of our own has a host key that was made today
            if way.from.is_some() {
                text += " -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";
            }
            by_sh(&way.host, &format!("{text} {dut} true"), control)
        }
        Request::Tester(text) => {
            let text = format!("export FWDLAB_DUT={dut}\n{text}");
            by_sh(&way.host, &text, control)
        }
        Request::Command(text) => {
            let place = bed.dut(0).place().ok_or_else(|| {
                LabError::Preflight(format!(
                    "fwdlab cannot log in to {}, so it cannot run `{text}` there; use tester: instead",
                    bed.dut(0).name()
                ))
            })?;
            // the management of a DUT runs on its CPUs
            let here = (!cpus.is_empty()).then(|| {
                let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                format!("taskset -cp {} $$ >/dev/null\n", cpus.join(","))
            });
            let text = format!("{}{text}", here.unwrap_or_default());
            by_sh(&place, &text, control)
        }
    })
}

/// The fate of a request that was not answered in time.
fn lost(patience: Duration) -> (Fate, String) {
    (
        Fate::Lost,
        format!("no answer within {} s", patience.as_secs_f64()),
    )
}

fn check_result(output: QueryResult, patience: Duration) -> Result<(), (Fate, String)> {
    match output {
        QueryResult::UpTime(_) => Ok(()),
        QueryResult::Wrong(reason) => Err((Fate::Wrong, reason)),
        QueryResult::Nothing => Err(lost(patience)),
    }
}

/// Runs a text with `sh` on a host.
fn by_sh(host: &Arc<dyn Host>, text: &str, control: &Control) -> SendRequest {
    let (host, command, control) = (host.clone(), Command::shell(text), control.clone());
    Box::new(move |patience| {
        let limit = Limit {
            time: patience,
            is_stopped: &|| control.is_stopped(),
        };
        host.run(&command, limit)
            .map(drop)
            .map_err(|error| match error.failure {
                Failure::Exit {
                    status,
                    said: output,
                } => (
                    Fate::Wrong,
                    format!("{status} {}", output.trim()).trim_end().to_owned(),
                ),
                Failure::TimedOut { .. } | Failure::Stopped => lost(patience),
                _ => (Fate::Wrong, error.to_string()),
            })
    })
}

fn echo_socket(dut: Ipv4Addr) -> Result<OwnedFd, LabError> {
    let failed = |e| LabError::system(format!("open a socket for ICMP echoes to {dut}"), e);
    let flags = SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ICMP)).map_err(failed)?;
    connect(&socket, &SocketAddrV4::new(dut, 0)).map_err(failed)?;
    Ok(socket)
}

/// Sends an echo, and waits for its reply; late replies to earlier ones are ignored.
fn echo(
    socket: &OwnedFd,
    (own, sequence): (u16, u16),
    patience: Duration,
) -> Result<(), (Fate, String)> {
    let wrong = |e: rustix::io::Errno| (Fate::Wrong, e.to_string());
    let started = Instant::now();
    send(socket, &echo_message(own, sequence), SendFlags::empty()).map_err(wrong)?;
    let mut buffer = [0; 256];
    loop {
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(lost(patience));
        }
        let left = left.max(Duration::from_micros(1));
        set_socket_timeout(socket, Timeout::Recv, Some(left)).map_err(wrong)?;
        match recv(socket, &mut buffer, RecvFlags::empty()) {
            Ok((length, _)) if is_reply(&buffer[..length], own, sequence) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return Err(lost(patience)),
            Err(e) => return Err(wrong(e)),
        }
    }
}

/// Returns an echo of RFC 792: type 8, checksum, identifier, sequence number.
fn echo_message(own: u16, sequence: u16) -> [u8; ECHO] {
    let mut message = [0; ECHO];
    message[0] = 8;
    message[4..6].copy_from_slice(&own.to_be_bytes());
    message[6..8].copy_from_slice(&sequence.to_be_bytes());
    message[8..].copy_from_slice(b"fwdlab00");
    let sum: u32 = message
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    message[2..4].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    message
}

/// Returns true if this packet, which begins with its IPv4 header, is the reply to that echo.
fn is_reply(packet: &[u8], own: u16, sequence: u16) -> bool {
    let Some(header) = packet.first().map(|first| usize::from(first & 15) * 4) else {
        return false;
    };
    let sent = echo_message(own, sequence);
    packet
        .get(header..)
        .is_some_and(|reply| reply.first() == Some(&0) && reply.get(4..) == Some(&sent[4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums as Linux's ping sends them: of an echo with this id, sequence and data it is
    /// 0xffff minus the folded sum.
    #[test]
    fn echoes_and_replies_are_parsed() {
        let message = echo_message(0x1234, 7);
        // RFC 1071: the sum including the checksum is all ones
        let sum: u32 = message
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        let mut packet = vec![0x45; 20];
        packet.extend(message);
        assert!(!is_reply(&packet, 0x1234, 7), "that is the question");
        packet[20] = 0;
        assert!(is_reply(&packet, 0x1234, 7));
        assert!(!is_reply(&packet, 0x1234, 8) && !is_reply(&packet, 0x1235, 7));
        assert!(!is_reply(&packet[..24], 0x1234, 7) && !is_reply(&[], 0x1234, 7));
    }
}
