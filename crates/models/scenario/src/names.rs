//! Names of tasks that must differ.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers names that were there before: `job`, `job (2)`, `job (3)`.
#[derive(Default)]
pub(crate) struct DistinctNames {
    given: BTreeSet<String>,
    /// The last number given to a name.
    numbers: BTreeMap<String, usize>,
}

impl DistinctNames {
    /// The name, with a number if it was given before.
    pub(crate) fn distinct(&mut self, name: String) -> String {
        let mut distinct = name.clone();
        while !self.given.insert(distinct.clone()) {
            let number = self.numbers.entry(name.clone()).or_insert(1);
            *number += 1;
            distinct = format!("{name} ({number})");
        }
        distinct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_the_next_free_number() {
        let mut names = DistinctNames::default();
        let given: Vec<String> = ["a", "a (2)", "a", "b", "a", "a (2)"].map(|n| names.distinct(n.to_owned())).to_vec();
        assert_eq!(given, ["a", "a (2)", "a (3)", "b", "a (4)", "a (2) (2)"]);
    }
}
