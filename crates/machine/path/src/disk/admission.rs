//! Which I/Os a disk takes.

use std::sync::Arc;

use dumbwaiter_block::{Io, Op, SECTOR_BYTES};

use crate::Target;
use crate::buffer::{Data, MAX_IOVECS};

pub(super) struct Admission {
    target: Arc<Target>,
    /// Size of the target.
    sectors: u64,
    /// Sectors of a logical block, a power of two, less one.
    block_mask: u64,
    /// The disk has buffers of its own.
    scratch: bool,
    /// The target is a file or device.
    real: bool,
}

impl Admission {
    pub(super) fn new(target: Arc<Target>, scratch: bool, real: bool) -> Admission {
        let block_mask = u64::from(target.facts().logical_block) / SECTOR_BYTES - 1;
        Admission { sectors: target.sectors(), block_mask, target, scratch, real }
    }

    /// Is it a read, or a write where that is allowed, of whole blocks within the target and of scratch data? There is nothing
    /// to object to then.
    #[inline]
    pub(super) fn is_plain(&self, io: &Io, data: &Data) -> bool {
        let sectors = u64::from(io.sectors);
        let transfer = io.op == Op::Read || (io.op == Op::Write && self.target.options().allow_writes);
        let within = sectors > 0 && io.sector < self.sectors && self.sectors - io.sector >= sectors;
        let whole = (io.sector | sectors) & self.block_mask == 0;
        transfer && within && whole && self.scratch && !data.is_foreign()
    }

    pub(super) fn objection(&self, io: &Io, data: &Data) -> Option<String> {
        let bytes = u64::from(io.sectors) * SECTOR_BYTES;
        if !self.target.options().allow_writes && !matches!(io.op, Op::Read | Op::Flush) {
            return Some("the target was opened for reading only".into());
        }
        if io.op == Op::Flush {
            return None;
        }
        if io.sectors == 0 {
            return Some("expected a length above 0".into());
        }
        if io.sector.checked_add(u64::from(io.sectors)).is_none_or(|end| end > self.sectors) {
            return Some(format!("the target ends at sector {}", self.sectors));
        }
        if (io.sector | u64::from(io.sectors)) & self.block_mask != 0 {
            return Some(format!("the target takes multiples of {} bytes only", self.target.facts().logical_block));
        }
        if !io.op.carries_data() {
            return None;
        }
        if matches!(data, Data::InFile) && (io.op != Op::Read || !self.real) {
            return Some("only reads of a real target can leave their data in the file".into());
        }
        match data.bytes() {
            None if !self.scratch => Some("this disk has no buffers of its own".into()),
            Some(given) if given != bytes => Some(format!("{given} bytes of memory for {bytes} bytes of data")),
            Some(_) if data.count() > MAX_IOVECS => {
                Some(format!("{} pieces; expected at most {MAX_IOVECS}", data.count()))
            }
            _ => None,
        }
    }
}
