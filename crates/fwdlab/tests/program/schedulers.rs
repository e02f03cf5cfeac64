//! The recipes in `examples/schedulers`: Slurm's run on its daemons, the others are checked by
//! their schemas, and their shell lines are executed.
//!
//! No container is built here, because its base image is not in a package registry; a sandbox takes
//! away what a container does. (By hand, once, on a base image made by `debootstrap`: `buildah`,
//! and a campaign in the image as an ordinary user.) Start with
//! [`slow::a_killed_task_continues_and_all_are_joined`].

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::storm::Dice;
use crate::support::{
    CommandResult, IMAGES, Lab, PATIENCE, PROGRAM, begun_runs, count, directories, ended, example,
    json_lines, list, number, python_with, read_json, skipped, tool, try_tool,
};

/// One test case and its control: two boots.
const CAMPAIGN: &str = "campaign = 'parts'\niterations = 1\n[matrix]\nimage = 'debian:linux-image-cloud-amd64'\n\
    [procedure]\nid = 'exact'\nframes = 320\nprofile = false\n";

/// A campaign that lasts until there is a file `go`.
const LASTING: &str = "campaign = 'bed'\niterations = 1\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6'\n\
    [procedure]\nid = 'trial'\nload = '1kpps'\n[hooks]\n\
    before = { command = 'until [ -e go ]; do sleep 0.1; done', on = 'controller', every = 'campaign', within = '5min' }\n";

/// Returns a simulated campaign with this number of test cases. In a job of Slurm, every iteration
/// waits for 0.3 s, so that there is time to kill it.
fn simulated(cases: usize) -> String {
    let flows: Vec<String> = (1..=cases).map(|n| n.to_string()).collect();
    format!(
        "campaign = 'storm'\niterations = 3\nseed = 5\n[bed]\nengine = 'sim'\ndut = 'capacity=1e6,noise=0.01'\n\
         [matrix]\nflows = [{}]\n[procedure]\nid = 'trial'\nload = '500kpps'\nfor = '200ms'\n\
         [hooks]\nbefore = {{ on = 'controller', every = 'iteration', command = '[ -z \"$SLURM_JOB_ID\" ] || sleep 0.3' }}\n",
        flows.join(", ")
    )
}

pub fn recipe(name: &str) -> String {
    example(&format!("../schedulers/{name}"))
}

/// Adds the program `fwdlab` to the PATH of a command, and what it needs.
fn with_program(lab: &Lab, mut command: Command) -> Command {
    let bin = lab.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    _ = symlink(PROGRAM, bin.join("fwdlab"));
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", bin.display()))
        .env_remove("FWDLAB_RUNS");
    command
}

/// Runs lines as a step of a workflow does.
pub fn step(lab: &Lab, folder: &Path, lines: &str, variables: &[(&str, &str)]) -> CommandResult {
    let mut command = with_program(lab, lab.with(&["sh", "-ec"], &[lines]));
    command.current_dir(folder).envs(variables.iter().copied());
    ended(command)
}

/// Returns the documents of a YAML file; `None`, after a message, if no Python can read it.
pub fn documents(file: &str) -> Option<Vec<Value>> {
    let Some(python) = python_with("yaml") else {
        skipped("no Python that has yaml");
        return None;
    };
    let script =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    Some(serde_json::from_str(&tool(&[python, "-c", script, file])).unwrap())
}

/// Returns the container of the job in a file for Kubernetes.
fn container(name: &str) -> Option<Value> {
    let jobs = documents(&recipe(name))?;
    let job = jobs.into_iter().find(|one| one["kind"] == "Job").unwrap();
    Some(job["spec"]["template"]["spec"]["containers"][0].clone())
}

/// Returns the shell lines of a job in GitHub's workflow, step by step.
pub fn steps(workflow: &Value, job: &str) -> Vec<String> {
    let steps = list(&workflow["jobs"][job]["steps"]).iter();
    let lines = steps.filter_map(|step| step["run"].as_str());
    lines.map(str::to_owned).collect()
}

