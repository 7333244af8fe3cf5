//! An image's header: its fixed part, and its present state.

use super::image::Image;
use super::layout::Layout;
use super::opening::Opening;
use super::spec::{SnapshotKind, input};
use super::{feature, header_object, id_object};
use crate::error::Error;
use crate::operation::{Operation, Outcome};
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use types::{Errno, PoolId, SnapId, Utime};
use wire::basic::SnapContext;
use wire::rbd::{ChildSpec, ParentSpec, SnapshotInfo};
use wire::{Decode, Reader};

/// "Exec format error": the image lacks a feature.
const ENOEXEC: Errno = Errno(8);

/// Properties of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageInfo {
    pub name: String,
    pub id: String,
    /// Prefix of the names of its data objects.
    pub object_prefix: String,
    pub size_bytes: u64,
    pub layout: Layout,
    /// Bits of [`feature`].
    pub features: u64,
    /// Pool of the data objects, if it is not the pool of the header.
    pub data_pool: Option<PoolId>,
    /// Number of bytes of its parent that it shows, if it is a clone.
    pub parent_overlap_bytes: Option<u64>,
}

/// A snapshot of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub id: SnapId,
    pub name: String,
    pub kind: SnapshotKind,
    /// The image's size when the snapshot was taken.
    pub size_bytes: u64,
    pub created: Utime,
    pub is_protected: bool,
    /// Number of clones that the header knows of: those of the format that needs no protection.
    pub child_count: u32,
    pub(super) flags: u64,
    pub(super) parent_overlap: Option<u64>,
}

/// The part of an image that never changes.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub name: String,
    pub id: String,
    pub object_prefix: String,
    pub layout: Layout,
    pub data_pool: Option<PoolId>,
}

/// State of an image by its header, at present or in the snapshot that it was opened at.
#[derive(Clone)]
pub(super) struct ImageState {
    pub size: u64,
    pub features: u64,
    pub flags: u64,
    pub context: SnapContext,
    /// Oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The parent, with the length of its part that shows.
    pub parent: Option<Parent>,
    /// The parent that the header names, also where the image was made so small that nothing of it shows.
    pub linked: Option<ParentSpec>,
}

#[derive(Clone)]
pub(super) struct Parent {
    pub spec: ParentSpec,
    pub overlap: u64,
    /// The parent image, opened read-only at the snapshot, if it is to be read.
    pub image: Option<Image>,
}

impl ImageState {
    pub fn has(&self, features: u64) -> bool {
        self.features & features == features
    }

    pub fn snapshot(&self, name: &str) -> Result<&Snapshot, Error> {
        let named = |snapshot: &&Snapshot| snapshot.name == name && snapshot.kind == SnapshotKind::User;
        self.snapshots.iter().find(named).ok_or(Error::Errno(Errno::ENOENT))
    }

    /// Bytes of the parent that show; 0 without a parent.
    pub fn overlap(&self) -> u64 {
        self.parent.as_ref().map_or(0, |parent| parent.overlap)
    }
}

/// Runs one read-only method of class `rbd`.
pub(super) async fn ask<T: Decode>(pool: &Pool, object: &str, method: &str, input: Vec<u8>) -> Result<T, Error> {
    pool.operate(object.to_owned(), Operation::new().call("rbd", method, input)).await?.decode(0)
}

/// Runs one method of class `rbd` that changes something.
pub(super) async fn tell(pool: &Pool, object: &str, method: &str, input: Vec<u8>) -> Result<(), Error> {
    pool.operate(object.to_owned(), Operation::new().call_write("rbd", method, input)).await.map(drop)
}

pub(super) fn snap_input(snap: SnapId) -> Vec<u8> {
    input(|w| w.u64(snap.0))
}

/// The id of the image called `name`. Errors: `ENOENT`.
pub async fn id_of(pool: &Pool, name: &str) -> Result<String, Error> {
    let id: Bytes = ask(pool, &id_object(name), "get_id", Vec::new()).await?;
    Ok(String::from_utf8_lossy(&id).into_owned())
}

/// Loads the fixed part of an image, and checks its features. Errors: `ENOENT`; `EOPNOTSUPP` for features that are not
/// known here.
pub(super) async fn load_fixed(pool: &Pool, name: &str, id: &str, read_only: bool) -> Result<Fixed, Error> {
    let operation = Operation::new()
        .call("rbd", "get_size", snap_input(SnapId::HEAD))
        .call("rbd", "get_object_prefix", [])
        .call("rbd", "get_data_pool", [])
        .call(
            "rbd",
            "get_features",
            input(|w| {
                w.u64(SnapId::HEAD.0);
                w.bool(read_only);
            }),
        );
    let header = header_object(id);
    let outcome = pool.operate(header.clone(), operation).await?;
    let order = Reader::new(&outcome.bytes(0)?).u8()?;
    let prefix: Bytes = outcome.decode(1)?;
    let data_pool: i64 = outcome.decode(2)?;
    let features = outcome.bytes(3)?;
    let mut features = Reader::new(&features);
    let (has, needed) = (features.u64()?, features.u64()?);
    if needed & !feature::KNOWN != 0 {
        return Err(Error::Unsupported("an image with journaling, or which is mirrored or moved"));
    }
    let mut layout = Layout::plain(order.min(62));
    if has & feature::STRIPING != 0 {
        match pool.operate(header, Operation::new().call("rbd", "get_stripe_unit_count", [])).await {
            Ok(outcome) => {
                let bytes = outcome.bytes(0)?;
                let mut r = Reader::new(&bytes);
                (layout.stripe_unit_bytes, layout.stripe_count) = (r.u64()?, r.u64()?);
            }
            Err(Error::Errno(ENOEXEC | Errno::EINVAL | Errno::ENOENT)) => {}
            Err(error) => return Err(error),
        }
    }
    if !layout.is_valid() {
        return Err(Error::Answer(format!("{layout:?} of image {id}")));
    }
    Ok(Fixed {
        name: name.to_owned(),
        id: id.to_owned(),
        object_prefix: String::from_utf8_lossy(&prefix).into_owned(),
        layout,
        data_pool: (data_pool >= 0).then_some(PoolId(data_pool)),
    })
}

