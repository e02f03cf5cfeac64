//! Derives telemetry from readings of a DUT's host before, during and after a trial: differences of
//! counters, shares of time, energy.
//!
//! Counts are exact, because both readings are made at rest. Shares of time refer to the time
//! between the readings, which is longer than the load. [`crate::findings`] interprets it. Start
//! with [`between`], and [`combine`] for several trials.

use std::collections::{BTreeMap, BTreeSet};

use fwdlab_model::result::TrialRecord;
use fwdlab_model::system::System;
use fwdlab_model::telemetry::{
    CpuShare, CpuTime, EnergyCount, Interrupt, InterruptShare, PortCount, QueueCount, QueueShare,
    Reading, Size, Softnet, Telemetry,
};
use fwdlab_model::test_case::TestCase;

use crate::findings;

/// The context of the readings.
#[derive(Debug, Clone, Default)]
pub struct ReadingContext<'a> {
    /// The host.
    pub host: &'a str,
    /// Its operating system.
    pub system: System,
    /// The ports of the test.
    pub ports: &'a [String],
    /// CPUs on which the DUT forwards; empty: all.
    pub cpus: &'a [usize],
    /// Planned interval of samples while frames flow, in seconds; `None`: no samples.
    pub every_s: Option<f64>,
    /// Frames sent into the DUT.
    pub frames_sent: u64,
    /// Frames among them that came back.
    pub frames_received: u64,
}

/// Returns the difference of two readings, with the samples between them.
pub fn between(
    before: &Reading,
    during: &[Reading],
    after: &Reading,
    around: &ReadingContext<'_>,
) -> Telemetry {
    let forwards =
        |cpu: u32| around.cpus.is_empty() || around.cpus.iter().any(|own| *own as u32 == cpu);
    let all = || std::iter::once(before).chain(during).chain([after]);
    let mut telemetry = Telemetry {
        host: around.host.to_owned(),
        system: around.system,
        trials: 1,
        between_s: rounded(after.uptime_s - before.uptime_s),
        frames_sent: around.frames_sent,
        frames_received: around.frames_received,
        cpus: cpus(before, after, &forwards),
        softnet: softnet(before, after),
        ports: ports(before, after, around.ports),
        queues: queues(&before.queues, &after.queues),
        drops: drops(before, after, around.ports),
        interrupts: interrupts(before, after, around.ports),
        energy_joules: energy(before, during, after),
        samples: during.len() as u32,
        gap_s: gap(during),
        every_s: around.every_s,
        ..Telemetry::default()
    };
    telemetry.missing.extend(before.missing.clone());
    telemetry.missing.extend(after.missing.clone());
    let parts = |reading: &Reading| -> Vec<String> { reading.missing.keys().cloned().collect() };
    if parts(before) != parts(after) {
        // keep counters that are not zero: those in only one reading would count since the host
        // started
        telemetry.drops.clear();
        for port in telemetry.ports.values_mut() {
            port.drops.clear();
            port.pauses.clear();
        }
        let reason = "not everything was read both before and after the load";
        telemetry.missing.insert("drops".into(), reason.into());
    }
    for reading in all() {
        for (name, size) in &reading.sizes {
            nearest(&mut telemetry.sizes, name, *size);
        }
        let own = (reading.frequency_mhz.iter()).filter(|(cpu, _)| forwards(**cpu));
        for (_, mhz) in own {
            telemetry.lowest_mhz = Some(telemetry.lowest_mhz.map_or(*mhz, |low| low.min(*mhz)));
            telemetry.highest_mhz = Some(telemetry.highest_mhz.map_or(*mhz, |high| high.max(*mhz)));
        }
        for celsius in reading.temperature_celsius.values() {
            telemetry.hottest_celsius = Some(
                telemetry
                    .hottest_celsius
                    .map_or(*celsius, |t| t.max(*celsius)),
            );
        }
    }
    telemetry
}