/// Returns the shell lines in a Jenkinsfile, as a step's text has them.
fn jenkins_steps() -> Vec<String> {
    let text = fs::read_to_string(recipe("Jenkinsfile")).unwrap();
    let scripts = text.split(" sh '").skip(1).map(|rest| {
        let (script, _) = match rest.strip_prefix("''") {
            Some(long) => long.split_once("'''").unwrap(),
            None => rest.split_once('\'').unwrap(),
        };
        let lines = script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    });
    scripts.collect()
}

/// The blocks and steps of the Jenkinsfile, as jenkins.io/doc/book/pipeline/syntax documents them.
/// Compare a change with that page.
const DECLARATIVE: &str = "pipeline { agent options { skipDefaultCheckout } environment { FWDLAB_RUNS SHARDS } stages { \
    stage { matrix { agent { docker { image } } axes { axis { name values } } \
    stages { stage { steps { deleteDir checkout catchError { sh } sh stash } } } } } \
    stage { agent { docker { image } } steps { deleteDir unstash unstash unstash unstash sh } \
    post { always { sh junit archiveArtifacts } } } } }";

/// Jenkins' own checker needs a server. The parser of Groovy is another test.
#[test]
fn the_jenkinsfile_has_the_blocks_of_a_declarative_pipeline() {
    let text = fs::read_to_string(recipe("Jenkinsfile")).unwrap();
    let mut found = Vec::new();
    // scripts are between three quotes
    for line in text.split("'''").step_by(2).flat_map(str::lines) {
        let bare: String = line.split(['\'', '"']).step_by(2).collect();
        let bare = bare.split("//").next().unwrap();
        let bare = bare.replace('{', "\n{\n").replace('}', "\n}\n");
        let names = bare
            .lines()
            .map(|part| part.trim().split([' ', '(']).next().unwrap());
        found.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    assert_eq!(found.join(" "), DECLARATIVE);
}

/// Returns the trials or boots of the joined run in a directory of runs.
fn joined_records(runs: &Path) -> Vec<Value> {
    let is_joined =
        |run: &PathBuf| !read_json(&run.join("run.json"))["parameters"]["shards"].is_null();
    let joined: Vec<PathBuf> = directories(runs).into_iter().filter(is_joined).collect();
    assert_eq!(joined.len(), 1, "{joined:?}");
    json_lines(&joined[0].join("trials.jsonl"))
}

/// Returns the numbers of the boots of the joined run in a directory of runs.
fn joined_boots(runs: &Path) -> Vec<u64> {
    let boots = joined_records(runs);
    boots.iter().map(|boot| count(&boot["boot"])).collect()
}

/// Returns how many times the only run in a directory was continued.
fn gaps_of_only_run(runs: &Path) -> usize {
    let runs = begun_runs(runs);
    assert_eq!(runs.len(), 1, "{runs:?}");
    list(&read_json(&runs[0].join("run.json"))["gaps"]).len()
}

/// Returns true, after a message, if there is no emulator or no kernel.
pub fn cannot_boot(output: &str) -> bool {
    let words = ["cannot get", "there is no image", "no such program"];
    let cannot = words.iter().any(|words| output.contains(words));
    if cannot {
        skipped(output.trim());
    }
    cannot
}

/// The same check refuses a file with a mistake.
#[test]
fn files_follow_the_schemas_of_their_tools() {
    let lab = Lab::new();
    let table = "kubernetes_validate --strict -k 1.33.0, kubernetes.yaml, completions: 16, completions: many
        kubernetes_validate --strict -k 1.33.0, kubernetes-merge.yaml, restartPolicy:, restartPolice:
        check_jsonschema --builtin-schema vendor.github-workflows, github.yml, runs-on:, run-on:
        check_jsonschema --builtin-schema vendor.github-workflows, github-gate.yml, runs-on:, run-on:";
    for case in table.lines() {
        let [checker, name, right, wrong] = case.split(", ").collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let mut arguments = checker.split_whitespace();
        let package = arguments.next().unwrap();
        let Some(python) = python_with(package) else {
            skipped(&format!("no Python that has {package}"));
            continue;
        };
        let check = |file: &str| {
            let mut command = Command::new(python);
            let arguments = ["-m", package].into_iter().chain(arguments.clone());
            command.args(arguments).arg(file);
            ended(command)
        };
        let file = recipe(name);
        check(&file).code(0);
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(right), "{name}");
        let bad = lab.write(name, &text.replace(right, wrong));
        assert_ne!(check(&bad).code, 0, "{name} with `{wrong}` is accepted");
    }
}

