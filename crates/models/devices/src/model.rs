//! Loads device models by name or from a file.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use dumbwaiter_block::ServiceOracle;
use serde::Serialize;
use toml::{Table, Value};

use crate::catalogue::{Entry, entries};
use crate::keys::{self, Key, hint};
use crate::kind::DeviceParams;
use crate::{Arbiter, Device, Error, Facts, hdd, null, ssd, ull, volume};

/// From variant, module and description of each kind: [`Kind`], [`Params`] and what they dispatch. The module has the type
/// `Params` with its [`DeviceParams`], and the names and ranges of the parameters as `KEYS`.
macro_rules! kinds {
    ($($kind:ident($module:ident): $about:literal;)*) => {
        /// The kinds of device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind {
            $(#[doc = $about] $kind,)*
        }

        /// The parameters of a device.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum Params {
            $(#[doc = $about] $kind($module::Params),)*
        }

        const KIND_NAMES: &[&str] = &[$(stringify!($module)),*];

        impl Kind {
            /// All kinds.
            pub const ALL: [Kind; KIND_NAMES.len()] = [$(Kind::$kind),*];

            /// The parameters of this kind.
            pub fn keys(self) -> &'static [Key] {
                match self {
                    $(Kind::$kind => $module::KEYS,)*
                }
            }

            /// The parameters of `table`, completed and checked.
            fn params(self, mut table: Table, origin: &str) -> Result<Params, Error> {
                Ok(match self {
                    $(Kind::$kind => {
                        complete::<$module::Params>(&mut table);
                        keys::check($module::KEYS, &mut table, origin)?;
                        Params::$kind(typed::<$module::Params>(table, origin)?.checked(origin)?)
                    })*
                })
            }
        }

        impl DeviceModel {
            /// The kind of device.
            pub fn kind(&self) -> Kind {
                match self.params {
                    $(Params::$kind(_) => Kind::$kind,)*
                }
            }
        }

        /// Evaluates an expression of the parameters, of whichever kind they are.
        macro_rules! of_any {
            ($params:expr, $p:ident => $value:expr) => {
                match $params {
                    $(Params::$kind($p) => $value,)*
                }
            };
        }
    };
}

kinds! {
    Hdd(hdd): "Hard disk.";
    Ssd(ssd): "Flash SSD.";
    Ull(ull): "Ultra-low-latency SSD.";
    Volume(volume): "Cloud block volume.";
    Null(null): "Fixed latency.";
}

impl Kind {
    /// The name before the colon of a device name.
    pub fn name(self) -> &'static str {
        KIND_NAMES[self as usize]
    }
}

/// Puts in the parameters that a file may leave out.
fn complete<P: DeviceParams>(table: &mut Table) {
    for (name, value) in P::OPTIONAL {
        table.entry(*name).or_insert(Value::Float(*value));
    }
    for name in P::OFF {
        table.entry(*name).or_insert(Value::Boolean(false));
    }
}

/// A checked device description, from which devices are built.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceModel {
    name: String,
    description: String,
    #[serde(flatten)]
    params: Params,
}

impl DeviceModel {
    /// The name it was loaded by, with its overrides.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Properties for the block layer, the same as [`Device::facts`] of a device built from it.
    pub fn facts(&self) -> Facts {
        of_any!(&self.params, p => p.facts())
    }

    /// How it is connected: `sata`, `nvme`, `usb`, `mmc`, or `virtual`, a volume's.
    pub fn interface(&self) -> &str {
        match &self.params {
            Params::Hdd(_) => "sata",
            Params::Ssd(ssd) => &ssd.interface,
            Params::Ull(_) | Params::Null(_) => "nvme",
            Params::Volume(_) => "virtual",
        }
    }

    /// This model with further overrides, in the syntax after the `?` of [`load`].
    ///
    /// # Errors
    /// As [`load`].
    pub fn with(&self, overrides: &str) -> Result<DeviceModel, Error> {
        let separator = if self.name.contains('?') { '&' } else { '?' };
        load(&format!("{}{separator}{overrides}", self.name))
    }

