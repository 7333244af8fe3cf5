//! Class `rbd`: block images.
//!
//! An image is a header object, whose omap holds its properties, data objects, and an entry in its pool's directory.
//! Keys and values are those of Ceph's images of format 2. Mirroring, groups and migration can only be queried: the
//! answers are those of an image without them.

mod children;
mod copyup;
mod directory;
mod header;
mod metadata;
mod namespaces;
mod object_map;
mod others;
mod parent;
mod snapshots;
mod trash;

use crate::method::Method;
use crate::object::{Object, Stop};
use types::Errno;
pub(crate) use wire::rbd::NO_SNAP;

/// Features of images, as bits.
pub(crate) mod feature {
    pub const LAYERING: u64 = 1 << 0;
    pub const STRIPING: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    pub const JOURNALING: u64 = 1 << 6;
    pub const DATA_POOL: u64 = 1 << 7;
    /// An operation feature is in use.
    pub const OPERATIONS: u64 = 1 << 8;
    pub const MIGRATING: u64 = 1 << 9;
    pub const NON_PRIMARY: u64 = 1 << 10;
    pub const DIRTY_CACHE: u64 = 1 << 11;

    pub const ALL: u64 = 0xfff;
    /// Features that a client must know to read the image.
    pub const INCOMPATIBLE: u64 = LAYERING | STRIPING | DATA_POOL | DIRTY_CACHE;
    /// Features that a client must know to write to the image.
    pub const WRITE_INCOMPATIBLE: u64 = INCOMPATIBLE
        | EXCLUSIVE_LOCK
        | OBJECT_MAP
        | FAST_DIFF
        | DEEP_FLATTEN
        | JOURNALING
        | OPERATIONS
        | MIGRATING
        | NON_PRIMARY;
    /// Features that can be switched on and off during an image's life.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// Features that can only be switched off.
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// Features that clients cannot set.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// Operation features: operations were used on the image that old clients do not understand.
pub(crate) mod op_feature {
    pub const CLONE_PARENT: u64 = 1 << 0;
    pub const CLONE_CHILD: u64 = 1 << 1;
    pub const GROUP: u64 = 1 << 2;
    pub const SNAP_TRASH: u64 = 1 << 3;
    pub const ALL: u64 = CLONE_PARENT | CLONE_CHILD | GROUP | SNAP_TRASH;
}

/// The largest id of a snapshot.
pub(crate) const SNAP_MAX: u64 = u64::MAX - 2;

/// "Exec format error": the image lacks the feature.
pub(crate) const ENOEXEC: Errno = Errno(8);
pub(crate) const EBADF: Errno = Errno(9);
pub(crate) const EXDEV: Errno = Errno(18);
pub(crate) const ENOSYS: Errno = Errno(38);
pub(crate) const ESTALE: Errno = Errno(116);

pub(crate) const METHODS: &[Method] = &[
    // Methods of an image.
    Method::update("create", header::create),
    Method::read("get_features", header::get_features),
    Method::update("set_features", header::set_features),
    Method::read("get_all_features", header::get_all_features),
    Method::read("get_size", header::get_size),
    Method::update("set_size", header::set_size),
    Method::read("get_object_prefix", header::get_object_prefix),
    Method::read("get_data_pool", header::get_data_pool),
    Method::read("get_stripe_unit_count", header::get_stripe_unit_count),
    Method::update("set_stripe_unit_count", header::set_stripe_unit_count),
    Method::read("get_create_timestamp", |object, _| header::get_timestamp(object, "create_timestamp")),
    Method::read("get_access_timestamp", |object, _| header::get_timestamp(object, "access_timestamp")),
    Method::read("get_modify_timestamp", |object, _| header::get_timestamp(object, "modify_timestamp")),
    Method::update("set_access_timestamp", |object, _| header::set_timestamp(object, "access_timestamp")),
    Method::update("set_modify_timestamp", |object, _| header::set_timestamp(object, "modify_timestamp")),
    Method::read("get_flags", header::get_flags),
    Method::update("set_flags", header::set_flags),
    Method::read("op_features_get", header::op_features_get),
    Method::update("op_features_set", header::op_features_set),
    Method::read("metadata_list", metadata::list),
    Method::update("metadata_set", metadata::set),
    Method::update("metadata_remove", metadata::remove),
    Method::read("metadata_get", metadata::get),
    // Methods of an image's snapshots.
    Method::read("get_snapcontext", snapshots::get_context),
    Method::read("get_snapshot_name", snapshots::get_name),
    Method::read("get_snapshot_timestamp", snapshots::get_timestamp),
    Method::read("snapshot_get", snapshots::get),
    Method::update("snapshot_add", snapshots::add),
    Method::update("snapshot_remove", snapshots::remove),
    Method::update("snapshot_rename", snapshots::rename),
    Method::update("snapshot_trash_add", snapshots::trash),
    Method::read("snapshot_get_limit", snapshots::get_limit),
    Method::update("snapshot_set_limit", snapshots::set_limit),
    Method::read("get_protection_status", snapshots::get_protection),
    Method::update("set_protection_status", snapshots::set_protection),
    // Methods of an image's parent and clones.
    Method::read("parent_get", parent::get),
    Method::read("parent_overlap_get", parent::overlap_get),
    Method::update("parent_attach", parent::attach),
    Method::update("parent_detach", parent::detach),
    Method::read("get_parent", parent::get_old),
    Method::update("set_parent", parent::set_old),
    Method::update("remove_parent", parent::detach),
    Method::update("child_attach", children::attach),
    Method::update("child_detach", children::detach),
    Method::read("children_list", children::list),
    Method::update("add_child", children::add),
    Method::update("remove_child", children::remove),
    Method::read("get_children", children::get),
    // Methods of a pool's directory, trash and namespaces.
    Method::read("get_id", directory::get_id),
    Method::update("set_id", directory::set_id),
    Method::read("dir_get_id", directory::id_of),
    Method::read("dir_get_name", directory::name_of),
    Method::read("dir_list", directory::list),
    Method::update("dir_add_image", directory::add),
    Method::update("dir_remove_image", directory::remove),
    Method::update("dir_rename_image", directory::rename),
    Method::read("dir_state_assert", directory::state_assert),
    Method::update("dir_state_set", directory::state_set),
    Method::update("trash_add", trash::add),
    Method::update("trash_remove", trash::remove),
    Method::read("trash_get", trash::get),
    Method::read("trash_list", trash::list),
    Method::update("trash_state_set", trash::state_set),
    Method::update("namespace_add", namespaces::add),
    Method::update("namespace_remove", namespaces::remove),
    Method::read("namespace_list", namespaces::list),
    // Methods of data objects.
    Method::update("copyup", copyup::copyup),
    Method::update("sparse_copyup", copyup::sparse_copyup),
    Method::read("assert_snapc_seq", copyup::assert_snap_context),
    Method::update("sparsify", copyup::sparsify),
    // Methods of the object map.
    Method::read("object_map_load", object_map::load),
    Method::update("object_map_save", object_map::save),
    Method::update("object_map_resize", object_map::resize),
    Method::update("object_map_update", object_map::update),
    Method::update("object_map_snap_add", object_map::snap_add),
    Method::update("object_map_snap_remove", object_map::snap_remove),
    // Methods of groups and mirroring, which no image has.
    Method::read("image_group_get", others::image_group_get),
    Method::read("mirror_mode_get", others::mirror_mode_get),
    Method::read("mirror_uuid_get", others::mirror_uuid_get),
    Method::read("mirror_image_get", others::mirror_image_get),
    Method::read("mirror_peer_list", others::mirror_peer_list),
    Method::read("migration_get", others::migration_get),
];

/// Fails with ENOEXEC if the image lacks `wanted`, or the object is no image.
pub(crate) fn require_feature(object: &mut dyn Object, wanted: u64) -> Result<(), Stop> {
    let features: Option<u64> = object.value("features")?;
    if features.is_some_and(|features| features & wanted == wanted) { Ok(()) } else { Err(ENOEXEC.into()) }
}