/// Loads the present state of the image, or that of the snapshot that it is opened at. `known`: the parent as it was
/// known before.
pub(super) async fn load_state(
    pool: &Pool,
    id: &str,
    opening: Opening,
    known: Option<Parent>,
) -> Result<ImageState, Error> {
    let at = opening.at;
    let header = header_object(id);
    let operation = Operation::new()
        .call("rbd", "get_size", snap_input(at))
        .call("rbd", "get_features", snap_input(at))
        .call("rbd", "get_flags", snap_input(at))
        .call("rbd", "get_snapcontext", [])
        .call("rbd", "parent_get", [])
        .call("rbd", "parent_overlap_get", snap_input(at));
    let outcome = pool.operate(header.clone(), operation).await?;
    let size = outcome.bytes(0)?;
    let mut size = Reader::new(&size);
    size.u8()?;
    let context: SnapContext = outcome.decode(3)?;
    if !context.is_valid() {
        return Err(Error::Answer(format!("snapshots {context:?} of image {id}")));
    }
    let spec: ParentSpec = outcome.decode(4)?;
    let overlap: Option<u64> = outcome.decode(5)?;
    let mut snapshots = Vec::new();
    for snap in context.snaps.iter().rev() {
        snapshots.push(load_snapshot(pool, &header, *snap).await?);
    }
    let linked = overlap.filter(|_| spec.exists()).map(|_| spec.clone());
    let parent = match overlap.filter(|overlap| spec.exists() && *overlap > 0) {
        None => None,
        Some(overlap) => {
            let image = match known.filter(|known| known.spec == spec) {
                Some(known) => known.image,
                None if opening.shows_parent => Some(open_parent(pool, id, &spec, opening).await?),
                None => None,
            };
            Some(Parent { spec, overlap, image })
        }
    };
    let features = Reader::new(&outcome.bytes(1)?).u64()?;
    Ok(ImageState { size: size.u64()?, features, flags: outcome.decode(2)?, context, snapshots, parent, linked })
}

async fn load_snapshot(pool: &Pool, header: &str, snap: SnapId) -> Result<Snapshot, Error> {
    let operation = Operation::new()
        .call("rbd", "snapshot_get", snap_input(snap))
        .call("rbd", "parent_overlap_get", snap_input(snap))
        .call("rbd", "get_flags", snap_input(snap))
        .call("rbd", "get_protection_status", snap_input(snap));
    let outcome: Outcome = pool.operate(header.to_owned(), operation).await?;
    let info: SnapshotInfo = outcome.decode(0)?;
    Ok(Snapshot {
        id: SnapId(info.id),
        name: String::from_utf8_lossy(&info.name).into_owned(),
        kind: SnapshotKind::of(&info.namespace),
        size_bytes: info.image_size,
        created: info.timestamp,
        is_protected: outcome.decode::<u8>(3)? != super::snapshots::UNPROTECTED,
        child_count: info.child_count,
        flags: outcome.decode(2)?,
        parent_overlap: outcome.decode(1)?,
    })
}

/// Opens a parent. Boxed, because the parent may itself be a clone with a parent to open.
fn open_parent<'a>(
    child: &'a Pool,
    child_id: &'a str,
    spec: &'a ParentSpec,
    opening: Opening,
) -> Pin<Box<dyn Future<Output = Result<Image, Error>> + Send + 'a>> {
    Box::pin(async move {
        let pool = child.cluster().pool_by_id(PoolId(spec.pool)).await?.namespace(spec.namespace.clone());
        let id = String::from_utf8_lossy(&spec.image).into_owned();
        if opening.doubts_header {
            check_parent(&pool, spec, child, child_id).await?;
        }
        match Image::open_as(&pool, "", &id, opening.of_parent(SnapId(spec.snap), true)?).await {
            // The image itself is there.
            Err(Error::Errno(Errno::ENOENT)) if opening.doubts_header => {
                Err(Error::Unsupported("work on an image whose parent is gone"))
            }
            opened => opened,
        }
    })
}

/// Refuses a header that names a parent elsewhere which does not list the image among its clones. Errors: `EOPNOTSUPP`.
async fn check_parent(parent: &Pool, spec: &ParentSpec, child: &Pool, child_id: &str) -> Result<(), Error> {
    if parent.id() == child.id() && parent.namespace_name() == child.namespace_name() {
        return Ok(());
    }
    let namespace = child.namespace_name().clone();
    let child = ChildSpec { pool: child.id().0, image: child_id.to_owned().into(), namespace };
    let header = header_object(&String::from_utf8_lossy(&spec.image));
    match ask::<BTreeSet<ChildSpec>>(parent, &header, "children_list", snap_input(SnapId(spec.snap))).await {
        Ok(children) if children.contains(&child) => Ok(()),
        Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Err(Error::Unsupported(
            "work for others on a clone whose parent is in another pool or namespace and does not list it: clones made \
             while clients from before Mimic are let in, among others",
        )),
        Err(error) => Err(error),
    }
}
