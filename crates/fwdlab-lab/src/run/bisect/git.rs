//! Commits as candidates: checks each out in a worktree of our own, builds it with the user's
//! command, and keeps its kernel.
//!
//! Never touches the user's checkout. One worktree serves all commits, so that a build compiles
//! only what differs; it is removed at the end. Start with [`Commits::between`] and [`Git::new`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fwdlab_model::bisect::{Build, Candidate};

use super::{Control, Source};
use crate::error::LabError;
use crate::host::{self, Host, Limit, Local};
use crate::vm::image::cache::Cache;
use crate::vm::image::{Image, ImageKind};

/// A build that takes longer than this hangs.
const BUILD: Duration = Duration::from_secs(6 * 3600);

/// Number of lines of a failed build's output to report.
const TOLD: usize = 5;

/// File name of a kept kernel.
const KERNEL: &str = "bzImage";

/// Lists the commits of a repository as candidates.
#[derive(Debug)]
pub struct Commits;

impl Commits {
    /// Returns the commits from one revision to another, along first parents, both included.
    ///
    /// # Errors
    /// Fails if `repository` is no git repository, if one of the names is not a revision in it, or
    /// if the newer one does not descend from the older one.
    pub fn between(repository: &Path, good: &str, bad: &str) -> Result<Vec<Candidate>, LabError> {
        let commit = |name: &str| {
            let name = format!("{name}^{{commit}}");
            let output = git(
                repository,
                &["rev-parse", "--verify", "--end-of-options", &name],
            )?;
            Ok::<_, LabError>(output.trim().to_owned())
        };
        let (good, bad) = (commit(good)?, commit(bad)?);
        git(repository, &["merge-base", "--is-ancestor", &good, &bad]).map_err(|error| {
            LabError::Preflight(format!(
                "the good commit is no ancestor of the bad one in {}: {error}",
                repository.display()
            ))
        })?;
        let first = git(repository, &["log", "-1", "--format=%H%x09%s", &good])?;
        let range = format!("{good}..{bad}");
        let words = ["log", "--first-parent", "--reverse", "--format=%H%x09%s"];
        let others = git(repository, &[&words[..], &[&range]].concat())?;
        let lines = first.lines().chain(others.lines());
        let candidates = lines.filter_map(|line| line.split_once('\t'));
        Ok(candidates
            .map(|(name, title)| Candidate {
                name: name.to_owned(),
                title: title.to_owned(),
            })
            .collect())
    }
}

/// Builds commits.
#[derive(Debug)]
pub struct Git {
    build: Build,
    /// Folder of kept files: `COMMIT/bzImage`, `COMMIT/lib/modules`, `COMMIT.out` and `COMMIT.err`.
    kept: PathBuf,
    has_worktree: bool,
}

impl Git {
    /// Creates the builder for the search with this name.
    ///
    /// # Errors
    /// Fails if the folder for builds cannot be made.
    pub fn new(build: Build, name: &str) -> Result<Git, LabError> {
        let cache = Cache::for_user().map_err(|e| LabError::Preflight(e.to_string()))?;
        let kept = cache.folder().join("bisect").join(name);
        fs::create_dir_all(&kept)
            .map_err(|e| LabError::system(format!("make {}", kept.display()), e))?;
        Ok(Git {
            build,
            kept,
            has_worktree: false,
        })
    }

    /// Returns the folder of kept kernels and build output.
    pub fn folder(&self) -> &Path {
        &self.kept
    }

    fn worktree(&self) -> PathBuf {
        self.kept.join("tree")
    }

    fn repository(&self) -> &Path {
        Path::new(&self.build.repository)
    }

    /// Checks this commit out in the worktree.
    fn check_out(&mut self, commit: &str) -> Result<(), LabError> {
        let tree = self.worktree();
        if self.has_worktree {
            git(
                &tree,
                &["checkout", "--quiet", "--force", "--detach", commit],
            )?;
            return Ok(());
        }
        // left behind by a search that was killed
        self.remove_worktree();
        let path = tree.display().to_string();
        let words = [
            "worktree", "add", "--quiet", "--force", "--detach", &path, commit,
        ];
        git(self.repository(), &words)?;
        self.has_worktree = true;
        Ok(())
    }

