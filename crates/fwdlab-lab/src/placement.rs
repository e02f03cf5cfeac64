//! Placement on CPUs: the generator alone on its CPUs, the DUT on its own.
//!
//! A DUT that shares a CPU with the generator cannot be overloaded: the sender has to stop for it.
//! This only decides; it pins nothing. Start with [`Placement::choose`].

use std::collections::BTreeMap;

use fwdlab_engine::Mode;
use rustix::thread::sched_getaffinity;

use crate::error::LabError;

/// CPUs of generator and DUT, and what could not be arranged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// CPUs of the senders.
    pub generator_cpus: Vec<usize>,
    /// Number of threads that send into each port, each through its own queue.
    pub senders: u32,
    /// The engine to try first; `None`: the fastest.
    pub first_engine: Option<Mode>,
    /// CPUs of the DUT; the NAPI thread runs on the first one, and packet steering spreads flows
    /// over all of them.
    pub dut_cpus: Vec<usize>,
    /// For people: subject, what was arranged or not, and why.
    pub notes: BTreeMap<String, String>,
}

impl Default for Placement {
    /// One sender, on any CPU.
    fn default() -> Placement {
        Placement {
            generator_cpus: Vec::new(),
            senders: 1,
            first_engine: None,
            dut_cpus: Vec::new(),
            notes: BTreeMap::new(),
        }
    }
}

impl Placement {
    /// Chooses CPUs: the DUT gets the last one (or the requested ones), each sender one of the
    /// others, the first ones.
    ///
    /// # Errors
    /// Fails if a requested CPU does not exist, or if we may not use it.
    pub fn choose(dut_cpus: &[usize], senders: u32) -> Result<Placement, LabError> {
        Placement::among(&available_cpus()?, dut_cpus, senders)
    }

    fn among(
        available: &[usize],
        requested: &[usize],
        senders: u32,
    ) -> Result<Placement, LabError> {
        if let Some(missing) = requested.iter().find(|cpu| !available.contains(cpu)) {
            return Err(LabError::Preflight(format!(
                "CPU {missing} is not available; available are: {}",
                list(available)
            )));
        }
        let mut notes = BTreeMap::new();
        let dut_cpus = match (requested, available) {
            ([], [.., last]) => vec![*last],
            ([], []) => vec![0],
            (requested, _) => requested.to_vec(),
        };
        let free = available.iter().copied();
        let free = free.filter(|cpu| !dut_cpus.contains(cpu));
        let mut generator_cpus: Vec<usize> = free.take(senders as usize).collect();
        let arranged = match (generator_cpus.len(), senders) {
            (0, _) => {
                let generator = available.first().copied().unwrap_or(0);
                generator_cpus.push(generator);
                format!(
                    "shares CPU {generator} with the DUT: the DUT cannot be overloaded, and figures only compare settings on \
                     this machine"
                )
            }
            (1, 1) => format!("alone on {}", words(&generator_cpus)),
            (cpus, senders) if cpus == senders as usize => {
                format!(
                    "{senders} senders, each alone on one of CPUs {}",
                    list(&generator_cpus)
                )
            }
            (cpus, senders) => format!(
                "{senders} senders share {}: together they send no more than {cpus} would",
                words(&generator_cpus)
            ),
        };
        notes.insert("generator".into(), arranged);
        if dut_cpus.len() > 1 {
            notes.insert(
                "packet steering".into(),
                format!(
                    "flows are spread over CPUs {} after the NAPI thread",
                    list(&dut_cpus)
                ),
            );
        }
        Ok(Placement {
            generator_cpus,
            senders,
            first_engine: None,
            dut_cpus,
            notes,
        })
    }

    /// Returns true if generator and DUT share no CPU.
    pub fn is_separate(&self) -> bool {
        self.generator_cpus
            .iter()
            .all(|cpu| !self.dut_cpus.contains(cpu))
    }

    /// Returns the DUT's CPUs as a hexadecimal mask for sysfs, in groups of 32 bits.
    pub(crate) fn rps_mask(&self) -> String {
        let groups = self.dut_cpus.iter().max().map_or(1, |max| max / 32 + 1);
        let mut mask = vec![0u32; groups];
        for cpu in &self.dut_cpus {
            mask[cpu / 32] |= 1 << (cpu % 32);
        }
        mask.iter()
            .rev()
            .map(|group| format!("{group:08x}"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Returns the CPUs that this process may use.
///
/// # Errors
/// Fails if the kernel does not tell.
pub fn available_cpus() -> Result<Vec<usize>, LabError> {
    let ours = sched_getaffinity(None)
        .map_err(|e| LabError::system("find out which CPUs are available", e))?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| ours.is_set(cpu)).collect())
}

/// Names CPUs: `CPU 3`, `CPUs 1,3`.
pub(crate) fn words(cpus: &[usize]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        cpus => format!("CPUs {}", list(cpus)),
    }
}

fn list(cpus: &[usize]) -> String {
    cpus.iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_and_dut_are_kept_apart_where_possible() {
        let two = Placement::among(&[0, 1], &[], 1).unwrap();
        assert_eq!(
            (&two.generator_cpus[..], &two.dut_cpus[..]),
            (&[0][..], &[1][..])
        );
        assert!(two.is_separate());
        let one = Placement::among(&[3], &[], 1).unwrap();
        assert_eq!(
            (&one.generator_cpus[..], &one.dut_cpus[..]),
            (&[3][..], &[3][..])
        );
        assert!(!one.is_separate() && one.notes["generator"].contains("shares CPU 3"));
        let many = |senders| Placement::among(&[0, 1, 2, 3], &[0, 2], senders).unwrap();
        assert_eq!(many(1).generator_cpus, [1]);
        assert_eq!(many(2).generator_cpus, [1, 3]);
        assert!(many(2).notes["generator"].contains("each alone on one of CPUs 1,3"));
        assert_eq!(many(4).generator_cpus, [1, 3]);
        assert!(many(4).notes["generator"].contains("4 senders share CPUs 1,3: "));
        assert!(
            Placement::among(&[0, 1], &[7], 1)
                .unwrap_err()
                .to_string()
                .contains("CPU 7")
        );
    }

    #[test]
    fn masks_are_what_sysfs_reads() {
        let mask = |cpus: &[usize]| {
            Placement {
                dut_cpus: cpus.to_vec(),
                ..Placement::default()
            }
            .rps_mask()
        };
        assert_eq!(mask(&[0, 1]), "00000003");
        assert_eq!(mask(&[1, 33]), "00000002,00000002");
    }
}
