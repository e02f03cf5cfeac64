//! The cost of forwarding on a DUT: CPU time of Linux, clocks per node of VPP, and its own counts
//! of dropped frames.
//!
//! Totals, so that several trials can be added; costs per frame are derived from them. The DUT
//! counts them, in `fwdlab_lab::dut`. Start with [`Work`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loss::Reason;

/// The resources that the DUT used for forwarding, from before the first frame of a trial until
/// after the last one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Duration of the count, in seconds.
    pub duration_s: f64,
    /// Frames that came back in that time.
    pub frames: u64,
    /// CPU time spent on forwarding, in nanoseconds; absent when the DUT does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// The thread or the CPUs that this CPU time belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu_of: String,
    /// The clock of the counts, in Hz, as the DUT reports it: for VPP its time-stamp clock, for
    /// Linux its CPU clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_hz: Option<f64>,
    /// The VPP nodes that processed frames.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// Frames that the DUT reports as dropped, by its own reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<Reason>,
}

/// A VPP node on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// The thread: `vpp_main`, `vpp_wk_0`.
    pub thread: String,
    /// Its name: `ip4-lookup`.
    pub node: String,
    /// Frames enter VPP at this node. Its clocks include polls that found no frames.
    pub is_input: bool,
    /// Number of calls.
    pub calls: u64,
    /// Frames that it processed.
    pub vectors: u64,
    /// Clocks spent on all of them; VPP reports the clocks per frame with three digits.
    pub clocks: f64,
}

impl Node {
    /// Returns the clocks per frame through it.
    pub fn clocks_per_packet(&self) -> f64 {
        self.clocks / self.vectors as f64
    }

    /// Returns true if it passes frames to an interface.
    pub fn is_output(&self) -> bool {
        self.node.ends_with("-tx")
    }

    /// Returns the frames per call.
    pub fn vectors_per_call(&self) -> f64 {
        self.vectors as f64 / self.calls.max(1) as f64
    }
}

impl Work {
    /// Adds the totals of another trial.
    pub fn add(&mut self, other: &Work) {
        self.duration_s += other.duration_s;
        self.frames += other.frames;
        self.cpu_ns = match (self.cpu_ns, other.cpu_ns) {
            (Some(own), Some(other)) => Some(own + other),
            // with only one part of the frames it would be meaningless
            _ => None,
        };
        for node in &other.nodes {
            let is_same = |own: &&mut Node| own.thread == node.thread && own.node == node.node;
            match self.nodes.iter_mut().find(is_same) {
                Some(own) => own.add(node),
                None => self.nodes.push(node.clone()),
            }
        }
        for drop in &other.drops {
            match self.drops.iter_mut().find(|own| own.reason == drop.reason) {
                Some(own) => own.frames += drop.frames,
                None => self.drops.push(drop.clone()),
            }
        }
    }

    /// Returns the nodes, each summed over all threads, in the order in which VPP lists them.
    pub fn by_node(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for node in &self.nodes {
            match nodes.iter_mut().find(|own| own.node == node.node) {
                Some(own) => own.add(node),
                None => nodes.push(Node {
                    thread: String::new(),
                    ..node.clone()
                }),
            }
        }
        nodes
    }

    /// Returns the frames that entered VPP; `None` if they were not counted.
    pub fn packets_in(&self) -> Option<u64> {
        let input = self.nodes.iter().filter(|node| node.is_input);
        let packets: u64 = input.map(|node| node.vectors).sum();
        (packets > 0).then_some(packets)
    }

    /// Returns the clocks per frame that entered VPP: of all nodes, or of those behind the input.
    pub fn clocks_per_packet(&self, with_input: bool) -> Option<f64> {
        let packets = self.packets_in()?;
        let nodes = self.nodes.iter();
        let counted = nodes.filter(|node| with_input || !node.is_input);
        Some(counted.map(|node| node.clocks).sum::<f64>() / packets as f64)
    }

    /// Returns the clocks per frame that entered VPP, without the nodes that take frames from its
    /// interfaces and pass frames to them: its own work.
    pub fn clocks_between_interfaces(&self) -> Option<f64> {
        let packets = self.packets_in()?;
        let inner = self
            .nodes
            .iter()
            .filter(|node| !node.is_input && !node.is_output());
        Some(inner.map(|node| node.clocks).sum::<f64>() / packets as f64)
    }

