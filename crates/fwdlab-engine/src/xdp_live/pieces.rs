//! Converts a load over time for `bpf/schedule.h`: pieces in each of which frames are evenly
//! spaced.
//!
//! BPF has no roots and no 128-bit integers, so the curve is evaluated here, before the trial: the
//! first frame of each piece is planned exactly, and there are enough pieces that the error of the
//! others is negligible. Start with [`Pieces::new`].

use fwdlab_model::procedure::Stretch;

use super::LONGEST;
use super::sys::{MAX_PIECES, Piece};
use crate::pacer::{Curve, FRACTION, Plan};

/// Maximum error of a frame in the middle of a piece, in seconds: much less than the time of a
/// batch. Doubled until the pieces fit.
const OFF_S: f64 = 1e-7;

/// The unit of planned times, in seconds.
const UNIT_S: f64 = 1e-9 / (1_u64 << FRACTION) as f64;

/// A time so late that the frame never leaves, which still does not overflow if it is delayed.
const NEVER: u64 = u64::MAX - (1 << 56);

/// The pieces of a schedule, to its end.
pub(super) struct Pieces {
    /// The last one is behind the end of the schedule.
    pub(super) all: Vec<Piece>,
    /// Position of the first frame that is planned for the end or later.
    pub(super) end_position: u64,
}

impl Pieces {
    /// Returns the pieces of a schedule of this length, in the unit of planned times.
    pub(super) fn new(stretches: &[Stretch], length: u64) -> Pieces {
        let curve = Curve::new(stretches);
        let mut off_s = OFF_S;
        loop {
            if let Some(all) = pieces(curve.clone(), length, off_s) {
                let last = curve.steps(length.saturating_sub(1));
                return Pieces {
                    all,
                    end_position: last.map_or(0, |last| last + 1),
                };
            }
            off_s *= 2.0;
        }
    }

    /// Returns the pieces of every `every`-th frame, from number `first` on: those of one of
    /// several senders. Positions count its own frames.
    pub(super) fn every(mut self, first: u64, every: u64) -> Pieces {
        let own = |position: u64| position.saturating_sub(first << 16).div_ceil(every);
        // pieces that end before its first frame
        let behind = self.all.partition_point(|piece| piece.from <= first << 16);
        self.all.drain(..behind.saturating_sub(1));
        for piece in &mut self.all {
            if piece.from == u64::MAX {
                continue;
            }
            let before = (first << 16).saturating_sub(piece.from) >> 16;
            piece.at = piece.at.saturating_add(before.saturating_mul(piece.gap));
            piece.from = own(piece.from);
            piece.gap = piece.gap.saturating_mul(every).min(LONGEST);
        }
        self.end_position = own(self.end_position);
        self
    }

    /// Returns the number of pieces to search.
    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64 - 1
    }

    /// Returns the number of frames from this position on that are planned before `time`.
    pub(super) fn frames(&self, position: u64, time: u64) -> u64 {
        let piece = self.all.partition_point(|piece| piece.at < time);
        let Some(piece) = piece.checked_sub(1) else {
            return 0;
        };
        let (this, next) = (&self.all[piece], self.all.get(piece + 1));
        let planned = (u128::from(time - this.at) << 16).div_ceil(u128::from(this.gap));
        let planned = planned.min(u128::from(u64::MAX >> 1)) as u64;
        let behind = next.map_or(u64::MAX, |next| next.from);
        let until = this.from.saturating_add(planned).min(behind);
        until
            .min(self.end_position)
            .saturating_sub(position)
            .div_ceil(1 << 16)
    }
}

/// Returns `None` if there are too many pieces.
fn pieces(mut curve: Curve, length: u64, off_s: f64) -> Option<Vec<Piece>> {
    let all = curve.before(length);
    let mut pieces = Vec::new();
    let mut frame = 0;
    while frame < all {
        // the last frame of a stretch, and of the schedule, is a piece of its own
        let most = curve.in_stretch().min(all - 1 - frame).max(1);
        let frames = even(curve.slope(), most, off_s);
        let mut next = curve.clone();
        let step = next.advance(frames);
        let gap = (step + frames / 2) / frames;
        pieces.push(Piece {
            at: curve.next(),
            gap: gap.clamp(1, LONGEST),
            from: frame << 16,
        });
        if pieces.len() == MAX_PIECES {
            return None;
        }
        frame += frames;
        curve = next;
    }
    pieces.push(Piece {
        at: curve.next().max(length).min(NEVER),
        gap: LONGEST,
        from: frame << 16,
    });
    pieces.push(Piece {
        at: u64::MAX,
        gap: LONGEST,
        from: u64::MAX,
    });
    Some(pieces)
}

/// Returns how many frames may be evenly spaced, at most `most`, at this load and rate of change.
fn even((load, slope): (f64, f64), most: u64, off_s: f64) -> u64 {
    // each gap is rounded by up to half a unit
    let most = (most as f64).min(2.0 * off_s / UNIT_S);
    if slope == 0.0 {
        return (most as u64).max(1);
    }
    // over n frames, linear interpolation is off by at most n^2 / 8 of the change of the gap per
    // frame
    let off = |frames: f64| {
        let square = (load * load + 2.0 * slope * frames).min(load * load);
        frames * frames / 8.0 * slope.abs() / square.max(0.0).powf(1.5)
    };
    let mut frames = (8.0 * off_s * load.powi(3) / slope.abs()).sqrt().min(most);
    while frames > 1.0 && off(frames) > off_s {
        frames /= 2.0;
    }
    (frames as u64).max(1)
}