#[test]
fn shell_scripts_are_clean() {
    if try_tool(&["shellcheck", "--version"]).is_err() {
        return skipped("no shellcheck");
    }
    for script in ["slurm-exact.sh", "slurm-bed.sh"] {
        tool(&["shellcheck", &recipe(script)]);
    }
}

/// A controller and two nodes of Slurm on this machine, for jobs of this user.
struct Slurm<'a> {
    lab: &'a Lab,
    /// With their command lines.
    daemons: Vec<(String, Child)>,
}

impl Slurm<'_> {
    /// Starts the daemons; `None`, after a message, if one of them is not installed.
    fn start(lab: &Lab) -> Option<Slurm<'_>> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch"] {
            if try_tool(&["sh", "-c", "command -v \"$0\"", program]).is_err() {
                skipped(&format!("no {program}"));
                return None;
            }
        }
        let at = lab.path().join("slurm");
        let folder = at.display();
        for name in ["state", "n1", "n2"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        // all at once, so that they differ
        let ports = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = ports.map(|port| port.local_addr().unwrap().port());
        let [controller, first, second] = ports;
        let [user, host] = [["id", "-un"], ["hostname", "-s"]].map(|words| tool(&words));
        let [user, host] = [user.trim(), host.trim()];
        lab.write(
            "slurm/slurm.conf",
            &format!(
                "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmUser={user}\nSlurmdUser={user}\n\
                 CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\nAuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\n\
                 StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/%n\nSlurmctldPidFile={folder}/controller.pid\n\
                 SlurmdPidFile={folder}/%n/pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
                 SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nJobAcctGatherType=jobacct_gather/none\n\
                 MpiDefault=none\nMinJobAge=3600\nSwitchType=switch/none\nSlurmdParameters=config_overrides\n\
                 SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1\nLicenses=rack1:1,rack2:1\n\
                 NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=2 RealMemory=4096\n\
                 NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=2 RealMemory=4096\n\
                 PartitionName=all Nodes=ALL Default=YES State=UP\n"
            ),
        );
        let key = lab.write("slurm/munge.key", &"a key of this test alone".repeat(6));
        fs::set_permissions(key, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let mut slurm = Slurm {
            lab,
            daemons: Vec::new(),
        };
        let files = "key-file=AT.key --socket=AT.socket --pid-file=AT.pid --seed-file=AT.seed --log-file=AT.log";
        let files = files.replace("AT", &format!("{folder}/munge"));
        slurm.daemon(&format!("munged --foreground --force --{files}"));
        slurm.wait("munge", || at.join("munge.socket").exists().then_some(()));
        for line in ["slurmctld -D", "slurmd -D -N n1", "slurmd -D -N n2"] {
            slurm.daemon(line);
        }
        slurm.wait("two nodes", || {
            let states = slurm.ask("sinfo -h -N -o %T").ok()?;
            (states.split_whitespace().eq(["idle", "idle"])).then_some(())
        });
        Some(slurm)
    }

    fn command(&self, line: &str) -> Command {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = with_program(self.lab, self.lab.with(&words[..1], &words[1..]));
        command.env("SLURM_CONF", self.lab.path().join("slurm/slurm.conf"));
        command
    }

    fn daemon(&mut self, line: &str) {
        let log = self.lab.path().join("slurm/log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = self.command(line);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let daemon = command.spawn().unwrap();
        self.daemons.push((line.to_owned(), daemon));
    }

    /// Kills a daemon (`kill -9`), and starts it again.
    fn restart(&mut self, at: usize) {
        let (line, mut killed) = self.daemons.remove(at);
        killed.kill().unwrap();
        killed.wait().unwrap();
        self.daemon(&line);
        let again = self.daemons.pop().unwrap();
        self.daemons.insert(at, again);
    }

    /// Returns the output of one of Slurm's commands.
    fn ask(&self, line: &str) -> Result<String, String> {
        let ended = ended(self.command(line));
        match ended.code {
            0 => Ok(ended.out),
            _ => Err(ended.err),
        }
    }

    /// Submits a job, and returns its number.
    fn submit(&self, line: &str, variables: &[(&str, &str)]) -> String {
        let mut command = self.command(&format!("sbatch --parsable {line}"));
        command.envs(variables.iter().copied());
        ended(command).code(0).out.trim().to_owned()
    }

    /// Returns the state of a job, and why it waits.
    fn state(&self, job: &str) -> (String, String) {
        let found = self
            .ask(&format!("squeue -h -t all -o %T=%r -j {job}"))
            .unwrap();
        let (state, reason) = found.trim().split_once('=').unwrap();
        (state.to_owned(), reason.to_owned())
    }

    /// Waits until a job has ended, and returns its state and output.
    fn end_of(&self, job: &str) -> (String, String) {
        let state = self.wait(job, || {
            let (state, _) = self.state(job);
            let goes_on = ["PENDING", "RUNNING", "CONFIGURING", "COMPLETING"];
            (!goes_on.contains(&&*state)).then_some(state)
        });
        let output = self.lab.path().join(format!("slurm-{job}.out"));
        (state, fs::read_to_string(output).unwrap_or_default())
    }

    fn wait<T>(&self, what: &str, done: impl Fn() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(found) = done() {
                return found;
            }
            let all = || self.ask("squeue -t all").unwrap_or_else(|error| error);
            assert!(started.elapsed() < PATIENCE, "no {what}: {}", all());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            _ = self.ask("scancel --full --state=RUNNING");
        }
        // the last first: nodes, controller, keys
        for (_, daemon) in self.daemons.iter_mut().rev() {
            let pid = daemon.id().to_string();
            _ = Command::new("kill").arg(pid).status();
            _ = daemon.wait();
        }
    }
}

