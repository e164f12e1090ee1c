//! Integration tests of the block layer.

mod controllers;
mod layer;
