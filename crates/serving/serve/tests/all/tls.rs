//! TLS with the clients that people use.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use dumbwaiter_protocols::nbd::wire::OPTION_MAGIC;
use dumbwaiter_serve::TlsSettings;

use crate::certificates::Certificates;
use crate::running::Running;

struct Encrypted {
    running: Running,
    certificates: Certificates,
    _folder: tempfile::TempDir,
}

/// A server on a Unix socket and a TCP port; `None` without openssl.
fn encrypted(required: bool, verify_peer: bool) -> Option<Encrypted> {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path())?;
    let tls = TlsSettings { required, certificates: certificates.server.clone(), verify_peer };
    let running = Running::with("file", &["a"], |settings| {
        settings.tls = Some(tls);
        settings.tcp = Some("127.0.0.1:0".parse().unwrap());
    });
    Some(Encrypted { running, certificates, _folder: folder })
}

impl Encrypted {
    fn unix(&self, folder: &Path) -> String {
        let (socket, folder) = (self.running.socket().display().to_string(), folder.display());
        format!("nbds+unix://localhost/a?socket={socket}&tls-certificates={folder}")
    }

    fn tcp(&self, folder: &Path) -> String {
        format!("nbds://localhost:{}/a?tls-certificates={}", self.port(), folder.display())
    }

    fn port(&self) -> u16 {
        let uris = self.running.server().uris();
        let uri = uris.iter().find(|uri| uri.contains("://127.0.0.1:")).unwrap();
        uri.rsplit([':', '/']).nth(1).unwrap().parse().unwrap()
    }

    fn failures(&self) -> u64 {
        self.running.server().inspector().failed_negotiations()
    }
}

/// Runs a program for at most a minute: did it succeed, and what did it say? `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    if Command::new(program).arg("--version").output().is_err() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let output = Command::new("timeout").arg("60").arg(program).args(arguments).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some((output.status.success(), text))
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn libnbd_copies_both_ways_over_tls() {
    let Some(server) = encrypted(true, true) else { return };
    let folder = server.running.folder.path();
    let (from, to) = (folder.join("from"), folder.join("to"));
    let data: Vec<u8> = (0..4u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &data).unwrap();
    for uri in [server.unix(&server.certificates.client), server.tcp(&server.certificates.client)] {
        let Some((well, text)) = run("nbdinfo", &[&uri]) else { return };
        assert!(well && text.contains("protocol: newstyle-fixed with TLS"), "{text}");
        for pair in [[from.display().to_string(), uri.clone()], [uri.clone(), to.display().to_string()]] {
            let (well, text) = run("nbdcopy", &[&pair[0], &pair[1]]).unwrap();
            assert!(well, "{pair:?}: {text}");
        }
        assert!(std::fs::read(&to).unwrap() == data);
    }
    assert!(std::fs::read(folder.join("disk.img")).unwrap() == data);
    assert!(server.running.end());
}

#[test]
fn qemu_reads_what_it_wrote_over_tls() {
    let Some(server) = encrypted(true, true) else { return };
    let folder = server.certificates.client.display();
    let object = format!("tls-creds-x509,id=tls0,dir={folder},endpoint=client,verify-peer=yes");
    let image = format!("driver=nbd,host=localhost,port={},tls-creds=tls0,export=a", server.port());
    let arguments = [
        "--object",
        &object,
        "--image-opts",
        &image,
        "-c",
        "write -P 90 1M 64k",
        "-c",
        "flush",
        "-c",
        "read -P 90 1M 64k",
    ];
    let Some((well, text)) = run("qemu-io", &arguments) else { return };
    assert!(well && !text.contains("failed"), "{text}");
    let copy = server.running.folder.path().join("copy").display().to_string();
    let arguments = ["convert", "--object", &object, "--image-opts", &image, "-O", "raw", &copy];
    let (well, text) = run("qemu-img", &arguments).unwrap();
    assert!(well, "{text}");
    let disk = std::fs::read(server.running.folder.path().join("disk.img")).unwrap();
    assert!(std::fs::read(copy).unwrap() == disk && disk[1 << 20] == 90);
    assert!(server.running.end());
}

#[test]
fn only_clients_of_the_authority_are_let_in() {
    let Some(server) = encrypted(true, true) else { return };
    let Certificates { client, stranger, nobody, .. } = &server.certificates;
    for (before, folder) in [stranger, nobody].into_iter().enumerate() {
        let Some((well, text)) = run("nbdinfo", &[&server.tcp(folder)]) else { return };
        assert!(!well, "{text}");
        eventually("it is counted", || server.failures() == before as u64 + 1);
        let (well, text) = run("nbdinfo", &[&server.tcp(client)]).unwrap();
        assert!(well, "another client is let in: {text}");
    }
    let log = server.running.log.lock().unwrap().join("\n");
    assert_eq!(log.matches("TLS failed").count(), 2, "{log}");
}