/// Keeps the reading of a size that is closest to its limit; without a limit, the last one.
fn nearest(sizes: &mut BTreeMap<String, Size>, name: &str, size: Size) {
    let known = sizes.entry(name.to_owned()).or_insert(size);
    // for free memory, less is closer to the limit
    let is_nearer = match size.limit {
        Some(_) if is_room(name) => size.value <= known.value,
        Some(_) => size.value >= known.value,
        None => true,
    };
    if is_nearer {
        *known = size;
    }
}

/// Returns true if this size is what is left, and not what is used.
pub(crate) fn is_room(name: &str) -> bool {
    name.ends_with(" available")
}

fn cpus(before: &Reading, after: &Reading, forwards: &dyn Fn(u32) -> bool) -> Vec<CpuShare> {
    let nodes: BTreeMap<u32, u32> = (before.nodes.iter())
        .flat_map(|(node, list)| listed(list).into_iter().map(|cpu| (cpu, *node)))
        .collect();
    let of = |now: &CpuTime| {
        let was = before.cpus.iter().find(|was| was.cpu == now.cpu)?;
        let ticks = now.total_ticks().saturating_sub(was.total_ticks());
        let ratio = |of: fn(&CpuTime) -> u64| {
            let more = of(now).saturating_sub(of(was));
            rounded(more as f64 / ticks.max(1) as f64)
        };
        Some(CpuShare {
            cpu: now.cpu,
            forwards: forwards(now.cpu),
            node: nodes.get(&now.cpu).copied(),
            ticks,
            user_ratio: ratio(|t| t.user_ticks),
            system_ratio: ratio(|t| t.system_ticks),
            irq_ratio: ratio(|t| t.irq_ticks),
            softirq_ratio: ratio(|t| t.softirq_ticks),
            idle_ratio: ratio(|t| t.idle_ticks),
            steal_ratio: ratio(|t| t.steal_ticks),
        })
    };
    after.cpus.iter().filter_map(of).collect()
}

fn softnet(before: &Reading, after: &Reading) -> Vec<Softnet> {
    let of = |now: &Softnet| {
        let was = before.softnet.iter().find(|was| was.cpu == now.cpu)?;
        // the kernel keeps them in 32 bits
        let more = |now: u64, was: u64| u64::from((now as u32).wrapping_sub(was as u32));
        Some(Softnet {
            cpu: now.cpu,
            processed: more(now.processed, was.processed),
            dropped: more(now.dropped, was.dropped),
            squeezed: more(now.squeezed, was.squeezed),
        })
    };
    after.softnet.iter().filter_map(of).collect()
}

