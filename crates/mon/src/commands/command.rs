//! One command: its form, its purpose and its handler.
//!
//! Topics declare their commands as constants of this type; `table` gathers them.

use super::{Answer, Context};

/// One command: the only place that holds its form, its purpose and its handler.
pub(super) struct Command {
    /// See [`Signature`](super::signature::Signature).
    pub signature: &'static str,
    /// One line for `ceph --help`.
    pub help: &'static str,
    /// Permissions that an entity needs: some of `r`, `w`, `x`.
    pub permissions: &'static str,
    pub handler: fn(&Context<'_>) -> Answer,
    /// A daemon gives it over and over: it is not in the audit log.
    pub is_routine: bool,
}

impl Command {
    pub const fn new(
        signature: &'static str,
        permissions: &'static str,
        help: &'static str,
        handler: fn(&Context<'_>) -> Answer,
    ) -> Command {
        Command { signature, help, permissions, handler, is_routine: false }
    }

    /// A command that a daemon gives over and over.
    pub const fn routine(self) -> Command {
        Command { is_routine: true, ..self }
    }
}
