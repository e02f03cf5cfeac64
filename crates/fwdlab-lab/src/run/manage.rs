//! The modifier that manages the DUT while it forwards (RFC 2544 §11.2): once per second of a trial
//! it queries an agent by SNMP for its uptime, and verifies the answer.
//!
//! Queries use a port of their own ([`Bed::add_management`]), so that the counts of the test
//! contain none of their frames. The agent is the DUT's own; if none answers, one is started there
//! ([`Dut::start_agent`]) and ends with [`Management`]. Start with [`Management::begin`].

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fwdlab_model::procedure::Queries;
use fwdlab_model::result::TrialRecord;

use crate::bed::Bed;
use crate::dut::{Agent, Dut};
use crate::error::LabError;
use crate::host::netns::within;
use crate::host::{Process, ProcessEvent};
use crate::snmp::{get_up_time, parse};
use crate::sys::hex;

/// The UDP port of agents.
const PORT: u16 = 161;

/// The community of a read-only agent.
const COMMUNITY: &str = "public";

/// Time limit for an answer; less than a second, after which the next query is due.
const PATIENCE: Duration = Duration::from_millis(900);

/// Time limit for the first answer of an agent that we start.
const STARTING: Duration = Duration::from_secs(10);

/// Interval at which we check whether a query is due.
const TICK: Duration = Duration::from_millis(2);

/// The longest message in one frame: 1500 octets without the headers of IPv4 and UDP.
const ONE_FRAME: usize = 1472;

/// Management of a DUT during a series.
pub(super) struct Management {
    asker: Arc<Mutex<QueryThread>>,
    /// The agent, if it is ours.
    _agent: Option<Started>,
}

/// Queries an agent.
pub(super) struct QueryThread {
    socket: UdpSocket,
    request_id: i32,
    /// The last uptime that the agent reported.
    up_time: Option<u32>,
}

/// Result of a query.
pub(super) enum QueryResult {
    /// This message, which contains the agent's uptime.
    UpTime(Vec<u8>),
    /// Something else.
    Wrong(String),
    Nothing,
}

impl Management {
    /// Checks that an agent answers, starts one if necessary, and reports what is queried.
    ///
    /// # Errors
    /// Fails if no agent answers, or if its answer is wrong.
    pub fn begin(
        bed: &Bed,
        cpus: &[usize],
        report: &mut dyn FnMut(&str, String) -> Result<(), LabError>,
    ) -> Result<Management, LabError> {
        let ends = bed.networks().management;
        let mut asker = QueryThread::new(Some(bed.generator()), (ends.tester, ends.dut))?;
        let mut output = asker.query(PATIENCE);
        let mut agent = None;
        if matches!(output, QueryResult::Nothing) {
            let agent_there = Agent {
                community: COMMUNITY,
                from: ends.tester,
                at: (ends.dut, PORT),
                cpus,
            };
            let (started, first) = Started::begin(bed.dut(0).as_ref(), &agent_there, &mut asker)?;
            agent = Some(started);
            output = first;
        }
        let no_agent = |cause: String| LabError::NoAgent {
            at: ends.dut,
            reason: cause,
        };
        let answer = match output {
            QueryResult::UpTime(message) => message,
            QueryResult::Wrong(cause) => {
                return Err(no_agent(format!("something answers, but {cause}")));
            }
            QueryResult::Nothing => return Err(no_agent("nothing answers".into())),
        };
        report(
            "management",
            format!(
                "SNMPv2c queries, one at the start of every second of each trial, over a dedicated management port and not \
                 among the test frames: GET sysUpTime.0 (1.3.6.1.2.1.1.3.0), community {COMMUNITY}, {} -> {} UDP port {PORT}; \
                 answers must fit one \
                 frame and come within {} ms\nagent: {}\nquery: {}\nanswer: {}\n",
                ends.tester,
                ends.dut,
                PATIENCE.as_millis(),
                match &agent {
                    Some(agent) => agent.words.as_str(),
                    None => "one that already runs on the DUT",
                },
                hex(&get_up_time(COMMUNITY, asker.request_id)),
                hex(&answer)
            ),
        )?;
        Ok(Management {
            asker: Arc::new(Mutex::new(asker)),
            _agent: agent,
        })
    }

    /// Sends a query now.
    pub fn query(&self, patience: Duration) -> QueryResult {
        let mut asker = self.asker.lock().unwrap_or_else(PoisonError::into_inner);
        asker.query(patience)
    }

