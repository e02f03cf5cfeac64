//! Renders charts, with one file per format. Each has a function `draw` that takes a
//! [`Chart`](super::Chart).
//!
//! `shapes` draws the marks that HTML and SVG share. Start with [`svg::draw`].

pub mod gnuplot;
pub(crate) mod html;
#[cfg(feature = "png")]
pub mod png;
mod shapes;
pub mod svg;
pub mod terminal;
