//! Campaigns: files that define which test cases are measured, by which procedure, how often and in
//! which order.
//!
//! A [`Campaign`] is well formed and contains its test cases. The caller interprets the commands of
//! its configurations and the text of a simulated DUT, and checks that the procedure's parameters
//! fit the loads. It also reads the files. Start with [`Campaign::parse`].
//!
//! ```
//! let text = "
//!     campaign = 'flows'
//!     [matrix]
//!     flows = [1, 2000]
//!     [procedure]
//!     id = 'mrr'
//! ";
//! let campaign = fwdlab_model::campaign::Campaign::parse("flows.toml", text)?;
//! assert_eq!(campaign.cases.len(), 2);
//!
//! let text = text.replace("'mrr'", "'mmr'");
//! let error = fwdlab_model::campaign::Campaign::parse("x.toml", &text).unwrap_err();
//! assert_eq!(error.to_string(), "x.toml:6:10: there is no procedure `mmr`; did you mean `mrr`?");
//! # Ok::<(), fwdlab_model::file::FileError>(())
//! ```

mod configurations;
mod draft;
mod hooks;
mod iterations;
mod matrix;
mod procedure;
mod reboot;
mod selection;
mod threshold;
mod together;
pub mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
#[cfg(feature = "schemas")]
use schemars::{Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::file::{self, FileError, Origin, Step};
use crate::link::{LinkLoad, LinkSpeed};
use crate::test_bed::check_senders;
use crate::trial::Stream;
pub use crate::typed::Several;
use crate::units::{FrameSize, Load};
use crate::variant::Variant;
pub use draft::Draft;
pub use hooks::{Every, Hook, Hooks, On, When};
pub use iterations::{HalfWidth, UntilPrecise};
pub use matrix::{Directions, Matrix, Size};
use procedure::ProcedureError;
pub use procedure::{
    Churn, Counting, Energy, Equilibrium, Exact, ForwardingRate, Generator, LoadedLatency,
    Management, Maxfwd, Mlrsearch, Mrr, Paired, Plr, Procedure, Ramp, Rfc2544, Soak, Sweep, Test,
    Trial,
};
pub use reboot::Reboot;
pub use selection::Selection;
pub use threshold::{Amount, Reference, Threshold};
use value::{Period, Rate};

/// Name of the router without any configuration.
pub const PLAIN: &str = "plain";

/// Default number of flows of a test case.
pub const FLOWS: u32 = 2000;

/// Largest file, in bytes.
pub const LARGEST_FILE: usize = 1 << 20;

/// More workers count as an error.
const MOST_WORKERS: u32 = 64;

/// More trials count as an error: of a second each, they would take twelve days.
const MOST_TRIALS: u64 = 1_000_000;

/// Minimum interval of telemetry samples.
const SHORTEST_SAMPLE: Duration = Duration::from_millis(100);

/// A campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its purpose, in one line.
    pub about: String,
    /// The question that it answers, as a reader would ask it.
    pub question: String,
    /// Its special requirements, as text.
    pub needs: Vec<String>,
    /// Number of iterations of every test case, or their maximum.
    pub iterations: u32,
    /// The precision at which to stop early, if any.
    pub until: Option<UntilPrecise>,
    /// Order of the test cases.
    pub order: Order,
    /// What happens after a failure.
    pub on_failure: OnFailure,
    /// Restart of the DUT: before every test bed in interleaved order, before every test case in
    /// grouped order.
    pub reboot: Option<Reboot>,
    /// Seed of all randomness; `None` to choose and record one.
    pub seed: Option<u64>,
    /// The test bed.
    pub bed: Bed,
    /// The DUT, if it is not a namespace of this machine.
    pub dut: Dut,
    /// How profiles of TRex are read.
    pub trex: Trex,
    /// Commands, files and directories of each configuration; the plain router has none.
    pub configurations: BTreeMap<String, Vec<String>>,
    /// Every test case, in the order of the file.
    pub cases: Vec<Case>,
    /// The procedure of each test case.
    pub procedure: Procedure,
    /// The sweep within a test case.
    pub sweep: Option<Sweep>,
    /// What to read of the DUT's host around trials; `None` if not in the file.
    pub telemetry: Option<Telemetry>,
    /// Commands before, during and after a measurement.
    pub hooks: Hooks,
    /// Requirements on the figures.
    pub thresholds: Vec<Threshold>,
    /// Its source, for errors.
    pub origin: Origin,
}

