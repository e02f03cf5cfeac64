//! The drivers of PCI devices: a card whose frames a process of ours sends and receives is bound to
//! a driver that gives it to user space, and is given back to its own.
//!
//! [`held_settings`](super::held_settings) restores the driver, also after a crash. Start with
//! [`to_user_space`].

use std::fs;
use std::path::{Path, PathBuf};

use fwdlab_engine::PortSpec;
use serde::{Deserialize, Serialize};

use super::held_settings::{self, HeldSetting, Settings};
use super::{Danger, OF_TESTERS, dangers_of, interface_facts, refusal};
use crate::error::LabError;
use crate::host::{Host, Local};

/// A card that is bound to a driver for user space until this is dropped.
pub(super) type Binding = HeldSetting<Drivers>;

/// The drivers that give a device to a process, the best first. The second needs no IOMMU, and
/// does not protect the memory of this machine from the card.
const FOR_USER_SPACE: [&str; 2] = ["vfio-pci", "uio_pci_generic"];

/// Others that users may have bound a card to.
const ALSO_FOR_USER_SPACE: [&str; 2] = ["igb_uio", "uio_hv_generic"];

/// Drivers of the kernel beside which DPDK uses the card.
const SHARED: [&str; 3] = ["mlx4_core", "mlx5_core", "mana"];

/// What the class of network cards begins with (PCI Code and ID Assignment Specification).
const NETWORK_CONTROLLER: &str = "0x02";

/// The PCI devices of this machine.
#[derive(Debug)]
pub(super) struct Drivers {
    bus: PathBuf,
    /// The network interfaces of this namespace.
    interfaces: PathBuf,
}

/// The driver of a device; empty: none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Driver {
    driver: String,
}

impl Default for Drivers {
    fn default() -> Drivers {
        Drivers {
            bus: "/sys/bus/pci".into(),
            interfaces: "/sys/class/net".into(),
        }
    }
}

impl Drivers {
    fn device(&self, address: &str) -> PathBuf {
        self.bus.join("devices").join(address)
    }

    /// Returns the interfaces of a device in this network namespace.
    fn interfaces(&self, address: &str) -> Vec<String> {
        let Ok(device) = self.device(address).canonicalize() else {
            return Vec::new();
        };
        // the interface of a virtio card belongs to a device below the card
        let is_on = |name: &String| {
            let own = self.interfaces.join(name).join("device").canonicalize();
            own.is_ok_and(|own| own.starts_with(&device))
        };
        let all = fs::read_dir(&self.interfaces)
            .into_iter()
            .flatten()
            .flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(is_on).collect()
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), LabError> {
        let failed = |e| LabError::system(format!("write {text:?} to {}", file.display()), e);
        fs::write(file, text).map_err(failed)
    }

    /// Returns the driver to bind a device to: the module is loaded if it is not.
    fn for_user_space(&self, address: &str) -> Result<&'static str, LabError> {
        let has_iommu = self.device(address).join("iommu_group").exists();
        let usable = FOR_USER_SPACE.into_iter().filter(|driver| match *driver {
            "vfio-pci" => has_iommu,
            _ => true,
        });
        for driver in usable {
            let folder = self.bus.join("drivers").join(driver);
            if !folder.exists() {
                // what it says does not matter: the folder is there afterwards, or not
                let _ = Local.query("modprobe", &["-q", driver]);
            }
            if folder.exists() {
                return Ok(driver);
            }
        }
        let iommu = match has_iommu {
            true => "",
            false => ", which also needs an IOMMU (kernel option intel_iommu=on or amd_iommu=on)",
        };
        Err(LabError::Preflight(format!(
            "{address} cannot be given to DPDK: this kernel has no module vfio-pci{iommu}, nor uio_pci_generic"
        )))
    }
}

impl Settings for Drivers {
    type Setting = Driver;
    const EXTENSION: &'static str = "driver";

    fn read(&self, port: &PortSpec) -> Result<Driver, LabError> {
        let link = fs::read_link(self.device(&port.interface).join("driver")).ok();
        let name = link.as_deref().and_then(Path::file_name);
        let driver = name.map(|name| name.to_string_lossy().into_owned());
        Ok(Driver {
            driver: driver.unwrap_or_default(),
        })
    }

