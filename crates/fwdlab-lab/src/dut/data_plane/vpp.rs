//! VPP: its command line, and the ports 1 and 2 of the DUT in it, which are packet sockets of its
//! plugin af_packet.
//!
//! Configurations are lines of its command line, as for a VPP in a namespace of this machine, whose
//! start and conversation (`dut/vpp/`) are the same. Start with [`VPP`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use fwdlab_model::campaign::Kind;

use super::{CommandLine, DataPlane, Ground, Running};
use crate::dut::Vpp;
use crate::dut::set::Step;
use crate::dut::vpp::cli::Cli;
use crate::dut::vpp::instance;
use crate::error::LabError;

/// Without workers, its main thread polls.
pub(super) static VPP: DataPlane = DataPlane {
    kind: Kind::Vpp,
    name: "vpp",
    programs: &["vpp"],
    needs,
    install: "apt-get install vpp vpp-plugin-core, from the packages of FD.io",
    modules: &[],
    takes: "a program, lines of its command line such as 'set acl-plugin acl permit', or a file *.vpp of them",
    add: super::ovs::add,
    takes_later: |step| matches!(step, Step::Shell(_) | Step::Vpp(_)),
    arguments: |line, _, _| instance::in_guest(&line.program, Path::new(FOLDER)),
    before: Some("mkdir -p /run/vpp /dev/shm && mount -t tmpfs tmpfs /dev/shm"),
    after: Some(forward),
    idle_threads: 0,
    slow_path: None,
};

/// Its folder in the guest.
const FOLDER: &str = "/run/vpp";

fn needs(line: &CommandLine) -> Result<Vec<PathBuf>, LabError> {
    let (_, mut all) = instance::plugins(&line.program).unwrap_or_default();
    all.push(line.of.find(&[&instance::control_of(&line.program)])?);
    Ok(all)
}

fn forward(running: &Running, on: &Ground) -> Result<Option<Vpp>, LabError> {
    let control = running
        .line
        .of
        .find(&[&instance::control_of(&running.line.program)])?;
    let socket = format!("{FOLDER}/cli.sock");
    let cli = Cli::new(on.dut.clone(), &control.to_string_lossy(), &socket);
    let ended = |time: Duration| {
        std::thread::sleep(time);
        running.has_ended().then(|| "has ended".to_owned())
    };
    cli.wait(ended).map_err(|reason| running.error(reason))?;
    let ring = on.ring();
    Vpp::in_guest(cli, on.ports, on.networks, ring, on.undo.clone()).map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dut::Configuration;

    /// A build, a package, and a VPP before its ports were a plugin.
    #[test]
    fn the_guest_gets_vpp_with_its_control_program_and_plugins() {
        let packaged = format!("lib/{}-linux-gnu/vpp_plugins", std::env::consts::ARCH);
        for (plugins, files) in [
            ("lib/vpp_plugins", &["af_packet", "acl", "dpdk"][..]),
            (&*packaged, &["acl", "ping"]),
        ] {
            let root = tempfile::tempdir().unwrap();
            let root = fs::canonicalize(root.path()).map(|at| (at, root)).unwrap();
            let put = |file: &str| {
                let file = root.0.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, "").unwrap();
                file
            };
            let program = put("bin/vpp");
            let mut expected = vec![program.clone(), put("bin/vppctl")];
            let mut enabled = String::new();
            for name in files {
                let file = put(&format!("{plugins}/{name}_plugin.so"));
                if *name != "dpdk" {
                    expected.push(file);
                    enabled += &format!(" plugin {name}_plugin.so {{ enable }}");
                }
            }
            let line = CommandLine::of(Kind::Vpp, None, program.to_str()).unwrap();
            let line = line.expect("a data plane");
            assert_eq!(line.needs().unwrap(), expected.into_iter().collect());
            let words = line.words(["eth0", "eth1"], 30_000).join(" ");
            let folder = root.0.join(plugins);
            assert_eq!(
                words,
                format!(
                    "{} unix {{ nodaemon cli-listen /run/vpp/cli.sock runtime-dir /run/vpp }} api-segment {{ prefix fwdlab }} \
                     memory {{ main-heap-size 256M main-heap-page-size 4k }} buffers {{ buffers-per-numa 16384 page-size 4k }} \
                     statseg {{ size 32M page-size 4k socket-name /run/vpp/stats.sock }} cpu {{ main-core 0 }} \
                     plugins {{ path {} plugin default {{ disable }}{enabled} }}",
                    program.display(),
                    folder.display(),
                )
            );
        }
    }

    #[test]
    fn configurations_are_lines_and_one_word_is_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let line = |part: &str| {
            let parts = [part.to_owned()];
            let configuration = Configuration::named("x", &parts, folder.path()).unwrap();
            let of = CommandLine::of(Kind::Vpp, Some(&configuration), Some("/bin/ls"));
            of.map(|line| line.expect("a data plane"))
        };
        let acl = "set acl-plugin acl permit";
        let after = line(acl).unwrap().after.unwrap();
        assert_eq!(after.steps(), [Step::Shell(acl.into())]);
        let file = folder.path().join("a.vpp");
        fs::write(&file, acl).unwrap();
        let after = line("a.vpp").unwrap().after.unwrap();
        assert!(matches!(after.steps(), [Step::Vpp(path)] if path.ends_with("a.vpp")));
        let program = line("/bin/sh").unwrap();
        assert_eq!(program.program, fs::canonicalize("/bin/sh").unwrap());
        assert!(program.after.is_none());
        for (part, words) in [
            ("no-vpp", "or install it: apt-get install vpp"),
            ("a.nft", "not for vpp: give a program, lines"),
        ] {
            fs::write(folder.path().join("a.nft"), "").unwrap();
            let reason = line(part).err().unwrap().to_string();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
