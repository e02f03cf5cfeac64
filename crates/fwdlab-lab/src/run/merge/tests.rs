//! Tests of joined shards: with every number of shards they are the whole campaign, and shards that
//! do not belong together are refused. Nothing boots. Start with
//! [`shards_joined_are_the_whole_campaign`].

use std::collections::BTreeSet;

use fwdlab_measure::campaign::{sequence, summarise};
use fwdlab_measure::exact;
use fwdlab_model::campaign::{Case, Generator, Order, PLAIN};
use fwdlab_model::facts::Facts;
use fwdlab_model::instructions::{BootRecord, BurstRecord, Way};
use fwdlab_model::result::{Noise, Validity};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;
use fwdlab_model::version::RUN_FORMAT;
use fwdlab_store::load;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const ITERATIONS: u32 = 3;

fn case(configuration: &str) -> Case {
    Case {
        configuration: configuration.into(),
        stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
        variant: Default::default(),
        image: Some("image".into()),
        dut: Default::default(),
    }
}

fn cases() -> [Case; 3] {
    [PLAIN, "rule", "rules"].map(case)
}

/// Returns the boot of this turn; the last kind of turn is the A/A control. Each boot has other
/// counts.
fn boot(number: u32, turn: usize, iteration: u32) -> BootRecord {
    let control = turn == cases().len();
    let case = &cases()[turn % cases().len()];
    let burst = |way, more: u64| BurstRecord {
        way,
        sent: 100,
        received: 100,
        instructions: 100 * (1000 + more) + u64::from(iteration),
    };
    let cost = 70 * (turn % cases().len()) as u64;
    let bursts = (0..8).flat_map(|_| [burst(Way::Through, 4000 + cost), burst(Way::Past, 0)]);
    BootRecord {
        boot: number,
        started_at: String::new(),
        test_case: match control {
            true => format!("{}/control", case.id()),
            false => case.id(),
        },
        iteration,
        control,
        image: "image".into(),
        kernel: "6.1".into(),
        generator: Some(Generator::LiveFrames),
        ticks_per_instruction: 1.0,
        shared: false,
        boot_s: 1.0,
        stream: case.stream.clone(),
        frames: 100,
        bursts: bursts.collect(),
        functions: Vec::new(),
        validity: Validity::default(),
    }
}

/// Returns the boots of a whole campaign, in order.
fn boots() -> Vec<BootRecord> {
    let turns = sequence(cases().len() + 1, ITERATIONS, Order::Interleaved, 7);
    let boots = (1..).zip(turns);
    boots
        .map(|(number, turn)| boot(number, turn.case, turn.iteration))
        .collect()
}

/// Stores a run with these boots in `root`, with the result that a campaign derives from them.
fn store(
    root: &Path,
    id: &str,
    boots: &[BootRecord],
    parameters: Value,
    campaign: &str,
) -> StoredRun {
    let measured: BTreeSet<&str> = boots.iter().map(|boot| &boot.test_case[..]).collect();
    let all = cases();
    let all = all.iter().filter(|case| measured.contains(&case.id()[..]));
    let mut test_cases: Vec<TestCase> = all
        .map(|case| summarise(case.id(), case, exact::iterations(boots, &case.id())))
        .collect();
    exact::compare(&mut test_cases, PLAIN, &exact::controls(boots));
    let ids: Vec<String> = cases().iter().map(Case::id).collect();
    let mut all = json!({ "test_cases": ids, "iterations": ITERATIONS, "campaign": "c" });
    let own = parameters.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(own);
    let info = RunInfo {
        format: RUN_FORMAT,
        id: id.into(),
        kind: CAMPAIGN.into(),
        tool_version: "1".into(),
        command_line: Vec::new(),
        seed: 7,
        started_at: format!("2026-11-28T10:00:0{}Z", id.len()),
        finished_at: Some("2026-11-28T11:00:00Z".into()),
        note: None,
        state: RunState::Finished,
        gaps: Vec::new(),
        error: None,
        parameters: serde_json::from_value(all).unwrap(),
        facts: Facts::default(),
    };
    let summary = Summary {
        format: RUN_FORMAT,
        run: id.into(),
        procedure: exact::ID.into(),
        imix_estimate_l2_bps: None,
        thresholds: Vec::new(),
        test_cases,
        control: None,
        imported: Vec::new(),
        noise: Noise::none(),
        warnings: vec!["of every shard".into()],
    };
    let mut writer = RunWriter::create(root, &info).unwrap();
    writer.input("campaign.toml", campaign.as_bytes()).unwrap();
    writer.input("images/1/console.log", id.as_bytes()).unwrap();
    for boot in boots {
        writer.trial(boot).unwrap();
        let name = format!("{CONSOLE} of {}", boot.boot);
        writer
            .raw(&boot.test_case, boot.boot, CONSOLE, name.as_bytes())
            .unwrap();
    }
    writer.finish(&info, Some(&summary), Some("page")).unwrap();
    load(&root.join(id)).unwrap()
}

