//! Maps the blocks of an ext4 file system to the kind of data in them, which gives requests their tags.
//!
//! A map begins with what `dumpe2fs` and `debugfs` print of a file system, and follows the kernel's allocation events from then on
//! (specification, section 2). It reads no file and starts no program: text and events are handed in.

use std::collections::BTreeMap;

use dumbwaiter_block::IoTag;

/// The journal's inode.
const JOURNAL_INODE: u64 = 8;
const SECTOR_BYTES: u64 = 512;
/// Most stretches of blocks, and most inodes: some hundred megabytes of memory.
const ENTRIES_MAX: usize = 1 << 22;

/// Output that is not as expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A line that `dumpe2fs` always prints is not there.
    #[error("dumpe2fs: there is no line `{0}`; is it an ext4 file system?")]
    Missing(&'static str),
    /// A number that cannot be read, or a stretch that ends before it begins or beyond the file system.
    #[error("{program}: `{line}` is not as expected")]
    Line {
        /// The program.
        program: &'static str,
        /// The line.
        line: String,
    },
    /// More stretches or inodes than a map holds.
    #[error("the file system has more than {ENTRIES_MAX} stretches or inodes")]
    TooLarge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The same for the life of the file system, or a block of a file's own metadata.
    Fixed(IoTag),
    /// Data of an inode.
    Data(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Inode {
    directory: bool,
    bytes: u64,
}

/// Blocks of an ext4 file system by what they hold.
#[derive(Clone, Debug)]
pub struct LayoutMap {
    block_bytes: u64,
    blocks: u64,
    /// By first block: the block behind the last, and the owner. Stretches do not overlap.
    stretches: BTreeMap<u64, (u64, Owner)>,
    inodes: BTreeMap<u64, Inode>,
}

fn number_behind(text: &str, key: &'static str) -> Result<u64, LayoutError> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).ok_or(LayoutError::Missing(key))?;
    let line_error = || LayoutError::Line { program: "dumpe2fs", line: format!("{key}{line}") };
    line.trim().parse().map_err(|_| line_error())
}

/// `129`, `145-656`, each perhaps followed by other text: the first block, and the one behind the last.
fn stretch(text: &str) -> Option<(u64, u64)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (first, last) = match text[..end].split_once('-') {
        Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
        None => {
            let block: u64 = text[..end].parse().ok()?;
            (block, block)
        }
    };
    (first <= last).then_some((first, last.checked_add(1)?))
}

impl LayoutMap {
    /// The blocks that keep their place: what `dumpe2fs DEVICE` prints.
    ///
    /// # Errors
    /// Text of another program or file system.
    pub fn from_dumpe2fs(text: &str) -> Result<LayoutMap, LayoutError> {
        /// The words before a stretch, and what it holds.
        const PARTS: [(&str, u8); 7] = [
            ("superblock at ", 2),
            ("Group descriptors at ", 3),
            ("Group descriptor at ", 3),
            ("Reserved GDT blocks at ", 3),
            ("Block bitmap at ", 4),
            ("Inode bitmap at ", 5),
            ("Inode table at ", 6),
        ];
        let (block_bytes, blocks) = (number_behind(text, "Block size:")?, number_behind(text, "Block count:")?);
        if !block_bytes.is_power_of_two() || !(1024..=65_536).contains(&block_bytes) {
            let line = format!("Block size: {block_bytes}");
            return Err(LayoutError::Line { program: "dumpe2fs", line });
        }
        let mut map = LayoutMap { block_bytes, blocks, stretches: BTreeMap::new(), inodes: BTreeMap::new() };
        for line in text.lines().filter(|line| line.starts_with("  ")) {
            for (words, code) in PARTS {
                let Some((_, rest)) = line.split_once(words) else { continue };
                let found = stretch(rest).filter(|(_, end)| *end <= blocks);
                let refused = || LayoutError::Line { program: "dumpe2fs", line: line.trim().to_owned() };
                let (first, end) = found.ok_or_else(refused)?;
                map.set(first, end, Owner::Fixed(IoTag::from_code(code).unwrap_or_default()))?;
            }
        }
        Ok(map)
    }

    /// Adds inodes: what `debugfs` prints for `stat <INODE>`, for one or many of them.
    ///
    /// # Errors
    /// An extent that is not as expected.
    pub fn add_inodes(&mut self, text: &str) -> Result<(), LayoutError> {
        let (mut inode, mut in_extents) = (0u64, false);
        for line in text.lines() {
            let refused = || LayoutError::Line { program: "debugfs", line: line.trim().to_owned() };
            if let Some(rest) = line.strip_prefix("Inode: ") {
                let number = rest.split_whitespace().next().and_then(|word| word.parse().ok());
                (inode, in_extents) = (number.ok_or_else(refused)?, false);
                if self.inodes.len() >= ENTRIES_MAX {
                    return Err(LayoutError::TooLarge);
                }
                self.inodes.entry(inode).or_default().directory = rest.contains("Type: directory");
            } else if line.starts_with("EXTENTS:") || line.starts_with("BLOCKS:") {
                in_extents = true;
            } else if in_extents && line.starts_with('(') {
                for part in line.split(", ").filter(|part| !part.trim().is_empty()) {
                    self.add_extent(inode, part.trim_end_matches(',')).ok_or_else(refused)??;
                }
            } else if let Some((_, size)) = line.strip_prefix("User:").and_then(|line| line.split_once(" Size: ")) {
                let size = size.split_whitespace().next().and_then(|word| word.parse().ok());
                self.inodes.entry(inode).or_default().bytes = size.ok_or_else(refused)?;
            } else if let Some(rest) = line.strip_prefix("File ACL: ") {
                let block: u64 = rest.split_whitespace().next().and_then(|w| w.parse().ok()).ok_or_else(refused)?;
                if block > 0 && block < self.blocks {
                    self.set(block, block + 1, Owner::Fixed(IoTag::XATTR))?;
                }
            } else if !line.starts_with('(') {
                in_extents &= line.trim().is_empty();
            }
        }
        Ok(())
    }

    /// `(0-8191):131072-139263`, `(12[u]):400`, `(ETB0):33803`, `(IND):70`.
    fn add_extent(&mut self, inode: u64, text: &str) -> Option<Result<(), LayoutError>> {
        let (logical, physical) = text.strip_prefix('(')?.split_once("):")?;
        let (first, end) = stretch(physical).filter(|(_, end)| *end <= self.blocks)?;
        let owner = match logical {
            _ if inode == JOURNAL_INODE => Owner::Fixed(IoTag::JOURNAL),
            _ if logical.starts_with("ETB") => Owner::Fixed(IoTag::EXTENT),
            "IND" | "DIND" | "TIND" => Owner::Fixed(IoTag::INDIRECT),
            _ => Owner::Data(inode),
        };
        Some(self.set(first, end, owner))
    }

    /// The kernel gave `count` blocks from `physical` on to an inode, as its blocks from `logical` on: tracepoint
    /// `ext4_allocate_blocks`. `data`: its flags have `HINT_DATA`.
    ///
    /// # Errors
    /// The map is full.
    pub fn allocated(
        &mut self,
        inode: u64,
        logical: u64,
        physical: u64,
        count: u64,
        data: bool,
    ) -> Result<(), LayoutError> {
        let end = physical.saturating_add(count).min(self.blocks);
        let directory = self.inodes.get(&inode).is_some_and(|inode| inode.directory);
        if data {
            let grown = logical.saturating_add(count).saturating_mul(self.block_bytes);
            let known = self.inodes.entry(inode).or_default();
            known.bytes = known.bytes.max(grown);
        }
        let owner = if data || directory { Owner::Data(inode) } else { Owner::Fixed(IoTag::EXTENT) };
        if physical >= end { Ok(()) } else { self.set(physical, end, owner) }
    }

    /// Tracepoint `ext4_allocate_inode`.
    pub fn inode_allocated(&mut self, inode: u64, directory: bool) {
        if self.inodes.len() < ENTRIES_MAX || self.inodes.contains_key(&inode) {
            self.inodes.insert(inode, Inode { directory, bytes: 0 });
        }
    }

    /// Tracepoint `ext4_free_inode`: its blocks are unknown from now on.
    pub fn inode_freed(&mut self, inode: u64) {
        self.inodes.remove(&inode);
    }

    /// The tag of the request that begins at a sector of the file system (512 bytes).
    pub fn tag(&self, sector: u64) -> IoTag {
        let block = sector / (self.block_bytes / SECTOR_BYTES);
        let before = self.stretches.range(..=block).next_back();
        match before.filter(|(_, (end, _))| block < *end).map(|(_, (_, owner))| *owner) {
            None => IoTag::UNKNOWN,
            Some(Owner::Fixed(tag)) => tag,
            Some(Owner::Data(inode)) => match self.inodes.get(&inode) {
                None => IoTag::UNKNOWN,
                Some(Inode { directory: true, .. }) => IoTag::DATA_DIR,
                Some(Inode { bytes, .. }) => IoTag::of_file_size(*bytes),
            },
        }
    }

    /// Blocks by tag, for a summary; those that hold nothing known are `UNKNOWN`.
    pub fn blocks_by_tag(&self) -> [u64; IoTag::COUNT] {
        let mut counts = [0; IoTag::COUNT];
        for (first, (end, _)) in &self.stretches {
            let sector = first * (self.block_bytes / SECTOR_BYTES);
            counts[usize::from(self.tag(sector).code())] += end - first;
        }
        let known: u64 = counts.iter().sum();
        counts[0] += self.blocks.saturating_sub(known);
        counts
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Assigns blocks to an owner.
    fn set(&mut self, first: u64, end: u64, owner: Owner) -> Result<(), LayoutError> {
        if self.stretches.len() >= ENTRIES_MAX {
            return Err(LayoutError::TooLarge);
        }
        if let Some((&begin, &(last, old))) = self.stretches.range(..first).next_back()
            && last > first
        {
            self.stretches.insert(begin, (first, old));
            if last > end {
                self.stretches.insert(end, (last, old));
            }
        }
        while let Some((&begin, &(last, old))) = self.stretches.range(first..end).next() {
            self.stretches.remove(&begin);
            if last > end {
                self.stretches.insert(end, (last, old));
            }
        }
        self.stretches.insert(first, (end, owner));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DUMP: &str = "dumpe2fs 1.47.0 (5-Feb-2023)\nFilesystem volume name:   <none>\nInode count:              65536\n\
        Block count:              65536\nFirst block:              0\nBlock size:               4096\n\n\
        Group 0: (Blocks 0-32767) csum 0xf6b3 [ITABLE_ZEROED]\n  Primary superblock at 0, Group descriptors at 1-1\n\
        \x20 Reserved GDT blocks at 2-128\n  Block bitmap at 129 (+129), csum 0x9a\n  Inode bitmap at 137 (+137)\n\
        \x20 Inode table at 145-656 (+145)\n  28521 free blocks, 8181 free inodes, 2 directories\n  Free blocks: 700-32767\n\
        Group 1: (Blocks 32768-65535)\n  Backup superblock at 32768, Group descriptors at 32769-32769\n\
        \x20 Block bitmap at 130 (bg #0 + 130)\n";
    const STAT: &str = "debugfs:  stat <8>\nInode: 8   Type: regular    Mode:  0600   Flags: 0x80000\n\
        User:     0   Group:     0   Project:     0   Size: 33554432\nFile ACL: 0\nLinks: 1   Blockcount: 65536\n\
        Fragment:  Address: 0    Number: 0    Size: 0\nEXTENTS:\n(0-8191):40000-48191\n\nInode: 12   Type: regular    Mode:  0644   Flags: 0x80000\n\
        User:     0   Group:     0   Project:     0   Size: 20000\nFile ACL: 990\n\
        Fragment:  Address: 0    Number: 0    Size: 0\nEXTENTS:\n\
        (ETB0):900, (0-3):910-913, (4[u]):920\n\nInode: 2   Type: directory    Mode:  0755   Flags: 0x80000\n\
        User:     0   Group:     0   Project:     0   Size: 4096\nEXTENTS:\n(0):930\n";

    fn names(map: &LayoutMap, blocks: &[u64]) -> Vec<&'static str> {
        blocks.iter().map(|block| map.tag(8 * block).name()).collect()
    }

    fn map() -> LayoutMap {
        let mut map = LayoutMap::from_dumpe2fs(DUMP).unwrap();
        map.add_inodes(STAT).unwrap();
        map
    }

    #[test]
    fn what_the_programs_print_becomes_tags() {
        let map = map();
        let found = names(&map, &[0, 1, 100, 129, 137, 400, 32_768, 32_769, 130]);
        assert_eq!(found, ["SUPER", "GROUP", "GROUP", "BLK_BMP", "INO_BMP", "INODE", "SUPER", "GROUP", "BLK_BMP"]);
        let found = names(&map, &[40_000, 48_191, 48_192, 900, 913, 920, 930, 990, 914]);
        let size = "FILE_64KB";
        assert_eq!(found, ["JOURNAL", "JOURNAL", "UNKNOWN", "EXTENT", size, size, "DATA_DIR", "XATTR", "UNKNOWN"]);
        assert_eq!(map.blocks_by_tag().iter().sum::<u64>(), 65_536);
        assert_eq!(map.tag(u64::MAX), IoTag::UNKNOWN);
    }

    #[test]
    fn allocations_that_follow_are_known_and_what_is_freed_is_not() {
        let mut map = map();
        map.inode_allocated(50, false);
        map.allocated(50, 0, 5000, 4, true).unwrap();
        assert_eq!(names(&map, &[5000, 5003]), ["FILE_16KB"; 2]);
        map.allocated(50, 4, 5004, 100, true).unwrap();
        map.allocated(50, 0, 6000, 1, false).unwrap();
        assert_eq!(names(&map, &[5000, 6000]), ["FILE_1MB", "EXTENT"], "the size is the allocated one");
        map.inode_allocated(51, true);
        map.allocated(51, 0, 5002, 1, false).unwrap();
        assert_eq!(names(&map, &[5001, 5002, 5003]), ["FILE_1MB", "DATA_DIR", "FILE_1MB"]);
        map.inode_freed(50);
        assert_eq!(names(&map, &[5001, 5002]), ["UNKNOWN", "DATA_DIR"]);
    }

    #[test]
    fn text_of_something_else_is_refused() {
        assert_eq!(LayoutMap::from_dumpe2fs("").unwrap_err(), LayoutError::Missing("Block size:"));
        let beyond = DUMP.replace("145-656", "145-65536");
        assert!(LayoutMap::from_dumpe2fs(&beyond).unwrap_err().to_string().contains("145-65536"));
        assert!(LayoutMap::from_dumpe2fs(&DUMP.replace("4096", "4000")).is_err());
        let error = map().add_inodes("Inode: 13   Type: regular\nEXTENTS:\n(0):99999999\n").unwrap_err();
        assert!(error.to_string().contains("(0):99999999"), "{error}");
    }

    proptest! {
        /// After allocations in any order, a block has its last owner.
        #[test]
        fn the_last_owner_counts(given in prop::collection::vec((20u64..40, 0u64..300, 1u64..60), 1..40)) {
            let mut map = LayoutMap::from_dumpe2fs("Block size: 4096\nBlock count: 400\n").unwrap();
            let mut owners = [0u64; 400];
            for (inode, first, count) in given {
                map.inode_allocated(inode, inode % 2 == 0);
                map.allocated(inode, 0, first, count, true).unwrap();
                owners[first as usize..(first + count) as usize].fill(inode);
            }
            for (block, owner) in owners.iter().enumerate() {
                let tag = map.tag(8 * block as u64);
                let expected = match owner {
                    0 => tag == IoTag::UNKNOWN,
                    even if even % 2 == 0 => tag == IoTag::DATA_DIR,
                    _ => tag >= IoTag::FILE_4KB,
                };
                prop_assert!(expected, "{block}: {owner} {}", tag.name());
            }
        }

        #[test]
        fn arbitrary_text_never_panics(dump in "\\PC*", stat in "\\PC*") {
            let _ = LayoutMap::from_dumpe2fs(&dump);
            let _ = map().add_inodes(&stat);
        }
    }
}
