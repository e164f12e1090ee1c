//! The numeric settings of a scheduler: one row for each, with all that there is to say about it.

use dumbwaiter_block::Tunable;

/// A setting of `S`.
pub(crate) struct Setting<S> {
    pub(crate) tunable: Tunable,
    /// The value of today.
    pub(crate) get: fn(&S) -> i128,
    /// Stores a value in range, with all that follows from it.
    pub(crate) set: fn(&mut S, i128),
}

impl<S> Clone for Setting<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Setting<S> {}

/// A type of a field that holds a setting.
pub(crate) trait Value: Copy {
    fn shown(self) -> i128;
    fn of(value: i128) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Value for $number {
            fn shown(self) -> i128 {
                self.into()
            }

            fn of(value: i128) -> Self {
                value as $number
            }
        })*
    };
}
numbers! { u32 u64 i64 }

impl Value for bool {
    fn shown(self) -> i128 {
        self.into()
    }

    fn of(value: i128) -> Self {
        value != 0
    }
}

/// A table of [`Setting`]s of a type, or an array of them. A row is `name: unit, min, max, default, help => place;`, the place being a field in parentheses, or two
/// closures in braces: one that gets the value and one that sets it.
macro_rules! settings {
    ($vis:vis const $table:ident of $scheduler:ty; $($name:ident: $unit:expr, $min:expr, $max:expr, $default:expr, $help:expr => $place:tt;)+) => {
        $vis const $table: [$crate::settings::Setting<$scheduler>; [$(stringify!($name)),+].len()] =
            $crate::settings::settings! { $($name: $unit, $min, $max, $default, $help => $place;)+ };
    };
    ($($name:ident: $unit:expr, $min:expr, $max:expr, $default:expr, $help:expr => $place:tt;)+) => {
        [$($crate::settings::Setting {
            tunable: dumbwaiter_block::Tunable {
                name: stringify!($name),
                unit: $unit,
                min: $min as i128,
                max: $max as i128,
                default: $default as i128,
                help: $help,
            },
            get: $crate::settings::settings!(@get $place),
            set: $crate::settings::settings!(@set $place),
        }),+]
    };
    (@get ($($field:tt)+)) => { |s| $crate::settings::Value::shown(s.$($field)+) };
    (@set ($($field:tt)+)) => { |s, value| s.$($field)+ = $crate::settings::Value::of(value) };
    (@get { $get:expr, $set:expr }) => { $get };
    (@set { $get:expr, $set:expr }) => { $set };
}
pub(crate) use settings;

/// The methods of a scheduler for its settings, which are those of `rows`; those of a field of it after `in`.
macro_rules! has_settings {
    ($rows:ident, $tunables:ident $(in $field:ident)?) => {
        fn tunables(&self) -> &'static [dumbwaiter_block::Tunable] {
            $tunables
        }

        fn get(&self, name: &str) -> Option<i128> {
            $crate::settings::get(&$rows, &self$(.$field)?, name)
        }

        fn set(&mut self, name: &str, value: i128) {
            $crate::settings::set(&$rows, &mut (*self)$(.$field)?, name, value);
        }
    };
}
pub(crate) use has_settings;

/// The tunables of the rows, as users see them.
pub(crate) const fn tunables<S, const N: usize>(rows: &[Setting<S>; N]) -> [Tunable; N] {
    let mut tunables = [rows[0].tunable; N];
    let mut i = 1;
    while i < N {
        tunables[i] = rows[i].tunable;
        i += 1;
    }
    tunables
}

/// Two tables as one.
pub(crate) const fn join<T: Copy, const A: usize, const B: usize, const C: usize>(a: [T; A], b: [T; B]) -> [T; C] {
    let mut all = [a[0]; C];
    let mut i = 1;
    while i < A + B {
        all[i] = if i < A { a[i] } else { b[i - A] };
        i += 1;
    }
    all
}

/// The value of a setting; `None` for an unknown name.
pub(crate) fn get<S>(rows: &[Setting<S>], of: &S, name: &str) -> Option<i128> {
    rows.iter().find(|row| row.tunable.name == name).map(|row| (row.get)(of))
}

/// Stores a value, which is in range.
pub(crate) fn set<S>(rows: &[Setting<S>], of: &mut S, name: &str, value: i128) {
    if let Some(row) = rows.iter().find(|row| row.tunable.name == name) {
        (row.set)(of, value);
    }
}

/// `made` with the defaults of all rows.
pub(crate) fn with_defaults<S>(rows: &[Setting<S>], mut made: S) -> S {
    for row in rows {
        (row.set)(&mut made, row.tunable.default);
    }
    made
}
