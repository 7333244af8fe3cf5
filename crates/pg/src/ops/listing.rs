//! Listing of a placement group's objects, in pages.

use crate::group::lookup::{NoAnswer, ready};
use crate::group::object_info::USER_ATTR_PREFIX;
use bytes::Bytes;
use osdmap::{pg_cursor_end, pg_range};
use store::Store;
use types::{ObjectId, PgId, SnapId};
use wire::{Target, Writer};

/// Objects on one page at most.
pub const PAGE_OBJECTS_MAX: u64 = 1024;

/// The namespace that stands for all namespaces.
pub const ALL_NAMESPACES: &[u8] = b"\x01";

/// One page.
#[derive(Debug)]
pub struct Listing {
    /// Beginning of the next page; the next group's beginning if there is none.
    pub next: ObjectId,
    pub objects: Vec<ObjectId>,
    /// The group has no objects behind this page.
    pub at_end: bool,
}

#[derive(Debug)]
pub(crate) enum ListError {
    NoAnswer(NoAnswer),
    /// The cursor is not in this group.
    BadCursor,
}

/// A listing as far as it has come: where lookups must be waited for, it goes on from there.
#[derive(Debug, Default)]
pub struct ListingRun {
    /// The object from which the listing goes on; all before it have been looked at. `None`: nothing yet.
    from: Option<ObjectId>,
    objects: Vec<ObjectId>,
    /// Objects whose attributes were looked at.
    looked_at: u64,
}

/// An attribute that listed objects must have.
#[derive(Debug)]
pub(crate) struct ListFilter {
    /// Name of the attribute as the store has it.
    pub attr: Bytes,
    pub value: Bytes,
}

impl ListFilter {
    /// Attributes that are not clients' are nobody's.
    fn holds(&self, store: &mut Store, object: &ObjectId) -> Result<bool, NoAnswer> {
        let stat = ready(store.stat(object))?;
        let value = stat.as_ref().and_then(|stat| stat.attrs.get(&self.attr[..]));
        Ok(self.attr.first() == Some(&USER_ATTR_PREFIX) && value == Some(&self.value))
    }
}

impl ListingRun {
    /// Lists up to `max` objects of the group `pg` of a pool of `pg_num` groups, from `cursor` on, in namespace
    /// `nspace`, that pass the filter. If that must wait, to be called again with the same arguments.
    pub(crate) fn run(
        &mut self,
        store: &mut Store,
        (pg, pg_num): (PgId, u32),
        cursor: &ObjectId,
        (nspace, filter): (&[u8], Option<&ListFilter>),
        max: u64,
    ) -> Result<Listing, ListError> {
        let (start, end) = pg_range(pg, pg_num);
        let begin = if cursor.is_min() { start.clone() } else { cursor.clone() };
        if begin < start || begin >= end {
            return Err(ListError::BadCursor);
        }
        let max = max.min(PAGE_OBJECTS_MAX) as usize;
        let from = self.from.get_or_insert(begin);
        // Objects of other namespaces are passed over; each round looks at one page's worth of them.
        loop {
            let page = ready(store.list(from, &end, PAGE_OBJECTS_MAX as usize)).map_err(ListError::NoAnswer)?;
            let at_end = page.len() < PAGE_OBJECTS_MAX as usize;
            for object in page {
                let wanted = object.snap == SnapId::HEAD && (nspace == ALL_NAMESPACES || object.nspace == nspace);
                let wanted = wanted
                    && match filter {
                        Some(filter) => {
                            if self.looked_at == PAGE_OBJECTS_MAX {
                                // A filter that nothing passes must not keep others waiting.
                                return Ok(Listing {
                                    next: object,
                                    objects: std::mem::take(&mut self.objects),
                                    at_end: false,
                                });
                            }
                            let holds = filter.holds(store, &object).map_err(ListError::NoAnswer)?;
                            self.looked_at += 1;
                            holds
                        }
                        None => true,
                    };
                if wanted && self.objects.len() == max {
                    return Ok(Listing { next: object, objects: std::mem::take(&mut self.objects), at_end: false });
                }
                *from = just_behind(&object);
                if wanted {
                    self.objects.push(object);
                }
            }
            if at_end {
                let objects = std::mem::take(&mut self.objects);
                return Ok(Listing { next: pg_cursor_end(pg, pg_num), objects, at_end: true });
            }
        }
    }
}

/// Returns the first possible position behind `object`.
fn just_behind(object: &ObjectId) -> ObjectId {
    ObjectId { snap: SnapId(object.snap.0 + 1), ..object.clone() }
}

impl Listing {
    /// Returns the page as the reply's output carries it.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new(Target::default());
        w.versioned(1, 1, |w| {
            w.put(&self.next);
            w.count(self.objects.len());
            for object in &self.objects {
                w.blob(&object.nspace);
                w.blob(&object.name);
                w.blob(&object.key);
            }
        });
        w.into_vec()
    }
}
