//! `fwdlab rate` as people and programs read it: the tables of the field, values that agree with each other, units, and
//! the manual's examples. The arithmetic itself is tested in `model`.

use serde_json::Value;

use crate::support::{PROGRAM, tool};

fn rate(arguments: &[&str]) -> String {
    tool(&[&[PROGRAM, "rate"], arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&rate(&[arguments, &["--json"]].concat())).unwrap()
}

/// The only rate of a document.
fn one(arguments: &[&str]) -> Value {
    let document = json(arguments);
    assert_eq!(document["rates"].as_array().unwrap().len(), 1);
    document["rates"][0].clone()
}

#[track_caller]
fn near(value: &Value, expect: f64, relative: f64) {
    let value = value.as_f64().unwrap();
    assert!(
        (value / expect - 1.0).abs() <= relative,
        "{value}, not {expect}"
    );
}

/// The row of a table that begins with this word, its numbers without separators.
fn row(text: &str, first: &str) -> Vec<String> {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next() == Some(first));
    line.unwrap_or_else(|| panic!("no row `{first}` in:\n{text}"))
        .split_whitespace()
        .skip(1)
        .map(|cell| cell.replace(',', ""))
        .collect()
}

/// docs/methodology.md, "Units and line rates", the columns 1G, 2.5G, 10G, 25G, 40G and 100G.
#[test]
fn the_table_of_line_rates() {
    let text = rate(&[]);
    for (size, rates) in [
        ("64", "1488095 3720238 14880952 37202380 59523809 148809523"),
        ("512", "234962 587406 2349624 5874060 9398496 23496240"),
        ("1518", "81274 203185 812743 2031859 3250975 8127438"),
        ("9000", "13858 34645 138580 346452 554323 1385809"),
    ] {
        assert_eq!(row(&text, size).join(" "), rates);
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    // RFC 2544 App. B, Ethernet
    let text = rate(&["--link", "10M", "--size", "64,768,1518"]);
    assert_eq!(row(&text, "64"), ["14880"]);
    assert_eq!(row(&text, "768"), ["1586"]);
    assert_eq!(row(&text, "1518"), ["812"]);
    assert!(text.contains("60, 764, 1514"), "{text}");
}

#[test]
fn the_table_of_mixes() {
    let text = rate(&[]);
    for (name, mean, pps) in [
        ("imix", "361.8333", "3273679"),
        ("imix6", "362.0000", "3272251"),
        ("bimodal", "728.1728", "1670736"),
        ("tcp-imix", "433.0540", "2759053"),
    ] {
        let row = row(&text, name);
        assert_eq!(row[row.len() - 2..], [mean, pps], "{name}");
    }
}

/// Seven links; the talk has 1.48 M, 3 M, 350 K and 700 K for the first and ten times that for 10G.
#[test]
fn the_table_of_the_minimum_router() {
    let text = rate(&[]);
    let (_, table) = text.split_once("Minimum router").unwrap();
    for link in ["1G", "2.5G", "5G", "10G", "25G", "40G", "100G"] {
        assert_eq!(row(table, link).len(), 6, "{link}");
    }
    let gigabit = ["1488095", "2976190", "327367", "654735", "352775", "705550"];
    assert_eq!(row(table, "1G"), gigabit);
    assert_eq!(row(table, "10G")[4], "3527752");
    let rows = json(&[])["minimum_router"].as_array().unwrap().len();
    assert_eq!(rows, 7);
}

#[test]
fn one_rate_in_every_way() {
    let said = one(&["14.88Mpps", "--size", "64", "--link", "10G"]);
    assert_eq!(said["rate_pps"], 14_880_000.0);
    assert_eq!(said["l1_bps"], 14_880_000.0 * 84.0 * 8.0);
    assert_eq!(said["l2_bps"], 14_880_000.0 * 64.0 * 8.0);
    assert_eq!(said["l3_bps"], 14_880_000.0 * 46.0 * 8.0);
    assert_eq!(said["buffer_bytes"], 60);
    near(&said["line_rate_pps"], 1e10 / 672.0, 1e-12);
    near(&said["line_share_percent"], 99.9936, 1e-9);
    near(&said["line_interval_ns"], 67.2, 1e-9);
    assert_eq!(said["imix_estimate"]["line_limited"], true);
    assert_eq!(said["warnings"].as_array().unwrap().len(), 0);

    let text = rate(&["14.88Mpps"]);
    for words in [
        "14,880,000",
        "9,999,360,000",
        "7,618,560,000",
        "5,475,840,000",
        "pkt-gen -l 60",
    ] {
        assert!(text.contains(words), "{words} is not in:\n{text}");
    }
}

/// What is said in bit/s or percent means the same frames when it is typed.
#[test]
fn both_ways() {
    for size in ["64", "imix", "7a4dg", "1518"] {
        let said = one(&["1Mpps", "--size", size]);
        let typed = |key: &str, unit: &str| format!("{}{unit}", said[key]);
        for text in [
            typed("l1_bps", "bps"),
            typed("l2_bps", "bps-l2"),
            typed("l3_bps", "bps-l3"),
            typed("line_share_percent", "%"),
        ] {
            near(&one(&[&text, "--size", size])["rate_pps"], 1e6, 1e-9);
        }
    }
}

/// Figures of published reviews: docs/methodology.md, "Energy and cycles".
#[test]
fn energy_and_cycles() {
    let said = one(&["15.1Mpps", "--watts", "19"]);
    near(&said["joules_per_frame"], 1.258e-6, 5e-4);
    assert!(rate(&["15.1Mpps", "--watts", "19"]).contains("1.258"));
    let said = one(&["5.01Mpps", "--cycles", "438", "--clock", "2.2GHz"]);
    near(&said["effective_clock_hz"], 2.194e9, 5e-4);
    near(&said["line_share_percent"], 33.67, 2e-4);
    near(&said["cores"], 2194.0 / 2200.0, 1e-3);
    near(
        &said["core_cycles_per_frame_at_line_rate"],
        2.2 * 67.2,
        1e-9,
    );
}

#[test]
fn doubts_travel_with_the_figures() {
    let said = one(&["20Mpps", "--size", "60"]);
    let warnings = said["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_eq!(said["mean_size_bytes"], 64.0);
    let text = rate(&["20Mpps", "--size", "60"]);
    assert!(text.contains("padded to 64"), "{text}");
    assert!(text.contains("above line rate"), "{text}");
}

/// A number without a unit in its name is no number of ours; counts and weights have none.
#[test]
fn keys_carry_units() {
    const UNITS: [&str; 12] = [
        "_pps",
        "_bps",
        "_bytes",
        "_percent",
        "_ns",
        "_hz",
        "watts",
        "joules_per_frame",
        "per_gbps_l2",
        "cycles_per_frame",
        "_at_line_rate",
        "bps_l2",
    ];
    fn check(value: &Value, key: &str) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| check(value, key)),
            Value::Array(values) => values.iter().for_each(|value| check(value, key)),
            Value::Number(_) => {
                let unit = UNITS.iter().any(|unit| key.ends_with(unit));
                assert!(unit || ["weight", "cores"].contains(&key), "{key}");
            }
            _ => {}
        }
    }
    check(&json(&[]), "");
    let all = "5Mpps --size 64,imix --clock 2GHz --cycles 400 --watts 19 --idle-watts 12";
    check(&json(&all.split(' ').collect::<Vec<_>>()), "");
}

#[test]
fn wrong_values_are_code_2_and_say_what_is_right() {
    for (arguments, words) in [
        (&["5"][..], "no unit"),
        (&["1,488Mpps"], "1.488Mpps"),
        (&["0%"], "above 0%"),
        (&["9.4Gbps-l4"], "9.4Gbps-l2"),
        (&["max", "--size", "7q"], "character 2"),
        (&["max", "--size", "0"], "64 to 65535"),
        (&["max", "--link", "10"], "2.5G"),
        (&["max", "--clock", "2.2"], "2.2GHz"),
        (&["max", "--watts", "-1"], "-1"),
        (
            &["1Mpps", "--watts", "5", "--idle-watts", "6"],
            "--idle-watts 6 is more than --watts 5",
        ),
        (&["10MBps"], "bytes"),
        (&["10Bps"], "bytes"),
        (&["--watts", "19"], "RATE"),
    ] {
        let output = assert_cmd::Command::new(PROGRAM)
            .arg("rate")
            .args(arguments)
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
        assert!(output.stdout.is_empty());
    }
}
