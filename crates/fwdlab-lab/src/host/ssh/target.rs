//! The address of a machine that is reached over SSH: `ssh://[user@]host[:port]`.
//!
//! Missing parts come from the user's own configuration of `ssh`, which may define any host names.
//! Start with [`Target`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The prefix of an address.
const SCHEME: &str = "ssh://";

/// A machine, in terms of `ssh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its host name, address, or name in the configuration of `ssh`.
    pub host: String,
    /// The user name there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The port of its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// A configuration file for `ssh`, instead of those of the user and the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// An address that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an address for SSH: {reason}. Write ssh://[user@]host[:port], as in ssh://root@router1 or ssh://root@[2001:db8::1]:2222"
)]
pub struct BadTarget {
    text: String,
    reason: String,
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        let bad = |cause: &str| BadTarget {
            text: text.to_owned(),
            reason: cause.to_owned(),
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("it does not begin with ssh://"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('/') {
            return Err(bad("a path has no meaning here"));
        }
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(bad("it has a password, and only keys are used"));
            }
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest
                    .split_once(']')
                    .ok_or_else(|| bad("the bracket is not closed"))?;
                let port = match behind {
                    "" => None,
                    _ => Some(
                        behind
                            .strip_prefix(':')
                            .ok_or_else(|| bad("only a port may follow the bracket"))?,
                    ),
                };
                (host, port)
            }
            None => match rest.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err(bad("an IPv6 address needs brackets"));
                }
                Some((host, port)) => (host, Some(port)),
                None => (rest, None),
            },
        };
        for (action, word) in [("host", Some(host)), ("user", user)] {
            let Some(word) = word else { continue };
            if word.is_empty() {
                return Err(bad(&format!("the {action} is missing")));
            }
            // ssh would parse such a word as an option
            let is_odd = |c: char| c.is_whitespace() || c.is_control();
            if word.starts_with('-') || word.contains(is_odd) {
                return Err(bad(&format!(
                    "there is no {action} `{}`",
                    word.escape_debug()
                )));
            }
        }
        let port = match port {
            None => None,
            Some(port) => match port.parse() {
                Ok(number) if number > 0 => Some(number),
                _ => return Err(bad(&format!("`{port}` is not a port, which is 1 to 65535"))),
            },
        };
        Ok(Target {
            host: host.to_owned(),
            user: user.map(str::to_owned),
            port,
            config: None,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Target {
    /// Returns the options of `ssh`, without the host.
    pub(super) fn options(&self) -> Vec<String> {
        let port = self.port.map(|port| port.to_string());
        let pairs = [("-F", &self.config), ("-l", &self.user), ("-p", &port)];
        let output = pairs
            .into_iter()
            .filter_map(|(option, value)| Some([option.to_owned(), value.clone()?]));
        output.flatten().collect()
    }

    /// Returns the command with which a person checks that it answers.
    pub(super) fn check_command(&self) -> String {
        let words = self.options();
        let words = words.iter().map(|word| super::quoted(word));
        let words: Vec<_> = words.collect();
        let space = if words.is_empty() { "" } else { " " };
        format!("ssh {}{space}{} true", words.join(" "), self.host)
    }

    /// Returns its name in files of known hosts.
    pub(super) fn in_known_hosts(&self) -> String {
        match self.port {
            Some(port) if port != 22 => format!("[{}]:{port}", self.host),
            _ => self.host.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let of = |text: &str| text.parse::<Target>().unwrap();
        let target = of("ssh://root@router1:2222");
        assert_eq!(
            (&*target.host, target.user.as_deref(), target.port),
            ("router1", Some("root"), Some(2222))
        );
        assert_eq!(of("ssh://router1/"), of("ssh://router1"));
        assert_eq!(of("ssh://[2001:db8::1]").host, "2001:db8::1");
        for text in [
            "ssh://router1",
            "ssh://a@b@router1",
            "ssh://root@[2001:db8::1]:22",
            "ssh://root@192.0.2.1:65535",
        ] {
            assert_eq!(of(text).to_string(), text);
            let json = serde_json::to_string(&of(text)).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&json).unwrap(), of(text));
        }
    }

    #[test]
    fn invalid_addresses_are_refused_with_a_reason() {
        for (text, reason) in [
            ("router1", "does not begin"),
            ("http://router1", "does not begin"),
            ("ssh://", "the host is missing"),
            ("ssh://@router1", "the user is missing"),
            ("ssh://root@", "the host is missing"),
            ("ssh://root:secret@router1", "password"),
            ("ssh://router1:0", "`0` is not a port"),
            ("ssh://router1:", "`` is not a port"),
            ("ssh://router1:99999", "is not a port"),
            ("ssh://2001:db8::1", "needs brackets"),
            ("ssh://[2001:db8::1", "not closed"),
            ("ssh://[2001:db8::1]x", "follow the bracket"),
            ("ssh://router1/etc", "path"),
            ("ssh://-oProxyCommand=x", "there is no host"),
            ("ssh://-l@router1", "there is no user"),
            ("ssh://rou ter", "there is no host"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.contains("ssh://root@router1"), "{error}");
        }
    }
}
