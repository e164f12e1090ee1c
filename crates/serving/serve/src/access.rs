//! Who may open which export.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::tls::Identity;

/// What the kernel has room for in the address of a Unix socket.
const MAX_SOCKET_PATH: usize = 107;

/// Who may open an export. With no rule, which takes no memory, everybody may who reaches the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "AccessRules", into = "AccessRules")]
pub struct Access(Option<Box<AccessRules>>);

static NO_RULES: AccessRules =
    AccessRules { users: Vec::new(), groups: Vec::new(), certificates: Vec::new(), socket: None, hidden: false };

impl Deref for Access {
    type Target = AccessRules;

    fn deref(&self) -> &AccessRules {
        self.0.as_deref().unwrap_or(&NO_RULES)
    }
}

impl From<AccessRules> for Access {
    fn from(rules: AccessRules) -> Access {
        Access((rules != NO_RULES).then(|| Box::new(rules)))
    }
}

impl From<Access> for AccessRules {
    fn from(access: Access) -> AccessRules {
        access.0.map_or_else(AccessRules::default, |rules| *rules)
    }
}

impl Access {
    /// Changes the rules.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut AccessRules) -> T) -> T {
        let mut rules = AccessRules::from(std::mem::take(self));
        let answer = change(&mut rules);
        *self = rules.into();
        answer
    }
}

/// The rules of an [`Access`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessRules {
    /// Numbers of users whose processes may, through a Unix socket.
    pub users: Vec<u32>,
    /// Numbers of groups whose processes may, through a Unix socket: the group that a process runs as, not its further ones.
    pub groups: Vec<u32>,
    /// Names (DNS) in certificates of TLS clients that may.
    pub certificates: Vec<String>,
    /// A Unix socket that only this export and others that name it have: it is at no other address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
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
    /// The socket of exports by which it came, if it is one.
    pub(crate) socket: Option<PathBuf>,
}

impl AccessRules {
    /// Does anything but its name and its socket restrict who may open it?
    pub(crate) fn is_restricted(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty() || !self.certificates.is_empty()
    }

    /// May this client?
    pub(crate) fn allows(&self, peer: &Peer) -> bool {
        let by_process = |(user, group): (u32, u32)| self.users.contains(&user) || self.groups.contains(&group);
        let by_name = |identity: &Identity| self.certificates.iter().any(|name| identity.has(name));
        let at_its_address = self.socket == peer.socket;
        let is_named = || peer.credentials.is_some_and(by_process) || peer.identity.as_ref().is_some_and(by_name);
        at_its_address && (!self.is_restricted() || is_named())
    }

    /// Checks names of certificates, and the path of a socket.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(path) = self.socket.as_ref().filter(|path| !is_socket_path(path)) {
            let path = path.display().to_string();
            return Err(format!(
                "socket {path:?}: expected the absolute path of a Unix socket, at most {MAX_SOCKET_PATH} bytes"
            ));
        }
        let wrong = self.certificates.iter().find(|name| !is_name(name));
        wrong.map_or(Ok(()), |name| Err(format!("certificates `{name}`: expected a DNS name such as vm1.example")))
    }
}

fn is_socket_path(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    path.is_absolute() && bytes.len() <= MAX_SOCKET_PATH && !bytes.iter().any(u8::is_ascii_control)
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
        let open = AccessRules::default();
        let closed = AccessRules { users: vec![1000], groups: vec![7], ..AccessRules::default() };
        for (credentials, may) in [
            (None, false),
            (Some((1000, 1)), true),
            (Some((1, 7)), true),
            (Some((0, 0)), false),
            (Some((7, 1000)), false),
        ] {
            let peer = Peer { credentials, ..Peer::default() };
            assert!(open.allows(&peer));
            assert_eq!(closed.allows(&peer), may, "{credentials:?}");
        }
        // A socket of its own is a second condition, and a client of one finds nothing else.
        let own = |path: &str| Some(PathBuf::from(path));
        let apart = AccessRules { socket: own("/run/a"), ..closed.clone() };
        for (socket, user, may) in
            [(own("/run/a"), 1000, true), (own("/run/a"), 1, false), (own("/run/b"), 1000, false), (None, 1000, false)]
        {
            let peer = Peer { credentials: Some((user, 1)), socket, ..Peer::default() };
            assert_eq!(apart.allows(&peer), may, "{peer:?}");
            assert_eq!(open.allows(&peer), peer.socket.is_none());
        }
        for (path, right) in [("/run/a.sock", true), ("a.sock", false), ("", false), ("/run/a\nb", false)] {
            assert_eq!(AccessRules { socket: own(path), ..AccessRules::default() }.check().is_ok(), right, "{path:?}");
        }
        let hidden = AccessRules { hidden: true, ..AccessRules::default() };
        assert!(hidden.allows(&Peer::default()) && !hidden.is_restricted());
        for (name, right) in
            [("vm1.example", true), ("a", true), ("", false), ("a..b", false), ("a b", false), ("*.x", false)]
        {
            let access = AccessRules { certificates: vec![name.into()], ..AccessRules::default() };
            assert_eq!(access.check().is_ok(), right, "{name:?}");
        }
    }
}
