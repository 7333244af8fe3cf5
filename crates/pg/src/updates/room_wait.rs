//! Updates that wait for room.

use crate::updates::rooms::{ASK_EVERY, Fit};
use std::time::Duration;
use types::Errno;

/// An update waits for so long while an OSD that answers has no room for it, before it is refused: meanwhile the
/// monitors may learn that the OSD is full and have clients wait, who are not told of an error then. OSDs that do not
/// answer may be waited for longer.
pub(super) const ROOM_WAIT: Duration = Duration::from_secs(2);
const _: () = assert!(
    10 * ASK_EVERY.as_millis() < ROOM_WAIT.as_millis(),
    "an update is refused for want of room only after its members were asked several times"
);

/// An update that waits for room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomWait {
    /// Time when it was tried first.
    pub(super) since: Duration,
    /// Time since which an OSD has no room for it, whenever it was tried.
    pub(super) lacking_since: Option<Duration>,
}

impl RoomWait {
    pub fn begins(now: Duration) -> RoomWait {
        RoomWait { since: now, lacking_since: None }
    }

    /// Notes that the update was tried, and fits so. Returns true if it has waited long enough.
    pub(super) fn is_tried(&mut self, worst: Fit, now: Duration) -> bool {
        self.lacking_since = (worst == Fit::TooLarge).then(|| self.lacking_since.unwrap_or(now));
        self.lacking_since.is_some_and(|since| now >= since + ROOM_WAIT)
    }
}

/// The decision on an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The update may go; it takes so many bytes of room, at most, wherever it is stored.
    Now(u64),
    /// Room may come.
    Later,
    Refused(Errno),
    /// The pool is full, which the client learns from the map; it sends the operation again when the pool no longer is.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_an_osd_that_is_silent_is_not_lacking_room() {
        let at = |seconds: u64| Duration::from_secs(seconds);
        let mut wait = RoomWait::begins(at(10));
        assert!(!wait.is_tried(Fit::Waits, at(10)));
        assert!(!wait.is_tried(Fit::TooLarge, at(16)), "it is only now that room is lacking");
        assert!(!wait.is_tried(Fit::TooLarge, at(17)));
        assert!(!wait.is_tried(Fit::Waits, at(18)), "there was enough");
        assert!(!wait.is_tried(Fit::TooLarge, at(19)));
        assert!(wait.is_tried(Fit::TooLarge, at(21)));
        assert_eq!(wait.since, at(10), "what was said before is not known to be still so");
    }
}
