//! A rig on another host, behind an agent there.
//!
//! Every call is a question and an answer; slow operations take their time on the remote host.
//! Others who use the same agent wait meanwhile, and so does the rig for them: it should have an
//! agent of its own. Traffic is compiled here and sent there. Start with [`open`].

use std::sync::Arc;
use std::time::Duration;

use fwdlab_engine::analysis::{Analysis, AnalysisPlan};
use fwdlab_engine::stamps::static_name;
use fwdlab_engine::tester::Proof;
use fwdlab_engine::{Addresses, Choice, Histogram, Reading, ReceiveCounts, Schedule, Traffic};
use fwdlab_model::trial::Stream;

use super::local::Chosen;
use super::{Frames, Rig};
use crate::error::LabError;
use crate::host::wire::connection::unexpected_answer;
use crate::host::wire::rig::{Answer, Question, packed};
use crate::host::wire::{self, Path};
use crate::host::{Host, HostError, Limit, Remote};

/// Opens the fastest engine that works on these paths of a host, or the requested one.
///
/// # Errors
/// None works, or the requested one does not; the host was lost; or the limit was exceeded, which
/// ends the agent.
pub fn open(
    host: &Remote,
    paths: &[Path],
    addresses: &Addresses,
    choice: &Choice,
    limit: Limit<'_>,
) -> Result<(Box<dyn Rig>, Chosen), LabError> {
    let question = Question::Open {
        paths: paths.to_vec(),
        addresses: *addresses,
        choice: choice.clone(),
    };
    let mut rig = RemoteRig {
        host: host.clone(),
        names: ("", ""),
        nonce: 0,
        known: None,
    };
    let action = "open sender and receivers";
    match rig.ask_within(action, question, &[], limit)? {
        Answer::Opened {
            sender,
            receiver,
            words,
            rejected,
        } => {
            rig.names = (static_name(&sender), static_name(&receiver));
            Ok((Box::new(rig), Chosen { words, rejected }))
        }
        other => rig.unexpected_answer(action, other),
    }
}

/// A rig behind an agent.
#[derive(Debug)]
struct RemoteRig {
    host: Remote,
    names: (&'static str, &'static str),
    nonce: u16,
    /// The traffic that was armed there last.
    known: Option<Arc<Traffic>>,
}

impl RemoteRig {
    fn query(&self, action: &str, question: Question) -> Result<Answer, LabError> {
        self.ask_with(action, question, &[])
    }

    fn ask_with(&self, action: &str, question: Question, bytes: &[u8]) -> Result<Answer, LabError> {
        self.ask_within(action, question, bytes, Limit::OURS)
    }

    fn ask_within(
        &self,
        action: &str,
        question: Question,
        bytes: &[u8],
        limit: Limit<'_>,
    ) -> Result<Answer, LabError> {
        let question = wire::Question::Rig(question);
        match self.host.put_to(action, &question, bytes, limit)? {
            (wire::Answer::Rig(answer), _) => Ok(answer),
            (other, _) => {
                let reason = unexpected_answer(&other);
                Err(HostError::new(self.host.name(), action, reason).into())
            }
        }
    }

    fn unexpected_answer<T>(&self, action: &str, answer: Answer) -> Result<T, LabError> {
        let reason = unexpected_answer(&wire::Answer::Rig(answer));
        Err(HostError::new(self.host.name(), action, reason).into())
    }

    fn done(&self, action: &str, question: Question) -> Result<(), LabError> {
        match self.query(action, question)? {
            Answer::Done => Ok(()),
            other => self.unexpected_answer(action, other),
        }
    }

    fn reading(&self, action: &str, question: Question) -> Result<Reading, LabError> {
        match self.query(action, question)? {
            Answer::Reading(reading) => Ok(reading),
            other => self.unexpected_answer(action, other),
        }
    }
}

impl Rig for RemoteRig {
    fn names(&self) -> (&'static str, &'static str) {
        self.names
    }

    fn prove(&mut self, path: usize, stream: &Stream, frames: u64) -> Result<Proof, LabError> {
        let action = "prove a path";
        let question = Question::Prove {
            path,
            stream: stream.clone(),
            frames,
        };
        match self.query(action, question)? {
            Answer::Proof(proof) => Ok(proof),
            other => self.unexpected_answer(action, other),
        }
    }

