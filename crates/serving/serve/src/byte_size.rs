//! Numbers of bytes as people write them.

use dumbwaiter_text::units::{Prefixes, size};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// A number of bytes: `20GiB`, or a whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        from.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of bytes, or a size such as \"20GiB\"")
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<Bytes, E> {
        u64::try_from(bytes).map(Bytes).map_err(|_| E::invalid_value(Unexpected::Signed(bytes), &self))
    }

    fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<Bytes, E> {
        Ok(Bytes(bytes))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Bytes, E> {
        size(text, Prefixes::Plain).map(Bytes).map_err(E::custom)
    }
}

/// For a field of bytes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Bytes::deserialize(from)?.0)
}

/// For a field of bytes that may be missing.
pub(crate) fn bytes_if<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Bytes>::deserialize(from)?.map(|bytes| bytes.0))
}
