//! The link between a clone and its parent, on the parent's side.

use super::header::{ask, tell};
use super::image::{Image, Inner};
use super::spec::input;
use super::{CHILDREN, header_object};
use crate::error::Error;
use crate::operation::Operation;
use crate::pool::Pool;
use bytes::Bytes;
use std::future::Future;
use std::pin::Pin;
use types::{Errno, PoolId, SnapId};
use wire::Release;
use wire::rbd::{ChildSpec, ParentSpec};

/// Operation feature of a clone that is listed in its parent's header.
pub(super) const CLONE_CHILD: u64 = 1 << 1;

/// The key under which pools list the clones of a snapshot, in the old format.
pub(super) fn old_key(pool: PoolId, image: &str, snap: SnapId) -> Vec<u8> {
    input(|w| {
        w.put(&pool.0);
        w.str(image);
        w.u64(snap.0);
    })
}

fn old_child(spec: &ParentSpec, child: &str) -> Vec<u8> {
    input(|w| {
        w.put(&spec.pool);
        w.put(&spec.image);
        w.u64(spec.snap);
        w.str(child);
    })
}

fn new_child(spec: &ParentSpec, pool: &Pool, child: &str) -> Vec<u8> {
    let namespace = pool.namespace_name().clone();
    let child = ChildSpec { pool: pool.id().0, image: Bytes::from(child.to_owned()), namespace };
    input(|w| {
        w.u64(spec.snap);
        w.put(&child);
    })
}

/// True if clones are made in the new format, without protecting their snapshots: the cluster admits only clients that
/// know it.
pub(super) fn is_new_format(pool: &Pool) -> bool {
    let oldest = |cluster: &osdmap::OsdMap| cluster.require_min_compat_client >= Release::MIMIC;
    pool.driver.shared.look(|objecter| objecter.placement().is_some_and(|placement| oldest(placement.map())))
}

async fn parent_pool(pool: &Pool, spec: &ParentSpec) -> Result<Pool, Error> {
    Ok(pool.cluster().pool_by_id(PoolId(spec.pool)).await?.namespace(spec.namespace.clone()))
}

/// Registers a clone on the parent's side. The clone's header names the parent already.
pub(super) async fn attach(pool: &Pool, child: &str, spec: &ParentSpec, new_format: bool) -> Result<(), Error> {
    if !new_format {
        return tell(pool, CHILDREN, "add_child", old_child(spec, child)).await;
    }
    let features = input(|w| {
        w.u64(CLONE_CHILD);
        w.u64(CLONE_CHILD);
    });
    tell(pool, &header_object(child), "op_features_set", features).await?;
    let parent = header_object(&String::from_utf8_lossy(&spec.image));
    tell(&parent_pool(pool, spec).await?, &parent, "child_attach", new_child(spec, pool, child)).await
}

/// Undoes [`attach`] for a clone that could not be made.
pub(super) async fn undo_attach(pool: &Pool, child: &str, spec: &ParentSpec, new_format: bool) -> Result<(), Error> {
    let undone = match new_format {
        false => tell(pool, CHILDREN, "remove_child", old_child(spec, child)).await,
        true => {
            let parent = header_object(&String::from_utf8_lossy(&spec.image));
            tell(&parent_pool(pool, spec).await?, &parent, "child_detach", new_child(spec, pool, child)).await
        }
    };
    match undone {
        Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        other => other,
    }
}

/// Removes a clone from the parent's side. A snapshot that was only kept for its clones is removed with the last of
/// them.
///
/// Boxed, because it is recursive: that snapshot may be the last that shows its own image's parent.
pub(super) fn detach<'a>(
    child: &'a Inner,
    spec: &'a ParentSpec,
) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
    Box::pin(detach_from(child, spec))
}

async fn detach_from(child: &Inner, spec: &ParentSpec) -> Result<(), Error> {
    let id = &child.fixed.id;
    let op_features: u64 = ask(&child.pool, &child.header, "op_features_get", Vec::new()).await?;
    let tell = async |pool: &Pool, object: String, method: &str, fields: Vec<u8>| match child
        .change(pool, object, Operation::new().call_write("rbd", method, fields))
        .await
    {
        Ok(_) | Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        Err(error) => Err(error),
    };
    if op_features & CLONE_CHILD == 0 {
        return tell(&child.pool, CHILDREN.to_owned(), "remove_child", old_child(spec, id)).await;
    }
    let pool = match parent_pool(&child.pool, spec).await {
        Err(Error::NoPool(_)) => return Ok(()),
        pool => pool?,
    };
    let image = String::from_utf8_lossy(&spec.image).into_owned();
    tell(&pool, header_object(&image), "child_detach", new_child(spec, &child.pool, id)).await?;
    if image == *id && pool.id() == child.pool.id() && pool.namespace_name() == child.pool.namespace_name() {
        // Its turn is taken already, and would be waited for without end.
        return Ok(());
    }
    // Nothing of the parent's own parents is read.
    let opening = child.opening.of_parent(SnapId::HEAD, false)?.without_parent();
    let parent = match Image::open_as(&pool, "", &image, opening).await {
        Err(Error::Errno(Errno::ENOENT)) => return Ok(()),
        parent => parent?,
    };
    let trashed = |s: &super::Snapshot| s.id.0 == spec.snap && s.kind == super::SnapshotKind::Trash;
    // The header tells which snapshot of the data's pool is removed, and a pool's namespaces have their snapshots in
    // common. Whoever writes the header may remove them all only in the same pool, and without a namespace.
    let has_all = parent.inner.fixed.data_pool.is_none_or(|data| data == pool.id()) && spec.namespace.is_empty();
    let may_remove = has_all || !child.opening.doubts_header;
    let removed = match may_remove && parent.snapshots().await?.iter().any(trashed) {
        true => parent.remove_trashed_snapshot(SnapId(spec.snap)).await,
        false => parent.inner.header_changed().await,
    };
    removed.and(parent.close().await)
}
