//! DPDK ports: the name of one, and what it says.
//!
//! A DPDK port is a device that DPDK drives itself, without the kernel: a network card bound to
//! vfio-pci, or a virtual device. Wherever a port is named, it is named by DPDK's own device
//! arguments: `dpdk:0000:03:00.0`, `dpdk:net_tap0,iface=tap0`. Opens nothing. Start with
//! [`device`].

/// What the names of DPDK ports begin with.
pub const PREFIX: &str = "dpdk:";

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

#[cfg(test)]
mod tests {
    use super::*;

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
