//! LightGBM's text model, as `Booster.save_model` writes it.

use super::{Format, SourceNode, SourceTrees};
use crate::ModelError;

const FORMAT: Format = Format::LightGbm;

/// Reads the trees.
pub(super) fn read(text: &str) -> Result<SourceTrees, ModelError> {
    let mut sections = text.split("\nTree=");
    let head = Section(sections.next().unwrap_or(""));
    if !head.0.starts_with("tree") {
        return Err(FORMAT.error("it does not begin with `tree`: expected the file of Booster.save_model"));
    }
    if head.0.lines().any(|line| line == "average_output") {
        return Err(FORMAT.error("random forests are not read; expected boosting=gbdt"));
    }
    let outputs: usize = head.number("num_tree_per_iteration")?;
    let trees = sections.map(|text| tree(&Section(text))).collect::<Result<Vec<_>, _>>()?;
    Ok(SourceTrees { format: FORMAT, base: vec![0.0; outputs], trees })
}

fn tree(section: &Section) -> Result<Vec<SourceNode>, ModelError> {
    let leaves: Vec<f32> = section.list("leaf_value")?;
    let leaf = |value: &f32| SourceNode::Leaf(vec![*value]);
    if leaves.len() == 1 {
        return Ok(leaves.iter().map(leaf).collect());
    }
    let features: Vec<usize> = section.list("split_feature")?;
    let thresholds: Vec<f64> = section.list("threshold")?;
    let kinds: Vec<u32> = section.list("decision_type")?;
    let lefts: Vec<i64> = section.list("left_child")?;
    let rights: Vec<i64> = section.list("right_child")?;
    let splits = features.len();
    if [thresholds.len(), kinds.len(), lefts.len(), rights.len()] != [splits; 4] || leaves.len() != splits + 1 {
        return Err(FORMAT.error("the lists of a tree differ in length"));
    }
    if kinds.iter().any(|kind| kind & 1 == 1) {
        return Err(FORMAT.error("categorical splits are not read; all inputs are numbers"));
    }
    // Leaves follow the splits; -1 is the first leaf.
    let child = |child: i64| match usize::try_from(child) {
        Ok(split) => split,
        Err(_) => splits.saturating_add(usize::try_from(!child).unwrap_or(usize::MAX)),
    };
    let split = |i: usize| SourceNode::Split {
        feature: features[i],
        threshold: thresholds[i],
        left: child(lefts[i]),
        right: child(rights[i]),
    };
    Ok((0..splits).map(split).chain(leaves.iter().map(leaf)).collect())
}

/// Lines of `key=value`.
struct Section<'a>(&'a str);

impl Section<'_> {
    fn text(&self, key: &str) -> Result<&str, ModelError> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.ok_or_else(|| FORMAT.error(format!("`{key}` is missing")))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, ModelError> {
        let text = self.text(key)?;
        text.trim().parse().map_err(|_| FORMAT.error(format!("{key}: `{text}` is not a number")))
    }

    fn list<T: std::str::FromStr>(&self, key: &str) -> Result<Vec<T>, ModelError> {
        let one = |text: &str| text.parse().map_err(|_| FORMAT.error(format!("{key}: `{text}` is not a number")));
        self.text(key)?.split_whitespace().map(one).collect()
    }
}