    fn arm(&mut self, frames: Frames<'_>, analysis: Option<AnalysisPlan>) -> Result<(), LabError> {
        let action = "prepare the frames of a trial";
        let (question, bytes) = match frames {
            Frames::Stream(stream) => {
                let stream = stream.clone();
                (Question::Arm { stream, analysis }, Vec::new())
            }
            Frames::Traffic(traffic) => {
                // compiled here, so that the traffic sent there equals the traffic checked here, to
                // the byte
                let is_known = self.known.as_ref().is_some_and(|known| known == traffic);
                let bytes = match is_known {
                    true => Vec::new(),
                    false => packed(traffic).map_err(LabError::Preflight)?,
                };
                self.known = None;
                (Question::ArmTraffic { analysis }, bytes)
            }
        };
        let answer = self.ask_with(action, question, &bytes)?;
        if let Frames::Traffic(traffic) = frames {
            self.known = Some(traffic.clone());
        }
        match answer {
            Answer::Armed { nonce } => self.nonce = nonce,
            other => return self.unexpected_answer(action, other),
        }
        Ok(())
    }

    fn nonce(&self) -> u16 {
        self.nonce
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), LabError> {
        self.done("start to send", Question::Start(schedule))
    }

    fn select(&mut self, path: usize) -> Result<(), LabError> {
        self.done("send into another path", Question::Select { path })
    }

    fn renew(&mut self) -> Result<Duration, LabError> {
        let action = "continue from other memory";
        match self.query(action, Question::Renew)? {
            Answer::Paused(time) => Ok(time),
            other => self.unexpected_answer(action, other),
        }
    }

    /// A lost host sends nothing more; the next reading of its counts returns the error.
    fn is_done(&self) -> bool {
        match self.query("see whether all is sent", Question::IsDone) {
            Ok(Answer::IsDone(is_done)) => is_done,
            _ => true,
        }
    }

    fn read(&mut self) -> Result<Reading, LabError> {
        self.reading("read the counts", Question::Read)
    }

    fn stop(&mut self) -> Result<Reading, LabError> {
        self.reading("stop to send", Question::Stop)
    }

    fn receive_counts(&mut self, path: usize) -> Result<ReceiveCounts, LabError> {
        let action = "read the counts of a receiver";
        match self.query(action, Question::ReceiveCounts { path })? {
            Answer::ReceiveCounts(counts) => Ok(counts),
            other => self.unexpected_answer(action, other),
        }
    }

    fn analysis(&mut self, path: usize) -> Result<Option<Analysis>, LabError> {
        let action = "read what a receiver found out";
        match self.query(action, Question::Analysis { path })? {
            Answer::Analysis(found) => Ok(found),
            other => self.unexpected_answer(action, other),
        }
    }

    fn lateness(&self) -> Result<Option<Histogram>, LabError> {
        let action = "read how late frames left";
        match self.query(action, Question::Lateness)? {
            Answer::Lateness(lateness) => Ok(lateness),
            other => self.unexpected_answer(action, other),
        }
    }
}

