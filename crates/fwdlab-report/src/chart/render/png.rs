//! Renders a chart as PNG: resvg draws its SVG with fonts from the caller.
//!
//! resvg with only its text feature adds 23 CPU seconds to a clean build (measured when it was
//! chosen), and unlike gnuplot it needs no program at run time. Start with [`draw`].

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::svg;
use crate::chart::Chart;

/// Pixels of the PNG per pixel of the SVG, for high-resolution screens.
const SCALE: f32 = 2.0;

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// There is no font.
    #[error(
        "cannot draw a PNG: no font was found; install one (Debian: fonts-dejavu-core), or take --format svg"
    )]
    NoFont,
    /// resvg rejected the SVG: a bug in fwdlab.
    #[error("cannot draw a PNG of chart {chart}: {reason}")]
    Draw {
        /// Name of the chart.
        chart: String,
        /// The error.
        reason: String,
    },
}

/// The fonts for text.
#[derive(Clone)]
pub struct Fonts(Arc<fontdb::Database>);

impl Fonts {
    /// Loads fonts from the contents of font files; ignores files that are not fonts.
    ///
    /// # Errors
    /// [`PngError::NoFont`] if none of them is a font.
    pub fn new(files: impl IntoIterator<Item = Vec<u8>>) -> Result<Fonts, PngError> {
        let mut all = fontdb::Database::new();
        files.into_iter().for_each(|file| all.load_font_data(file));
        let family = |is_wanted: &dyn Fn(&fontdb::FaceInfo) -> bool| {
            let found = all.faces().find(|face| is_wanted(face));
            found.and_then(|face| Some(face.families.first()?.0.clone()))
        };
        let sans = family(&|face| !face.monospaced && face.style == fontdb::Style::Normal);
        let mono = family(&|face| face.monospaced);
        let any = family(&|_| true).ok_or(PngError::NoFont)?;
        all.set_sans_serif_family(sans.unwrap_or_else(|| any.clone()));
        all.set_monospace_family(mono.unwrap_or(any));
        Ok(Fonts(Arc::new(all)))
    }
}

/// Renders the chart.
///
/// # Errors
/// [`PngError::Draw`] if resvg rejects the SVG.
pub fn draw(chart: &Chart, fonts: &Fonts) -> Result<Vec<u8>, PngError> {
    let wrong = |cause: String| PngError::Draw {
        chart: chart.name.clone(),
        reason: cause,
    };
    let options = Options {
        fontdb: fonts.0.clone(),
        font_family: "sans-serif".into(),
        ..Options::default()
    };
    let tree =
        Tree::from_str(&svg::draw(chart), &options).map_err(|cause| wrong(cause.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let mut picture = size
        .and_then(|size| Pixmap::new(size.width(), size.height()))
        .ok_or_else(|| wrong("it has no size".into()))?;
    resvg::render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut picture.as_mut(),
    );
    picture
        .encode_png()
        .map_err(|cause| wrong(cause.to_string()))
}
