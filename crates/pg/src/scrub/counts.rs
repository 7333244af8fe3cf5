//! The scrub's counts of objects, for those that change objects.

use super::run::Scrub;
use store::Step;
use types::ObjectId;

/// The counts of a group's scrub, and nothing else of it.
pub(crate) struct ScrubCounts<'a>(&'a mut Scrub);

impl<'a> ScrubCounts<'a> {
    pub fn of(scrub: &'a mut Scrub) -> ScrubCounts<'a> {
        ScrubCounts(scrub)
    }

    /// Counts an update of an object that makes so many objects and bytes more.
    pub fn object_changed(&mut self, object: &ObjectId, objects: i64, bytes: i64) {
        self.0.object_changed(object, objects, bytes);
    }

    /// Has the next scrub count anew, as the counts are not certain any more. Returns the step that notes it durably.
    pub fn count_anew(&mut self) -> Step {
        self.0.set_mark(self.0.mark().counted_anew());
        self.0.mark().step()
    }
}
