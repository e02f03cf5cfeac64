//! Why frames were dropped: the kernel's drop reasons, for the frames of one trial only.
//!
//! Listens to the tracepoint `skb:kfree_skb` during a trial and changes nothing. It sees packets of
//! the kernel's stack, in every namespace of this host: not frames that a full ring or an XDP
//! program drops before they become packets, and not a remote DUT. Start with [`DropMonitor`].

mod reasons;

use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf};

use crate::error::EngineError;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/drops.o"));

const WHAT: &str = "listen to the kernel's drops";

/// Counts drops by reason. Detached when dropped.
///
/// If only [`crate::af_packet::PacketCount`] counts the arriving frames, they continue up the
/// tester's own stack, which drops them: these drops are counted, too.
pub struct DropMonitor {
    names: reasons::Names,
    nonce: Array<MapData, u32>,
    reasons: PerCpuArray<MapData, u64>,
    base: Vec<u64>,
    _attached: Ebpf,
}

impl DropMonitor {
    /// Attaches to the tracepoint. Counts nothing before [`DropMonitor::expect`], unless the nonce
    /// matches by chance.
    ///
    /// # Errors
    /// Missing CAP_BPF and CAP_PERFMON, or a kernel whose tracepoint has no reasons (before 5.17)
    /// or that has no BTF.
    pub fn open() -> Result<DropMonitor, EngineError> {
        let btf = Btf::from_sys_fs().map_err(|e| EngineError::bpf(WHAT, &e))?;
        let names = reasons::Names::from_running_kernel()
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

    /// Counts the frames of the trial with this nonce from now on; counts restart at zero.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn expect(&mut self, nonce: u16) -> Result<(), EngineError> {
        self.nonce
            .set(0, u32::from(nonce), 0)
            .map_err(|e| EngineError::bpf(WHAT, &e))?;
        self.base = self.read()?;
        Ok(())
    }

    /// Returns reasons and frames since [`DropMonitor::expect`], most frames first; omits reasons
    /// without frames.
    ///
    /// Reasons have the kernel's names, `netfilter drop` for `SKB_DROP_REASON_NETFILTER_DROP`;
    /// `other` is the sum of all reasons of modules with their own numbers (Open vSwitch,
    /// mac80211).
    ///
    /// # Errors
    /// If the counters cannot be read.
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
