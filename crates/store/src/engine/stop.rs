//! Why a store accepts no change any longer.

use crate::btree::Damage;
use crate::{Device, Loss};
use types::{Errno, ObjectId};

/// A request to a device whose failure stops the store, since it was to make something durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedRequest {
    /// A write of data or of the log record of the turn with this LSN.
    TurnWrite { lsn: u64, device: Device },
    /// The flush behind a turn's writes.
    TurnFlush { device: Device },
    /// A write of a page of the metadata tree.
    PageWrite,
    /// The write of a checkpoint's root.
    CheckpointRoot,
    /// A flush of a checkpoint.
    CheckpointFlush { device: Device },
}

/// Reasons why a store accepts no change any longer. It still answers lookups of everything that is not lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StopReason {
    /// A device failed a request that was to make something durable, so changes in memory may never become durable.
    #[error("{request:?} failed: {}", Errno(*errno))]
    Device { request: FailedRequest, errno: i32 },
    /// A checkpoint needs a page that cannot be used. Only other members of the placement groups have its content.
    #[error("checkpoint: metadata is damaged: {0}; see `nacre store repair`")]
    CheckpointDamage(Damage),
    #[error("checkpoint: no space for new pages")]
    CheckpointSpace,
    /// An accepted transaction clones an object that turned out not to exist.
    #[error("clone of {0}, which does not exist")]
    CloneSource(ObjectId),
    /// An accepted transaction needs metadata that cannot be used.
    #[error("metadata that a transaction changes is damaged: {0}; see `nacre store repair`")]
    TransactionDamage(Damage),
    /// The store was opened with parts of its metadata lost. `first`: of `places`.
    #[error("metadata is damaged{}: {first}; see `nacre store check` and `nacre store repair`", in_places(*places))]
    MetadataLost { first: Box<Loss>, places: usize },
    /// The store was opened, but changes of its log need damaged metadata.
    #[error(
        "changes in the log are of objects whose metadata is damaged; see `nacre store check` and `nacre store repair`"
    )]
    ReplayDamage,
}

fn in_places(places: usize) -> String {
    if places == 1 { String::new() } else { format!(" in {places} places, the first") }
}

impl StopReason {
    /// Returns the reason of a store that was opened with damage: with these losses, or with none in the tree itself.
    pub(crate) fn of_losses(losses: &[Loss]) -> StopReason {
        match losses.first() {
            None => StopReason::ReplayDamage,
            Some(first) => StopReason::MetadataLost { first: Box::new(first.clone()), places: losses.len() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::{DamageKind, Lost, Run};

    #[test]
    fn reasons_read_as_one_sentence() {
        let request = FailedRequest::TurnWrite { lsn: 7, device: Device::Wal };
        let failed = StopReason::Device { request, errno: Errno::EIO.0 }.to_string();
        assert!(failed.starts_with("TurnWrite { lsn: 7, device: Wal } failed: "), "{failed}");
        let damage = Damage { run: Run { start: 8, count: 2 }, kind: DamageKind::Magic };
        let loss = Loss::from(Lost { damage, from: vec![2], until: None });
        let one = StopReason::of_losses(std::slice::from_ref(&loss)).to_string();
        assert!(one.starts_with(&format!("metadata is damaged: {loss}; see ")), "{one}");
        let two = StopReason::of_losses(&[loss.clone(), loss.clone()]).to_string();
        assert!(two.starts_with(&format!("metadata is damaged in 2 places, the first: {loss}; see ")), "{two}");
        assert!(StopReason::of_losses(&[]).to_string().starts_with("changes in the log are of objects whose "));
    }
}
