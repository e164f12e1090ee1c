//! A parameter that a fit may move.

use dumbwaiter_devices::Expect;
use serde::Serialize;

/// A parameter of the fitted model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedParameter {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The value of the class.
    pub class: f64,
    /// How much the errors grow where it is 10 % larger or smaller, as a part of them, whichever is less.
    pub determined: f64,
}

/// Range of a parameter of numbers, and whether they are whole; `None` where a search cannot move it.
pub(super) fn is_number(expect: Expect) -> Option<(f64, f64, bool)> {
    match expect {
        Expect::Num(low, high) => Some((low, high, false)),
        Expect::Int(low, high) => Some((low as f64, high as f64, true)),
        Expect::Bool | Expect::OneOf(_) => None,
    }
}
