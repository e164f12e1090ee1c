//! XGBoost's JSON model, as `Booster.save_model("NAME.json")` writes it.

use serde::Deserialize;

use super::{Format, SourceNode, SourceTrees};
use crate::ModelError;

const FORMAT: Format = Format::XgBoost;
/// Objectives whose output is the sum of the trees.
const OBJECTIVES: [&str; 5] =
    ["reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "multi:softprob", "multi:softmax"];

#[derive(Deserialize)]
struct File {
    learner: Learner,
}

#[derive(Deserialize)]
struct Learner {
    gradient_booster: Booster,
    learner_model_param: Parameters,
    objective: Objective,
}

#[derive(Deserialize)]
struct Booster {
    name: String,
    model: Option<Forest>,
}

#[derive(Deserialize)]
struct Forest {
    trees: Vec<Tree>,
    tree_info: Vec<usize>,
}

#[derive(Deserialize)]
struct Parameters {
    base_score: String,
    num_class: String,
}

#[derive(Deserialize)]
struct Objective {
    name: String,
}

#[derive(Deserialize)]
struct Tree {
    left_children: Vec<i64>,
    right_children: Vec<i64>,
    split_indices: Vec<usize>,
    split_conditions: Vec<f32>,
    #[serde(default)]
    split_type: Vec<u32>,
}

/// Reads the trees.
pub(super) fn read(text: &str) -> Result<SourceTrees, ModelError> {
    let file: File = serde_json::from_str(text).map_err(|error| FORMAT.error(error.to_string()))?;
    let Learner { gradient_booster: booster, learner_model_param: parameters, objective } = file.learner;
    let forest = booster.model.filter(|_| booster.name == "gbtree");
    let forest = forest.ok_or_else(|| FORMAT.error(format!("the booster is `{}`; expected gbtree", booster.name)))?;
    if !OBJECTIVES.contains(&objective.name.as_str()) {
        let known = OBJECTIVES.join(", ");
        return Err(FORMAT.error(format!("the objective is `{}`; expected one of {known}", objective.name)));
    }
    let number = |text: &str| -> Result<f32, ModelError> {
        // Newer versions write a list, one number per output.
        let first = text.trim_matches(['[', ']']).split(',').next().unwrap_or("");
        first.trim().parse().map_err(|_| FORMAT.error(format!("`{text}` is not a number")))
    };
    let classes = number(&parameters.num_class)? as usize;
    let outputs = classes.max(1);
    if forest.tree_info.iter().enumerate().any(|(tree, &output)| output != tree % outputs) {
        return Err(FORMAT.error("several trees per output in a round are not read"));
    }
    // All classes start from one score, which makes no difference between them.
    let base = if classes > 1 { 0.0 } else { number(&parameters.base_score)? };
    let trees = forest.trees.iter().map(tree).collect::<Result<Vec<_>, _>>()?;
    Ok(SourceTrees { format: FORMAT, base: vec![base; outputs], trees })
}

fn tree(tree: &Tree) -> Result<Vec<SourceNode>, ModelError> {
    let count = tree.left_children.len();
    if [tree.right_children.len(), tree.split_indices.len(), tree.split_conditions.len()] != [count; 3] {
        return Err(FORMAT.error("the lists of a tree differ in length"));
    }
    if tree.split_type.iter().any(|&kind| kind != 0) {
        return Err(FORMAT.error("categorical splits are not read; all inputs are numbers"));
    }
    let node = |i: usize| match (usize::try_from(tree.left_children[i]), usize::try_from(tree.right_children[i])) {
        (Ok(left), Ok(right)) => SourceNode::Split {
            feature: tree.split_indices[i],
            // Left if below, not at, the condition.
            threshold: f64::from(tree.split_conditions[i].next_down()),
            left,
            right,
        },
        _ => SourceNode::Leaf(vec![tree.split_conditions[i]]),
    };
    Ok((0..count).map(node).collect())
}
