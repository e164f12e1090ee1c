//! Certificates and keys, in files with the names that nbdkit and QEMU use.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::Error;
use crate::tls_settings::TlsSettings;

/// Whom clients must have their certificates from.
const AUTHORITIES: &str = "ca-cert.pem";
/// Certificates that are no longer valid; may be missing.
const REVOKED: &str = "ca-crl.pem";
const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";

/// TLS 1.2 and 1.3 with the certificate of the folder.
pub(super) fn server_config(settings: &TlsSettings) -> Result<ServerConfig, Error> {
    let folder = &settings.certificates;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let refuse =
        |file: &str, what: &dyn std::fmt::Display| Error::Config { path: folder.join(file), reason: what.to_string() };
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| refuse(CERTIFICATE, &e))?;
    let builder = match settings.verify_peer {
        true => builder.with_client_cert_verifier(client_verifier(folder)?),
        false => builder.with_no_client_auth(),
    };
    let chain = certificates(&folder.join(CERTIFICATE))?;
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY)).map_err(|e| refuse(KEY, &e))?;
    builder.with_single_cert(chain, key).map_err(|e| refuse(CERTIFICATE, &e))
}

/// Accepts clients with a certificate of the authorities that is not revoked.
fn client_verifier(folder: &Path) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let authorities = folder.join(AUTHORITIES);
    let refuse = |what: &dyn std::fmt::Display| Error::Config { path: authorities.clone(), reason: what.to_string() };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&authorities)? {
        roots.add(certificate).map_err(|e| refuse(&e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let revoked = folder.join(REVOKED);
    if revoked.exists() {
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_file_iter(&revoked).and_then(|lists| lists.collect());
        let lists = lists.map_err(|e| Error::Config { path: revoked.clone(), reason: e.to_string() })?;
        builder = builder.with_crls(lists).only_check_end_entity_revocation();
    }
    builder.build().map_err(|e| refuse(&e))
}

/// All certificates of a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let refuse = |reason: String| Error::Config { path: path.to_owned(), reason };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(|all| all.collect());
    let read = read.map_err(|e| refuse(e.to_string()))?;
    if read.is_empty() {
        return Err(refuse("no certificate in it; expected `-----BEGIN CERTIFICATE-----`".into()));
    }
    Ok(read)
}