mod slow {
    use super::*;

    #[test]
    fn the_jenkinsfile_is_groovy() {
        let Some(python) = python_with("groovy_parser") else {
            return skipped("no Python that has groovy_parser");
        };
        let script = "import sys; from groovy_parser.parser import parse_groovy_content as parse; \
             parse(sys.stdin.read())";
        let parse = |text: String| {
            let lab = Lab::new();
            let file = lab.write("Jenkinsfile", &text);
            try_tool(&["sh", "-c", &format!("{python} -c '{script}' < {file}")])
        };
        parse(fs::read_to_string(recipe("Jenkinsfile")).unwrap()).unwrap();
        // a short text: the parser is slow
        let error = parse("values '1', ,\n".into()).unwrap_err();
        assert!(error.contains("Unexpected token"), "{error}");
    }

    /// A job for the other bed does not wait.
    #[test]
    fn two_jobs_never_share_a_bed() {
        let lab = Lab::new();
        let Some(slurm) = Slurm::start(&lab) else {
            return;
        };
        lab.write("lasting.toml", LASTING);
        let script = recipe("slurm-bed.sh");
        let job = |name: &str, options: &str| {
            let runs = lab.path().join(name);
            let line = format!("{options} {script} lasting.toml");
            slurm.submit(&line, &[("DIRECTORY", runs.to_str().unwrap())])
        };
        let first = job("first", "");
        slurm.wait("first job", || {
            (slurm.state(&first).0 == "RUNNING").then_some(())
        });
        let second = job("second", "");
        let other = job("other", "--licenses=rack2");
        slurm.wait("job on the other bed", || {
            (slurm.state(&other).0 == "RUNNING").then_some(())
        });
        slurm.wait("job that waits for its bed", || {
            let (state, reason) = slurm.state(&second);
            assert_eq!(state, "PENDING", "two jobs are on one bed");
            (reason == "Licenses").then_some(())
        });
        assert_eq!(slurm.state(&first).0, "RUNNING");
        lab.write("go", "");
        for job in [&first, &second, &other] {
            let (state, output) = slurm.end_of(job);
            assert_eq!(state, "COMPLETED", "{output}");
        }
        let time = |name: &str, of: &str| {
            let job = directories(&lab.path().join(name)).remove(0);
            let run = directories(&job).remove(0);
            read_json(&run.join("run.json"))[of].to_string()
        };
        assert!(time("first", "finished_at") <= time("second", "started_at"));
    }

