//! The log of a bisection on disk: one line of JSON for its start, one per candidate, one for the
//! final comparison.
//!
//! `fwdlab_measure::bisect` does the search. Start with [`Line`].

use serde::{Deserialize, Serialize};

use crate::campaign::{self, Campaign, Case, Generator, Procedure};
use crate::file::{FileError, did_you_mean};
use crate::instructions::{Exact, differing_generators, differing_losses};
use crate::trial::Stream;

/// Version of the log.
pub const FORMAT: u32 = 1;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The first line: what the search covers.
    Began(Box<Began>),
    /// A tested candidate.
    Tested(Box<Tested>),
    /// The last line: the candidates on both sides of the change, measured again, with instructions
    /// by function.
    Compared(Box<Compared>),
}

/// What the search covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Began {
    /// Version of the log.
    pub format: u32,
    /// Start time (RFC 3339, UTC).
    pub started_at: String,
    /// The candidates, from the good end to the bad end.
    pub candidates: Vec<Candidate>,
    /// How to build an image from a candidate; absent when the candidates are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
    /// Applied to every DUT, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The test case of a campaign to measure; absent unless a campaign file was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<OfCampaign>,
    /// The test traffic.
    pub stream: Stream,
    /// Frames per burst.
    pub frames: u32,
    /// Changes smaller than this are ignored, in percent.
    pub threshold_percent: f64,
}

/// One candidate of the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// An image, or the id of a commit.
    pub name: String,
    /// The title of the commit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

/// A test case of a campaign, without its image. [`Began`] has the test traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfCampaign {
    /// The campaign file. Its configuration names paths relative to the directory of this file.
    pub file: String,
    /// Name of the test case, without an image.
    pub case: String,
    /// Name of the configuration; `plain` is the router without any configuration.
    pub configuration: String,
    /// Parts of the configuration: commands, files and directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// How to measure it.
    pub procedure: campaign::Exact,
}

/// How to build images from commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The repository.
    pub repository: String,
    /// The build command, run with `sh -c`.
    pub command: String,
}

/// The result of a candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// Index of the candidate, from 0.
    pub at: usize,
    /// Name of the candidate.
    pub candidate: String,
    /// The verdict on it.
    pub verdict: Verdict,
    /// The measured figure; absent when the candidate was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// How many more instructions the same image took in another boot; only for the good end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<f64>,
    /// Why the candidate was skipped, or that its figure is close to the middle between the ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The image that was booted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The run that measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// A figure with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Instructions that the DUT executes per frame.
    pub instructions_per_frame: f64,
    /// Uncertainty: lower and upper bound.
    pub interval: [f64; 2],
    /// The sender of the bursts. Absent in logs before it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    /// Frames lost over frames sent through the DUT.
    #[serde(default)]
    pub frame_loss_ratio: f64,
}

/// The verdict on a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Before the change.
    Good,
    /// After the change.
    Bad,
    /// Skipped: it could not be built, booted or measured.
    Skipped,
}

/// Both sides of the change, compared in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The last candidate before the change.
    pub last_good: Exact,
    /// The first candidate after the change, with its difference from the last good one.
    pub first_bad: Exact,
    /// The run that compared them.
    pub run: String,
}

