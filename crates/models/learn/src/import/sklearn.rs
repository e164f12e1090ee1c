//! scikit-learn's trees: the arrays of each `tree_` as JSON, which a few lines of Python write (see the manual).

use serde::Deserialize;

use super::{Format, SourceNode, SourceTrees};
use crate::ModelError;

const FORMAT: Format = Format::Sklearn;
/// Probabilities in leaves are at least this, so that their logarithm exists.
const LEAST_PROBABILITY: f32 = 1e-4;

/// How the trees' values become outputs.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Combine {
    /// One tree, or the mean of a forest.
    Mean,
    /// The sum of boosted trees, each times `rate`.
    Sum,
}

#[derive(Deserialize)]
struct File {
    combine: Combine,
    #[serde(default = "one")]
    rate: f32,
    #[serde(default)]
    base: Vec<f32>,
    trees: Vec<Tree>,
}

fn one() -> f32 {
    1.0
}

#[derive(Deserialize)]
struct Tree {
    children_left: Vec<i64>,
    children_right: Vec<i64>,
    feature: Vec<i64>,
    threshold: Vec<f64>,
    /// Nodes, outputs (one), values: the mean, or a weight for each class.
    value: Vec<Vec<Vec<f32>>>,
}

/// Reads the trees.
pub(super) fn read(text: &str) -> Result<SourceTrees, ModelError> {
    let file: File = serde_json::from_str(text).map_err(|error| FORMAT.error(error.to_string()))?;
    let width = file.trees.first().and_then(|tree| Some(tree.value.first()?.first()?.len())).unwrap_or(0);
    if width == 0 {
        return Err(FORMAT.error("there is no tree"));
    }
    let outputs = if file.combine == Combine::Sum { file.base.len().max(1) } else { width };
    let base = if file.base.is_empty() { vec![0.0; outputs] } else { file.base };
    let share = 1.0 / file.trees.len() as f32;
    let leaf = |values: &[f32]| -> Vec<f32> {
        match file.combine {
            Combine::Sum => values.iter().map(|x| x * file.rate).collect(),
            Combine::Mean if width == 1 => values.iter().map(|x| x * share).collect(),
            // Logarithms of probabilities, so that a softmax returns them; of a forest: the mean of the logarithms.
            Combine::Mean => {
                let sum: f32 = values.iter().sum();
                values.iter().map(|x| share * libm::logf((x / sum).max(LEAST_PROBABILITY))).collect()
            }
        }
    };
    let trees = file.trees.iter().map(|source| tree(source, width, &leaf)).collect::<Result<Vec<_>, _>>()?;
    Ok(SourceTrees { format: FORMAT, base, trees })
}

fn tree(tree: &Tree, width: usize, leaf: &dyn Fn(&[f32]) -> Vec<f32>) -> Result<Vec<SourceNode>, ModelError> {
    let count = tree.children_left.len();
    if [tree.children_right.len(), tree.feature.len(), tree.threshold.len(), tree.value.len()] != [count; 4] {
        return Err(FORMAT.error("the lists of a tree differ in length"));
    }
    let node = |i: usize| {
        let children = (usize::try_from(tree.children_left[i]), usize::try_from(tree.children_right[i]));
        match (children, usize::try_from(tree.feature[i])) {
            ((Ok(left), Ok(right)), Ok(feature)) => {
                Ok(SourceNode::Split { feature, threshold: tree.threshold[i], left, right })
            }
            _ => match tree.value[i].as_slice() {
                [values] if values.len() == width => Ok(SourceNode::Leaf(leaf(values))),
                _ => Err(FORMAT.error("trees with several outputs are not read")),
            },
        }
    };
    (0..count).map(node).collect()
}
