//! Maps the times of a profile to the times of a schedule: unchanged, or along a load that changes.
//!
//! A player counts time at one load. Under a load over time its clock runs as fast as frames are
//! due, so that all streams keep their order and their shares exactly. Start with [`Warp`].

use fwdlab_model::procedure::Stretch;

use crate::error::EngineError;
use crate::pacer::{CATCH_UP, Curve, FRACTION, Plan};
use crate::traffic::TrafficFrames;
use crate::traffic::player::Player;
use crate::traffic::share::Share;

/// Maps the player's times to planned ones, in 1/65536 ns after the start. The player's time is
/// always that of its next frame.
pub(crate) trait Warp {
    /// Returns the planned time of the next frame, which the player has due at `due`.
    fn planned(&self, due: u64) -> u64;

    /// Returns true if that is not later than `time`.
    fn is_due_by(&self, due: u64, time: u64) -> bool;

    /// Moves from one frame of the player to another; returns how much later it is planned.
    fn step(&mut self, from: u64, to: u64) -> u64;

    /// Returns the player's time at a planned time.
    fn player_time(&self, planned: u64) -> u64;

    /// Makes the player drop frames that were planned too long before `now`.
    fn forgive(&mut self, player: &mut Player, now: u64);

    /// The constant difference between planned times and the player's, if that is the whole
    /// mapping.
    fn moved(&mut self) -> Option<&mut i64>;
}

/// The player's times, moved by load changes from outside while frames were owed.
pub(crate) struct Straight {
    pub(super) moved: i64,
}

impl Warp for Straight {
    #[inline]
    fn planned(&self, due: u64) -> u64 {
        due.wrapping_add_signed(self.moved)
    }

    fn is_due_by(&self, due: u64, time: u64) -> bool {
        i128::from(due) + i128::from(self.moved) <= i128::from(time)
    }

    #[inline]
    fn step(&mut self, from: u64, to: u64) -> u64 {
        to.saturating_sub(from)
    }

    fn player_time(&self, planned: u64) -> u64 {
        planned.wrapping_add_signed(-self.moved)
    }

    fn forgive(&mut self, player: &mut Player, now: u64) {
        player.forgive(self.player_time(now), CATCH_UP);
    }

    fn moved(&mut self) -> Option<&mut i64> {
        Some(&mut self.moved)
    }
}

/// Along a load over time. The player's load is never below it, so that its clock lasts as long as
/// the schedule's.
pub(crate) struct LoadWarp {
    curve: Curve,
    /// The player's gap / 65536 is 2 to the power of this.
    shift: u32,
    /// The player's time of the frame at which the curve is.
    due: u64,
}

impl LoadWarp {
    /// Returns the mapping and its player.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`]: streams that begin later, pause or end have times of their
    /// own, which a load cannot scale.
    pub(super) fn new(
        stretches: &[Stretch],
        frames: &TrafficFrames,
        share: Share,
    ) -> Result<(Player, LoadWarp), EngineError> {
        let ends = stretches.iter().flat_map(|s| [s.from_pps, s.to_pps]);
        let peak_pps = ends.fold(0.0, f64::max);
        let second = (1_000_000_000_u64 << FRACTION) as f64;
        let gap_bits = (second / peak_pps).log2().floor().clamp(16.0, 62.0) as u32;
        let load_pps = second / (1_u64 << gap_bits) as f64;
        let player = Player::of_share(frames, Some(load_pps), share)?;
        if !player.is_steady() {
            return Err(EngineError::Unsupported {
                engine: "a load that changes",
                action: format!(
                    "scale the times of {}: it has streams that start later, pause or end. Use a constant load, or streams that run all \
                     the time",
                    frames.traffic.name
                ),
            });
        }
        let mut bent = LoadWarp {
            curve: Curve::new(stretches),
            shift: gap_bits - 16,
            due: 0,
        };
        if share != Share::WHOLE {
            bent.move_to(player.due().unwrap_or(0));
        }
        Ok((player, bent))
    }

    /// Returns a time in 65536ths of a gap, to the nearest: the player's gaps are off by the last
    /// bit of a floating-point number.
    fn steps(&self, due: u64) -> u64 {
        due.saturating_add(self.half()) >> self.shift
    }

    fn half(&self) -> u64 {
        (1 << self.shift) >> 1
    }

    fn move_to(&mut self, due: u64) {
        let steps = self.steps(due) - self.steps(self.due);
        self.curve.advance_steps(steps);
        self.due = due;
    }
}

impl Warp for LoadWarp {
    #[inline]
    fn planned(&self, _due: u64) -> u64 {
        self.curve.next()
    }

    fn is_due_by(&self, due: u64, time: u64) -> bool {
        self.planned(due) <= time
    }

    #[inline]
    fn step(&mut self, _from: u64, to: u64) -> u64 {
        let before = self.curve.next();
        self.move_to(to);
        self.curve.next() - before
    }

    fn player_time(&self, planned: u64) -> u64 {
        let steps = self.curve.steps(planned).unwrap_or(0);
        ((self.steps(self.due) + steps) << self.shift) + self.half()
    }

    fn forgive(&mut self, player: &mut Player, now: u64) {
        let of_now = self.player_time(now);
        let patience = of_now - self.player_time(now.saturating_sub(CATCH_UP));
        player.forgive(of_now, patience);
        self.move_to(player.due().unwrap_or(self.due));
    }

    fn moved(&mut self) -> Option<&mut i64> {
        None
    }
}
