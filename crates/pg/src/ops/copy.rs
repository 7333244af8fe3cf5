//! The step that makes an object what another one is.

use super::execute::{Execution, OpStop, StepOutput, own};
use crate::copy::{Copied, CopySource};
use crate::group::object_info::user_attr;
use std::sync::Arc;
use store::Step;
use types::{Errno, SnapId};
use wire::basic::Locator;
use wire::messages::op_data::{CopyFrom2Input, CopyFromInput};
use wire::messages::{CopyFrom, Op, OpArgs, OpCode};
use wire::{Decode, Rope};

/// Flags of Ceph's `CEPH_OSD_COPY_FROM_FLAGS`; of them only that of the truncation says something to pools without
/// tiers.
const TRUNCATION_GIVEN: u8 = 0x20;
const KNOWN_FLAGS: u8 = 0x3f;

impl Execution<'_> {
    pub(super) fn copy_from(&mut self, op: &Op) -> StepOutput {
        let OpArgs::CopyFrom(CopyFrom { snap, src_version, flags, .. }) = op.args else {
            return Err(Errno::EINVAL.into());
        };
        let is_second = op.code == OpCode::COPY_FROM2;
        if is_second && flags & !KNOWN_FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        let input = op.indata.to_vec();
        let (name, locator, truncation) = match is_second && flags & TRUNCATION_GIVEN != 0 {
            true => {
                let CopyFrom2Input { name, locator, truncate_seq, truncate_size } = CopyFrom2Input::from_slice(&input)?;
                (name, locator, Some((truncate_seq, truncate_size)))
            }
            false => {
                let CopyFromInput { name, locator } = CopyFromInput::from_slice(&input)?;
                (name, locator, None)
            }
        };
        if self.is_own(&name, &locator, snap) {
            return Err(Errno::EINVAL.into());
        }
        let bytes_max = self.answers.room();
        let source = CopySource { name: own(&name), locator, snap, version: src_version, bytes_max };
        let Some(fetched) = self.answers.copied(&source)? else {
            return Err(OpStop::Copy(Box::new(source)));
        };
        let fetched = fetched.map_err(|_| OpStop::Failed(Errno::EIO))?;
        // No more than there is room for was fetched; what lies around it does not count.
        self.answers.take(bytes_max.min(fetched.len() as u64))?;
        self.become_copy(Copied::from_rope(&fetched).map_err(OpStop::Result)?, truncation)
    }

    /// Returns true if the source is the object that is to become the copy.
    fn is_own(&self, name: &[u8], locator: &Locator, snap: SnapId) -> bool {
        let own = self.request.object;
        let key = if locator.key == name { &[][..] } else { &locator.key[..] };
        snap == SnapId::HEAD
            && (locator.pool, &locator.nspace[..], name) == (own.pool.base(), &own.nspace[..], &own.name[..])
            && key == &own.key[..]
    }

    fn become_copy(&mut self, copied: Copied, truncation: Option<(u32, u64)>) -> StepOutput {
        let Copied { version, mtime, attrs, omap_header, omap, data } = copied;
        let has_omap = !omap.is_empty() || !omap_header.is_empty();
        if has_omap && !self.request.may_overwrite {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let old_attrs = self.user_attrs();
        let len = data.len() as u64;
        self.step(&Op::write_full(data))?;
        for name in old_attrs.into_keys().filter(|name| !attrs.contains_key(name)) {
            let object = self.object();
            self.push(Step::RemoveAttr { object, name: user_attr(&name) });
        }
        for (name, value) in attrs {
            let object = self.object();
            self.push(Step::SetAttr { object, name: user_attr(&name), value: own(&value) });
        }
        if self.request.may_overwrite {
            let object = self.object();
            self.push(Step::OmapClear { object });
            if has_omap {
                let (object, header) = (self.object(), own(&omap_header));
                self.push(Step::OmapSetHeader { object, header });
                let (object, entries) = (self.object(), omap.into_iter().collect());
                self.push(Step::OmapSet { object, entries });
            }
        }
        let info = Arc::make_mut(&mut self.info);
        (info.truncate_seq, info.truncate_size) = truncation.unwrap_or_default();
        self.copied = Some((version, mtime));
        debug_assert_eq!(self.size, len, "the copy is as long as its source");
        Ok((0, Rope::new()))
    }
}
