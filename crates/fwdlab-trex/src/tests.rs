//! Calls as clients make them, on ports that are values: what is answered, to whom, and what is refused.

use fwdlab_lab::ports::counters::Counters;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::framing;
use crate::limits;
use crate::methods::METHODS;
use crate::model::Model;
use crate::rpc::{self, Fault};
use crate::wire::Wire;

struct Still(&'static str);

impl Wire for Still {
    fn name(&self) -> &str {
        self.0
    }
    fn mac(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 1]
    }
    fn speed_bps(&self) -> u64 {
        1_000_000_000
    }
    fn kind(&self) -> Option<&str> {
        Some("veth")
    }
    fn is_up(&self) -> bool {
        true
    }
    fn counters(&self) -> Result<Counters, String> {
        Ok(Counters {
            rx_packets: 3,
            rx_bytes: 300,
            tx_packets: 10,
            tx_bytes: 600,
            ..Counters::default()
        })
    }
}

fn model() -> Model {
    Model::new(vec![Box::new(Still("pa")), Box::new(Still("pb"))]).unwrap()
}

fn ask(model: &mut Model, message: &Value) -> Value {
    serde_json::from_slice(&rpc::answer(model, message.to_string().as_bytes())).unwrap()
}

/// A request with the handle.
fn request(model: &Model, method: &str, mut params: Value) -> Value {
    params["api_h"] = model.handle.clone().into();
    json!({"jsonrpc": "2.0", "id": "abcdefgh", "method": method, "params": params})
}

fn call(model: &mut Model, method: &str, params: Value) -> Result<Value, (i64, String)> {
    let request = request(model, method, params);
    let answer = ask(model, &request);
    assert_eq!(answer["id"], "abcdefgh");
    match answer.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err((
            answer["error"]["code"].as_i64().unwrap(),
            answer["error"]["specific_err"].as_str().unwrap().to_owned(),
        )),
    }
}

fn acquire(model: &mut Model, user: &str, session: u32, force: bool) -> Result<String, String> {
    let params = json!({"port_id": 0, "user": user, "session_id": session, "force": force});
    let handler = call(model, "acquire", params).map_err(|(code, text)| {
        assert_eq!(code, Fault::EXECUTE);
        text
    })?;
    Ok(handler.as_str().unwrap().to_owned())
}

#[test]
fn versions_are_agreed_upon_as_trex_does() {
    let mut model = model();
    let handle = model.handle.clone();
    for (name, major, minor, fits) in [
        ("STL", 5, 1, true),
        ("STL", 5, 0, true),
        ("STL", 5, 2, false),
        ("STL", 4, 1, false),
        ("STL", 6, 0, false),
        ("ASTF", 5, 1, false),
    ] {
        let params = json!({"name": name, "major": major, "minor": minor});
        let said = call(&mut model, "api_sync_v2", params);
        match fits {
            true => assert_eq!(said, Ok(json!({"api_h": handle}))),
            false => assert_eq!(
                said.unwrap_err().0,
                Fault::EXECUTE,
                "{name} {major}.{minor}"
            ),
        }
    }
    let old = json!({"api_vers": [{"type": "core", "major": 5, "minor": 1}]});
    let said = call(&mut model, "api_sync", old).unwrap();
    assert_eq!(
        said,
        json!({"api_vers": [{"type": "core", "api_h": handle}]})
    );
}

#[test]
fn without_the_handle_nothing_but_the_first_calls() {
    let mut model = model();
    for (method, _) in METHODS {
        for params in [json!({}), json!({"api_h": "12345678"})] {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let answer = ask(&mut model, &request);
            match *method {
                "get_version" | "ping" => assert!(answer["result"].is_object(), "{answer}"),
                "api_sync" | "api_sync_v2" => {
                    assert_eq!(answer["error"]["code"], Fault::PARAMS, "{answer}");
                }
                _ => assert!(answer["error"]["specific_err"].is_string(), "{answer}"),
            }
        }
    }
}