/// A test case: a configuration of the DUT and the traffic through it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Case {
    /// Name of the configuration; `plain` is the router without any configuration.
    pub configuration: String,
    /// The test traffic. For a profile, a stream of its mean frame size and number of flows, once
    /// the profile has been read.
    #[serde(flatten)]
    pub stream: Stream,
    /// Differences from a plain series.
    #[serde(default, skip_serializing_if = "Variant::is_plain")]
    pub variant: Variant,
    /// The image that the DUT boots, if it is a virtual machine: `debian:linux-image-...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The kind of the DUT.
    #[serde(default, skip_serializing_if = "Kind::is_linux")]
    pub dut: Kind,
}

impl Case {
    /// Returns a name for tables, files and filters: `nft-stateful/64B-2000flows-ipv4`, with `@vpp`
    /// for a DUT other than Linux.
    pub fn id(&self) -> String {
        let id = format!("{}/{}", self.configuration, self.series());
        match &self.image {
            Some(image) => format!("{id}@{image}"),
            None => id,
        }
    }

    /// Returns the name that it has in its campaign: without the shard of a joined run.
    pub fn planned_id(&self) -> String {
        let mut planned = self.clone();
        planned.variant.shard = None;
        planned.id()
    }

    /// Returns true if a reference of this name, a configuration or an image, is in this test case.
    pub fn is_reference(&self, name: &str) -> bool {
        self.configuration == name || self.image.as_deref() == Some(name)
    }

    /// Returns the name without the configuration and the image: `64B-2000flows-ipv4@vpp`.
    pub fn series(&self) -> String {
        let id = self.variant.id(&self.stream);
        match self.dut {
            Kind::Linux => id,
            kind => format!("{id}@{kind}"),
        }
    }
}

/// The order in which test cases are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Randomised complete blocks: every test case once, in random order, then all of them again
    #[default]
    Interleaved,
    /// All iterations of one test case, then those of the next
    Grouped,
    /// All test cases in one turn on one test bed: the procedure goes from one frame size and
    /// series to the next, and the run ends with the first failure
    Together,
}

/// What a campaign does after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Record the reason, and continue with the other test cases
    #[default]
    Continue,
    /// End the run, without a result
    End,
}

/// The test bed
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bed {
    /// A test-bed file, or its name: rack1 is beds/rack1.toml next to the campaign or one level
    /// above it; bed = "rack1" is the short form
    pub file: Option<String>,
    /// The sender: auto chooses the fastest engine that passes its self-test on this host; sim
    /// simulates DUT and tester
    pub engine: Engine,
    /// Properties of the simulated DUT: capacity=1e6,buffer=1000
    pub dut: Option<String>,
    /// CPUs of the DUT; by default the last one
    pub dut_cpus: Vec<usize>,
    /// Threads that send into each port, each through its own queue; by default those of the
    /// test-bed file, or as many as the load needs according to the self-test, and one without it
    #[schemars(range(min = 1, max = crate::test_bed::MOST_SENDERS))]
    pub senders: Option<u32>,
    /// Speed of the links, such as 1G: limits the load to the line rate, and loads in percent refer
    /// to it
    pub link: Option<LinkSpeed>,
    /// Largest load; by default the largest that the tester can offer, up to the line rate
    pub max: Option<Rate>,
    /// Run configurations and resets of the DUT as processes of the host, with write access to all
    /// of its files; by default they are isolated from the host
    pub unconfined: bool,
}

/// How profiles of TRex are read
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trex {
    /// The Python that has the TRex client library
    pub python: String,
    /// Tunables of the profiles: NAME=VALUE
    pub tunables: Vec<String>,
}

impl Default for Trex {
    fn default() -> Trex {
        Trex {
            python: "python3".into(),
            tunables: Vec::new(),
        }
    }
}

/// The device under test, if it is not a network namespace of this machine
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dut {
    /// The kind of DUT
    pub kind: Kind,
    /// Location: vm:IMAGE boots a virtual machine; IMAGE is debian:PACKAGE or a bzImage
    pub host: Option<String>,
    /// The program: of VPP, by default $FWDLAB_VPP, or vpp in PATH; of testpmd, by default
    /// dpdk-testpmd in PATH; of Open vSwitch, by default the ovs-vswitchd-dpdk of Debian, or
    /// ovs-vswitchd in PATH
    pub program: Option<String>,
    /// Number of VPP workers, each on one of the DUT's CPUs; with 0 the main thread forwards
    #[schemars(range(max = 64))]
    pub workers: u32,
}