/// Stores shard `number` of `of`.
fn shard(root: &Path, number: u32, of: u32) -> StoredRun {
    let turns = sequence(cases().len() + 1, ITERATIONS, Order::Interleaved, 7);
    let shard: Shard = format!("{number}/{of}").parse().unwrap();
    let own = shard.part(&turns, |_| ());
    let all = boots();
    let own: Vec<BootRecord> = own.into_iter().map(|at| all[at].clone()).collect();
    let id = format!("shard-{number}-of-{of}");
    // each on another machine
    let parameters = json!({ "shard": shard.to_string(), "dut_cpus": [number] });
    store(root, &id, &own, parameters, "c")
}

fn refusal(runs: Vec<StoredRun>) -> String {
    let refused = Shards::new(runs).map(drop);
    refused.unwrap_err().to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// In any order of the shards.
    #[test]
    fn shards_joined_are_the_whole_campaign(of in 1u32..=12, first in 0usize..12) {
        let folder = tempfile::tempdir().unwrap();
        let whole = store(folder.path(), "whole", &boots(), json!({}), "c");
        let mut runs: Vec<StoredRun> = (1..=of).map(|number| shard(folder.path(), number, of)).collect();
        runs.rotate_left(first % of as usize);
        let shards = Shards::new(runs).unwrap();
        prop_assert_eq!(shards.campaign(), "c");
        let mut seen = None;
        let page = |run: &StoredRun| {
            // its files can be read for the page
            let boot = &run.boots[0];
            seen = std::fs::read_to_string(run.raw_path(&boot.test_case, boot.boot, CONSOLE)).ok();
            "page".into()
        };
        let merged = merge(folder.path(), &shards, vec!["merge".into()], |_| {}, page).unwrap();
        prop_assert_eq!(seen.as_deref(), Some("console.log of 1"));
        let stored = load(&merged.path).unwrap();
        let [own, all] = [&stored, &whole].map(|run| run.summary.as_ref().unwrap());
        prop_assert_eq!(&own.test_cases, &all.test_cases);
        prop_assert_eq!(&own.warnings, &all.warnings);
        prop_assert_eq!(&stored.boots, &whole.boots);
        prop_assert_eq!(&stored.problems, &Vec::<String>::new());
        prop_assert_eq!(stored.changed_files(), Vec::<String>::new());
        let again = super::super::verify::derive(&stored);
        prop_assert_eq!(&again.differences, &Vec::<String>::new());
        prop_assert!(!stored.info.parameters.contains_key(SHARD));
        let ids = stored.info.parameters[SHARDS].as_array().unwrap().len();
        prop_assert_eq!(ids, of as usize);
        let consoles = stored.inputs().unwrap();
        let consoles = consoles.keys().filter(|name| name.ends_with("images/1/console.log"));
        prop_assert_eq!(consoles.count(), of as usize);
    }
}

