//! `fwdlab new`: writes files to start with, whose comments explain what to change.
//!
//! All of them are valid as written, except for the names of hosts and ports. Files for other
//! programs are printed. Start with [`New`].

use std::path::{Path, PathBuf};

use clap::Subcommand;

use fwdlab_model::file::did_you_mean;
use serde_json::json;

use super::Global;
use super::completions::Completions;
use super::man::Man;
use super::schema::Schema;
use crate::catalogue;
use crate::exit_code::{Code, Usage};

/// Make files: test bed, campaign, profile, schema, completions, man
#[derive(Debug, Subcommand)]
pub enum New {
    /// Write a test-bed file: beds/NAME.toml
    Bed {
        /// Name of the test bed
        name: String,
    },
    /// Write a campaign file: campaigns/NAME.toml
    Campaign {
        /// Name of the campaign
        name: String,
        /// Copy this campaign of the catalogue (fwdlab run --list) instead of an example
        #[arg(long, value_name = "ENTRY")]
        from: Option<String>,
    },
    /// Write a traffic profile: profiles/NAME.toml
    Profile {
        /// Name of the profile
        name: String,
    },
    #[command(flatten)]
    Printed(Printed),
}

/// Files that other programs read.
#[derive(Debug, Subcommand)]
pub enum Printed {
    /// Print the JSON Schema of a record
    Schema(Schema),
    Completions(Completions),
    Man(Man),
}

impl Printed {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        match self {
            Printed::Schema(schema) => schema.run(),
            Printed::Completions(completions) => completions.run(global),
            Printed::Man(man) => man.run(global),
        }
    }
}

const BED: &str = include_str!("../../templates/bed.toml");
const CAMPAIGN: &str = include_str!("../../templates/campaign.toml");
const PROFILE: &str = include_str!("../../templates/profile.toml");

impl New {
    /// Runs the command.
    pub fn run(self, global: &Global) -> anyhow::Result<Code> {
        let (folder, name, text, next) = match self {
            New::Printed(printed) => return printed.run(global),
            New::Bed { name } => ("beds", name, BED.to_owned(), "fwdlab doctor"),
            New::Campaign { name, from } => {
                let text = campaign(&name, from.as_deref())?;
                ("campaigns", name, text, "fwdlab plan")
            }
            New::Profile { name } => (
                "profiles",
                name,
                PROFILE.to_owned(),
                "fwdlab traffic profile show",
            ),
        };
        let path = write(Path::new(""), folder, &name, &text)?;
        let file = path.display();
        let document = json!({ "file": path, "next": format!("{next} {file}") });
        global.result(&document, &format!("{file}\n\nNext   {next} {file}"))
    }
}

/// Returns an example, or an entry of the catalogue, under this name.
fn campaign(name: &str, from: Option<&str>) -> Result<String, Usage> {
    let Some(from) = from else {
        return Ok(CAMPAIGN.to_owned());
    };
    let names: Vec<&str> = catalogue::ALL.iter().map(|entry| entry.name).collect();
    match catalogue::find(from) {
        Some(entry) => Ok(entry.copied(name)),
        None => Err(Usage(format!(
            "the catalogue has no `{from}`; {}",
            did_you_mean(from, &names)
        ))),
    }
}

/// Writes a new file in this folder; never overwrites one.
fn write(here: &Path, folder: &str, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !(1..=64).contains(&name.len()) || !name.chars().all(allowed) || name.starts_with('.') {
        return Err(Usage(format!(
            "`{name}`: a name consists of at most 64 letters, digits, -, _ and ."
        ))
        .into());
    }
    let folder = here.join(folder);
    let path = folder.join(format!("{name}.toml"));
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Usage(format!(
            "{} exists already; choose another name, or remove it first",
            path.display()
        )),
        _ => Usage(format!("cannot write {}: {error}", path.display())),
    };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut file = std::fs::File::create_new(&path).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.replace("NAME", name).as_bytes()).map_err(failed)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fwdlab_model::campaign::Campaign;
    use fwdlab_model::profile::Profile;
    use fwdlab_model::test_bed::TestBed;

    #[test]
    fn created_files_are_valid_and_overwrite_nothing() {
        let lab = tempfile::tempdir().unwrap();
        let make = |folder: &str, text| write(lab.path(), folder, "first-1", text);
        for (folder, text) in [
            ("beds", BED),
            ("campaigns", CAMPAIGN),
            ("profiles", PROFILE),
        ] {
            let path = make(folder, text).unwrap();
            let made = std::fs::read_to_string(&path).unwrap();
            match folder {
                "beds" => assert_eq!(TestBed::parse("x", &made).unwrap().name, "first-1"),
                "campaigns" => assert_eq!(Campaign::parse("x", &made).unwrap().name, "first-1"),
                _ => assert!(!Profile::parse("x", &made).unwrap().streams.is_empty()),
            }
            let reason = make(folder, "other").unwrap_err().to_string();
            assert!(reason.contains("exists already"), "{reason}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), made);
        }
        for bad in ["", "a/b", "../x", ".x", "a b"] {
            assert!(write(lab.path(), "beds", bad, "").is_err(), "{bad}");
        }
    }
}
