//! Charts in every format, one file each. Each has a function `draw` that takes a [`Chart`](super::Chart).
//!
//! What html and svg have in common, marks as shapes, is in `shapes`.

pub mod gnuplot;
pub(crate) mod html;
#[cfg(feature = "png")]
pub mod png;
mod shapes;
pub mod svg;
pub mod terminal;
