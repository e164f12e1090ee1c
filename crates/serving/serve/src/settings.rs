//! Settings of a server: targets, exports and addresses, as plain data, checked as a whole.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use dumbwaiter_controllers::TenantControls;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::access::Access;
use crate::byte_size::{bytes, bytes_if};
pub use crate::device_depth::DeviceDepth;
use crate::tls_settings::TlsSettings;

/// Requests in the device, unless something else is said.
pub(crate) const DEVICE_DEPTH: u32 = 32;
/// Requests that one connection may have under way.
pub(crate) const CONNECTION_REQUESTS: u32 = 64;
/// Connections of a server.
pub(crate) const MAX_CONNECTIONS: u32 = 4096;
/// Memory for requests under way, bytes.
pub(crate) const MEMORY_BYTES: u64 = 256 << 20;
/// Exports of a server.
const MAX_EXPORTS: usize = 4096;
/// Longest name of an export, bytes.
const MAX_NAME: usize = 256;
/// Longest description of an export, bytes: clients get it in an answer, which NBD lets them expect to be short.
const MAX_DESCRIPTION: usize = 1024;
/// Highest number of a block device: what the kernel has minors for.
const UBLK_MAX: u32 = (1 << 20) - 1;
/// Bytes of a block that clients may be shown: what NBD allows, and what the kernel takes for a block device.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 512..=64 << 10;
const UBLK_BLOCK_MAX: u64 = 4096;

/// Whether a file is read and written past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Past it where the target allows that (direct I/O).
    #[default]
    None,
    /// Through the page cache.
    Writeback,
}

impl std::str::FromStr for Cache {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Cache, &'static str> {
        match text {
            "none" => Ok(Cache::None),
            "writeback" => Ok(Cache::Writeback),
            _ => Err("expected none or writeback"),
        }
    }
}

/// An export: a slice of a target, and its tenant's rights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportSettings {
    /// Name that clients ask for.
    pub name: String,
    /// A line for people.
    #[serde(default)]
    pub description: String,
    /// Share relative to the other exports of the target, 1 to 10000.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// First byte on the target.
    #[serde(default, deserialize_with = "bytes")]
    pub offset: u64,
    /// Bytes; to the end of the target if `None`.
    #[serde(default, deserialize_with = "bytes_if")]
    pub size: Option<u64>,
    /// Bytes of a block, of which clients read and write whole ones; the target's if `None`.
    #[serde(default, deserialize_with = "bytes_if")]
    pub block_size: Option<u64>,
    /// Refuse writes.
    #[serde(default)]
    pub readonly: bool,
    /// Most I/Os per second.
    #[serde(default)]
    pub limit_iops: Option<u64>,
    /// Most bytes per second.
    #[serde(default, deserialize_with = "bytes_if")]
    pub limit_bytes: Option<u64>,
    /// I/Os that its limit of them lets through at once after a pause; those of 10 ms if `None`.
    #[serde(default)]
    pub burst_iops: Option<u64>,
    /// Bytes that its limit of them lets through at once after a pause; those of 10 ms if `None`.
    #[serde(default, deserialize_with = "bytes_if")]
    pub burst_bytes: Option<u64>,
    /// I/Os per second that it gets whatever others do.
    #[serde(default)]
    pub reservation_iops: Option<u64>,
    /// Its reservation may be more than the drive has shown.
    #[serde(default)]
    pub over_commit: bool,
    /// Its block device on this machine, `/dev/ublkbN`; none if `None`.
    #[serde(default)]
    pub ublk: Option<u32>,
    /// May overlap other writable exports.
    #[serde(default)]
    pub shared: bool,
    /// Who may open it.
    #[serde(default)]
    pub access: Access,
}

fn default_weight() -> u32 {
    100
}

impl ExportSettings {
    /// The whole target under this name.
    pub fn whole(name: &str) -> ExportSettings {
        ExportSettings {
            name: name.to_owned(),
            description: String::new(),
            weight: default_weight(),
            offset: 0,
            size: None,
            block_size: None,
            readonly: false,
            limit_iops: None,
            limit_bytes: None,
            burst_iops: None,
            burst_bytes: None,
            reservation_iops: None,
            over_commit: false,
            ublk: None,
            shared: false,
            access: Access::default(),
        }
    }