fn risen(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let of = |(name, now): (&String, &u64)| {
        // a missing counter counts from 0
        let more = now.checked_sub(before.get(name).copied().unwrap_or(0))?;
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(of).collect()
}

fn ports(before: &Reading, after: &Reading, names: &[String]) -> BTreeMap<String, PortCount> {
    let own = after.ports.iter().filter(|(name, _)| names.contains(name));
    let of = |(name, now): (&String, &PortCount)| {
        let was = before.ports.get(name)?;
        let port = PortCount {
            rx_packets: now.rx_packets.saturating_sub(was.rx_packets),
            rx_bytes: now.rx_bytes.saturating_sub(was.rx_bytes),
            tx_packets: now.tx_packets.saturating_sub(was.tx_packets),
            tx_bytes: now.tx_bytes.saturating_sub(was.tx_bytes),
            drops: risen(&was.drops, &now.drops),
            pauses: risen(&was.pauses, &now.pauses),
            interrupts: Vec::new(),
            // the other properties are constant
            ..was.clone()
        };
        Some((name.clone(), port))
    };
    own.filter_map(of).collect()
}

/// Returns the packets of each queue between two readings, with their shares.
pub fn queues(before: &[QueueCount], after: &[QueueCount]) -> Vec<QueueShare> {
    let same =
        |a: &QueueCount, b: &QueueCount| (&a.port, a.way, a.queue) == (&b.port, b.way, b.queue);
    let of = |now: &QueueCount| {
        let was = before.iter().find(|was| same(was, now))?;
        Some(QueueShare {
            port: now.port.clone(),
            way: now.way,
            queue: now.queue,
            packets: now.packets.saturating_sub(was.packets),
            ratio: 0.0,
        })
    };
    shared(after.iter().filter_map(of).collect())
}

/// Adds every queue's share of its port and direction.
fn shared(mut queues: Vec<QueueShare>) -> Vec<QueueShare> {
    let mut all = BTreeMap::new();
    for queue in &queues {
        *all.entry((queue.port.clone(), queue.way)).or_insert(0) += queue.packets;
    }
    for queue in &mut queues {
        let all = all[&(queue.port.clone(), queue.way)];
        queue.ratio = rounded(queue.packets as f64 / all.max(1) as f64);
    }
    queues
}

fn drops(before: &Reading, after: &Reading, names: &[String]) -> BTreeMap<String, u64> {
    let mut all = risen(&before.drops, &after.drops);
    for (name, port) in ports(before, after, names) {
        let of_port = port.drops.into_iter();
        all.extend(of_port.map(|(counter, frames)| (format!("{name} {counter}"), frames)));
    }
    for cpu in softnet(before, after) {
        if cpu.dropped > 0 {
            all.insert(format!("softnet CPU {} dropped", cpu.cpu), cpu.dropped);
        }
    }
    all
}

fn interrupts(before: &Reading, after: &Reading, ports: &[String]) -> Vec<InterruptShare> {
    // on hosts with a thousand interrupts, keep those of the ports: by number, or by the names that
    // drivers use
    let is_own = |one: &&Interrupt| {
        ports.iter().any(|port| {
            let known = before.ports.get(port).map(|port| &port.interrupts);
            known.is_some_and(|all| all.contains(&one.number)) || is_of(&one.name, port)
        })
    };
    let of = |now: &Interrupt| {
        let was = before
            .interrupts
            .iter()
            .find(|was| was.number == now.number)?;
        let counts = (0..).zip(now.counts.iter().zip(&was.counts));
        let counts = counts.filter_map(|(cpu, (now, was))| {
            let more = now.saturating_sub(*was);
            (more > 0).then_some((cpu, more))
        });
        let place = |one: &Interrupt| one.effective.clone().or_else(|| one.affinity.clone());
        let moved = match (place(was), place(now)) {
            (Some(was), Some(now)) if was != now => Some([was, now]),
            _ => None,
        };
        Some(InterruptShare {
            name: now.name.clone(),
            counts: counts.collect(),
            moved,
        })
    };
    after
        .interrupts
        .iter()
        .filter(is_own)
        .filter_map(of)
        .collect()
}

/// Returns true if an interrupt with this name belongs to a port: `eth0-TxRx-3` does; names such as
/// `mlx5_comp3@pci:...` do not contain the port.
fn is_of(name: &str, port: &str) -> bool {
    let words = name.split(|c: char| c == '-' || c == ':' || c == '@' || c.is_whitespace());
    words.into_iter().any(|word| word == port)
}

/// Returns the energy between two readings, from energy counters, which may have wrapped once.
pub(crate) fn counted_joules(before: &Reading, after: &Reading) -> BTreeMap<String, f64> {
    let of = |(name, now): (&String, &EnergyCount)| {
        let was = before.energy.get(name)?;
        let more = match now.microjoules.checked_sub(was.microjoules) {
            Some(more) => more,
            None => (now.microjoules + now.range_microjoules).checked_sub(was.microjoules)?,
        };
        Some((name.clone(), more as f64 / 1e6))
    };
    after.energy.iter().filter_map(of).collect()
}

/// Returns the energy of a trial by meter. A meter of the current power is read before and after at
/// rest, which shows nothing about the load: that needs samples.
fn energy(before: &Reading, during: &[Reading], after: &Reading) -> BTreeMap<String, f64> {
    let mut all = counted_joules(before, after);
    let seconds = after.uptime_s - before.uptime_s;
    let powers = crate::energy::power_of(during);
    for name in before.power_watts.keys() {
        if let Some(watts) = powers.get(name) {
            all.insert(format!("{name}, by samples of power"), seconds * watts);
        }
    }
    all
}

/// Returns the longest time between two samples.
fn gap(samples: &[Reading]) -> Option<f64> {
    let pairs = samples.windows(2);
    let gaps = pairs.map(|pair| rounded(pair[1].uptime_s - pair[0].uptime_s));
    gaps.reduce(f64::max)
}

/// Parses a CPU list in the kernel's format: `0-3,8`.
pub fn listed(list: &str) -> BTreeSet<u32> {
    let parts = list.trim().split(',');
    let of = |part: &str| match part.split_once('-') {
        Some((from, to)) => Some(from.parse().ok()?..=to.parse().ok()?),
        None => part.parse().ok().map(|one| one..=one),
    };
    parts.filter_map(of).flatten().collect()
}

/// Rounds to nine digits, because the rest of a clock difference in doubles is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// Combines several trials: counts are added, shares of time are weighted by time, and the worst
/// value is kept where there is one.
pub fn combine<'a>(all: impl IntoIterator<Item = &'a Telemetry>) -> Option<Telemetry> {
    let mut all = all.into_iter();
    let mut sum = all.next()?.clone();
    for one in all {
        add(&mut sum, one);
    }
    sum.queues = shared(sum.queues);
    Some(sum)
}

