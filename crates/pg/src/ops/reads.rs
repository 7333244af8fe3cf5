//! Bytes read for one operation, kept over its runs.

use store::{Lookup, LookupId, ReadError, Store};
use types::ObjectId;
use wire::Rope;

/// The data reads of one operation in the order in which its steps make them. A run that comes back to a read finds
/// its bytes here.
#[derive(Debug, Default)]
pub struct DataReads {
    reads: Vec<(LookupId, Option<Result<Rope, ReadError>>)>,
    /// Reads the present run has made so far.
    made: usize,
}

impl DataReads {
    /// A run begins.
    pub(super) fn rewind(&mut self) {
        self.made = 0;
    }

    /// The bytes `offset .. offset + len`, clipped to the object's size.
    pub(super) fn read(
        &mut self,
        store: &mut Store,
        object: &ObjectId,
        offset: u64,
        len: u64,
    ) -> Result<Result<Rope, ReadError>, LookupId> {
        let at = self.made;
        self.made += 1;
        match self.reads.get(at) {
            Some((_, Some(result))) => return Ok(result.clone()),
            Some((id, None)) => return Err(*id),
            None => {}
        }
        match store.read(object, offset, len) {
            Lookup::Ready(bytes) => {
                // Kept as well: a later run must see the same bytes. The id is never asked for.
                self.reads.push((LookupId(0), Some(Ok(bytes.clone()))));
                Ok(Ok(bytes))
            }
            Lookup::Pending(id) => {
                self.reads.push((id, None));
                Err(id)
            }
        }
    }

    /// A read has ended. Returns whether it was one of these.
    pub fn finish(&mut self, id: LookupId, result: Result<Rope, ReadError>) -> bool {
        match self.reads.iter_mut().find(|(read, bytes)| *read == id && bytes.is_none()) {
            Some((_, slot)) => {
                *slot = Some(result);
                true
            }
            None => false,
        }
    }
}
