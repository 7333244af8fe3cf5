//! Findings of a check.

use serde_json::{Value, json};
use std::fmt;
use store::ReadError;
use types::{EVersion, Errno, ObjectId, PgId};

/// Advice if nothing of a store can be used.
pub const MAKE_ANEW: &str = "This store cannot be repaired: remove the OSD ('ceph osd purge ID --yes-i-really-mean-it'), make it anew ('nacre osd --mkfs') and let the others restore what it had";

/// A thing in a store that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// One copy of the superblock is lost. The other copy serves.
    Superblock { device: store::Device, offset: u64, what: String },
    /// The block of a checkpoint root holds no root, or cannot be read. The other root serves. A power cut while a root
    /// was written has the same effect, so this counts as damage only if the device reports an error.
    Root { offset: u64, what: String, damage: bool },
    /// A block of the log cannot be read. It holds nothing that is needed.
    LogBlock { device: store::Device, offset: u64 },
    /// The store does not open, so the check cannot say anything else about it.
    DoesNotOpen { why: String },
    /// A block of an object cannot be read, or fails its checksum.
    Block { error: ReadError },
    /// A count of the store differs from the content, or two things hold the same space.
    Accounting { what: String },
    /// A part of the metadata cannot be read. With it the groups may have lost objects, or entries of their tables.
    Lost { what: String, groups: Vec<PgId> },
    /// A part of the object's metadata was lost, and the object with it. With a group: the group lacks this version.
    LostObject { object: ObjectId, group: Option<(PgId, EVersion)> },
    /// The store cannot be repaired, because too much is lost.
    Hopeless { why: String },
    /// An object's attributes lack information that a placement group needs, or hold it damaged.
    ObjectInfo { object: ObjectId, what: String },
    /// A placement group's table contradicts itself or does not match its objects.
    Group { pg: PgId, what: String },
}

impl Finding {
    /// True if something is lost or wrong; false for a finding that is only worth knowing.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Finding::Root { damage: false, .. })
    }

    pub fn json(&self) -> Value {
        let mut value = match self {
            Finding::Superblock { device, offset, what } => {
                json!({"kind": "superblock", "device": device.to_string(), "device_offset": offset, "what": what})
            }
            Finding::Root { offset, what, .. } => json!({"kind": "root", "device_offset": offset, "what": what}),
            Finding::LogBlock { device, offset } => {
                json!({"kind": "log_block", "device": device.to_string(), "device_offset": offset})
            }
            Finding::DoesNotOpen { why } => json!({"kind": "does_not_open", "what": why}),
            Finding::Block { error } => block_json(error),
            Finding::Accounting { what } => json!({"kind": "accounting", "what": what}),
            Finding::Lost { what, groups } => {
                json!({"kind": "lost", "what": what, "pgs": groups.iter().map(PgId::to_string).collect::<Vec<_>>()})
            }
            Finding::LostObject { object, group } => json!({
                "kind": "lost_object", "object": object.to_string(), "pg": group.map(|(pg, _)| pg.to_string()),
                "version": group.map(|(_, version)| version.to_string()),
            }),
            Finding::Hopeless { why } => json!({"kind": "hopeless", "what": why}),
            Finding::ObjectInfo { object, what } => {
                json!({"kind": "object_info", "object": object.to_string(), "what": what})
            }
            Finding::Group { pg, what } => json!({"kind": "pg", "pg": pg.to_string(), "what": what}),
        };
        value["damage"] = json!(self.is_damage());
        value
    }
}

fn block_json(error: &ReadError) -> Value {
    let (object, object_offset, device_offset, what) = match error {
        ReadError::Checksum { object, object_offset, device_offset } => {
            (object, object_offset, device_offset, "checksum".to_owned())
        }
        ReadError::Device { object, object_offset, device_offset, errno } => {
            (object, object_offset, device_offset, Errno(*errno).to_string())
        }
        ReadError::Metadata { object, damage } => {
            return json!({"kind": "metadata", "object": object.to_string(), "what": damage.to_string()});
        }
    };
    json!({
        "kind": "block", "object": object.to_string(), "object_offset": object_offset,
        "device_offset": device_offset, "what": what,
    })
}

/// The first groups of a list.
fn list(groups: &[PgId]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = groups.iter().take(SHOWN).map(PgId::to_string).collect();
    let more = if groups.len() > SHOWN { format!(" and {} more", groups.len() - SHOWN) } else { String::new() };
    shown.join(", ") + &more
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Superblock { device: store::Device::Main, offset, what } => {
                write!(f, "superblock copy at {offset:#x}: {what}")
            }
            Finding::Superblock { device, offset, what } => {
                write!(f, "superblock copy at {offset:#x} of the {device}: {what}")
            }
            Finding::Root { offset, what, .. } => write!(f, "checkpoint root at {offset:#x}: {what}"),
            Finding::LogBlock { device, offset } => {
                write!(
                    f,
                    "block of the log at {offset:#x} of the {device} cannot be read; nothing that is needed is in it"
                )
            }
            Finding::DoesNotOpen { why } => {
                write!(f, "{why}. {MAKE_ANEW}")
            }
            Finding::Block { error: ReadError::Checksum { object, object_offset, device_offset } } => write!(
                f,
                "object {object}: block at byte {object_offset} (device offset {device_offset:#x}) fails its checksum"
            ),
            Finding::Block { error: ReadError::Device { object, object_offset, device_offset, errno } } => write!(
                f,
                "object {object}: block at byte {object_offset} (device offset {device_offset:#x}) cannot be read: {}",
                Errno(*errno)
            ),
            Finding::Block { error: ReadError::Metadata { object, damage } } => {
                write!(f, "object {object}: where its blocks are cannot be told: {damage}")
            }
            Finding::Accounting { what } => f.write_str(what),
            Finding::Lost { what, groups } => {
                write!(f, "metadata is lost: {what}")?;
                match groups.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; concerns pgs {}", list(groups)),
                }
            }
            Finding::LostObject { object, group: Some((pg, version)) } => {
                write!(f, "object {object} is lost with it; pg {pg} should have version {version}")
            }
            Finding::LostObject { object, group: None } => write!(f, "object {object} is lost with it"),
            Finding::Hopeless { why } => write!(f, "{why}: this store cannot be repaired"),
            Finding::ObjectInfo { object, what } => write!(f, "object {object}: {what}"),
            Finding::Group { pg, what } => write!(f, "pg {pg}: {what}"),
        }
    }
}
