//! Kernel features that this machine's own kernel may lack, tested in guests: the configurations in
//! `examples/config-sets/features`.
//!
//! A single test, because booting takes most of its time. Two guests share the configurations; each
//! builds a new bed for every one, so that no effect remains. `docs/reference/exact-features.md`
//! has the costs of the features. Start with [`FEATURES`].

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and helpers of tests are tests too"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fwdlab_engine::analysis::{AnalysisPlan, StreamPlan};
use fwdlab_engine::{Choice, LoadPlan, Mode, Schedule, StallPolicy};
use fwdlab_lab::bed::Bed;
use fwdlab_lab::bursts::Bursts;
use fwdlab_lab::control::Control;
use fwdlab_lab::dut::{Configuration, Spread};
use fwdlab_lab::host::wire;
use fwdlab_lab::host::{Host, Limit, Remote};
use fwdlab_lab::networks::Networks;
use fwdlab_lab::tester::{Frames, remote};
use fwdlab_lab::vm::image::cache::Cache;
use fwdlab_lab::vm::image::{Image, ImageKind};
use fwdlab_lab::vm::initramfs::{self, Recipe};
use fwdlab_lab::vm::machine::{Boot, Machine, Start};
use fwdlab_lab::vm::plugin;
use fwdlab_model::campaign::Generator;
use fwdlab_model::family::PREFIX;
use fwdlab_model::instructions::Way;
use fwdlab_model::trial::{IpVersion, Stream};
use fwdlab_model::units::FrameSize;

fn skipped(reason: &str) {
    println!("SKIPPED: features_of_stock_kernels_are_in_the_path: {reason}");
}

/// Configurations, and functions that every frame then passes. Features that do not affect each
/// other share a bed.
const FEATURES: &[(&str, &[&str])] = &[
    ("second-router wireguard", &["wg_xmit", "wg_packet_receive"]),
    ("second-router esp", &["esp_output", "esp_input"]),
    (
        "generate:wireguard,tunnels=3",
        &["wg_xmit", "wg_packet_receive"],
    ),
    (
        "generate:esp,tunnels=3",
        &["xfrmi_xmit", "esp_output", "esp_input"],
    ),
    (
        "bridge nft-set",
        &["br_handle_frame", "br_dev_xmit", "nft_lookup_eval"],
    ),
    ("vrf ipset", &["vrf_l3_rcv", "ip_set_test"]),
    (
        "second-router vlan conntrack",
        &[
            "vlan_dev_hard_start_xmit",
            "vlan_do_receive",
            "nf_conntrack_in",
        ],
    ),
    (
        "second-router bonding",
        &["bond_start_xmit", "bond_handle_frame"],
    ),
    ("netem-loss", &["netem_enqueue", "netem_dequeue"]),
    ("netem-delay", &["netem_enqueue", "netem_dequeue"]),
    ("flowtable", &["nf_flow_offload_ip_hook"]),
    (PKTGEN, &["pktgen_thread_worker", "ip_forward"]),
];

/// Not a feature of a router: the generator for kernels without live frames.
const PKTGEN: &str = "pktgen";

/// A burst that fits into the DUT's input, whichever process runs first, and into WireGuard's queue
/// of 1024 frames.
const FRAMES: u32 = 256;

/// Enough frames to measure a loss of 10 % to 2 %: four standard deviations.
const MANY: u32 = 4_000;

/// A guest and its counter.
struct Guest {
    machine: Arc<Machine>,
    folder: PathBuf,
    bursts: u32,
}

