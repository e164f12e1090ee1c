//! The driver's interface: numbers and layouts (little-endian, as on every machine that Linux's ublk runs on here).

use std::ops::BitOr;

/// Size of a sector, bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes of a command on the control device, in the 80 of its entry.
pub(crate) const CONTROL_BYTES: usize = 32;
/// Bytes of [`DeviceInfo`].
pub(crate) const INFO_BYTES: usize = 64;
/// Bytes of [`Parameters`] that are sent: header, basic and discard part.
pub(crate) const PARAMETERS_BYTES: usize = 60;
/// Bytes of a request's description.
pub(crate) const DESCRIPTION_BYTES: usize = 24;
/// Tags of a queue at most, which set the distance of the queues' descriptions.
pub(crate) const TAGS_MAX: u64 = 4096;
/// In a command that adds a device: any free number.
pub const ANY: u32 = u32::MAX;

const fn ioctl(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}
const READ: u32 = 2;
const BOTH: u32 = 3;
const CONTROL: u32 = CONTROL_BYTES as u32;

pub(crate) const GET_INFO: u32 = ioctl(READ, 0x02, CONTROL);
pub(crate) const ADD_DEVICE: u32 = ioctl(BOTH, 0x04, CONTROL);
pub(crate) const DELETE_DEVICE: u32 = ioctl(BOTH, 0x05, CONTROL);
pub(crate) const START_DEVICE: u32 = ioctl(BOTH, 0x06, CONTROL);
pub(crate) const STOP_DEVICE: u32 = ioctl(BOTH, 0x07, CONTROL);
pub(crate) const SET_PARAMETERS: u32 = ioctl(BOTH, 0x08, CONTROL);
pub(crate) const BEGIN_RECOVERY: u32 = ioctl(BOTH, 0x10, CONTROL);
pub(crate) const END_RECOVERY: u32 = ioctl(BOTH, 0x11, CONTROL);
pub(crate) const GET_FEATURES: u32 = ioctl(READ, 0x13, CONTROL);
pub(crate) const UPDATE_SIZE: u32 = ioctl(BOTH, 0x15, CONTROL);
pub(crate) const FETCH: u32 = ioctl(BOTH, 0x20, 16);
pub(crate) const COMMIT_AND_FETCH: u32 = ioctl(BOTH, 0x21, 16);

/// Features of a driver or device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// The device outlives its server; requests wait for a recovering server.
    pub const USER_RECOVERY: Features = Features(1 << 3);
    /// Unanswered requests are sent again after a recovery.
    pub const REISSUE: Features = Features(1 << 4);
    /// Commands have ioctl numbers, the only ones that this crate uses.
    pub const IOCTL_NUMBERS: Features = Features(1 << 6);
    /// The size can change while the device is used (Linux 6.16).
    pub const UPDATE_SIZE: Features = Features(1 << 10);

    /// Whether it has all of `other`.
    pub fn has(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features of both.
    pub fn and(self, other: Features) -> Features {
        Features(self.0 & other.0)
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
}

/// A device, as the driver describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Hardware queues.
    pub queues: u16,
    /// Tags of a queue.
    pub depth: u16,
    /// 0 stopped, 1 live, 2 quiesced: its server died.
    pub state: u16,
    /// Largest request, bytes.
    pub max_io_bytes: u32,
    /// Its number N, of `/dev/ublkbN`.
    pub device: u32,
    /// Process of its server.
    pub server: i32,
    /// Its features.
    pub features: Features,
}

/// A device that was added and not started, or whose server ended without recovery.
pub const DEAD: u16 = 0;
/// The server of a device died, and its requests wait.
pub const QUIESCED: u16 = 2;

impl DeviceInfo {
    pub(crate) fn encode(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.max_io_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.device.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.server.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.features.0.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; INFO_BYTES]) -> DeviceInfo {
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        DeviceInfo {
            queues: two(0),
            depth: two(2),
            state: two(4),
            max_io_bytes: four(8),
            device: four(12),
            server: four(16).cast_signed(),
            features: Features(u64::from(four(24)) | u64::from(four(28)) << 32),
        }
    }
}

