//! Frames of TRex's profiles: the user's own TRex client library makes the streams, which are then
//! offered like any others. Start with [`frames`].

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use fwdlab_lab::networks::Networks;
use fwdlab_lab::run::traffic::ProfileFrames;
use fwdlab_model::campaign::Trex;
use fwdlab_model::link::LinkSpeed;
use fwdlab_trex::profile::{Port, traffic};
use serde_json::{Map, Value};

use crate::exit_code::Usage;

const ASK: &str = include_str!("trex_profile.py");

/// Default speed of the link, for rates in percent.
const SPEED_BPS: u64 = 10_000_000_000;

/// Returns the frames of a profile.
pub fn frames(
    trex: &Trex,
    file: &Path,
    both_ways: bool,
    link: Option<LinkSpeed>,
    networks: &Networks,
) -> anyhow::Result<ProfileFrames> {
    let name = file.file_stem().unwrap_or_default();
    let shown = file.display();
    let streams = ask(trex, file)?;
    let name = name.to_string_lossy().into_owned();
    let speed_bps = link.map_or(SPEED_BPS, |link| link.bps());
    let of = |direction: usize| {
        let addresses = match direction {
            0 => networks.forward(),
            _ => networks.reverse(),
        };
        let port = Port {
            source: addresses.source_mac,
            destination: addresses.destination_mac,
            speed_bps,
            is_back: direction == 1,
        };
        let traffic = traffic(&name, &streams[direction], port);
        traffic.map_err(|reason| Usage(format!("{shown}, direction {direction}: {reason}")))
    };
    let reverse = match both_ways {
        true => Some(of(1)?),
        false => None,
    };
    let text = serde_json::to_string_pretty(&streams)?;
    let frames = ProfileFrames::from_traffic(name.clone(), ("json", text), of(0)?, reverse);
    Ok(frames.map_err(Usage)?)
}

/// Returns the streams of both directions.
fn ask(trex: &Trex, path: &Path) -> anyhow::Result<Vec<BTreeMap<u32, Value>>> {
    let file = &path.display().to_string();
    let mut tunables = Map::new();
    for tunable in &trex.tunables {
        let Some((name, value)) = tunable.split_once('=') else {
            return Err(Usage(format!("--tunable {tunable}: expected NAME=VALUE")).into());
        };
        // pass numbers as numbers
        let value = serde_json::from_str(value).ok().filter(Value::is_number);
        let text = || tunable[name.len() + 1..].into();
        tunables.insert(name.to_owned(), value.unwrap_or_else(text));
    }
    if !path.is_file() {
        return Err(Usage(format!("--trex-profile: there is no file {file}")).into());
    }
    let python = &trex.python;
    let output = Command::new(python)
        .args(["-c", ASK, file, &Value::Object(tunables).to_string()])
        .output()
        .map_err(|error| {
            Usage(format!(
                "cannot run {python}: {error}; --trex-python names another"
            ))
        })?;
    let out = String::from_utf8_lossy(&output.stdout);
    let last = out.lines().last().unwrap_or_default();
    let mut answer: Value = match serde_json::from_str(last) {
        Ok(answer) => answer,
        Err(_) => {
            let err = String::from_utf8_lossy(&output.stderr);
            let reason = err.lines().last().unwrap_or("no output");
            return Err(Usage(format!(
                "{file} cannot be loaded as a TRex profile: {reason}"
            ))
            .into());
        }
    };
    if let Some(reason) = answer["absent"].as_str() {
        return Err(Usage(format!(
                "{python} has no TRex client library ({reason}), which makes the streams of {file}. Install it with: pip install \
                 lbr-trex-client (Python 3.11 or older), or name the Python that has it with --trex-python"
            ))
            .into());
    }
    if let Some(reason) = answer["wrong"].as_str() {
        return Err(Usage(format!("{file}: {reason}")).into());
    }
    serde_json::from_value(answer["streams"].take())
        .context("the TRex library gave an unexpected answer")
}
