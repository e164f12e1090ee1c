//! The configuration file: targets and exports as TOML.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;
use crate::byte_size::Bytes;
use crate::settings::{ServeSettings, TargetSettings};
use crate::tls_settings::TlsSettings;

/// An address with a port.
struct Address(SocketAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let text = String::deserialize(from)?;
        let expected = "an address and a port such as 127.0.0.1:10809 or [::1]:10809";
        let refused = |_| serde::de::Error::custom(format!("{text:?} is not {expected}"));
        text.parse().map(Address).map_err(refused)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    unix: Option<PathBuf>,
    tcp: Option<Address>,
    #[serde(default)]
    insecure: bool,
    vhost_user: Option<PathBuf>,
    #[serde(default)]
    keep_devices: bool,
    control: Option<PathBuf>,
    state: Option<PathBuf>,
    accounts: Option<PathBuf>,
    http: Option<Address>,
    #[serde(default)]
    http_hosts: Vec<String>,
    max_connections: Option<u32>,
    connection_requests: Option<u32>,
    memory: Option<Bytes>,
    emulated_memory: Option<Bytes>,
    #[serde(default)]
    forget_writes: bool,
    grace_s: Option<u64>,
    tls: Option<String>,
    tls_certificates: Option<PathBuf>,
    #[serde(default)]
    tls_verify_peer: bool,
    user: Option<String>,
    #[serde(default, rename = "target")]
    targets: Vec<TargetSettings>,
}

impl ServeSettings {
    /// Reads a configuration from TOML; `path` is for messages.
    pub fn from_toml(text: &str, path: &Path) -> Result<ServeSettings, Error> {
        let refuse = |reason: String| Error::Config { path: path.to_owned(), reason };
        let file: File = toml::from_str(text).map_err(|e| refuse(e.to_string()))?;
        let default = ServeSettings::default();
        let settings = ServeSettings {
            targets: file.targets,
            unix: file.unix,
            tcp: file.tcp.map(|address| address.0),
            tls: TlsSettings::parse(file.tls.as_deref().unwrap_or("off"), file.tls_certificates, file.tls_verify_peer)
                .map_err(|e| refuse(e.to_string()))?,
            insecure: file.insecure,
            activated: false,
            vhost_user: file.vhost_user,
            keep_devices: file.keep_devices,
            control: file.control,
            state: state_path(file.state, path),
            accounts: file.accounts,
            http: file.http.map(|address| address.0),
            http_hosts: file.http_hosts,
            max_connections: file.max_connections.unwrap_or(default.max_connections),
            connection_requests: file.connection_requests.unwrap_or(default.connection_requests),
            memory: file.memory.map_or(default.memory, |bytes| bytes.0),
            emulated_memory: file.emulated_memory.map_or(default.emulated_memory, |bytes| bytes.0),
            forget_writes: file.forget_writes,
            grace_s: file.grace_s.unwrap_or(default.grace_s),
            user: file.user,
        };
        Ok(settings)
    }

    /// Reads a configuration file. What commands change is kept beside it, unless it says where.
    pub fn from_file(path: &Path) -> Result<ServeSettings, Error> {
        let refuse = |reason: String| Error::Config { path: path.to_owned(), reason };
        let text = dumbwaiter_text::read_config(path).map_err(refuse)?;
        ServeSettings::from_toml(&text, path)
    }
}

/// Where changes by commands are kept: beside the configuration, unless something else is said.
fn state_path(asked: Option<PathBuf>, configuration: &Path) -> Option<PathBuf> {
    let beside = || PathBuf::from(format!("{}.state", configuration.display()));
    Some(asked.unwrap_or_else(beside)).filter(|path| path.as_os_str() != "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ServeSettings, Error> {
        let settings = ServeSettings::from_toml(text, Path::new("disks.toml"))?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn a_file_describes_targets_and_their_exports() {
        let settings = read(
            "unix = '/run/disks'\nmemory = '128MiB'\n\
             [[target]]\ntarget = 'disk.img'\nscheduler = 'bfq'\n\
             [[target.export]]\nname = 'db'\nweight = 400\nsize = '20GiB'\nblock_size = '4KiB'\n\
             [[target.export]]\nname = 'batch'\noffset = '20GiB'\nlimit_iops = 500\n\
             [[target]]\ntarget = 'null'\n[[target.export]]\nname = 'void'\n",
        )
        .unwrap();
        assert_eq!((settings.targets.len(), settings.memory), (2, 128 << 20));
        assert_eq!(settings.targets[0].exports[0].block_size, Some(4096));
        let batch = &settings.targets[0].exports[1];
        assert_eq!((batch.offset, batch.weight, batch.limit_iops), (20 << 30, 100, Some(500)));
    }

    #[test]
    fn what_cannot_be_names_its_place() {
        let target = "unix = '/run'\n[[target]]\ntarget = 'null'\n";
        for (text, reason) in [
            (format!("{target}[[target.export]]\nname = 'a'\nwieght = 3\n"), "wieght"),
            (format!("{target}[[target.export]]\nname = 'a'\nweight = 0\n"), "expected 1 to 10000"),
            (
                format!("{target}[[target.export]]\nname = 'a'\n[[target.export]]\nname = 'a'\n"),
                "two exports have this name",
            ),
            (format!("{target}[[target.export]]\nname = 'a'\nsize = '2 lumps'\n"), "disks.toml"),
            (format!("{target}[[target.export]]\nname = 'a'\nsize = true\n"), "or a size such as"),
            (format!("{target}[[target.export]]\nname = 'a'\nsize = -5\n"), "or a size such as"),
            (format!("{target}device_depth = true\n"), "a device depth from 1 to 4096"),
            (format!("{target}device_depth = 0\n"), "expected 1 to 4096, or auto"),
            ("tcp = 'localhost'\n".to_owned(), "\"localhost\" is not an address and a port"),
            (target.to_owned(), "no export"),
            ("unix = '/run'\n".to_owned(), "nothing to serve"),
            (
                "tcp = '0.0.0.0:1'\n[[target]]\ntarget = 'null'\n[[target.export]]\nname = 'a'\n".to_owned(),
                "--insecure",
            ),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "\\PC*") {
            let _ = read(&text);
        }
    }
}