#[test]
fn errors_have_trexs_codes_and_batches_their_order() {
    let mut model = model();
    for (text, code) in [
        ("{", Fault::PARSE),
        ("", Fault::PARSE),
        ("[]", Fault::REQUEST),
        ("7", Fault::REQUEST),
        ("{}", Fault::REQUEST),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            Fault::REQUEST,
        ),
        (r#"{"jsonrpc":"2.0","method":"ping"}"#, Fault::REQUEST),
        (r#"{"jsonrpc":"2.0","id":1}"#, Fault::REQUEST),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#,
            Fault::PARAMS,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no"}"#, Fault::METHOD),
    ] {
        let answer: Value =
            serde_json::from_slice(&rpc::answer(&mut model, text.as_bytes())).unwrap();
        assert_eq!(answer["error"]["code"], code, "{text}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer = rpc::answer(&mut model, deep.as_bytes());
    assert!(String::from_utf8(answer).unwrap().contains("-32700"));

    let ping = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": null});
    let wrong = json!({"jsonrpc": "2.0", "id": {"a": [1]}, "method": "no"});
    let answer = ask(
        &mut model,
        &json!([ping(json!("x")), wrong, ping(json!(3))]),
    );
    let ids: Vec<&Value> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, [&json!("x"), &json!({"a": [1]}), &json!(3)]);
    assert!(answer[1]["error"].is_object() && answer[2]["result"].is_object());
    assert!(ask(&mut model, &json!([ping(json!(1))]))["result"].is_object());

    let packed = framing::wrap(ping(json!(1)).to_string().into_bytes(), true);
    let answer = framing::unwrap(&rpc::answer(&mut model, &packed)).unwrap();
    assert!(answer.compressed);
    let large = vec![b' '; limits::MESSAGE + 1];
    let answer: Value = serde_json::from_slice(&rpc::answer(&mut model, &large)).unwrap();
    assert_eq!(answer["error"]["code"], Fault::INTERNAL);
}

#[test]
fn a_port_has_one_owner_and_force_takes_it_away() {
    let mut model = model();
    model.events.take(99);
    let first = acquire(&mut model, "alice", 1, false).unwrap();
    assert_eq!(acquire(&mut model, "alice", 1, false), Ok(first.clone()));
    let other = acquire(&mut model, "alice", 2, false).unwrap_err();
    assert!(other.contains("already taken by 'alice'"), "{other}");
    let other = acquire(&mut model, "bob", 3, false).unwrap_err();
    assert_eq!(other, "port is already taken by 'alice'");
    let second = acquire(&mut model, "bob", 3, true).unwrap();
    assert_ne!(first, second);
    let release = |handler: &str| json!({"port_id": 0, "handler": handler});
    let refused = call(&mut model, "release", release(&first)).unwrap_err();
    assert_eq!(refused.0, Fault::EXECUTE);
    assert_eq!(
        call(&mut model, "get_owner", json!({"port_id": 0})),
        Ok(json!({"owner": "bob"}))
    );
    assert_eq!(call(&mut model, "release", release(&second)), Ok(json!({})));
    assert!(call(&mut model, "release", release(&second)).is_err());
    let told = call(&mut model, "get_async_events", json!({"session_id": 99})).unwrap();
    let told = told["data"].as_array().unwrap();
    let words: Vec<(u64, &str, bool)> = told
        .iter()
        .map(|event| {
            (
                event["type"].as_u64().unwrap(),
                event["data"]["who"].as_str().unwrap(),
                event["data"]["force"].as_bool().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        words,
        [
            (5, "alice", false),
            (5, "alice", false),
            (5, "bob", true),
            (6, "bob", false)
        ]
    );
}

#[test]
fn streams_come_back_as_they_were_said_and_move_the_state() {
    let mut model = model();
    let handler = acquire(&mut model, "alice", 1, false).unwrap();
    let with = |more: Value| {
        let mut params = json!({"port_id": 0, "handler": handler});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        params
    };
    let stream = json!({"name": "S0", "isg": 0.5, "packet": {"binary": "AAAA"}, "odd": [null]});
    let add = |id: u32, profile: &str| {
        with(json!({"stream_id": id, "stream": stream, "profile_id": profile}))
    };
    call(&mut model, "add_stream", add(16, "_")).unwrap();
    call(&mut model, "add_stream", add(3, "other")).unwrap();
    let twice = call(&mut model, "add_stream", add(16, "_")).unwrap_err();
    assert_eq!(twice.0, Fault::EXECUTE);
    let all = call(
        &mut model,
        "get_all_streams",
        json!({"port_id": 0, "profile_id": "*"}),
    )
    .unwrap();
    assert_eq!(
        all,
        json!({"profiles": {"_": {"16": stream}, "other": {"3": stream}}})
    );
    let status = |model: &mut Model| {
        call(
            model,
            "get_port_status",
            json!({"port_id": 0, "profile_id": "*"}),
        )
        .unwrap()
    };
    let now = status(&mut model);
    assert_eq!(
        now["state_profile"],
        json!({"_": "STREAMS", "other": "STREAMS"})
    );
    assert_eq!(
        (&now["state"], &now["max_stream_id"]),
        (&json!("STREAMS"), &json!(16))
    );
    call(
        &mut model,
        "remove_stream",
        with(json!({"stream_id": 3, "profile_id": "other"})),
    )
    .unwrap();
    assert_eq!(status(&mut model)["state_profile"], json!({"_": "STREAMS"}));
    call(
        &mut model,
        "remove_all_streams",
        with(json!({"profile_id": "*"})),
    )
    .unwrap();
    assert_eq!(status(&mut model)["state"], "IDLE");
    let stranger = json!({"port_id": 0, "handler": "x", "stream_id": 1, "stream": {}});
    assert_eq!(
        call(&mut model, "add_stream", stranger).unwrap_err().0,
        Fault::EXECUTE
    );
}

#[test]
fn counters_are_whole_rates_are_not_and_bytes_have_their_fcs() {
    let mut model = model();
    let stats = call(&mut model, "get_port_stats", json!({"port_id": 1})).unwrap();
    assert_eq!(stats["opackets"], json!(10));
    assert_eq!(stats["obytes"], json!(640));
    assert_eq!(stats["ibytes"], json!(312));
    let global = call(&mut model, "get_global_stats", json!({})).unwrap();
    assert_eq!(global["m_total_tx_pkts"], json!(20));
    for (all, rate) in [
        (&stats, "m_total_tx_pps"),
        (&global, "m_tx_bps"),
        (&global, "m_cpu_util"),
    ] {
        assert!(all[rate].is_f64(), "{rate}: {}", all[rate]);
    }
    let lists = ["names", "values"].map(|what| {
        let said = call(
            &mut model,
            &format!("get_port_xstats_{what}"),
            json!({"port_id": 0}),
        );
        said.unwrap()[format!("xstats_{what}")]
            .as_array()
            .unwrap()
            .len()
    });
    assert_eq!(lists[0], lists[1]);
}

/// Values that are right somewhere, and values that are right nowhere.
fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => (0u64..3).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        2 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        2 => prop_oneof![Just("_"), Just("*"), Just("STL"), Just("core"), Just("queue"), Just("status"), Just("00:00:00:01:00:00")].prop_map(Value::from),
        1 => ".{0,8}".prop_map(Value::from),
        1 => Just(json!({"enabled": true})),
        1 => Just(json!({"promiscuous": {"enabled": true}})),
        1 => Just(json!([1, 2])),
        1 => Just("x".repeat(10_000).into()),
    ]
}

fn sequences() -> impl Strategy<Value = Vec<(usize, Vec<(usize, Value)>)>> {
    let params = proptest::collection::vec((0..FIELDS.len(), values()), 0..9);
    proptest::collection::vec((0..METHODS.len(), params), 1..60)
}

const FIELDS: [&str; 20] = [
    "port_id",
    "user",
    "session_id",
    "force",
    "profile_id",
    "stream_id",
    "stream",
    "attr",
    "enabled",
    "filtered",
    "type",
    "vlan",
    "dst_mac",
    "command",
    "key",
    "pgids",
    "name",
    "major",
    "minor",
    "get_pkt",
];

proptest! {
    /// Whatever is called in whatever order: an answer that says what is wrong, states that fit, and owners who are not robbed.
    #[test]
    fn any_sequence_of_calls_is_answered(calls in sequences()) {
        let mut model = model();
        let handler = acquire(&mut model, "owner", 77, false).unwrap();
        for (method, fields) in calls {
            let name = METHODS[method].0;
            let mut params = json!({"port_id": 1, "handler": handler, "stream_id": 1, "stream": {}});
            for (field, value) in fields {
                params[FIELDS[field]] = value;
            }
            let taken = name == "release" || params["force"] == json!(true);
            if let Err((code, text)) = call(&mut model, name, params) {
                prop_assert!([Fault::PARAMS, Fault::EXECUTE].contains(&code), "{name}: {code} {text}");
                prop_assert!(!text.is_empty() && text.len() < 1000, "{name}: {text}");
            }
            if taken {
                break;
            }
            let owner = model.ports[0].owner.as_ref().map(|owner| owner.handler.as_str());
            prop_assert_eq!(owner, Some(handler.as_str()), "{}", name);
            for port in &model.ports {
                let any = port.profiles.values().any(|profile| !profile.streams.is_empty());
                prop_assert_eq!(port.state() == "STREAMS", any);
                for profile in port.profiles.values() {
                    let bytes: usize = profile.streams.values().map(|one| one.to_string().len()).sum();
                    prop_assert_eq!(profile.bytes, bytes);
                }
            }
        }
        prop_assert!(METHODS.is_sorted_by_key(|(name, _)| *name));
    }
}
