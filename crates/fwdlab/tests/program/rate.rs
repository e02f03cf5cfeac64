//! `fwdlab rate`: its JSON, and usage errors. `manual` compares its text with the manual's
//! examples; `model` tests the arithmetic. Start with [`keys_carry_units`].

use std::process::Command;

use serde_json::Value;

use crate::support::{PROGRAM, ended, list, number, tool};

fn json(line: &str) -> Value {
    let program = [PROGRAM, "rate", "--json"];
    let words: Vec<&str> = program.into_iter().chain(line.split_whitespace()).collect();
    serde_json::from_str(&tool(&words)).unwrap()
}

#[track_caller]
fn near(value: &Value, expect: f64, relative: f64) {
    let value = number(value);
    assert!(
        (value / expect - 1.0).abs() <= relative,
        "{value}, not {expect}"
    );
}

#[test]
fn one_rate_in_every_way() {
    let document = json("14.88Mpps --size 64 --link 10G --cycles 438 --clock 2.2GHz --watts 19");
    let [output] = list(&document["rates"]) else {
        panic!("{document}");
    };
    assert_eq!(output["rate_pps"], 14_880_000.0);
    assert_eq!(output["l1_bps"], 14_880_000.0 * 84.0 * 8.0);
    assert_eq!(output["l2_bps"], 14_880_000.0 * 64.0 * 8.0);
    assert_eq!(output["l3_bps"], 14_880_000.0 * 46.0 * 8.0);
    assert_eq!(output["buffer_bytes"], 60);
    near(&output["line_rate_pps"], 1e10 / 672.0, 1e-12);
    near(&output["line_share_percent"], 99.9936, 1e-9);
    near(&output["line_interval_ns"], 67.2, 1e-9);
    assert_eq!(output["imix_estimate"]["line_limited"], true);
    near(&output["joules_per_frame"], 19.0 / 14.88e6, 1e-9);
    near(&output["effective_clock_hz"], 14.88e6 * 438.0, 1e-9);
    near(&output["cores"], 14.88e6 * 438.0 / 2.2e9, 1e-9);
    let at_line_rate = &output["core_cycles_per_frame_at_line_rate"];
    near(at_line_rate, 2.2 * 67.2, 1e-9);
    assert_eq!(list(&output["warnings"]).len(), 0);

    // padded, and above line rate: the warnings are next to the figures
    let output = &json("20Mpps --size 60")["rates"][0];
    assert_eq!(list(&output["warnings"]).len(), 2, "{output}");
    assert_eq!(output["mean_size_bytes"], 64.0);
}

/// With given sizes and links, the tables have no other rows.
#[test]
fn tables_contain_the_requested_sizes() {
    assert_eq!(list(&json("")["minimum_router"]).len(), 7);
    let document = json("--link 10M,1G --size 768");
    let rates = list(&document["line_rates"]);
    let rates: Vec<&Value> = rates.iter().map(|rate| &rate["line_rate_pps"]).collect();
    assert_eq!(rates, [1586_u64, 158_629]);
    assert!(document["mixes"].is_null() && document["minimum_router"].is_null());
}

/// Every number has its unit in its name, except counts and weights.
#[test]
fn keys_carry_units() {
    const UNITS: &str = "_pps _bps _bytes _percent _ns _hz watts joules_per_frame per_gbps_l2 cycles_per_frame _at_line_rate bps_l2";
    fn check(value: &Value, key: &str) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| check(value, key)),
            Value::Array(values) => values.iter().for_each(|value| check(value, key)),
            Value::Number(_) => {
                let unit = UNITS.split(' ').any(|unit| key.ends_with(unit));
                assert!(unit || ["weight", "cores"].contains(&key), "{key}");
            }
            _ => {}
        }
    }
    check(&json(""), "");
    let all = "5Mpps --size 64,imix --clock 2GHz --cycles 400 --watts 19 --idle-watts 12";
    check(&json(all), "");
}

/// One error of each kind that `model` refuses, and those that only the command can find.
#[test]
fn wrong_values_are_code_2_and_list_valid_ones() {
    for (line, words) in [
        ("5", "no unit"),
        ("max --size 7q", "character 2"),
        ("max --link 10", "2.5G"),
        ("max --clock 2.2", "2.2GHz"),
        (
            "1Mpps --watts 5 --idle-watts 6",
            "--idle-watts 6 is more than --watts 5",
        ),
        ("--watts 19", "RATE"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.arg("rate").args(line.split(' '));
        let ended = ended(command);
        ended.code(2).says(&[words]);
        assert_eq!(ended.out, "");
    }
}
