//! A meter with a wrong factor, on a simulated DUT, whose truth is known.
//!
//! `measure` tests chains of meters, including meters that are not read or that count other frames.
//! `conservation` tests every meter of the real test bed, to the frame.

use crate::support::{Lab, all_outcomes, count, list, meter};

#[test]
fn a_meter_that_is_off_by_a_factor_is_named() {
    let lab = Lab::new();
    let line = "trial --engine sim --dut capacity=1e6,counters=1024,loss=1e-3 --max 2e6 --load 500kpps --for 1s";
    let line: Vec<&str> = line.split(' ').collect();
    let document = lab.json(&line);
    let [first, second, third] = list(&document["trials"]) else {
        panic!("{document}");
    };
    // two trials cannot distinguish a factor from lost frames
    for trial in [first, second] {
        let reasons = trial["validity"]["reasons"].to_string();
        assert!(reasons.contains("do not add up"), "{reasons}");
    }
    assert_eq!(list(&third["validity"]["reasons"]).len(), 0, "{third}");
    assert_eq!(count(&third["frames_unexplained"]), 0, "{third}");
    assert_eq!(meter(third, "dut_output")["standing"], "approximate");
    assert_eq!(all_outcomes(&document)[0]["answered"], true);
    let reported = lab.run(&line);
    let words: Vec<&str> = reported.code(0).out.split_whitespace().collect();
    let named = "the DUT's output: approximate: it reports 976.6 frames for every 1000";
    assert!(words.join(" ").contains(named), "{}", reported.out);
}
