//! Capturing by hand: frames of a port as they pass, until there are enough, the time is over or nobody wants more.
//!
//! Nothing is attached to the port or changed on it but the card's timestamping, which is put back when the value is dropped; so
//! no lock is needed, and any port will do. What becomes of the frames is the caller's, who is a [`Keeper`]. Start with
//! [`Capturing::open`], then [`Capturing::run`].

use std::time::{Duration, Instant};

use fwdlab_engine::capture::{self, Capture, Captured, Options, Statistics};
use fwdlab_engine::stamps::{Clock, Kind, Offers};
use fwdlab_engine::{EngineError, PortSpec};

use super::FOR_EVER;
use crate::control::Control;
use crate::error::LabError;
use crate::ports::{self, look, state};

/// How often a quiet capture looks whether it is over and whether its port is still there.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where captured frames go.
pub trait Keeper {
    /// Takes a frame; `false` when nobody wants this one and more.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep(&mut self, frame: &Captured<'_>) -> Result<bool, LabError>;

    /// Lets readers have what was kept so far, now that nothing comes for a while, and at the end; `false` when there are none
    /// any more.
    ///
    /// # Errors
    /// It cannot be kept.
    fn flush(&mut self) -> Result<bool, LabError> {
        Ok(true)
    }
}

/// Who takes the times of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// The packet socket ([`Kind::User`]), the kernel or the card.
    pub kind: Kind,
    /// On which clock.
    pub clock: Clock,
}

/// A capture of a port.
pub struct Capturing {
    /// Who takes the times.
    pub stamps: Stamps,
    /// Only frames with a signature of this session.
    pub own: Option<u16>,
    /// The end, when so many frames were kept.
    pub keep_at_most: Option<u64>,
    /// The end, after this time.
    pub at_most: Duration,
    spec: PortSpec,
    capture: Capture,
    _card: Option<ports::Stamping>,
}

/// What came of a capture.
#[derive(Debug, Default)]
pub struct CaptureTotals {
    /// Frames kept.
    pub kept: u64,
    /// Their bytes, as many as were kept of each.
    pub bytes: u64,
    /// Of these frames: longer than what was kept of them.
    pub cut: u64,
    /// Of these frames: stamped by somebody worse than was to do it.
    pub stamped_otherwise: u64,
    /// What passed, kept or not, and what was lost on the way to us.
    pub statistics: Statistics,
    /// How long it was.
    pub duration_s: f64,
    /// It ended because the keeper wanted no more.
    pub is_refused: bool,
    /// It ended because the port went down or away; what was kept before counts.
    pub failed: Option<LabError>,
}

impl Capturing {
    /// Begins to capture on a port, with times of this kind. Without one the kernel takes them, or the packet socket where it does
    /// not: a capture is of the system's time, unless somebody wants the card's. The other stamps of `options` are not looked at.
    ///
    /// # Errors
    /// There is no such port, it is down, or nobody takes such times there; then nothing was changed.
    pub fn open(
        spec: &PortSpec,
        options: &Options,
        stamps: Option<Kind>,
    ) -> Result<Capturing, LabError> {
        // says which ports there are when there is no such port
        look::look(spec)?;
        state::check(spec)?;
        let offers = Offers::of(spec)?;
        let kind = stamps.unwrap_or(match offers.receives(Kind::Software) {
            Ok(()) => Kind::Software,
            Err(_) => Kind::User,
        });
        offers.receives(kind)?;
        let card = match kind {
            Kind::Hardware => Some(ports::Stamping::take(spec)?),
            Kind::User | Kind::Software => None,
        };
        let options = Options {
            stamps: kind,
            ..*options
        };
        Ok(Capturing {
            stamps: Stamps {
                kind,
                clock: match (kind, offers.clock) {
                    (Kind::Hardware, Some(number)) => Clock::Card(number),
                    _ => Clock::Realtime,
                },
            },
            own: None,
            keep_at_most: None,
            at_most: FOR_EVER,
            spec: spec.clone(),
            capture: Capture::open(spec, &options)?,
            _card: card,
        })
    }

