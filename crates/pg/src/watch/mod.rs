//! Clients that watch objects, and notifications.
//!
//! Who watches an object stands in its object information ([`WatchInfo`]), so every member of the group has it. Over
//! which session a watcher can be reached, when it was last heard of, and which notifications wait for its answer is
//! known to the primary alone, for as long as an interval lasts ([`Watches`]): in the next one clients connect their
//! watches again, and send again the notifications that were not completed. A watcher that is silent for too long is
//! removed by an update like any other, which the primary itself asks for (`inputs`).
//!
//! * **Owns** sessions of watchers, and notifications that wait for answers. No module here knows the group.
//! * **Takes** operations on watches that are done, watchers that objects name, time, ends of sessions, and the map's
//!   blocklist.
//! * **Causes** messages to clients, removals of watches, and looks at watched objects.

mod info;
mod inputs;
#[cfg(test)]
mod tests;
mod watches;

pub use info::{WatchInfo, WatchView};
pub(crate) use watches::{WatchKey, Watches};
