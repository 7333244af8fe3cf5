//! Rights that come with a proof.

use std::sync::Arc;

/// Rights of a peer. Nothing here reads them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rights {
    /// Everything: with method `none`, by a ticket that says so, and of a peer that we dialled.
    Everything,
    /// The rights in this text of capabilities; none, if it is empty or cannot be read.
    Caps(Arc<str>),
}
