//! Samples while frames flow: a shell loop on the host, started before the load, whose lines carry
//! the host's own clock.
//!
//! It is one of the DUT's programs: when the DUT gives programs no time, its samples are late,
//! which is itself a result. If a sampler ends early, only its samples are missing. Start with
//! [`Sampler::start`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fwdlab_model::telemetry::Reading;

use super::{METERS, Observed, Subject, System, Wanted, cpu, sensors};
use crate::host::{Command, Process, ProcessEvent, quoted};

/// Time limit of one read from the sampler, and so of the reaction to its end.
const PATIENCE: Duration = Duration::from_millis(50);

/// The first and the last line of a sample.
const BEGIN: &str = "@@ sample ";
const END: &str = "@@ end";
/// Lines that precede the meters of the host, and the output of the user's command for power.
const OF_METERS: &str = "@@ meters";
const OF_POWER: &str = "@@ power";

/// A running sampler.
#[derive(Debug)]
pub(super) struct Sampler {
    is_over: Arc<AtomicBool>,
    /// `None` once it was joined.
    listener: Option<JoinHandle<SampleResult>>,
}

/// Samples, and why they ended early.
type SampleResult = (Vec<Reading>, Option<String>);

/// Parses `/proc/uptime`: seconds since the host started.
pub(super) fn uptime(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the loop. The shell itself reads its clock.
fn script(every: Duration, requested: &Wanted) -> String {
    let mut meters = String::new();
    if requested.collect.contains(&Subject::Sensors) {
        meters += &format!("echo '{OF_METERS}'; grep -sH '' {METERS}\n");
    }
    if let Some(power) = &requested.power {
        // in a subshell, because it may end the shell that runs it
        meters += &format!("echo '{OF_POWER}'; ({power})\n");
    }
    format!(
        "while read at rest < /proc/uptime; do echo \"{BEGIN}$at\"; grep '^cpu[0-9]' /proc/stat; cat /proc/net/softnet_stat\n{meters}\
         echo '{END}'; sleep {} || exit 1; done",
        every.as_secs_f64()
    )
}

impl Sampler {
    /// Starts a sampler on the host, on the CPUs of the DUT if these are known.
    pub fn start(
        observed: &Observed,
        every: Duration,
        requested: &Wanted,
    ) -> Result<Sampler, String> {
        if observed.system != System::Linux {
            return Err("samples are made on Linux only".into());
        }
        let script = script(every, requested);
        let cpus: Vec<String> = observed.cpus.iter().map(ToString::to_string).collect();
        let command = match cpus.is_empty() {
            true => Command::shell(&script),
            false => Command::shell(&format!(
                "exec taskset -c {} sh -c {}",
                cpus.join(","),
                quoted(&script)
            )),
        };
        let command = command.called("sample telemetry");
        let started = observed.host.start(&command);
        let process = started.map_err(|error| error.to_string())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let listener = std::thread::spawn(move || listen(process, &over));
        let listener = Some(listener);
        Ok(Sampler { is_over, listener })
    }

    /// Ends it.
    pub fn end(mut self) -> SampleResult {
        self.join().unwrap_or_default()
    }

    /// Returns what it has read, once.
    fn join(&mut self) -> Option<SampleResult> {
        self.is_over.store(true, Ordering::Release);
        let ended = self.listener.take()?.join();
        Some(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

/// The process on the host ends with the sampler, also when a trial fails or is stopped.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.join();
    }
}

/// Reads lines until it is over, then those that are already available. The loop ends with the
/// process.
fn listen(mut process: Box<dyn Process>, is_over: &AtomicBool) -> SampleResult {
    let mut samples = Samples::default();
    loop {
        let was_over = is_over.load(Ordering::Acquire);
        let patience = if was_over { Duration::ZERO } else { PATIENCE };
        match process.next(patience) {
            Ok(ProcessEvent::Line(line)) => samples.line(&line),
            Ok(ProcessEvent::Silence) if was_over => return (samples.whole, None),
            Ok(ProcessEvent::Silence) => {}
            Ok(ProcessEvent::End(end)) => {
                let reason = format!("the sampler ended before the trial did ({})", end.status);
                return (samples.whole, Some(reason));
            }
            Err(error) => return (samples.whole, Some(error.to_string())),
        }
    }
}

/// Collects samples from lines.
#[derive(Debug, Default)]
struct Samples {
    whole: Vec<Reading>,
    begun: Option<(f64, String)>,
}

impl Samples {
    fn line(&mut self, line: &str) {
        if let Some(at) = line.strip_prefix(BEGIN) {
            self.begun = uptime(at).map(|at| (at, String::new()));
        } else if line == END {
            self.whole.extend(self.begun.take().map(understood));
        } else if let Some((_, text)) = &mut self.begun {
            text.push_str(line);
            text.push('\n');
        }
    }
}

/// Parses a complete sample.
fn understood((uptime_s, text): (f64, String)) -> Reading {
    let split = |text: &str, at: &str| {
        let (before, behind) = text.split_once(at).unwrap_or((text, ""));
        (before.to_owned(), behind.to_owned())
    };
    let (rest, power) = split(&text, &format!("{OF_POWER}\n"));
    let (counts, meters) = split(&rest, &format!("{OF_METERS}\n"));
    // a line of softnet has no letter before its first number, and no `cpu`
    let (of_cpus, rest): (Vec<&str>, Vec<&str>) =
        counts.lines().partition(|line| line.starts_with("cpu"));
    let mut reading = Reading {
        uptime_s,
        cpus: cpu::times(&of_cpus.join("\n")),
        softnet: cpu::softnet(&rest.join("\n")),
        ..Reading::default()
    };
    sensors::read(&meters, &mut reading);
    if let Ok(watts) = sensors::watts(&power) {
        reading.power_watts.insert(sensors::COMMAND.into(), watts);
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::scripted::Scripted;
    use crate::host::{Host, Limit, Local};

    #[test]
    fn samples_are_whole_or_none() {
        let text = "@@ sample 10.5\ncpu0 1 0 2 3 0 0 4 0\n0000000a 0 1\n@@ end\nnoise\n@@ sample 11.5\ncpu0 9 9 9";
        let mut samples = Samples::default();
        text.lines().for_each(|line| samples.line(line));
        let [one] = &samples.whole[..] else {
            panic!("{samples:?}")
        };
        assert_eq!(
            (
                one.uptime_s,
                one.cpus[0].softirq_ticks,
                one.softnet[0].processed
            ),
            (10.5, 4, 10)
        );
        let text = "@@ sample 7\ncpu0 1 0 2 3 0 0 4 0\n0000000a 0 1\n@@ meters\n/sys/class/powercap/intel-rapl:0/name:package-0\n\
            /sys/class/powercap/intel-rapl:0/energy_uj:55\n/sys/class/powercap/intel-rapl:0/max_energy_range_uj:99\n@@ power\n84.5\n@@ end";
        let mut samples = Samples::default();
        text.lines().for_each(|line| samples.line(line));
        let one = &samples.whole[0];
        assert_eq!(one.power_watts[sensors::COMMAND], 84.5);
        let counted = one.energy.values().map(|count| count.microjoules);
        assert_eq!(counted.collect::<Vec<_>>(), [55]);
        assert_eq!((one.cpus.len(), one.softnet.len()), (1, 1));
    }

    #[test]
    fn a_sampler_that_ends_is_reported_and_keeps_its_samples() {
        let output = "@@ sample 10.5\n@@ end\n@@ sample 11.5\n@@ end\n";
        let observed = Observed {
            system: System::Linux,
            host: Arc::new(Scripted::new(move |_, _| output.to_owned())),
            ports: Vec::new(),
            cpus: Vec::new(),
        };
        let sampler =
            Sampler::start(&observed, Duration::from_secs(1), &Wanted::default()).unwrap();
        while !sampler.listener.as_ref().unwrap().is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (samples, reason) = sampler.end();
        assert_eq!(samples.len(), 2);
        assert!(reason.unwrap().contains("ended before the trial"));
    }

    /// The loop of a real shell: its clock advances, and the process is gone afterwards.
    #[test]
    fn a_shell_makes_samples_and_ends() {
        let observed = Observed {
            system: System::Linux,
            host: Arc::new(Local),
            ports: Vec::new(),
            cpus: Vec::new(),
        };
        let every = Duration::from_millis(20);
        // no other test has this interval
        let mark = "sleep 0.020317";
        let every = every + Duration::from_micros(317);
        let runs = || {
            let text = format!("ps -eo args | grep -c '[s]{}' || true", &mark[1..]);
            let output = Local.run(&Command::shell(&text), Limit::OURS).unwrap();
            String::from_utf8_lossy(&output.stdout).trim() != "0"
        };
        // on a busy host a shell starts late
        let mut made = (Vec::new(), None);
        for patience in 2..8 {
            let sampler = Sampler::start(&observed, every, &Wanted::default()).unwrap();
            std::thread::sleep(every * (1 << patience));
            assert!(runs());
            made = sampler.end();
            if made.0.len() > 1 {
                break;
            }
        }
        let (samples, reason) = made;
        assert_eq!(reason, None);
        assert!(samples.len() > 1, "{samples:?}");
        assert!(
            samples
                .windows(2)
                .all(|pair| pair[0].uptime_s <= pair[1].uptime_s)
        );
        assert!(samples.iter().all(|sample| !sample.cpus.is_empty()));
        assert!(!runs(), "its loop is gone");
    }
}
