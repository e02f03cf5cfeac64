//! Captures frames of a port by hand, until there are enough, the time is over or the reader stops.
//!
//! Changes nothing on the port except the card's timestamping, which is restored when the value is
//! dropped; so no lock is needed, and any port will do. The caller handles the frames as a
//! [`Keeper`]. Start with [`Capturing::open`], then [`Capturing::run`].

use std::time::{Duration, Instant};

use fwdlab_engine::capture::{self, Capture, Captured, Options, Statistics};
use fwdlab_engine::stamps::{Clock, Kind, Offers};
use fwdlab_engine::{EngineError, PortSpec};

use super::FOR_EVER;
use crate::control::Control;
use crate::error::LabError;
use crate::ports::{self, interface_facts, state};

/// Interval at which a quiet capture checks whether it is over and whether its port still exists.
const PATIENCE: Duration = Duration::from_millis(100);

/// Destination of captured frames.
pub trait Keeper {
    /// Takes a frame; `false` when neither this one nor more are wanted.
    ///
    /// # Errors
    /// Fails if the frame cannot be stored.
    fn keep(&mut self, frame: &Captured<'_>) -> Result<bool, LabError>;

    /// Makes stored frames available to readers while none arrive, and at the end; `false` when
    /// there are no readers left.
    ///
    /// # Errors
    /// Fails if the frames cannot be stored.
    fn flush(&mut self) -> Result<bool, LabError> {
        Ok(true)
    }
}

/// The source of a capture's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// The packet socket ([`Kind::User`]), the kernel or the card.
    pub kind: Kind,
    /// Their clock.
    pub clock: Clock,
}

/// A capture of a port.
pub struct Capturing {
    /// The source of timestamps.
    pub stamps: Stamps,
    /// Captures only frames with a signature of this session.
    pub own: Option<u16>,
    /// Keeps at most this many bytes of a frame. A filter needs all that the capture has of it.
    pub snap: u32,
    /// Ends after this number of captured frames.
    pub keep_at_most: Option<u64>,
    /// Ends after this time.
    pub at_most: Duration,
    spec: PortSpec,
    capture: Capture,
    _card: Option<ports::Stamping>,
}

/// Totals of a capture.
#[derive(Debug, Default)]
pub struct CaptureTotals {
    /// Frames captured.
    pub kept: u64,
    /// Their stored bytes.
    pub bytes: u64,
    /// Captured frames that are longer than what was stored of them.
    pub cut: u64,
    /// Captured frames with a worse timestamp than requested.
    pub stamped_otherwise: u64,
    /// Frames that passed, captured or not, and losses on the way to us.
    pub statistics: Statistics,
    /// Duration in seconds.
    pub duration_s: f64,
    /// It ended because the keeper wanted no more frames.
    pub is_refused: bool,
    /// It ended because the port went down or disappeared; earlier frames are valid.
    pub failed: Option<LabError>,
}

impl Capturing {
    /// Starts a capture on a port, with timestamps of this kind. By default the kernel takes them,
    /// or the packet socket if it does not: captures use system time, unless the card's is
    /// requested. The timestamps in `options` are ignored.
    ///
    /// # Errors
    /// Fails, without any change, if there is no such port, it is down, or such timestamps are not
    /// available.
    pub fn open(
        spec: &PortSpec,
        options: &Options,
        stamps: Option<Kind>,
    ) -> Result<Capturing, LabError> {
        // lists the existing ports if there is no such port
        interface_facts::read_facts(spec)?;
        state::check(spec)?;
        let offers = Offers::query(spec)?;
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
            snap: options.snap,
            keep_at_most: None,
            at_most: FOR_EVER,
            spec: spec.clone(),
            capture: Capture::open(spec, &options)?,
            _card: card,
        })
    }

    /// Passes frames to the keeper until it is over or stopped.
    ///
    /// # Errors
    /// Fails with the keeper's errors. If the port is gone, this is in the totals.
    pub fn run(
        &mut self,
        control: &Control,
        keeper: &mut dyn Keeper,
    ) -> Result<CaptureTotals, LabError> {
        let started = Instant::now();
        let mut totals = CaptureTotals::default();
        while !control.is_stopped() && !totals.is_refused && totals.failed.is_none() {
            let left = self.at_most.saturating_sub(started.elapsed());
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
        totals.duration_s = started.elapsed().as_secs_f64();
        Ok(totals)
    }

    fn has_enough(&self, totals: &CaptureTotals) -> bool {
        self.keep_at_most.is_some_and(|most| totals.kept >= most)
    }

    /// Takes the frames of one block. Returns their number, or why the port has none. The outer
    /// error is the keeper's.
    fn take(
        &mut self,
        patience: Duration,
        keeper: &mut dyn Keeper,
        totals: &mut CaptureTotals,
    ) -> Result<Result<usize, EngineError>, LabError> {
        let (own, most) = (self.own, self.keep_at_most.unwrap_or(u64::MAX));
        let snap = self.snap as usize;
        let kind = self.stamps.kind;
        let mut result = Ok(());
        let taken = self.capture.frames(patience, &mut |frame| {
            if own.is_some_and(|own| {
                !capture::signatures(frame.bytes).any(|found| found.nonce == own)
            }) {
                return true;
            }
            let frame = Captured {
                bytes: &frame.bytes[..frame.bytes.len().min(snap)],
                ..frame
            };
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

/// Examines foreign frames one by one, in parallel with the receiver that counts them.
pub struct ForeignFrames {
    /// `None` after a flood.
    capture: Option<Capture>,
    nonce: u16,
    unseen: u64,
}

impl ForeignFrames {
    /// Maximum number of frames per look; more would slow down the receiver.
    const AT_MOST: u64 = 50_000;

    /// Opens a capture of frames on a port that belong neither to this session nor to one before
    /// it.
    ///
    /// # Errors
    /// Fails if no capture can be opened there.
    pub fn open(port: &PortSpec, nonce: u16) -> Result<ForeignFrames, LabError> {
        let options = Options {
            snap: 192,
            ring_bytes: 8 << 20,
            // only frames that the port accepts anyway; the receiver decides about others
            promiscuous: false,
            outgoing: false,
            ..Options::default()
        };
        Ok(ForeignFrames {
            capture: Some(Capture::open(port, &options)?),
            nonce,
            unseen: 0,
        })
    }

    /// Passes the beginnings of frames since the last look to `each`. Stops permanently after a
    /// flood of frames.
    ///
    /// # Errors
    /// Fails if the capture failed.
    pub fn look(&mut self, each: &mut dyn FnMut(&[u8])) -> Result<(), LabError> {
        let Some(capture) = &mut self.capture else {
            return Ok(());
        };
        let nonce = self.nonce;
        let mut observed = 0;
        while observed < ForeignFrames::AT_MOST {
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
            observed += taken as u64;
        }
        self.unseen = capture.statistics()?.dropped;
        if observed >= ForeignFrames::AT_MOST {
            self.capture = None;
        }
        Ok(())
    }

    /// Returns true after a flood of frames.
    pub fn is_flooded(&self) -> bool {
        self.capture.is_none()
    }

    /// Returns the number of frames that arrived and were not examined.
    pub fn unseen(&self) -> u64 {
        self.unseen
    }
}
