//! Why an I/O failed, as Linux numbers it.

use std::fmt;

/// A Linux error number, such as 5 for `EIO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i32);

/// The numbers that block devices, files and io_uring answer with.
const NAMES: [(i32, &str); 28] = [
    (1, "EPERM"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (19, "ENODEV"),
    (22, "EINVAL"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (30, "EROFS"),
    (34, "ERANGE"),
    (52, "EBADE"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (67, "ENOLINK"),
    (75, "EOVERFLOW"),
    (84, "EILSEQ"),
    (95, "EOPNOTSUPP"),
    (108, "ESHUTDOWN"),
    (110, "ETIMEDOUT"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (125, "ECANCELED"),
];

impl Errno {
    /// A device could not read or write the data.
    pub const EIO: Errno = Errno(5);
    /// An I/O was refused because it would have missed its deadline.
    pub const EBUSY: Errno = Errno(16);
    /// The device or file system does not offer the operation.
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// The symbolic name, where it is one that block I/O meets.
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_by_name_or_number() {
        assert_eq!(Errno::EIO.to_string(), "EIO");
        assert_eq!(Errno(28).to_string(), "ENOSPC");
        assert_eq!(Errno(4711).to_string(), "errno 4711");
    }
}
