//! Reference lines: the line rate of a link, and the rate that an IMIX requires on a link.
//!
//! A frame occupies 20 bytes more on a link than its own: preamble, start delimiter and inter-frame
//! gap (IEEE 802.3). A link of C bit/s therefore carries C / (8 (size + 20)) frames per second. The
//! simple IMIX is seven frames of 64 bytes, four of 594 and one of 1518 (`fwdlab_model::mix`, which
//! lists its sources). Start with [`of_cases`].

use fwdlab_model::link::LinkSpeed;
use fwdlab_model::mix::Mix;
use fwdlab_model::result::RunInfo;
use fwdlab_model::test_case::TestCase;
use fwdlab_model::units::FrameSize;

use crate::chart::{Curve, Reference, values};
use crate::link;

/// Links whose IMIX rate may be drawn, in Mbit/s.
const COMMON: [u32; 8] = [100, 1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 100_000];

/// Lines above this multiple of the largest value are not drawn, so that values stay legible.
pub(crate) const AT_MOST: f64 = 1.6;

/// Lines below this share of the largest value are not drawn.
const AT_LEAST: f64 = 0.02;

/// Largest number of lines.
const LINES: usize = 2;

/// Returns the lines for the rates of test cases: of the line rate, if the run has a link and all
/// frames have one size, and of the IMIX rates of common links, those nearest to the largest value.
pub(crate) fn of_cases(info: &RunInfo, cases: &[&TestCase], values: &[f64]) -> Vec<Reference> {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let Some(first) = cases.first() else {
        return Vec::new();
    };
    if largest <= 0.0 {
        return Vec::new();
    }
    let size = first.case.stream.frame_size_bytes;
    let is_one_size = cases.iter().all(|case| {
        case.case.stream.frame_size_bytes == size && case.case.variant.profile.is_none()
    });
    let mut lines = Vec::new();
    if let (Some(link), true) = (link::link_speed(info), is_one_size) {
        let line_rate = link.line_rate_pps(size);
        lines.push(Reference::new(line_rate, format!("line rate {link}")));
    }
    for megabits in COMMON {
        let link = LinkSpeed::megabits(megabits);
        lines.push(Reference::new(imix_need(link), format!("IMIX on {link}")));
    }
    lines.retain(|line| line.at <= AT_MOST * largest && line.at >= AT_LEAST * largest);
    // nearest to the largest value first
    lines.sort_by(|a, b| {
        (a.at / largest)
            .ln()
            .abs()
            .total_cmp(&(b.at / largest).ln().abs())
    });
    lines.truncate(LINES);
    lines.sort_by(|a, b| a.at.total_cmp(&b.at));
    lines
}

/// Returns a line at the line rate for frames of this mean size, if it is near enough to the values
/// to leave them legible.
pub(crate) fn ceiling(link: LinkSpeed, size: FrameSize, curves: &[Curve]) -> Option<Curve> {
    let rate = link.line_rate_pps(size);
    let largest = values(curves).fold(0.0, f64::max);
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let from = points().map(|(at, _)| *at).reduce(f64::min)?;
    let to = points().map(|(at, _)| *at).reduce(f64::max)?;
    let is_near = rate <= AT_MOST * largest && rate >= AT_LEAST * largest;
    is_near
        .then(|| Curve::new(format!("line rate {link}"), vec![(from, rate), (to, rate)]).dashed())
}

/// Returns the frames per second of the simple IMIX that fill a link: the rate that a router on it
/// must forward.
fn imix_need(link: LinkSpeed) -> f64 {
    link.line_rate_pps(Mix::imix().mean())
}
