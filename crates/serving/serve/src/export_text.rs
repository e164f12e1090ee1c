//! An export as it is typed: `NAME[:key=value,...]`.

use dumbwaiter_text::units::{Prefixes, size};

use crate::Error;
use crate::settings::ExportSettings;

/// Keys that are understood, for people.
const KEYS: &str = "weight, offset, size, block_size, readonly, limit_iops, limit_bytes, burst_iops, burst_bytes, reservation, \
     over_commit, ublk, shared, users, groups, certificates, socket, hidden, description";

impl ExportSettings {
    /// Reads `NAME`, `NAME:weight=400,offset=0,size=20G`, or `name=NAME,weight=400`.
    pub fn parse(text: &str) -> Result<ExportSettings, Error> {
        let (name, pairs) = match text.split_once(':') {
            Some((name, pairs)) => (name, pairs),
            None if text.contains('=') => ("", text),
            None => (text, ""),
        };
        let mut export = ExportSettings::whole(name);
        for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
            set(&mut export, pair).map_err(|what| Error::Export { export: text.to_owned(), what })?;
        }
        export.check()?;
        Ok(export)
    }

    /// The same with other settings, each `KEY=VALUE`.
    pub(crate) fn with(mut self, settings: &[String]) -> Result<ExportSettings, Error> {
        let name = self.name.clone();
        for pair in settings {
            set(&mut self, pair).map_err(|what| Error::Export { export: name.clone(), what })?;
        }
        if self.name != name {
            return Err(Error::Export { export: name, what: "its name cannot change while the server runs".into() });
        }
        self.check()?;
        Ok(self)
    }
}

fn bytes(key: &str, value: &str) -> Result<u64, String> {
    size(value, Prefixes::Plain).map_err(|e| format!("{key}: {e}"))
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{key} `{value}`: expected a whole number"))
}

/// Values joined by `+`; `none` for none.
fn list<T: std::str::FromStr>(key: &str, value: &str) -> Result<Vec<T>, String> {
    let values = value.split('+').filter(|value| *value != "none");
    let wrong = |value| format!("{key} `{value}`: expected numbers of users or groups, or names, joined by `+`");
    values.map(|value| value.parse().map_err(|_| wrong(value))).collect()
}

/// Changes a setting by its text, `KEY=VALUE` or `KEY`.
fn set(export: &mut ExportSettings, pair: &str) -> Result<(), String> {
    let (key, value) = pair.split_once('=').unwrap_or((pair, "yes"));
    let (key, value) = (key.trim(), value.trim());
    let unless_none = |read: fn(&str, &str) -> Result<u64, String>| match value {
        "none" => Ok(None),
        _ => read(key, value).map(Some),
    };
    let flag = || match value {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        other => Err(format!("{key} `{other}`: expected yes or no")),
    };
    match key {
        "name" => value.clone_into(&mut export.name),
        "weight" => export.weight = u32::try_from(number(key, value)?).unwrap_or(u32::MAX),
        "offset" => export.offset = bytes(key, value)?,
        "size" => export.size = Some(bytes(key, value)?),
        "block_size" => export.block_size = Some(bytes(key, value)?),
        "readonly" | "read-only" => export.readonly = flag()?,
        "writable" => export.readonly = !flag()?,
        "limit_iops" | "iops" => export.limit_iops = unless_none(number)?,
        "limit_bytes" | "bps" => export.limit_bytes = unless_none(bytes)?,
        "burst_iops" => export.burst_iops = unless_none(number)?,
        "burst_bytes" => export.burst_bytes = unless_none(bytes)?,
        "over_commit" => export.over_commit = flag()?,
        "reservation" | "reservation_iops" => export.reservation_iops = unless_none(number)?,
        "ublk" => export.ublk = Some(u32::try_from(number(key, value)?).unwrap_or(u32::MAX)),
        "shared" => export.shared = flag()?,
        "users" => export.access.change(|rules| list(key, value).map(|users| rules.users = users))?,
        "groups" => export.access.change(|rules| list(key, value).map(|groups| rules.groups = groups))?,
        "certificates" => {
            export.access.change(|rules| list(key, value).map(|certificates| rules.certificates = certificates))?
        }
        "socket" => export.access.change(|rules| rules.socket = (value != "none").then(|| value.into())),
        "hidden" => export.access.change(|rules| flag().map(|hidden| rules.hidden = hidden))?,
        "description" => value.clone_into(&mut export.description),
        other => return Err(format!("unknown key `{other}`; expected one of {KEYS}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_read_in_both_notations() {
        let a = ExportSettings::parse("db:weight=400,offset=1M,size=2GiB,readonly,limit_iops=500").unwrap();
        assert_eq!((a.name.as_str(), a.weight, a.offset, a.size), ("db", 400, 1 << 20, Some(2 << 30)));
        assert!(a.readonly && a.limit_iops == Some(500));
        assert_eq!(ExportSettings::parse("name=db,weight=400").unwrap().weight, 400);
        let access = ExportSettings::parse("db:users=1000+1001,certificates=vm1.example,hidden").unwrap().access;
        assert_eq!((&access.users, &access.certificates), (&vec![1000, 1001], &vec!["vm1.example".to_owned()]));
        assert!(access.hidden && access.groups.is_empty());
        assert_eq!(ExportSettings::parse("db").unwrap(), ExportSettings::whole("db"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        for (text, reason) in [
            ("a:weight=0", "expected 1 to 10000"),
            ("a:weight=1000000", "expected 1 to 10000"),
            ("a:weight=x", "whole number"),
            ("a:wieght=5", "unknown key `wieght`"),
            ("a:readonly=maybe", "yes or no"),
            ("a:size=0", "at least one block"),
            ("a:ublk=5000000", "device number"),
            ("a:block_size=3000", "a power of two from 512 to 65536"),
            ("a:block_size=1T", "block_size 1099511627776: expected a power of two from 512 to 65536"),
            ("a:block_size=8k,ublk=0", "a power of two from 512 to 4096"),
            ("a:ublk=sda", "whole number"),
            ("a/b", "without `/`"),
            ("a:limit_iops=10,reservation=20", "more than its limit of 10"),
            ("a:users=root", "expected numbers of users"),
            ("a:certificates=*.example", "expected a DNS name"),
            ("a:socket=a.sock", "the absolute path of a Unix socket"),
            ("a:burst_iops=10", "give limit_iops too"),
            ("a:limit_bytes=1M,burst_bytes=0", "burst_bytes 0: expected at least 1"),
        ] {
            let error = ExportSettings::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
