//! Renders the load of a run in progress, window by window.
//!
//! Start with [`load_fragment`].

use crate::chart::{Axis, Chart, Curve, Curves, Size, html};
use crate::markup::Markup;
use crate::number::plural;

/// What was offered and forwarded in a window.
#[derive(Debug, Clone, Copy)]
pub struct LoadWindow {
    /// When it ended, in seconds since the run began.
    pub end_s: f64,
    /// Offered load.
    pub offered_load_pps: f64,
    /// Forwarding rate.
    pub forwarding_rate_pps: f64,
}

/// Renders successive windows as a chart, for the page of another program; empty if there are too
/// few of them.
pub fn load_fragment(windows: &[LoadWindow]) -> String {
    let mut m = Markup::default();
    let [first, _, ..] = windows else {
        return m.finish();
    };
    let curve = |name: &str, of: fn(&LoadWindow) -> f64| {
        let points = windows.iter().map(|one| (one.end_s - first.end_s, of(one)));
        Curve::new(name, points.collect())
    };
    let rates = [
        curve("forwarded", |one| one.forwarding_rate_pps),
        curve("offered", |one| one.offered_load_pps).dashed(),
    ];
    let curves = Curves::new(Axis::time(&rates), Axis::rates(&rates), rates.to_vec());
    let title = format!("The last {}", plural(windows.len(), "window"));
    m.within("figure", &[], |m| {
        html::draw(m, &Chart::curves("load", title, curves.size(Size::Low)));
    });
    m.finish()
}