#[cfg(test)]
mod tests {
    use aya::Ebpf;
    use aya::maps::{Array, MapData};
    use aya::programs::{TestRun, TestRunOptions, Xdp};

    use super::super::sys::{Control, Progress};
    use super::*;
    use crate::pacer::{Pacer, StallPolicy};
    use crate::testing::chance::chance;

    const SECOND: u64 = 1_000_000_000 << FRACTION;

    fn stretch(seconds: u64, from_pps: f64, to_pps: f64) -> Stretch {
        Stretch {
            duration_ns: seconds * 1_000_000_000,
            from_pps,
            to_pps,
        }
    }

    /// Returns the time for which BPF plans the frame at a position.
    fn planned(pieces: &Pieces, frame: u64) -> u64 {
        let piece = pieces
            .all
            .partition_point(|piece| piece.from <= frame << 16)
            - 1;
        let piece = &pieces.all[piece];
        let steps = (frame << 16) - piece.from;
        piece.at + ((u128::from(piece.gap) * u128::from(steps)) >> 16) as u64
    }

    #[test]
    fn every_frame_is_planned_for_its_due_time() {
        let loads = [
            stretch(1, 0.0, 100_000.0),
            stretch(1, 100_000.0, 1_000.0),
            stretch(1, 0.0, 0.0),
            stretch(1, 250_000.0, 250_000.0),
        ];
        let pieces = Pieces::new(&loads, 5 * SECOND);
        let mut curve = Curve::new(&loads);
        let all = curve.before(5 * SECOND);
        assert_eq!(all, 50_000 + 50_500 + 500_000);
        assert_eq!(pieces.end_position.div_ceil(1 << 16), all);
        for frame in 0..all {
            let off = planned(&pieces, frame).abs_diff(curve.next());
            assert!(off as f64 * UNIT_S <= 2.0 * OFF_S, "frame {frame}: {off}");
            curve.advance(1);
        }
        assert!(planned(&pieces, all) >= 5 * SECOND);
        assert!(pieces.all.len() < 10_000, "{}", pieces.all.len());
        for (from, time, frames) in [
            (0, SECOND, 50_000),
            (0, 0, 0),
            (7, 3 * SECOND / 2 * 2, 100_493),
        ] {
            assert_eq!(pieces.frames(from << 16, time), frames);
        }
    }

