//! What may be reset on a DUT of this machine while frames flow, as users type it (RFC 6201).
//!
//! The kernel that measures cannot be rebooted for a measurement. `lab` implements each. Start with
//! [`Reset::parse`].

use std::fmt;

/// An interruption of a DUT from which it recovers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reset {
    /// Forwarding is off for a second.
    Forwarding,
    /// The DUT's output port is down for a second; then its addresses, neighbours and routes are
    /// set again.
    Interface,
    /// A script for `sh`, like a configuration. The DUT must recover on its own.
    Command(String),
}

impl Reset {
    /// Parses `forwarding`, `interface`, or `command: ...`.
    ///
    /// # Errors
    /// If it is none of them.
    pub fn parse(typed: &str) -> Result<Reset, String> {
        match (typed.trim(), typed.trim().strip_prefix("command:")) {
            ("forwarding", _) => Ok(Reset::Forwarding),
            ("interface", _) => Ok(Reset::Interface),
            (_, Some(command)) if !command.trim().is_empty() => {
                Ok(Reset::Command(command.trim().to_owned()))
            }
            _ => Err(format!(
                "`{typed}` is not a reset for this DUT: use forwarding (off for a second), interface (the DUT's output port \
                 down for a second), or 'command: ...' (run by sh in the DUT's namespace)"
            )),
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reset::Forwarding => f.write_str("forwarding"),
            Reset::Interface => f.write_str("interface"),
            Reset::Command(command) => write!(f, "command: {command}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_values_are_parsed() {
        for (typed, reset) in [
            ("forwarding", Reset::Forwarding),
            (" interface ", Reset::Interface),
            (
                "command: systemctl restart bird",
                Reset::Command("systemctl restart bird".into()),
            ),
        ] {
            assert_eq!(Reset::parse(typed), Ok(reset.clone()));
            assert_eq!(Reset::parse(&reset.to_string()), Ok(reset));
        }
        for wrong in ["OS reboot", "", "command:", "command:  "] {
            assert!(Reset::parse(wrong).unwrap_err().contains("use forwarding"));
        }
    }
}
