//! Trees as flat arrays.

use dumbwaiter_learn::{LEAF, ModelError, Node, Trees};

fn split(feature: u16, threshold: f32, left: u32) -> Node {
    Node { feature, threshold, left }
}

fn leaf(row: u32) -> Node {
    Node { feature: LEAF, threshold: 0.0, left: row }
}

#[test]
fn values_at_the_threshold_go_left_and_what_is_no_number_goes_right() {
    let nodes = vec![split(1, 2.0, 1), leaf(0), split(0, 0.0, 3), leaf(1), leaf(2)];
    let trees = Trees::new(2, 0, vec![10.0], vec![0], nodes, vec![1.0, 2.0, 3.0]).unwrap();
    let value = |row: [f32; 2]| {
        let mut output = [0.0];
        trees.forward(&row, &mut output);
        output[0]
    };
    assert_eq!((value([0.0, 2.0]), value([0.0, 2.1]), value([0.1, 3.0])), (11.0, 12.0, 13.0));
    assert_eq!(value([f32::NAN, f32::NAN]), 13.0);
}

#[test]
fn trees_add_to_the_outputs_in_turn_or_to_all_at_once() {
    let nodes = vec![leaf(0), leaf(1), leaf(2), leaf(3)];
    let mut outputs = [0.0; 2];
    let turns = Trees::new(1, 0, vec![0.0; 2], vec![0, 1, 2, 3], nodes, vec![1.0, 2.0, 4.0, 8.0]).unwrap();
    turns.forward(&[0.0], &mut outputs);
    assert_eq!(outputs, [5.0, 10.0]);
    let rows = Trees::new(1, 0, vec![0.0; 2], vec![0], vec![leaf(0)], vec![1.0, 2.0]).unwrap();
    rows.forward(&[0.0], &mut outputs);
    assert_eq!(outputs, [1.0, 2.0]);
}

#[test]
fn trees_that_lead_nowhere_are_refused() {
    let refused = |roots: Vec<u32>, nodes: Vec<Node>, leaves: Vec<f32>| {
        assert!(matches!(Trees::new(2, 0, vec![0.0], roots, nodes, leaves), Err(ModelError::Shape(_))));
    };
    // To itself, beyond the end, an input that there is not, a leaf without a value, no root.
    refused(vec![0], vec![split(0, 0.0, 0), leaf(0)], vec![1.0]);
    refused(vec![0], vec![split(0, 0.0, 2), leaf(0)], vec![1.0]);
    refused(vec![0], vec![split(2, 0.0, 1), leaf(0), leaf(1)], vec![1.0, 2.0]);
    refused(vec![0], vec![leaf(1)], vec![1.0]);
    refused(vec![1], vec![leaf(0)], vec![1.0]);
    refused(Vec::new(), vec![leaf(0)], vec![1.0]);
    refused(vec![0], Vec::new(), Vec::new());
}
