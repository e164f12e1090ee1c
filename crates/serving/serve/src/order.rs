//! The orders that a running server takes: each is one row, typed after `ctl`, sent over the control socket and carried out by a disk.

use dumbwaiter_text::units::{Prefixes, UnitError, size};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::settings::{DeviceDepth, ExportSettings};

/// An order: `ctl set-weight db 400`, or `{"command": "set-weight", "export": "db", "weight": 400}` on the socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// The exports, with sizes and weights
    #[serde(alias = "query-exports")]
    List {},
    /// Counts, shares and latencies of all exports
    #[serde(alias = "query-stats")]
    Stats {},
    /// Change settings of an export (`set db weight=800 limit_iops=500`), or one of a disk (`set scheduler=bfq`)
    Set {
        /// The export; a disk if `None`.
        #[arg(skip)]
        #[serde(default)]
        export: Option<String>,
        /// weight, limit_iops, limit_bytes, burst_iops, burst_bytes, reservation_iops (`none` removes these five), over_commit, size or
        /// description of an export; scheduler, device_depth or a setting of the scheduler of a disk
        #[arg(required = true, value_name = "[EXPORT] KEY=VALUE")]
        settings: Vec<String>,
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
    /// Change the weight of an export
    #[command(hide = true)]
    SetWeight {
        /// Its name
        export: String,
        /// 1 to 10000
        weight: u32,
    },
    /// Change the limits of an export; without --iops and --bytes both are removed
    #[command(hide = true)]
    SetLimit {
        /// Its name
        export: String,
        /// I/Os per second
        #[arg(long)]
        #[serde(default)]
        iops: Option<u64>,
        /// Bytes per second
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        #[serde(default)]
        bytes: Option<u64>,
    },
    /// Change the reservation of an export; without --iops it is removed
    #[command(hide = true)]
    SetReservation {
        /// Its name
        export: String,
        /// I/Os per second
        #[arg(long)]
        #[serde(default)]
        iops: Option<u64>,
    },
    /// Exchange the scheduler of a disk, while it serves
    #[command(hide = true)]
    SetScheduler {
        /// With settings, as `serve --scheduler` takes it
        scheduler: String,
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
    /// Change a setting of a disk's scheduler
    #[command(hide = true)]
    #[serde(alias = "set-tunable")]
    SetSetting {
        /// The setting
        name: String,
        /// Its value
        #[arg(allow_negative_numbers = true)]
        value: i64,
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
    /// Change how many requests a device may hold
    #[command(hide = true)]
    SetDepth {
        /// A number of requests, or auto
        depth: DeviceDepth,
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
    /// Add an export
    #[serde(alias = "export-add", alias = "block-export-add")]
    Add {
        /// As --export of `serve`
        #[arg(value_parser = ExportSettings::parse)]
        export: ExportSettings,
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
    /// Withdraw an export; it is removed when its last client disconnects
    #[serde(alias = "export-del", alias = "block-export-del")]
    Remove {
        /// Its name
        export: String,
        /// Disconnect its clients
        #[arg(long)]
        #[serde(default)]
        hard: bool,
    },
    /// Change the size of an export
    Resize {
        /// Its name
        export: String,
        /// Bytes, or a size such as 20GiB
        #[arg(value_parser = bytes)]
        size: u64,
    },
    /// Withdraw an export and wait for its last client to disconnect
    Drain {
        /// Its name
        export: String,
        /// Seconds to wait
        #[arg(long = "timeout", value_name = "TIMEOUT", default_value_t = DRAIN_S)]
        #[serde(default = "drain_s")]
        timeout_s: u64,
    },
    /// Take clients of an export again that is being drained
    Undrain {
        /// Its name
        export: String,
    },
    /// Write what commands have set to the state file, for the next start; each change does so by itself
    Save {},
    /// Take back what commands have changed: serve as configured
    Reset {},
    /// The latencies of an export since the start, as a histogram
    #[command(name = "snapshot", alias = "histogram")]
    #[serde(alias = "snapshot")]
    Histogram {
        /// Its name
        export: String,
    },
    /// Explain the scheduler and the depth of a disk
    Explain {
        /// Number of the disk, by the order of the configuration
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        disk: usize,
    },
}

/// Seconds that a drain waits, unless others are given.
const DRAIN_S: u64 = 10;

fn drain_s() -> u64 {
    DRAIN_S
}

/// A size as it is typed.
fn bytes(text: &str) -> Result<u64, UnitError> {
    size(text, Prefixes::Plain)
}

/// The disk that an order is for.
pub(crate) enum Recipient<'a> {
    Disk(usize),
    /// The one that serves this export.
    Of(&'a str),
}

impl Order {
    /// The order as it was typed: what stands before the first `KEY=VALUE` of `set` is an export.
    #[must_use]
    pub fn from_words(mut self) -> Order {
        if let Order::Set { export, settings, .. } = &mut self
            && settings.first().is_some_and(|word| !word.contains('='))
        {
            *export = Some(settings.remove(0));
        }
        self
    }

    /// Does it change something at once? A drain waits for clients and holds nothing meanwhile.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(
            self,
            Order::List {} | Order::Stats {} | Order::Drain { .. } | Order::Histogram { .. } | Order::Explain { .. }
        )
    }

    pub(crate) fn recipient(&self) -> Recipient<'_> {
        match self {
            Order::Set { export: Some(export), .. }
            | Order::SetWeight { export, .. }
            | Order::SetLimit { export, .. }
            | Order::SetReservation { export, .. }
            | Order::Remove { export, .. }
            | Order::Resize { export, .. }
            | Order::Drain { export, .. }
            | Order::Undrain { export }
            | Order::Histogram { export } => Recipient::Of(export),
            Order::Set { disk, .. }
            | Order::SetScheduler { disk, .. }
            | Order::SetSetting { disk, .. }
            | Order::SetDepth { disk, .. }
            | Order::Add { disk, .. }
            | Order::Explain { disk } => Recipient::Disk(*disk),
            Order::List {} | Order::Stats {} | Order::Save {} | Order::Reset {} => Recipient::Disk(0),
        }
    }

    /// A setting of a disk, as `KEY=VALUE`, by the order that changes it.
    pub(crate) fn of_disk(settings: &[String], disk: usize) -> Result<Order, Error> {
        let refuse = |what: String| Err(Error::Settings(what));
        let [(key, value)] = &settings.iter().filter_map(|pair| pair.split_once('=')).collect::<Vec<_>>()[..] else {
            return refuse("expected EXPORT KEY=VALUE …, or one KEY=VALUE of a disk".into());
        };
        Ok(match (*key, value.parse()) {
            ("scheduler", _) => Order::SetScheduler { scheduler: (*value).to_owned(), disk },
            ("device_depth", _) => Order::SetDepth { depth: value.parse().map_err(Error::Settings)?, disk },
            (name, Ok(value)) => Order::SetSetting { name: name.to_owned(), value, disk },
            (name, Err(_)) => return refuse(format!("{name} `{value}`: expected a whole number")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_settings_is_an_export() {
        let typed = |words: &[&str]| {
            let settings = words.iter().map(|word| (*word).to_owned()).collect();
            match (Order::Set { export: None, settings, disk: 3 }).from_words() {
                Order::Set { export, settings, .. } => (export, settings.join(" ")),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(typed(&["db", "weight=5", "size=1G"]), (Some("db".to_owned()), "weight=5 size=1G".to_owned()));
        assert_eq!(typed(&["scheduler=bfq:a=1"]), (None, "scheduler=bfq:a=1".to_owned()));
        let of_disk = |pair: &str| Order::of_disk(&[pair.to_owned()], 3);
        assert_eq!(of_disk("scheduler=bfq:a=1").unwrap(), Order::SetScheduler { scheduler: "bfq:a=1".into(), disk: 3 });
        assert_eq!(of_disk("device_depth=auto").unwrap(), Order::SetDepth { depth: DeviceDepth::Auto, disk: 3 });
        assert_eq!(of_disk("x=-4").unwrap(), Order::SetSetting { name: "x".into(), value: -4, disk: 3 });
        for (wrong, reason) in [("x", "expected EXPORT"), ("x=y", "whole number"), ("device_depth=0", "1 to 4096")] {
            let error = of_disk(wrong).unwrap_err().to_string();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_socket_takes_the_words_of_others_and_no_unknown_keys() {
        let read = |line: &str| serde_json::from_str::<Order>(line);
        assert_eq!(read(r#"{"command": "query-stats"}"#).unwrap(), Order::Stats {});
        assert_eq!(
            read(r#"{"command": "set", "export": "db", "settings": ["weight=8"]}"#).unwrap(),
            Order::Set { export: Some("db".into()), settings: vec!["weight=8".into()], disk: 0 }
        );
        let weight = Order::SetWeight { export: "db".into(), weight: 400 };
        let sent = r#"{"command":"set-weight","export":"db","weight":400}"#;
        assert_eq!(serde_json::to_string(&weight).unwrap(), sent);
        assert!(read(r#"{"command": "list", "x": 1}"#).is_err());
    }
}
