//! Calls as clients make them, on simulated ports: the answers, and what is refused.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fwdlab_engine::capture::Captured;
use fwdlab_engine::groups::Groups;
use fwdlab_engine::replay::Recording;
use fwdlab_engine::stamps::Kind;
use fwdlab_engine::traffic::{self, Emission};
use fwdlab_engine::{EngineError, Frames, PortSpec, Schedule, SendCounts};
use fwdlab_lab::ports::Port;
use fwdlab_lab::ports::counters::Counters;
use fwdlab_lab::session::listening::FrameCallback;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::framing;
use crate::limits;
use crate::methods::METHODS;
use crate::model::Model;
use crate::rpc::{Fault, Message};
use crate::wire::{LabWire, PortListener, Sending, Wire};

/// A port that receives what it sends.
#[derive(Default)]
struct LoopbackPort {
    name: &'static str,
    frames: Arc<Mutex<Vec<FrameCallback>>>,
    takes: (bool, bool),
}

/// Ends with its listeners.
struct ClosedListeners(Arc<Mutex<Vec<FrameCallback>>>);

impl PortListener for ClosedListeners {
    fn settle(&self, _at_most: Duration) {}
    fn missed(&self) -> Arc<AtomicU64> {
        Arc::default()
    }
}

impl Drop for ClosedListeners {
    fn drop(&mut self) {
        self.0.lock().unwrap().clear();
    }
}

/// The requests to a port without frames: the rates of its streams; it is done when the test sets
/// that.
#[derive(Default)]
struct Fake {
    rates: Vec<f64>,
    sent: Vec<u64>,
}

/// Frames of each stream that the fake reports as sent.
const SENT: u64 = 100;

impl Sending for Fake {
    fn set_rates(&mut self, rates: &[f64]) -> Result<(), EngineError> {
        self.rates = rates.to_vec();
        Ok(())
    }
    fn set_load(&mut self, _load_pps: f64) -> Result<(), EngineError> {
        Ok(())
    }
    fn counts(&mut self) -> Result<SendCounts, EngineError> {
        Ok(SendCounts {
            streams: self.sent.clone(),
            ..SendCounts::default()
        })
    }
    fn is_done(&mut self) -> Result<bool, EngineError> {
        Ok(self.rates.is_empty())
    }
    fn stop(&mut self) -> Result<SendCounts, EngineError> {
        self.counts()
    }
}

