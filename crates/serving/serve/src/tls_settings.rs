//! Whether NBD clients use TLS, and with which certificates.

use std::path::PathBuf;

use crate::Error;

/// TLS of NBD connections.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsSettings {
    /// Clients must use it; they may otherwise.
    pub required: bool,
    /// Folder of `server-cert.pem`, `server-key.pem` and, to check clients, `ca-cert.pem` and perhaps `ca-crl.pem`.
    pub certificates: PathBuf,
    /// Clients must show a certificate that the authority of `ca-cert.pem` has signed.
    pub verify_peer: bool,
}

impl TlsSettings {
    /// Reads `off`, `on` or `require`, with the folder that goes with the latter two.
    pub fn parse(mode: &str, certificates: Option<PathBuf>, verify_peer: bool) -> Result<Option<TlsSettings>, Error> {
        let refuse = |what: String| Err(Error::Settings(what));
        let required = match mode {
            "off" if certificates.is_some() || verify_peer => {
                return refuse(
                    "tls_certificates and tls_verify_peer have no effect without TLS; set tls to on or require".into(),
                );
            }
            "off" => return Ok(None),
            "on" => false,
            "require" => true,
            other => return refuse(format!("tls `{other}`: expected off, on or require")),
        };
        match certificates {
            Some(certificates) => Ok(Some(TlsSettings { required, certificates, verify_peer })),
            None => {
                refuse(format!("tls {mode} needs tls_certificates, the folder of server-cert.pem and server-key.pem"))
            }
        }
    }
}
