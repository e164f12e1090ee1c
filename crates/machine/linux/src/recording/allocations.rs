//! Blocks and inodes that an ext4 file system gives and takes back, as it happens.

use crate::Error;

use crate::recording::event::{Format, Kind};
use crate::recording::live_instance::{LiveInstance, id_of};

/// The flag of `ext4_allocate_blocks` for data of a file, not blocks of its extent tree.
const HINT_DATA: u32 = 0x20;
/// The part of a mode that says what kind of file it is, and that of a folder.
const KIND_OF_FILE: u16 = 0o170_000;
const FOLDER: u16 = 0o040_000;

/// What a file system did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// It gave blocks to an inode.
    Blocks {
        /// The inode.
        inode: u64,
        /// Its first block among the inode's.
        logical: u64,
        /// The first block of the file system.
        first: u64,
        /// How many.
        count: u64,
        /// They hold the inode's data, not its extent tree.
        data: bool,
    },
    /// A new inode.
    Inode {
        /// The inode.
        inode: u64,
        /// It is a folder.
        folder: bool,
    },
    /// The inode is no more.
    Freed {
        /// The inode.
        inode: u64,
    },
}

/// An allocation and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationEvent {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What happened.
    pub what: Allocation,
}

/// Where the fields of a tracepoint are in its records.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Blocks { id: u16, inode: usize, logical: usize, first: usize, count: usize, flags: usize },
    Inode { id: u16, inode: usize, mode: usize },
    Freed { id: u16, inode: usize },
}

impl Layout {
    fn of(point: &str, format: &Format) -> Option<Layout> {
        let at = |name: &str, size: usize| format.place(name).filter(|(_, found)| *found == size).map(|(at, _)| at);
        let (id, inode) = (format.id, at("ino", 8)?);
        Some(match point {
            "ext4/ext4_allocate_blocks" => Layout::Blocks {
                id,
                inode,
                logical: at("logical", 4)?,
                first: at("block", 8)?,
                count: at("len", 4)?,
                flags: at("flags", 4)?,
            },
            "ext4/ext4_allocate_inode" => Layout::Inode { id, inode, mode: at("mode", 2)? },
            _ => Layout::Freed { id, inode },
        })
    }

    fn id(&self) -> u16 {
        match self {
            Layout::Blocks { id, .. } | Layout::Inode { id, .. } | Layout::Freed { id, .. } => *id,
        }
    }

    /// `None` for a record that is cut off.
    fn read(&self, data: &[u8]) -> Option<Allocation> {
        let short = |at: usize| Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
        Some(match *self {
            Layout::Blocks { inode, logical, first, count, flags, .. } => Allocation::Blocks {
                inode: long(inode)?,
                logical: word(logical)?.into(),
                first: long(first)?,
                count: word(count)?.into(),
                data: word(flags)? & HINT_DATA != 0,
            },
            Layout::Inode { inode, mode, .. } => {
                Allocation::Inode { inode: long(inode)?, folder: short(mode)? & KIND_OF_FILE == FOLDER }
            }
            Layout::Freed { inode, .. } => Allocation::Freed { inode: long(inode)? },
        })
    }
}

/// The tracepoints that are watched.
const POINTS: [&str; 3] = ["ext4/ext4_allocate_blocks", "ext4/ext4_allocate_inode", "ext4/ext4_free_inode"];

/// A trace instance for the file system on one device. Unlike requests, allocations are never left out.
pub struct AllocationEvents {
    instance: LiveInstance,
    layouts: Vec<Layout>,
}

impl AllocationEvents {
    /// Watches the file system on the device of this number. `buffer_kb` is the size of the kernel's buffer for each CPU.
    ///
    /// # Errors
    /// No tracefs, no permission, or a kernel without ext4's tracepoints.
    pub fn new(name: &str, device: (u32, u32), buffer_kb: u64) -> Result<AllocationEvents, Error> {
        let instance = LiveInstance::new(&format!("{name}-ext4"), buffer_kb)?;
        let mut layouts = Vec::new();
        for point in POINTS {
            layouts.push(instance.add((Kind::Allocation, point), device, |format| Layout::of(point, format))?);
        }
        instance.watch(true)?;
        Ok(AllocationEvents { instance, layouts })
    }

    /// Takes what happened since the last call, in order of time, and returns how many events were lost.
    ///
    /// # Errors
    /// The instance is gone, or its pages are not as expected.
    pub fn take(&mut self, into: &mut Vec<AllocationEvent>) -> Result<u64, Error> {
        let (first, layouts) = (into.len(), &self.layouts);
        let lost = self.instance.take(&mut |at_ns, data| {
            let layout = layouts.iter().find(|layout| layout.id() == id_of(data));
            into.extend(layout.and_then(|layout| layout.read(data)).map(|what| AllocationEvent { at_ns, what }));
        })?;
        into[first..].sort_by_key(|event| event.at_ns);
        Ok(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: ext4_allocate_blocks\nID: 12\nformat:\n\
        \tfield:ino_t ino;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__u64 block;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int len;\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:__u32 logical;\toffset:36;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned int flags;\toffset:72;\tsize:4;\tsigned:0;\n";

    #[test]
    fn blocks_are_read_where_the_format_puts_them() {
        let format = Format::parse(Kind::Allocation, FORMAT).unwrap();
        let layout = Layout::of(POINTS[0], &format).unwrap();
        let mut data = vec![0u8; 76];
        data[16..24].copy_from_slice(&12u64.to_le_bytes());
        data[24..32].copy_from_slice(&5000u64.to_le_bytes());
        data[32..36].copy_from_slice(&4u32.to_le_bytes());
        data[36..40].copy_from_slice(&8u32.to_le_bytes());
        data[72..76].copy_from_slice(&0x21u32.to_le_bytes());
        let expected = Allocation::Blocks { inode: 12, logical: 8, first: 5000, count: 4, data: true };
        assert_eq!((layout.id(), layout.read(&data)), (12, Some(expected)));
        assert_eq!(layout.read(&data[..40]), None, "cut off");
        assert!(Layout::of(POINTS[1], &format).is_none(), "no mode");
        assert!(matches!(Layout::of(POINTS[2], &format), Some(Layout::Freed { id: 12, inode: 16 })));
    }

    #[test]
    fn a_new_inode_is_a_folder_by_its_mode() {
        let layout = Layout::Inode { id: 1, inode: 0, mode: 8 };
        let record = |mode: u16| [&7u64.to_le_bytes()[..], &mode.to_le_bytes()].concat();
        assert_eq!(layout.read(&record(0o040_755)), Some(Allocation::Inode { inode: 7, folder: true }));
        assert_eq!(layout.read(&record(0o100_644)), Some(Allocation::Inode { inode: 7, folder: false }));
    }
}