impl Guest {
    /// Applies a configuration to a new bed, and sends two bursts. Returns the share of the last
    /// burst that came back, and the functions that it passed.
    fn send(&mut self, sets: &str, frames: u32) -> (f64, Vec<String>) {
        let host = self.machine.host();
        let clean =
            "for namespace in far dut0 gen; do ip netns del $namespace 2>/dev/null; done; true";
        host.query("sh", &["-c", clean]).unwrap();
        let bed = Bed::in_guest(&self.machine).unwrap();
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/config-sets/features");
        for set in sets.split(' ').filter(|set| *set != PKTGEN) {
            let set = match set.starts_with(PREFIX) {
                true => Configuration::parse(set),
                false => Configuration::parse(folder.join(set).to_str().unwrap()),
            };
            let applied = bed.dut(0).apply(&set.unwrap(), &Control::default());
            applied.unwrap();
        }
        let spread = || vec![bed.dut(0).spread().unwrap()];
        let before = spread();
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 100).unwrap();
        let generator = match sets {
            PKTGEN => Generator::Pktgen,
            _ => Generator::LiveFrames,
        };
        let addresses = bed.networks().forward();
        let bursts = Bursts::open(&host, &addresses, &stream, generator, None).unwrap();
        // after the start of the generator, which may be a module
        let symbols = host.read("/proc/kallsyms").unwrap();
        std::fs::write(self.folder.join("symbols"), symbols).unwrap();
        let limit = Limit {
            time: Duration::from_secs(60),
            is_stopped: &|| false,
        };
        // the first burst pays for neighbours, handshakes and flows
        let _ = bursts
            .send(Way::Through, frames.min(FRAMES), limit)
            .unwrap();
        let burst = bursts.send(Way::Through, frames, limit).unwrap();
        self.bursts += 2;
        assert_eq!(Spread::unused(&before, &spread()), None, "{sets}");
        if sets.starts_with(PREFIX) {
            Guest::assert_undone(&bed, sets, &host);
        }
        let counted = plugin::section(&self.folder, self.bursts - 1)
            .unwrap()
            .unwrap();
        let profile = counted.per(burst.sent);
        // names such as `wg_xmit [wireguard]`
        let functions = profile.by_function().into_keys();
        let functions = functions
            .filter_map(|function| function.split(' ').next())
            .map(str::to_owned);
        (
            burst.received as f64 / burst.sent as f64,
            functions.collect(),
        )
    }

    /// Checks that a gateway has counted the traffic of its tunnels, does not replace another one,
    /// and is removed completely.
    fn assert_undone(bed: &Bed, family: &str, host: &Remote) {
        let counted = bed.dut(0).spread().unwrap().unwrap();
        assert!(counted.arrived >= u64::from(FRAMES), "{counted:?}");
        assert_eq!(counted.carried.len(), 3);
        let again = Configuration::parse(family).unwrap();
        let again = bed.dut(0).apply(&again, &Control::default());
        let again = again.unwrap_err().to_string();
        for there in ["tun2", "namespace far", "table 100", "192.0.0.0/24"] {
            assert!(again.contains(there), "{again}");
        }
        let left = "ip rule; ip -6 rule; ip route show table all; ip -br link; ip xfrm state; ip xfrm policy; ip netns; sysctl -n net.ipv4.fib_multipath_hash_policy";
        let dut = host.within("dut0");
        let look = || dut.query("sh", &["-c", left]).unwrap();
        let with = look();
        assert_eq!(bed.dut(0).undo(), [""; 0]);
        let without = look();
        for trace in ["tun", "far", "lookup 100", "192.0.0.", "blackhole"] {
            assert!(!without.contains(trace), "{trace}: {without}");
            assert!(with.contains(trace), "{trace}: {with}");
        }
        assert!(
            without.ends_with("0\n") && with.ends_with("1\n"),
            "{without}"
        );
    }

    /// Measures the latency through the current DUT as in a trial, by the machine's clock. Returns
    /// median and maximum in ms.
    fn delay_ms(&self) -> (f64, f64) {
        const COUNT: u64 = 200;
        let port = |name: &str| (Some("gen".to_owned()), name.to_owned());
        let paths = [wire::Path {
            tx: port("tx0"),
            rx: port("rx0"),
        }];
        let choice = Choice {
            mode: Some(Mode::AfPacket),
            first: None,
            cpus: Vec::new(),
            senders: 1,
            prove: None,
            way_back: None,
            traffic: Vec::new(),
        };
        let addresses = Networks::EMBEDDED.forward();
        let host = self.machine.host();
        let (mut rig, _) = remote::open(&host, &paths, &addresses, &choice, Limit::OURS).unwrap();
        let stream = Stream::new(IpVersion::Ipv4, FrameSize::MIN, 10).unwrap();
        let plan = AnalysisPlan {
            streams: vec![StreamPlan::default()],
        };
        rig.arm(Frames::Stream(&stream), Some(plan)).unwrap();
        rig.start(Schedule {
            load: LoadPlan::Constant(1000.0),
            frames: Some(COUNT),
            at_most: Duration::from_secs(30),
            stall_policy: StallPolicy::CatchUp { most_pps: None },
            path: 0,
        })
        .unwrap();
        while !rig.is_done() {
            rig.wait(Duration::from_millis(50));
        }
        let reading = rig.stop().unwrap();
        assert_eq!((reading.sent[0], reading.received[0]), (COUNT, COUNT));
        let found = rig.analysis(0).unwrap().unwrap();
        let latency = &found.streams[0].latency;
        let at = |share| latency.quantile(share).unwrap() as f64 / 1e6;
        (at(0.5), at(1.0))
    }

    /// Checks that these configurations have their intended effect.
    fn judge(&mut self, sets: &str, expected: &[&str]) {
        let frames = match sets {
            "netem-loss" => MANY,
            _ => FRAMES,
        };
        let (ratio, functions) = self.send(sets, frames);
        for function in expected {
            assert!(
                functions.iter().any(|f| f == function),
                "{sets}: no {function} in {functions:?}"
            );
        }
        match sets {
            "netem-loss" => {
                let sigma = (0.1 * 0.9 / f64::from(MANY)).sqrt();
                assert!(
                    (ratio - 0.9).abs() < 4.0 * sigma,
                    "{sets}: {ratio} came back"
                );
            }
            _ => assert!(
                (ratio - 1.0).abs() < f64::EPSILON,
                "{sets}: {ratio} came back"
            ),
        }
        if sets == "netem-delay" {
            // by a clock that the host does not disturb: the injected delay, plus that of the path
            let (median, longest) = self.delay_ms();
            let injected = |ms| (10.0..10.5).contains(&ms);
            assert!(injected(median) && injected(longest), "{median}, {longest}");
            let dut = self.machine.host().within("dut0");
            dut.query("tc", &["qdisc", "del", "dev", "eth1", "root"])
                .unwrap();
            let (median, longest) = self.delay_ms();
            assert!(longest < 0.5, "{median}, {longest}");
        }
    }
}

