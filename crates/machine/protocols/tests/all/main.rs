//! What clients may send, and what becomes of it.

mod vhost_user;