fn add(sum: &mut Telemetry, one: &Telemetry) {
    sum.trials += one.trials;
    sum.between_s = rounded(sum.between_s + one.between_s);
    sum.frames_sent += one.frames_sent;
    sum.frames_received += one.frames_received;
    for cpu in &one.cpus {
        match sum.cpus.iter_mut().find(|known| known.cpu == cpu.cpu) {
            Some(known) => *known = weighed(known, cpu),
            None => sum.cpus.push(*cpu),
        }
    }
    for cpu in &one.softnet {
        match sum.softnet.iter_mut().find(|known| known.cpu == cpu.cpu) {
            Some(known) => {
                known.processed += cpu.processed;
                known.dropped += cpu.dropped;
                known.squeezed += cpu.squeezed;
            }
            None => sum.softnet.push(*cpu),
        }
    }
    for (name, port) in &one.ports {
        let known = sum.ports.entry(name.clone()).or_insert_with(|| PortCount {
            rx_packets: 0,
            rx_bytes: 0,
            tx_packets: 0,
            tx_bytes: 0,
            drops: BTreeMap::new(),
            pauses: BTreeMap::new(),
            ..port.clone()
        });
        known.rx_packets += port.rx_packets;
        known.rx_bytes += port.rx_bytes;
        known.tx_packets += port.tx_packets;
        known.tx_bytes += port.tx_bytes;
        add_counts(&mut known.drops, &port.drops);
        add_counts(&mut known.pauses, &port.pauses);
    }
    for queue in &one.queues {
        let same = |known: &&mut QueueShare| {
            (&known.port, known.way, known.queue) == (&queue.port, queue.way, queue.queue)
        };
        match sum.queues.iter_mut().find(same) {
            Some(known) => known.packets += queue.packets,
            None => sum.queues.push(queue.clone()),
        }
    }
    add_counts(&mut sum.drops, &one.drops);
    for interrupt in &one.interrupts {
        match sum
            .interrupts
            .iter_mut()
            .find(|known| known.name == interrupt.name)
        {
            Some(known) => {
                for (cpu, count) in &interrupt.counts {
                    *known.counts.entry(*cpu).or_default() += count;
                }
                if known.moved.is_none() {
                    known.moved.clone_from(&interrupt.moved);
                }
            }
            None => sum.interrupts.push(interrupt.clone()),
        }
    }
    for (name, size) in &one.sizes {
        nearest(&mut sum.sizes, name, *size);
    }
    let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    sum.lowest_mhz = (sum.lowest_mhz.into_iter().chain(one.lowest_mhz)).reduce(f64::min);
    sum.highest_mhz = most(sum.highest_mhz, one.highest_mhz);
    sum.hottest_celsius = most(sum.hottest_celsius, one.hottest_celsius);
    for (meter, joules) in &one.energy_joules {
        *sum.energy_joules.entry(meter.clone()).or_default() += joules;
    }
    sum.samples += one.samples;
    sum.gap_s = most(sum.gap_s, one.gap_s);
    sum.missing.extend(one.missing.clone());
}

