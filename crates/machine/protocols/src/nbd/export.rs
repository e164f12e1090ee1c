//! The description of an export for clients.

/// Block sizes of an export, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it: a power of two, at most 64 KiB.
    pub minimum: u32,
    /// Requests of multiples of it are fast: a power of two, at least 512.
    pub preferred: u32,
    /// Largest payload.
    pub maximum: u32,
}

impl Default for BlockSizes {
    /// The protocol's default.
    fn default() -> BlockSizes {
        BlockSizes { minimum: 1, preferred: 4096, maximum: 32 << 20 }
    }
}

/// An export as it is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Its canonical name.
    pub name: String,
    /// A line for people; may be empty.
    pub text: String,
    /// Bytes.
    pub size: u64,
    /// Transmission flags; see [`crate::nbd::wire::transmission`]. `SEND_DF` is added where structured replies were agreed on.
    pub flags: u16,
    /// Sizes of requests.
    pub block_sizes: BlockSizes,
}

/// The exports of a server.
pub trait Exports {
    /// The export of this name; the empty name asks for the default one.
    fn find(&self, name: &str) -> Option<Description>;
    /// Name and description of each export.
    fn list(&self) -> Vec<(String, String)>;
}
