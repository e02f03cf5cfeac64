//! Checks whether a port still exists and is up; cheap enough for once a second.
//!
//! Start with [`check`].

use fwdlab_engine::PortSpec;

use super::interface_facts::within;
use super::sys;
use crate::error::LabError;

/// Checks that the interface has a link now.
///
/// # Errors
/// Fails if it is gone, was set down, or has no link; the message contains which.
pub fn check(spec: &PortSpec) -> Result<(), LabError> {
    let name = &spec.interface;
    let failed = |action: &str, code| {
        let source = std::io::Error::from_raw_os_error(code);
        LabError::system(format!("continue with {name}: {action}"), source)
    };
    let look = || {
        sys::interface_flags(name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => failed("the interface is gone", libc::ENODEV),
            _ => LabError::system(format!("ask for the state of {name}"), e),
        })
    };
    let flags = within(&spec.netns, || {
        let flags = look()?;
        if flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0 {
            return Ok(flags);
        }
        // an interface that is set down loses its link first; one that is deleted is set down first
        sys::settle(name);
        look()
    })?;
    if flags & libc::IFF_UP == 0 {
        return Err(failed("it was set down", libc::ENETDOWN));
    }
    if flags & libc::IFF_RUNNING == 0 {
        return Err(failed("it has no link", libc::ENOLINK));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_reported() {
        let spec = PortSpec {
            netns: None,
            interface: "nosuch0".into(),
        };
        let error = check(&spec).unwrap_err().to_string();
        assert!(error.contains("nosuch0: the interface is gone"), "{error}");
    }
}
