//! Fuzz target: the parsers of the netbenches archive, each over the same bytes.
//!
//! What every parser promises is checked: every line of a log is counted once, a block has rows,
//! values are finite. Start at [`netbenches`].

use fwdlab_netbenches::command::Command;
use fwdlab_netbenches::config::Traffic;
use fwdlab_netbenches::equilibrium::Equilibrium;
use fwdlab_netbenches::info::Info;
use fwdlab_netbenches::log::Log;
use fwdlab_netbenches::names::{Name, labels};
use fwdlab_netbenches::published::{Plotted, Values};
use fwdlab_netbenches::{readme, rule};

/// Panics if a parser panics or breaks its promise.
pub fn netbenches(data: &[u8]) {
    let log = Log::read(&mut &data[..], &mut Vec::new()).expect("memory can be read");
    let counts = log.counts;
    assert_eq!(counts.samples + counts.known + counts.unknown, counts.lines);
    assert_eq!(log.bytes, data.len() as u64);
    if let Ok(legacy) = rule::legacy(&log) {
        assert!(legacy.range[0] <= legacy.median && legacy.median <= legacy.range[1]);
        assert!(legacy.samples >= 3);
    }
    let ours = rule::apply_rule(&log, Some(&log));
    assert_eq!(ours.median.is_some(), ours.samples > 0);

    let blocks = readme::blocks(data);
    for block in &blocks {
        assert!(!block.rows.is_empty() && block.rows.len() == block.labels.len());
    }
    readme::unmatched_lines(data, &blocks);

    let values = Values::parse(data);
    assert!(values.values.iter().all(|(_, value)| value.is_finite()));
    let plotted = Plotted::parse(data);
    assert!(plotted.rows.iter().all(|row| row.median.is_finite()));
    let info = Info::parse(data);
    Traffic::parse(data);
    Command::parse(data);
    Equilibrium::parse(data);
    let name = Name::parse(&String::from_utf8_lossy(data));
    labels(&name.case, Some(&info));
}