    fn set(&self, port: &PortSpec, setting: Driver) -> Result<Driver, LabError> {
        let address = &port.interface;
        let device = self.device(address);
        let before = self.read(port)?;
        let is_for_user = FOR_USER_SPACE.contains(&&*setting.driver);
        // a new line removes the preference: the kernel then chooses by the device's id
        let preferred = if is_for_user { &setting.driver } else { "\n" };
        self.write(&device.join("driver_override"), preferred)?;
        if before == setting {
            return Ok(setting);
        }
        if !before.driver.is_empty() {
            self.write(&device.join("driver/unbind"), address)?;
        }
        if !setting.driver.is_empty() {
            self.write(&self.bus.join("drivers_probe"), address)?;
        }
        let is = self.read(port)?;
        match is == setting {
            true => Ok(is),
            false => Err(LabError::Preflight(format!(
                "{address} has the driver {:?} after it was to be given to {:?}: see dmesg",
                is.driver, setting.driver
            ))),
        }
    }

    fn does(is: &Driver, wanted: &Driver) -> bool {
        is == wanted
    }
}

/// Binds a card to a driver for user space, unless it has one or needs none.
///
/// # Errors
/// [`LabError::Preflight`]: there is no such device, its host needs it, or the kernel has no such
/// driver. Nothing was changed.
pub(super) fn to_user_space(
    address: &str,
    accepted: &[Danger],
) -> Result<Option<Binding>, LabError> {
    held_settings::sweep();
    bound(Drivers::default(), address, accepted)
}

fn bound(
    drivers: Drivers,
    address: &str,
    accepted: &[Danger],
) -> Result<Option<Binding>, LabError> {
    let folder = drivers.device(address);
    if !folder.exists() {
        return Err(LabError::Preflight(format!(
            "there is no PCI device {address}; lspci -D lists them"
        )));
    }
    let class = fs::read_to_string(folder.join("class")).unwrap_or_default();
    if !class.starts_with(NETWORK_CONTROLLER) {
        return Err(LabError::Preflight(format!(
            "{address} is no network card: its class is {}, and not {NETWORK_CONTROLLER}; lspci -D lists them",
            class.trim()
        )));
    }
    let port = PortSpec {
        netns: None,
        interface: address.to_owned(),
    };
    let Driver { driver } = drivers.read(&port)?;
    let known = FOR_USER_SPACE.iter().chain(&ALSO_FOR_USER_SPACE);
    if known.into_iter().any(|known| driver == *known) {
        return Ok(None);
    }
    let interfaces = drivers.interfaces(address);
    if interfaces.is_empty() && !driver.is_empty() && !accepted.contains(&Danger::InUse) {
        return Err(LabError::Preflight(format!(
            "refusing to take {address} from the driver {driver}: it has no interface in this network namespace, and may have one in \
             another. Run this command there, or, if nothing uses the card, add {}",
            Danger::InUse.flag()
        )));
    }
    for interface in interfaces {
        let spec = PortSpec {
            netns: None,
            interface,
        };
        let facts = interface_facts::read_facts(&spec)?;
        let mut found = dangers_of(&spec, &facts, &OF_TESTERS)?;
        found.retain(|(danger, _)| !accepted.contains(danger));
        if !found.is_empty() {
            return Err(refusal(&spec, &OF_TESTERS, &found));
        }
    }
    if SHARED.contains(&&*driver) {
        return Ok(None);
    }
    let wanted = Driver {
        driver: drivers.for_user_space(address)?.into(),
    };
    HeldSetting::take(drivers, &port, wanted).map(Some)
}