    /// Its limits and its reservation.
    pub(crate) fn limits(&self) -> TenantControls {
        let ExportSettings { limit_iops, limit_bytes, burst_iops, burst_bytes, reservation_iops, .. } = *self;
        let none = TenantControls::default();
        TenantControls { limit_iops, limit_bytes, burst_iops, burst_bytes, reservation_iops, ..none }
    }

    /// Bytes of a block for clients, on a target with blocks of `target_block` bytes.
    pub(crate) fn block_bytes(&self, target_block: u32) -> u32 {
        let own = self.block_size.map_or(target_block, |own| u32::try_from(own).unwrap_or(u32::MAX));
        own.max(target_block)
    }

    /// Checks what can be checked without the target.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |what: String| Err(Error::Export { export: self.name.clone(), what });
        if let Some(bytes) = self.block_size {
            let most = if self.ublk.is_some() { UBLK_BLOCK_MAX } else { *BLOCK_SIZES.end() };
            if !bytes.is_power_of_two() || !BLOCK_SIZES.contains(&bytes) || bytes > most {
                return refuse(format!("block_size {bytes}: expected a power of two from 512 to {most}"));
            }
        }
        if self.name.len() > MAX_NAME || self.name.chars().any(char::is_control) || self.name.contains('/') {
            return refuse(format!("expected a name of at most {MAX_NAME} bytes without `/` and control characters"));
        }
        if self.description.len() > MAX_DESCRIPTION || self.description.chars().any(char::is_control) {
            return refuse(format!(
                "expected a description of at most {MAX_DESCRIPTION} bytes without control characters"
            ));
        }
        if !(1..=dumbwaiter_block::Tenant::MAX_WEIGHT).contains(&self.weight) {
            return refuse(format!("weight {}: expected 1 to 10000", self.weight));
        }
        if let Some(number) = self.ublk.filter(|number| *number > UBLK_MAX) {
            return refuse(format!("ublk {number}: expected a device number from 0 to {UBLK_MAX}"));
        }
        if let Err(what) = self.access.check() {
            return refuse(what);
        }
        if self.size == Some(0) {
            return refuse("size 0: expected at least one block".into());
        }
        for (name, value) in [
            ("limit_iops", self.limit_iops),
            ("limit_bytes", self.limit_bytes),
            ("burst_iops", self.burst_iops),
            ("burst_bytes", self.burst_bytes),
            ("reservation_iops", self.reservation_iops),
        ] {
            if value == Some(0) {
                return refuse(format!("{name} 0: expected at least 1; leave it out for none"));
            }
        }
        for (burst, limit, is_alone) in [
            ("burst_iops", "limit_iops", self.burst_iops.is_some() && self.limit_iops.is_none()),
            ("burst_bytes", "limit_bytes", self.burst_bytes.is_some() && self.limit_bytes.is_none()),
        ] {
            if is_alone {
                return refuse(format!("{burst} is a part of a limit; give {limit} too, or {burst}=none"));
            }
        }
        if let (Some(limit), Some(reservation)) = (self.limit_iops, self.reservation_iops)
            && reservation > limit
        {
            return refuse(format!(
                "reserves {reservation} IOPS, more than its limit of {limit}; raise the limit or lower the reservation"
            ));
        }
        Ok(())
    }
}

/// A target and its exports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSettings {
    /// A file, a device, `null`, `null:SIZE` or `emulate:MODEL`.
    pub target: String,
    /// Its scheduler, as the registry reads it.
    #[serde(default = "default_scheduler")]
    pub scheduler: String,
    /// Requests that the device may hold.
    #[serde(default)]
    pub device_depth: DeviceDepth,
    /// Page cache or not.
    #[serde(default)]
    pub cache: Cache,
    /// Its exports.
    #[serde(default, rename = "export")]
    pub exports: Vec<Arc<ExportSettings>>,
}

fn default_scheduler() -> String {
    "headway".to_owned()
}

impl TargetSettings {
    /// A target without exports.
    pub fn new(target: &str) -> TargetSettings {
        TargetSettings {
            target: target.to_owned(),
            scheduler: default_scheduler(),
            device_depth: DeviceDepth::Default,
            cache: Cache::None,
            exports: Vec::new(),
        }
    }
}

