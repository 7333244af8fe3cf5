//! Typed inputs and outputs of operations, beside plain bytes. Lists of objects, snapshots and watchers are in
//! [`super::listing`].
//!
//! Maps and sets that need no type of their own: `OMAPSETVALS` takes `BTreeMap<Bytes, Bytes>`; `OMAPRMKEYS` and
//! `OMAPGETVALSBYKEYS` take `BTreeSet<Bytes>`; `OMAPGETVALSBYKEYS` and `GETXATTRS` give `BTreeMap<Bytes, Bytes>`;
//! `PGNLS` takes an `ObjectId`.

use crate::basic::Locator;
use crate::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{ObjectId, Utime};

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident min $min:literal { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $ty,)*
            }

            impl Encode for $name {
                fn encode(&self, w: &mut Writer) {
                    $(w.put(&self.$field);)*
                }
            }

            impl Decode for $name {
                const MIN_BYTES: usize = $min;

                fn decode(r: &mut Reader<'_>) -> Result<$name, DecodeError> {
                    Ok($name { $($field: r.get()?,)* })
                }
            }
        )*
    };
}

structs! {
    /// Output of `STAT`.
    StatOutput min 16 {
        size_bytes: u64,
        mtime: Utime,
    }

    /// Output of `SPARSE_READ`.
    SparseReadOutput min 8 {
        /// Offset and length of each range that has data.
        extents: BTreeMap<u64, u64>,
        /// The ranges' bytes, one after the other.
        data: Bytes,
    }

    /// Input of `OMAPGETKEYS`.
    OmapGetKeys min 12 {
        /// Keys up to and including this one are left out.
        start_after: Bytes,
        max: u64,
    }

    /// Output of `OMAPGETKEYS`.
    OmapKeysOutput min 5 {
        keys: Vec<Bytes>,
        /// True if there are more keys.
        truncated: bool,
    }

    /// Input of `OMAPGETVALS`.
    OmapGetVals min 16 {
        start_after: Bytes,
        max: u64,
        /// Prefix of the listed keys.
        prefix: Bytes,
    }

    /// Output of `OMAPGETVALS`.
    OmapValsOutput min 5 {
        entries: Vec<(Bytes, Bytes)>,
        truncated: bool,
    }

    /// Input of `OMAPRMKEYRANGE`: removes `begin .. end`.
    OmapRmKeyRange min 8 {
        begin: Bytes,
        end: Bytes,
    }

    /// Input of `OMAP_CMP`: by key, the value to compare with and the comparison ([`super::XattrArgs::EQ`] or another).
    OmapCmp min 4 {
        assertions: BTreeMap<Bytes, (Bytes, i32)>,
    }

    /// Input of `NOTIFY`.
    NotifyInput min 12 {
        version: u32,
        timeout_s: u32,
        payload: Bytes,
    }

    /// Input of `COPY_FROM`: the source.
    CopyFromInput min 38 {
        name: Bytes,
        locator: Locator,
    }

    /// Input of `COPY_FROM2`: the source, and the copy's truncation.
    CopyFrom2Input min 50 {
        name: Bytes,
        locator: Locator,
        truncate_seq: u32,
        truncate_size: u64,
    }
}

/// Input of `NOTIFY_ACK`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotifyAckInput {
    pub notify_id: u64,
    pub cookie: u64,
    /// Answer for the notifier; old clients send none.
    pub reply: Option<Bytes>,
}

impl Encode for NotifyAckInput {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.notify_id);
        w.u64(self.cookie);
        if let Some(reply) = &self.reply {
            w.blob(reply);
        }
    }
}

impl Decode for NotifyAckInput {
    const MIN_BYTES: usize = 16;

    fn decode(r: &mut Reader<'_>) -> Result<NotifyAckInput, DecodeError> {
        let (notify_id, cookie) = (r.u64()?, r.u64()?);
        Ok(NotifyAckInput { notify_id, cookie, reply: if r.is_empty() { None } else { Some(r.get()?) } })
    }
}

/// Input of `PGNLS_FILTER` and `PGLS_FILTER`: lists only objects whose attribute `xattr` equals `value`.
///
/// Filters of object classes are refused: only the class knows the end of its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilteredListInput {
    pub xattr: Bytes,
    pub value: Bytes,
    pub cursor: ObjectId,
}

impl FilteredListInput {
    const WORDS: [&str; 3] = ["pg", "filter", "plain"];
}

impl Encode for FilteredListInput {
    fn encode(&self, w: &mut Writer) {
        Self::WORDS.iter().for_each(|word| w.str(word));
        w.blob(&self.xattr);
        w.blob(&self.value);
        w.put(&self.cursor);
    }
}

impl Decode for FilteredListInput {
    const MIN_BYTES: usize = 66;

    fn decode(r: &mut Reader<'_>) -> Result<FilteredListInput, DecodeError> {
        for expected in Self::WORDS {
            let word = r.blob()?;
            if word != expected.as_bytes() {
                return Err(DecodeError::Value { what: "filter of a listing, length", value: word.len() as u64 });
            }
        }
        Ok(FilteredListInput { xattr: r.get()?, value: r.get()?, cursor: r.get()? })
    }
}
