//! Scenarios from fio job files.
