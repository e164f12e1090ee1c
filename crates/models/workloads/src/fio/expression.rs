//! Arithmetic in values: `(4*1024)`, `$pagesize`.

use dumbwaiter_text::units::{self, BareTime, Prefixes};

/// Deepest nesting of parentheses.
const NESTING_MAX: u32 = 64;

/// Evaluates the arithmetic in a value, which may be a `time`; other values are returned unchanged. The error is a clause
/// that follows the value.
pub(super) fn expand(value: &str, time: bool, prefixes: Prefixes) -> Result<String, String> {
    for keyword in ["$mb_memory", "$ncpus"] {
        if value.contains(keyword) {
            return Err(format!("depends on the machine through {keyword}; write the number"));
        }
    }
    let known = value.replace("$pagesize", "4096");
    if !value.starts_with('(') && known == value {
        return Ok(known);
    }
    let mut cursor = Cursor { rest: &known, time, prefixes };
    let result = cursor.sum(0)?;
    if !cursor.rest.trim().is_empty() {
        return Err(format!("has {:?} behind the end of its arithmetic", cursor.rest.trim()));
    }
    if !(0.0..9.0e18).contains(&result) {
        return Err(format!("comes to {result}, which is not a number from 0 below 2^63"));
    }
    Ok(format!("{}{}", result as u64, if time { "us" } else { "" }))
}

struct Cursor<'a> {
    rest: &'a str,
    /// Numbers with a unit are times, in microseconds.
    time: bool,
    prefixes: Prefixes,
}

impl Cursor<'_> {
    /// Consumes the next character that is not blank, if it is one of `any`.
    fn take(&mut self, any: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let c = self.rest.chars().next().filter(|c| any.contains(c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn sum(&mut self, depth: u32) -> Result<f64, String> {
        let mut value = self.product(depth)?;
        while let Some(sign) = self.take(&['+', '-']) {
            let right = self.product(depth)?;
            value += if sign == '+' { right } else { -right };
        }
        Ok(value)
    }

    fn product(&mut self, depth: u32) -> Result<f64, String> {
        let mut value = self.power(depth)?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let right = self.power(depth)?;
            if sign != '*' && right == 0.0 {
                return Err("divides by 0".to_string());
            }
            value = match sign {
                '*' => value * right,
                '/' => value / right,
                _ => value % right,
            };
        }
        Ok(value)
    }

    fn power(&mut self, depth: u32) -> Result<f64, String> {
        if depth > NESTING_MAX {
            return Err("is nested too deeply".to_string());
        }
        let base = match self.take(&['-', '(']) {
            Some('-') => return self.power(depth + 1).map(|value| -value),
            Some(_) => {
                let value = self.sum(depth + 1)?;
                self.take(&[')']).ok_or("lacks a closing parenthesis")?;
                value
            }
            None => self.number()?,
        };
        match self.take(&['^']) {
            Some(_) => Ok(libm::pow(base, self.power(depth + 1)?)),
            None => Ok(base),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        let bare = token.chars().all(|c| c.is_ascii_digit() || c == '.');
        let value = match self.time && !bare {
            true => units::time(token, BareTime::Refused).ok().map(|t| t.as_us_f64()),
            false if bare => token.parse::<f64>().ok(),
            false => units::size(token, self.prefixes).ok().map(|n| n as f64),
        };
        let shown: String = self.rest.chars().take(20).collect();
        self.rest = rest;
        value.ok_or_else(|| format!("has {shown:?} where a number was expected"))
    }
}
