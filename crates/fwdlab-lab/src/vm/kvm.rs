//! Tests whether KVM can run guests here by booting one, because the device file proves nothing.
//!
//! On some machines, especially virtual ones, `/dev/kvm` exists but runs only kernels that were
//! made for it, or none. Start with [`fastest`].

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::qemu::{Accelerator, QEMU, escaped};
use super::scratch::Scratch;
use crate::host::{Command, Failure, Host, Limit, Local};

const DEVICE: &str = "/dev/kvm";

/// A boot sector, which the firmware starts after its own initialisation. It writes 0x15 to the
/// port that ends the emulator, which then exits with status 0x15 * 2 + 1. Before that, it enters
/// protected mode and returns from an interrupt there, as boot loaders do: a KVM without hardware
/// virtualisation (PVM) ran the firmware, but nothing after it.
const GUEST: &[u8] = &[
    0xfa, // cli
    0x2e, 0x66, 0x0f, 0x01, 0x16, 0x50, 0x7c, // lgdtl %cs:0x7c50
    0x0f, 0x20, 0xc0, // mov %cr0, %eax
    0x0c, 0x01, // or $1, %al
    0x0f, 0x22, 0xc0, // mov %eax, %cr0
    0x66, 0xea, 0x18, 0x7c, 0x00, 0x00, 0x08, 0x00, // ljmpl $8, $0x7c18
    // 32 bits from here on, at 0x7c18
    0x66, 0xb8, 0x10, 0x00, // mov $16, %ax
    0x8e, 0xd8, // mov %eax, %ds
    0x8e, 0xd0, // mov %eax, %ss
    0xbc, 0x00, 0x7c, 0x00, 0x00, // mov $0x7c00, %esp
    0x9c, // pushf
    0x0e, // push %cs
    0x68, 0x2d, 0x7c, 0x00, 0x00, // push $0x7c2d
    0xcf, // iret, to the next
    0xb0, 0x15, // mov $0x15, %al
    0xe6, 0xf4, // out %al, $0xf4
    0xf4, // hlt
    0xeb, 0xfd, // jmp back to it
    0x90, 0x90, 0x90, 0x90, // to a multiple of 8
    // segments: none; code and data, 32 bits, all of memory
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
    0xff, 0xff, 0x00, 0x00, 0x00, 0x9a, 0xcf, 0x00, //
    0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00, //
    // at 0x7c50: the length of the table minus 1, and its address
    0x17, 0x00, 0x38, 0x7c, 0x00, 0x00,
];
const STATUS: &str = "exit status: 43";

/// With KVM, the guest takes half a second; if KVM does not work, it never ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// The fastest accelerator, for machines that count nothing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fastest {
    /// KVM, or the emulator.
    pub accelerator: Accelerator,
    /// Why it is not KVM.
    pub why_not_kvm: Option<String>,
}

/// A description for results.
impl fmt::Display for Fastest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why_not_kvm {
            None => write!(f, "{}", self.accelerator),
            Some(reason) => write!(
                f,
                "{}, because KVM starts no guest here: {reason}",
                self.accelerator
            ),
        }
    }
}

/// Returns KVM if it can run a guest, otherwise the emulator. The first call takes some seconds.
pub fn fastest() -> &'static Fastest {
    static FOUND: OnceLock<Fastest> = OnceLock::new();
    FOUND.get_or_init(
        || match prove(Accelerator::Kvm, Path::new(DEVICE), PATIENCE) {
            Ok(()) => Fastest {
                accelerator: Accelerator::Kvm,
                why_not_kvm: None,
            },
            Err(reason) => Fastest {
                accelerator: Accelerator::Emulated,
                why_not_kvm: Some(reason),
            },
        },
    )
}

/// Boots a guest of one sector.
fn prove(accelerator: Accelerator, device: &Path, patience: Duration) -> Result<(), String> {
    let at = device.display();
    if let Err(e) = OpenOptions::new().read(true).write(true).open(device) {
        return Err(match e.kind() {
            io::ErrorKind::NotFound => format!("there is no {at}"),
            io::ErrorKind::PermissionDenied => {
                format!(
                    "{at} may not be opened: {e}. Become a member of its group: adduser USER kvm"
                )
            }
            _ => format!("{at} cannot be opened: {e}"),
        });
    }
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let folder = scratch.folder(0);
    let disk = folder.join("disk");
    let mut sector = [0; 512];
    sector[..GUEST.len()].copy_from_slice(GUEST);
    sector[510..].copy_from_slice(b"\x55\xaa");
    fs::create_dir(&folder)
        .and_then(|()| fs::write(&disk, sector))
        .map_err(|e| format!("cannot write {}: {e}", disk.display()))?;
    let drive = format!("file={},format=raw,if=ide,readonly=off", escaped(&disk));
    let mut words = vec!["-nodefaults", "-no-user-config", "-display", "none"];
    words.extend(accelerator.arguments());
    words.extend(["-m", "32", "-no-reboot", "-drive", &drive]);
    words.extend(["-device", "isa-debug-exit,iobase=0xf4"]);
    let limit = Limit {
        time: patience,
        is_stopped: &|| false,
    };
    let Err(error) = Local.run(&Command::new(QEMU, &words), limit) else {
        return Err("a guest of one sector ended without a word".into());
    };
    Err(match error.failure {
        Failure::Exit { status, .. } if status == STATUS => return Ok(()),
        Failure::Exit { said: output, .. } if !output.trim().is_empty() => {
            let first = output.trim().lines().next().unwrap_or_default();
            format!("QEMU says: {first}")
        }
        Failure::TimedOut { after, .. } => format!(
            "{at} exists, but a guest of one sector did not end within {:.0} s",
            after.as_secs_f64()
        ),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_proven_by_booting_a_guest() {
        let test = "kvm_is_proven_by_booting_a_guest";
        let reason = prove(Accelerator::Kvm, Path::new("/no/such/device"), PATIENCE).unwrap_err();
        assert_eq!(reason, "there is no /no/such/device");
        if crate::programs::find(QEMU).is_none() {
            println!("SKIPPED: {test}: no {QEMU}");
            return;
        }
        // prove that the guest itself works
        let patience = Duration::from_secs(60);
        prove(Accelerator::Emulated, Path::new("/dev/null"), patience).unwrap();
        let found = fastest();
        assert_eq!(
            found.why_not_kvm.is_none(),
            found.accelerator == Accelerator::Kvm
        );
        assert_eq!(
            found.why_not_kvm.is_some(),
            found.accelerator == Accelerator::Emulated
        );
        println!("{found:?}");
    }
}