    #[test]
    fn a_killed_task_continues_and_all_are_joined() {
        let lab = Lab::new();
        let Some(slurm) = Slurm::start(&lab) else {
            return;
        };
        lab.write("campaign.toml", &simulated(2));
        let script = recipe("slurm-exact.sh");
        let as_task = |number: &str| {
            let mut command = with_program(&lab, lab.with(&["sh"], &[script.as_str()]));
            command.env("SLURM_ARRAY_TASK_ID", number);
            ended(command)
        };
        let submit =
            |options: &str| slurm.submit(&format!("{options} {script}"), &[("SHARDS", "2")]);
        let array = submit("--array=1-2");
        let merge = submit(&format!("--dependency=afterany:{array}"));
        let shard = lab.path().join("shards/1");
        let task = format!("{array}_1");
        slurm.wait("run of the first task", || begun_runs(&shard).pop());
        slurm.ask(&format!("scancel -s KILL {task}")).unwrap();
        let (state, _) = slurm.end_of(&task);
        assert_ne!(state, "COMPLETED");
        slurm.end_of(&format!("{array}_2"));
        let (state, output) = slurm.end_of(&merge);
        assert_eq!(state, "FAILED", "{output}");
        assert!(
            output.contains("is not finished: continue it with"),
            "{output}"
        );

        let again = submit("--array=1");
        let merge = submit(&format!("--dependency=afterany:{again}"));
        let (state, output) = slurm.end_of(&merge);
        assert_eq!(state, "COMPLETED", "{output}");
        let joined = joined_records(&lab.path().join("shards/joined"));
        let whole = lab.json("run campaign.toml");
        assert_eq!(joined.len(), list(&whole["trials"]).len());
        assert_eq!(gaps_of_only_run(&shard), 1);
        // requeued after its end
        as_task("1").code(0);
        assert_eq!(gaps_of_only_run(&shard), 1);
    }

    #[test]
    fn killed_daemons_and_tasks_change_no_result() {
        let lab = Lab::new();
        let Some(mut slurm) = Slurm::start(&lab) else {
            return;
        };
        lab.write("campaign.toml", &simulated(12));
        let storm = Storm {
            shards: 12,
            length: Duration::from_secs(5),
            pause: 200,
        };
        let joined = storm.joined(&lab, &mut slurm).unwrap();
        let whole = lab.json("run campaign.toml");
        for part in ["test_cases", "noise", "control", "procedure"] {
            assert_eq!(joined[part].to_string(), whole[part].to_string(), "{part}");
        }
    }
}

/// Shards whose controller, nodes and tasks are killed at random and started again.
struct Storm {
    shards: usize,
    /// Time in which they are killed, before what is left is submitted again.
    length: Duration,
    /// The shortest time between two kills, in milliseconds; the longest is four times as long.
    pause: u64,
}

impl Storm {
    const ROUNDS: usize = 3;
    /// After the storm, a shard ends within this time.
    const STALLED: Duration = Duration::from_secs(180);

