//! The certificates that zonefetch trusts: those that the host trusts.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The files in which distributions keep all certificates.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The environment variable that names another file of certificates, as with OpenSSL.
const VARIABLE: &str = "SSL_CERT_FILE";

/// Returns the settings of TLS. Fails if the host has no trusted certificates.
pub fn config() -> Result<Arc<ClientConfig>, String> {
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
    let places: Vec<PathBuf> = match named {
        Some(name) => vec![name.into()],
        None => BUNDLES.iter().map(PathBuf::from).collect(),
    };
    let found = places.iter().find_map(|place| {
        let text = std::fs::read(place).ok()?;
        Some((place, text))
    });
    let Some((place, text)) = found else {
        return Err(format!(
            "no certificates to trust: looked for {} and {VARIABLE}; install ca-certificates",
            BUNDLES.join(", ")
        ));
    };
    let certificates = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
    let verifier = Trusted::new(certificates).map_err(|error| {
        format!(
            "{}: expected certificates in PEM, found none to trust ({error})",
            place.display()
        )
    })?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Returns the cryptography provider of TLS.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns true if a request failed because no authority that the host trusts has signed the
/// certificate.
pub fn is_unknown(error: &ureq::Error) -> bool {
    let error = match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|error| error.downcast_ref()),
        _ => None,
    };
    matches!(
        error,
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    )
}

/// A certificate verifier that trusts certificates signed by the host's authorities. As OpenSSL
/// does, it also trusts a server whose own certificate is among those that the host trusts.
/// `openssl req -x509` makes such certificates: they sign themselves and are marked as an
/// authority, which webpki refuses for a server.
#[derive(Debug)]
struct Trusted {
    signed: Arc<WebPkiServerVerifier>,
    certificates: HashSet<CertificateDer<'static>>,
}

impl Trusted {
    fn new(
        certificates: impl Iterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, impl std::error::Error> {
        let certificates: HashSet<_> = certificates.collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let signed =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        signed.map(|signed| Self {
            signed,
            certificates,
        })
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let refused = match self.signed.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        ) {
            Err(refused) if self.certificates.contains(end_entity) => refused,
            verdict => return verdict,
        };
        // webpki checks the time of a certificate before it comes to either of the two.
        let is_for_its_signer = match &refused {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
            Error::InvalidCertificate(CertificateError::Other(other)) => matches!(
                other.0.downcast_ref(),
                Some(webpki::Error::CaUsedAsEndEntity)
            ),
            _ => false,
        };
        if !is_for_its_signer {
            return Err(refused);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// As `openssl req -x509` makes them, for registry.test and 127.0.0.1.
    const OWN: &[u8] = include_bytes!("../testdata/self.crt");
    const OTHER: &[u8] = include_bytes!("../testdata/other.crt");
    /// The certificate of a server, signed by an unknown authority.
    const LEAF: &[u8] = include_bytes!("../testdata/leaf.crt");
    /// All three are valid from 2026-11-23 to 2036-11-20.
    const THEN: u64 = 1_900_000_000;

    fn read(pem: &[u8]) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem).unwrap()
    }

    fn verify(trusted: &[u8], shown: &[u8], name: &str, now: u64) -> Result<(), String> {
        let trusted = Trusted::new([read(trusted)].into_iter()).unwrap();
        let name = ServerName::try_from(name).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        let verdict = trusted.verify_server_cert(&read(shown), &[], &name, &[], now);
        verdict.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_with_a_trusted_certificate_of_its_own_is_trusted() {
        for pem in [OWN, LEAF] {
            assert_eq!(verify(pem, pem, "registry.test", THEN), Ok(()));
            assert_eq!(verify(pem, pem, "127.0.0.1", THEN), Ok(()));
        }
    }

    #[test]
    fn a_trusted_certificate_must_match_the_name_and_be_valid_now() {
        for pem in [OWN, LEAF] {
            for (name, now, why) in [
                ("other.test", THEN, "not valid for name"),
                ("127.0.0.2", THEN, "not valid for name"),
                ("registry.test", 1_700_000_000, "not valid yet"),
                ("registry.test", 2_200_000_000, "expired"),
            ] {
                let error = verify(pem, pem, name, now).unwrap_err();
                assert!(error.contains(why), "{why}: {error}");
            }
        }
    }

    #[test]
    fn another_certificate_is_not_trusted() {
        for (trusted, shown) in [(OWN, OTHER), (OTHER, OWN), (LEAF, OWN), (OWN, LEAF)] {
            assert!(verify(trusted, shown, "registry.test", THEN).is_err());
        }
    }
}
