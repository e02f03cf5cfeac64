//! `fwdlab schema`: prints the JSON Schemas of stored files and of the output. Start with
//! [`Schema::run`].

use clap::{Args, ValueEnum};

use crate::exit_code::Code;
use crate::output;

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// Kind of record
    kind: Kind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// run.json
    Run,
    /// summary.json
    Summary,
    /// A line of trials.jsonl
    Trial,
    /// A line of trials.jsonl of a comparison
    Rebuild,
    /// A line of trials.jsonl of boots of virtual machines
    Boot,
    /// A line of trials.jsonl of an imported run
    Imported,
    /// A line of events.jsonl and of --json-stream
    Event,
    /// A line of telemetry.jsonl
    Telemetry,
    /// The latencies in the output of send, receive and ping
    Latency,
    /// A traffic profile
    Profile,
    /// A campaign
    Campaign,
    /// A test bed
    Bed,
    /// set.toml of a configuration set
    Set,
}

impl Schema {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<Code> {
        // written by `cargo run -p xtask -- schemas`
        let schema = match self.kind {
            Kind::Run => include_str!("../../schemas/run.json"),
            Kind::Summary => include_str!("../../schemas/summary.json"),
            Kind::Trial => include_str!("../../schemas/trial.json"),
            Kind::Rebuild => include_str!("../../schemas/rebuild.json"),
            Kind::Boot => include_str!("../../schemas/boot.json"),
            Kind::Imported => include_str!("../../schemas/imported.json"),
            Kind::Event => include_str!("../../schemas/event.json"),
            Kind::Telemetry => include_str!("../../schemas/telemetry.json"),
            Kind::Latency => include_str!("../../schemas/latency.json"),
            Kind::Profile => include_str!("../../schemas/profile.json"),
            Kind::Campaign => include_str!("../../schemas/campaign.json"),
            Kind::Bed => include_str!("../../schemas/bed.json"),
            Kind::Set => include_str!("../../schemas/set.json"),
        };
        output::result(schema.trim_end());
        Ok(Code::Done)
    }
}