    /// Returns the frames per call behind the input: how full the vectors were.
    pub fn vectors_per_call(&self) -> Option<f64> {
        let mut inner = self.nodes.iter().filter(|node| !node.is_input);
        let first = inner.next()?;
        let (vectors, calls) = inner.fold((first.vectors, first.calls), |(v, c), node| {
            (v + node.vectors, c + node.calls)
        });
        Some(vectors as f64 / calls.max(1) as f64)
    }

    /// Returns, for each forwarding thread, frames per second into VPP times clocks per frame:
    /// equals the clock rate of a fully loaded CPU.
    pub fn effective_clock_hz(&self) -> Option<f64> {
        self.packets_in()?;
        let mut threads: Vec<&str> = self.nodes.iter().map(|node| &*node.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let clocks: f64 = self.nodes.iter().map(|node| node.clocks).sum();
        let time = self.duration_s * threads.len() as f64;
        (time > 0.0).then(|| clocks / time)
    }

    /// Returns the CPU time per frame in nanoseconds: for Linux per frame that came back, for VPP
    /// per frame that entered it, including the input.
    pub fn ns_per_frame(&self) -> Option<f64> {
        if let Some(clocks) = self.clocks_per_packet(true) {
            return Some(clocks / self.clock_hz? * 1e9);
        }
        let cpu_ns = self.cpu_ns?;
        (self.frames > 0).then(|| cpu_ns as f64 / self.frames as f64)
    }

    /// Returns the clocks per frame, all counted: for Linux its CPU time at the clock rate of its
    /// CPU.
    pub fn clocks_per_frame(&self) -> Option<f64> {
        match self.clocks_per_packet(true) {
            Some(clocks) => Some(clocks),
            None => Some(self.ns_per_frame()? * self.clock_hz? / 1e9),
        }
    }
}

impl Node {
    fn add(&mut self, other: &Node) {
        self.calls += other.calls;
        self.vectors += other.vectors;
        self.clocks += other.clocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(thread: &str, node: &str, is_input: bool, calls: u64, each: f64) -> Node {
        Node {
            thread: thread.into(),
            node: node.into(),
            is_input,
            calls,
            vectors: 1000,
            clocks: 1000.0 * each,
        }
    }

    #[test]
    fn cpu_time_per_frame_with_and_without_input() {
        let mut work = Work {
            duration_s: 0.001,
            frames: 1000,
            clock_hz: Some(2e9),
            nodes: vec![
                node("vpp_main", "af-packet-input", true, 10, 600.0),
                node("vpp_main", "ethernet-input", false, 10, 50.0),
                node("vpp_main", "ip4-lookup", false, 10, 40.0),
                node("vpp_main", "host-eth1-tx", false, 10, 10.0),
            ],
            ..Work::default()
        };
        assert_eq!(work.clocks_per_packet(true), Some(700.0));
        assert_eq!(work.clocks_per_packet(false), Some(100.0));
        assert_eq!(work.clocks_between_interfaces(), Some(90.0));
        assert_eq!(work.vectors_per_call(), Some(100.0));
        assert_eq!(work.ns_per_frame(), Some(350.0));
        assert_eq!(work.clocks_per_frame(), Some(700.0));
        // a million frames per second, 700 clocks each
        let clock = work.effective_clock_hz().unwrap();
        assert!((clock - 700e6).abs() < 1.0, "{clock}");

        // twice the totals are the same per frame, and a second thread has its own clock
        work.add(&work.clone());
        assert_eq!(work.packets_in(), Some(2000));
        assert_eq!(work.clocks_per_packet(true), Some(700.0));
        assert_eq!(work.nodes.len(), 4);
        let other = Work {
            nodes: vec![node("vpp_wk_0", "ip4-lookup", false, 10, 40.0)],
            ..Work::default()
        };
        work.add(&other);
        assert_eq!((work.nodes.len(), work.by_node().len()), (5, 4));
        assert_eq!(work.by_node()[2].vectors, 3000);
    }

    #[test]
    fn cpu_time_counts_per_frame_that_came_back() {
        let linux = Work {
            duration_s: 1.0,
            frames: 1_000_000,
            cpu_ns: Some(500_000_000),
            clock_hz: Some(3e9),
            ..Work::default()
        };
        assert_eq!(linux.ns_per_frame(), Some(500.0));
        assert_eq!(linux.clocks_per_frame(), Some(1500.0));
        assert_eq!(linux.clocks_per_packet(false), None);
        assert_eq!(linux.effective_clock_hz(), None);
        // nothing came back, or nothing was counted
        assert_eq!(Work::default().ns_per_frame(), None);
        let mut both = linux.clone();
        both.add(&Work::default());
        assert_eq!(both.cpu_ns, None);
    }
}
