//! Guest memory: regions that the front end shares, found by the guest's addresses or by the front end's own.

use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

use crate::vhost_user::mapping::Mapping;

/// Where a region lies, as the front end describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First address for the guest; descriptors use these.
    pub guest: u64,
    /// Bytes.
    pub bytes: u64,
    /// First address for the front end; the rings' places are given by these.
    pub user: u64,
    /// Where it begins in its file.
    pub offset: u64,
}

/// A place in guest memory. One that outlives its table is harmless: it reads zeroes or other bytes of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestPlace {
    region: u32,
    at: u64,
}

impl GuestPlace {
    /// The place `bytes` further on in its region.
    #[inline]
    pub fn plus(self, bytes: u64) -> GuestPlace {
        GuestPlace { region: self.region, at: self.at.saturating_add(bytes) }
    }
}

/// A piece of guest memory within one region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub place: GuestPlace,
    /// Bytes.
    pub len: u32,
}

#[derive(Debug)]
struct Mapped {
    region: Region,
    mapping: Mapping,
}

/// The memory of a guest.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Mapped>,
    /// The region that was used last.
    hint: Cell<usize>,
}

/// Why a region is refused.
#[derive(Debug)]
pub enum MemoryError {
    /// Its addresses wrap or it is empty or too large.
    Range,
    /// It overlaps another.
    Overlap,
    /// There are too many.
    TooMany,
    /// There is none like it.
    Missing,
    /// It cannot be mapped.
    Map(io::Error),
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemoryError::Range => f.write_str("it is empty, too large, or its addresses wrap around"),
            MemoryError::Overlap => f.write_str("it overlaps another region"),
            MemoryError::TooMany => f.write_str("there are too many regions"),
            MemoryError::Missing => f.write_str("there is no such region"),
            MemoryError::Map(error) => write!(f, "{error}"),
        }
    }
}

impl Memory {
    /// Maps a region of `file` and adds it.
    pub fn add(&mut self, region: Region, file: impl AsFd) -> Result<(), MemoryError> {
        let Region { guest, bytes, user, offset } = region;
        let mapped: u64 = self.regions.iter().map(|one| one.mapping.len() as u64).sum();
        let left = crate::vhost_user::wire::MAX_MAPPED_BYTES.saturating_sub(mapped);
        let in_file = offset.checked_add(bytes).filter(|end| *end <= left);
        let (Some(in_file), Some(guest_end), Some(_)) = (in_file, guest.checked_add(bytes), user.checked_add(bytes))
        else {
            return Err(MemoryError::Range);
        };
        if bytes == 0 {
            return Err(MemoryError::Range);
        }
        if self.regions.len() >= crate::vhost_user::wire::MAX_REGIONS {
            return Err(MemoryError::TooMany);
        }
        if self.regions.iter().any(|one| guest < one.region.guest + one.region.bytes && one.region.guest < guest_end) {
            return Err(MemoryError::Overlap);
        }
        // From the start of the file: the offset need not be a multiple of the page, which may be a huge one.
        let mapping = Mapping::new(file, in_file as usize).map_err(MemoryError::Map)?;
        self.regions.push(Mapped { region, mapping });
        Ok(())
    }

    /// Unmaps a region. Nothing in flight may name it.
    pub fn remove(&mut self, region: Region) -> Result<(), MemoryError> {
        let same = |one: &Mapped| {
            (one.region.guest, one.region.user, one.region.bytes) == (region.guest, region.user, region.bytes)
        };
        let at = self.regions.iter().position(same).ok_or(MemoryError::Missing)?;
        self.regions.remove(at);
        self.hint.set(0);
        Ok(())
    }

    /// Has a region lost its memory?
    pub fn is_truncated(&self) -> bool {
        self.regions.iter().any(|one| one.mapping.is_truncated())
    }

    /// The place of a guest's address, and how many of `len` bytes follow it in the same region, 1 at least.
    #[inline]
    pub fn locate(&self, guest: u64, len: u64) -> Option<(GuestPlace, u64)> {
        let inside = |one: &Mapped| guest.wrapping_sub(one.region.guest) < one.region.bytes;
        let hint = self.hint.get();
        let number = match self.regions.get(hint) {
            Some(one) if inside(one) => hint,
            _ => self.regions.iter().position(inside)?,
        };
        self.hint.set(number);
        let region = self.regions[number].region;
        let from = guest - region.guest;
        Some((GuestPlace { region: number as u32, at: region.offset + from }, len.min(region.bytes - from)))
    }

    /// The place of `len` bytes at an address of the front end, within one region.
    pub fn locate_user(&self, user: u64, len: u64) -> Option<GuestPlace> {
        self.regions.iter().enumerate().find_map(|(number, Mapped { region, .. })| {
            let from = user.checked_sub(region.user).filter(|from| *from < region.bytes)?;
            (len <= region.bytes - from).then_some(GuestPlace { region: number as u32, at: region.offset + from })
        })
    }

    #[inline]
    fn mapping(&self, place: GuestPlace) -> Option<&Mapping> {
        self.regions.get(place.region as usize).map(|one| &one.mapping)
    }

    /// The address of a piece in this process, for the kernel. It stays as long as the region is not removed.
    #[inline]
    pub fn pointer(&self, piece: Piece) -> Option<*mut u8> {
        self.mapping(piece.place)?.pointer(piece.place.at, u64::from(piece.len))
    }

    /// Copies out of it; `false` outside.
    #[inline]
    pub fn read(&self, place: GuestPlace, into: &mut [u8]) -> bool {
        self.mapping(place).is_some_and(|mapping| mapping.read(place.at, into))
    }

