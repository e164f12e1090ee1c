//! What must hold of every device model, in one program.

mod properties;
mod validation;