impl Drop for RemoteRig {
    fn drop(&mut self) {
        // the host may be gone, and the rig with it
        let _ = self.done("close sender and receivers", Question::Close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    use fwdlab_engine::analysis::StreamPlan;
    use fwdlab_engine::{LoadPlan, Mode, PathSpec, PortSpec, StallPolicy};
    use fwdlab_model::trial::IpVersion;
    use fwdlab_model::units::FrameSize;

    use crate::agent::serve::serve;
    use crate::bed::Bed;
    use crate::host::ssh::tests::{Server, program};
    use crate::host::wire::connection::{Connection, EndReason};
    use crate::host::{Local, Netns};
    use crate::placement::Placement;
    use crate::tester::local;

    #[derive(Debug)]
    struct Unknown;

    impl EndReason for Unknown {
        fn words(&self) -> String {
            "nobody knows why".into()
        }
    }

    fn remote() -> Remote {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || serve(&mut theirs));
        Remote::new("tester", Arc::new(Connection::new(ours, Box::new(Unknown))))
    }

    fn remote_path(of: &PathSpec) -> Path {
        let port = |of: &PortSpec| {
            let name = of.netns.as_ref().and_then(|path| path.file_name());
            let name = name.map(|name| name.to_string_lossy().into_owned());
            (name, of.interface.clone())
        };
        Path {
            tx: port(&of.tx),
            rx: port(&of.rx),
        }
    }

    fn stream() -> Stream {
        Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap()
    }

    /// Two streams of two sizes.
    fn profile(addresses: &Addresses) -> Traffic {
        use fwdlab_engine::traffic::compile::{Direction, Setting, compile};
        let text = "[[stream]]\nlayers = ['ipv4', 'udp']\nflows = 10\n[[stream]]\nlayers = ['ipv4', 'udp']\nsize = 300\n";
        let profile = fwdlab_model::profile::Profile::parse("p", text).unwrap();
        let setting = Setting {
            direction: Direction::Forward,
            addresses: *addresses,
            vlan: None,
            link: None,
            read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        };
        compile(&profile, &setting).unwrap().traffic
    }

    /// Frames of a trial: some 250 ms, at a load at which even a DUT that waits for its CPU loses
    /// none, or nearly.
    const FRAMES: u64 = 1000;

    /// Returns the counts of a trial without and one with an analysis: frames sent, and frames that
    /// came back.
    fn trials(rig: &mut dyn Rig) -> [(u64, u64); 2] {
        let stream = stream();
        let proof = rig.prove(0, &stream, 100).unwrap();
        assert!(proof.sent == 100 && proof.received > 0, "{proof:?}");
        let plan = AnalysisPlan {
            streams: vec![StreamPlan {
                flows: 10,
                ..StreamPlan::default()
            }],
        };
        [None, Some(plan)].map(|plan| {
            rig.arm(Frames::Stream(&stream), plan.clone()).unwrap();
            let schedule = Schedule {
                load: LoadPlan::Constant(4000.0),
                frames: Some(FRAMES),
                at_most: Duration::from_secs(10),
                stall_policy: StallPolicy::CatchUp { most_pps: None },
                path: 0,
            };
            rig.start(schedule).unwrap();
            let early = rig.read().unwrap();
            while !rig.is_done() {
                rig.wait(Duration::from_millis(5));
            }
            let last = rig.stop().unwrap();
            assert!(last.at_ns > early.at_ns);
            assert_eq!(last.sent[0] + last.not_sent, FRAMES);
            let counts = rig.receive_counts(0).unwrap();
            assert_eq!(counts.received, last.received[0]);
            assert_eq!((counts.wrong_length, counts.late), (0, 0));
            assert!(!rig.lateness().unwrap().unwrap().is_empty());
            let found = rig.analysis(0).unwrap();
            assert_eq!(found.is_some(), plan.is_some());
            if let Some(found) = found {
                let stream = &found.streams[0];
                let of_flows: u32 = stream.flows.iter().sum();
                assert_eq!(u64::from(of_flows), counts.received);
                assert_eq!(stream.delivered(), counts.received);
                assert_eq!(stream.latency.len(), counts.received);
            }
            (last.sent[0], last.received[0])
        })
    }

    #[test]
    fn a_trial_behind_an_agent_counts_what_one_here_counts() {
        let test = "a_trial_behind_an_agent_counts_what_one_here_counts";
        if !crate::user_namespace::is_root() {
            return println!("SKIPPED: {test}: not root");
        }
        let placement = Placement {
            senders: 2,
            ..Placement::default()
        };
        let bed = Bed::up(1, &placement, false).unwrap();
        let addresses = bed.networks().forward();
        let choice = Choice {
            mode: None,
            first: None,
            cpus: Vec::new(),
            senders: 1,
            prove: Some(stream()),
            way_back: None,
            traffic: Vec::new(),
        };
        let (mut rig, chosen) = local::open(bed.paths(), &addresses, &choice).unwrap();
        let here = trials(rig.as_mut());
        let names = rig.names();
        drop(rig);

        let host = remote();
        let paths: Vec<Path> = bed.paths().iter().map(remote_path).collect();
        let (mut rig, chosen_there) =
            open(&host, &paths, &addresses, &choice, Limit::OURS).unwrap();
        // an engine is rejected if not all of its first frames come back, and a busy host loses
        // some
        if chosen.rejected != chosen_there.rejected {
            let reason = (&chosen.rejected, &chosen_there.rejected);
            return println!(
                "SKIPPED: {test}: this busy host lost frames of the path check: {reason:?}"
            );
        }
        assert_eq!((rig.names(), chosen_there.words), (names, chosen.words));
        let there = trials(rig.as_mut());
        if here
            .iter()
            .chain(&there)
            .any(|(_, returned)| *returned < FRAMES)
        {
            println!("SKIPPED: {test}: this busy host lost frames: {here:?} {there:?}");
        } else {
            assert_eq!(there, here);
        }
        // the traffic of a profile arrives there as it was compiled here, once
        let traffic = Arc::new(profile(&addresses));
        for _ in 0..2 {
            rig.arm(Frames::Traffic(&traffic), None).unwrap();
            rig.start(Schedule {
                load: LoadPlan::Constant(4000.0),
                frames: Some(100),
                at_most: Duration::from_secs(10),
                stall_policy: StallPolicy::CatchUp { most_pps: None },
                path: 0,
            })
            .unwrap();
            while !rig.is_done() {
                rig.wait(Duration::from_millis(5));
            }
            let last = rig.stop().unwrap();
            assert_eq!((last.sent[0], last.received[0]), (100, 100));
        }
        rig.arm(Frames::Stream(&stream()), None).unwrap();
        assert_ne!(rig.nonce(), 0);
        // a refusal of the engine is reported, and the rig still works afterwards
        let text = rig.select(7).unwrap_err().to_string();
        assert!(text.contains("tester refuses"), "{text}");
        drop(rig);
        // the ports are free again
        let text = open(&host, &[], &addresses, &choice, Limit::OURS)
            .err()
            .map(|e| e.to_string());
        assert!(text.is_none_or(|text| !text.contains("lost")));
        open(&host, &paths, &addresses, &choice, Limit::OURS).unwrap();
        // two senders there are one for everybody here
        let two = Choice {
            mode: Some(Mode::AfPacket),
            first: None,
            senders: 2,
            ..choice
        };
        let (mut rig, chosen) = open(&host, &paths, &addresses, &two, Limit::OURS).unwrap();
        assert!(
            chosen.words.starts_with("af-packet, 2 senders"),
            "{chosen:?}"
        );
        trials(rig.as_mut());
    }

    #[test]
    fn a_host_that_is_lost_in_a_trial_is_named() {
        let mut rig = RemoteRig {
            host: Remote::removed_host("tester"),
            names: ("xdp-live", "xdp"),
            nonce: 0,
            known: None,
        };
        assert!(rig.is_done());
        let text = rig.stop().unwrap_err().to_string();
        assert!(text.contains("tester during `stop to send`"), "{text}");
    }

    /// An agent behind sshd.
    mod slow {
        use super::*;

        /// The peer that would end the trial is gone: the trial ends with the agent.
        #[test]
        fn traffic_ends_with_the_agent_that_sends_it() {
            let test = "traffic_ends_with_the_agent_that_sends_it";
            let Some(server) = Server::start(test) else {
                return;
            };
            let folder = tempfile::tempdir().unwrap();
            let Some(program) = program(test, folder.path()) else {
                return;
            };
            let bed = Bed::up(1, &Placement::default(), false).unwrap();
            let path = remote_path(&bed.paths()[0]);
            let ssh = server.host();
            let host = ssh.start_agent(&program, Limit::OURS).unwrap();
            let choice = Choice {
                mode: None,
                first: None,
                cpus: Vec::new(),
                senders: 1,
                prove: None,
                way_back: None,
                traffic: Vec::new(),
            };
            let addresses = bed.networks().forward();
            let (mut rig, _) = open(
                &host,
                std::slice::from_ref(&path),
                &addresses,
                &choice,
                Limit::OURS,
            )
            .unwrap();
            rig.arm(Frames::Stream(&stream()), None).unwrap();
            let schedule = Schedule {
                load: LoadPlan::Constant(2000.0),
                frames: None,
                at_most: Duration::from_secs(600),
                stall_policy: StallPolicy::Skip,
                path: 0,
            };
            rig.start(schedule).unwrap();
            let generator = Netns::bare(path.tx.0.as_deref().unwrap());
            let sent = || {
                let table = crate::interfaces::read_counters(&generator).unwrap();
                table[&path.tx.1].tx_packets
            };
            let before = rig.read().unwrap().sent[0];
            rig.wait(Duration::from_millis(200));
            assert!(rig.read().unwrap().sent[0] > before);
            let id = host.query("sh", &["-c", "echo $PPID"]).unwrap();
            Local.query("kill", &["-9", id.trim()]).unwrap();
            let error = rig.read().unwrap_err().to_string();
            assert!(error.contains("its agent ended"), "{error}");
            std::thread::sleep(Duration::from_secs(1));
            let last = sent();
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(sent(), last);
        }
    }
}
