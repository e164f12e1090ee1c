//! Messages of clients, well-formed or not, and their outcome.

mod vhost_user;