impl Wire for LoopbackPort {
    fn name(&self) -> &str {
        self.name
    }
    fn mac(&self) -> [u8; 6] {
        [2, 0, 0, 0, 0, 1]
    }
    fn peer(&self) -> Option<[u8; 6]> {
        Some([2, 0, 0, 0, 0, 2])
    }
    /// Endless traffic is not done before it is changed.
    fn send(
        &self,
        frames: Frames,
        _schedule: Schedule,
        _begin_ns: Option<u64>,
    ) -> Result<Box<dyn Sending>, EngineError> {
        let Frames::Traffic(traffic) = &frames else {
            panic!("traffic is expected");
        };
        let streams = &traffic.traffic.streams;
        let endless = |stream: &&traffic::Stream| stream.timing.mode == Emission::Continuous;
        Ok(Box::new(Fake {
            rates: streams
                .iter()
                .filter(endless)
                .map(|s| s.timing.rate_pps)
                .collect(),
            sent: vec![SENT; streams.len()],
        }))
    }
    fn foreign(&self) -> u64 {
        0
    }
    fn details(&self) -> Result<Vec<u64>, String> {
        Ok(vec![7; 16])
    }
    fn play(
        &self,
        _recording: Recording,
        _rounds: u64,
        _schedule: Schedule,
    ) -> Result<Box<dyn Sending>, EngineError> {
        Ok(Box::new(Fake::default()))
    }
    fn groups(&mut self) -> Option<&mut Groups> {
        None
    }
    fn listen(&self, received: FrameCallback) -> Result<Box<dyn PortListener>, String> {
        self.frames.lock().unwrap().push(received);
        Ok(Box::new(ClosedListeners(self.frames.clone())))
    }
    /// What is sent comes back at once.
    fn push(&mut self, frames: Vec<Vec<u8>>, _gap: Duration) -> Result<(), String> {
        let mut received = self.frames.lock().unwrap();
        for frame in &frames {
            for outgoing in [true, false] {
                let captured = Captured {
                    timestamp_ns: 0,
                    stamped: Kind::User,
                    original_len: frame.len() as u32,
                    bytes: frame,
                    outgoing,
                };
                received.iter_mut().for_each(|received| received(&captured));
            }
        }
        Ok(())
    }
    fn set_accepted(&mut self, everything: bool, multicast: bool) -> Result<(), String> {
        self.takes = (everything, multicast);
        Ok(())
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
    let port = |name| -> Box<dyn Wire> {
        Box::new(LoopbackPort {
            name,
            ..LoopbackPort::default()
        })
    };
    Model::new(vec![port("pa"), port("pb")]).unwrap()
}

fn answered(model: &mut Model, message: &[u8]) -> Vec<u8> {
    Message::read(message).answer(model)
}

fn ask(model: &mut Model, message: &Value) -> Value {
    serde_json::from_slice(&answered(model, message.to_string().as_bytes())).unwrap()
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
        let output = call(&mut model, "api_sync_v2", params);
        match fits {
            true => assert_eq!(output, Ok(json!({"api_h": handle}))),
            false => assert_eq!(
                output.unwrap_err().0,
                Fault::EXECUTE,
                "{name} {major}.{minor}"
            ),
        }
    }
    let old = json!({"api_vers": [{"type": "core", "major": 5, "minor": 1}]});
    let output = call(&mut model, "api_sync", old).unwrap();
    assert_eq!(
        output,
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
        let answer: Value = serde_json::from_slice(&answered(&mut model, text.as_bytes())).unwrap();
        assert_eq!(answer["error"]["code"], code, "{text}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer = answered(&mut model, deep.as_bytes());
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
    let answer = framing::unwrap(&answered(&mut model, &packed)).unwrap();
    assert!(answer.compressed);
    let large = vec![b' '; limits::MESSAGE + 1];
    let answer: Value = serde_json::from_slice(&answered(&mut model, &large)).unwrap();
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
    let reported = call(&mut model, "get_async_events", json!({"session_id": 99})).unwrap();
    let reported = reported["data"].as_array().unwrap();
    let words: Vec<(u64, &str, bool)> = reported
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

/// A handler that is not the owner's changes nothing on a port, for all calls.
#[test]
fn a_wrong_handler_changes_nothing() {
    let mut model = model();
    acquire(&mut model, "alice", 1, false).unwrap();
    for (method, more) in [
        (
            "set_port_attr",
            json!({"attr": {"promiscuous": {"enabled": true}}}),
        ),
        ("set_l2", json!({"dst_mac": "02:00:00:00:00:09"})),
        (
            "set_l3",
            json!({"src_addr": "16.0.0.1", "dst_addr": "16.0.0.2"}),
        ),
        ("set_vlan", json!({"vlan": [7]})),
        ("conf_ipv6", json!({"enabled": true, "src_ipv6": ""})),
        ("set_rx_feature", json!({"type": "queue", "enabled": false})),
        ("service", json!({"enabled": true})),
    ] {
        for handler in [json!("wrong"), json!(null)] {
            let mut params = more.clone();
            params["port_id"] = json!(0);
            params["handler"] = handler;
            assert!(call(&mut model, method, params).is_err(), "{method}");
        }
    }
    assert!(!model.ports[0].attributes.promiscuous);
}

/// Profiles on one port of this machine run beside each other, and one of them can start again
/// afterwards.
#[test]
fn profiles_of_a_port_run_in_parallel() {
    let name = format!("fwdlab-trextest-{}", std::process::id());
    let run = |words: &str| {
        let mut command = std::process::Command::new("ip");
        let output = command.args(words.split(' ')).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !run(&format!("netns add {name}")) {
        return println!("SKIPPED: profiles_of_a_port_run_in_parallel: needs root and ip");
    }
    assert!(run(&format!(
        "-n {name} link add pa type veth peer name pb"
    )));
    for port in ["pa", "pb"] {
        assert!(run(&format!("-n {name} link set {port} up")));
    }
    let spec = PortSpec {
        netns: Some(format!("/run/netns/{name}").into()),
        interface: "pa".into(),
    };
    let port = Port::own_port(&spec).unwrap();
    let wire = LabWire::new(port, None, Some([2, 0, 0, 0, 0, 2]), &[]);
    let mut model = Model::new(vec![Box::new(wire)]).unwrap();
    let handler = acquire(&mut model, "alice", 1, false).unwrap();
    let with = |profile: usize, more: Value| {
        let mut params = json!({
            "port_id": 0, "handler": handler, "profile_id": format!("p{profile}"), "stream_id": profile, "duration": -1,
            "mul": {"type": "raw", "value": 1, "op": "abs"},
        });
        let all = params.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        params
    };
    let slow = stream(json!({"type": "continuous", "rate": {"type": "pps", "value": 10}}));
    const PROFILES: usize = 24;
    for profile in 0..PROFILES {
        let add = with(profile, json!({"stream": slow.clone()}));
        call(&mut model, "add_stream", add).unwrap();
    }
    call(&mut model, "start_traffic", with(0, json!({}))).unwrap();
    for profile in 1..PROFILES {
        call(&mut model, "start_traffic", with(profile, json!({}))).unwrap();
    }
    for profile in 0..PROFILES {
        call(&mut model, "stop_traffic", with(profile, json!({}))).unwrap();
    }
    // the socket of the first is still open, and the next one uses it
    call(&mut model, "start_traffic", with(0, json!({}))).unwrap();
    drop(model);
    assert!(run(&format!("netns delete {name}")));
}

/// A stream of the smallest frames, as sent by TRex's client.
fn stream(mode: Value) -> Value {
    let frame = format!(
        "{}CABFAAAuAAAAAEARAAAQAAABMAAAAQQBAAwAGgAA{}",
        "A".repeat(16),
        "eHh4".repeat(6)
    );
    json!({
        "name": "S0", "isg": 0.5, "flags": 0, "action_count": 0, "enabled": true, "self_start": true,
        "next_stream_id": -1, "mode": mode, "packet": {"binary": frame, "meta": ""},
        "vm": {"instructions": []}, "flow_stats": {"enabled": false},
    })
}

/// Traffic in all its states, and the requests allowed in each.
#[test]
fn traffic_reports_its_changes_of_state() {
    let mut model = model();
    model.events.take(99);
    let handler = acquire(&mut model, "alice", 1, false).unwrap();
    let with = |more: Value| {
        let mut params = json!({"port_id": 0, "handler": handler});
        let all = params.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        params
    };
    let mul = |kind: &str, value: f64, op: &str| {
        with(
            json!({"mul": {"type": kind, "value": value, "op": op}, "force": false, "duration": -1}),
        )
    };
    let refused = |model: &mut Model, method: &str, params: Value, reason: &str| {
        let (code, text) = call(model, method, params).unwrap_err();
        assert_eq!(code, Fault::EXECUTE, "{text}");
        assert!(text.contains(reason), "{method}: {text}");
    };
    let state = |model: &Model| model.ports[0].state();
    let endless = stream(json!({"type": "continuous", "rate": {"type": "pps", "value": 1000}}));
    refused(
        &mut model,
        "start_traffic",
        mul("raw", 1.0, "abs"),
        "has no streams",
    );
    let add = |id: u32, stream: &Value| with(json!({"stream_id": id, "stream": stream}));
    call(&mut model, "add_stream", add(1, &endless)).unwrap();

    // 64 bytes are 84 on the wire: 100 % of 1 Gbit/s are 1,488,095 frames/s
    let started = call(&mut model, "start_traffic", mul("percentage", 100.0, "abs")).unwrap();
    let multiplier = started["multiplier"].as_f64().unwrap();
    assert!((multiplier - 1488.095).abs() < 0.001, "{multiplier}");
    assert_eq!(state(&model), "TX");
    refused(
        &mut model,
        "start_traffic",
        mul("raw", 1.0, "abs"),
        "sends already",
    );
    refused(&mut model, "add_stream", add(2, &endless), "sends; stop it");
    refused(
        &mut model,
        "remove_all_streams",
        with(json!({})),
        "sends; stop it",
    );
    refused(
        &mut model,
        "resume_traffic",
        with(json!({})),
        "is not paused",
    );
    refused(
        &mut model,
        "update_traffic",
        mul("pps", 2e6, "abs"),
        "Gbit/s on layer 1",
    );
    let updated = |model: &mut Model, mul: Value| {
        call(model, "update_traffic", mul).unwrap()["multiplier"]
            .as_f64()
            .unwrap()
    };
    assert_eq!(updated(&mut model, mul("pps", 5000.0, "abs")), 5.0);
    assert_eq!(updated(&mut model, mul("percentage", 20.0, "sub")), 4.0);
    assert_eq!(updated(&mut model, mul("pps", 1000.0, "add")), 5.0);
    assert_eq!(updated(&mut model, mul("bps", 512_000.0, "abs")), 1.0);
    refused(
        &mut model,
        "update_traffic",
        mul("raw", 9.0, "sub"),
        "nothing to send",
    );
    call(&mut model, "pause_traffic", with(json!({}))).unwrap();
    assert_eq!(state(&model), "PAUSE");
    call(&mut model, "resume_traffic", with(json!({}))).unwrap();
    let one = with(json!({"stream_ids": [1]}));
    call(&mut model, "pause_streams", one.clone()).unwrap();
    call(&mut model, "resume_streams", one).unwrap();
    let none = call(&mut model, "pause_streams", with(json!({"stream_ids": []}))).unwrap_err();
    assert_eq!(none.0, Fault::PARAMS);
    refused(
        &mut model,
        "pause_streams",
        with(json!({"stream_ids": [7]})),
        "stream 7 does not send",
    );
    call(&mut model, "stop_traffic", with(json!({}))).unwrap();
    call(&mut model, "stop_traffic", with(json!({}))).unwrap();
    assert_eq!(state(&model), "STREAMS");

    // a burst ends by itself, cannot be paused, and is counted when its end is reported
    call(&mut model, "remove_all_streams", with(json!({}))).unwrap();
    let burst = stream(
        json!({"type": "single_burst", "total_pkts": 100, "rate": {"type": "pps", "value": 1000}}),
    );
    call(&mut model, "add_stream", add(1, &burst)).unwrap();
    call(&mut model, "start_traffic", mul("raw", 1.0, "abs")).unwrap();
    refused(
        &mut model,
        "pause_traffic",
        with(json!({})),
        "only continuous streams",
    );
    refused(
        &mut model,
        "pause_streams",
        with(json!({"stream_ids": [1]})),
        "only continuous streams",
    );
    model.tick();
    assert_eq!(state(&model), "STREAMS");
    assert_eq!(model.ports[0].sent, (2 * SENT, 2.0 * SENT as f64 * 60.0));
    let reported = call(&mut model, "get_async_events", json!({"session_id": 99})).unwrap();
    let reported = reported["data"].as_array().unwrap().iter();
    let numbers: Vec<u64> = reported
        .map(|event| event["type"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [5, 10, 0, 12, 2, 13, 3, 11, 1, 10, 0, 14, 4]);

    // what cannot be sent is reported when it is added, or when it is started
    for (change, reason) in [
        (
            json!({"mode": {"type": "continuous", "rate": {"type": "pps", "value": 0}}}),
            "above 0",
        ),
        (
            json!({"mode": {"type": "sometimes", "rate": {"type": "pps", "value": 1}}}),
            "no mode 'sometimes'",
        ),
        (json!({"packet": {"binary": "AAAA"}}), "14 to 9238 bytes"),
        (json!({"packet": {"binary": "?"}}), "is not base64"),
        (
            json!({"vm": {"instructions": [{"type": "write_flow_var", "name": "x", "pkt_offset": 4}]}}),
            "no variable x",
        ),
        (
            json!({"vm": {"instructions": [{"type": "jump"}]}}),
            "no instruction 'jump'",
        ),
        (
            json!({"vm": {"instructions": [{"type": "fix_checksum_ipv4", "pkt_offset": 58}]}}),
            "beyond the template",
        ),
        (json!({"isg": -1.0}), "it must be from 0"),
        (json!({"next_stream_id": 3}), "never ends"),
    ] {
        let mut wrong = endless.clone();
        let all = wrong.as_object_mut().unwrap();
        all.extend(change.as_object().unwrap().clone());
        let (code, text) = call(&mut model, "add_stream", add(9, &wrong)).unwrap_err();
        assert_eq!(code, Fault::PARAMS, "{text}");
        assert!(text.contains(reason), "{text}");
    }
    let mut chained = burst.clone();
    chained["next_stream_id"] = json!(44);
    call(&mut model, "add_stream", add(2, &chained)).unwrap();
    refused(
        &mut model,
        "start_traffic",
        mul("raw", 1.0, "abs"),
        "stream 44, which is not there",
    );
}

/// The largest load of streams that follow each other, and a dry run of them.
#[test]
fn the_load_of_a_profile_is_the_largest_sum() {
    let mut model = model();
    let handler = acquire(&mut model, "alice", 1, false).unwrap();
    let mut add = |id: u32, change: Value, mode: Value| {
        let mut one = stream(mode);
        one.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let params = json!({"port_id": 0, "handler": handler, "stream_id": id, "stream": one});
        call(&mut model, "add_stream", params).unwrap();
    };
    let burst = |frames: u32, pps: u32| json!({"type": "single_burst", "total_pkts": frames, "rate": {"type": "pps", "value": pps}});
    // 2 s at 1000, then 1 s at 3000; and 500 all the time
    add(
        1,
        json!({"isg": 0.0, "next_stream_id": 2}),
        burst(2001, 1000),
    );
    add(
        2,
        json!({"isg": 1_000_000.0, "self_start": false}),
        burst(3001, 3000),
    );
    add(
        3,
        json!({"isg": 0.0}),
        json!({"type": "continuous", "rate": {"type": "pps", "value": 500}}),
    );
    // too short to be a load
    add(4, json!({"isg": 0.0}), burst(10, 100_000));
    let output = call(
        &mut model,
        "validate",
        json!({"port_id": 0, "handler": handler}),
    )
    .unwrap();
    assert_eq!(output["rate"]["max_pps"], json!(3500.0));
    assert_eq!(output["rate"]["max_bps_l1"], json!(3500.0 * 84.0 * 8.0));
    assert_eq!(output["graph"]["expected_duration"], json!(-1.0));
    let events = output["graph"]["events"].as_array().unwrap().iter();
    let events: Vec<(f64, f64, u64)> = events
        .map(|e| {
            (
                e["time_usec"].as_f64().unwrap(),
                e["diff_pps"].as_f64().unwrap(),
                e["stream_id"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        events,
        [
            (0.0, 1000.0, 1),
            (0.0, 500.0, 3),
            (0.0, 1.0, 4),
            (90.0, -1.0, 4),
            (2e6, -1000.0, 1),
            (3e6, 3000.0, 2),
            (4e6, -3000.0, 2)
        ]
    );
}

#[test]
fn streams_are_returned_as_given_and_change_the_state() {
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
    let mut stream = stream(json!({"type": "continuous", "rate": {"type": "pps", "value": 28}}));
    stream["odd"] = json!([null]);
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
        let output = call(
            &mut model,
            &format!("get_port_xstats_{what}"),
            json!({"port_id": 0}),
        );
        output.unwrap()[format!("xstats_{what}")]
            .as_array()
            .unwrap()
            .len()
    });
    assert_eq!(lists[0], lists[1]);
}

/// Values that are valid in some places, and values that are always invalid.
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
        2 => (0u64..4, prop_oneof![Just("pps"), Just("raw"), Just("percentage"), Just("bps")], prop_oneof![Just("abs"), Just("add"), Just("sub")])
            .prop_map(|(value, kind, op)| json!({"type": kind, "value": value, "op": op})),
        2 => Just(stream(json!({"type": "continuous", "rate": {"type": "pps", "value": 10}}))),
        1 => Just(stream(json!({"type": "single_burst", "total_pkts": 3, "rate": {"type": "percentage", "value": 10}}))),
        1 => Just(json!([1])),
        3 => prop_oneof![Just("start"), Just("fetch"), Just("stop"), Just("remove"), Just("10.0.0.1")].prop_map(Value::from),
        2 => (0usize..80).prop_map(|length| json!([{"binary": BASE64_STANDARD.encode(vec![7; length]), "use_port_src_mac": true}]))
    ]
}

fn sequences() -> impl Strategy<Value = Vec<(usize, Vec<(usize, Value)>)>> {
    let params = proptest::collection::vec((0..FIELDS.len(), values()), 0..9);
    proptest::collection::vec((0..METHODS.len(), params), 1..60)
}

const FIELDS: [&str; 37] = [
    "pkts",
    "ipg_usec",
    "tx",
    "rx",
    "limit",
    "size",
    "snaplen",
    "capture_id",
    "pkt_limit",
    "src_addr",
    "dst_addr",
    "vlan",
    "mul",
    "duration",
    "core_mask",
    "start_at_ts",
    "stream_ids",
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
    /// For any calls in any order: errors describe what is wrong, states are consistent, and owners
    /// keep their ports.
    #[test]
    fn any_sequence_of_calls_is_answered(calls in sequences()) {
        let mut model = model();
        let handler = acquire(&mut model, "owner", 77, false).unwrap();
        for (method, fields) in calls {
            let name = METHODS[method].0;
            let mut params = json!({"port_id": 1, "handler": handler, "stream_id": 1, "profile_id": "_"});
            params["stream"] = stream(json!({"type": "continuous", "rate": {"type": "pps", "value": 10}}));
            for (field, value) in [
                ("mode", json!("cyclic")), ("limit", json!(2)), ("rx", json!([1])), ("tx", json!([0, 1])), ("enabled", json!(true)),
                ("command", json!("start")), ("size", json!(3)), ("type", json!("queue")), ("filter", json!("")), ("pkt_limit", json!(1)),
                ("pkts", json!([{"binary": BASE64_STANDARD.encode([7; 60])}])),
            ] {
                params[field] = value;
            }
            params["mul"] = json!({"type": "raw", "value": 2.5, "op": "abs"});
            for (field, value) in fields {
                params[FIELDS[field]] = value;
            }
            params["stream_ids"] = params.get("stream_ids").cloned().unwrap_or(json!([1]));
            let taken = name == "release" || params["force"] == json!(true);
            if let Err((code, text)) = call(&mut model, name, params) {
                prop_assert!([Fault::PARAMS, Fault::EXECUTE].contains(&code), "{name}: {code} {text}");
                prop_assert!(!text.is_empty() && text.len() < 1000, "{name}: {text}");
            }
            model.tick();
            if taken {
                break;
            }
            let owner = model.ports[0].owner.as_ref().map(|owner| owner.handler.as_str());
            prop_assert_eq!(owner, Some(handler.as_str()), "{}", name);
            prop_assert!(model.captures.all.len() <= limits::CAPTURES);
            let queues = model.ports.iter().filter_map(|port| port.queue.as_ref());
            for store in model.captures.all.values().chain(queues) {
                let store = crate::capture::open(store);
                let bytes: usize = store.frames.iter().map(|frame| frame.bytes.len()).sum();
                prop_assert_eq!(store.bytes, bytes);
                prop_assert!(bytes <= limits::CAPTURE_BYTES && store.frames.len() <= store.wanted.limit);
            }
            for port in &model.ports {
                let any = port.profiles.values().any(|profile| !profile.streams.is_empty());
                prop_assert_eq!(port.state() != "IDLE", any);
                for profile in port.profiles.values() {
                    prop_assert!(profile.run.is_none() || !profile.streams.is_empty());
                    let bytes: usize = profile.streams.values().map(|one| one.said.to_string().len()).sum();
                    prop_assert_eq!(profile.bytes, bytes);
                }
            }
        }
        prop_assert!(METHODS.is_sorted_by_key(|(name, _)| *name));
    }
}

#[test]
fn captures_store_the_requested_frames_only() {
    let mut model = model();
    let handler = acquire(&mut model, "alice", 1, false).unwrap();
    let push = |model: &mut Model, first: u8| {
        let packet = |n: u8| json!({"binary": BASE64_STANDARD.encode([n; 60])});
        let packets: Vec<Value> = (first..first + 10).map(packet).collect();
        call(model, "push_pkts", json!({"port_id": 0, "pkts": packets})).unwrap()
    };
    let start = |mode: &str, tx: &[u8], rx: &[u8]| {
        json!({
            "command": "start", "mode": mode, "limit": 4, "tx": tx, "rx": rx, "filter": "",
        })
    };
    let capture = |model: &mut Model, params: Value| call(model, "capture", params);
    // outside of service mode, as in TRex's server
    let early = capture(&mut model, start("fixed", &[], &[0])).unwrap();
    push(&mut model, 1);
    let stopped = json!({"command": "stop", "capture_id": early["capture_id"]});
    let stopped = capture(&mut model, stopped).unwrap();
    assert_eq!(
        stopped,
        json!({"pkt_count": 4, "endpoint": "", "missed": 0})
    );
    let early = json!({"command": "remove", "capture_id": early["capture_id"]});
    capture(&mut model, early).unwrap();
    let service = |on: bool| json!({"port_id": 0, "handler": handler, "enabled": on, "mask": 255});
    call(&mut model, "service", service(true)).unwrap();
    for mode in [start("fixed", &[], &[0]), start("cyclic", &[0], &[])] {
        capture(&mut model, mode).unwrap();
    }
    assert_eq!(push(&mut model, 1)["sent"], 10);
    for (id, origin, kept) in [(2, "RX", [1, 2, 3, 4]), (3, "TX", [7, 8, 9, 10])] {
        let status = capture(&mut model, json!({"command": "status"})).unwrap();
        let one = &status[id - 2];
        assert_eq!((&one["matched"], &one["count"]), (&json!(10), &json!(4)));
        let refused = call(&mut model, "service", service(false)).unwrap_err();
        assert!(refused.1.contains("capture or queue"), "{}", refused.1);
        let fetch = json!({"command": "fetch", "capture_id": id, "pkt_limit": 9, "snaplen": 1});
        let fetched = capture(&mut model, fetch).unwrap();
        for (packet, n) in fetched["pkts"].as_array().unwrap().iter().zip(kept) {
            assert_eq!(packet["binary"], BASE64_STANDARD.encode([n]));
            assert_eq!(
                (&packet["origin"], &packet["wirelen"]),
                (&json!(origin), &json!(60))
            );
        }
        assert_eq!(fetched["pending"], 0);
        let stop = json!({"command": "stop", "capture_id": id});
        assert_eq!(capture(&mut model, stop).unwrap()["pkt_count"], 0);
    }
    push(&mut model, 1);
    let status = capture(&mut model, json!({"command": "status"})).unwrap();
    assert_eq!(
        (&status[0]["matched"], &status[0]["state"]),
        (&json!(10), &json!("STOPPED"))
    );
    call(&mut model, "service", service(false)).unwrap();
    for id in [2, 3] {
        capture(&mut model, json!({"command": "remove", "capture_id": id})).unwrap();
        assert!(capture(&mut model, json!({"command": "stop", "capture_id": id})).is_err());
    }
    // the queue returns the last frames, once
    call(&mut model, "service", service(true)).unwrap();
    let queue =
        json!({"port_id": 0, "handler": handler, "type": "queue", "enabled": true, "size": 2});
    call(&mut model, "set_rx_feature", queue).unwrap();
    push(&mut model, 1);
    let packets = |model: &mut Model| {
        let queued = call(model, "get_rx_queue_pkts", json!({"port_id": 0})).unwrap();
        queued["pkts"].as_array().unwrap().len()
    };
    assert_eq!([packets(&mut model), packets(&mut model)], [2, 0]);
    // a batch whose answers exceed the limit is cut off, with a message
    let full = start("fixed", &[], &[0]);
    assert!(capture(&mut model, full).is_ok());
}
