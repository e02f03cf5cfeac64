//! Instructions per frame in a virtual machine: the cost of a rule compared with the cost of its
//! functions, and guests that fail.
//!
//! Needs QEMU and a kernel from the archive, and no privileges. The kernel is kept between test
//! runs, next to the build output. Start with
//! [`in_guests::the_cost_of_a_rule_is_that_of_its_functions`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::disk::TestDisk;
use crate::gate::compiled;
use crate::schedulers::cannot_boot;
use crate::support::{
    CommandResult, Lab, PATIENCE, count, directories, list, number, refused, runs_long, skipped,
    tool, try_tool,
};
use crate::vpp::build as vpp_build;

/// The kernel of Debian's current cloud images.
pub const IMAGE: &str = "debian:linux-image-cloud-amd64";

const RULE: &str = "nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'; \
    nft add rule ip t f ip saddr 10.0.0.1 drop";

/// One test case and its control.
const EXACT: &str = "campaign = 'parts'\niterations = 1\n[matrix]\nimage = 'debian:linux-image-cloud-amd64'\n\
    [procedure]\nid = 'exact'\nframes = 320\nprofile = false\n";

/// The function that evaluates rules of nftables.
const CHAIN: &str = "nft_do_chain [nf_tables]";

/// Runs the program until it ends; `None`, after a message, if there is no emulator, or the archive
/// did not answer.
pub fn emulated(lab: &Lab, command: Command) -> Option<CommandResult> {
    // several boots, on a host that is busy with other tests
    let ended = lab.start_command(command).wait(5 * PATIENCE);
    let words = ["cannot get", "there is no image", "no such program"];
    if ended.code == 3 && words.iter().any(|words| ended.err.contains(words)) {
        skipped(ended.err.trim());
        return None;
    }
    Some(ended)
}

/// Returns the instructions per frame by function.
pub fn functions(case: &Value) -> BTreeMap<String, f64> {
    let found = &case["outcomes"][0]["found"]["functions"];
    let all = found.as_array().into_iter().flatten();
    all.map(|f| {
        let name = f["function"].as_str().unwrap().to_owned();
        (name, number(&f["per_frame"]))
    })
    .collect()
}

