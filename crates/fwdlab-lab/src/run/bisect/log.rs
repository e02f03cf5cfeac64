//! The log of a bisection on disk. Lines are appended before anything is reported, so that no
//! candidate is measured twice.
//!
//! It does not search. Start with [`Log::create`] and [`Log::open`].

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fwdlab_model::bisect::{Began, Compared, FORMAT, Line, Tested, Verdict};

use crate::error::LabError;

/// A log that no other process writes.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    /// The search.
    pub began: Began,
    /// The candidates tested so far.
    pub tested: Vec<Tested>,
    /// The comparison at the end.
    pub compared: Option<Compared>,
}

impl Log {
    /// Creates a new log.
    ///
    /// # Errors
    /// Fails if a file of this name exists, or if it cannot be written.
    pub fn create(path: &Path, started: Began) -> Result<Log, LabError> {
        let failed = |e| LabError::system(format!("make the log {}", path.display()), e);
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = (OpenOptions::new().read(true).append(true))
            .create_new(true)
            .open(path)
            .map_err(failed)?;
        let mut log = Log {
            path: path.to_owned(),
            file,
            began: started.clone(),
            tested: Vec::new(),
            compared: None,
        };
        log.lock()?;
        log.write(&Line::Began(Box::new(started)))?;
        Ok(log)
    }

    /// Opens the log of this name to continue it. Removes an incomplete last line.
    ///
    /// # Errors
    /// Fails if the log cannot be read, is not a log of a bisection, or is in use by another
    /// process.
    pub fn open(path: &Path) -> Result<Log, LabError> {
        let failed = |e| LabError::system(format!("read the log {}", path.display()), e);
        let wrong = |reason: String| {
            LabError::Preflight(format!(
                "{} is not a log of a bisection that can be continued: {reason}",
                path.display()
            ))
        };
        let mut file = (OpenOptions::new().read(true).append(true))
            .open(path)
            .map_err(failed)?;
        lock(&file, path)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
            file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        let mut started = None;
        let (mut tested, mut compared) = (Vec::new(), None);
        for (number, line) in (1..).zip(text[..whole].lines()) {
            let line = serde_json::from_str::<Line>(line)
                .map_err(|e| wrong(format!("line {number}: {e}")))?;
            match line {
                Line::Began(head) if started.is_none() && head.format <= FORMAT => {
                    started = Some(*head);
                }
                Line::Began(head) => {
                    return Err(wrong(format!(
                        "line {number} begins another one, of format {}",
                        head.format
                    )));
                }
                Line::Tested(one) => tested.push(*one),
                Line::Compared(both) => compared = Some(*both),
            }
        }
        let started = started.ok_or_else(|| wrong("its first line is missing".into()))?;
        let is_known = |one: &Tested| {
            (started.candidates.get(one.at))
                .is_some_and(|candidate| candidate.name == one.candidate)
        };
        if let Some(one) = tested.iter().find(|one| !is_known(one)) {
            return Err(wrong(format!("{} is not a candidate of it", one.candidate)));
        }
        Ok(Log {
            path: path.to_owned(),
            file,
            began: started,
            tested,
            compared,
        })
    }

    /// Returns the path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the verdict on every candidate; the last line about it counts.
    pub fn verdicts(&self) -> Vec<Option<Verdict>> {
        let mut verdicts = vec![None; self.began.candidates.len()];
        for one in &self.tested {
            verdicts[one.at] = Some(one.verdict);
        }
        verdicts
    }

    /// Returns the last test of this candidate.
    pub fn tested(&self, at: usize) -> Option<&Tested> {
        self.tested.iter().rev().find(|one| one.at == at)
    }

    pub(super) fn keep(&mut self, one: Tested) -> Result<(), LabError> {
        self.write(&Line::Tested(Box::new(one.clone())))?;
        self.tested.push(one);
        Ok(())
    }

    pub(super) fn keep_compared(&mut self, both: Compared) -> Result<(), LabError> {
        self.write(&Line::Compared(Box::new(both.clone())))?;
        self.compared = Some(both);
        Ok(())
    }

    fn lock(&self) -> Result<(), LabError> {
        lock(&self.file, &self.path)
    }

    /// Each line is one write.
    fn write(&mut self, line: &Line) -> Result<(), LabError> {
        let failed = |e| LabError::system(format!("write the log {}", self.path.display()), e);
        let text = serde_json::to_string(line).map_err(|e| failed(io::Error::other(e)))?;
        (self.file.write_all(format!("{text}\n").as_bytes()))
            .and_then(|()| self.file.sync_data())
            .map_err(failed)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // unlock explicitly: a child that was just forked holds the file, too
        let _ = self.file.unlock();
    }
}

fn lock(file: &File, path: &Path) -> Result<(), LabError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LabError::Preflight(format!(
            "another fwdlab is using {}; wait until it ends",
            path.display()
        ))),
        Err(TryLockError::Error(e)) => Err(LabError::system(format!("lock {}", path.display()), e)),
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::bisect::Candidate;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;

    use super::*;

    fn began() -> Began {
        let candidate = |name: &str| Candidate {
            name: name.into(),
            title: String::new(),
        };
        Began {
            format: FORMAT,
            started_at: "2026-11-22T12:00:00Z".into(),
            candidates: ["a", "b", "c"].map(candidate).into(),
            build: None,
            set: None,
            campaign: None,
            stream: Stream::new(IpVersion::Ipv4, FrameSize::MIN, 1).unwrap(),
            frames: 20_000,
            threshold_percent: 0.0,
        }
    }

    fn tested(at: usize, verdict: Verdict) -> Tested {
        Tested {
            at,
            candidate: began().candidates[at].name.clone(),
            verdict,
            figure: None,
            again: None,
            why: None,
            image: None,
            run: None,
        }
    }

    #[test]
    fn a_log_is_resumed_after_any_interruption() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/bisect.jsonl");
        let mut log = Log::create(&path, began()).unwrap();
        log.keep(tested(0, Verdict::Good)).unwrap();
        let busy = Log::open(&path).unwrap_err().to_string();
        assert!(busy.contains("another fwdlab"), "{busy}");
        drop(log);
        assert!(Log::create(&path, began()).is_err());
        // power was lost in the middle of a line
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"line\":\"tes").unwrap();
        drop(file);
        let mut log = Log::open(&path).unwrap();
        assert_eq!(log.began, began());
        log.keep(tested(2, Verdict::Skipped)).unwrap();
        log.keep(tested(2, Verdict::Bad)).unwrap();
        drop(log);
        let log = Log::open(&path).unwrap();
        let expected = [Some(Verdict::Good), None, Some(Verdict::Bad)];
        assert_eq!(log.verdicts(), expected);
        drop(log);
        for text in ["", "{}\n", "no\n"] {
            std::fs::write(&path, text).unwrap();
            let reason = Log::open(&path).unwrap_err().to_string();
            assert!(
                reason.contains("not a log of a bisection"),
                "{text:?}: {reason}"
            );
        }
    }
}