    /// Returns the summary of the joined run; `None`, after a message, if nothing can boot.
    fn joined(&self, lab: &Lab, slurm: &mut Slurm<'_>) -> Option<Value> {
        let script = recipe("slurm-exact.sh");
        let number = self.shards.to_string();
        let submit = |slurm: &Slurm<'_>, options: &str| {
            let line = format!("--mem=1G {options} {script}");
            slurm.submit(&line, &[("SHARDS", &number)])
        };
        let is_finished = |shard: &usize| {
            let runs = directories(&lab.path().join(format!("shards/{shard}")));
            let mut heads = runs.iter().map(|run| run.join("run.json"));
            heads.any(|head| {
                let text = fs::read_to_string(head).unwrap_or_default();
                text.contains("\"state\": \"finished\"")
            })
        };
        let tasks = || {
            let mut all = lab.processes();
            all.retain(|line| line.contains(" run ") && line.contains("--plain"));
            all
        };
        // a controller that lost its last changes gives numbers of jobs twice, and drains the nodes
        let resume_nodes = |slurm: &Slurm<'_>| {
            for node in ["n1", "n2"] {
                _ = slurm.ask(&format!("scontrol update nodename={node} state=resume"));
            }
            // Slurm holds a task that it could not launch
            let held = slurm.ask("squeue -h -t PD -o %A,%r").unwrap_or_default();
            for (job, _) in held
                .lines()
                .filter_map(|line| line.split_once(",launch failed"))
            {
                _ = slurm.ask(&format!("scontrol release {job}"));
            }
        };
        let mut dice = Dice(0x5eed_cafe);
        let mut killed = [0; 4];
        for round in 0..=Storm::ROUNDS {
            let left: Vec<usize> = (1..=self.shards)
                .filter(|shard| !is_finished(shard))
                .collect();
            if left.is_empty() {
                break;
            }
            let names: Vec<String> = left.iter().map(usize::to_string).collect();
            let array = submit(slurm, &format!("--array={}", names.join(",")));
            let mut started = Instant::now();
            let is_storm = round < Storm::ROUNDS;
            let mut finished = 0;
            while !(is_storm && started.elapsed() > self.length) {
                let now = left.iter().filter(|shard| is_finished(shard)).count();
                if now == left.len() {
                    break;
                }
                if now > finished && !is_storm {
                    (finished, started) = (now, Instant::now());
                }
                let first = lab.path().join(format!("slurm-{array}_{}.out", left[0]));
                if cannot_boot(&fs::read_to_string(first).unwrap_or_default()) {
                    return None;
                }
                let all = || slurm.ask("squeue -t all").unwrap_or_else(|error| error);
                assert!(started.elapsed() < Storm::STALLED, "{left:?}: {}", all());
                let pause = self.pause + dice.below(3 * self.pause);
                std::thread::sleep(Duration::from_millis(pause));
                if !is_storm {
                    resume_nodes(slurm);
                    continue;
                }
                match dice.below(6) {
                    // the controller and the nodes, after the daemon that knows the keys
                    at @ 0..3 => {
                        slurm.restart(1 + at as usize);
                        killed[at as usize] += 1;
                    }
                    _ => {
                        let all = tasks();
                        let one = all.get(dice.below(all.len().max(1) as u64) as usize);
                        if let Some((pid, _)) = one.and_then(|line| line.split_once(':')) {
                            // a job is ended as a whole, in any order: here its command first
                            let script = "pkill -$1 -P \"$0\"; sleep 0.05; kill -$1 \"$0\"";
                            let signal = ["KILL", "TERM"][dice.below(2) as usize];
                            _ = Command::new("sh")
                                .args(["-c", script, pid, signal])
                                .status();
                            killed[3] += 1;
                        }
                    }
                }
            }
            // what the administrator of a cluster does after a storm
            slurm.wait("controller", || {
                slurm.ask("scancel --me --state=PENDING").ok()
            });
            slurm.wait("end of all tasks", || tasks().is_empty().then_some(()));
            resume_nodes(slurm);
        }
        assert!(
            killed[3] > 0 && killed[..3].iter().any(|number| *number > 0),
            "{killed:?}"
        );
        let merge = submit(slurm, "");
        let (state, output) = slurm.end_of(&merge);
        assert_eq!(state, "COMPLETED", "{output}");
        let joined = lab.path().join("shards/joined");
        let is_joined =
            |run: &PathBuf| !read_json(&run.join("run.json"))["parameters"]["shards"].is_null();
        let run = directories(&joined).into_iter().find(is_joined).unwrap();
        Some(read_json(&run.join("summary.json")))
    }
}

