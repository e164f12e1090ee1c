//! Who a TLS client is, by its certificate.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// The certificate that a client has shown, once the handshake is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity(Arc<OnceLock<CertificateDer<'static>>>);

impl Identity {
    /// The certificate is known, and was checked.
    pub(super) fn is(&self, certificate: &CertificateDer<'_>) {
        // It is shown once.
        let _ = self.0.set(certificate.clone().into_owned());
    }

    /// Is the certificate for this DNS name?
    pub(crate) fn has(&self, name: &str) -> bool {
        let Some(certificate) = self.0.get() else { return false };
        let (Ok(parsed), Ok(name)) = (ParsedCertificate::try_from(certificate), ServerName::try_from(name)) else {
            return false;
        };
        rustls::client::verify_server_name(&parsed, &name).is_ok()
    }
}
