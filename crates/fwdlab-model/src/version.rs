//! Versions of the formats on disk and of those for other programs.
//!
//! One number for the run directory and one for the event stream. A reader accepts every version up
//! to its own; a change that an older reader would misread raises the number. Contains no migration
//! code (`store` does).

/// Version of the files of a run directory (`run.json`, `trials.jsonl`, `summary.json`, ...).
///
/// Since 4, a trial that did not offer its load is never used, and figures include the number of
/// values limited by the generator.
pub const RUN_FORMAT: u32 = 4;

/// Version of the events in `events.jsonl` and `--json-stream`.
pub const EVENT_FORMAT: u32 = 3;