/// Guests: a shard that is killed boots again.
mod in_guests {
    use super::*;

    /// Counts of other boots differ by their uncertainty, and nothing else does. With
    /// `FWDLAB_SHARDS=200`, as many as in a large project.
    #[test]
    fn killed_shards_of_guests_find_what_an_undivided_run_finds() {
        let lab = Lab::new();
        let Some(mut slurm) = Slurm::start(&lab) else {
            return;
        };
        let shards = std::env::var("FWDLAB_SHARDS").map_or(3, |number| number.parse().unwrap());
        // two test cases and a control in each
        let iterations = usize::div_ceil(shards, 3);
        lab.write(
            "campaign.toml",
            &format!(
                "campaign = 'guests'\niterations = {iterations}\nseed = 7\n\
                 [configuration]\nrule = \"nft add table ip t; nft add chain ip t f '{{ type filter hook forward priority 0; }}'\"\n\
                 [matrix]\nimage = 'debian:linux-image-cloud-amd64'\nconfiguration = ['plain', 'rule']\n\
                 [procedure]\nid = 'exact'\nframes = 3200\nprofile = false\n"
            ),
        );
        let storm = Storm {
            shards,
            length: Duration::from_secs(5 + shards as u64 / 2),
            pause: 1500,
        };
        let Some(joined) = storm.joined(&lab, &mut slurm) else {
            return;
        };
        let whole = lab.json("run campaign.toml");
        let [joined, whole] = [&joined, &whole].map(|of| list(&of["test_cases"]));
        assert_eq!(joined.len(), 2);
        for (one, other) in joined.iter().zip(whole) {
            assert_eq!(one["test_case"], other["test_case"]);
            let [one, other] = [one, other].map(|case| &case["outcomes"][0]["found"]);
            for key in ["image", "kernel", "generator", "frames", "frame_loss_ratio"] {
                assert_eq!(one[key], other[key], "{key}");
            }
            let half = |found: &Value| {
                let [low, high] = [0, 1].map(|at| number(&found["interval"][at]));
                (high - low) / 2.0
            };
            let [first, second] =
                [one, other].map(|found| number(&found["instructions_per_frame"]));
            assert!(
                (first - second).abs() <= half(one) + half(other),
                "{first} {second}"
            );
            let is_proven = |found: &Value| found["difference"]["proven"].clone();
            assert_eq!(is_proven(one), is_proven(other));
        }
    }

