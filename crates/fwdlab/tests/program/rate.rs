//! `fwdlab rate`: its JSON, and usage errors. `manual` compares its text with the manual's
//! examples; `model` tests the arithmetic. Start with [`keys_carry_units`].

use serde_json::Value;

use crate::support::{Lab, list, number, refused};

fn json(line: &str) -> Value {
    Lab::new().json(&format!("rate {line}"))
}

/// Each option is in a figure. `model` tests the others.
#[test]
fn one_rate_in_every_way() {
    let document = json("14.88Mpps --size 64 --link 10G --cycles 438 --clock 2.2GHz --watts 19");
    let [output] = list(&document["rates"]) else {
        panic!("{document}");
    };
    assert_eq!(output["l1_bps"], 14_880_000.0 * 84.0 * 8.0);
    for (figure, expect) in [
        ("line_share_percent", 99.9936),
        ("joules_per_frame", 19.0 / 14.88e6),
        ("cores", 14.88e6 * 438.0 / 2.2e9),
        ("core_cycles_per_frame_at_line_rate", 2.2 * 67.2),
    ] {
        let value = number(&output[figure]);
        assert!((value / expect - 1.0).abs() <= 1e-9, "{figure}: {value}");
    }
    assert_eq!(output["imix_estimate"]["line_limited"], true);
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
    let table = "5 => 2: no unit
        max --size 7q => 2: character 2
        max --link 10 => 2: 2.5G
        max --clock 2.2 => 2: 2.2GHz
        1Mpps --watts 5 --idle-watts 6 => 2: --idle-watts 6 is more than --watts 5
        --watts 19 => 2: RATE";
    refused(table, |line| Lab::new().run(&format!("rate {line}")));
}