    /// Copies into it; `false` outside.
    #[inline]
    pub fn write(&self, place: GuestPlace, from: &[u8]) -> bool {
        self.mapping(place).is_some_and(|mapping| mapping.write(place.at, from))
    }

    #[inline]
    pub(crate) fn load16(&self, place: GuestPlace) -> u16 {
        self.mapping(place).map_or(0, |mapping| mapping.load16(place.at))
    }

    #[inline]
    pub(crate) fn load32(&self, place: GuestPlace) -> u32 {
        self.mapping(place).map_or(0, |mapping| mapping.load32(place.at))
    }

    /// Two words of eight bytes in a row.
    #[inline]
    pub(crate) fn load_pair(&self, place: GuestPlace) -> (u64, u64) {
        self.mapping(place).map_or((0, 0), |mapping| mapping.load_pair(place.at))
    }

    #[inline]
    pub(crate) fn store16(&self, place: GuestPlace, value: u16) {
        if let Some(mapping) = self.mapping(place) {
            mapping.store16(place.at, value);
        }
    }

    #[inline]
    pub(crate) fn store32(&self, place: GuestPlace, value: u32) {
        if let Some(mapping) = self.mapping(place) {
            mapping.store32(place.at, value);
        }
    }

    #[inline]
    pub(crate) fn store64(&self, place: GuestPlace, value: u64) {
        if let Some(mapping) = self.mapping(place) {
            mapping.store64(place.at, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    fn memory(bytes: u64) -> Memory {
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        let mut memory = Memory::default();
        memory.add(Region { guest: 0x1000, bytes: bytes / 2, user: 0x7000_0000, offset: 0 }, &file).unwrap();
        memory
            .add(Region { guest: 0x1000 + bytes / 2, bytes: bytes / 2, user: 0x9000_0000, offset: bytes / 2 }, &file)
            .unwrap();
        memory
    }

    #[test]
    fn addresses_are_found_in_their_region_and_nowhere_else() {
        let memory = memory(0x4000);
        assert_eq!(memory.locate(0xfff, 1), None);
        assert_eq!(memory.locate(0x5000, 1), None);
        assert_eq!(memory.locate(u64::MAX, 1), None);
        let (place, here) = memory.locate(0x2ffe, 10).unwrap();
        assert_eq!(here, 2, "the rest lies in the next region");
        assert!(memory.write(place, &[1, 2]));
        assert_eq!(memory.locate_user(0x7000_1ffe, 2), Some(place));
        assert_eq!(memory.locate_user(0x7000_1ffe, 3), None);
        assert_eq!(memory.locate_user(0x6fff_ffff, 1), None);
    }

    #[test]
    fn regions_that_wrap_overlap_or_exceed_their_file_are_refused() {
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 0x2000).unwrap();
        let mut memory = Memory::default();
        let region = Region { guest: 0x1000, bytes: 0x2000, user: 0, offset: 0 };
        memory.add(region, &file).unwrap();
        for bad in [
            Region { bytes: 0, guest: 0x9000, ..region },
            Region { guest: u64::MAX - 10, ..region },
            Region { guest: 0x9000, user: u64::MAX - 10, ..region },
            Region { guest: 0x9000, offset: u64::MAX - 10, ..region },
            Region { guest: 0x9000, offset: 1, ..region },
            Region { guest: 0x2fff, ..region },
        ] {
            assert!(memory.add(bad, &file).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_device_maps_no_more_than_its_bound() {
        let half = crate::vhost_user::wire::MAX_MAPPED_BYTES / 2;
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, half).unwrap();
        let mut memory = Memory::default();
        let region = Region { guest: 0, bytes: half, user: 0, offset: 0 };
        memory.add(region, &file).unwrap();
        memory.add(Region { guest: half, ..region }, &file).unwrap();
        let more = Region { guest: 2 * half, bytes: 0x1000, ..region };
        assert!(matches!(memory.add(more, &file), Err(MemoryError::Range)));
        memory.remove(region).unwrap();
        memory.add(more, &file).unwrap();
    }

    #[test]
    fn huge_pages_that_the_system_does_not_have_read_as_zeroes_and_are_noticed() {
        let file = match memfd_create("memory", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) {
            Ok(file) if std::fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|n| n.trim() == "0") => file,
            _ => return println!("skipped: no huge pages, or some in stock"),
        };
        let bytes = 64 << 20;
        ftruncate(&file, bytes).unwrap();
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).unwrap();
        let mut memory = Memory::default();
        memory.add(Region { guest: 0, bytes, user: 0, offset: 0 }, &file).unwrap();
        let mut read = [1; 8];
        assert!(memory.read(memory.locate(0, 8).unwrap().0, &mut read));
        assert_eq!((read, memory.is_truncated()), ([0; 8], true));
    }

    #[test]
    fn a_file_that_shrinks_reads_as_zeroes_and_is_noticed() {
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 0x4000).unwrap();
        let mut memory = Memory::default();
        memory.add(Region { guest: 0, bytes: 0x4000, user: 0, offset: 0 }, &file).unwrap();
        let place = memory.locate(0x3000, 8).unwrap().0;
        memory.write(place, &[7; 8]);
        assert!(!memory.is_truncated());
        ftruncate(&file, 0).unwrap();
        let mut read = [1; 8];
        assert!(memory.read(place, &mut read));
        assert_eq!(read, [0; 8]);
        assert!(memory.is_truncated());
    }
}