/// Kinds of DUTs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Linux
    #[default]
    Linux,
    /// VPP, which fwdlab starts in the DUT's namespace; with an image, its instructions are counted
    /// in a virtual machine
    Vpp,
    /// VPP with its memory in huge pages of 2 MiB
    VppHugePages,
    /// DPDK's testpmd, whose instructions are counted in a virtual machine; configurations are
    /// programs and their options
    Testpmd,
    /// Open vSwitch with DPDK, whose instructions are counted in a virtual machine; configurations
    /// are commands such as ovs-ofctl
    OvsDpdk,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [
        Kind::Linux,
        Kind::Vpp,
        Kind::VppHugePages,
        Kind::Testpmd,
        Kind::OvsDpdk,
    ];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Linux => "linux",
            Kind::Vpp => "vpp",
            Kind::VppHugePages => "vpp-huge-pages",
            Kind::Testpmd => "testpmd",
            Kind::OvsDpdk => "ovs-dpdk",
        }
    }

    /// Returns true for the original kind, which is the default.
    pub fn is_linux(&self) -> bool {
        *self == Kind::Linux
    }

    /// Returns true for a VPP, with either kind of memory.
    pub fn is_vpp(self) -> bool {
        matches!(self, Kind::Vpp | Kind::VppHugePages)
    }

    /// Returns true for a data plane in user space whose instructions are counted in a virtual
    /// machine, and nothing else.
    pub fn is_counted_only(self) -> bool {
        matches!(self, Kind::Testpmd | Kind::OvsDpdk)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Dut {
    /// Returns the image that it boots.
    pub fn image(&self) -> Option<&str> {
        self.host.as_deref()?.strip_prefix("vm:")
    }
}

/// Telemetry to read from the DUT's host around every trial
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Telemetry {
    /// Interval between samples while frames flow, such as 1s; without it, no samples are taken
    pub every: Option<Period>,
    /// What to read before and after the load; by default everything
    pub collect: Option<Vec<Subject>>,
    /// A command for the DUT's host that prints its current power in watts
    pub power: Option<String>,
    /// Make a flame graph of the DUT for every test case, in an extra iteration that does not count
    /// otherwise
    pub perf: Option<Perf>,
}

/// How to make a flame graph
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Perf {
    /// How long perf samples while frames flow, such as 5s
    #[serde(rename = "for")]
    pub time: Period,
}

/// Subjects of telemetry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// CPU time, software interrupts, backlogs
    Cpu,
    /// Interrupts of devices, and their CPU affinity
    Interrupts,
    /// Counters of interfaces, the IP layer, firewall rules and connection tracking
    Drops,
    /// Packets per queue, and driver counters
    Ethtool,
    /// Table sizes, and memory
    Sizes,
    /// Frequency, temperature, energy
    Sensors,
}

impl Subject {
    /// All subjects.
    pub const ALL: [Subject; 6] = [
        Subject::Cpu,
        Subject::Interrupts,
        Subject::Drops,
        Subject::Ethtool,
        Subject::Sizes,
        Subject::Sensors,
    ];
}

/// The sending engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// The fastest engine that passes its self-test on this host
    #[default]
    Auto,
    /// XDP live frames, which stay in the driver
    XdpLive,
    /// AF_XDP
    AfXdp,
    /// AF_PACKET
    AfPacket,
    /// No sender: DUT and tester are simulated
    Sim,
}

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 5] = [
        Engine::Auto,
        Engine::XdpLive,
        Engine::AfXdp,
        Engine::AfPacket,
        Engine::Sim,
    ];

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::XdpLive => "xdp-live",
            Engine::AfXdp => "af-xdp",
            Engine::AfPacket => "af-packet",
            Engine::Sim => "sim",
        }
    }
}

