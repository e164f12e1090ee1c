//! Certificates for a test, made by the openssl program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Two folders as nbdkit, QEMU and libnbd expect them.
pub(crate) struct Certificates {
    /// With the server's certificate, and the authority of the clients'.
    pub(crate) server: PathBuf,
    /// With a client's certificate, and the authority of the server's.
    pub(crate) client: PathBuf,
    /// With a certificate from another authority.
    pub(crate) stranger: PathBuf,
    /// Without a certificate.
    pub(crate) nobody: PathBuf,
}

fn openssl(folder: &Path, arguments: &str) -> bool {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let output = match output {
        Ok(output) => output,
        Err(_) => return false,
    };
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

/// A certificate and its key in `folder`, signed by the authority of `authority`.
fn signed(folder: &Path, authority: &Path, name: &str, extensions: &str) {
    std::fs::write(folder.join("extensions"), extensions).unwrap();
    let request = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj";
    openssl(folder, &format!("{request} /CN={name} -keyout {name}-key.pem -out {name}.csr"));
    let authority = authority.display();
    let by = format!("-CA {authority}/ca-cert.pem -CAkey {authority}/ca-key.pem -CAcreateserial");
    openssl(folder, &format!("x509 -req -in {name}.csr {by} -days 3650 -extfile extensions -out {name}-cert.pem"));
}

impl Certificates {
    /// In folders of `root`; `None` without openssl.
    pub(crate) fn make(root: &Path) -> Option<Certificates> {
        let folder = |name: &str| {
            let path = root.join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (ours, others) = (folder("authority"), folder("other-authority"));
        for authority in [&ours, &others] {
            let new =
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=authority";
            if !openssl(authority, &format!("{new} -keyout ca-key.pem -out ca-cert.pem")) {
                eprintln!("skipped: openssl is not installed");
                return None;
            }
        }
        let (server, client, stranger, nobody) =
            (folder("server"), folder("client"), folder("stranger"), folder("nobody"));
        for each in [&server, &client, &stranger, &nobody] {
            std::fs::copy(ours.join("ca-cert.pem"), each.join("ca-cert.pem")).unwrap();
        }
        let leaf = "basicConstraints=CA:FALSE\n";
        let names = format!("{leaf}subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n");
        signed(&server, &ours, "server", &names);
        let named = format!("{leaf}subjectAltName=DNS:vm1.example\nextendedKeyUsage=clientAuth\n");
        signed(&client, &ours, "client", &named);
        signed(&stranger, &others, "client", &format!("{leaf}extendedKeyUsage=clientAuth\n"));
        Some(Certificates { server, client, stranger, nobody })
    }
}
