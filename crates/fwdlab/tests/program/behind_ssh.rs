//! A lab of machines behind SSH: generator and DUT are whole machines that start their own disk, and all that is done to them is what a
//! lab does to machines of metal. What they forward here is no rate of anything.
//!
//! Needs QEMU and an SSH client, and no privileges. Start with [`in_guests::a_router_is_measured_restarted_and_lost_over_ssh`].

/// Guests keep a CPU busy each: frames of other tests would be held up, and no time is judged here.
mod in_guests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::process::Command as Program;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use fwdlab_engine::{Choice, HoldUps, LoadPlan, Mode, Schedule};
    use fwdlab_lab::LabError;
    use fwdlab_lab::agent;
    use fwdlab_lab::bed::Networks;
    use fwdlab_lab::dut::{Configuration, Dut, Linux};
    use fwdlab_lab::host::reboot::reboot_and_wait;
    use fwdlab_lab::host::ssh::Target;
    use fwdlab_lab::host::undo::Undo;
    use fwdlab_lab::host::{Command, Failure, Host, Limit, Ssh};
    use fwdlab_lab::run::Control;
    use fwdlab_lab::tester::{Frames, Rig, remote};
    use fwdlab_lab::vm::computer::{
        ADDRESS, Cable, Computer, Devices, End, Setup, State, System, link,
    };
    use fwdlab_lab::vm::image::cache::Cache;
    use fwdlab_lab::vm::image::{Image, ImageKind};
    use fwdlab_lab::vm::qemu::Accelerator;
    use fwdlab_model::trial::{IpVersion, Stream};
    use fwdlab_model::units::FrameSize;

    use crate::disk::TestDisk;
    use crate::support::{Lab, skipped};

    /// Longer than a boot takes on a busy host.
    const BOOT: Limit<'static> = within(180);

    const PORTS: [&str; 2] = ["eth1", "eth2"];

    const fn within(seconds: u64) -> Limit<'static> {
        Limit {
            time: Duration::from_secs(seconds),
            is_stopped: &|| false,
        }
    }

    /// A machine, and the way to it.
    struct Guest {
        computer: Computer,
        ssh: Arc<Ssh>,
    }

    fn start(lab: &Lab, disk: &TestDisk, name: &str, links: Vec<End>) -> Result<Guest, LabError> {
        let cache = Cache::at(&lab.path().join("cache")).unwrap();
        let found = Image::find(disk.disk.to_str().unwrap(), &cache, &mut |_| {}).unwrap();
        let ImageKind::Disk(image) = found.kind else {
            panic!("no disk");
        };
        let setup = Setup {
            name: name.into(),
            system: System::Disk(image),
            cpus: 1,
            memory_mib: 1024,
            devices: Devices::Virtio,
            address: ADDRESS,
            links: links.into_iter().map(Cable::Machine).collect(),
            folder: lab.path().join(name),
        };
        let computer = Computer::start(setup, Accelerator::Emulated, &|| false)?;
        let config = lab.path().join(format!("{name}.ssh"));
        let text = format!(
            "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  IdentityFile {}\n",
            disk.key.display()
        );
        fs::write(&config, text).unwrap();
        let at = computer.management().unwrap();
        let ssh = Arc::new(Ssh::new(Target {
            host: at.ip().to_string(),
            user: Some("root".into()),
            port: Some(at.port()),
            config: Some(config.display().to_string()),
        }));
        Ok(Guest { computer, ssh })
    }

    impl Guest {
        /// Waits until its system answers, and takes its ports into use.
        fn comes_up(&self) {
            let began = Instant::now();
            while let Err(error) = self.ssh.run(&Command::new("true", &[]), within(20)) {
                self.computer.check().unwrap();
                assert!(
                    began.elapsed() < BOOT.time,
                    "{error}\n{}",
                    self.computer.console()
                );
                std::thread::sleep(Duration::from_millis(300));
            }
            for port in PORTS {
                self.ssh.ask("ip", &["link", "set", port, "up"]).unwrap();
            }
        }

        /// Says so in words when it is gone.
        fn is_lost(&self) {
            let error = self
                .ssh
                .run(&Command::new("true", &[]), within(5))
                .unwrap_err();
            let is = matches!(
                error.failure,
                Failure::Lost(_) | Failure::Unreachable(_) | Failure::TimedOut { .. }
            );
            assert!(is, "{error:?}");
        }
    }

    /// The program without what only debuggers read: it travels through an emulated network.
    fn program(lab: &Lab) -> std::path::PathBuf {
        let ours = Path::new(env!("CARGO_BIN_EXE_fwdlab"));
        let small = lab.path().join("fwdlab");
        let stripped = Program::new("strip")
            .arg("-o")
            .arg(&small)
            .arg(ours)
            .status();
        match stripped {
            Ok(status) if status.success() => small,
            _ => ours.to_owned(),
        }
    }

    /// Libraries of the program that a machine with so little on it lacks.
    fn bring_libraries(program: &Path, host: &dyn Host) {
        let said = Program::new("ldd").arg(program).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
        for path in paths.filter(|path| host.read(path).is_err()) {
            let library = fs::read(path).unwrap();
            let folder = Path::new(path).parent().unwrap().to_str().unwrap();
            host.ask("mkdir", &["-p", folder]).unwrap();
            host.write(path, &library).unwrap();
        }
    }

    /// Frames sent, and frames that came back.
    fn trial(rig: &mut dyn Rig, stream: &Stream, meanwhile: &mut dyn FnMut()) -> (u64, u64) {
        rig.arm(Frames::Stream(stream), None).unwrap();
        let schedule = Schedule {
            load: LoadPlan::Constant(100.0),
            frames: Some(300),
            at_most: Duration::from_secs(30),
            hold_ups: HoldUps::MakeUp { most_pps: None },
            path: 0,
        };
        rig.start(schedule).unwrap();
        meanwhile();
        while !rig.is_done() {
            rig.wait(Duration::from_millis(50));
        }
        let reading = rig.stop().unwrap();
        (reading.sent[0], reading.received[0])
    }

    /// Four boots, a program that travels, and some hundred sessions of SSH in an emulator: three minutes.
    #[test]
    fn a_router_is_measured_restarted_and_lost_over_ssh() {
        let test = "a_router_is_measured_restarted_and_lost_over_ssh";
        let lab = Lab::new();
        let disk = match TestDisk::get() {
            Ok(disk) => disk,
            Err(why) => return skipped(test, &why),
        };
        let [to_dut, from_generator] = link(lab.path(), "in").unwrap();
        let [to_generator, from_dut] = link(lab.path(), "out").unwrap();
        let generator = match start(&lab, &disk, "generator", vec![to_dut, from_dut]) {
            Err(LabError::Preflight(why)) => return skipped(test, &why),
            started => started.unwrap(),
        };
        let router = start(&lab, &disk, "dut", vec![from_generator, to_generator]).unwrap();
        generator.comes_up();
        router.comes_up();

        // the DUT is Linux like any other
        let mut networks = Networks::EMBEDDED;
        let (ours, theirs) = (generator.computer.macs(), router.computer.macs());
        (networks.input.tester_mac, networks.input.dut_mac) = (ours[1], theirs[1]);
        (networks.output.tester_mac, networks.output.dut_mac) = (ours[2], theirs[2]);
        let undo = Arc::new(Undo::new(File::create(lab.path().join("undo")).unwrap()));
        let host = router.ssh.clone();
        let dut = Linux::new(host.clone(), host, PORTS, networks, undo);
        dut.prepare().unwrap();

        // the generator is our program there
        let program = program(&lab);
        bring_libraries(&program, generator.ssh.as_ref());
        let far = generator.ssh.start_agent(&program, within(120)).unwrap();
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
        let port = |at: usize| (None, PORTS[at].to_owned());
        let paths = [agent::Path {
            tx: port(0),
            rx: port(1),
        }];
        let choice = Choice {
            mode: Some(Mode::AfPacket),
            cpus: Vec::new(),
            // at the pace of an emulator
            prove: None,
            way_back: None,
            traffic: Vec::new(),
        };
        let (mut rig, _) = remote::open(&far, &paths, &networks.forward(), &choice).unwrap();
        let rig = rig.as_mut();
        let forwards = |rig: &mut dyn Rig| {
            let (sent, received) = trial(rig, &stream, &mut || {});
            assert_eq!((sent, received), (300, 300));
        };
        forwards(rig);
        let counted = dut.counters().unwrap().unwrap();
        assert!(
            counted.input.rx_packets >= 300 && counted.output.tx_packets >= 300,
            "{counted:?}"
        );

        // a configuration that drops, on it and off again
        let rule = "nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; policy drop; }'";
        let rule = Configuration::parse(rule).unwrap();
        dut.apply(&rule, &Control::default()).unwrap();
        assert_eq!(trial(rig, &stream, &mut || {}), (300, 0));

        // a restart forgets it
        let before = fwdlab_lab::host::reboot::identity(router.ssh.as_ref(), within(20)).unwrap();
        let after = std::thread::scope(|scope| {
            // its boot loader asks, and waits for an answer after a restart
            scope.spawn(|| {
                router.computer.wait_for("Restarting system", BOOT).unwrap();
                router.computer.wait_for("boot:", BOOT).unwrap();
                router.computer.type_line("").unwrap();
            });
            reboot_and_wait(router.ssh.as_ref(), BOOT).unwrap()
        });
        assert_ne!(before, after);
        router.comes_up();
        dut.prepare().unwrap();
        forwards(rig);

        // its kernel panics in mid trial
        let (sent, received) = trial(rig, &stream, &mut || {
            std::thread::sleep(Duration::from_secs(1));
            let crash = Command::shell("echo c > /proc/sysrq-trigger");
            router.ssh.run(&crash, within(5)).unwrap_err();
        });
        assert_eq!(sent, 300);
        assert!(0 < received && received < 300, "{received} of 300 frames");
        assert_eq!(router.computer.state(), State::Panicked);
        assert!(router.computer.console().contains("sysrq triggered crash"));
        router.is_lost();
        router.computer.power_cycle(&|| false).unwrap();
        router.comes_up();

        // the generator goes away, and the agent with it
        generator.computer.pull();
        let error = far.ask("true", &[]).unwrap_err().to_string();
        assert!(error.contains("was lost"), "{error}");
    }
}
