//! Whom TLS trusts: those whom the host trusts.

use std::path::PathBuf;
use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where distributions keep them, all in one file.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Names another file, as with OpenSSL.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The settings of TLS; an error when the host trusts nobody.
pub fn config() -> Result<TlsConfig, String> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let places: Vec<PathBuf> = match named {
        Some(name) => vec![name.into()],
        None => BUNDLES.iter().map(PathBuf::from).collect(),
    };
    let text = places.iter().find_map(|place| std::fs::read(place).ok());
    let Some(text) = text else {
        return Err(format!(
            "no certificates to trust: looked for {} and {VARIABLE}; install ca-certificates",
            BUNDLES.join(", ")
        ));
    };
    let certificates: Vec<Certificate<'static>> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}
