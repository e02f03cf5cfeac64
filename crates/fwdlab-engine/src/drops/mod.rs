//! Why frames were dropped: the kernel's own reasons, for frames of one trial and no others.
//!
//! Listens to the tracepoint `skb:kfree_skb` while a trial runs and changes nothing. It sees packets of the kernel's
//! stack, in every namespace of this host: not frames that a full ring or an XDP program drops before they become packets,
//! and not a DUT elsewhere. Start with [`DropMonitor`].

mod reasons;

use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};

use crate::error::EngineError;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/drops.o"));

const WHAT: &str = "listen to the kernel's drops";

/// Counts drops by reason. Detached when dropped.
///
/// Frames that arrive where only [`crate::af_packet::PacketCount`] counts them go on up the tester's own stack and end
/// there, as drops like any other.
pub struct DropMonitor {
    names: reasons::Names,
    nonce: Array<MapData, u32>,
    reasons: PerCpuArray<MapData, u64>,
    base: Vec<u64>,
    _attached: Ebpf,
}

impl DropMonitor {
    /// Attaches to the tracepoint. Nothing is counted before [`DropMonitor::expect`], except by chance of the nonce.
    ///
    /// # Errors
    /// No CAP_BPF and CAP_PERFMON, or a kernel (before 5.17) whose tracepoint gives no reasons or that has no BTF.
    pub fn open() -> Result<DropMonitor, EngineError> {
        let btf = Btf::from_sys_fs().map_err(|e| EngineError::bpf(WHAT, &e))?;
        let names = reasons::Names::of_running_kernel()
            .map_err(|e| EngineError::system("read the kernel's drop reasons", e))?;
        let mut programs = Ebpf::load(OBJECT).map_err(|e| EngineError::bpf(WHAT, &e))?;
        let missing = || EngineError::Frames("the object lacks a program or map".into());
        let program: &mut BtfTracePoint = programs
            .program_mut("kfree_skb")
            .and_then(|program| program.try_into().ok())
            .ok_or_else(missing)?;
        program
            .load("kfree_skb", &btf)
            .and_then(|()| program.attach())
            .map_err(|e| EngineError::bpf(WHAT, &e))?;
        let nonce = programs.take_map("nonce").ok_or_else(missing)?;
        let reasons = programs.take_map("reasons").ok_or_else(missing)?;
        let reasons = PerCpuArray::try_from(reasons).map_err(|e| EngineError::bpf(WHAT, &e))?;
        Ok(DropMonitor {
            names,
            nonce: Array::try_from(nonce).map_err(|e| EngineError::bpf(WHAT, &e))?,
            base: vec![0; reasons.len() as usize],
            reasons,
            _attached: programs,
        })
    }

    /// Frames of the trial with this nonce are counted from now on; counts start at zero.
    ///
    /// # Errors
    /// The system refuses.
    pub fn expect(&mut self, nonce: u16) -> Result<(), EngineError> {
        self.nonce
            .set(0, u32::from(nonce), 0)
            .map_err(|e| EngineError::bpf(WHAT, &e))?;
        self.base = self.read()?;
        Ok(())
    }

    /// Reasons and frames since [`DropMonitor::expect`], most frames first; reasons without frames are left out.
    ///
    /// A reason is what the kernel calls it, `netfilter drop` for `SKB_DROP_REASON_NETFILTER_DROP`; `other` stands for all
    /// reasons of modules that number their own (Open vSwitch, mac80211).
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn counts(&self) -> Result<Vec<(String, u64)>, EngineError> {
        let mut counts: Vec<(String, u64)> = (0..)
            .zip(self.read()?.iter().zip(&self.base))
            .map(|(reason, (now, base))| (reason, now - base))
            .filter(|&(_, frames)| frames > 0)
            .map(|(reason, frames)| (self.names.name(reason), frames))
            .collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(counts)
    }

    fn read(&self) -> Result<Vec<u64>, EngineError> {
        (0..self.reasons.len())
            .map(|reason| {
                let per_cpu = self
                    .reasons
                    .get(&reason, 0)
                    .map_err(|e| EngineError::bpf("read the drop counters", &e))?;
                Ok(per_cpu.iter().sum())
            })
            .collect()
    }
}