fn add_counts(sum: &mut BTreeMap<String, u64>, one: &BTreeMap<String, u64>) {
    for (name, count) in one {
        *sum.entry(name.clone()).or_default() += count;
    }
}

fn weighed(a: &CpuShare, b: &CpuShare) -> CpuShare {
    let ticks = a.ticks + b.ticks;
    let mean = |of: fn(&CpuShare) -> f64| {
        let weighed = of(a) * a.ticks as f64 + of(b) * b.ticks as f64;
        rounded(weighed / ticks.max(1) as f64)
    };
    CpuShare {
        ticks,
        user_ratio: mean(|c| c.user_ratio),
        system_ratio: mean(|c| c.system_ratio),
        irq_ratio: mean(|c| c.irq_ratio),
        softirq_ratio: mean(|c| c.softirq_ratio),
        idle_ratio: mean(|c| c.idle_ratio),
        steal_ratio: mean(|c| c.steal_ratio),
        ..*a
    }
}

/// Adds the telemetry of their valid trials to test cases: the sum for every iteration, and the
/// findings of all of them.
pub fn into_cases(cases: &mut [TestCase], trials: &[TrialRecord]) {
    for case in cases {
        let mut own: Vec<&TrialRecord> = Vec::new();
        for iteration in &mut case.iterations {
            let of_iteration: Vec<&TrialRecord> = (trials.iter())
                .filter(|trial| iteration.trials.contains(&trial.trial))
                .filter(|trial| trial.validity.is_valid())
                .collect();
            let read = of_iteration
                .iter()
                .filter_map(|trial| trial.telemetry.as_deref());
            iteration.telemetry = combine(read).map(Box::new);
            own.extend(of_iteration);
        }
        case.findings = findings::of_trials(&own);
    }
}

#[cfg(test)]
mod tests {
    use fwdlab_model::telemetry::Way;

    use super::*;

    fn cpu(cpu: u32, system: u64, softirq: u64, idle: u64) -> CpuTime {
        CpuTime {
            cpu,
            system_ticks: system,
            softirq_ticks: softirq,
            idle_ticks: idle,
            ..CpuTime::default()
        }
    }

    fn queue(queue: u32, packets: u64) -> QueueCount {
        QueueCount {
            port: "eth0".into(),
            way: Way::Rx,
            queue,
            packets,
        }
    }