    /// One shard is measured by the lines of Kubernetes' job, in a sandbox: another user, no
    /// capabilities, devices or network, a file system that cannot be written. The other by those
    /// of GitHub's workflow, which are Jenkins', too.
    #[test]
    fn shards_of_different_schedulers_are_joined_without_privileges() {
        let lab = Lab::new();
        let (Some(shard), Some(merge)) = (
            container("kubernetes.yaml"),
            container("kubernetes-merge.yaml"),
        ) else {
            return;
        };
        if try_tool(&["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]).is_err() {
            return skipped("no bwrap that can make namespaces");
        }
        let workflow = documents(&recipe("github.yml")).unwrap().remove(0);
        let [measure, judge] = ["measure", "judge"].map(|job| steps(&workflow, job));
        let all = [&measure[..], &judge].concat();
        let without_summary = |lines: &str| {
            let lines = lines.lines().map(str::trim);
            lines
                .filter(|line| !line.contains("GITHUB_"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let all: Vec<String> = all.iter().map(|lines| without_summary(lines)).collect();
        assert_eq!(jenkins_steps(), all);

        // the second shard
        let folder = |name: &str| {
            let folder = lab.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let github = folder("github");
        lab.write("github/campaign.toml", CAMPAIGN);
        let of_second = [("SHARD", "2"), ("SHARDS", "2"), ("FWDLAB_RUNS", "runs")];
        let ended = step(&lab, &github, &measure[0], &of_second);
        if cannot_boot(&ended.err) {
            return;
        }
        ended.code(0);
        step(&lab, &github, &measure[1], &of_second).code(0);

        // the first, which is killed once
        let runs = folder("volume");
        lab.write("claim/campaign.toml", CAMPAIGN);
        let pod = |container: &Value| sandbox(&lab, container);
        let mut killed = lab.start_command(pod(&shard));
        let first = runs.join("0");
        killed.wait_until("a run", |_| !begun_runs(&first).is_empty());
        killed.signal(rustix::process::Signal::KILL);
        killed.wait(PATIENCE);
        // a pod that is replaced after the end of its shard has nothing left to do
        for _ in 0..2 {
            let ended = super::ended(pod(&shard));
            ended.code(0);
            assert_eq!(gaps_of_only_run(&first), 1);
        }
        tool(&[
            "cp",
            "-r",
            github.join("runs").to_str().unwrap(),
            runs.join("1").to_str().unwrap(),
        ]);
        super::ended(pod(&merge)).code(0);
        assert_eq!(joined_boots(&runs.join("joined")), [1, 2]);

        // the verdict
        let of_first = [
            ("SHARD", "1"),
            ("SHARDS", "2"),
            ("FWDLAB_RUNS", first.to_str().unwrap()),
        ];
        let verdict = folder("verdict");
        step(&lab, &verdict, &measure[1], &of_first).code(0);
        fs::rename(
            github.join("shard-2.tar.gz"),
            verdict.join("shard-2.tar.gz"),
        )
        .unwrap();
        let of_verdict = [
            ("FWDLAB_RUNS", "runs"),
            ("GITHUB_STEP_SUMMARY", "summary.md"),
        ];
        for lines in &judge {
            step(&lab, &verdict, lines, &of_verdict).code(0);
        }
        let joined = verdict.join("runs");
        assert_eq!(joined_boots(&joined), [1, 2]);
        assert_eq!(directories(&joined).len(), 1, "@1 is not the joined run");
        let summary = fs::read_to_string(verdict.join("summary.md")).unwrap();
        assert!(summary.contains("instructions per frame"), "{summary}");
        for file in ["junit.xml", "report.html", "run.tar.gz"] {
            assert!(verdict.join(file).exists(), "{file}");
        }
    }

    /// Returns a container's command in a sandbox that has what its pod has, for 2 shards.
    fn sandbox(lab: &Lab, container: &Value) -> Command {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let at = |name: &str| lab.path().join(name).display().to_string();
        let options = "bwrap --unshare-all --die-with-parent --new-session --cap-drop ALL --clearenv --dev /dev \
            --proc /proc --tmpfs /tmp --setenv PATH /opt:/usr/bin:/usr/sbin --setenv FWDLAB_CACHE /cache \
            --setenv SHARDS 2 --setenv JOB_COMPLETION_INDEX 0 --ro-bind /usr /usr --ro-bind /etc /etc \
            --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
            --uid 1000 --gid 1000";
        let mut words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        for (option, from, to) in [
            ("--ro-bind", PROGRAM, "/opt/fwdlab"),
            ("--bind", IMAGES, "/cache"),
            ("--bind", &at("volume"), "/runs"),
            ("--ro-bind", &at("claim"), "/campaign"),
        ] {
            words.extend([option, from, to].map(str::to_owned));
        }
        words.extend(["--remount-ro", "/"].map(str::to_owned));
        words.extend(list(&container["command"]).iter().map(text));
        words.extend(list(&container["args"]).iter().map(text));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command
    }
}
