//! Decision trees and sums of them as flat arrays.

use crate::ModelError;
use crate::dense::Shared;
use crate::features::MAX_INPUTS;

/// Largest number of nodes of all trees together.
const MAX_NODES: usize = 1 << 18;
/// Largest number of outputs.
const MAX_OUTPUTS: usize = 16;
/// In place of a feature: this node is a leaf.
pub const LEAF: u16 = u16::MAX;

/// A node: a comparison, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// The input that is compared, or [`LEAF`].
    pub feature: u16,
    /// Inputs at most this go left; others, and NaN, go right.
    pub threshold: f32,
    /// The left child, which the right one follows; of a leaf: its row of values.
    pub left: u32,
}

/// Trees whose leaves' values are added up.
#[derive(Clone, Debug, PartialEq)]
pub struct Trees {
    inputs: usize,
    own: usize,
    /// Initial values of the outputs.
    base: Vec<f32>,
    /// Values per leaf: 1, where each tree adds to one output in turn, or one per output.
    leaf_width: usize,
    roots: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<f32>,
}

impl Trees {
    /// Trees for `inputs` inputs, of which the first `own` belong to the candidate. Checks that each walk from a root ends at
    /// a leaf: children come after their parents.
    pub fn new(
        inputs: usize,
        own: usize,
        base: Vec<f32>,
        roots: Vec<u32>,
        nodes: Vec<Node>,
        leaves: Vec<f32>,
    ) -> Result<Trees, ModelError> {
        let wrong = |what: String| Err(ModelError::Shape(what));
        let outputs = base.len();
        if inputs == 0 || inputs > MAX_INPUTS || own > inputs || outputs == 0 || outputs > MAX_OUTPUTS {
            return wrong(format!("1 to {MAX_INPUTS} inputs and 1 to {MAX_OUTPUTS} outputs are possible"));
        }
        if nodes.is_empty() || nodes.len() > MAX_NODES || roots.is_empty() || roots.len() > nodes.len() {
            return wrong(format!("trees have 1 to {MAX_NODES} nodes"));
        }
        let leaf_count = nodes.iter().filter(|node| node.feature == LEAF).count();
        let leaf_width = if outputs > 1 && leaves.len() == leaf_count * outputs { outputs } else { 1 };
        if leaves.len() != leaf_count * leaf_width {
            return wrong(format!("{} values for {leaf_count} leaves", leaves.len()));
        }
        for (index, node) in nodes.iter().enumerate() {
            let left = node.left as usize;
            let is_sound = match node.feature {
                LEAF => left < leaf_count,
                feature => usize::from(feature) < inputs && left > index && left + 1 < nodes.len(),
            };
            if !is_sound {
                return wrong(format!("node {index} has a child or an input that does not exist"));
            }
        }
        if let Some(root) = roots.iter().find(|&&root| root as usize >= nodes.len()) {
            return wrong(format!("there is no node {root} for a tree to start from"));
        }
        Ok(Trees { inputs, own, base, leaf_width, roots, nodes, leaves })
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.base.len()
    }

    /// Initial values of the outputs.
    pub fn base(&self) -> &[f32] {
        &self.base
    }

    /// The first node of each tree.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values of all leaves.
    pub fn leaves(&self) -> &[f32] {
        &self.leaves
    }

    /// Outputs for a row of inputs.
    pub fn forward(&self, row: &[f32], outputs: &mut [f32]) {
        let count = self.outputs().min(outputs.len());
        outputs[..count].copy_from_slice(&self.base[..count]);
        for (tree, &root) in self.roots.iter().enumerate() {
            let mut node = self.nodes[root as usize];
            while node.feature != LEAF {
                let goes_left = row[usize::from(node.feature)] <= node.threshold;
                node = self.nodes[node.left as usize + usize::from(!goes_left)];
            }
            let values = &self.leaves[node.left as usize * self.leaf_width..][..self.leaf_width];
            let first = if self.leaf_width == 1 { tree % self.base.len() } else { 0 };
            for (output, value) in outputs[..count].iter_mut().skip(first).zip(values) {
                *output += value;
            }
        }
    }

    pub(crate) fn share(&self, shared: &[f32]) -> Shared {
        Shared::of(shared)
    }

    pub(crate) fn forward_own(&self, own: &[f32], shared: &Shared, outputs: &mut [f32]) {
        let mut row = [0.0; MAX_INPUTS];
        row[..self.own].copy_from_slice(&own[..self.own]);
        row[self.own..self.inputs].copy_from_slice(&shared.values()[..self.inputs - self.own]);
        self.forward(&row, outputs);
    }
}