    fn remove_worktree(&mut self) {
        let tree = self.worktree();
        let path = tree.display().to_string();
        // what cannot be removed is in a cache anyway
        let _ = git(self.repository(), &["worktree", "remove", "--force", &path]);
        let _ = fs::remove_dir_all(&tree);
        let _ = git(self.repository(), &["worktree", "prune"]);
        self.has_worktree = false;
    }

    /// Runs the command in the worktree. Returns the last line that it prints.
    fn run(&self, commit: &str, control: &Control) -> Result<Result<String, String>, LabError> {
        let [out, err] = ["out", "err"].map(|kind| self.kept.join(format!("{commit}.{kind}")));
        let [tree, out_path, err_path] =
            [&self.worktree(), &out, &err].map(|path| path.display().to_string());
        // keep both, without mixing the last line of one with the other
        let script = "exec sh -c \"$1\" >\"$2\" 2>\"$3\"";
        let words = [
            "-C",
            &tree,
            "sh",
            "-c",
            script,
            "sh",
            &self.build.command,
            &out_path,
            &err_path,
        ];
        let command = host::Command::new("env", &words).called("the build".to_owned());
        let is_stopped = || control.is_stopped();
        let limit = Limit {
            time: BUILD,
            is_stopped: &is_stopped,
        };
        let ran = Local.run(&command, limit);
        let text = |path: &Path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match ran {
            Ok(_) => {
                let output = text(&out);
                let last = output.lines().rev().find(|line| !line.trim().is_empty());
                Ok(Ok(last.unwrap_or_default().trim().to_owned()))
            }
            Err(_) if control.is_stopped() => Err(LabError::Interrupted),
            Err(error) => {
                let output = match text(&err) {
                    output if output.trim().is_empty() => text(&out),
                    output => output,
                };
                let lines: Vec<&str> = output.lines().collect();
                let last = &lines[lines.len().saturating_sub(TOLD)..];
                Ok(Err(format!(
                    "{error}: {} (all of it: {err_path})",
                    last.join(" | ")
                )))
            }
        }
    }

    /// Keeps the kernel that was built, because the worktree will get another commit.
    fn keep(&self, commit: &str, last: &str) -> Result<String, String> {
        let tree = self.worktree();
        let is_image = |name: &str| {
            let path = name.split_once(",modules=").map_or(name, |(path, _)| path);
            !path.is_empty() && tree.join(path).exists()
        };
        let name = match last {
            last if last.starts_with("debian:") => return Ok(last.to_owned()),
            last if is_image(last) => match last.split_once(",modules=") {
                Some((file, modules)) => format!(
                    "{},modules={}",
                    tree.join(file).display(),
                    tree.join(modules).display()
                ),
                None => tree.join(last).display().to_string(),
            },
            _ => tree.display().to_string(),
        };
        let cache = Cache::for_user().map_err(|e| e.to_string())?;
        let image = Image::find(&name, &cache, &mut |_| {}).map_err(|e| {
            format!("the build made no kernel; its last line is {last:?}, and in the worktree: {e}")
        })?;
        let ImageKind::Kernel(kernel) = &image.kind else {
            return Err(format!("{last} is a disk, and no kernel"));
        };
        let (new, place) = (
            self.kept.join(format!("{commit}.new")),
            self.kept.join(commit),
        );
        let failed =
            |e: std::io::Error| format!("cannot keep the kernel in {}: {e}", place.display());
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new).map_err(failed)?;
        fs::copy(&kernel.bzimage, new.join(KERNEL)).map_err(failed)?;
        if let Some(modules) = &kernel.modules {
            let folder = new.join("lib/modules");
            fs::create_dir_all(&folder).map_err(failed)?;
            let to = folder.join(&kernel.release);
            let [from, to] = [modules.join("."), to].map(|path| path.display().to_string());
            // a link in it leads to the folder in which it was built
            let command = host::Command::new("cp", &["-a", "--", &from, &to]);
            (Local.run(&command, Limit::OURS)).map_err(|e| e.to_string())?;
        }
        fs::rename(&new, &place).map_err(failed)?;
        Ok(self.kernel(commit))
    }

    fn kernel(&self, commit: &str) -> String {
        self.kept.join(commit).join(KERNEL).display().to_string()
    }
}