/// Parameters of a device that its users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Size, sectors of 512 bytes.
    pub sectors: u64,
    /// Bytes of a block, a power of two from 512.
    pub block_bytes: u32,
    /// Largest request, sectors.
    pub max_sectors: u32,
    /// Its attributes.
    pub attributes: Attributes,
    /// Largest range to be discarded or zeroed, sectors; 0: it can do neither.
    pub max_discard_sectors: u32,
}

/// Attributes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Writes are refused.
    pub readonly: bool,
    /// Seeks are slow.
    pub rotational: bool,
    /// It has a write cache, so the kernel sends flushes.
    pub volatile_cache: bool,
    /// It supports FUA: writes that bypass that cache.
    pub fua: bool,
}

impl Parameters {
    pub(crate) fn encode(&self) -> [u8; PARAMETERS_BYTES] {
        let mut bytes = [0; PARAMETERS_BYTES];
        let mut put = |at: usize, value: u32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let Attributes { readonly, rotational, volatile_cache, fua } = self.attributes;
        let bits = [readonly, rotational, volatile_cache, fua];
        let discards = self.max_discard_sectors > 0;
        put(0, PARAMETERS_BYTES as u32);
        put(4, 1 | u32::from(discards) << 1);
        put(8, bits.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum());
        let shift = self.block_bytes.trailing_zeros();
        let physical = shift.max(12);
        // Logical and physical block, optimal and smallest I/O, a byte each.
        put(12, shift | physical << 8 | physical << 16 | shift << 24);
        put(16, self.max_sectors);
        put(24, self.sectors as u32);
        put(28, (self.sectors >> 32) as u32);
        if discards {
            // Alignment stays 0.
            put(44, self.block_bytes);
            put(48, self.max_discard_sectors);
            put(52, self.max_discard_sectors);
            // One segment.
            put(56, 1);
        }
        bytes
    }
}

/// A command on the control device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u16,
    pub(crate) value: u64,
}

impl ControlCommand {
    /// As the 80 bytes of an entry.
    pub(crate) fn encode(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&self.device.to_le_bytes());
        // No queue.
        bytes[4..6].copy_from_slice(&u16::MAX.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// The argument of a command on a tag.
pub(crate) fn tag_argument(queue: u16, tag: u16, result: i32, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0..2].copy_from_slice(&queue.to_le_bytes());
    bytes[2..4].copy_from_slice(&tag.to_le_bytes());
    bytes[4..8].copy_from_slice(&result.to_le_bytes());
    bytes[8..16].copy_from_slice(&address.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_interface() {
        // _IOWR('u', 0x04, 32 bytes), _IOR('u', 0x13, 32 bytes), _IOWR('u', 0x20, 16 bytes).
        assert_eq!([ADD_DEVICE, GET_FEATURES, FETCH], [0xc020_7504, 0x8020_7513, 0xc010_7520]);
    }

    #[test]
    fn a_device_reads_back_as_it_was_written() {
        let info = DeviceInfo {
            queues: 2,
            depth: 128,
            state: 1,
            max_io_bytes: 1 << 20,
            device: 7,
            server: -1,
            features: Features::USER_RECOVERY | Features(1 << 40),
        };
        assert_eq!(DeviceInfo::decode(&info.encode()), info);
    }

    #[test]
    fn parameters_lie_where_the_driver_reads_them() {
        let attributes = Attributes { readonly: true, rotational: false, volatile_cache: true, fua: true };
        let parameters = Parameters {
            sectors: 0x1_0000_0002,
            block_bytes: 4096,
            max_sectors: 2048,
            attributes,
            max_discard_sectors: 99,
        };
        let bytes = parameters.encode();
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((four(0), four(4), four(8)), (60, 3, 0b1101));
        assert_eq!(bytes[12..16], [12, 12, 12, 12]);
        assert_eq!((four(16), four(24), four(28)), (2048, 2, 1));
        assert_eq!((four(40), four(44), four(48), four(52), four(56)), (0, 4096, 99, 99, 1));
    }
}
