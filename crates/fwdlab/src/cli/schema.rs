//! `fwdlab schema`: the JSON Schema of what is kept and told.

use clap::{Args, ValueEnum};

use crate::exit_code::Code;
use crate::output;

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub struct Schema {
    /// Which record
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
    /// The latencies in what send, receive and ping print
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
    /// Runs it.
    pub fn run(self) -> anyhow::Result<Code> {
        let schema = match self.kind {
            Kind::Run => schemars::schema_for!(fwdlab_model::result::RunInfo),
            Kind::Summary => schemars::schema_for!(fwdlab_model::result::Summary),
            Kind::Trial => schemars::schema_for!(fwdlab_model::result::TrialRecord),
            Kind::Rebuild => schemars::schema_for!(fwdlab_model::event::RebuildRecord),
            Kind::Boot => schemars::schema_for!(fwdlab_model::instructions::BootRecord),
            Kind::Imported => schemars::schema_for!(fwdlab_model::import::ImportedRecord),
            Kind::Event => schemars::schema_for!(fwdlab_model::event::Event),
            Kind::Telemetry => schemars::schema_for!(fwdlab_model::telemetry::Record),
            Kind::Latency => schemars::schema_for!(fwdlab_model::latency::LatencySummary),
            Kind::Campaign => schemars::schema_for!(fwdlab_model::campaign::Campaign),
            Kind::Bed => schemars::schema_for!(fwdlab_model::test_bed::Text),
            Kind::Set => schemars::schema_for!(fwdlab_model::set::SetFile),
            Kind::Profile => schemars::schema_for!(fwdlab_model::profile::Profile),
        };
        output::json(&schema)?;
        Ok(Code::Done)
    }
}