impl Source for Git {
    fn image(
        &mut self,
        candidate: &Candidate,
        control: &Control,
    ) -> Result<Result<String, String>, LabError> {
        let commit = &candidate.name;
        // built before the search was interrupted, or again for the comparison
        if self.kept.join(commit).join(KERNEL).exists() {
            return Ok(Ok(self.kernel(commit)));
        }
        self.check_out(commit)?;
        match self.run(commit, control) {
            Ok(Ok(last)) => Ok(self.keep(commit, &last)),
            Ok(Err(reason)) => Ok(Err(reason)),
            Err(LabError::Interrupted) => Ok(Err("interrupted".into())),
            Err(error) => Err(error),
        }
    }

    /// A build uses all CPUs, and takes longer than a boot.
    fn parallelism(&self) -> usize {
        1
    }
}

impl Drop for Git {
    fn drop(&mut self) {
        if self.has_worktree {
            self.remove_worktree();
        }
    }
}

/// Runs git without hooks. Returns its output.
fn git(folder: &Path, words: &[&str]) -> Result<String, LabError> {
    let folder = folder.display().to_string();
    let before = ["-C", &folder, "-c", "core.hooksPath=/dev/null"];
    let command = host::Command::new("git", &[&before[..], words].concat());
    let output = Local.run(&command, Limit::OURS)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(folder: &Path) -> Vec<String> {
        let git = |words: &[&str]| git(folder, words).unwrap();
        git(&["init", "-q"]);
        git(&["config", "user.email", "nobody@example.org"]);
        git(&["config", "user.name", "nobody"]);
        let commit = |n: usize| {
            fs::write(folder.join("number"), format!("{n}\n")).unwrap();
            git(&["add", "number"]);
            git(&["commit", "-q", "-m", &format!("number {n}")]);
            git(&["rev-parse", "HEAD"]).trim().to_owned()
        };
        (0..4).map(commit).collect()
    }

    #[test]
    fn commits_are_built_outside_the_checkout_and_cached() {
        if crate::programs::find("git").is_none() {
            println!("SKIPPED: commits_are_built_outside_the_checkout_and_cached: no git");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("repo"), folder.path().join("kept"));
        fs::create_dir_all(&path).unwrap();
        fs::create_dir_all(&kept).unwrap();
        let commits = repository(&path);
        let found = Commits::between(&path, &commits[1], "HEAD").unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, commits[1..]);
        assert_eq!(found[0].title, "number 1");
        assert!(Commits::between(&path, "HEAD", &commits[1]).is_err());
        assert!(Commits::between(&path, "--help", "HEAD").is_err());

        let kernel = folder.path().join("vmlinuz");
        fs::write(&kernel, crate::vm::image::kernel::tests::made("6.99.0")).unwrap();
        let command = format!(
            "test \"$(cat number)\" != 2 || {{ echo no rule >&2; exit 1; }}; cp {} k; echo k",
            kernel.display()
        );
        let mut source = Git {
            build: Build {
                repository: path.display().to_string(),
                command,
            },
            kept: kept.clone(),
            has_worktree: false,
        };
        let control = Control::default();
        let mut image = |at: usize| source.image(&found[at], &control).unwrap();
        let first = image(0).unwrap();
        assert!(Path::new(&first).is_file() && first.starts_with(kept.to_str().unwrap()));
        let reason = image(1).unwrap_err();
        assert!(reason.contains("no rule"), "{reason}");
        assert_eq!(image(0).unwrap(), first);
        image(2).unwrap();
        drop(source);
        assert!(!kept.join("tree").exists());
        let left = git(&path, &["worktree", "list"]).unwrap();
        assert_eq!(left.lines().count(), 1, "{left}");
        assert_eq!(fs::read_to_string(path.join("number")).unwrap(), "3\n");
    }
}
