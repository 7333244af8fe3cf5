//! The content that a copy takes over from its source.

use bytes::Bytes;
use std::collections::BTreeMap;
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Rope, Target, Writer};

/// An object's content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Copied {
    /// Version of the source as clients see it.
    pub version: u64,
    pub mtime: Utime,
    pub attrs: BTreeMap<Bytes, Bytes>,
    pub omap_header: Bytes,
    pub omap: BTreeMap<Bytes, Bytes>,
    pub data: Rope,
}

/// All but the data.
struct Head {
    result: i32,
    copied: Copied,
}

impl Encode for Head {
    fn encode(&self, w: &mut Writer) {
        let Copied { version, mtime, attrs, omap_header, omap, .. } = &self.copied;
        w.i32(self.result);
        w.u64(*version);
        w.put(mtime);
        w.put(attrs);
        w.put(omap_header);
        w.put(omap);
    }
}

impl Decode for Head {
    const MIN_BYTES: usize = 32;

    fn decode(r: &mut Reader<'_>) -> Result<Head, DecodeError> {
        let result = r.i32()?;
        let (version, mtime, attrs, omap_header, omap) = (r.u64()?, r.get()?, r.get()?, r.get()?, r.get()?);
        Ok(Head { result, copied: Copied { version, mtime, attrs, omap_header, omap, data: Rope::new() } })
    }
}

impl Copied {
    /// Returns the form in which a copy is handed to the operation that waits for it, as if it had been read: the data
    /// last. It is in memory only.
    pub fn into_rope(outcome: Result<Copied, i32>) -> Rope {
        let (result, copied) = match outcome {
            Ok(copied) => (0, copied),
            Err(result) => (result, Copied::default()),
        };
        let data = copied.data.clone();
        let head = Head { result, copied }.to_vec(Target::default());
        let mut rope = Rope::from((head.len() as u64).to_le_bytes().to_vec());
        rope.append(Rope::from(head));
        rope.append(data);
        rope
    }

    /// Reads the form that [`Copied::into_rope`] makes. Errors: the negative error number that it holds.
    pub fn from_rope(rope: &Rope) -> Result<Copied, i32> {
        const LEN: usize = 8;
        let len = rope.slice(0, LEN).to_vec();
        let len = u64::from_le_bytes(len[..].try_into().expect("eight bytes")) as usize;
        let head = Head::from_slice(&rope.slice(LEN, len).to_vec()).expect("our own");
        let data_len = rope.len() - LEN - len;
        let data = if data_len == 0 { Rope::new() } else { rope.slice(LEN + len, data_len) };
        match head.result {
            0 => Ok(Copied { data, ..head.copied }),
            error => Err(error),
        }
    }
}
