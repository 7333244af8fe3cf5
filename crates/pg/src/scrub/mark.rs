//! The durable record of a group's scrubs.

use bytes::Bytes;
use store::Step;
use types::{EVersion, ObjectId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Key of the [`ScrubMark`] in a group's table.
pub const SCRUB_KEY: Bytes = Bytes::from_static(b"scrub");

/// Place of a deep scrub that has not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubCursor {
    /// Objects before this one were compared.
    pub next: ObjectId,
    /// Errors found there that are still to be repaired.
    pub shallow_errors: u64,
    pub deep_errors: u64,
    pub omap_keys: u64,
    pub omap_bytes: u64,
    /// Objects found there that wait for an operator's choice.
    pub undecided: u64,
    /// Objects found there with a large omap.
    pub large_omaps: u64,
}

/// Times of a group's scrubs, and what came of them. All members keep this, so that another primary knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubMark {
    /// Times by the wall clock when the group was last scrubbed at all, deeply, and without an error; and at which
    /// version.
    pub light_at: Utime,
    pub light_version: EVersion,
    pub deep_at: Utime,
    pub deep_version: EVersion,
    pub clean_at: Utime,
    /// Errors found and not repaired: in what a light scrub compares, and in what only a deep one does.
    pub shallow_errors: u64,
    pub deep_errors: u64,
    /// Copies that were replaced, since the group was made.
    pub repaired: u64,
    /// Omap keys and bytes as the last deep scrub counted them.
    pub omap_keys: u64,
    pub omap_bytes: u64,
    /// Objects of which nothing proves a copy right: they wait for an operator's choice.
    pub undecided: u64,
    /// Objects with more omap keys, or bytes in them, than an operator wants, as the last deep scrub counted them.
    pub large_omaps: u64,
    /// Place of a deep scrub under way, on the primary that runs it only.
    pub cursor: Option<ScrubCursor>,
}

impl ScrubMark {
    pub fn errors(&self) -> u64 {
        self.shallow_errors + self.deep_errors
    }

    /// Returns the mark of a group whose counts are not certain any more: a light scrub is due, which counts.
    pub(crate) fn counted_anew(&self) -> ScrubMark {
        ScrubMark { cursor: None, light_at: Utime::ZERO, ..self.clone() }
    }

    /// Keeps the mark in the group's table.
    pub(crate) fn step(&self) -> Step {
        Step::PgSet { key: SCRUB_KEY, value: self.to_vec(Target::default()).into() }
    }
}

impl Encode for ScrubCursor {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.next);
        w.u64(self.shallow_errors);
        w.u64(self.deep_errors);
        w.u64(self.omap_keys);
        w.u64(self.omap_bytes);
    }
}

impl Decode for ScrubCursor {
    const MIN_BYTES: usize = 38;

    fn decode(r: &mut Reader<'_>) -> Result<ScrubCursor, DecodeError> {
        Ok(ScrubCursor {
            next: r.get()?,
            shallow_errors: r.u64()?,
            deep_errors: r.u64()?,
            omap_keys: r.u64()?,
            omap_bytes: r.u64()?,
            undecided: 0,
            large_omaps: 0,
        })
    }
}

/// Versions of the encoding of [`ScrubMark`]. Each has all fields of those before it.
mod form {
    /// Ends with the cursor.
    pub const PLAIN: u8 = 1;
    /// Adds what is undecided, of the whole and of the part that the cursor is behind.
    pub const UNDECIDED: u8 = 2;
    /// Adds large omaps, of both.
    pub const LARGE_OMAPS: u8 = 3;
}

impl Encode for ScrubMark {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::LARGE_OMAPS, form::PLAIN, |w| {
            w.put(&self.light_at);
            w.put(&self.light_version);
            w.put(&self.deep_at);
            w.put(&self.deep_version);
            w.put(&self.clean_at);
            w.u64(self.shallow_errors);
            w.u64(self.deep_errors);
            w.u64(self.repaired);
            w.u64(self.omap_keys);
            w.u64(self.omap_bytes);
            w.put(&self.cursor);
            w.u64(self.undecided);
            w.u64(self.cursor.as_ref().map_or(0, |cursor| cursor.undecided));
            w.u64(self.large_omaps);
            w.u64(self.cursor.as_ref().map_or(0, |cursor| cursor.large_omaps));
        });
    }
}

impl Decode for ScrubMark {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ScrubMark, DecodeError> {
        let (head, mut r) = r.versioned("scrub mark", form::LARGE_OMAPS)?;
        let mut mark = ScrubMark {
            light_at: r.get()?,
            light_version: r.get()?,
            deep_at: r.get()?,
            deep_version: r.get()?,
            clean_at: r.get()?,
            shallow_errors: r.u64()?,
            deep_errors: r.u64()?,
            repaired: r.u64()?,
            omap_keys: r.u64()?,
            omap_bytes: r.u64()?,
            undecided: 0,
            large_omaps: 0,
            cursor: r.get()?,
        };
        if head.version >= form::UNDECIDED {
            mark.undecided = r.u64()?;
            let in_part = r.u64()?;
            mark.cursor.iter_mut().for_each(|cursor| cursor.undecided = in_part);
        }
        if head.version >= form::LARGE_OMAPS {
            mark.large_omaps = r.u64()?;
            let in_part = r.u64()?;
            mark.cursor.iter_mut().for_each(|cursor| cursor.large_omaps = in_part);
        }
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_those_from_before_lack_what_came_since() {
        let cursor = ScrubCursor {
            next: ObjectId::head(types::PoolId(1), 7, b"", b"o"),
            shallow_errors: 1,
            deep_errors: 2,
            omap_keys: 3,
            omap_bytes: 4,
            undecided: 5,
            large_omaps: 8,
        };
        let cursor_of = |cursor| ScrubMark { cursor: Some(cursor), deep_errors: 6, ..ScrubMark::default() };
        let mark = ScrubMark { undecided: 7, large_omaps: 9, ..cursor_of(cursor.clone()) };
        let bytes = mark.to_vec(Target::default());
        assert_eq!(ScrubMark::from_slice(&bytes), Ok(mark.clone()));
        let former = |version, missing: usize| {
            let mut w = Writer::new(Target::default());
            w.versioned(version, 1, |w| w.raw(&bytes[6..bytes.len() - missing]));
            ScrubMark::from_slice(w.as_slice())
        };
        let cursor = ScrubCursor { large_omaps: 0, ..cursor };
        assert_eq!(former(2, 16), Ok(ScrubMark { undecided: 7, ..cursor_of(cursor.clone()) }));
        assert_eq!(former(1, 32), Ok(cursor_of(ScrubCursor { undecided: 0, ..cursor })));
    }
}
