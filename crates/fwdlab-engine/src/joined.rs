//! Senders that act as one: on several ports, of several hosts, each into its own path or all into
//! the same one.
//!
//! It does not know where a sender runs. Each part gets the frames of its path and its share of the
//! load; all start and stop in turn, so remote parts begin some milliseconds apart. Start with
//! [`JoinedSender::new`].

use std::sync::Arc;
use std::time::Duration;

use fwdlab_model::procedure::Stretch;
use fwdlab_packet::MacAddr;

use crate::error::EngineError;
use crate::generator::{Capabilities, Schedule, SendCounts, Sender};
use crate::histogram::Histogram;
use crate::load::LoadPlan;
use crate::traffic::player::own_load_pps;
use crate::traffic::{Frames, Stream, TestFrames, Traffic, TrafficFrames};

/// One of the senders.
pub struct Part {
    /// The sender; it has one path.
    pub sender: Box<dyn Sender>,
    /// Index of its path in the whole.
    pub path: usize,
    /// The source address of the first port, and the one that replaces it in this part's frames: a
    /// switch that sees one address at two of its ports keeps moving it between them.
    pub source: Option<([u8; 6], [u8; 6])>,
}

impl Part {
    /// Returns the frames with this part's source address.
    fn own(&self, frames: &Frames) -> Frames {
        let Some((from, to)) = self.source else {
            return frames.clone();
        };
        match frames {
            Frames::Test(frames) => {
                let template = frames.template.clone().from_source(MacAddr(to));
                Frames::Test(TestFrames {
                    template,
                    ..frames.clone()
                })
            }
            Frames::Traffic(TrafficFrames { traffic, nonce }) => {
                let mut traffic = traffic.as_ref().clone();
                let kinds = traffic
                    .streams
                    .iter_mut()
                    .flat_map(|stream| &mut stream.kinds);
                for template in kinds.map(|kind| &mut kind.template) {
                    // other addresses were set explicitly
                    if let Some(source) = template.get_mut(6..12).filter(|source| *source == from) {
                        source.copy_from_slice(&to);
                    }
                }
                Frames::Traffic(TrafficFrames {
                    traffic: Arc::new(traffic),
                    nonce: *nonce,
                })
            }
        }
    }
}

/// Senders that act as one.
pub struct JoinedSender {
    parts: Vec<Part>,
    paths: usize,
    armed: Armed,
    /// Parts that send in this trial.
    active: Vec<usize>,
}

/// One part's traffic, the indices of its streams in the whole, and its share of the load.
type PartTraffic = (Traffic, Vec<usize>, f64);

/// The frames armed last.
enum Armed {
    Nothing,
    /// Frames of one size, for the selected path.
    Test,
    /// For each part: the indices of its streams in the whole, and its share of the load; then the
    /// total number of streams.
    Traffic(Vec<(Vec<usize>, f64)>, usize),
}

impl JoinedSender {
    /// Combines senders; every path from 0 on needs at least one.
    ///
    /// # Panics
    /// If there is no part.
    pub fn new(parts: Vec<Part>) -> JoinedSender {
        let paths = parts.iter().map(|part| part.path + 1).max();
        JoinedSender {
            paths: paths.expect("senders are joined"),
            parts,
            armed: Armed::Nothing,
            active: Vec::new(),
        }
    }

    /// Returns the number of parts that send into this path.
    fn sending_into(&self, path: usize) -> usize {
        self.parts.iter().filter(|part| part.path == path).count()
    }

    /// Returns the traffic of each part; `None` for a part that sends nothing.
    fn split(&self, traffic: &Traffic) -> Result<Vec<Option<PartTraffic>>, EngineError> {
        let whole = own_load_pps(traffic);
        let parts = self.parts.iter().map(|part| {
            let indices = 0..traffic.streams.len();
            let ours: Vec<usize> = indices
                .filter(|index| traffic.streams[*index].path == part.path)
                .collect();
            let place = |index: usize| ours.iter().position(|ours| *ours == index);
            let streams = ours.iter().map(|index| {
                let stream = &traffic.streams[*index];
                let mut timing = stream.timing;
                if let Some(next) = timing.next {
                    timing.next = Some(place(next).ok_or_else(|| {
                        EngineError::Frames(format!(
                            "stream {} is followed by {}, which leaves from another host: they cannot wait for each other",
                            stream.name, traffic.streams[next].name
                        ))
                    })?);
                }
                Ok(Stream {
                    path: 0,
                    timing,
                    ..stream.clone()
                })
            });
            let streams: Vec<Stream> = streams.collect::<Result<_, EngineError>>()?;
            if streams.is_empty() {
                return Ok(None);
            }
            let own = Traffic {
                name: traffic.name.clone(),
                streams,
            };
            let share = own_load_pps(&own) / whole / self.sending_into(part.path) as f64;
            Ok(Some((own, ours, share)))
        });
        parts.collect()
    }

