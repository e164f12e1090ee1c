//! TLS policy of a server.

/// Whether clients may or must send `STARTTLS` before they agree on an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// The server has no TLS: `STARTTLS` is refused.
    #[default]
    Off,
    /// Clients may use it.
    Allowed,
    /// Clients must use it: until then every other option but `ABORT` is refused.
    Required,
}
