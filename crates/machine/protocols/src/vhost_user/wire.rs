//! Numbers of the protocols: vhost-user messages and features, virtio feature bits, layouts of virtio-blk.

/// Bytes before the body of a message: code, flags and size of the body, four bytes each.
pub const HEADER_BYTES: usize = 12;
/// Largest body that is accepted, bytes.
pub const MAX_BODY_BYTES: usize = 1024;
/// Most descriptors with one message.
pub const MAX_DESCRIPTORS: usize = 8;
/// Most rings of a device.
pub const MAX_QUEUES: u16 = 64;
/// Most entries of a ring.
pub const MAX_QUEUE_SIZE: u16 = 1024;
/// Most memory regions of a device.
pub const MAX_REGIONS: usize = 64;
/// Most bytes that the regions of a device may map. Each is mapped from the start of its file.
pub const MAX_MAPPED_BYTES: u64 = 1 << 42;

/// Flags in a message's header.
pub mod header_flag {
    /// The protocol's version.
    pub const VERSION: u32 = 1;
    /// The bits that hold the version.
    pub const VERSION_MASK: u32 = 3;
    /// It answers a message.
    pub const REPLY: u32 = 4;
    /// The sender waits for a result.
    pub const NEED_REPLY: u32 = 8;
}

/// Codes of messages from the front end.
pub mod code {
    #![allow(missing_docs)]
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
    pub const GET_INFLIGHT_FD: u32 = 31;
    pub const SET_INFLIGHT_FD: u32 = 32;
    pub const GET_MAX_MEM_SLOTS: u32 = 36;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
    /// To the front end: the configuration space changed.
    pub const BACKEND_CONFIG_CHANGE: u32 = 2;
}

/// Feature bits of virtio and of vhost-user itself.
pub mod feature {
    #![allow(missing_docs)]
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const CONFIG_WCE: u64 = 1 << 11;
    pub const MQ: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const INDIRECT_DESC: u64 = 1 << 28;
    pub const EVENT_IDX: u64 = 1 << 29;
    pub const PROTOCOL_FEATURES: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Feature bits of the vhost-user protocol.
pub mod protocol_feature {
    #![allow(missing_docs)]
    pub const MQ: u64 = 1 << 0;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const BACKEND_REQ: u64 = 1 << 5;
    pub const CONFIG: u64 = 1 << 9;
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
}

/// Flags of a descriptor.
pub mod descriptor_flag {
    /// Another follows.
    pub const NEXT: u16 = 1;
    /// The device writes to it.
    pub const WRITE: u16 = 2;
    /// It holds a table of descriptors.
    pub const INDIRECT: u16 = 4;
}

/// Types of virtio-blk requests.
pub mod request_type {
    #![allow(missing_docs)]
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// Bytes of a sector, the unit of positions and capacities.
pub const SECTOR_BYTES: u64 = 512;
/// Most data pieces of a request that a driver may use (`seg_max`): a ring of 128 less header and status.
pub const SEG_MAX: u32 = 126;
/// Bytes of the answer to GET_ID.
pub const ID_BYTES: usize = 20;
