//! Tries what the kernel really can do, in a network namespace that lives as long as one small
//! process.
//!
//! Makes a pair of veth ports there, and sends a thousand frames through it with the fastest
//! sender. Nothing is left behind, not even when we are killed: the namespace disappears with its
//! last process, which ends when our pipe closes. Start with [`checks`].

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use fwdlab_engine::{Addresses, Choice, Mode, PathSpec, PortSpec};
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;

use super::Check;

const NAMESPACES: &str = "network namespaces";
const VETH: &str = "veth";
const LIVE_FRAMES: &str = "xdp live frames";

/// Script of the process in the namespace: each step prints its name when it is done.
const SCRIPT: &str = "echo namespace \
    && ip link add port0 type veth peer name port1 && ip link set port0 up && ip link set port1 up \
    && echo veth && exec cat";

/// A network namespace with a pair of veth ports, `port0` and `port1`.
struct Scratch(Child);

/// How far the script got, with the error output of the step at which it ended.
#[derive(Debug, PartialEq)]
enum ScriptOutcome {
    Nothing(String),
    Namespace(String),
    Ports,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn checks(root: bool) -> Vec<Check> {
    let mut command = Command::new("unshare");
    if !root {
        command.arg("--map-root-user");
    }
    let child = command
        .args(["--net", "sh", "-c", SCRIPT])
        .env("LC_ALL", "C")
        .env("PATH", crate::programs::search_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut scratch = match child {
        Ok(child) => Scratch(child),
        Err(error) => {
            return vec![Check::fail(
                NAMESPACES,
                format!("cannot run unshare to test them: {error}"),
                "apt-get install util-linux",
            )];
        }
    };
    let made = made(&mut scratch.0);
    let mut checks = namespace_and_ports(&made, root);
    if made == ScriptOutcome::Ports {
        checks.push(if root {
            live_frames(send(&scratch).map_err(|error| error.to_string()))
        } else {
            Check::skip(LIVE_FRAMES, "needs root")
        });
    }
    checks
}

/// Reads the output of the script until it waits for us or ends.
fn made(child: &mut Child) -> ScriptOutcome {
    let mut steps = Vec::new();
    if let Some(stdout) = child.stdout.as_mut() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            steps.push(line);
            if steps.len() == 2 {
                return ScriptOutcome::Ports;
            }
        }
    }
    let mut output = String::new();
    if let Some(stderr) = child.stderr.as_mut() {
        // if the error output cannot be read, continue with what there is
        let _ = stderr.read_to_string(&mut output);
    }
    let output = output.trim().to_owned();
    if steps.is_empty() {
        ScriptOutcome::Nothing(output)
    } else {
        ScriptOutcome::Namespace(output)
    }
}

fn namespace_and_ports(made: &ScriptOutcome, root: bool) -> Vec<Check> {
    let namespace = Check::ok(NAMESPACES, "one was created and removed again");
    match made {
        ScriptOutcome::Namespace(output) if output.contains("not found") => {
            vec![namespace, Check::skip(VETH, "cannot be tested without ip")]
        }
        ScriptOutcome::Nothing(output) => vec![Check::fail(
            NAMESPACES,
            format!("cannot create one: {output}"),
            if root {
                "run outside of the container, or start it with --privileged"
            } else {
                "sudo fwdlab doctor, and sudo for measurements"
            },
        )],
        ScriptOutcome::Namespace(output) => vec![
            namespace,
            Check::fail(
                VETH,
                format!("cannot create a pair of ports: {output}"),
                "sudo modprobe veth",
            ),
        ],
        ScriptOutcome::Ports => vec![
            namespace,
            Check::ok(VETH, "a pair of ports was created and removed again"),
        ],
    }
}

/// Sends frames from port to port by the fastest sender, counted in XDP; the tester rejects engines
/// that lose any.
fn send(scratch: &Scratch) -> Result<(), fwdlab_engine::EngineError> {
    let netns = format!("/proc/{}/ns/net", scratch.0.id());
    let port = |interface: &str| PortSpec {
        netns: Some(netns.clone().into()),
        interface: interface.into(),
    };
    let path = PathSpec {
        tx: port("port0"),
        rx: port("port1"),
    };
    let addresses = Addresses::between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let choice = Choice {
        way_back: None,
        traffic: Vec::new(),
        mode: Some(Mode::XdpLive),
        first: None,
        cpus: Vec::new(),
        senders: 1,
        prove: Some(Stream {
            frame_size_bytes: FrameSize::MIN,
            ip_version: IpVersion::Ipv4,
            flows: 1,
        }),
    };
    crate::tester::local::open(&[path], &addresses, &choice).map(drop)
}

fn live_frames(sent: Result<(), String>) -> Check {
    match sent {
        Ok(()) => Check::ok(LIVE_FRAMES, "1000 frames sent, 1000 counted"),
        Err(error) => Check::warn(
            LIVE_FRAMES,
            format!("{error}; a slower sender may not overload the DUT"),
            "boot a kernel of 5.18 or newer with CONFIG_BPF_SYSCALL=y, outside of containers",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn each_missing_step_is_reported_separately() {
        let statuses = |made: &ScriptOutcome| -> Vec<(&str, Status)> {
            namespace_and_ports(made, true)
                .iter()
                .map(|check| (check.name, check.status))
                .collect()
        };
        assert_eq!(
            statuses(&ScriptOutcome::Ports),
            [(NAMESPACES, Status::Ok), (VETH, Status::Ok)]
        );
        assert_eq!(
            statuses(&ScriptOutcome::Namespace(
                "Error: Unknown device type.".into()
            )),
            [(NAMESPACES, Status::Ok), (VETH, Status::Fail)]
        );
        assert_eq!(
            statuses(&ScriptOutcome::Namespace("sh: 1: ip: not found".into())),
            [(NAMESPACES, Status::Ok), (VETH, Status::Skip)]
        );
        assert_eq!(
            statuses(&ScriptOutcome::Nothing("Operation not permitted".into())),
            [(NAMESPACES, Status::Fail)]
        );
    }

    #[test]
    fn the_script_output_is_parsed_as_far_as_it_got() {
        let run = |script: &str| {
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let made = made(&mut child);
            drop(Scratch(child));
            made
        };
        assert_eq!(
            run("echo namespace; echo veth; exec cat"),
            ScriptOutcome::Ports
        );
        assert_eq!(
            run("echo namespace; echo no veth >&2; exit 2"),
            ScriptOutcome::Namespace("no veth".into())
        );
        assert_eq!(
            run("echo not permitted >&2; exit 1"),
            ScriptOutcome::Nothing("not permitted".into())
        );
    }

    #[test]
    fn live_frames_are_a_warning_when_they_fail() {
        assert_eq!(live_frames(Ok(())).status, Status::Ok);
        assert_eq!(live_frames(Err("EOPNOTSUPP".into())).status, Status::Warn);
    }

    /// With frames through a real pair of ports, if we have the privileges.
    #[test]
    fn a_thousand_live_frames_pass_between_two_ports() {
        if !super::super::privileges::is_root() {
            println!("SKIPPED: a_thousand_live_frames_pass_between_two_ports: needs root");
            return;
        }
        let checks = checks(true);
        assert_eq!(checks.len(), 3, "{checks:#?}");
        assert!(
            checks.iter().all(|check| check.status == Status::Ok),
            "{checks:#?}"
        );
    }
}
