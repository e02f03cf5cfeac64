//! The test cases of a campaign: every combination of the lists in its matrix, without the excluded
//! ones.
//!
//! Does not know what profiles and configurations contain. Start with [`Campaign::expand`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Campaign, Case, FLOWS, Kind, Order, PLAIN, first_twice};
use crate::file::{FileError, Step, did_you_mean};
use crate::trial::{IpVersion, Stream};
use crate::typed::{Numbers, Several, typed};
use crate::units::FrameSize;
use crate::variant::{Destinations, Modifiers, Variant};

/// More test cases count as an error.
const MOST_CASES: usize = 10_000;

/// The test cases: every combination of these lists
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matrix {
    /// Names of configurations, or plain; by default all that are defined, or plain if there are
    /// none
    pub configuration: Option<Several<String>>,
    /// Frame sizes in bytes, including the FCS, or smallest, the smallest of the IP version, which
    /// is the default
    pub size: Option<Several<Size>>,
    /// Numbers of flows; by default 2000
    pub flows: Option<Several<u32>>,
    /// IP versions
    pub ip: Option<Several<IpVersion>>,
    /// Traffic profiles, by name or file, instead of sizes, flows and IP versions; .py and .yaml
    /// are profiles of TRex
    pub profile: Option<Several<String>>,
    /// Destinations: flows (as many as flows gives), single (one address pair), random (over 256
    /// networks; RFC 2544 §12)
    pub destinations: Option<Several<Destinations>>,
    /// One direction, or both at once with the full load in each (RFC 2544 §14)
    pub directions: Option<Several<Directions>>,
    /// Modifiers (RFC 2544 §11): none, or those of one test case separated by commas
    pub modifier: Option<Several<Modifiers>>,
    /// Images that the DUT boots, as a virtual machine: debian:PACKAGE, a bzImage
    pub image: Option<Several<String>>,
    /// Kinds of DUTs; by default the kind in the table dut
    pub dut: Option<Several<Kind>>,
    /// Combinations to leave out: { configuration = "a", size = 64 }
    pub exclude: Vec<Excluded>,
}

/// A frame size of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The smallest of the IP version.
    Smallest,
    /// This number of bytes.
    Bytes(u16),
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        match text {
            "smallest" => Ok(Size::Smallest),
            bytes => bytes.parse().map(Size::Bytes).map_err(|_| {
                format!("`{text}` is not a frame size: give bytes, such as 64, or \"smallest\"")
            }),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Smallest => f.write_str("smallest"),
            Size::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Size::Smallest => serializer.collect_str(self),
            Size::Bytes(bytes) => bytes.serialize(serializer),
        }
    }
}

impl From<FrameSize> for Size {
    fn from(size: FrameSize) -> Size {
        Size::Bytes(size.bytes())
    }
}

typed!(Size, Numbers::Whole, "bytes such as 64, or \"smallest\"", {
    "description": "A frame size in bytes, including the FCS, or smallest",
    "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 65535 }, { "const": "smallest" }]
});

/// Directions of the frames
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// One direction
    #[default]
    One,
    /// Both directions
    Both,
}

impl fmt::Display for Directions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Directions::One => "one",
            Directions::Both => "both",
        })
    }
}

/// An exclusion: removes every test case that matches all keys given here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Excluded {
    /// This configuration
    configuration: Option<String>,
    /// This frame size
    size: Option<u16>,
    /// This number of flows
    flows: Option<u32>,
    /// This IP version
    ip: Option<IpVersion>,
    /// This profile
    profile: Option<String>,
    /// These destinations
    destinations: Option<Destinations>,
    /// This direction
    directions: Option<Directions>,
    /// These modifiers
    modifier: Option<Modifiers>,
    /// This image
    image: Option<String>,
    /// This kind of DUT
    dut: Option<Kind>,
}

impl Excluded {
    fn leaves_out(&self, case: &Case) -> bool {
        fn agrees<T: PartialEq>(said: Option<&T>, is: &T) -> bool {
            said.is_none_or(|said| said == is)
        }
        let (stream, variant) = (&case.stream, &case.variant);
        let directions = match variant.both_directions {
            true => Directions::Both,
            false => Directions::One,
        };
        // the placeholder for the stream of a profile was not given by the user
        let of_profile = variant.profile.is_some();
        let of_stream = agrees(self.size.as_ref(), &stream.frame_size_bytes.bytes())
            && agrees(self.flows.as_ref(), &stream.flows)
            && agrees(self.ip.as_ref(), &stream.ip_version);
        let says_stream = self.size.is_some() || self.flows.is_some() || self.ip.is_some();
        agrees(self.configuration.as_ref(), &case.configuration)
            && if of_profile { !says_stream } else { of_stream }
            && (self.profile.is_none() || self.profile == variant.profile)
            && agrees(self.destinations.as_ref(), &variant.destinations)
            && (self.image.is_none() || self.image == case.image)
            && agrees(self.dut.as_ref(), &case.dut)
            && agrees(self.directions.as_ref(), &directions)
            && agrees(
                self.modifier.as_ref().map(|said| &said.0),
                &variant.modifiers,
            )
    }
}

