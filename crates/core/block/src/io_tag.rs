//! I/O tags: the kind of a request's data in the file system.

use crate::{Flags, Io};

/// The kind of data that a request reads or writes. The codes are part of the file formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IoTag(u8);

/// Streams from this one on are tags, by code; those below are the caller's own.
const FIRST_STREAM: u16 = 0xff00;

/// Names of the tags, by code.
const NAMES: [&str; IoTag::COUNT] = [
    "UNKNOWN",
    "META",
    "SUPER",
    "GROUP",
    "BLK_BMP",
    "INO_BMP",
    "INODE",
    "DIRECT",
    "INDIRECT",
    "EXTENT",
    "XATTR",
    "DATA_DIR",
    "JOURNAL",
    "FILE_4KB",
    "FILE_16KB",
    "FILE_64KB",
    "FILE_256KB",
    "FILE_1MB",
    "FILE_4MB",
    "FILE_16MB",
    "FILE_64MB",
    "FILE_256MB",
    "FILE_1GB",
    "FILE_BULK",
];

impl IoTag {
    /// Number of tags.
    pub const COUNT: usize = 24;
    /// Nothing is known.
    pub const UNKNOWN: IoTag = IoTag(0);
    /// Metadata of an unknown kind.
    pub const META: IoTag = IoTag(1);
    /// An inode table.
    pub const INODE: IoTag = IoTag(6);
    /// A block of a directory.
    pub const DATA_DIR: IoTag = IoTag(11);
    /// The journal.
    pub const JOURNAL: IoTag = IoTag(12);
    /// Data of a file of at most 4 KiB; the classes of larger files follow, each up to four times as large.
    pub const FILE_4KB: IoTag = IoTag(13);

    /// The tag of a code; `None` above 23.
    pub fn from_code(code: u8) -> Option<IoTag> {
        (usize::from(code) < IoTag::COUNT).then_some(IoTag(code))
    }

    /// The tag of a code or of a name, in any case.
    pub fn parse(text: &str) -> Option<IoTag> {
        let named = || NAMES.iter().position(|name| name.eq_ignore_ascii_case(text)).map(|code| IoTag(code as u8));
        text.parse().ok().and_then(IoTag::from_code).or_else(named)
    }

    /// The tag that a caller's stream is, if it is one.
    pub fn of_stream(stream: u16) -> Option<IoTag> {
        let code = stream.checked_sub(FIRST_STREAM)?;
        u8::try_from(code).ok().and_then(IoTag::from_code)
    }

    /// Its code, 0 to 23.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Its name, in capitals.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// The stream (`Io::stream`) by which a caller gives an I/O this tag. Requests of different tags do not merge then.
    pub fn stream(self) -> u16 {
        FIRST_STREAM + u16::from(self.0)
    }

    /// The tag of an I/O: its caller's ([`IoTag::stream`]), else by its metadata flag.
    pub fn of_io(io: &Io) -> IoTag {
        let by_flag = if io.flags.has(Flags::META) { IoTag::META } else { IoTag::UNKNOWN };
        IoTag::of_stream(io.stream).unwrap_or(by_flag)
    }

    /// The tag by the kernel's flag string of a request: `M` means metadata.
    pub fn from_rwbs(rwbs: &str) -> IoTag {
        if rwbs.contains('M') { IoTag::META } else { IoTag::UNKNOWN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_by_its_code_or_its_name_and_nothing_else_is_one() {
        for code in 0..IoTag::COUNT as u8 {
            let tag = IoTag::from_code(code).unwrap();
            assert_eq!(
                (IoTag::parse(&code.to_string()), IoTag::parse(&tag.name().to_lowercase())),
                (Some(tag), Some(tag))
            );
        }
        for text in ["24", "-1", "", "256", "FILE", "1.0"] {
            assert_eq!(IoTag::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_callers_tag_comes_before_the_metadata_flag_and_other_streams_are_no_tags() {
        let io = |stream, flags| Io { stream, flags, ..Io::default() };
        for code in 0..IoTag::COUNT as u8 {
            let tag = IoTag::from_code(code).unwrap();
            assert_eq!(IoTag::of_io(&io(tag.stream(), Flags::META)), tag);
        }
        for stream in [0, 5, FIRST_STREAM - 1, FIRST_STREAM + IoTag::COUNT as u16, u16::MAX] {
            assert_eq!(IoTag::of_io(&io(stream, Flags::META)), IoTag::META, "{stream}");
            assert_eq!(IoTag::of_io(&io(stream, Flags::NONE)), IoTag::UNKNOWN, "{stream}");
        }
    }
}
