//! The kernel's words: its release, and limits as they stand in `io.max`.

use super::{Rates, Release};

impl Release {
    /// The arithmetic of a kernel of this release, such as `6.12.117+deb12-cloud-amd64`. `None`: it is no release.
    ///
    /// Recordings exist of 6.12 and 6.18. Older kernels are taken for 6.12, those in between too.
    pub fn of(text: &str) -> Option<Release> {
        let mut numbers = text.split(['.', '-', '+']).map(str::parse::<u32>);
        match (numbers.next()?.ok()?, numbers.next()?.ok()?) {
            version if version >= (6, 18) => Some(Release::V6_18),
            _ => Some(Release::V6_12),
        }
    }
}

/// Limits of reads and of writes after a text such as `rbps=1048576 riops=max`, in bytes and I/Os per second. Keys that are not there
/// keep their values.
///
/// # Errors
///
/// A key that `io.max` does not have, or a value that is neither `max` nor a number from 1.
pub fn with_limits(before: [Rates; 2], text: &str) -> Result<[Rates; 2], String> {
    let mut rates = before;
    for part in text.split_whitespace() {
        let [reads, writes] = &mut rates;
        let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}`: expected KEY=VALUE"))?;
        let limit = match key {
            "rbps" => &mut reads.bytes,
            "wbps" => &mut writes.bytes,
            "riops" => &mut reads.ios,
            "wiops" => &mut writes.ios,
            _ => return Err(format!("`{key}`: expected rbps, wbps, riops or wiops")),
        };
        *limit = match value {
            "max" => None,
            _ => {
                let number = value.parse().ok().filter(|number| *number > 0);
                Some(number.ok_or_else(|| format!("{key}: `{value}`: expected max or a number from 1"))?)
            }
        };
    }
    Ok(rates)
}

/// The limits as [`with_limits`] reads them; empty if there are none.
pub fn limits_text(rates: [Rates; 2]) -> String {
    let [reads, writes] = rates;
    let limits = [("rbps", reads.bytes), ("wbps", writes.bytes), ("riops", reads.ios), ("wiops", writes.ios)];
    let words = limits.iter().filter_map(|(key, limit)| limit.map(|limit| format!("{key}={limit}")));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_choose_the_arithmetic() {
        assert_eq!(Release::of("6.12.117+deb12-cloud-amd64"), Some(Release::V6_12));
        assert_eq!(Release::of("6.18.15+deb13-cloud-amd64"), Some(Release::V6_18));
        assert_eq!(Release::of("7.0-rc1"), Some(Release::V6_18));
        assert_eq!(Release::of("5.15"), Some(Release::V6_12));
        assert_eq!((Release::of(""), Release::of("linux")), (None, None));
    }

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let first = with_limits(Default::default(), "rbps=1048576 wiops=7").unwrap();
        assert_eq!((first[0].bytes, first[1].ios), (Some(1 << 20), Some(7)));
        let second = with_limits(first, "rbps=max riops=100").unwrap();
        assert_eq!((second[0], second[1]), (Rates { bytes: None, ios: Some(100) }, first[1]));
        assert_eq!(limits_text(first), "rbps=1048576 wiops=7");
        assert_eq!(with_limits(Default::default(), &limits_text(second)), Ok(second));
        for (text, said) in [
            ("rbps=0", "rbps: `0`: expected max or a number from 1"),
            ("riops=many", "riops: `many`: expected max or a number from 1"),
            ("iops=7", "`iops`: expected rbps, wbps, riops or wiops"),
            ("rbps", "`rbps`: expected KEY=VALUE"),
        ] {
            assert_eq!(with_limits(first, text).unwrap_err(), said);
        }
    }
}