    /// This model with room for `sectors`, under the same name: a hard disk gets more surfaces, the others only more
    /// addresses, so that their timing stays what it was.
    ///
    /// # Errors
    /// More sectors than a model may have (2^50).
    pub fn grown(&self, sectors: u64) -> Result<DeviceModel, Error> {
        if sectors > keys::CAPACITY_SECTORS_MAX as u64 {
            let expected = format!("at most {}", keys::CAPACITY_SECTORS_MAX);
            return Err(keys::invalid(&self.name, "capacity_sectors", sectors, expected));
        }
        let mut params = self.params.clone();
        of_any!(&mut params, p => p.grow(sectors));
        Ok(DeviceModel { params, ..self.clone() })
    }

    /// The slowest of several drives of this model behind one host. A job that goes over all of them with one queue has most of its I/Os
    /// in that one.
    #[must_use]
    pub fn slowest(&self) -> DeviceModel {
        let mut params = self.params.clone();
        of_any!(&mut params, p => p.slow_down());
        DeviceModel { params, ..self.clone() }
    }

    /// Builds a device in its initial state. Each device of a run needs a seed of its own.
    pub fn build(&self, seed: u64) -> Box<dyn Device> {
        of_any!(&self.params, p => p.build(seed))
    }

    /// As [`DeviceModel::build`], with weighted classes of commands where the drive has NVMe's: [`Device::set_class_weights`].
    pub fn build_with_classes(&self, seed: u64) -> Box<dyn Device> {
        let device = self.build(seed);
        if of_any!(&self.params, p => p.nvme()) { Box::new(Arbiter::new(device)) } else { device }
    }

    /// Exact service times of the device that [`DeviceModel::build`] makes with this seed, where they can be known
    /// beforehand: of a disk, and of a device with a fixed latency.
    pub fn oracle(&self, seed: u64) -> Option<Arc<dyn ServiceOracle>> {
        of_any!(&self.params, p => p.oracle(seed))
    }
}

/// A built-in device.
#[derive(Clone, Copy, Debug)]
pub struct ModelInfo {
    /// `kind:name`.
    pub name: &'static str,
    /// The kind of device.
    pub kind: Kind,
    /// One line.
    pub about: &'static str,
    /// The parameter file, with grade and source of each constant; a template for files of other devices.
    pub toml: &'static str,
}

macro_rules! built_in {
    ($kind:ident, $folder:literal, $name:literal, $about:literal) => {
        ModelInfo {
            name: concat!($folder, ":", $name),
            kind: Kind::$kind,
            about: $about,
            toml: include_str!(concat!("../params/", $folder, "/", $name, ".toml")),
        }
    };
}