#[test]
fn without_tls_a_client_is_served_only_where_it_is_not_required() {
    for (required, served) in [(true, false), (false, true)] {
        let Some(server) = encrypted(required, false) else { return };
        let Some((well, text)) = run("nbdinfo", &[&server.running.uri("a")]) else { return };
        assert_eq!(well, served, "{text}");
        let (well, text) = run("nbdinfo", &[&server.unix(&server.certificates.nobody)]).unwrap();
        assert!(well, "no client certificate is asked for: {text}");
        let uris = server.running.server().uris();
        assert!(uris.iter().all(|uri| uri.starts_with("nbds") == required), "{uris:?}");
        assert!(server.running.end());
    }
}

/// A client that gets as far as the answer to STARTTLS.
fn begin(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream.write_all(&[&OPTION_MAGIC.to_be_bytes()[..], &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat()).unwrap();
    stream.read_exact(&mut [0; 20]).unwrap();
    stream
}

#[test]
fn a_broken_handshake_ends_one_client_and_leaves_nothing_behind() {
    let Some(server) = encrypted(false, false) else { return };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for round in 0..20 {
        let mut client = begin(&server.running.socket());
        if round % 2 == 0 {
            client.write_all(&[0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9]).unwrap();
            let mut rest = Vec::new();
            // An alert, then the end, perhaps by a reset.
            let _ = client.read_to_end(&mut rest);
        }
    }
    eventually("all are counted", || server.failures() == 10);
    eventually("all are gone", || server.running.server().inspector().connections() == 0);
    eventually("descriptors are closed", || descriptors() <= before + 4);
    assert_eq!(server.running.connect("a").call(dumbwaiter_protocols::nbd::Command::Read, 0, 512).0, 0);
    assert!(server.running.end());
}

#[test]
fn certificates_that_cannot_be_used_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::make(folder.path()) else { return };
    let start = || {
        let mut target = dumbwaiter_serve::TargetSettings::new("null");
        target.exports.push(dumbwaiter_serve::ExportSettings::whole("a").into());
        let tls = TlsSettings { required: true, certificates: certificates.server.clone(), verify_peer: true };
        let unix = Some(folder.path().join("sockets"));
        let settings =
            dumbwaiter_serve::ServeSettings { targets: vec![target], unix, tls: Some(tls), ..Default::default() };
        dumbwaiter_serve::Server::start(settings, |_| {}).map(drop).map_err(|e| e.to_string())
    };
    start().unwrap();
    std::fs::write(certificates.server.join("ca-cert.pem"), "nothing").unwrap();
    assert!(start().unwrap_err().contains("ca-cert.pem: no certificate"));
    std::fs::copy(certificates.client.join("client-key.pem"), certificates.server.join("server-key.pem")).unwrap();
    std::fs::copy(certificates.client.join("ca-cert.pem"), certificates.server.join("ca-cert.pem")).unwrap();
    let error = start().unwrap_err();
    assert!(error.contains("server-cert.pem"), "{error}");
    std::fs::remove_file(certificates.server.join("server-key.pem")).unwrap();
    let error = start().unwrap_err();
    assert!(error.contains("server-key.pem"), "{error}");
}

#[test]
fn a_certificate_opens_the_exports_that_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(certificates) = Certificates::make(folder.path()) else { return };
    let exports =
        ["others:size=1M,certificates=vm2.example", "own:offset=1M,size=1M,certificates=localhost+vm1.example"];
    let tls = TlsSettings { required: true, certificates: certificates.server.clone(), verify_peer: true };
    let running = Running::with("file", &exports, |settings| settings.tls = Some(tls));
    let read = |export: &str, from: &Path| {
        let (socket, from) = (running.socket().display().to_string(), from.display());
        let uri = format!("nbds+unix://localhost/{export}?socket={socket}&tls-certificates={from}");
        run("nbdinfo", &["--size", &uri])
    };
    let Some((opened, said)) = read("own", &certificates.client) else { return };
    assert!(opened && said.trim() == (1 << 20).to_string(), "{said}");
    assert!(!read("others", &certificates.client).unwrap().0, "its certificate has another name");
    assert_eq!(read("", &certificates.client).unwrap(), (true, said), "the first that it may open");
    assert!(running.end());
}