    /// Returns the active parts of this path and their shares.
    fn shares(&self, path: usize) -> Vec<(usize, f64)> {
        match &self.armed {
            Armed::Nothing => Vec::new(),
            Armed::Test => {
                let share = 1.0 / self.sending_into(path).max(1) as f64;
                let parts = self.parts.iter().enumerate();
                let active = parts.filter(|(_, part)| part.path == path);
                active.map(|(number, _)| (number, share)).collect()
            }
            Armed::Traffic(of_parts, _) => {
                let parts = of_parts.iter().enumerate();
                let active = parts.filter(|(_, (streams, _))| !streams.is_empty());
                active
                    .map(|(number, (_, share))| (number, *share))
                    .collect()
            }
        }
    }

    fn merged(&self, of_parts: Vec<(usize, SendCounts)>) -> SendCounts {
        let mut all = SendCounts {
            sent: vec![0; self.paths],
            bytes: None,
            ..SendCounts::default()
        };
        if let Armed::Traffic(_, streams) = &self.armed {
            all.streams = vec![0; *streams];
        }
        for (number, counts) in of_parts {
            all.sent[self.parts[number].path] += counts.total();
            all.not_sent += counts.not_sent;
            all.made_up += counts.made_up;
            all.ring_full += counts.ring_full;
            all.wakeups += counts.wakeups;
            all.waited_ns += counts.waited_ns;
            all.senders.extend(counts.senders);
            if let Some(bytes) = counts.bytes {
                *all.bytes.get_or_insert(0) += bytes;
            }
            if let Armed::Traffic(of_parts, _) = &self.armed {
                for (index, frames) in of_parts[number].0.iter().zip(counts.streams) {
                    all.streams[*index] += frames;
                }
            }
        }
        all
    }

    fn active(&self) -> impl Iterator<Item = &Part> {
        self.active.iter().map(|number| &self.parts[*number])
    }
}

/// Returns a share of a load.
fn part_of(load: &LoadPlan, share: f64) -> LoadPlan {
    match load {
        LoadPlan::FlatOut => LoadPlan::FlatOut,
        LoadPlan::Constant(pps) => LoadPlan::Constant(pps * share),
        LoadPlan::Stretches(stretches) => {
            let scaled = stretches.iter().map(|stretch| Stretch {
                from_pps: stretch.from_pps * share,
                to_pps: stretch.to_pps * share,
                ..*stretch
            });
            LoadPlan::Stretches(scaled.collect())
        }
    }
}

/// Splits a number of frames by shares; the parts add up to it.
fn frames_of(frames: u64, shares: &[(usize, f64)]) -> Vec<u64> {
    let mut end = 0.0;
    let mut before = 0;
    let last = shares.len();
    let each = shares.iter().enumerate().map(|(number, (_, share))| {
        end += share;
        let until = match number + 1 == last {
            true => frames,
            false => (frames as f64 * end).round() as u64,
        };
        let own = until.saturating_sub(before);
        before = before.max(until);
        own
    });
    each.collect()
}

impl Sender for JoinedSender {
    fn capabilities(&self) -> Capabilities {
        self.parts[0].sender.capabilities()
    }

    fn arm(&mut self, frames: &Frames) -> Result<(), EngineError> {
        self.armed = Armed::Nothing;
        self.active.clear();
        match frames {
            Frames::Test(_) => {
                for part in &mut self.parts {
                    let own = part.own(frames);
                    part.sender.arm(&own)?;
                }
                self.armed = Armed::Test;
            }
            Frames::Traffic(TrafficFrames { traffic, nonce }) => {
                let split = self.split(traffic)?;
                let mut of_parts = Vec::new();
                for (part, own) in self.parts.iter_mut().zip(split) {
                    let Some((own, streams, share)) = own else {
                        of_parts.push((Vec::new(), 0.0));
                        continue;
                    };
                    let own = part.own(&Frames::Traffic(TrafficFrames {
                        traffic: Arc::new(own),
                        nonce: *nonce,
                    }));
                    part.sender.arm(&own)?;
                    of_parts.push((streams, share));
                }
                self.armed = Armed::Traffic(of_parts, traffic.streams.len());
            }
        }
        Ok(())
    }

    fn start(&mut self, schedule: Schedule) -> Result<(), EngineError> {
        let shares = self.shares(schedule.path);
        if shares.is_empty() {
            return Err(EngineError::Frames("nothing is armed for this path".into()));
        }
        let frames = schedule.frames.map(|frames| frames_of(frames, &shares));
        self.active.clear();
        for (place, (number, share)) in shares.into_iter().enumerate() {
            let own = Schedule {
                load: part_of(&schedule.load, share),
                frames: frames.as_ref().map(|frames| frames[place]),
                path: 0,
                ..schedule.clone()
            };
            if own.frames == Some(0) {
                continue;
            }
            // before it starts: a part whose start may have failed half-way must be stopped, too
            self.active.push(number);
            self.parts[number].sender.start(own)?;
        }
        Ok(())
    }

