//! The configuration space of virtio-blk, and the features that go with it.

use crate::vhost_user::wire::{SECTOR_BYTES, SEG_MAX, feature};

/// Bytes of the space that may be read.
pub const CONFIG_BYTES: usize = 256;
/// Where the driver says whether the cache is write-back.
pub const WRITEBACK_OFFSET: usize = 32;
/// Most sectors of one discard or write of zeroes.
pub const MAX_RANGE_SECTORS: u32 = 1 << 21;

/// Facts about a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFacts {
    /// Bytes.
    pub bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Writes are refused.
    pub readonly: bool,
    /// Rings.
    pub queues: u16,
}

impl BlockFacts {
    /// Features of virtio that it offers.
    pub fn features(&self) -> u64 {
        let common = feature::SEG_MAX
            | feature::BLK_SIZE
            | feature::TOPOLOGY
            | feature::MQ
            | feature::INDIRECT_DESC
            | feature::EVENT_IDX
            | feature::PROTOCOL_FEATURES
            | feature::VERSION_1;
        match self.readonly {
            true => common | feature::READ_ONLY,
            false => common | feature::FLUSH | feature::CONFIG_WCE | feature::DISCARD | feature::WRITE_ZEROES,
        }
    }
}

/// The space as the driver sees it.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; CONFIG_BYTES],
}

impl ConfigSpace {
    /// The space of a disk.
    pub fn new(facts: &BlockFacts) -> ConfigSpace {
        let mut space = ConfigSpace { bytes: [0; CONFIG_BYTES] };
        let block = facts.block_bytes.max(SECTOR_BYTES as u32);
        // The smallest good size of a request: a page, where blocks are smaller.
        let physical_exponent = (4096 / block).max(1).trailing_zeros() as u8;
        space.put(12, &SEG_MAX.to_le_bytes());
        space.put(20, &block.to_le_bytes());
        space.put(24, &[physical_exponent, 0]);
        space.put(26, &1u16.to_le_bytes());
        space.put(WRITEBACK_OFFSET, &[1]);
        space.put(34, &facts.queues.to_le_bytes());
        if !facts.readonly {
            space.put(36, &MAX_RANGE_SECTORS.to_le_bytes());
            space.put(40, &1u32.to_le_bytes());
            space.put(44, &(block / SECTOR_BYTES as u32).to_le_bytes());
            space.put(48, &MAX_RANGE_SECTORS.to_le_bytes());
            space.put(52, &1u32.to_le_bytes());
            space.put(56, &[1]);
        }
        space.set_bytes(facts.bytes);
        space
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Changes the capacity.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.put(0, &(bytes / SECTOR_BYTES).to_le_bytes());
    }

    /// A part of the space; `None` outside.
    pub fn read(&self, offset: u32, size: u32) -> Option<&[u8]> {
        let end = offset.checked_add(size)? as usize;
        self.bytes.get(offset as usize..end)
    }

    /// Is the cache write-back? Only that a driver may change.
    pub fn writeback(&self) -> bool {
        self.bytes[WRITEBACK_OFFSET] != 0
    }

    /// The driver chooses the kind of cache.
    pub fn set_writeback(&mut self, writeback: bool) {
        self.bytes[WRITEBACK_OFFSET] = u8::from(writeback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_virtio_puts_them() {
        let facts = BlockFacts { bytes: 1 << 30, block_bytes: 512, readonly: false, queues: 4 };
        let space = ConfigSpace::new(&facts);
        let word = |at| u32::from_le_bytes(space.read(at, 4).unwrap().try_into().unwrap());
        assert_eq!(space.read(0, 8).unwrap(), (1u64 << 21).to_le_bytes());
        assert_eq!((word(12), word(20), space.read(24, 1).unwrap()[0]), (126, 512, 3));
        assert_eq!(space.read(34, 2).unwrap(), [4, 0]);
        assert_eq!((word(36), word(40), word(44), word(48), word(52)), (1 << 21, 1, 1, 1 << 21, 1));
        assert!(space.read(0, 256).is_some() && space.read(200, 57).is_none() && space.read(u32::MAX, 2).is_none());
    }

    #[test]
    fn a_read_only_disk_offers_nothing_that_writes() {
        let facts = BlockFacts { bytes: 1 << 30, block_bytes: 4096, readonly: true, queues: 1 };
        let writes = feature::FLUSH | feature::DISCARD | feature::WRITE_ZEROES | feature::CONFIG_WCE;
        assert_eq!(facts.features() & writes, 0);
        assert_ne!(facts.features() & feature::READ_ONLY, 0);
        assert_eq!(ConfigSpace::new(&facts).read(36, 24).unwrap()[..21], [0; 21]);
    }
}