/// A campaign: which test cases to measure, with which procedure, how often and in which order
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Text {
    /// The version of fwdlab that this file was written for
    #[serde(default, rename = "fwdlab")]
    #[expect(dead_code, reason = "for people and for later versions")]
    written_for: Option<String>,
    /// Name of the campaign: letters, digits, -, _ and .
    campaign: String,
    /// Its purpose, in one line
    #[serde(default)]
    about: String,
    /// The question that it answers; reports show it next to the answer
    #[serde(default)]
    question: String,
    /// Special requirements that not every machine meets, as text
    #[serde(default)]
    needs: Vec<String>,
    /// Number of iterations of every test case: 5, or { until = "±1%", min = 10, max = 50 }
    #[serde(default)]
    #[schemars(schema_with = "iterations::schema")]
    iterations: iterations::Iterations,
    /// Order of the test cases
    #[serde(default)]
    order: Order,
    /// What happens after a failure
    #[serde(default)]
    on_failure: OnFailure,
    /// Restart the DUT of a test bed: before every iteration in interleaved order, once per test
    /// case in grouped order
    #[serde(default, deserialize_with = "reboot::said")]
    #[schemars(schema_with = "reboot::schema")]
    reboot: Option<Reboot>,
    /// Seed of all random choices; by default one is chosen and recorded
    #[serde(default)]
    seed: Option<u64>,
    /// The test bed: its name, or a table
    #[serde(default, deserialize_with = "named_or_table")]
    #[schemars(schema_with = "named_or_table_schema")]
    bed: Bed,
    /// The device under test, if it is not a network namespace of this machine
    #[serde(default)]
    dut: Dut,
    /// How profiles of TRex are read: files in the matrix whose names end with .py or .yaml
    #[serde(default)]
    trex: Trex,
    /// Configurations by name: a command, a file, a directory, a generated configuration, or a list
    /// of these to apply in order
    #[serde(default)]
    configuration: BTreeMap<String, configurations::Said>,
    /// Telemetry to read from the DUT's host around every trial
    #[serde(default)]
    telemetry: Option<Telemetry>,
    /// Commands before, during and after a measurement
    #[serde(default)]
    hooks: hooks::Text,
    /// Requirements on the figures; they set the exit code and appear in every report
    #[serde(default)]
    threshold: Vec<Threshold>,
    /// The test cases
    #[serde(default)]
    matrix: Matrix,
    /// The procedure for every test case
    #[serde(default)]
    #[schemars(schema_with = "procedure::schema", required)]
    #[expect(dead_code, reason = "read by its id, and there for its schema")]
    procedure: IgnoredAny,
}