    /// Starts the queries of a trial: one now, and one every second until the returned value is
    /// dropped.
    pub fn trial(&self) -> RunningQueries {
        let stop = Arc::new(AtomicBool::new(false));
        let (asker, stopped) = (self.asker.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut asker = asker.lock().unwrap_or_else(PoisonError::into_inner);
            let started = Instant::now();
            let mut next = Duration::ZERO;
            let mut queries = Queries::default();
            while !stopped.load(Ordering::Acquire) {
                if started.elapsed() < next {
                    std::thread::sleep(TICK);
                    continue;
                }
                queries.asked += 1;
                match asker.query(PATIENCE) {
                    QueryResult::UpTime(..) => queries.answered += 1,
                    QueryResult::Wrong(cause) => {
                        queries.wrong += 1;
                        queries.reason.get_or_insert(cause);
                    }
                    QueryResult::Nothing => {}
                }
                // seconds during which we stalled are left out
                next = Duration::from_secs(started.elapsed().as_secs() + 1);
            }
            queries
        });
        RunningQueries {
            stop,
            thread: Some(thread),
        }
    }
}

/// The queries of a trial; they end when this is dropped.
pub(super) struct RunningQueries {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Queries>>,
}

impl RunningQueries {
    /// Ends the queries, and returns their results.
    pub fn end(mut self) -> Queries {
        self.finish().unwrap_or_default()
    }

    fn finish(&mut self) -> Option<Queries> {
        self.stop.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }
}

impl Drop for RunningQueries {
    fn drop(&mut self) {
        self.finish();
    }
}

impl QueryThread {
    /// Creates one that queries an agent from an address in this namespace, or of this machine.
    pub fn new(
        namespace: Option<&str>,
        (from, to): (Ipv4Addr, Ipv4Addr),
    ) -> Result<QueryThread, LabError> {
        let failed = |action: &str, e| {
            LabError::system(format!("{action} for SNMP queries from {from} to {to}"), e)
        };
        let open = || UdpSocket::bind((from, 0)).map_err(|e| failed("open a socket", e));
        // a socket stays in the namespace in which it was made
        let socket = match namespace {
            Some(namespace) => within(namespace, open)?,
            None => open()?,
        };
        socket
            .connect((to, PORT))
            .map_err(|e| failed("connect a socket", e))?;
        Ok(QueryThread {
            socket,
            request_id: 0,
            up_time: None,
        })
    }

    /// Sends a query, and waits for the answer. Late answers to earlier queries are ignored.
    pub fn query(&mut self, patience: Duration) -> QueryResult {
        self.request_id = self.request_id.checked_add(1).unwrap_or(1);
        let query = get_up_time(COMMUNITY, self.request_id);
        let requested = Instant::now();
        // the first error belongs to the previous query: the port was closed
        if self.socket.send(&query).is_err() && self.socket.send(&query).is_err() {
            return QueryResult::Nothing;
        }
        let mut buffer = [0; ONE_FRAME + 1];
        loop {
            let left = patience.saturating_sub(requested.elapsed());
            if left.is_zero() || self.socket.set_read_timeout(Some(left)).is_err() {
                return QueryResult::Nothing;
            }
            let length = match self.socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                // the port is closed, or no answer came
                Err(_) => return QueryResult::Nothing,
            };
            match self.judge(&buffer[..length]) {
                Some(output) => return output,
                None => continue,
            }
        }
    }

    /// Interprets a message; `None` if it answers an earlier query.
    fn judge(&mut self, message: &[u8]) -> Option<QueryResult> {
        if message.len() > ONE_FRAME {
            return Some(QueryResult::Wrong(
                "the answer does not fit one frame".into(),
            ));
        }
        let response = match parse(message, COMMUNITY) {
            Ok(response) => response,
            Err(unfit) => return Some(QueryResult::Wrong(format!("the answer is wrong: {unfit}"))),
        };
        if (1..self.request_id).contains(&response.request_id) {
            return None;
        }
        if response.request_id != self.request_id {
            return Some(QueryResult::Wrong(format!(
                "the answer is for another request: {} instead of {}",
                response.request_id, self.request_id
            )));
        }
        Some(match (response.up_time, self.up_time) {
            (Err(unfit), _) => QueryResult::Wrong(format!("the answer is wrong: {unfit}")),
            // it wraps to zero after 497 days
            (Ok(now), Some(before)) if now.wrapping_sub(before) > u32::MAX / 2 => {
                // the agent restarted, and counts from there
                self.up_time = Some(now);
                QueryResult::Wrong(format!(
                    "sysUpTime fell from {before} to {now} hundredths of a second"
                ))
            }
            (Ok(now), _) => {
                self.up_time = Some(now);
                QueryResult::UpTime(message.to_vec())
            }
        })
    }
}

