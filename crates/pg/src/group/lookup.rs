//! Meaning of the store's lookups to a placement group.

use store::btree::Damage;
use store::{Lookup, LookupId};

/// Why a lookup gives no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoAnswer {
    /// Ask again once this one is done.
    Pending(LookupId),
    /// The answer is lost here. Clients get EIO, and a group whose own table it is does not start.
    Damaged(Damage),
}

/// Returns a lookup's value, if there is one.
pub(crate) fn ready<T>(lookup: Lookup<T>) -> Result<T, NoAnswer> {
    match lookup {
        Lookup::Ready(value) => Ok(value),
        Lookup::Pending(id) => Err(NoAnswer::Pending(id)),
        Lookup::Damaged(damage) => Err(NoAnswer::Damaged(damage)),
    }
}