/// Everything that a server is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeSettings {
    /// The targets.
    pub targets: Vec<TargetSettings>,
    /// Folder of the NBD socket, `nbd.sock`.
    pub unix: Option<PathBuf>,
    /// Address for NBD over TCP.
    pub tcp: Option<SocketAddr>,
    /// TLS of NBD connections; none if `None`.
    pub tls: Option<TlsSettings>,
    /// TCP may be served beyond this machine: NBD has no authentication.
    pub insecure: bool,
    /// Sockets of systemd are used in place of `unix` and `tcp`.
    pub activated: bool,
    /// Block devices (`ublk`) outlive the server: requests wait until the next one takes them over.
    pub keep_devices: bool,
    /// Folder of the sockets for virtual machines, `NAME.vhost` for each export.
    pub vhost_user: Option<PathBuf>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Where changes by commands are kept for the next start.
    pub state: Option<PathBuf>,
    /// Folder of the monthly accounts.
    pub accounts: Option<PathBuf>,
    /// Address of metrics and the live page.
    pub http: Option<SocketAddr>,
    /// Names by which a browser may call that address, beside `localhost` and addresses.
    pub http_hosts: Vec<String>,
    /// Connections in all.
    pub max_connections: u32,
    /// Requests that one connection may have under way.
    pub connection_requests: u32,
    /// Memory for requests under way, bytes, by target.
    pub memory: u64,
    /// Memory that an emulated device may fill, bytes.
    pub emulated_memory: u64,
    /// An emulated device keeps no data: reads are zeroes. For loads that only measure.
    pub forget_writes: bool,
    /// Name of the user as whom it serves, once all is opened; the one who started it if `None`.
    pub user: Option<String>,
    /// How long clients may take their replies at the end, seconds.
    pub grace_s: u64,
}

impl Default for ServeSettings {
    fn default() -> ServeSettings {
        ServeSettings {
            targets: Vec::new(),
            unix: None,
            tcp: None,
            tls: None,
            insecure: false,
            activated: false,
            keep_devices: false,
            vhost_user: None,
            control: None,
            state: None,
            accounts: None,
            http: None,
            http_hosts: Vec::new(),
            max_connections: MAX_CONNECTIONS,
            connection_requests: CONNECTION_REQUESTS,
            memory: MEMORY_BYTES,
            emulated_memory: 1 << 30,
            forget_writes: false,
            user: None,
            grace_s: 10,
        }
    }
}

impl ServeSettings {
    /// Has any export a block device on this machine?
    pub(crate) fn has_devices(&self) -> bool {
        self.targets.iter().flat_map(|target| &target.exports).any(|export| export.ublk.is_some())
    }

    /// Connections that one export may have: half of all, where there are several exports.
    pub(crate) fn tenant_connections(&self) -> u32 {
        let exports: usize = self.targets.iter().map(|target| target.exports.len()).sum();
        if exports > 1 { (self.max_connections / 2).max(1) } else { self.max_connections }
    }