    fn select(&mut self, path: usize) -> Result<(), EngineError> {
        let is_there = self.active().all(|part| part.path == path);
        match is_there {
            true => Ok(()),
            false => Err(EngineError::Unsupported {
                engine: self.capabilities().mode.name(),
                action: "switch to a path from another host".into(),
            }),
        }
    }

    fn renew(&mut self) -> Result<Duration, EngineError> {
        let mut longest = Duration::ZERO;
        for number in self.active.clone() {
            longest = longest.max(self.parts[number].sender.renew()?);
        }
        Ok(longest)
    }

    fn set_load(&mut self, load_pps: f64) -> Result<(), EngineError> {
        let path = self.active().next().map_or(0, |part| part.path);
        for (number, share) in self.shares(path) {
            self.parts[number].sender.set_load(load_pps * share)?;
        }
        Ok(())
    }

    fn lateness(&self) -> Result<Option<Histogram>, EngineError> {
        let mut all: Option<Histogram> = None;
        for part in self.active() {
            if let Some(own) = part.sender.lateness()? {
                all.get_or_insert_default().merge(&own);
            }
        }
        Ok(all)
    }

    fn counts(&self) -> Result<SendCounts, EngineError> {
        Ok(self.counts_at()?.0)
    }

    /// Reads the clock of the first part: durations must come from one clock.
    fn counts_at(&self) -> Result<(SendCounts, u64), EngineError> {
        let mut first = None;
        let mut of_parts = Vec::new();
        for number in &self.active {
            let (counts, at_ns) = self.parts[*number].sender.counts_at()?;
            first.get_or_insert(at_ns);
            of_parts.push((*number, counts));
        }
        let at_ns = first.unwrap_or_else(crate::sys::monotonic_ns);
        Ok((self.merged(of_parts), at_ns))
    }

    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        Ok(self.stop_at()?.0)
    }

    /// Stops all parts even if one fails; returns the time by the clock of the first.
    fn stop_at(&mut self) -> Result<(SendCounts, u64), EngineError> {
        let mut of_parts = Vec::new();
        let (mut failed, mut first) = (None, None);
        for number in self.active.clone() {
            match self.parts[number].sender.stop_at() {
                Ok((counts, at_ns)) => {
                    first.get_or_insert(at_ns);
                    of_parts.push((number, counts));
                }
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => {
                let at_ns = first.unwrap_or_else(crate::sys::monotonic_ns);
                Ok((self.merged(of_parts), at_ns))
            }
        }
    }

    fn is_done(&self) -> bool {
        self.active().all(|part| part.sender.is_done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{AnalysisPlan, Expected, ReceiveCounts};
    use crate::generator::{Mode, Receiver};
    use crate::pacer::StallPolicy;
    use crate::tester::{Choice, Opener, Rejected, Tester};
    use crate::traffic::Addresses;
    use fwdlab_model::trial::{IpVersion, Stream as TestStream};
    use fwdlab_model::units::FrameSize;

    /// A receiver that receives nothing.
    struct SilentReceiver;

    impl Receiver for SilentReceiver {
        fn name(&self) -> &'static str {
            "deaf"
        }

        fn expect(&mut self, _: &Expected) -> Result<(), EngineError> {
            Ok(())
        }

        fn counts(&mut self) -> Result<ReceiveCounts, EngineError> {
            Ok(ReceiveCounts::default())
        }

        fn analysis(&mut self) -> Result<Option<crate::analysis::Analysis>, EngineError> {
            Ok(None)
        }
    }

    /// Opens senders into the memory of this process, for these paths.
    struct Memories(Vec<usize>);

    impl Opener for Memories {
        fn sender(&mut self, _: Mode) -> Result<Box<dyn Sender>, EngineError> {
            let part = |path: &usize| Part {
                sender: Box::new(crate::memory::sender(1, &[])),
                path: *path,
                source: None,
            };
            Ok(Box::new(JoinedSender::new(
                self.0.iter().map(part).collect(),
            )))
        }

        fn receivers(
            &mut self,
            _: &mut Vec<Rejected>,
        ) -> Result<Vec<Box<dyn Receiver>>, EngineError> {
            let paths = self.0.iter().max().unwrap() + 1;
            Ok((0..paths)
                .map(|_| Box::new(SilentReceiver) as Box<dyn Receiver>)
                .collect())
        }

        fn only_counts(&self) -> Option<String> {
            (self.0 == [0, 0]).then(|| "two send the same".into())
        }
    }

    fn tester(paths: &[usize]) -> Tester {
        let choice = Choice {
            mode: Some(Mode::Memory),
            first: None,
            cpus: Vec::new(),
            senders: 1,
            prove: None,
            way_back: None,
            traffic: Vec::new(),
        };
        let addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let mut opener = Memories(paths.to_vec());
        Tester::open_by(&mut opener, &[], &addresses, &choice)
            .unwrap()
            .0
    }

    fn schedule(frames: u64) -> Schedule {
        Schedule {
            load: LoadPlan::Constant(1e6),
            frames: Some(frames),
            at_most: Duration::from_secs(20),
            stall_policy: StallPolicy::CatchUp { most_pps: None },
            path: 0,
        }
    }

    fn sent(tester: &mut Tester, frames: u64) -> Vec<u64> {
        tester.start(schedule(frames)).unwrap();
        while !tester.is_done() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let reading = tester.stop().unwrap();
        assert_eq!(reading.sent.iter().sum::<u64>() + reading.not_sent, frames);
        reading.sent
    }

    #[test]
    fn two_into_one_path_send_half_each_and_every_frame_once() {
        let stream = TestStream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
        let mut tester = tester(&[0, 0]);
        tester.arm(&stream).unwrap();
        assert_eq!(sent(&mut tester, 1001), [1001]);
        // both number their frames from 0: an analysis of numbers would see each number twice
        let plan = Some(AnalysisPlan::default());
        let error = tester.arm_with(&stream, plan).unwrap_err();
        assert!(
            error.to_string().contains("order: two send the same"),
            "{error}"
        );
    }

    #[test]
    fn one_for_each_direction_sends_the_frames_of_its_own() {
        let profile = "[[stream]]\nlayers = ['ipv4', 'udp']\nrate = '3kpps'\n";
        let addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let of = |direction, path| {
            let profile = fwdlab_model::profile::Profile::parse("p", profile).unwrap();
            let setting = crate::traffic::compile::Setting {
                direction,
                addresses,
                vlan: None,
                link: None,
                read: &|_| Err(std::io::ErrorKind::NotFound.into()),
            };
            let compiled = crate::traffic::compile::compile(&profile, &setting).unwrap();
            let mut streams = compiled.traffic.streams;
            streams.iter_mut().for_each(|stream| stream.path = path);
            streams
        };
        use crate::traffic::compile::Direction;
        let mut streams = of(Direction::Forward, 0);
        streams.extend(of(Direction::Reverse, 1));
        streams.extend(of(Direction::Forward, 0));
        for (id, stream) in (0..).zip(&mut streams) {
            stream.id = id;
        }
        let traffic = Arc::new(Traffic {
            name: "both".into(),
            streams,
        });
        let mut tester = tester(&[0, 1]);
        tester.arm_traffic(&traffic, None).unwrap();
        // two of three streams go forward
        assert_eq!(sent(&mut tester, 3000), [2000, 1000]);
        // a stream of one host cannot wait for a stream of another
        let mut chained = traffic.as_ref().clone();
        chained.streams[0].timing.next = Some(1);
        let error = tester.arm_traffic(&Arc::new(chained), None).unwrap_err();
        assert!(
            error.to_string().contains("leaves from another host"),
            "{error}"
        );
    }

    #[test]
    fn frames_of_another_port_have_its_address() {
        let (first, own) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        let stream = TestStream::new(IpVersion::Ipv6, FrameSize::new(128).unwrap(), 10).unwrap();
        let addresses = Addresses::between(first, [2, 0, 0, 0, 0, 2]);
        let frames = TestFrames::for_stream(&stream, &addresses, false, 1).unwrap();
        let part = Part {
            sender: Box::new(crate::memory::sender(1, &[])),
            path: 0,
            source: Some((first, own)),
        };
        let Frames::Test(after) = part.own(&Frames::Test(frames.clone())) else {
            panic!("test frames are expected");
        };
        let bytes =
            |frames: &TestFrames| serde_json::to_value(&frames.template).unwrap()["bytes"].clone();
        let (before, after) = (bytes(&frames), bytes(&after));
        let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
        assert_eq!(before[..6], after[..6]);
        assert_eq!(after[11], 9);
        assert_eq!(before[12..], after[12..]);
    }

    #[test]
    fn shares_of_frames_add_up() {
        for shares in [vec![(0, 0.5), (1, 0.5)], vec![(0, 0.7), (1, 0.2), (2, 0.1)]] {
            for frames in [0, 1, 2, 3, 10, 999] {
                let of = frames_of(frames, &shares);
                assert_eq!(of.iter().sum::<u64>(), frames, "{shares:?}");
            }
        }
        assert_eq!(frames_of(10, &[(0, 0.7), (1, 0.3)]), [7, 3]);
    }
}