impl OfCampaign {
    /// Returns the test case with this name, or the only one, and its stream. `file`: the absolute
    /// path of the campaign.
    ///
    /// # Errors
    /// If its procedure measures no images, or it is not clear which test case is meant.
    pub fn new(
        campaign: &Campaign,
        file: &str,
        requested: Option<&str>,
    ) -> Result<(OfCampaign, Stream), FileError> {
        let Procedure::Exact(procedure) = &campaign.procedure else {
            let reason = format!(
                "{} cannot compare kernels here: rates of an emulated machine mean nothing; set id = \"exact\"",
                campaign.procedure.id()
            );
            return Err(campaign.error(&["procedure", "id"], reason));
        };
        if campaign.sweep.is_some() {
            let reason =
                "exact has no sweep: list configurations in the matrix, and bisect one of them";
            return Err(campaign.error(&["procedure", "sweep"], reason));
        }
        // the search varies the image
        let mut cases: Vec<Case> = Vec::new();
        for case in &campaign.cases {
            let case = Case {
                image: None,
                ..case.clone()
            };
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        let ids: Vec<String> = cases.iter().map(Case::id).collect();
        let is_meant = |case: &&Case| match requested {
            Some(name) => case.id() == name || case.configuration == name,
            None => true,
        };
        let meant: Vec<&Case> = cases.iter().filter(is_meant).collect();
        let case = match (meant.as_slice(), requested) {
            ([case], _) => *case,
            ([], Some(name)) => {
                let reason = format!(
                    "there is no test case `{name}`; {}",
                    did_you_mean(name, &ids)
                );
                return Err(campaign.error(&["matrix"], reason));
            }
            (several, _) => {
                let names: Vec<String> = several.iter().map(|case| case.id()).collect();
                let reason = format!(
                    "{} test cases, but only one can be searched for a change; name it with --case: {}",
                    names.len(),
                    names.join(", ")
                );
                return Err(campaign.error(&["matrix"], reason));
            }
        };
        if !case.variant.is_plain() {
            let reason = "bursts are test frames in one direction: omit profiles, destinations, directions and modifiers";
            return Err(campaign.error(&["matrix"], reason));
        }
        let parts = campaign.configurations.get(&case.configuration);
        let found = OfCampaign {
            file: file.to_owned(),
            case: case.id(),
            configuration: case.configuration.clone(),
            parts: parts.cloned().unwrap_or_default(),
            procedure: procedure.clone(),
        };
        Ok((found, case.stream.clone()))
    }
}

impl Figure {
    /// Returns half of the difference between the ends.
    pub fn half(&self) -> f64 {
        (self.interval[1] - self.interval[0]) / 2.0
    }

    /// Returns why this is not comparable with another figure, if it is not.
    pub fn not_comparable_with(&self, reference: &Figure) -> Option<String> {
        let [one, other] = [reference, self].map(|of| of.generator.map(|name| name.to_string()));
        differing_generators(one.as_deref(), other.as_deref())
            .or_else(|| differing_losses(reference.frame_loss_ratio, self.frame_loss_ratio))
    }
}

impl From<&Exact> for Figure {
    fn from(found: &Exact) -> Figure {
        Figure {
            instructions_per_frame: found.instructions_per_frame,
            interval: found.interval,
            generator: found.generator,
            frame_loss_ratio: found.frame_loss_ratio,
        }
    }
}

impl Candidate {
    /// Returns its name, or for a commit the short hash of git and its title.
    pub fn words(&self) -> String {
        match self.title.as_str() {
            "" => self.name.clone(),
            title => format!("{} {title}", &self.name[..self.name.len().min(12)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "campaign = 'c'\n[configuration]\nrule = 'nft add table ip t'\n\
        [matrix]\nconfiguration = ['plain', 'rule']\nimage = ['debian:a', 'debian:b']\nsize = 128\n\
        [procedure]\nid = 'exact'\nframes = 3200\n";

    fn campaign_case(text: &str, requested: Option<&str>) -> Result<(OfCampaign, Stream), String> {
        let campaign = Campaign::parse("c.toml", text).unwrap();
        OfCampaign::new(&campaign, "/c.toml", requested).map_err(|error| error.to_string())
    }

    #[test]
    fn a_test_case_is_one_on_all_images() {
        let (found, stream) = campaign_case(TEXT, Some("rule")).unwrap();
        assert_eq!(found.case, "rule/128B-2000flows-ipv4");
        assert_eq!(found.parts, ["nft add table ip t"]);
        assert_eq!(found.procedure.frames, 3200);
        assert_eq!(stream.frame_size_bytes.bytes(), 128);
        assert_eq!(campaign_case(TEXT, Some(&found.case)).unwrap().0, found);
        let only = TEXT.replace("'plain', 'rule'", "'plain'");
        assert_eq!(
            campaign_case(&only, None).unwrap().0.parts,
            Vec::<String>::new()
        );

        let reason = campaign_case(TEXT, None).unwrap_err();
        assert!(
            reason.contains("2 test cases") && reason.contains("rule/128B"),
            "{reason}"
        );
        let reason = campaign_case(TEXT, Some("rules")).unwrap_err();
        assert!(reason.contains("no test case `rules`"), "{reason}");
        let reason = campaign_case("campaign = 'c'\n[procedure]\nid = 'mrr'\n", None).unwrap_err();
        assert!(
            reason.starts_with("c.toml:3") && reason.contains("mrr cannot"),
            "{reason}"
        );
        let both = only.replace("size = 128", "directions = 'both'");
        assert!(
            campaign_case(&both, None)
                .unwrap_err()
                .contains("in one direction")
        );
    }
}