impl Campaign {
    /// Returns every combination that is not excluded. A name in `families` stands for several
    /// configurations.
    pub(super) fn expand(
        &self,
        matrix: &Matrix,
        families: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<Case>, FileError> {
        let defined: Vec<String> = families.values().flatten().cloned().collect();
        let named = families.keys().chain(&defined).cloned();
        let known: Vec<String> = std::iter::once(PLAIN.to_owned()).chain(named).collect();
        let configurations = match (&matrix.configuration, defined.is_empty()) {
            (Some(said), _) => {
                for (n, name) in said.0.iter().enumerate() {
                    if !known.contains(name) {
                        let reason = format!(
                            "there is no configuration `{name}`; {}",
                            did_you_mean(name, &known)
                        );
                        return Err(self.item("configuration", n, reason));
                    }
                }
                // the name of a family stands for all its members
                let of = |name: &String| match families.get(name) {
                    Some(all) => all.clone(),
                    None => vec![name.clone()],
                };
                said.0.iter().flat_map(of).collect()
            }
            (None, true) => vec![PLAIN.to_owned()],
            (None, false) => defined,
        };
        self.check_product(self.combinations(matrix, configurations.len())?)?;
        let swept = |key: &str| {
            self.sweep
                .as_ref()
                .is_some_and(|sweep| sweep.parameter == key)
        };
        for (key, is_said) in [
            ("flows", matrix.flows.is_some()),
            ("size", matrix.size.is_some()),
        ] {
            if is_said && swept(key) {
                let reason = format!("the sweep varies {key}: omit it from the matrix");
                return Err(self.error(&["matrix", key], reason));
            }
        }
        self.unique("configuration", &configurations)?;
        self.check_together(matrix, &configurations)?;
        let images = self.images(matrix)?;
        let kinds = self.kinds(matrix)?;
        let mut cases: Vec<Case> = Vec::new();
        let mut ids = BTreeSet::new();
        for configuration in &configurations {
            for (stream, variant) in self.offers(matrix)? {
                for image in &images {
                    for kind in &kinds {
                        let case = Case {
                            configuration: configuration.clone(),
                            stream: stream.clone(),
                            variant: variant.clone(),
                            image: image.clone(),
                            dut: *kind,
                        };
                        // one address pair is a single test case, whatever the other numbers of
                        // flows
                        if ids.insert(case.id()) {
                            cases.push(case);
                        }
                    }
                }
            }
        }
        for (n, excluded) in matrix.exclude.iter().enumerate() {
            if !cases.iter().any(|case| excluded.leaves_out(case)) {
                let reason = "no test case matches, or it was excluded before".into();
                return Err(self.item("exclude", n, reason));
            }
            cases.retain(|case| !excluded.leaves_out(case));
            if cases.is_empty() {
                return Err(self.error(&["matrix", "exclude"], "every test case is excluded"));
            }
        }
        if swept("flows") && matrix.destinations.is_some() {
            let reason = "the sweep varies flows: omit destinations from the matrix";
            return Err(self.error(&["matrix", "destinations"], reason));
        }
        if let (true, Some(first)) = (swept("size"), cases.first()) {
            self.streams(first)?;
        }
        if swept("flows")
            && let Some(sweep) = &self.sweep
        {
            for value in &sweep.values {
                let flows = u32::try_from(*value).unwrap_or(u32::MAX);
                let stream = &cases[0].stream;
                Stream::new(stream.ip_version, stream.frame_size_bytes, flows).map_err(
                    |error| self.error(&["procedure", "sweep", "values"], error.to_string()),
                )?;
            }
        }
        Ok(cases)
    }

    /// Returns the number of combinations.
    fn combinations(&self, matrix: &Matrix, configurations: usize) -> Result<u64, FileError> {
        fn of<T>(list: Option<&Several<T>>) -> usize {
            list.map_or(1, |list| list.0.len().max(1))
        }
        let lists = [
            ("configuration", configurations),
            ("size", of(matrix.size.as_ref())),
            ("flows", of(matrix.flows.as_ref())),
            ("ip", of(matrix.ip.as_ref())),
            ("profile", of(matrix.profile.as_ref())),
            ("destinations", of(matrix.destinations.as_ref())),
            ("directions", of(matrix.directions.as_ref())),
            ("modifier", of(matrix.modifier.as_ref())),
            ("image", of(matrix.image.as_ref())),
            ("dut", of(matrix.dut.as_ref())),
        ];
        let count = lists
            .iter()
            .fold(1, |all: usize, (_, n)| all.saturating_mul(*n));
        if count > MOST_CASES {
            let said = lists.iter().filter(|(_, n)| *n > 1);
            let said: Vec<String> = said.map(|(key, n)| format!("{n} of {key}")).collect();
            let reason = format!(
                "{} are {count} test cases; the maximum is {MOST_CASES}",
                said.join(" times ")
            );
            return Err(self.error(&["matrix"], reason));
        }
        if matrix.exclude.len() > MOST_CASES {
            let reason = format!(
                "{} are excluded; the maximum is {MOST_CASES}",
                matrix.exclude.len()
            );
            return Err(self.error(&["matrix", "exclude"], reason));
        }
        Ok(count as u64)
    }

    /// Returns the images to boot: those of the matrix, or that of the DUT.
    fn images(&self, matrix: &Matrix) -> Result<Vec<Option<String>>, FileError> {
        let Some(images) = &matrix.image else {
            return Ok(vec![self.dut.image().map(str::to_owned)]);
        };
        if self.dut.image().is_some() {
            let reason = "[matrix] has images, and dut.host is one: omit one of them";
            return Err(self.error(&["matrix", "image"], reason));
        }
        self.unique("image", &images.0)?;
        for (n, image) in images.0.iter().enumerate() {
            if image.trim().is_empty() {
                let reason = "it is empty; give debian:PACKAGE or a file";
                return Err(self.item("image", n, reason.into()));
            }
        }
        Ok(images.0.iter().cloned().map(Some).collect())
    }

    /// Returns the kinds of DUTs to measure: those of the matrix, or that of the DUT.
    fn kinds(&self, matrix: &Matrix) -> Result<Vec<Kind>, FileError> {
        let kinds = match &matrix.dut {
            None => vec![self.dut.kind],
            Some(kinds) => kinds.0.clone(),
        };
        let wrong = |key_path: &[&str], reason: &str| Err(self.error(key_path, reason));
        if matrix.dut.is_some() {
            self.unique("dut", &texts(&kinds))?;
            if !self.dut.kind.is_linux() {
                return wrong(
                    &["matrix", "dut"],
                    "[matrix] has kinds of DUTs, and dut.kind is one: omit one of them",
                );
            }
        }
        let has_vpp = kinds.iter().any(|kind| kind.is_vpp());
        let counted = kinds.iter().find(|kind| kind.is_counted_only());
        for (key, is_said) in [
            ("program", self.dut.program.is_some() && counted.is_none()),
            ("workers", self.dut.workers > 0),
        ] {
            if is_said && !has_vpp {
                return wrong(
                    &["dut", key],
                    "this is for VPP: set kind = \"vpp\", or dut = [\"linux\", \"vpp\"] in [matrix]",
                );
            }
        }
        let at: &[&str] = match matrix.dut {
            Some(_) => &["matrix", "dut"],
            None => &["dut", "kind"],
        };
        let in_guest = matrix.image.is_some() || self.dut.image().is_some();
        if has_vpp && (self.is_simulated() || self.dut.host.is_some() && !in_guest) {
            return wrong(
                at,
                "VPP is measured in a namespace of this machine: omit engine = \"sim\" and host, or vpp",
            );
        }
        if in_guest && (self.dut.workers > 0 || kinds.contains(&Kind::VppHugePages)) {
            return wrong(
                at,
                "in a virtual machine VPP has one CPU and no huge pages: omit workers, and take vpp",
            );
        }
        if let Some(kind) = counted
            && !in_guest
        {
            let reason = format!(
                "the instructions of {kind} are counted in a virtual machine: set image = [\"debian:PACKAGE\"] in [matrix], and id = \"exact\""
            );
            return wrong(at, &reason);
        }
        Ok(kinds)
    }

    /// Returns the streams of the test cases of a configuration.
    fn offers(&self, matrix: &Matrix) -> Result<Vec<(Stream, Variant)>, FileError> {
        let streams = match &matrix.profile {
            Some(profiles) => {
                self.unique("profile", &profiles.0)?;
                self.check_profiles(matrix)?;
                // a placeholder until the profile is read
                let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1);
                let stream = stream
                    .map_err(|error| self.error(&["matrix", "profile"], error.to_string()))?;
                let named = |name: &String| (stream.clone(), Some(name.clone()));
                profiles.0.iter().map(named).collect()
            }
            None => self.streams_of(matrix)?,
        };
        let destinations = matrix.destinations.as_ref();
        let destinations = destinations.map_or(&[Destinations::Flows][..], |all| &all.0);
        let directions = matrix.directions.as_ref();
        let directions = directions.map_or(&[Directions::One][..], |all| &all.0);
        let none = [Modifiers::default()];
        let modifiers = matrix.modifier.as_ref().map_or(&none[..], |all| &all.0);
        self.unique("destinations", &texts(destinations))?;
        self.unique("directions", &texts(directions))?;
        self.unique("modifier", &texts(modifiers))?;
        if self.is_simulated() {
            for (n, modifiers) in modifiers.iter().enumerate() {
                modifiers
                    .check_simulated()
                    .map_err(|reason| self.item("modifier", n, reason))?;
            }
        }
        let mut offers: Vec<(Stream, Variant)> = Vec::new();
        for (stream, profile) in streams {
            for &destinations in destinations {
                for directions in directions {
                    for modifiers in modifiers {
                        let variant = Variant {
                            profile: profile.clone(),
                            destinations,
                            both_directions: *directions == Directions::Both,
                            modifiers: modifiers.0.clone(),
                            shard: None,
                        };
                        offers.push((stream.clone(), variant));
                    }
                }
            }
        }
        if self.order == Order::Together {
            // one series after another, each with all frame sizes
            let series = super::distinct(offers.iter().map(|(_, variant)| variant));
            offers.sort_by_key(|(_, variant)| series.iter().position(|one| one == variant));
        }
        Ok(offers)
    }

