//! Who may open which export.

use serde::{Deserialize, Serialize};

use crate::tls::Identity;

/// Who may open an export. With no rule everybody may who reaches the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Numbers of users whose processes may, through a Unix socket.
    pub users: Vec<u32>,
    /// Numbers of groups whose processes may, through a Unix socket: the group that a process runs as, not its further ones.
    pub groups: Vec<u32>,
    /// Names (DNS) in certificates of TLS clients that may.
    pub certificates: Vec<String>,
    /// It is in no list: only who knows its name may.
    pub hidden: bool,
}

/// A client, as far as the server knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// User and group of the process at the other end of a Unix socket.
    pub(crate) credentials: Option<(u32, u32)>,
    /// Its certificate.
    pub(crate) identity: Option<Identity>,
}

impl Access {
    /// Does anything but its name restrict who may open it?
    pub(crate) fn is_restricted(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty() || !self.certificates.is_empty()
    }

    /// May this client?
    pub(crate) fn allows(&self, peer: &Peer) -> bool {
        let by_process = |(user, group): (u32, u32)| self.users.contains(&user) || self.groups.contains(&group);
        let by_name = |identity: &Identity| self.certificates.iter().any(|name| identity.has(name));
        !self.is_restricted() || peer.credentials.is_some_and(by_process) || peer.identity.as_ref().is_some_and(by_name)
    }

    /// Checks names of certificates.
    pub(crate) fn check(&self) -> Result<(), String> {
        let wrong = self.certificates.iter().find(|name| !is_name(name));
        wrong.map_or(Ok(()), |name| Err(format!("certificates `{name}`: expected a DNS name such as vm1.example")))
    }
}

fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() < 64
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() < 254 && name.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_lets_in_whom_it_names_and_nobody_else() {
        let open = Access::default();
        let closed = Access { users: vec![1000], groups: vec![7], ..Access::default() };
        for (credentials, may) in [
            (None, false),
            (Some((1000, 1)), true),
            (Some((1, 7)), true),
            (Some((0, 0)), false),
            (Some((7, 1000)), false),
        ] {
            let peer = Peer { credentials, identity: None };
            assert!(open.allows(&peer));
            assert_eq!(closed.allows(&peer), may, "{credentials:?}");
        }
        let hidden = Access { hidden: true, ..Access::default() };
        assert!(hidden.allows(&Peer::default()) && !hidden.is_restricted());
        for (name, right) in
            [("vm1.example", true), ("a", true), ("", false), ("a..b", false), ("a b", false), ("*.x", false)]
        {
            let access = Access { certificates: vec![name.into()], ..Access::default() };
            assert_eq!(access.check().is_ok(), right, "{name:?}");
        }
    }
}
