//! Progress on stderr, and Ctrl-C.

pub(crate) use crate::terminal::{
    Checking, RunBar, Watched, cancel_on_signal, cancel_on_signal_and_undo, end_on_signal,
};
