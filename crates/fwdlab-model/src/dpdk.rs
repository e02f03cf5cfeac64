//! DPDK ports: the name of one, and what it says.
//!
//! A DPDK port is a device that DPDK drives itself, without the kernel: a network card bound to
//! vfio-pci, or a virtual device. Wherever a port is named, it is named by DPDK's own device
//! arguments: `dpdk:0000:03:00.0`, `dpdk:net_tap0,iface=tap0`. Opens nothing. Start with
//! [`device`].

/// What the names of DPDK ports begin with.
pub const PREFIX: &str = "dpdk:";

/// The most queues in each direction.
pub const MOST_QUEUES: u16 = 16;

/// Returns the device arguments in the name of a port: device, then options after commas, as in
/// DPDK's options `--allow` and `--vdev`.
///
/// # Errors
/// What is wrong with it, and what is right.
pub fn device(name: &str) -> Result<&str, String> {
    let device = name.strip_prefix(PREFIX).unwrap_or_default();
    let first = device.split(',').next().unwrap_or_default();
    if first.is_empty() || device.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "`{name}` names no device; a DPDK port is named dpdk:DEVICE[,OPTION=VALUE]..., for \
             example dpdk:0000:03:00.0 or dpdk:net_tap0"
        ));
    }
    Ok(device)
}

/// Returns true for device arguments of a virtual device, which needs no hardware: `net_ring0`.
pub fn is_virtual(device: &str) -> bool {
    device.starts_with("net_") || device.starts_with("eth_") || device.starts_with("virtio_user")
}

/// Returns device arguments without `queues=N`, and that number: how many queues a virtual device
/// has in each direction, which must often be that of its other end. Drivers that know the option
/// get it.
///
/// # Errors
/// If it is not a number from 1 to 16.
pub fn queues(device: &str) -> Result<(String, Option<u16>), String> {
    let is_own = |part: &&str| part.starts_with("queues=");
    let Some(option) = device.split(',').find(is_own) else {
        return Ok((device.to_owned(), None));
    };
    let number = option.trim_start_matches("queues=").parse::<u16>().ok();
    let number = number.filter(|n| (1..=MOST_QUEUES).contains(n));
    let number = number.ok_or_else(|| {
        format!("`{option}` is not valid: 1 to {MOST_QUEUES} queues are possible")
    })?;
    let known = device.contains("virtio_user");
    let others = device.split(',').filter(|part| known || !is_own(part));
    Ok((others.collect::<Vec<_>>().join(","), Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_queues_are_ours_or_the_drivers() {
        for (device, rest, number) in [
            ("net_ring0", "net_ring0", None),
            ("net_ring0,queues=2", "net_ring0", Some(2)),
            ("net_memif0,queues=16,id=1", "net_memif0,id=1", Some(16)),
            (
                "net_virtio_user0,path=/v,queues=2",
                "net_virtio_user0,path=/v,queues=2",
                Some(2),
            ),
        ] {
            assert_eq!(queues(device), Ok((rest.into(), number)), "{device}");
        }
        for wrong in [
            "net_ring0,queues=0",
            "net_ring0,queues=17",
            "net_ring0,queues=x",
        ] {
            assert!(queues(wrong).unwrap_err().contains("1 to 16 queues"));
        }
    }

    #[test]
    fn names_of_ports() {
        assert_eq!(device("dpdk:0000:03:00.0"), Ok("0000:03:00.0"));
        assert_eq!(device("dpdk:net_tap0,iface=t0"), Ok("net_tap0,iface=t0"));
        assert!(is_virtual("net_ring0") && !is_virtual("0000:03:00.0"));
        for wrong in [
            "dpdk:",
            "dpdk:,x=y",
            "eth0",
            "dpdk:net_ring0 --log",
            "dpdk:a\nb",
        ] {
            let error = device(wrong).expect_err(wrong);
            assert!(error.contains("dpdk:DEVICE[,OPTION"), "{error}");
        }
    }
}