    /// Hands over frames until it is over or stopped.
    ///
    /// # Errors
    /// The keeper's. That the port is gone is told with the totals.
    pub fn run(
        &mut self,
        control: &Control,
        keeper: &mut dyn Keeper,
    ) -> Result<CaptureTotals, LabError> {
        let began = Instant::now();
        let mut totals = CaptureTotals::default();
        while !control.is_stopped() && !totals.is_refused && totals.failed.is_none() {
            let left = self.at_most.saturating_sub(began.elapsed());
            if left.is_zero() || self.has_enough(&totals) {
                break;
            }
            match self.take(PATIENCE.min(left), keeper, &mut totals)? {
                Ok(0) => {
                    totals.is_refused |= !keeper.flush()?;
                    totals.failed = state::check(&self.spec).err();
                }
                Ok(_) => {}
                Err(error) => {
                    totals.failed = Some(state::check(&self.spec).err().unwrap_or(error.into()));
                }
            }
        }
        totals.statistics = self.capture.statistics()?;
        totals.is_refused |= !keeper.flush()?;
        totals.duration_s = began.elapsed().as_secs_f64();
        Ok(totals)
    }

    fn has_enough(&self, totals: &CaptureTotals) -> bool {
        self.keep_at_most.is_some_and(|most| totals.kept >= most)
    }

    /// Takes those of one block: how many there were, or why the port has none. The outer error is the keeper's.
    fn take(
        &mut self,
        patience: Duration,
        keeper: &mut dyn Keeper,
        totals: &mut CaptureTotals,
    ) -> Result<Result<usize, EngineError>, LabError> {
        let (own, most) = (self.own, self.keep_at_most.unwrap_or(u64::MAX));
        let kind = self.stamps.kind;
        let mut result = Ok(());
        let taken = self.capture.frames(patience, &mut |frame| {
            if own.is_some_and(|own| {
                !capture::signatures(frame.bytes).any(|found| found.nonce == own)
            }) {
                return true;
            }
            match keeper.keep(&frame) {
                Ok(true) => totals.add(&frame, kind),
                Ok(false) => totals.is_refused = true,
                Err(error) => result = Err(error),
            }
            result.is_ok() && !totals.is_refused && totals.kept < most
        });
        result.map(|()| taken)
    }
}

impl CaptureTotals {
    fn add(&mut self, frame: &Captured<'_>, kind: Kind) {
        self.kept += 1;
        self.bytes += frame.bytes.len() as u64;
        self.cut += u64::from(frame.original_len as usize > frame.bytes.len());
        self.stamped_otherwise += u64::from(frame.stamped < kind);
    }
}

/// Frames that are not ours, looked at one by one beside the receiver that counts them.
pub struct Onlooker {
    /// Absent after a flood.
    capture: Option<Capture>,
    nonce: u16,
    unseen: u64,
}

impl Onlooker {
    /// So many are looked at between two looks; more would cost the receiver.
    const AT_MOST: u64 = 50_000;

    /// Looks at frames of a port that are not of this session, nor of one before it.
    ///
    /// # Errors
    /// No capture can be opened there.
    pub fn open(port: &PortSpec, nonce: u16) -> Result<Onlooker, LabError> {
        let options = Options {
            snap: 192,
            ring_bytes: 8 << 20,
            // what the port takes anyway; the receiver decides about more
            promiscuous: false,
            outgoing: false,
            ..Options::default()
        };
        Ok(Onlooker {
            capture: Some(Capture::open(port, &options)?),
            nonce,
            unseen: 0,
        })
    }

    /// Hands over the begins of those that came since the last look. With a flood of frames it gives up for good.
    ///
    /// # Errors
    /// The capture failed.
    pub fn look(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<(), LabError> {
        let Some(capture) = &mut self.capture else {
            return Ok(());
        };
        let nonce = self.nonce;
        let mut seen = 0;
        while seen < Onlooker::AT_MOST {
            let taken = capture.frames(Duration::ZERO, &mut |frame| {
                let mut found = capture::signatures(frame.bytes);
                if !found.any(|found| found.nonce == nonce || found.is_late(nonce)) {
                    each(frame.bytes);
                }
                true
            })?;
            if taken == 0 {
                break;
            }
            seen += taken as u64;
        }
        self.unseen = capture.statistics()?.dropped;
        if seen >= Onlooker::AT_MOST {
            self.capture = None;
        }
        Ok(())
    }

    /// There were too many.
    pub fn has_given_up(&self) -> bool {
        self.capture.is_none()
    }

    /// Frames that came while it looked and that it did not see.
    pub fn unseen(&self) -> u64 {
        self.unseen
    }
}
