//! Networks and trees behind one interface.

use crate::dense::Shared;
use crate::{Dense, Trees};

/// A network or trees.
#[derive(Clone, Debug, PartialEq)]
pub enum Network {
    /// Fully connected layers.
    Dense(Dense),
    /// Decision trees.
    Trees(Trees),
}

impl Network {
    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        match self {
            Network::Dense(net) => net.inputs(),
            Network::Trees(trees) => trees.inputs(),
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        match self {
            Network::Dense(net) => net.outputs(),
            Network::Trees(trees) => trees.outputs(),
        }
    }

    /// Outputs for a row of inputs.
    pub fn forward(&self, row: &[f32], outputs: &mut [f32]) {
        match self {
            Network::Dense(net) => net.forward(row, outputs),
            Network::Trees(trees) => trees.forward(row, outputs),
        }
    }

    /// The contribution of the inputs after the candidate's own.
    pub fn share(&self, shared: &[f32]) -> Shared {
        match self {
            Network::Dense(net) => net.share(shared),
            Network::Trees(trees) => trees.share(shared),
        }
    }

    /// Outputs for a candidate's own inputs and what it shares with others.
    pub fn forward_own(&self, own: &[f32], shared: &Shared, outputs: &mut [f32]) {
        match self {
            Network::Dense(net) => net.forward_own(own, shared, outputs),
            Network::Trees(trees) => trees.forward_own(own, shared, outputs),
        }
    }
}