/// Returns a PCI address with its domain: `0000:03:00.0`; `None` for a device of another bus.
pub(super) fn full_address(device: &str) -> Option<String> {
    let hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let (before, function) = device.rsplit_once('.')?;
    let parts: Vec<&str> = before.split(':').collect();
    let (domain, bus, slot) = match parts[..] {
        [bus, slot] => ("0000", bus, slot),
        [domain, bus, slot] => (domain, bus, slot),
        _ => return None,
    };
    let is_address = hex(domain, 4) && hex(bus, 2) && hex(slot, 2) && hex(function, 1);
    is_address.then(|| format!("{domain}:{bus}:{slot}.{function}").to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder like that of the kernel, whose files do nothing.
    fn drivers(folder: &Path, driver: Option<&str>, loaded: &[&str]) -> Drivers {
        let device = folder.join("devices/0000:03:00.0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("class"), "0x020000\n").unwrap();
        for driver in loaded {
            fs::create_dir_all(folder.join("drivers").join(driver)).unwrap();
        }
        if let Some(driver) = driver {
            fs::create_dir_all(folder.join("drivers").join(driver)).unwrap();
            symlink(folder.join("drivers").join(driver), device.join("driver")).unwrap();
        }
        let interfaces = folder.join("net");
        fs::create_dir_all(&interfaces).unwrap();
        Drivers {
            bus: folder.into(),
            interfaces,
        }
    }

    #[test]
    fn addresses_have_a_domain() {
        for (text, address) in [
            ("03:00.0", Some("0000:03:00.0")),
            ("0001:AF:1f.7", Some("0001:af:1f.7")),
            ("net_ring0", None),
            ("03:00", None),
            ("0000:0000:03:00.0", None),
            ("3:00.0", None),
        ] {
            assert_eq!(full_address(text).as_deref(), address, "{text}");
        }
    }

    #[test]
    fn cards_that_need_no_change_get_none() {
        for driver in ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core"] {
            let folder = tempfile::tempdir().unwrap();
            let drivers = drivers(folder.path(), Some(driver), &[]);
            assert!(
                bound(drivers, "0000:03:00.0", &[Danger::InUse])
                    .unwrap()
                    .is_none(),
                "{driver}"
            );
        }
    }

    /// The card's own, and one of a device below it; not that of another card.
    #[test]
    fn interfaces_of_a_card_are_found_where_its_driver_puts_them() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = drivers(folder.path(), Some("virtio-pci"), &[]);
        let card = drivers.device("0000:03:00.0");
        let other = drivers.device("0000:03:00.01");
        for (name, device) in [
            ("eth1", card.clone()),
            ("eth2", card.join("virtio3")),
            ("eth3", other),
        ] {
            fs::create_dir_all(&device).unwrap();
            let interface = drivers.interfaces.join(name);
            fs::create_dir(&interface).unwrap();
            symlink(device, interface.join("device")).unwrap();
        }
        fs::create_dir(drivers.interfaces.join("lo")).unwrap();
        let mut found = drivers.interfaces("0000:03:00.0");
        found.sort();
        assert_eq!(found, ["eth1", "eth2"]);
    }

    #[test]
    fn cards_that_cannot_be_given_to_a_process_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let of = |driver| drivers(folder.path(), driver, &[]);
        let error = bound(of(None), "0000:04:00.0", &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("no PCI device 0000:04:00.0"), "{error}");
        let error = bound(of(Some("igc")), "0000:03:00.0", &[]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("may have one in another. Run this command there"),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let of = |driver| drivers(folder.path(), driver, &[]);
        let disk = of(None).device("0000:05:00.0");
        fs::create_dir_all(&disk).unwrap();
        fs::write(disk.join("class"), "0x010802\n").unwrap();
        let error = bound(of(None), "0000:05:00.0", &[Danger::InUse]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("no network card: its class is 0x010802"),
            "{error}"
        );
        let error = bound(of(Some("igc")), "0000:03:00.0", &[Danger::InUse]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("no module vfio-pci, which also needs an IOMMU"),
            "{error}"
        );
    }

    /// Without an IOMMU, the other driver is chosen, although the first one is loaded.
    #[test]
    fn the_driver_fits_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = drivers(folder.path(), Some("igc"), &FOR_USER_SPACE);
        let device = drivers.device("0000:03:00.0");
        assert_eq!(
            drivers.for_user_space("0000:03:00.0").unwrap(),
            "uio_pci_generic"
        );
        fs::create_dir(device.join("iommu_group")).unwrap();
        assert_eq!(drivers.for_user_space("0000:03:00.0").unwrap(), "vfio-pci");
    }

    /// The order of writes that the kernel needs, each into its file; a kernel that does not bind
    /// the driver is reported, and asked to restore the former one.
    #[test]
    fn a_driver_that_does_not_take_the_card_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let drivers = drivers(folder.path(), Some("igc"), &FOR_USER_SPACE);
        let device = drivers.device("0000:03:00.0");
        let port = PortSpec {
            netns: None,
            interface: "0000:03:00.0".into(),
        };
        let wanted = Driver {
            driver: "vfio-pci".into(),
        };
        let error = drivers.set(&port, wanted).unwrap_err().to_string();
        assert!(error.contains("has the driver \"igc\" after"), "{error}");
        let written = |file: PathBuf| fs::read_to_string(file).unwrap();
        assert_eq!(written(device.join("driver_override")), "vfio-pci");
        assert_eq!(written(device.join("driver/unbind")), "0000:03:00.0");
        assert_eq!(written(folder.path().join("drivers_probe")), "0000:03:00.0");
        let before = drivers.read(&port).unwrap();
        drivers.set(&port, before).unwrap();
        assert_eq!(written(device.join("driver_override")), "\n");
    }
}
