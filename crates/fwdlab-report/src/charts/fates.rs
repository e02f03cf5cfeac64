//! Chart of the fate of all sent frames: received, and lost at each place, in the order of the
//! path. Start with [`fates()`].

use fwdlab_model::loss::Place;

use crate::chart::{Axis, Chart, Mark, Quantity, Row, Scale, Tone};
use crate::fates::{self, Fate};
use crate::number::{count, percent, share};

/// Draws the chart.
pub(crate) fn fates(fates: &[Fate]) -> Chart {
    let mut legend = vec![(Tone::Received, "received".to_owned())];
    let places = fates::places(fates);
    legend.extend(
        places
            .iter()
            .map(|place| (tone(place), format!("lost {}", place.words()))),
    );
    if fates
        .iter()
        .any(|(_, ledger)| ledger.frames_unexplained > 0)
    {
        legend.push((Tone::Unexplained, "unexplained".into()));
    }
    let rows = fates.iter().map(|(name, ledger)| {
        let sent = ledger.frames_sent as f64;
        let mut parts = vec![(
            Tone::Received,
            "received".to_owned(),
            ledger.frames_received,
        )];
        for loss in &ledger.losses {
            let words = format!(
                "lost {}: {}",
                loss.place.words(),
                fates::counter_words(loss)
            );
            parts.push((tone(&loss.place), words, loss.frames));
        }
        parts.push((
            Tone::Unexplained,
            "unexplained".into(),
            ledger.frames_unexplained,
        ));
        let mut from = 0.0;
        let mut marks = Vec::new();
        for (tone, words, frames) in parts.into_iter().filter(|(.., frames)| *frames > 0) {
            let part = share(frames as f64, sent);
            marks.push(Mark::Bar {
                from,
                to: from + part,
                tone,
                words: format!("{} ({} frames) {words}", percent(part), count(frames)),
            });
            from += part;
        }
        let lost = percent(share(ledger.frames_lost.max(0) as f64, sent));
        Row {
            label: name.clone(),
            value: match sent > 0.0 {
                true => format!("{lost} lost"),
                false => "nothing sent".into(),
            },
            marks,
            ..Row::default()
        }
    });
    let scale = Scale::covering([0.0, 100.0], 5);
    let axis = Axis::linear("share of the frames sent, %", scale, |value| {
        format!("{value}")
    });
    Chart::rows("frames", axis.reading(Quantity::Percent), legend, rows)
}

fn tone(place: &Place) -> Tone {
    match place {
        Place::DutInput => Tone::LostAtInput,
        Place::Between(..) | Place::In(_) => Tone::LostBetween,
        Place::Dut => Tone::LostInDut,
        Place::DutOutput => Tone::LostAtOutput,
        Place::Receiver => Tone::LostByReceiver,
    }
}
