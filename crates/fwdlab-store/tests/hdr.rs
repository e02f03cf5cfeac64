//! The HDR log compared with another reader: the Python implementation of the HdrHistogram project.
//!
//! `scripts/bootstrap --tests` installs it; without it the test counts as skipped.

use std::process::Command;
use std::time::{Duration, SystemTime};

use fwdlab_model::latency::Bucket;
use fwdlab_store::hdr::{Interval, log};

const READER: &str = "
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, (1 << 40) - 1, 3))
found = []
while True:
    h = reader.get_next_interval_histogram()
    if h is None:
        break
    found.append({'count': h.get_total_count(), 'max': h.get_max_value(), 'min': h.get_min_value(),
        'percentiles': [h.get_value_at_percentile(p) for p in (50, 90, 99, 99.9)],
        'start_ms': h.get_start_time_stamp(), 'end_ms': h.get_end_time_stamp()})
print(json.dumps(found))
";

fn python() -> Option<String> {
    let venv = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python3");
    [venv, "python3"]
        .into_iter()
        .find(|python| {
            Command::new(python)
                .args(["-c", "import hdrh.log"])
                .output()
                .is_ok_and(|o| o.status.success())
        })
        .map(str::to_owned)
}

/// Times of 1000 to 1999 us in buckets of 8 us, 8 in each, and one that took a second.
fn latencies() -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = (0..125)
        .map(|n| Bucket {
            low: 1_000_000 + 8000 * n,
            high: 1_007_999 + 8000 * n,
            count: 8,
        })
        .collect();
    buckets.push(Bucket {
        low: 1_000_000_000,
        high: 1_000_000_000,
        count: 1,
    });
    buckets
}

#[test]
fn another_reader_finds_the_same() {
    let Some(python) = python() else {
        println!(
            "SKIPPED: another_reader_finds_the_same: Python's hdrhistogram is not installed; scripts/bootstrap --tests installs it"
        );
        return;
    };
    let latencies = latencies();
    let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let interval = |start, latencies| Interval {
        tag: None,
        start: Duration::from_secs(start),
        duration: Duration::from_secs(2),
        latencies,
    };
    let text = log(
        "a test",
        begin,
        &[interval(0, &latencies), interval(2, &latencies[..1])],
    );
    let file = std::env::temp_dir().join(format!("fwdlab-hdr-{}.hlog", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let output = Command::new(python)
        .args(["-c", READER])
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["count"], 1001);
    assert_eq!(found[1]["count"], 8);
    assert_eq!(found[0]["start_ms"], 1_800_000_000_000.0);
    assert_eq!(found[1]["end_ms"], 1_800_000_004_000.0);
    let close = |value: &serde_json::Value, to: u64| {
        let value = value.as_u64().unwrap();
        assert!(
            value.abs_diff(to) * 1000 <= to,
            "{value} where {to} is known"
        );
    };
    close(&found[0]["min"], 1_007_999);
    close(&found[0]["max"], 1_000_000_000);
    // nearest ranks 501, 901, 991 and 1000 of 1001
    for (index, bucket) in [62, 112, 123, 124].into_iter().enumerate() {
        close(&found[0]["percentiles"][index], latencies[bucket].high);
    }
}