/// Reads `bed = "rack1"`, or `[bed]`.
fn named_or_table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bed, D::Error> {
    struct NameOrTable;

    impl<'de> Visitor<'de> for NameOrTable {
        type Value = Bed;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a test bed, or a table")
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<Bed, E> {
            Ok(Bed {
                file: Some(name.to_owned()),
                ..Bed::default()
            })
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Bed, A::Error> {
            Bed::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_any(NameOrTable)
}

#[cfg(feature = "schemas")]
fn named_or_table_schema(generator: &mut SchemaGenerator) -> Schema {
    let table = generator.subschema_for::<Bed>();
    schemars::json_schema!({ "anyOf": [{ "type": "string" }, table] })
}

#[cfg(feature = "schemas")]
impl JsonSchema for Campaign {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Campaign".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Text::json_schema(generator);
        schema.insert(
            "required".into(),
            serde_json::json!(["campaign", "procedure"]),
        );
        schema
    }
}

impl Campaign {
    /// Removes all test cases that are not selected.
    ///
    /// # Errors
    /// If none is selected; lists some of the existing ones.
    pub fn only(&mut self, is_meant: impl Fn(&Case) -> bool) -> Result<(), String> {
        let meant: Vec<Case> = self.cases.iter().filter(|c| is_meant(c)).cloned().collect();
        if meant.is_empty() {
            let some: Vec<String> = self.cases.iter().take(5).map(Case::id).collect();
            let more = match self.cases.len() - some.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            return Err(format!(
                "no test case is meant; there are {}{more}",
                some.join(", ")
            ));
        }
        self.cases = meant;
        Ok(())
    }

    /// Parses a campaign. `file`: for errors.
    ///
    /// # Errors
    /// The position in the file and what is wrong there.
    pub fn parse(file: &str, text: &str) -> Result<Campaign, FileError> {
        let mut origin = Origin {
            file: file.into(),
            text: text.into(),
        };
        if text.len() > LARGEST_FILE {
            origin.text = "".into();
            let reason = format!(
                "{} bytes; a campaign has at most {LARGEST_FILE}",
                text.len()
            );
            return Err(origin.error(&[], reason));
        }
        let root = origin.table()?;
        let read: Text = file::read(&root).map_err(|wrong| origin.misread(&wrong))?;
        let found = procedure::read(root.get_ref().get("procedure"));
        let (procedure, sweep) = found.map_err(|wrong| match wrong {
            ProcedureError::Reading(wrong) => origin.misread(&wrong),
            ProcedureError::Place(key_path, reason) => origin.error(&key_path, reason),
        })?;
        let expanded = configurations::expand(&origin, read.configuration)?;
        let mut campaign = Campaign {
            name: read.campaign,
            about: read.about,
            question: read.question,
            needs: read.needs,
            iterations: read.iterations.max,
            until: read.iterations.until,
            order: read.order,
            on_failure: read.on_failure,
            reboot: read.reboot,
            seed: read.seed,
            bed: read.bed,
            dut: read.dut,
            trex: read.trex,
            configurations: expanded.configurations,
            cases: Vec::new(),
            procedure,
            sweep,
            telemetry: read.telemetry,
            hooks: Hooks::default(),
            thresholds: read.threshold,
            origin,
        };
        campaign.check()?;
        campaign.hooks = campaign.hooks_of(read.hooks)?;
        campaign.cases = campaign.expand(&read.matrix, &expanded.families)?;
        campaign.check_thresholds()?;
        Ok(campaign)
    }

    /// Returns an error about the value at this path, or its closest existing parent.
    pub fn error(&self, key_path: &[&str], reason: impl Into<String>) -> FileError {
        let key_path: Vec<Step<'_>> = key_path.iter().map(|key| Step::Key(key)).collect();
        self.origin.error(&key_path, reason)
    }

    /// Makes every test case boot this image, as a test bed of that image would.
    ///
    /// # Errors
    /// If a test case has its own image.
    pub fn boot(&mut self, image: &str) -> Result<(), FileError> {
        if self.cases.iter().any(|case| case.image.is_some()) {
            let reason = "the test bed is an image already; omit this, or omit bed";
            return Err(self.error(&["matrix", "image"], reason));
        }
        self.bed.file = None;
        for case in &mut self.cases {
            case.image = Some(image.to_owned());
        }
        Ok(())
    }

    /// Returns the series of a test case, or of all test cases that are measured together.
    pub fn variants(&self, case: &Case) -> Vec<Variant> {
        match self.order {
            Order::Together => self.all_variants(),
            Order::Interleaved | Order::Grouped => vec![case.variant.clone()],
        }
    }

    /// Returns the series of all test cases.
    pub fn all_variants(&self) -> Vec<Variant> {
        distinct(self.cases.iter().map(|case| &case.variant))
    }

    /// Returns true if the DUT is simulated.
    pub fn is_simulated(&self) -> bool {
        self.bed.engine == Engine::Sim
    }

    /// Returns the streams of a test case: one, one of each size if the frame size is swept, or
    /// those of all test cases that are measured together.
    ///
    /// # Errors
    /// An invalid size; [`Campaign::parse`] has checked them.
    pub fn streams(&self, case: &Case) -> Result<Vec<Stream>, FileError> {
        if self.order == Order::Together {
            return Ok(distinct(self.cases.iter().map(|case| &case.stream)));
        }
        let Some(sweep) = self
            .sweep
            .as_ref()
            .filter(|sweep| sweep.parameter == "size")
        else {
            return Ok(vec![case.stream.clone()]);
        };
        let sizes = sweep.values.iter().map(|value| {
            (value.to_string().parse::<FrameSize>())
                .and_then(|size| Stream::new(case.stream.ip_version, size, case.stream.flows))
                .map_err(|error| self.error(&["procedure", "sweep", "values"], error.to_string()))
        });
        sizes.collect()
    }

    fn check(&self) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        if !is_name(&self.name) {
            return wrong(
                &["campaign"],
                "a name consists of at most 64 letters, digits, -, _ and .",
            );
        }
        self.check_iterations()?;
        for (name, parts) in &self.configurations {
            let key_path = ["configuration", name];
            if name == PLAIN {
                return wrong(
                    &key_path,
                    "plain is the router without any configuration; use another name",
                );
            }
            // commands name configurations by what was typed
            if name.trim() != name || name.is_empty() {
                return wrong(
                    &key_path,
                    "a name is a text that neither begins nor ends with a space",
                );
            }
            if parts.is_empty() || parts.iter().any(|part| part.trim().is_empty()) {
                return wrong(
                    &key_path,
                    "it is empty; give a command, a file or a directory (plain is the router without any)",
                );
            }
        }
        self.check_bed()?;
        if let (Some(host), None | Some("")) = (&self.dut.host, self.dut.image()) {
            let reason = format!(
                "`{host}` is not a host; give vm:IMAGE, IMAGE being debian:PACKAGE or a bzImage"
            );
            return wrong(&["dut", "host"], &reason);
        }
        self.check_kind()?;
        self.check_reboot()?;
        self.check_telemetry()?;
        let counts = self.procedure.check_counts();
        counts.map_err(|(key, reason)| self.error(&["procedure", key], reason))?;
        self.check_sweep()
    }

    /// Checks the products of all counts before anything is built.
    fn check_product(&self, cases: u64) -> Result<(), FileError> {
        let swept = self.sweep.as_ref().map_or(1, Sweep::measurements);
        let trials = self.procedure.trials();
        let factors = [cases, self.iterations.into(), swept, trials];
        let all = factors.iter().fold(1, |all: u64, n| all.saturating_mul(*n));
        if all <= MOST_TRIALS {
            return Ok(());
        }
        let [_, iterations, ..] = factors;
        let words = [
            (cases, "test cases", &["matrix"][..]),
            (iterations, "iterations", &["iterations"][..]),
            (
                swept,
                "measurements of a sweep",
                &["procedure", "sweep", "runs"][..],
            ),
            (trials, "trials or repetitions", &["procedure"][..]),
        ];
        let said = words.iter().filter(|(count, ..)| *count > 1);
        let said: Vec<String> = said
            .map(|(count, what, _)| format!("{count} {what}"))
            .collect();
        let reason = format!(
            "{} are at least {all} trials; the maximum is {MOST_TRIALS}",
            said.join(" times ")
        );
        let most = words.iter().max_by_key(|(count, ..)| *count);
        Err(self.error(most.map_or(&[], |(_, _, key_path)| key_path), reason))
    }

    /// Replaces the test bed.
    ///
    /// # Errors
    /// The campaign cannot be measured on one, because it describes its DUT.
    pub fn measure_on(&mut self, bed: &str) -> Result<(), FileError> {
        self.bed.file = Some(bed.to_owned());
        self.check_bed()
    }

    fn check_bed(&self) -> Result<(), FileError> {
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        let bed = &self.bed;
        if matches!(bed.max, Some(Rate(LinkLoad::Load(Load::Max)))) {
            return wrong(
                &["bed", "max"],
                "give a load such as \"1Mpps\", or omit max",
            );
        }
        if let Some(senders) = bed.senders {
            if let Err(reason) = check_senders(senders) {
                return wrong(&["bed", "senders"], &reason);
            }
            if self.is_simulated() {
                return wrong(
                    &["bed", "senders"],
                    "a simulated DUT has no sender; omit this",
                );
            }
        }
        if let Some(file) = &bed.file {
            if file.trim().is_empty() {
                return wrong(
                    &["bed"],
                    "it is empty; give the name of a test bed, or omit it",
                );
            }
            if self.is_simulated() {
                return wrong(
                    &["bed", "file"],
                    "a simulated DUT needs no test bed; omit file, or omit engine",
                );
            }
            if self.dut != Dut::default() {
                return wrong(
                    &["dut"],
                    "the test bed defines the DUT; omit this, or omit bed",
                );
            }
            if !bed.dut_cpus.is_empty() {
                return wrong(
                    &["bed", "dut-cpus"],
                    "fwdlab does not choose the CPUs of a DUT on such a test bed; omit this",
                );
            }
        }
        if !self.is_simulated() {
            return match bed.dut {
                Some(_) => wrong(
                    &["bed", "dut"],
                    "this describes a simulated DUT: add engine = \"sim\"",
                ),
                None => Ok(()),
            };
        }
        if !bed.dut_cpus.is_empty() {
            return wrong(
                &["bed", "dut-cpus"],
                "a simulated DUT has no CPUs; omit this",
            );
        }
        match self.configurations.is_empty() {
            true => Ok(()),
            false => wrong(
                &["configuration"],
                "configurations are for the test bed; a simulated DUT is described by dut in [bed]",
            ),
        }
    }

    fn check_kind(&self) -> Result<(), FileError> {
        let wrong = |key: &str, reason: &str| Err(self.error(&["dut", key], reason));
        if self.dut.workers > MOST_WORKERS {
            return wrong("workers", "VPP has at most 64 workers here");
        }
        if self.dut.kind.is_linux() {
            return Ok(());
        }
        if self.is_simulated() {
            return wrong(
                "kind",
                "a simulated DUT has no kind: omit kind, or engine = \"sim\"",
            );
        }
        match self.dut.host {
            Some(_) if self.dut.kind.is_vpp() && self.dut.image().is_none() => wrong(
                "host",
                "VPP is measured in a namespace of this machine: omit host",
            ),
            _ => Ok(()),
        }
    }

    fn check_telemetry(&self) -> Result<(), FileError> {
        let samples = self
            .telemetry
            .as_ref()
            .and_then(|requested| requested.every);
        if matches!(self.procedure, Procedure::Energy(_))
            && (samples.is_none() || self.is_simulated())
        {
            let reason = "energy is read on the DUT's host while frames flow: say how often, [telemetry] every = \"1s\", and with which \
                       command, power = \"...\", where the host has neither RAPL nor hwmon; a simulated DUT takes none";
            return Err(self.error(&["procedure", "id"], reason));
        }
        let Some(telemetry) = &self.telemetry else {
            return Ok(());
        };
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        if self.is_simulated() {
            return wrong(
                &["telemetry"],
                "a simulated DUT has no host that could be read; omit this",
            );
        }
        match self.procedure.counting() {
            Counting::Slices => {
                let reason = "slices compare DUTs that share a host, whose counts cannot be divided among them; omit this, or measure by \
                           another procedure";
                return wrong(&["telemetry"], reason);
            }
            Counting::Instructions => {
                let reason = "this procedure counts instructions and no time: there is nothing to read; omit this";
                return wrong(&["telemetry"], reason);
            }
            Counting::Trials | Counting::Windows => {}
        }
        if telemetry
            .every
            .is_some_and(|every| every.0 < SHORTEST_SAMPLE)
        {
            let reason =
                "a sample costs the DUT some milliseconds of CPU: the shortest interval is 100ms";
            return wrong(&["telemetry", "every"], reason);
        }
        match telemetry.power.as_deref().map(str::trim) {
            Some("") => wrong(
                &["telemetry", "power"],
                "give a command that prints watts, or omit this",
            ),
            _ => Ok(()),
        }
    }

    fn check_sweep(&self) -> Result<(), FileError> {
        let Some(sweep) = &self.sweep else {
            return Ok(());
        };
        let wrong =
            |key: &str, reason: String| Err(self.error(&["procedure", "sweep", key], reason));
        if sweep.parameter.trim().is_empty() {
            return wrong(
                "parameter",
                "the swept parameter needs a name, such as rules".into(),
            );
        }
        if let Err((key, reason)) = sweep.check_counts() {
            return wrong(key, reason);
        }
        if sweep.values.len() < 2 {
            return wrong(
                "values",
                "a sweep needs at least two values, the reference first".into(),
            );
        }
        if let Some(twice) = first_twice(&sweep.values) {
            return wrong(
                "values",
                format!("{twice} is listed twice; runs = 3 measures every value three times"),
            );
        }
        if sweep.undo.is_some() && sweep.apply.is_none() {
            return wrong("undo", "undo requires apply".into());
        }
        match &sweep.apply {
            Some(_) if self.is_simulated() => wrong(
                "apply",
                "commands are for the test bed; a simulated DUT has cost= and cliff=".into(),
            ),
            Some(apply) if !apply.contains("{}") => wrong(
                "apply",
                "{} is the placeholder for the value, but is missing".into(),
            ),
            _ => Ok(()),
        }
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&text.len()) && text.chars().all(allowed) && !text.starts_with('.')
}

/// Returns different values in the order of their first occurrence.
pub fn distinct<'a, T: PartialEq + Clone + 'a>(values: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    all
}

fn first_twice<T: Ord>(values: &[T]) -> Option<&T> {
    let mut known = BTreeSet::new();
    values.iter().find(|value| !known.insert(*value))
}

#[cfg(test)]
mod tests;
