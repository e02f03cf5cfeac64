//! DPDK's testpmd: its command line.
//!
//! It gets the ports by packet sockets (`net_af_packet`). Start with [`TESTPMD`].

use fwdlab_model::campaign::Kind;

use super::{CommandLine, DataPlane};

pub(super) static TESTPMD: DataPlane = DataPlane {
    kind: Kind::Testpmd,
    name: "testpmd",
    programs: &["dpdk-testpmd"],
    needs: |_| Ok(Vec::new()),
    install: "apt-get install dpdk-dev",
    modules: &[],
    takes: "a program, options such as --forward-mode=mac, or both",
    add,
    takes_later: |_| false,
    arguments,
    before: None,
    after: None,
    idle_threads: 1,
    slow_path: None,
};

/// Options of the environment: no huge pages and no devices of the guest, and one CPU for both the
/// thread that waits for a user and the one that forwards.
const ENVIRONMENT: &str =
    "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --iova-mode=va --lcores 0@0,1@0";

/// Options of testpmd that a user's may override.
const OPTIONS: &str = "--auto-start --total-num-mbufs=4096 --no-mlockall";

/// Options, after a program if the text does not begin with one.
fn add(line: &mut CommandLine, text: &str) -> bool {
    let mut own = text.split_whitespace().map(str::to_owned).peekable();
    if let Some(first) = own.next_if(|first| !first.starts_with('-')) {
        line.program = first.into();
    }
    line.words.extend(own);
    true
}

/// A user's options of the environment are before `--`.
fn arguments(line: &CommandLine, ports: [&str; 2], ring: u32) -> Vec<String> {
    let at = line.words.iter().position(|word| word == "--");
    let (environment, options) = match at {
        Some(at) => (&line.words[..at], &line.words[at + 1..]),
        None => (&[][..], &line.words[..]),
    };
    let of = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut words = of(ENVIRONMENT);
    for (at, port) in ports.iter().enumerate() {
        words.push(format!(
            "--vdev=net_af_packet{at},iface={port},framesz=2048,framecnt={ring}"
        ));
    }
    words.extend_from_slice(environment);
    words.push("--".into());
    words.extend(of(OPTIONS));
    words.extend_from_slice(options);
    words
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dut::Configuration;

    #[test]
    fn a_configuration_is_a_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let program = fs::canonicalize("/bin/sh").unwrap();
        let of = |configuration: Option<&Configuration>| {
            let line = CommandLine::of(Kind::Testpmd, configuration, Some("sh"));
            line.map(|line| line.expect("a data plane"))
        };
        let line = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            of(Some(
                &Configuration::named("x", &parts, folder.path()).unwrap(),
            ))
        };
        let is = |line: CommandLine| (line.program, line.words.join(" "));
        let plain = (program.clone(), String::new());
        assert_eq!(is(of(None).unwrap()), plain);
        assert_eq!(is(line(&["/bin/sh"]).unwrap()), plain);
        let mac = (program, "--forward-mode=mac".to_owned());
        assert_eq!(is(line(&["--forward-mode=mac"]).unwrap()), mac);
        assert_eq!(is(line(&["sh --forward-mode=mac"]).unwrap()), mac);
        assert_eq!(is(line(&["/bin/sh", "--forward-mode=mac"]).unwrap()), mac);
        let both = line(&["--log-level=8 -- --burst=8"]).unwrap();
        let words = both.words(["eth0", "eth1"], 30_000).join(" ");
        assert!(
            words.contains("iface=eth1,framesz=2048,framecnt=30000 --log-level=8 -- --auto"),
            "{words}"
        );
        assert!(words.ends_with("--burst=8"), "{words}");

        let reason = line(&["no-such-program"]).err().unwrap().to_string();
        assert!(reason.contains("apt-get install dpdk-dev"), "{reason}");
        fs::write(folder.path().join("a.nft"), "").unwrap();
        let reason = line(&["a.nft"]).err().unwrap().to_string();
        assert!(reason.contains("not for testpmd"), "{reason}");
    }
}