    /// Do all NBD clients prove who they are?
    fn knows_its_clients(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.required && tls.verify_peer)
    }

    /// Checks what can be checked without opening anything.
    pub fn check(&self) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::Settings(what.to_owned()));
        if self.targets.is_empty() {
            return refuse("nothing to serve: give --target FILE|DEVICE|null|emulate:MODEL, or --config FILE");
        }
        if self.activated && (self.unix.is_some() || self.tcp.is_some()) {
            return refuse(
                "systemd passed a socket (LISTEN_FDS), which takes the place of --unix and --tcp; leave them out",
            );
        }
        if !self.activated
            && self.unix.is_none()
            && self.tcp.is_none()
            && self.vhost_user.is_none()
            && !self.has_devices()
            && !self.targets.iter().flat_map(|target| &target.exports).any(|export| export.access.socket.is_some())
        {
            return refuse(
                "no address for clients: give --unix DIR, --tcp ADDR:PORT, --vhost-user DIR or an export with socket=PATH or ublk=N",
            );
        }
        if let Some(tcp) = self.tcp.filter(|tcp| !tcp.ip().is_loopback() && !self.insecure && !self.knows_its_clients())
        {
            return Err(Error::Settings(format!(
                "tcp {tcp}: any client that reaches this address could read and write the exports; add --tls require --tls-verify-peer, or allow it with --insecure"
            )));
        }
        if self.user.is_some() && self.has_devices() {
            return refuse("block devices (ublk) need root as long as they are served; leave out --user");
        }
        if self.memory < 64 << 20 {
            return refuse("memory: expected at least 64 MiB, as one request may take 32 MiB");
        }
        if self.connection_requests == 0 || self.max_connections == 0 {
            return refuse("max_connections and connection_requests: expected at least 1");
        }
        let all = || self.targets.iter().flat_map(|target| &target.exports);
        let exports = all().count();
        if exports > MAX_EXPORTS {
            return Err(Error::Settings(format!("{exports} exports; expected at most {MAX_EXPORTS}")));
        }
        let mut names = std::collections::BTreeSet::new();
        for target in &self.targets {
            if target.exports.is_empty() {
                return Err(Error::Settings(format!(
                    "{}: no export; add --export NAME, or [[target.export]] to the configuration",
                    target.target
                )));
            }
            if let DeviceDepth::Fixed(depth) = target.device_depth {
                let checked = DeviceDepth::fixed(u64::from(depth));
                checked.map_err(|what| Error::Settings(format!("{}: {what}", target.target)))?;
            }
            for export in &target.exports {
                export.check()?;
                if !names.insert(export.name.as_str()) {
                    return Err(Error::Export {
                        export: export.name.clone(),
                        what: "two exports have this name; give each its own".into(),
                    });
                }
            }
        }
        all().try_for_each(|export| self.check_access(export))
    }

    /// Refuses an export that nobody could open, or whose socket is another one of the server's.
    pub(crate) fn check_access(&self, export: &ExportSettings) -> Result<(), Error> {
        if let Some(path) = &export.access.socket {
            let common = self.unix.as_ref().map(|folder| folder.join("nbd.sock"));
            let taken = [&common, &self.control].into_iter().flatten();
            if taken.filter_map(|taken| std::path::absolute(taken).ok()).any(|taken| taken == *path) {
                let what = format!("socket {}: the server has another use for it; choose another path", path.display());
                return Err(Error::Export { export: export.name.clone(), what });
            }
        }
        if export.access.certificates.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.verify_peer) {
            return Ok(());
        }
        let what = "certificates: no client shows one that was checked; set tls and tls_verify_peer".to_owned();
        Err(Error::Export { export: export.name.clone(), what })
    }
}

/// Where an export lies once the size of its target is known: first byte and size.
pub(crate) fn place(export: &ExportSettings, target_bytes: u64, block: u32) -> Result<(u64, u64), Error> {
    let refuse = |what: String| Err(Error::Export { export: export.name.clone(), what });
    if let Some(own) = export.block_size.filter(|own| *own < u64::from(block)) {
        return refuse(format!("block_size {own}: expected {block} at least, the target's block size"));
    }
    let block = u64::from(export.block_bytes(block));
    if !export.offset.is_multiple_of(block) {
        return refuse(format!("offset {}: expected a multiple of {block} bytes, the block size", export.offset));
    }
    if export.offset >= target_bytes {
        return refuse(format!(
            "offset {} lies beyond the end of the target, which has {target_bytes} bytes",
            export.offset
        ));
    }
    let room = target_bytes - export.offset;
    let size = export.size.unwrap_or(room);
    if size > room {
        return refuse(format!(
            "offset {} plus size {size} lies beyond the end of the target, which has {target_bytes} bytes",
            export.offset
        ));
    }
    let size = size / block * block;
    if size == 0 {
        return refuse(format!("smaller than one block of {block} bytes"));
    }
    Ok((export.offset, size))
}

/// Is this target `null` or `null:SIZE`, which keeps nothing of what clients write?
pub(crate) fn is_null(target: &str) -> bool {
    target == "null" || target.starts_with("null:")
}

/// Refuses writable exports of `target` that overlap, unless both are marked as shared or the target keeps no data.
pub(crate) fn check_overlap<'a>(
    target: &str,
    placed: impl Iterator<Item = (&'a ExportSettings, u64, u64)>,
) -> Result<(), Error> {
    if is_null(target) {
        return Ok(());
    }
    let mut writable: Vec<_> = placed.filter(|(export, ..)| !export.readonly && !export.shared).collect();
    writable.sort_by_key(|(_, offset, _)| *offset);
    for pair in writable.windows(2) {
        let ((a, offset, size), (b, begin, _)) = (pair[0], pair[1]);
        if offset + size > begin {
            return Err(Error::Export {
                export: b.name.clone(),
                what: format!(
                    "overlaps the writable export `{}`; give them different slices, or shared=yes to both",
                    a.name
                ),
            });
        }
    }
    Ok(())
}