    /// Refuses keys that a profile defines itself.
    fn check_profiles(&self, matrix: &Matrix) -> Result<(), FileError> {
        for (key, is_said) in [
            ("size", matrix.size.is_some()),
            ("flows", matrix.flows.is_some()),
            ("ip", matrix.ip.is_some()),
            ("destinations", matrix.destinations.is_some()),
        ] {
            if is_said {
                let reason = format!("profiles define what is sent: omit {key} or profile");
                return Err(self.error(&["matrix", key], reason));
            }
        }
        match &self.sweep {
            Some(sweep) if matches!(sweep.parameter.as_str(), "flows" | "size") => Err(self.error(
                &["procedure", "sweep", "parameter"],
                format!(
                    "profiles define what is sent, {} included: sweep something else, or omit profile",
                    sweep.parameter
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Returns streams of every size, number of flows and IP version.
    fn streams_of(&self, matrix: &Matrix) -> Result<Vec<(Stream, Option<String>)>, FileError> {
        let sizes = matrix.size.as_ref().map(|sizes| sizes.0.as_slice());
        let flows = matrix.flows.as_ref().map_or(&[FLOWS][..], |flows| &flows.0);
        let versions = matrix.ip.as_ref();
        let versions = versions.map_or(&[IpVersion::Ipv4][..], |ip| &ip.0);
        if let Some(sizes) = sizes {
            self.unique("size", &texts(sizes))?;
        }
        self.unique("flows", &texts(flows))?;
        self.unique("ip", &texts(versions))?;
        let mut streams = Vec::new();
        for version in versions {
            for (n, size) in sizes.unwrap_or(&[Size::Smallest]).iter().enumerate() {
                let size = match size {
                    Size::Smallest => Ok(version.smallest_frame()),
                    Size::Bytes(bytes) => FrameSize::new(*bytes),
                };
                let size = size.map_err(|error| self.item("size", n, error.to_string()))?;
                for (m, flows) in flows.iter().enumerate() {
                    let stream = Stream::new(*version, size, *flows);
                    let key = if (1..=60_000).contains(flows) {
                        ("size", n)
                    } else {
                        ("flows", m)
                    };
                    let stream =
                        stream.map_err(|error| self.item(key.0, key.1, error.to_string()))?;
                    streams.push((stream, None));
                }
            }
        }
        Ok(streams)
    }

    /// Returns an error about an item of a list.
    fn item(&self, key: &'static str, n: usize, reason: String) -> FileError {
        let key_path = [Step::Key("matrix"), Step::Key(key), Step::Item(n)];
        self.origin.error(&key_path, reason)
    }

    /// Refuses empty lists, and duplicates.
    fn unique(&self, key: &'static str, values: &[String]) -> Result<(), FileError> {
        let wrong = |reason: String| Err(self.error(&["matrix", key], reason));
        if values.is_empty() {
            return wrong(format!(
                "{key} is empty, so there would be no test case; omit {key} for the default"
            ));
        }
        match first_twice(values) {
            Some(twice) => wrong(format!("{twice} is listed twice")),
            None => Ok(()),
        }
    }
}

fn texts<T: ToString>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}
