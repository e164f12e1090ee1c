//! Properties of every device model, and their validation, in one program.

mod properties;
mod validation;