#[test]
fn usage_errors_are_reported() {
    let lab = Lab::new();
    let poller = EXACT.replace(
        "[procedure]",
        "[dut]\nkind = 'testpmd'\nprogram = '/bin/sh'\n[procedure]\ngenerator = 'pktgen'",
    );
    lab.write("poller.toml", &poller);
    let table = "--vm /no/such/kernel => 3: no such file
        --vm x --load 1Mpps => 2: cannot be used with
        --vm x --frames 2000 => 2: '--frames <N>': frames must be a multiple of 32 up to 32000000, and 2000 is not; 1984 or 2016 is
        --vm x --frames 0 => 2: 0 is not; 32 is
        --vm x --frames many => 2: a number of frames is expected, such as 3200
        --frames 3200 => 2: --vm";
    refused(table, |line| lab.run(&format!("quick {line}")));
    let simulated = "campaign = 's'\niterations = 1\n[bed]\nengine = 'sim'\n[procedure]\nid = 'trial'\nload = '1kpps'\n";
    lab.write("sim.toml", simulated);
    lab.write("exact.toml", EXACT);
    lab.run("run sim.toml").code(0);
    let table = "run sim.toml --shard 1/2 => 2: the campaign has only 1 test case
        run exact.toml --shard 3/2 => 2: `3/2` is not a shard
        plan exact.toml --shard 2/9 => 2: only 2 boots
        run sim.toml --jobs 2 => 2: only campaigns that count instructions
        run exact.toml --jobs 0 => 2: 0 is not in 1..
        run exact.toml --jobs 9999999 => 2: Use at most --jobs
        run --resume @1 --shard 1/2 => 2: cannot be used with
        runs merge @1 => 2: is no shard
        runs merge none => 2: none
        gate --base a --head a => 2: base and head are both a
        gate --head a => 2: --base
        gate --vm x --dut-kind testpmd --base plain --head no-testpmd => 3: apt-get install dpdk-dev
        gate --vm x --dut-kind testpmd --base plain --head /bin/sh --frames 64000 => 2: room for 32768
        gate --vm x --dut-kind vpp --base no-vpp --head a => 3: apt-get install vpp
        gate --vm x --dut-kind ovs-dpdk --base plain --head no-vswitchd => 3: apt-get install openvswitch-switch-dpdk
        quick --vm x --dut-kind vpp-huge-pages => 2: one CPU and no huge pages
        quick --dut-kind vpp --vs a => 2: except with --vm
        quick --dut-kind testpmd => 2: in a virtual machine
        plan poller.toml => 2: omit generator
        gate --base-run none --head a => 2: `none`
        gate --base-run sim.toml --head a => 2: it is not the JSON document of a run";
    refused(table, |line| lab.run(line));
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// Counts in two independent ways: with the guest's own counter, and with an emulator plugin
    /// that sees every instruction. The cost of a rule, and of ten more, is the same in both, and
    /// no change costs nothing. The kernel comes from a whole disk, which is booted to get it;
    /// without a disk, from its package.
    #[test]
    fn the_cost_of_a_rule_is_that_of_its_functions() {
        let lab = Lab::new();
        let more = (2..=11).map(|n| format!("; nft add rule ip t f ip saddr 10.0.0.{n} drop"));
        let eleven = format!("{RULE}{}", more.collect::<String>());
        let mut all = vec!["--frames", "3200", "--vs", RULE, "--vs", &eleven, "--json"];
        // the gate of a program for tc always runs
        let has_programs = runs_long("programs for XDP in guests") && compiled(&lab);
        if has_programs {
            all.extend(["--vs", "old.o:xdp", "--vs", "new.o:xdp"]);
        }
        let of_disk = match runs_long("a kernel from a whole disk") {
            true => TestDisk::get().ok(),
            false => None,
        };
        let of_disk = of_disk.map(|of| format!("{},key={}", of.disk.display(), of.key.display()));
        let image = of_disk.as_deref().unwrap_or(IMAGE);
        let mut command = lab.program(&[&["quick", "--vm", image], &all[..]].concat());
        if of_disk.is_some() {
            // with an empty cache, so that nothing is known from the last test run
            command.env("FWDLAB_CACHE", lab.path().join("cache"));
        }
        let Some(ended) = emulated(&lab, command) else {
            return;
        };
        let document = ended.code(0).document();
        let [plain, rule, eleven] = [0, 1, 2].map(|at| &document["test_cases"][at]);
        let difference = |case: &Value| case["outcomes"][0]["found"]["difference"].clone();
        if of_disk.is_some() {
            // the number of instructions of the same kernel from its package, not of this host's
            // kernel
            let all = number(&plain["outcomes"][0]["found"]["instructions_per_frame"]);
            assert!((3000.0..6000.0).contains(&all), "{plain}");
            let kernel = document["boots"][0]["kernel"].as_str().unwrap();
            ended.says(&["from /boot/vmlinuz", &format!("taking Linux {kernel}")]);
            // the console output of its own boot is stored with the run
            let console = lab.kept("inputs/images/1/console.log");
            assert!(console.contains("current login:"), "{console}");
        }
        let counted =
            [rule, eleven].map(|case| number(&difference(case)["instructions_per_frame"]));
        let uncertain = |case: &Value| {
            let ends = difference(case)["interval"].clone();
            (number(&ends[1]) - number(&ends[0])) / 2.0
        };
        let ten = counted[1] - counted[0];
        assert!(ten > 50.0, "{counted:?}");
        let looks = |case: &Value| functions(case).get(CHAIN).copied();
        if let (Some(by_one), Some(by_eleven)) = (looks(rule), looks(eleven)) {
            let by_profile = by_eleven - by_one;
            assert!(
                (by_profile - ten).abs() <= uncertain(rule) + uncertain(eleven) + 2.0,
                "{by_profile} and {ten}"
            );
        }

        let control = difference(plain);
        assert!(number(&control["percent"]).abs() < 0.1, "{control}");
        let cost = difference(rule);
        assert_eq!(cost["proven"], true, "{cost}");
        let cost = counted[0];

        let [before, after] = [functions(plain), functions(rule)];
        if before.is_empty() {
            assert!(ended.err.contains("no profiles"), "{}", ended.err);
            return skipped("no C compiler for the plugin of the emulator");
        }
        let by_function: f64 = after.values().sum::<f64>() - before.values().sum::<f64>();
        assert!(
            (cost - by_function).abs() <= 3.0,
            "{cost} and {by_function}"
        );
        assert!(after[CHAIN] > 50.0, "{after:?}");
        assert!(!before.contains_key(CHAIN), "{before:?}");
        // 50 rounds in a program for XDP
        if has_programs {
            let [old, new] = [3, 4].map(|at| &document["test_cases"][at]);
            let more = [old, new].map(|case| number(&difference(case)["instructions_per_frame"]));
            let more = more[1] - more[0];
            assert!((100.0..1000.0).contains(&more), "{more}");
            let own = [old, new].map(|case| functions(case)["bpf_prog_pass [bpf]"]);
            assert!((own[1] - own[0] - more).abs() < 12.0, "{own:?} of {more}");
        }
        for boot in list(&document["boots"]) {
            assert!((number(&boot["ticks_per_instruction"]) - 1.0).abs() < 0.01);
            // the control, which boots by itself, equals the reference, which does not
            assert_ne!(boot["shared"], boot["control"], "{boot}");
            assert_eq!(list(&boot["validity"]["reasons"]).len(), 0);
        }

        lab.run("runs verify @1").code(0);
        lab.run("runs ls").prints(&["instructions"]);
        let page = lab.run("runs show @1 --format html").out;
        assert!(page.contains("Flame graph") && page.contains("data:image/svg"));
        // a baseline in a repository: the same run is within the limits
        let frames = format!("\"frames\": {}", count(&document["boots"][0]["frames"]));
        assert!(ended.out.contains(&frames), "{frames}");
        lab.write("base.json", &ended.out);
        let limit = "--fail-if 'instructions-per-frame > 5%'";
        lab.run(&format!("compare base.json @1 {limit}")).code(0);
        // counts of longer bursts are others
        lab.write("longer.json", &ended.out.replace(&frames, "\"frames\": 77"));
        lab.run(&format!("compare longer.json @1 {limit}"))
            .code(5)
            .prints(&["is not comparable with", "77 frames against"]);
    }

    /// A head that forwards nothing has no result, and one that loses frames is no improvement,
    /// although it takes fewer instructions.
    #[test]
    fn a_head_that_loses_frames_is_named() {
        if !runs_long("heads that lose frames") {
            return;
        }
        let lab = Lab::new();
        lab.write("drop.sh", &RULE.replace("ip saddr 10.0.0.1 ", ""));
        lab.write(
            "some.sh",
            &RULE.replace("ip saddr 10.0.0.1", "numgen inc mod 4 0"),
        );
        let gate = format!("gate --vm {IMAGE} --base plain --frames 320 --by 5% --json --head");
        let printed = lab.run(&format!("{gate} some.sh --print-campaign"));
        lab.write("some.toml", &printed.code(0).out);
        // one guest after the other: when one runs, the files of the last are gone
        let files = lab.path().join("guests");
        std::fs::create_dir(&files).unwrap();
        let mut lossy = lab.program("run some.toml --jobs 1 --json");
        lossy.env("TMPDIR", &files);
        let mut lossy = lab.start_command(lossy);
        let folders = || -> Vec<String> {
            let all = directories(&files)
                .into_iter()
                .flat_map(|of| directories(&of));
            let names = all.map(|one| one.file_name().unwrap().to_string_lossy().into_owned());
            names.filter(|name| name.parse::<u32>().is_ok()).collect()
        };
        let mut seen = BTreeSet::new();
        while seen.len() < 2 && !lossy.has_ended() {
            let now = folders();
            assert!(now.len() <= 1, "{now:?}");
            seen.extend(now);
            std::thread::sleep(Duration::from_millis(20));
        }
        let lossy = lossy.wait(5 * PATIENCE);
        if cannot_boot(&lossy.err) {
            return;
        }
        assert_eq!(seen.len(), 2, "{lossy:?}");
        let lossy = lossy.code(5).document();
        let found = &lossy["test_cases"][1]["outcomes"][0]["found"];
        assert!(
            (0.01..0.99).contains(&number(&found["frame_loss_ratio"])),
            "{found}"
        );
        assert_eq!(found["difference"], Value::Null, "{found}");
        let judged = &lossy["thresholds"][0];
        assert_eq!(list(&judged["not_judged"]).len(), 1, "{judged}");
        let nothing = lab.run(&format!("{gate} drop.sh")).code(7).document();
        let failure = &nothing["test_cases"][1]["iterations"][0]["failure"];
        assert!(
            failure.as_str().unwrap().contains("did not forward"),
            "{nothing}"
        );
    }

    /// The path of frames to and from DPDK, whose ports are packet sockets.
    const DPDK: [&str; 2] = ["tpacket_rcv", "[librte_net_af_packet]"];

    /// Runs `gate` with a data plane, whose head takes longer, and checks everything that is true
    /// of each of them: the control finds nothing, no frame is lost, and the functions make up the
    /// whole, `own` among them. Returns the difference, and the functions of base and head; `None`
    /// without what the test needs.
    fn gated(
        lab: &Lab,
        arguments: &str,
        own: &[&str],
        vpp: &Path,
    ) -> Option<(f64, [BTreeMap<String, f64>; 2])> {
        let mut command = lab.program(&format!(
            "gate --vm {IMAGE} {arguments} --frames 12800 --json"
        ));
        command.env("FWDLAB_VPP", vpp);
        let document = emulated(lab, command)?.code(6).document();
        let [base, head] = [0, 1].map(|at| &document["test_cases"][at]);
        let [of_base, of_head] = [base, head].map(|case| &case["outcomes"][0]["found"]);
        let control = &of_base["difference"];
        assert!(number(&control["percent"]).abs() < 0.1, "{control}");
        let difference = &of_head["difference"];
        assert_eq!(difference["proven"], true, "{difference}");
        for boot in list(&document["boots"]) {
            assert_eq!(boot["validity"]["reasons"], serde_json::json!([]));
            let bursts = list(&boot["bursts"]);
            let all_came_back = bursts.iter().all(|one| one["sent"] == one["received"]);
            assert!(all_came_back, "{boot}");
            assert!(bursts.iter().any(|one| one["way"] == "half"), "{boot}");
        }
        let both = [functions(base), functions(head)];
        if both[0].is_empty() {
            skipped("no C compiler for the plugin of the emulator");
            return None;
        }
        for (found, functions) in [of_base, of_head].into_iter().zip(&both) {
            let all = number(&found["instructions_per_frame"]);
            let sum: f64 = functions.values().sum();
            assert!((all - sum).abs() < 0.001 * all, "{all} and {sum}");
            // its path, on which the kernel does not forward
            for name in own {
                assert!(functions[*name] > 50.0, "{name}: {functions:?}");
            }
            assert!(!functions.contains_key("ip_forward"), "{functions:?}");
        }
        Some((number(&difference["instructions_per_frame"]), both))
    }

    /// Another way of forwarding takes longer in testpmd alone, by clock and by function. Both
    /// programs are the same; the second one has a name for all of its code.
    #[test]
    fn a_change_of_a_data_plane_that_polls_is_found_with_its_function() {
        if !runs_long("testpmd") {
            return;
        }
        let lab = Lab::new();
        let script = "cp $(command -v dpdk-testpmd) $0/named && objcopy --add-symbol planted=.text:0,function,global $0/named";
        if let Err(reason) = try_tool(&["sh", "-c", script, lab.path().to_str().unwrap()]) {
            return skipped(&format!("no dpdk-testpmd, or no objcopy: {reason}"));
        }
        let arguments =
            "--dut-kind testpmd --base dpdk-testpmd --head './named --forward-mode=mac' --by 0.1%";
        let Some((more, [before, after])) = gated(&lab, arguments, &DPDK, Path::new("")) else {
            return;
        };
        // two addresses are copied, which were counted: +28
        assert!((15.0..45.0).contains(&more), "{more}");
        let own = after["planted [testpmd]"] - before["[testpmd]"];
        assert!((own - more).abs() < 6.0, "{own} and {more}");
    }

    /// A flow that changes an address takes longer in Open vSwitch alone, by clock and by function.
    /// No frame takes its slow path, as `ovs-appctl` in the guest reports: otherwise the boots were
    /// not valid.
    #[test]
    fn a_change_of_a_flow_of_open_vswitch_is_found_in_its_functions() {
        let lab = Lab::new();
        if !runs_long("Open vSwitch") {
            return;
        }
        if !Path::new("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk").exists() {
            return skipped("no Open vSwitch with DPDK (Debian's package openvswitch-switch-dpdk)");
        }
        let flow = "ovs-ofctl add-flow br0 in_port=1,actions=mod_dl_dst:02:00:00:00:00:09,output:2";
        let arguments = format!("--dut-kind ovs-dpdk --base plain --head '{flow}' --by 0.1%");
        let Some((more, [before, after])) = gated(&lab, &arguments, &DPDK, Path::new("")) else {
            return;
        };
        assert!((20.0..500.0).contains(&more), "{more}");
        let [program, copied] = ["[ovs-vswitchd]", "[libc]"].map(|name| after[name] - before[name]);
        assert!(program > 100.0, "{program} of {more}");
        let own = program + copied;
        assert!((own - more).abs() < 10.0, "{own} and {more}");
    }

    /// A rule of the real VPP takes longer in its plugin alone, by clock and by function.
    #[test]
    fn a_rule_of_vpp_is_found_in_its_functions() {
        let lab = Lab::new();
        let vpp = match vpp_build::unpacked() {
            Ok(vpp) => vpp,
            Err(reason) => return skipped(&reason),
        };
        let rule = "set acl-plugin acl deny src 10.0.0.1/32, permit\nset acl-plugin interface host-eth0 input acl 0\n";
        lab.write("rule.vpp", rule);
        let arguments = "--dut-kind vpp --base plain --head rule.vpp --by 0.1%";
        let Some((more, both)) = gated(&lab, arguments, &["tpacket_rcv"], &vpp) else {
            return;
        };
        let of_plugin = |functions: &BTreeMap<String, f64>| -> f64 {
            let own = functions
                .iter()
                .filter(|(name, _)| name.ends_with("[acl_plugin]"));
            own.map(|(_, per_frame)| per_frame).sum()
        };
        let [before, after] = both.each_ref().map(of_plugin);
        assert!(after - before > 20.0, "{before} {after} of {more}");
        assert!(after - before < more + 10.0, "{before} {after} of {more}");
    }

    /// Uses a small program instead of VPP, so it proves nothing about VPP itself: only that the
    /// guest contains the program and its control program, that configuration lines arrive in
    /// order, and that its polling thread is stopped between bursts.
    #[test]
    fn a_program_in_place_of_vpp_is_started_configured_and_stopped_between_bursts() {
        if !runs_long("a program in place of VPP") {
            return;
        }
        let lab = Lab::new();
        lab.write("vpp.c", include_str!("vpp_stand_in.c"));
        lab.write("vppctl", include_str!("vpp_stand_in.sh"));
        if try_tool(&["cc", "--version"]).is_err() {
            return skipped("no C compiler");
        }
        let script =
            "cd $0 && mkdir bin && cc -O1 -o bin/vpp vpp.c && mv vppctl bin && chmod +x bin/vppctl";
        tool(&["sh", "-c", script, lab.path().to_str().unwrap()]);
        let arguments = "--dut-kind vpp --base plain --head 'set acl-plugin acl permit' --by 0.1%";
        let vpp = lab.path().join("bin/vpp");
        let Some((more, [before, after])) = gated(&lab, arguments, &["tpacket_rcv"], &vpp) else {
            return;
        };
        let planted = after["planted [vpp]"];
        assert!((planted - more).abs() < 10.0, "{planted} of {more}");
        assert!(!before.contains_key("planted [vpp]"), "{before:?}");
    }

    /// The last lines of its console show the cause.
    #[test]
    fn a_guest_that_panics_is_reported_with_its_last_output() {
        if !runs_long("a guest that panics") {
            return;
        }
        let lab = Lab::new();
        let line = format!("quick --vm {IMAGE} --set 'echo c > /proc/sysrq-trigger'");
        if let Some(ended) = emulated(&lab, lab.program(&line)) {
            ended
                .code(4)
                .says(&["the machine ended", "sysrq", "Kernel panic"]);
        }
    }

    #[test]
    fn a_program_that_is_killed_takes_its_machines_with_it() {
        let lab = Lab::new();
        let mut program = lab.start(&format!("quick --vm {IMAGE}"));
        let has_machines = || {
            lab.processes()
                .iter()
                .any(|line| line.contains(" -kernel "))
        };
        let started = Instant::now();
        while !has_machines() {
            if program.has_ended() || started.elapsed() > Duration::from_secs(60) {
                return skipped("no machine was started: no emulator, or no answer of the archive");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        program.signal(Signal::KILL);
        program.wait(PATIENCE);
        let started = Instant::now();
        while has_machines() {
            assert!(started.elapsed() < Duration::from_secs(10), "it lives on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