#[test]
fn shards_that_do_not_belong_together_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let runs: Vec<StoredRun> = (1..=3).map(|number| shard(root, number, 3)).collect();
    let some = |at: &[usize]| at.iter().map(|&at| runs[at].clone()).collect();
    let says = |runs: Vec<StoredRun>, words: &[&str]| {
        let refused = refusal(runs);
        for words in words {
            assert!(refused.contains(words), "{words}: {refused}");
        }
    };
    says(some(&[0, 2]), &["missing: shard 2/3", "--shard 2/3"]);
    says(some(&[2]), &["missing: shard 1/3, 2/3"]);
    says(
        some(&[0, 1, 2, 1]),
        &["shard-2-of-3 and shard-2-of-3 are both shard 2/3"],
    );
    says(vec![], &["give the shards"]);
    let other = shard(root, 1, 2);
    says(
        vec![runs[0].clone(), other],
        &["1/3", "1/2", "divide the campaign differently"],
    );
    let whole = store(root, "whole", &boots(), json!({}), "c");
    says(vec![runs[0].clone(), whole], &["whole is no shard"]);
    // of another campaign, in four ways
    let second = |id: &str, more: Value, campaign: &str| {
        let mut parameters = json!({ "shard": "2/3" });
        let more = more.as_object().unwrap().clone();
        parameters.as_object_mut().unwrap().extend(more);
        store(root, id, &runs[1].boots, parameters, campaign)
    };
    let with = |run: StoredRun| vec![runs[0].clone(), run, runs[2].clone()];
    let changed = second("a", json!({}), "another campaign");
    says(with(changed), &["not of one campaign", "campaign.toml"]);
    let changed = second("b", json!({ "frames": 32 }), "c");
    says(with(changed), &["not of one campaign", "`frames`", "32"]);
    let mut changed = runs[1].clone();
    changed.info.seed = 8;
    says(with(changed), &["the seed was 7", "8"]);
    // on another emulator; and another image, which the first shard does not use
    let on = |name: &str, words: &str, run: &StoredRun| {
        let mut run = run.clone();
        let placement = &mut run.info.facts.placement;
        placement.insert(name.into(), words.into());
        run
    };
    let emulators = ["QEMU 7", "QEMU 8", "QEMU 7"].iter().zip(&runs);
    let all = emulators.map(|(version, run)| on(EMULATOR, version, run));
    says(all.collect(), &["emulator was QEMU 7", "QEMU 8"]);
    let image = format!("{IMAGE}b");
    let others = ["sha256 1", "sha256 2"].iter().zip(&runs[1..]);
    let others = others.map(|(sum, run)| on(&image, sum, run));
    let all = [runs[0].clone()].into_iter().chain(others);
    let words = ["shard-2-of-3 and shard-3-of-3", "image b was sha256 1"];
    says(all.collect(), &words);
    // measured on a machine, with counts beside
    let mut measured = runs[1].clone();
    measured.summary.as_mut().unwrap().procedure = "paired".into();
    says(
        with(measured),
        &["shard-1-of-3 has counts of instructions beside its rates"],
    );
    // unfinished, and damaged
    let mut stopped = runs[1].clone();
    stopped.state = RunState::Interrupted;
    says(
        with(stopped),
        &["shard-2-of-3 is not finished", "--resume shard-2-of-3"],
    );
    std::fs::write(runs[1].path.join("inputs/campaign.toml"), "changed").unwrap();
    says(
        some(&[0, 1, 2]),
        &["shard-2-of-3 is damaged", "campaign.toml has changed"],
    );
}

/// Each shard may have had another generator: the joined run has the differences and the engine of
/// an unsharded one.
#[test]
fn generators_of_all_shards_are_those_of_the_joined_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let rule = &cases()[1].id();
    let runs: Vec<StoredRun> = (1..=3)
        .map(|number| {
            let mut run = shard(root, number, 3);
            let own = run.boots.iter_mut().filter(|boot| boot.test_case == *rule);
            own.for_each(|boot| boot.generator = Some(Generator::Pktgen));
            let parameters = json!({ "shard": format!("{number}/3") });
            store(
                root,
                &format!("mixed-{number}"),
                &run.boots,
                parameters,
                "c",
            )
        })
        .collect();
    let shards = Shards::new(runs).unwrap();
    let merged = merge(root, &shards, Vec::new(), |_| {}, |_| String::new()).unwrap();
    assert!(
        merged
            .info
            .facts
            .engine
            .starts_with("live frames and pktgen in "),
        "{}",
        merged.info.facts.engine
    );
    let summary = merged.summary.unwrap();
    let compared = summary.test_cases.iter().map(|case| {
        let found = exact::exact_of(case).unwrap();
        (found.difference.is_some(), found.not_compared.is_some())
    });
    let compared: Vec<_> = compared.collect();
    assert_eq!(compared, [(true, false), (false, true), (true, false)]);
}

/// A joined run has one set of facts.
#[test]
fn facts_that_differ_between_machines_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let runs = (1..=2).map(|number| shard(folder.path(), number, 2));
    let mut shards: Vec<(Shard, StoredRun)> =
        runs.map(|run| (shard_of(&run).unwrap(), run)).collect();
    assert_eq!(machines::differing_facts(&shards), None);
    shards[1].1.info.facts.kernel = "6.1".into();
    shards[1].1.info.facts.memory_bytes = 1;
    let words = machines::differing_facts(&shards).unwrap();
    assert!(
        words.ends_with("these differ: kernel, memory_bytes"),
        "{words}"
    );
}

/// A shard that lacks a boot, which no other shard has.
#[test]
fn an_iteration_that_no_shard_has_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut boots = boots();
    let lost = boots.iter().position(|boot| !boot.control).unwrap();
    let name = boots.remove(lost).test_case;
    let runs = vec![store(root, "only", &boots, json!({ "shard": "1/1" }), "c")];
    let shards = Shards::new(runs).unwrap();
    let merged = merge(root, &shards, Vec::new(), |_| {}, |_| String::new());
    let error = merged.unwrap_err().to_string();
    assert!(
        error.contains(&format!("iteration of {name} is")),
        "{error}"
    );
    // nothing is left
    let left = std::fs::read_dir(root).unwrap().count();
    assert_eq!(left, 1);
}
