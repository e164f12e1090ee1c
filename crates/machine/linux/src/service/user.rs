//! The user as whom a service goes on, once it has opened what only root may open.

use std::ffi::CString;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

use nix::unistd::{Gid, Uid, User, geteuid, initgroups, setresgid, setresuid};

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUser {
    name: CString,
    uid: Uid,
    gid: Gid,
}

impl ServiceUser {
    /// The user of this name or number.
    pub fn find(name: &str) -> Result<ServiceUser> {
        let found = match name.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number)),
            Err(_) => User::from_name(name),
        };
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no user `{name}` on this machine"));
        let user = found?.ok_or_else(missing)?;
        let name = CString::new(user.name).map_err(|_| missing())?;
        Ok(ServiceUser { name, uid: user.uid, gid: user.gid })
    }

    /// May this process become the user? Root may become everyone, others only remain who they are.
    pub fn check(&self) -> Result<()> {
        if geteuid().is_root() || geteuid() == self.uid {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PermissionDenied, "only root can switch to another user"))
    }

    /// Gives a file to the user.
    pub fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))
    }

    /// From now on all threads of the process are the user's, with the user's groups, and without any of root's rights.
    pub fn assume(&self) -> Result<()> {
        if geteuid() == self.uid {
            return Ok(());
        }
        // The C library changes all threads. Groups first: afterwards there is no right to.
        initgroups(&self.name, self.gid)?;
        setresgid(self.gid, self.gid, self.gid)?;
        setresuid(self.uid, self.uid, self.uid)?;
        if !self.uid.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
            return Err(Error::other("cannot give up the rights of root"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number_and_missing_ones_are_named() {
        assert_eq!(ServiceUser::find("root").unwrap(), ServiceUser::find("0").unwrap());
        let error = ServiceUser::find("no-such-user").unwrap_err().to_string();
        assert!(error.contains("`no-such-user`"), "{error}");
    }
}
