//! Block images, as librbd keeps them: both may use the same image in turn.
//!
//! ```no_run
//! # async fn f(pool: client::Pool) -> Result<(), Box<dyn std::error::Error>> {
//! use client::rbd::{self, Image, ImageOptions};
//! rbd::create(&pool, "disk", 1 << 30, &ImageOptions::default()).await?;
//! let image = Image::open(&pool, "disk").await?;
//! image.write(4096, "hello").await?;
//! image.create_snapshot("before").await?;
//! image.discard(0, 1 << 20).await?;
//! let old = Image::open_snapshot(&pool, "disk", "before").await?;
//! assert_eq!(old.read(4096, 5).await?.to_vec(), b"hello");
//! image.close().await?;
//! # Ok(()) }
//! ```
//!
//! * Start at [`Image`]; [`list`], [`create()`], [`clone`], [`rename`] and [`remove`] work on whole images.
//! * [`list_trash`], [`move_to_trash`], [`remove_from_trash`], [`purge_trash`]: images that wait for their removal.
//! * [`Course`]: how far long work is, and its end before its time.
//! * [`Image::open_for_others`] and [`remove_for_others`]: work with rights that those lack for whom it is done.
//!   Removals from the trash are of this kind.
//! * `layout` maps bytes to objects; `object_map` tells which objects exist.
//! * `lock` is the exclusive lock, held by the client that writes. The first update takes it. The owner gives it up
//!   when another client asks for it; from a dead owner it is taken away, after blocklisting the owner. An owner that
//!   has lost it refuses updates from then on: `EBLOCKLISTED`. An owner that does not know an update's outcome refuses
//!   them, too ([`crate::Error::InDoubt`]), and others take the lock from it as from a dead owner.
//! * `spec` and `notice`: bytes sent to object classes and to other clients.
//!
//! An update is durable when it is done: there is no cache, and [`Image::flush`] waits for changes in flight.
//!
//! Absent: images of format 1, journaling, mirroring, groups, migration, encryption; changing features.

mod course;
mod create;
mod data;
mod flatten;
mod header;
mod image;
mod known;
mod layout;
mod lock;
mod notice;
mod opening;
mod parent;
mod parent_link;
mod resize;
mod snapshots;
mod spec;
#[cfg(test)]
mod tests;
mod trash;
mod watcher;

pub use course::Course;
pub use create::{ImageOptions, clone, create, find_id, list, remove, remove_for_others, rename};
pub use header::{ImageInfo, Snapshot, id_of};
pub use image::Image;
pub use layout::Layout;
pub use opening::ESTALE;
pub use snapshots::{namespaces, some_namespaces};
pub use spec::SnapshotKind;
pub use trash::{Trashed, list_trash, move_to_trash, purge_trash, remove_from_trash};

/// Features of images, as bits.
pub mod feature {
    pub const LAYERING: u64 = 1 << 0;
    pub const STRIPING: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    pub const JOURNALING: u64 = 1 << 6;
    pub const DATA_POOL: u64 = 1 << 7;
    /// An operation was used that clients before Mimic do not understand.
    pub const OPERATIONS: u64 = 1 << 8;

    /// Features that librbd gives a new image by default.
    pub const DEFAULT: u64 = LAYERING | EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | DEEP_FLATTEN;
    /// Features of images that this library can write to.
    pub const KNOWN: u64 = DEFAULT | STRIPING | DATA_POOL | OPERATIONS;
}

/// Flags of an image, as bits.
mod flag {
    pub const OBJECT_MAP_INVALID: u64 = 1 << 0;
    pub const FAST_DIFF_INVALID: u64 = 1 << 1;
}

/// Objects that concern all images of a pool.
const DIRECTORY: &str = "rbd_directory";
const CHILDREN: &str = "rbd_children";
const TRASH: &str = "rbd_trash";
/// Object in the default namespace that lists the pool's namespaces.
const NAMESPACES: &str = "rbd_namespace";

/// Largest number of objects worked on at once by work on all of an image's objects.
const MANY_AT_ONCE: usize = 10;

fn id_object(name: &str) -> String {
    format!("rbd_id.{name}")
}

fn header_object(id: &str) -> String {
    format!("rbd_header.{id}")
}

/// The object map of the image itself (`None`) or of a snapshot.
fn map_object(id: &str, snap: Option<u64>) -> String {
    snap.map_or_else(|| format!("rbd_object_map.{id}"), |snap| format!("rbd_object_map.{id}.{snap:016x}"))
}