    fn around(ports: &[String]) -> ReadingContext<'_> {
        ReadingContext {
            host: "dut",
            system: System::FreeBsd,
            ports,
            cpus: &[1],
            every_s: Some(1.0),
            frames_sent: 1000,
            frames_received: 900,
        }
    }

    #[test]
    fn differences_are_exact_and_shares_add_up() {
        let ports = ["eth0".to_owned()];
        let before = Reading {
            uptime_s: 100.0,
            cpus: vec![cpu(0, 10, 0, 90), cpu(1, 0, 50, 50)],
            softnet: vec![Softnet {
                cpu: 1,
                processed: u64::from(u32::MAX) - 1,
                dropped: 5,
                squeezed: 0,
            }],
            ports: [(
                "eth0".into(),
                PortCount {
                    rx_packets: 100,
                    drops: [("rx_dropped".into(), 7)].into(),
                    ..PortCount::default()
                },
            )]
            .into(),
            queues: vec![queue(0, 10), queue(1, 10)],
            drops: [("IpExt InNoRoutes".into(), 3), ("Ip InDiscards".into(), 4)].into(),
            energy: [(
                "package-0".into(),
                EnergyCount {
                    microjoules: 990,
                    range_microjoules: 1000,
                },
            )]
            .into(),
            power_watts: [("hwmon".into(), 10.0)].into(),
            nodes: [(0, "0".into()), (1, "1".into())].into(),
            ..Reading::default()
        };
        let after = Reading {
            uptime_s: 102.0,
            cpus: vec![cpu(0, 10, 0, 290), cpu(1, 20, 150, 130)],
            softnet: vec![Softnet {
                cpu: 1,
                processed: 9,
                dropped: 6,
                squeezed: 2,
            }],
            ports: [(
                "eth0".into(),
                PortCount {
                    rx_packets: 1100,
                    drops: [("rx_dropped".into(), 9)].into(),
                    ..PortCount::default()
                },
            )]
            .into(),
            queues: vec![queue(0, 910), queue(1, 110)],
            drops: [("IpExt InNoRoutes".into(), 13), ("Ip InDiscards".into(), 4)].into(),
            energy: [(
                "package-0".into(),
                EnergyCount {
                    microjoules: 15,
                    range_microjoules: 1000,
                },
            )]
            .into(),
            power_watts: [("hwmon".into(), 20.0)].into(),
            ..Reading::default()
        };
        let telemetry = between(&before, &[], &after, &around(&ports));
        assert_eq!(telemetry.between_s, 2.0);
        assert_eq!(telemetry.softnet[0].processed, 11, "32 bits begin again");
        assert_eq!(telemetry.ports["eth0"].rx_packets, 1000);
        let packets: Vec<u64> = telemetry.queues.iter().map(|q| q.packets).collect();
        assert_eq!(packets, [900, 100]);
        assert_eq!(telemetry.queues[0].ratio, 0.9);
        let drops: Vec<(&str, u64)> = telemetry
            .drops
            .iter()
            .map(|(n, c)| (n.as_str(), *c))
            .collect();
        assert_eq!(
            drops,
            [
                ("IpExt InNoRoutes", 10),
                ("eth0 rx_dropped", 2),
                ("softnet CPU 1 dropped", 1)
            ]
        );
        assert_eq!(telemetry.energy_joules["package-0"], 25e-6);
        // at both ends the DUT is idle: only samples show the power under load
        assert_eq!(
            telemetry.energy_joules.len(),
            1,
            "{:?}",
            telemetry.energy_joules
        );
        let during = [(100.5, 50.0), (101.5, 70.0)].map(|(uptime_s, watts)| Reading {
            uptime_s,
            power_watts: [("hwmon".into(), watts)].into(),
            ..before.clone()
        });
        let sampled = between(&before, &during, &after, &around(&ports));
        assert_eq!(sampled.energy_joules["hwmon, by samples of power"], 120.0);
        assert_eq!(sampled.energy_joules["package-0"], 25e-6);
        let [idle, busy] = &telemetry.cpus[..] else {
            panic!("{:?}", telemetry.cpus)
        };
        assert!(!idle.forwards && busy.forwards);
        assert_eq!((idle.idle_ratio, idle.busy_ratio()), (1.0, 0.0));
        assert_eq!((busy.softirq_ratio, busy.node), (0.5, Some(1)));
        for one in &telemetry.cpus {
            let sum = one.busy_ratio() + one.idle_ratio + one.steal_ratio;
            assert!((sum - 1.0).abs() < 1e-6, "{sum}");
        }
    }

    /// A part that could only be read afterwards has counted since the host started.
    #[test]
    fn a_single_reading_gives_no_difference() {
        let ports = ["eth0".to_owned()];
        let port = |drops| PortCount {
            drops,
            ..PortCount::default()
        };
        let mut before = Reading {
            ports: [("eth0".into(), port(BTreeMap::new()))].into(),
            missing: [("nft".into(), "the host could not read it".into())].into(),
            ..Reading::default()
        };
        let after = Reading {
            ports: [("eth0".into(), port([("rx_dropped".into(), 5)].into()))].into(),
            drops: [("nft ip t f: drop".into(), 1_000_000)].into(),
            ..Reading::default()
        };
        let telemetry = between(&before, &[], &after, &around(&ports));
        assert!(telemetry.drops.is_empty() && telemetry.ports["eth0"].drops.is_empty());
        assert!(telemetry.missing.contains_key("drops"));
        before.missing.clear();
        let telemetry = between(&before, &[], &after, &around(&ports));
        assert_eq!(
            telemetry.drops.len(),
            2,
            "a counter that was zero is not kept"
        );
    }

    #[test]
    fn several_trials_are_weighed_by_their_time() {
        let one = Telemetry {
            trials: 1,
            between_s: 1.0,
            cpus: vec![CpuShare {
                ticks: 100,
                softirq_ratio: 1.0,
                ..CpuShare::default()
            }],
            drops: [("a".into(), 1)].into(),
            sizes: [(
                "conntrack entries".into(),
                Size {
                    value: 10,
                    limit: Some(100),
                },
            )]
            .into(),
            gap_s: Some(1.5),
            ..Telemetry::default()
        };
        let mut other = one.clone();
        other.cpus[0].ticks = 300;
        other.cpus[0].softirq_ratio = 0.2;
        other.sizes.get_mut("conntrack entries").unwrap().value = 5;
        other.gap_s = Some(1.1);
        let sum = combine([&one, &other]).unwrap();
        assert_eq!((sum.trials, sum.between_s), (2, 2.0));
        assert_eq!(sum.cpus[0].softirq_ratio, 0.4);
        assert_eq!(sum.drops["a"], 2);
        assert_eq!(
            sum.sizes["conntrack entries"].value, 10,
            "the nearest to its limit"
        );
        assert_eq!(sum.gap_s, Some(1.5));
        assert_eq!(combine([]), None);
    }

    /// virtio and mlx5 name their interrupts after the device.
    #[test]
    fn interrupts_of_a_port_are_known_by_number() {
        let reading = |cpu: &str| Reading {
            ports: [(
                "eth0".to_owned(),
                PortCount {
                    interrupts: vec![41],
                    ..PortCount::default()
                },
            )]
            .into(),
            interrupts: [(41, "virtio3-input.0"), (42, "virtio4-input.0")]
                .map(|(number, name)| Interrupt {
                    number,
                    name: name.into(),
                    effective: Some(cpu.into()),
                    ..Interrupt::default()
                })
                .into(),
            ..Reading::default()
        };
        let (before, after) = (reading("0"), reading("3"));
        let found = interrupts(&before, &after, &["eth0".to_owned()]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (&*found[0].name, &found[0].moved),
            ("virtio3-input.0", &Some(["0".into(), "3".into()]))
        );
    }

    #[test]
    fn gaps_of_samples_and_lists_of_cpus() {
        let at = |uptime_s| Reading {
            uptime_s,
            ..Reading::default()
        };
        assert_eq!(gap(&[at(1.0), at(2.01), at(4.5), at(5.5)]), Some(2.49));
        assert_eq!(gap(&[at(1.0)]), None);
        assert_eq!(listed("0-2,8\n"), [0, 1, 2, 8].into());
        assert!(listed("").is_empty());
        assert!(is_of("eth1-TxRx-3", "eth1") && !is_of("eth10-TxRx-3", "eth1"));
    }
}