/// The built-in devices.
pub fn models() -> &'static [ModelInfo] {
    const MODELS: &[ModelInfo] = &[
        built_in!(Hdd, "hdd", "st1000dm003", "Seagate Barracuda 1 TB, 7200 rpm, as its data sheet promises"),
        built_in!(Hdd, "hdd", "st1000dm003-slow", "the same, with the seeks and cache measured on a sibling drive"),
        built_in!(Hdd, "hdd", "hts541010a9e662", "HGST Travelstar 1 TB, 5400 rpm, 2.5 inch"),
        built_in!(Hdd, "hdd", "exos-x16", "Seagate Exos X16, 16 TB, 7200 rpm, conventional recording (CMR)"),
        built_in!(Hdd, "hdd", "smr-16tb", "a drive-managed shingled disk (SMR) of 16 TB; no product, see the file"),
        built_in!(Hdd, "hdd", "dt01aca200", "Toshiba DT01ACA200 2 TB, 7200 rpm, reads beside writes as measured"),
        built_in!(Ssd, "ssd", "px256m5s", "Plextor M5S 256 GB, SATA, 2012"),
        built_in!(Ssd, "ssd", "850pro-256", "Samsung 850 Pro 256 GB, SATA, 2014"),
        built_in!(Ssd, "ssd", "sata-mlc", "a commodity MLC SATA SSD"),
        built_in!(Ssd, "ssd", "nvme-tlc", "a mid-range NVMe TLC SSD; every constant estimated"),
        built_in!(Ssd, "ssd", "pm893-960", "Samsung PM893 960 GB, enterprise SATA, 2021"),
        built_in!(Ssd, "ssd", "990evo-plus-2tb", "Samsung 990 EVO Plus 2 TB, NVMe TLC, 2024"),
        built_in!(Ssd, "ssd", "d5-p5430", "Solidigm D5-P5430 7.68 TB, NVMe QLC, 2023"),
        built_in!(Ssd, "ssd", "980pro-1tb", "Samsung 980 Pro 1 TB, NVMe TLC, 2020, overwritten"),
        built_in!(Ssd, "ssd", "i3en-nvme", "NVMe drive of an AWS i3en.3xlarge instance"),
        built_in!(Ssd, "ssd", "i3-nvme", "NVMe drive of an AWS i3.2xlarge instance; its writes by class"),
        built_in!(Ssd, "ssd", "microsd-a1", "a microSD card of the classes A1 and V30; by class"),
        built_in!(Ssd, "ssd", "usb-stick", "a USB 3 flash stick; by class"),
        built_in!(Ull, "ull", "optane-900p", "Intel Optane 900P"),
        built_in!(Ull, "ull", "optane-p4801x", "Intel Optane P4801X 100 GB"),
        built_in!(Ull, "ull", "zssd-sz985", "Samsung Z-SSD SZ985, reads and short write bursts"),
        built_in!(Ull, "ull", "zssd-sz985-steady", "Samsung Z-SSD SZ985, steady writes"),
        built_in!(Volume, "volume", "ebs-gp3", "Amazon EBS gp3 at its baseline, 3000 I/O/s"),
        built_in!(Volume, "volume", "ebs-gp2-100", "Amazon EBS gp2 of 100 GiB, 300 I/O/s with bursts of 3000"),
        built_in!(Volume, "cloud", "gcp-pd-ssd", "Google Cloud persistent disk, SSD, 2 TB, behind a cache"),
        built_in!(Null, "null", "0us", "completes at once, so only the host costs time"),
    ];
    MODELS
}

static CATALOGUE: LazyLock<Vec<ModelInfo>> = LazyLock::new(|| {
    entries().map(|Entry { name, about, toml }| ModelInfo { name, kind: Kind::Ssd, about, toml }).collect()
});

/// Drives of which only the limits were measured; [`load`] takes them by name as it does [`models`].
pub fn catalogue() -> &'static [ModelInfo] {
    &CATALOGUE
}

/// Loads a device model by `kind:name`, an unambiguous `name` or `kind`, or the path of a `.toml` file. Each may be
/// followed by overrides: `ssd:sata-mlc?channels=1&cache=off`.
///
/// A file contains `kind`, optionally `description`, and either every parameter of its kind or `base = "kind:name"` and
/// the parameters that differ.
///
/// # Errors
/// Names the wrong name, file, key or value, and what is expected.
pub fn load(spec: &str) -> Result<DeviceModel, Error> {
    let (name, overrides) = spec.split_once('?').unwrap_or((spec, ""));
    if name.contains('/') || name.ends_with(".toml") {
        let path = Path::new(name);
        let text = read_parameters(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        return parse(&text, name, overrides);
    }
    let info = resolve(name)?;
    let (kind, _, table) = read(info.toml, info.name)?;
    overridden(kind, info.about.to_owned(), table, info.name, overrides)
}

/// The name of a device of which `percent` hold data, as [`load`] takes it. An SSD is in its steady state, and what is free is
/// room for its garbage collection; other devices do not know their data.
///
/// # Errors
/// As [`load`].
pub fn filled(spec: &str, percent: u8) -> Result<String, Error> {
    let model = load(spec)?;
    let Params::Ssd(p) = model.params() else { return Ok(spec.to_owned()) };
    let share = f64::from(percent.clamp(1, 100)) / 100.0;
    let room = (1.0 + p.over_provisioning) / share - 1.0;
    // As much flash as before holds less data; a part of it is simulated.
    let mapped = p.ftl_gib.min(FILLED_GIB_MAX) * share;
    let separator = if spec.contains('?') { '&' } else { '?' };
    Ok(format!("{spec}{separator}state=steady&ftl_gib={mapped:.3}&over_provisioning={room:.4}"))
}

/// Mapped space of a device made by [`filled`], full, in GiB.
const FILLED_GIB_MAX: f64 = 4.0;

/// A device model from the text of a parameter file, which errors call `origin`, with overrides as in [`load`].
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, origin: &str, overrides: &str) -> Result<DeviceModel, Error> {
    let (kind, description, table) = read(text, origin)?;
    overridden(kind, description, table, origin, overrides)
}

