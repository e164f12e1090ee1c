//! Parameter tables: names, types and ranges of the parameters of a device file, in one place for files, overrides and
//! error messages.

use std::fmt;

use dumbwaiter_block::hint::did_you_mean_of;
use toml::{Table, Value};

use crate::Error;

/// Most sectors of a device: 512 PiB.
pub(crate) const CAPACITY_SECTORS_MAX: i64 = 1 << 50;

/// A parameter of a kind of device.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in files and overrides; it ends in the unit.
    pub name: &'static str,
    /// Type and range.
    pub expect: Expect,
    /// A short description.
    pub about: &'static str,
}

/// Type and range of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expect {
    /// A whole number in a closed range.
    Int(i64, i64),
    /// A number in a closed range.
    Num(f64, f64),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Int(low, high) => write!(f, "a whole number from {low} to {high}"),
            Expect::Num(low, high) => write!(f, "a number from {low} to {high}"),
            Expect::Bool => write!(f, "true or false"),
            Expect::OneOf(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

impl Expect {
    /// Converts a value to this type; `None` if it has another type or is out of range.
    fn accept(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Expect::Int(low, high), Value::Integer(i)) if (low..=high).contains(i) => Some(value.clone()),
            (Expect::Num(low, high), Value::Float(x)) if (low..=high).contains(x) => Some(value.clone()),
            (Expect::Num(..), Value::Integer(i)) => self.accept(&Value::Float(*i as f64)),
            (Expect::Bool, Value::Boolean(_)) => Some(value.clone()),
            (Expect::OneOf(words), Value::String(s)) if words.contains(&s.as_str()) => Some(value.clone()),
            _ => None,
        }
    }

    /// Parses the text of an override.
    fn parse(self, text: &str) -> Value {
        let parsed = match self {
            Expect::Int(..) => text.parse().ok().map(Value::Integer),
            Expect::Num(..) => text.parse().ok().map(Value::Float),
            Expect::Bool => text.parse().ok().map(Value::Boolean),
            Expect::OneOf(_) => None,
        };
        parsed.unwrap_or_else(|| Value::String(text.to_owned()))
    }
}

/// Sets `key` from the text of an override.
pub(crate) fn set(keys: &[Key], table: &mut Table, origin: &str, key: &str, text: &str) -> Result<(), Error> {
    let known = find(keys, origin, key)?;
    let value = known.expect.parse(text);
    let value = known.expect.accept(&value).ok_or_else(|| invalid(origin, key, text, known.expect))?;
    table.insert(key.to_owned(), value);
    Ok(())
}

/// Checks that the table contains exactly the parameters of `keys`, each in its range, and converts each to its type.
pub(crate) fn check(keys: &[Key], table: &mut Table, origin: &str) -> Result<(), Error> {
    for (key, value) in table.iter_mut() {
        let known = find(keys, origin, key)?;
        match known.expect.accept(value) {
            Some(accepted) => *value = accepted,
            None => return Err(invalid(origin, key, value, known.expect)),
        }
    }
    match keys.iter().find(|key| !table.contains_key(key.name)) {
        Some(key) => Err(Error::Missing { origin: origin.to_owned(), key: key.name, expected: key.expect.to_string() }),
        None => Ok(()),
    }
}

/// The error of a value that is not `expected`.
pub(crate) fn invalid(origin: &str, key: &str, value: impl fmt::Display, expected: impl fmt::Display) -> Error {
    Error::Invalid {
        origin: origin.to_owned(),
        key: key.to_owned(),
        value: value.to_string(),
        expected: expected.to_string(),
    }
}

fn find<'a>(keys: &'a [Key], origin: &str, key: &str) -> Result<&'a Key, Error> {
    keys.iter().find(|known| known.name == key).ok_or_else(|| Error::UnknownKey {
        origin: origin.to_owned(),
        key: key.to_owned(),
        hint: hint(key, keys.iter().map(|known| known.name)),
    })
}

/// The end of the error: "; did you mean `a` or `b`?" with the names that contain the given one or else the most similar
/// one, or all names.
pub(crate) fn hint<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = known.collect();
    let within: Vec<&str> = all.iter().copied().filter(|name| given.len() >= 3 && name.contains(given)).collect();
    if within.is_empty() {
        did_you_mean_of(given, &all)
    } else {
        format!("; did you mean `{}`?", within.join("` or `"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn num_accepts_integers_but_int_no_fractions() {
        assert_eq!(Expect::Num(0.0, 5.0).accept(&Value::Integer(3)), Some(Value::Float(3.0)));
        assert_eq!(Expect::Int(0, 5).accept(&Value::Float(3.0)), None);
        assert_eq!(Expect::Num(0.0, 5.0).accept(&Value::Float(f64::NAN)), None);
    }
}