/// An agent that we started on the DUT: it ends when this is dropped, and dies with us.
struct Started {
    process: Box<dyn Process>,
    words: String,
}

impl Started {
    /// Has the DUT start an agent, and waits for its first answer.
    fn begin(
        dut: &dyn Dut,
        agent: &Agent<'_>,
        asker: &mut QueryThread,
    ) -> Result<(Started, QueryResult), LabError> {
        let (process, words) = dut.start_agent(agent)?;
        let mut started = Started {
            process,
            words: format!("none was there; {words}"),
        };
        let mut received = Vec::new();
        let start_time = Instant::now();
        while start_time.elapsed() < STARTING {
            let output = asker.query(PATIENCE);
            if !matches!(output, QueryResult::Nothing) {
                return Ok((started, output));
            }
            if started.has_ended(&mut received)? {
                break;
            }
        }
        Err(LabError::NoAgent {
            at: agent.at.0,
            reason: format!(
                "nothing answers, nor does what was started there, `{words}`: {}",
                received.join("; ")
            ),
        })
    }

    /// Reads its output for a moment. Returns true if it has ended.
    fn has_ended(&mut self, received: &mut Vec<String>) -> Result<bool, LabError> {
        loop {
            match self.process.next(10 * TICK)? {
                ProcessEvent::Line(line) => received.push(line),
                ProcessEvent::Silence => return Ok(false),
                ProcessEvent::End(end) => {
                    received.push(end.status);
                    return Ok(true);
                }
            }
        }
    }
}

/// Returns a warning for readers of the results about queries without a correct answer.
pub(super) fn caveats(trials: &[TrialRecord]) -> Option<String> {
    let mut all = Queries::default();
    for trial in trials {
        let requested = trial.asked.as_ref();
        if let Some(queries) = requested.and_then(|requested| requested.answer.management.as_ref())
        {
            all.asked += queries.asked;
            all.answered += queries.answered;
            all.wrong += queries.wrong;
            all.reason = all.reason.or_else(|| queries.reason.clone());
        }
    }
    (all.answered < all.asked).then(|| {
        let reason = all.reason.as_ref().map_or(String::new(), |cause| format!(" ({cause})"));
        format!(
            "the DUT's management did not keep up: of {} SNMP queries, {} had no answer and {} a wrong one{reason} (RFC 2544 \
             §11.2)",
            all.asked,
            all.missing(),
            all.wrong
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of an agent on the loopback interface: bytes of Debian's snmpd with this id and
    /// time.
    fn answer(request_id: u8, ticks: u8) -> Vec<u8> {
        let mut bytes = b"\x30\x27\x02\x01\x01\x04\x06public\xa2\x1a\x02\x01".to_vec();
        bytes.push(request_id);
        bytes.extend(b"\x02\x01\x00\x02\x01\x00\x30\x0f\x30\x0d\x06\x08\x2b\x06\x01\x02\x01\x01\x03\x00\x43\x01");
        bytes.push(ticks);
        bytes
    }

    #[test]
    fn answers_are_judged() {
        let mut asker = QueryThread {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            request_id: 7,
            up_time: None,
        };
        assert!(matches!(
            asker.judge(&answer(7, 50)),
            Some(QueryResult::UpTime(_))
        ));
        asker.request_id = 8;
        assert!(asker.judge(&answer(7, 51)).is_none(), "too late");
        for (message, words) in [
            (answer(9, 51), "another request"),
            (answer(8, 49), "fell from 50 to 49"),
            (vec![0x30; ONE_FRAME + 1], "one frame"),
            (b"hello".to_vec(), "not an SNMPv2c"),
        ] {
            match asker.judge(&message) {
                Some(QueryResult::Wrong(reason)) => assert!(reason.contains(words), "{reason}"),
                _ => panic!("{words}"),
            }
        }
        // it continues from the lower value
        assert!(matches!(
            asker.judge(&answer(8, 49)),
            Some(QueryResult::UpTime(_))
        ));
    }
}