fn overridden(
    kind: Kind,
    description: String,
    mut table: Table,
    origin: &str,
    overrides: &str,
) -> Result<DeviceModel, Error> {
    for pair in overrides.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| keys::invalid(origin, pair, "nothing", "parameter=value"))?;
        keys::set(kind.keys(), &mut table, origin, key.trim(), value.trim())?;
    }
    let params = kind.params(table, origin)?;
    let name = if overrides.is_empty() { origin.to_owned() } else { format!("{origin}?{overrides}") };
    Ok(DeviceModel { name, description, params })
}

/// Largest parameter file.
const PARAMETER_BYTES_MAX: u64 = 1 << 20;

fn read_parameters(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(PARAMETER_BYTES_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > PARAMETER_BYTES_MAX {
        true => Err(std::io::Error::other("more than 1 MiB; expected a device's parameters")),
        false => Ok(text),
    }
}

/// The built-in device with this name.
fn resolve(name: &str) -> Result<&'static ModelInfo, Error> {
    if let Some(info) = models().iter().chain(catalogue()).find(|info| info.name == name) {
        return Ok(info);
    }
    let fits: Vec<&ModelInfo> = models()
        .iter()
        .filter(|info| info.name.split_once(':').is_some_and(|(_, bare)| bare == name) || info.kind.name() == name)
        .collect();
    match fits[..] {
        [info] => Ok(info),
        [] => Err(Error::UnknownModel { name: name.to_owned(), hint: near(name) }),
        _ => Err(Error::Ambiguous {
            name: name.to_owned(),
            choices: fits.iter().map(|info| info.name).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn near(name: &str) -> String {
    let names = || models().iter().chain(catalogue()).map(|info| info.name);
    let bare = name.split_once(':').map_or(name, |(_, bare)| bare);
    let by_name = hint(name, names());
    let found = if by_name.contains("did you mean") { by_name } else { hint(bare, names()) };
    if found.contains("known: ") { format!("{found}, or a path to a .toml file") } else { found }
}

/// Kind, description and parameters of a file, completed from its base.
fn read(text: &str, origin: &str) -> Result<(Kind, String, Table), Error> {
    let mut table: Table = text
        .parse()
        .map_err(|e: toml::de::Error| Error::Syntax { origin: origin.to_owned(), message: e.to_string() })?;
    let kinds = || keys::Expect::OneOf(KIND_NAMES);
    let description = match table.remove("description") {
        None => String::new(),
        Some(Value::String(text)) => text,
        Some(other) => return Err(keys::invalid(origin, "description", other, "a text")),
    };
    let base = match table.remove("base") {
        None => None,
        Some(Value::String(name)) => Some(resolve(&name)?),
        Some(other) => return Err(keys::invalid(origin, "base", other, "the name of a built-in device")),
    };
    let kind = match (table.remove("kind"), base) {
        (Some(given), _) => Kind::ALL
            .into_iter()
            .find(|kind| given.as_str() == Some(kind.name()))
            .ok_or_else(|| keys::invalid(origin, "kind", given, kinds()))?,
        (None, Some(base)) => base.kind,
        (None, None) => {
            return Err(Error::Missing { origin: origin.to_owned(), key: "kind", expected: kinds().to_string() });
        }
    };
    if let Some(base) = base {
        if base.kind != kind {
            let expected = format!("{}, the kind of {}", base.kind.name(), base.name);
            return Err(keys::invalid(origin, "kind", kind.name(), expected));
        }
        let (_, _, mut whole) = read(base.toml, base.name)?;
        whole.extend(table);
        table = whole;
    }
    if kind == Kind::Null {
        // What a file may leave out.
        for key in ["channels", "write_cache"] {
            table.entry(key).or_insert(Value::Integer(0));
        }
    }
    Ok((kind, description, table))
}

fn typed<T: serde::de::DeserializeOwned>(table: Table, origin: &str) -> Result<T, Error> {
    table.try_into().map_err(|e| Error::Syntax { origin: origin.to_owned(), message: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(spec: &str) -> String {
        load(spec).expect_err("must be refused").to_string()
    }

    #[test]
    fn every_built_in_loads_and_builds() {
        for info in models().iter().chain(catalogue()) {
            let model = load(info.name).unwrap();
            assert_eq!(model.name(), info.name);
            assert_eq!(model.kind(), info.kind);
            assert_eq!(model.facts(), model.build(1).facts());
            let (_, description, _) = read(info.toml, info.name).unwrap();
            assert!(!description.is_empty(), "{}", info.name);
        }
    }

    #[test]
    fn bare_names_and_overrides_load() {
        assert_eq!(load("850pro-256").unwrap().name(), "ssd:850pro-256");
        assert_eq!(load("null").unwrap().name(), "null:0us");
        let model = load("st1000dm003?ncq_depth=4&lookahead=false").unwrap();
        assert_eq!(model.facts().depth, 4);
        assert_eq!(model.name(), "hdd:st1000dm003?ncq_depth=4&lookahead=false");
    }

    #[test]
    fn errors_name_key_value_and_expected_value() {
        assert_eq!(
            message("hdd:st1000dm003?ncq_depth=33"),
            "hdd:st1000dm003: ncq_depth = 33: expected a whole number from 1 to 32"
        );
        let misspelt = message("ssd:sata-mlc?chanels=1");
        let expected = "ssd:sata-mlc: unknown parameter `chanels`; did you mean `channels`? known: ";
        assert!(misspelt.starts_with(expected), "{misspelt}");
        assert!(message("ssd:sata-mlc?cache=maybe").contains("cache = maybe: expected one of on, off"));
        assert!(message("ssd:sata-mlc?cache").contains("parameter=value"));
        assert!(message("hdd").contains("ambiguous"));
        assert!(message("hdd:st1000dm03").contains("hdd:st1000dm003"));
        assert!(message("tape").contains("hdd:st1000dm003"));
        assert!(message("./no-such.toml").contains("./no-such.toml"));
    }

    #[test]
    fn bad_files_are_refused() {
        let origin = "my.toml";
        let read_all = |text: &str| {
            let (kind, _, mut table) = read(text, origin)?;
            keys::check(kind.keys(), &mut table, origin).map(|()| table)
        };
        let base = parse("base = \"null:0us\"\nlatency_ns = 7", origin, "").unwrap();
        assert!(matches!(base.params(), Params::Null(params) if params.latency_ns == 7));
        let text = |bad: &str| read_all(bad).unwrap_err().to_string();
        assert!(text("kind = \"tape\"").contains("kind = \"tape\": expected one of hdd, ssd, ull, volume, null"));
        assert!(text("latency_ns = 7").contains("'kind' is missing"));
        assert!(text("kind = \"null\"\nlatency_ns = 7").contains("is missing"));
        let named = text("base = \"null:0us\"\nlatency = 7");
        assert!(named.contains("unknown parameter `latency`; did you mean `latency_ns`?"), "{named}");
        assert!(text("kind = \"hdd\"\nbase = \"null:0us\"").contains("expected null"));
        assert!(text("kind = ").contains("line 1"));
    }
}
