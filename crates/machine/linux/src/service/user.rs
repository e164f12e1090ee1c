//! The user as whom a service goes on, once it has opened what only root may open.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int};
use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::process::geteuid;

/// Bytes for the texts of a user's entry, at first and at most.
const ENTRY_BYTES: std::ops::Range<usize> = 4 << 10..1 << 20;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUser {
    name: CString,
    uid: u32,
    gid: u32,
}

impl ServiceUser {
    /// The user of this name or number.
    pub fn find(name: &str) -> Result<ServiceUser> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no user `{name}` on this machine"));
        let (number, text) = (name.parse::<u32>(), CString::new(name).map_err(|_| missing())?);
        let mut texts = vec![0; ENTRY_BYTES.start];
        loop {
            let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), std::ptr::null_mut());
            let (into, from, len) = (entry.as_mut_ptr(), texts.as_mut_ptr(), texts.len());
            // SAFETY: entry, texts and the name, which ends in a zero, outlive the call; it writes no more than `len` bytes of texts.
            let failed = match number {
                Ok(uid) => unsafe { libc::getpwuid_r(uid, into, from, len, &raw mut found) },
                Err(_) => unsafe { libc::getpwnam_r(text.as_ptr(), into, from, len, &raw mut found) },
            };
            match failed {
                libc::ERANGE if len < ENTRY_BYTES.end => texts.resize(2 * len, 0),
                0 if found.is_null() => return Err(missing()),
                0 => {
                    // SAFETY: the call has filled the entry, and its name is a text in `texts`.
                    let (entry, name) = unsafe {
                        let entry = entry.assume_init();
                        (entry, CStr::from_ptr(entry.pw_name).to_owned())
                    };
                    return Ok(ServiceUser { name, uid: entry.pw_uid, gid: entry.pw_gid });
                }
                failed => return Err(Error::from_raw_os_error(failed)),
            }
        }
    }

    /// May this process become the user? Root may become everyone, others only remain who they are.
    pub fn check(&self) -> Result<()> {
        if geteuid().is_root() || geteuid().as_raw() == self.uid {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PermissionDenied, "only root can switch to another user"))
    }

    /// Gives a file to the user, who may own its folder already: a link that was put in its place is not followed.
    pub fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::lchown(dumbwaiter_text::Entry::find(path)?.path(), Some(self.uid), Some(self.gid))
    }

    /// From now on all threads of the process are the user's, with the user's groups, and without any of root's rights.
    pub fn assume(&self) -> Result<()> {
        if geteuid().as_raw() == self.uid {
            return Ok(());
        }
        // The C library changes all threads. Groups first: afterwards there is no right to.
        // SAFETY: the name is a text that ends in a zero; the other calls take numbers.
        unsafe {
            checked(libc::initgroups(self.name.as_ptr(), self.gid))?;
            checked(libc::setresgid(self.gid, self.gid, self.gid))?;
            checked(libc::setresuid(self.uid, self.uid, self.uid))?;
            if self.uid != 0 && libc::setresuid(0, 0, 0) == 0 {
                return Err(Error::other("cannot give up the rights of root"));
            }
        }
        Ok(())
    }
}

fn checked(result: c_int) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
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