/// Guests keep a CPU busy each, which would stall the frames of other tests. Nothing here is judged
/// by time.
mod in_guests {
    use super::*;

    /// Takes some 100 s of CPU, in two guests in parallel: their boots, and for each bed its
    /// commands and two bursts.
    #[test]
    fn features_of_stock_kernels_are_in_the_path() {
        if std::env::var_os("FWDLAB_LONG").is_none() {
            return skipped("it takes 100 s of CPU: FWDLAB_LONG=1 runs it");
        }
        let folder = tempfile::tempdir().unwrap();
        // kept between test runs; our program is built with the workspace
        let own = std::env::current_exe().unwrap();
        let program = own.ancestors().nth(2).unwrap().join("fwdlab");
        let cache = Cache::at(&own.ancestors().nth(3).unwrap().join("tmp/images")).unwrap();
        let plugin = match plugin::build(cache.folder()) {
            Ok(plugin) => plugin,
            Err(e) => return skipped(&e.to_string()),
        };
        let mut tell = |text: &str| println!("{text}");
        let image = match Image::find("debian:linux-image-cloud-amd64", &cache, &mut tell) {
            Ok(image) => image,
            Err(e) => return skipped(&e.to_string()),
        };
        let ImageKind::Kernel(kernel) = &image.kind else {
            panic!("{image:?} is not a kernel");
        };
        let recipe = Recipe {
            program: &program,
            kernel,
            wanted: &["nft", "ethtool", "wg", "ipset", "iptables"],
            words: &BTreeSet::new(),
            data_planes: &Default::default(),
        };
        let initramfs = match initramfs::build(&recipe, &cache, &mut tell) {
            Ok(initramfs) => initramfs,
            Err(e) => return skipped(&e.to_string()),
        };
        let boot = |number: u32| {
            let folder = folder.path().join(format!("machine-{number}"));
            let symbols = folder.join("symbols");
            let boot = Boot {
                name: image.name.clone(),
                kernel: kernel.bzimage.clone(),
                initramfs: initramfs.clone(),
                mitigations: false,
                cpus: 1,
                memory_mib: 1024,
                plugin: Some(plugin::argument(&plugin, &folder, &symbols)),
                folder: folder.clone(),
                start: Start::Cold,
            };
            let machine = Arc::new(Machine::boot(&boot, &|| false)?);
            Ok::<_, fwdlab_lab::LabError>(Guest {
                machine,
                folder,
                bursts: 0,
            })
        };
        let left = Mutex::new(FEATURES.iter());
        let missing: Vec<String> = std::thread::scope(|scope| {
            let guests: Vec<_> = [1, 2]
                .map(|number| {
                    let (boot, left) = (&boot, &left);
                    scope.spawn(move || {
                        let mut guest = match boot(number) {
                            Ok(guest) => guest,
                            Err(e) => return Some(e.to_string()),
                        };
                        loop {
                            let next = left.lock().unwrap().next();
                            let (sets, expected) = next?;
                            guest.judge(sets, expected);
                        }
                    })
                })
                .into();
            guests
                .into_iter()
                .filter_map(|guest| guest.join().unwrap())
                .collect()
        });
        if let Some(reason) = missing.first() {
            assert!(reason.contains("there is no such program"), "{reason}");
            skipped(reason);
        }
    }
}