    #[test]
    fn the_frames_of_several_senders_are_those_of_one() {
        let loads = [
            stretch(1, 0.0, 10_000.0),
            stretch(1, 10_000.0, 100.0),
            stretch(1, 0.0, 0.0),
            stretch(1, 25_000.0, 25_000.0),
        ];
        let whole = || Pieces::new(&loads, 4 * SECOND);
        let mut curve = Curve::new(&loads);
        let all = curve.before(4 * SECOND);
        let times: Vec<u64> = (0..all)
            .map(|_| {
                let time = curve.next();
                curve.advance(1);
                time
            })
            .collect();
        for senders in [1, 2, 3, 8] {
            for sender in 0..senders {
                let own = whole().every(sender, senders);
                let due: Vec<u64> = (times.iter().copied())
                    .skip(sender as usize)
                    .step_by(senders as usize)
                    .collect();
                assert_eq!(own.end_position.div_ceil(1 << 16), due.len() as u64);
                assert_eq!(own.frames(0, u64::MAX), due.len() as u64);
                for (frame, time) in (0..).zip(&due) {
                    let off = planned(&own, frame).abs_diff(*time);
                    assert!(
                        off as f64 * UNIT_S <= 4.0 * OFF_S,
                        "{sender} of {senders}, frame {frame}: {off}"
                    );
                }
                // one by one, as the library counts what a stop leaves out
                for at in (0..4 * SECOND).step_by(SECOND as usize / 7) {
                    let before = due.partition_point(|time| *time < at) as u64;
                    let counted = own.frames(0, at);
                    assert!(
                        counted.abs_diff(before) <= 1,
                        "{sender} of {senders}, {at}: {counted} {before}"
                    );
                }
            }
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_coarser() {
        let loads = [stretch(200_000, 1.0, 1e7)];
        let pieces = Pieces::new(&loads, 200_000 * SECOND);
        assert!(pieces.all.len() <= MAX_PIECES + 2);
        assert_eq!(pieces.end_position.div_ceil(1 << 16), 1_000_000_100_000);
    }

    static OBJECT: &[u8] =
        aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/schedule_test.o"));

    const START: u64 = 1_000_000_000_000;
    const MS: u64 = 1_000_000;

    /// A sender in BPF without frames; the test sets its clock.
    struct InKernel(Ebpf);

    impl InKernel {
        fn load() -> Option<InKernel> {
            let mut programs = match Ebpf::load(OBJECT) {
                Ok(programs) => programs,
                Err(error) => {
                    println!(
                        "SKIPPED: bpf_follows_a_load_over_time: cannot load BPF programs: {error}"
                    );
                    return None;
                }
            };
            let program = programs.program_mut("tick_over_time").unwrap();
            <&mut Xdp>::try_from(program).unwrap().load().unwrap();
            Some(InKernel(programs))
        }

        fn map<V: aya::Pod>(&mut self, name: &str) -> Array<&mut MapData, V> {
            Array::try_from(self.0.map_mut(name).unwrap()).unwrap()
        }

        fn begin(&mut self, control: Control, pieces: &Pieces) {
            self.map("control").set(0, control, 0).unwrap();
            self.map("progress").set(0, Progress::default(), 0).unwrap();
            let mut map = self.map::<Piece>("pieces");
            for (key, piece) in (0..).zip(&pieces.all) {
                map.set(key, piece, 0).unwrap();
            }
        }

        /// Returns when each frame that leaves at this time was planned, delays included.
        fn departures(&mut self, now: u64) -> Vec<u64> {
            let program: &mut Xdp = self
                .0
                .program_mut("tick_over_time")
                .unwrap()
                .try_into()
                .unwrap();
            let mut departures = vec![];
            loop {
                let (mut frame, mut out) = ([0; 64], [0; 64]);
                frame[..8].copy_from_slice(&now.to_ne_bytes());
                let options = TestRunOptions {
                    data_in: Some(&frame),
                    data_out: Some(&mut out),
                    ..TestRunOptions::new()
                };
                const PASS: u32 = 2;
                if program.test_run(options).unwrap().return_value != PASS {
                    return departures;
                }
                let slot = u64::from_ne_bytes(out[8..16].try_into().unwrap());
                departures.push(START + (slot >> FRACTION));
            }
        }
    }

    /// BPF sends as many frames as the library, each at the same time, under both policies; exactly
    /// equal at the end.
    #[test]
    fn bpf_follows_a_load_over_time() {
        let Some(mut kernel) = InKernel::load() else {
            return;
        };
        let mut below = chance(11);
        for round in 0..30 {
            let load = |below: &mut dyn FnMut(u64) -> u64| {
                [0, 100, 30_000, 200_000][below(4) as usize] as f64
            };
            let mut loads: Vec<Stretch> = (0..3)
                .map(|_| Stretch {
                    duration_ns: (1 + below(15)) * MS + below(1000),
                    from_pps: load(&mut below),
                    to_pps: load(&mut below),
                })
                .collect();
            loads.push(Stretch::constant(50_000.0, 1));
            let length = (20 + below(30)) * MS;
            let end = START + length;
            let makes_up = below(3) > 0;
            let stall_policy = match makes_up {
                true => StallPolicy::CatchUp { most_pps: None },
                false => StallPolicy::Skip,
            };
            let pieces = Pieces::new(&loads, length << FRACTION);
            let mut pacer = Pacer::over(&loads, stall_policy, START, end);
            let control = Control {
                start_ns: START,
                end_ns: end,
                gap: 1,
                catch_up_us: 100,
                relief: stall_policy.relief(1e6),
                end_position: pieces.end_position,
                pieces: pieces.count(),
                ..Control::default()
            };
            kernel.begin(control, &pieces);
            let due = Curve::new(&loads).before(length << FRACTION);
            let (mut now, mut sent, mut of_kernel, mut over) = (START, vec![], vec![], false);
            while !over {
                now += match below(100) {
                    _ if round % 5 == 0 => below(50_000),
                    0 => below(20 * MS) * below(8),
                    1..5 => below(300_000),
                    _ => below(40_000),
                };
                over = now >= end && !pacer.goes_on(now);
                while !over && pacer.due(now) > 0 {
                    sent.push(pacer.departure_ns());
                    pacer.taken(1);
                }
                of_kernel.extend(kernel.departures(now));
                // a frame at the edge may leave one look sooner or later, and a stall of 100 us may
                // count or not
                let (sent, of_kernel) = (sent.len(), of_kernel.len());
                assert!(
                    sent.abs_diff(of_kernel) <= 25,
                    "round {round}, {} ns: {sent} {of_kernel}",
                    now - START
                );
            }
            if round % 5 == 0 {
                // frames due after the last look before the end are not sent
                assert_eq!(sent.len(), of_kernel.len(), "round {round}");
                assert!(sent.len() as u64 + 20 >= due, "round {round}");
                for (frame, (here, there)) in sent.iter().zip(&of_kernel).enumerate() {
                    assert!(
                        here.abs_diff(*there) <= 200,
                        "round {round}, frame {frame}: {here} {there}"
                    );
                }
            }
            let progress: Progress = kernel.map("progress").get(&0, 0).unwrap();
            assert_eq!(sent.len() as u64 + pacer.not_sent(), due, "round {round}");
            assert_eq!(
                of_kernel.len() as u64 + progress.not_sent,
                due,
                "round {round}"
            );
            assert_eq!(progress.lag, 0);
        }
    }
}
