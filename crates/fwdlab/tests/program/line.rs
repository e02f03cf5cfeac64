//! `--link`: line rates on links without one, counted from outside by the ports; their output, and
//! what is refused. Start with [`tables_of_rfc2544_have_the_theoretical_maximum`].

use std::fs;

use serde_json::Value;

use crate::support::{
    Lab, TINY, all_outcomes, count, dropped, list, number, passed, refused, root, skipped,
};

/// Rate of 64-byte frames that fills 100 Mbit/s: 100e6 / ((64 + 20) * 8) (RFC 2544 App. B).
const FULL_PPS: f64 = 148_809.523_8;

/// Returns a command line for a simulated DUT.
fn sim(line: &str) -> String {
    format!("{line} --engine sim")
}

fn outcome<'a>(document: &'a Value, procedure: &str) -> &'a Value {
    let mut all = all_outcomes(document).into_iter();
    all.find(|outcome| outcome["procedure"] == procedure)
        .unwrap_or_else(|| panic!("no {procedure}: {document}"))
}

/// Theoretical rates of 1 Gbit/s (docs/methodology.md, "Units and line rates"); the link may be
/// given in both places.
#[test]
fn tables_of_rfc2544_have_the_theoretical_maximum() {
    let lab = Lab::new();
    let suite =
        "rfc2544 --sizes 64,512,1518 --tests throughput,frame-loss --resolution 0.1 --link 1G";
    let line = format!("{suite} --dut capacity=744047,link=1G");
    let text = lab.run(&sim(&line));
    text.code(0).prints(&[
        "64 B 1.488 Mpps",
        "512 B 235.0 kpps 235.0 kpps 100 %",
        "1518 B 81.27 kpps 81.27 kpps 100 %",
        "no loss at line rate",
        "link simulated link 1 Gbit/s",
    ]);
    let one = lab.json(&sim(&line));
    // 744,047 is half of 1,488,095
    let found = &outcome(&one, "throughput")["found"];
    assert_eq!(number(&found["line_rate_pps"]).floor(), 1_488_095.0);
    assert!((number(&found["percent"]) - 50.0).abs() < 0.1, "{found}");
    for trial in list(&one["trials"]) {
        let line = 1e9 / (8.0 * (number(&trial["frame_size_bytes"]) + 20.0));
        for stretch in list(&trial["asked"]["question"]["stretches"]) {
            let peak = number(&stretch["from_pps"]).max(number(&stretch["to_pps"]));
            assert!(peak <= line + 1e-6, "{trial}");
        }
    }
    let other = lab.json(&sim(&format!("{suite} --dut capacity=744047")));
    assert_eq!(all_outcomes(&one), all_outcomes(&other));
    // a tester that cannot fill the line reports it, and percentages still refer to the line
    let short = lab.json(&sim(&format!("{suite} --dut generator=1e5")));
    let found = &outcome(&short, "throughput")["found"];
    assert_eq!(
        (number(&found["max_load_pps"]), &found["tester_bound"]),
        (1e5, &true.into())
    );
    assert!((number(&found["percent"]) - 6.72).abs() < 1e-6, "{found}");
}

/// Arguments that the tests of the commands leave out; `cli` and `measure` test the others.
#[test]
fn loads_that_no_line_carries_are_refused_before_any_traffic() {
    let lab = Lab::new();
    let table =
        "rfc2544 --max 50% => 2: 50% needs a link speed, and these links are virtual: add --link 1G
        ramp --link 100M --target 101% => 2: ABOVE
        soak --link 100M --load 150kpps => 2: ABOVE
        soak --link 100M --min 150kpps => 2: ABOVE
        rfc2544 --link 100M --max 148kpps => 2: 84459 frames per second of 128 bytes";
    let above =
        "more than the emulated link 100 Mbit/s carries: 148810 frames per second of 64 bytes";
    refused(&table.replace("ABOVE", above), |line| lab.run(line));
    assert!(!lab.runs().exists() || fs::read_dir(lab.runs()).unwrap().next().is_none());
}

mod alone {
    use super::*;

    /// The generator's port counts half of the line rate in each direction.
    #[test]
    fn half_of_an_emulated_link_is_offered() {
        let lab = Lab::alone();
        let of = |line: &str| {
            let document = lab.json(line);
            assert_eq!(document["info"]["parameters"]["link_bps"], 100_000_000);
            let trial = list(&document["trials"]).last().unwrap();
            let handed = passed(trial, "generator_port") + dropped(trial, "generator_port");
            let due = count(&trial["frames_sent"]) + count(&trial["frames_not_sent"]);
            assert_eq!(handed, count(&trial["frames_sent"]), "{trial}");
            (handed, due, document["info"]["facts"]["link"].clone())
        };
        let half = "trial --link 100M --load 50% --for 2s";
        let small = format!("{half} --size 64");
        // 74,404.76 frames per second for two seconds
        let due = FULL_PPS.round() as u64;
        let one = of(&sim(&small));
        assert_eq!(one, (due, due, "simulated link 100 Mbit/s".into()));
        let both = of(&sim(&format!("{small} --both-directions")));
        assert_eq!((both.0, both.1), (2 * due, 2 * due));
        // twelve frames take 4582 bytes of the line
        let mix = of(&sim(&format!("{half} --profile imix")));
        assert_eq!(mix.1, (1e8_f64 * 12.0 / (8.0 * 4582.0)).round() as u64);

        if !root() {
            return;
        }
        let (handed, all, link) = of(&small);
        assert_eq!(all, due);
        assert_eq!(link, "emulated link 100 Mbit/s");
        // frames delayed by a stall of the sender are not sent later, and a generator that falls
        // short reports it
        assert!(handed <= due, "{handed} of {due}");
        if handed * 1000 < due * 995 {
            skipped(&format!(
                "this host held the sender up: {handed} of {due} frames"
            ));
        }
        let tiny = lab.json(&format!("{TINY} --link 10M"));
        for trial in list(&tiny["trials"]) {
            let load_pps = number(&trial["intended_load_pps"]);
            assert!((load_pps - 1e7 / 672.0).abs() < 1e-6, "{trial}");
        }
        lab.assert_clean("half of a link");
    }
}
