//! Whole images: made, cloned, listed, renamed, removed. A change goes on to its end even if its future is dropped.

use super::course::Course;
use super::header::{self, ImageState, ask, tell};
use super::image::{Image, Inner, to_the_end};
use super::layout::Layout;
use super::opening::{Opening, must_be_gone, must_not_have_another_name};
use super::snapshots::is_protected;
use super::spec::input;
use super::{DIRECTORY, feature, header_object, id_object, map_object, parent_link};
use crate::error::Error;
use crate::operation::Operation;
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{Errno, SnapId};
use wire::rbd::ParentSpec;
use wire::rbd::object_map::state;

/// Largest number of objects of an image; a limit of Ceph's object maps.
pub(super) const OBJECTS_MAX: u64 = 256_000_000;
/// Names asked for per request.
const PAGE: u64 = 1024;
/// State of a directory to which images may be added.
const READY: u8 = 0;

/// Options of a new image.
#[derive(Clone)]
pub struct ImageOptions {
    pub layout: Layout,
    /// Bits of [`feature`]; features that follow from the other options are added.
    pub features: u64,
    /// Pool of the data objects; `None` for the pool of the header.
    pub data_pool: Option<Pool>,
}

impl Default for ImageOptions {
    /// A plain row of objects of 4 MiB, and the features that librbd gives by default.
    fn default() -> ImageOptions {
        ImageOptions { layout: Layout::plain(22), features: feature::DEFAULT, data_pool: None }
    }
}

impl ImageOptions {
    /// The features of an image with these options. Errors: `EINVAL` for features that exclude each other.
    fn features(&self) -> Result<u64, Error> {
        let mut features = self.features & !(feature::STRIPING | feature::DATA_POOL);
        if !self.layout.is_plain() {
            features |= feature::STRIPING;
        }
        if self.data_pool.is_some() {
            features |= feature::DATA_POOL;
        }
        if features & !feature::KNOWN != 0 {
            return Err(Error::Unsupported("images with journaling"));
        }
        let needs = |what: u64, other: u64| features & what == 0 || features & other != 0;
        let together = needs(feature::OBJECT_MAP, feature::EXCLUSIVE_LOCK)
            && needs(feature::FAST_DIFF, feature::OBJECT_MAP)
            && features & feature::OPERATIONS == 0;
        if together && self.layout.is_valid() { Ok(features) } else { Err(Errno::EINVAL.into()) }
    }
}

/// The images of a pool and namespace: ids by name.
pub async fn list(pool: &Pool) -> Result<BTreeMap<String, String>, Error> {
    let mut images = BTreeMap::new();
    let mut after = Bytes::new();
    loop {
        let fields = input(|w| {
            w.put(&after);
            w.u64(PAGE);
        });
        let page: BTreeMap<Bytes, Bytes> = match ask(pool, DIRECTORY, "dir_list", fields).await {
            Err(Error::Errno(Errno::ENOENT)) => return Ok(images),
            page => page?,
        };
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        images.extend(page.iter().map(|(name, id)| (text(name), text(id))));
        match page.last_key_value().filter(|_| page.len() as u64 == PAGE) {
            Some((last, _)) => after = last.clone(),
            None => return Ok(images),
        }
    }
}

/// An id that no other image has, made of the client's global id and a random number.
fn fresh_id(pool: &Pool) -> String {
    let random = crate::cluster::fresh_seed() as u32;
    format!("{:x}{random:08x}", pool.cluster().client_id())
}

/// Makes an image. Errors: `EEXIST`; `EINVAL` for a bad name, options that exclude each other, or more objects than
/// Ceph allows.
pub async fn create(pool: &Pool, name: &str, size_bytes: u64, options: &ImageOptions) -> Result<(), Error> {
    let (pool, name, options) = (pool.clone(), name.to_owned(), options.clone());
    to_the_end(&pool.clone(), async move { make(&pool, &name, &fresh_id(&pool), size_bytes, &options).await }).await
}

async fn make(pool: &Pool, name: &str, id: &str, size_bytes: u64, options: &ImageOptions) -> Result<(), Error> {
    let (features, layout) = (options.features()?, options.layout);
    let objects = layout.object_count(size_bytes);
    if name.is_empty() || name.contains(['@', '/']) || objects > OBJECTS_MAX {
        return Err(Errno::EINVAL.into());
    }
    let (entry, header) = (id_object(name), header_object(id));
    match pool.stat(entry.clone()).await {
        Ok(_) => return Err(Errno::EEXIST.into()),
        Err(Error::Errno(Errno::ENOENT)) => {}
        Err(error) => return Err(error),
    }
    // The directory's entry comes first: it decides between two clients that make the same name at once.
    let mut operation = Operation::new();
    if !pool.namespace_name().is_empty() {
        operation = operation.call("rbd", "dir_state_assert", [READY]);
    }
    operation = operation.call_write("rbd", "dir_add_image", names(&[name, id]));
    pool.operate(DIRECTORY, operation).await?;
    let made = async {
        let operation = Operation::new().create(true).call_write("rbd", "set_id", names(&[id]));
        pool.operate(entry.clone(), operation).await?;
        let prefix = match &options.data_pool {
            Some(_) => format!("rbd_data.{}.{id}", pool.id().0),
            None => format!("rbd_data.{id}"),
        };
        let fields = input(|w| {
            w.u64(size_bytes);
            w.u8(layout.order);
            w.u64(features);
            w.str(&prefix);
            w.i64(options.data_pool.as_ref().map_or(-1, |pool| pool.id().0));
        });
        let operation = Operation::new().create(true).call_write("rbd", "create", fields);
        pool.operate(header.clone(), operation).await?;
        if !layout.is_plain() {
            let fields = input(|w| {
                w.u64(layout.stripe_unit_bytes);
                w.u64(layout.stripe_count);
            });
            tell(pool, &header, "set_stripe_unit_count", fields).await?;
        }
        if features & feature::OBJECT_MAP != 0 {
            let fields = input(|w| {
                w.u64(objects);
                w.u8(state::NONEXISTENT);
            });
            tell(pool, &map_object(id, None), "object_map_resize", fields).await?;
        }
        Ok(())
    };
    let made: Result<(), Error> = made.await;
    if made.is_err() {
        unmake(pool, name, id).await?;
    }
    made
}

/// Removes all objects of an image except its data.
async fn unmake(pool: &Pool, name: &str, id: &str) -> Result<(), Error> {
    let gone = |result: Result<(), Error>| match result {
        Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        other => other,
    };
    gone(pool.remove(map_object(id, None)).await)?;
    gone(pool.remove(header_object(id)).await)?;
    // The id object is removed only if it leads to this image: another client may have made an image of the same name.
    if header::id_of(pool, name).await.is_ok_and(|other| other == id) {
        gone(pool.remove(id_object(name)).await)?;
    }
    match tell(pool, DIRECTORY, "dir_remove_image", names(&[name, id])).await {
        Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        other => other,
    }
}

pub(super) fn names(names: &[&str]) -> Vec<u8> {
    input(|w| names.iter().for_each(|name| w.str(name)))
}

/// Makes an image that shows a snapshot of another one until it is written to. Where the cluster admits old clients,
/// the snapshot must be protected and in the same namespace. Errors: `ENOENT`, `EEXIST`, `EINVAL` (not protected, or
/// not any more; empty; no layering), `EOPNOTSUPP` (another namespace).
pub async fn clone(
    parent_pool: &Pool,
    parent: &str,
    snapshot: &str,
    pool: &Pool,
    name: &str,
    options: &ImageOptions,
) -> Result<(), Error> {
    let (parent, snapshot, name) = (parent.to_owned(), snapshot.to_owned(), name.to_owned());
    let (runtime, parent_pool, options) = (pool, parent_pool.clone(), options.clone());
    let pool = pool.clone();
    let cloning = async move { make_clone(&parent_pool, &parent, &snapshot, &pool, &name, &options).await };
    to_the_end(runtime, cloning).await
}

async fn make_clone(
    parent_pool: &Pool,
    parent: &str,
    snapshot: &str,
    pool: &Pool,
    name: &str,
    options: &ImageOptions,
) -> Result<(), Error> {
    let parent_id = header::id_of(parent_pool, parent).await?;
    let opening = Opening::plain(SnapId::HEAD, true).without_parent();
    let state = header::load_state(parent_pool, &parent_id, opening, None).await?;
    let snapshot = state.snapshot(snapshot)?;
    let new_format = parent_link::is_new_format(pool);
    if !new_format && parent_pool.namespace_name() != pool.namespace_name() {
        // Clients that know only the old format look for a snapshot's clones in the snapshot's own namespace.
        return Err(Error::Unsupported("clones in another namespace while clients from before Mimic are let in"));
    }
    let can = state.has(feature::LAYERING)
        && options.features & feature::LAYERING != 0
        && snapshot.size_bytes > 0
        && (new_format || snapshot.is_protected);
    if !can {
        return Err(Errno::EINVAL.into());
    }
    let id = fresh_id(pool);
    make(pool, name, &id, snapshot.size_bytes, options).await?;
    let spec = ParentSpec {
        pool: parent_pool.id().0,
        namespace: parent_pool.namespace_name().clone(),
        image: parent_id.clone().into(),
        snap: snapshot.id.0,
    };
    let tie = async {
        let fields = input(|w| {
            w.put(&spec);
            w.u64(snapshot.size_bytes);
            w.bool(false);
        });
        tell(pool, &header_object(&id), "parent_attach", fields).await?;
        parent_link::attach(pool, &id, &spec, new_format).await?;
        // A client that ends the protection marks the snapshot first and looks for clones then. It has found this
        // clone, or the mark is seen here. Clones of the new format need no check: the parent's header counts them.
        if !new_format && !is_protected(parent_pool, &header_object(&parent_id), snapshot.id).await? {
            return Err(Errno::EINVAL.into());
        }
        Ok(())
    };
    if let Err(error) = tie.await {
        parent_link::undo_attach(pool, &id, &spec, new_format).await?;
        unmake(pool, name, &id).await?;
        return Err(error);
    }
    let notice = super::notice::Notice::HeaderUpdate.to_bytes();
    parent_pool.notify(header_object(&parent_id), notice, super::watcher::NOTIFY_TIMEOUT).await.map(drop)
}

/// Renames an image. Errors: `ENOENT`, `EEXIST`, `EINVAL` for a bad name.
pub async fn rename(pool: &Pool, name: &str, new_name: &str) -> Result<(), Error> {
    if new_name.is_empty() || new_name.contains(['@', '/']) {
        return Err(Errno::EINVAL.into());
    }
    let (pool, name, new_name) = (pool.clone(), name.to_owned(), new_name.to_owned());
    to_the_end(&pool.clone(), async move { give_name(&pool, &name, &new_name).await }).await
}

async fn give_name(pool: &Pool, name: &str, new_name: &str) -> Result<(), Error> {
    let id = header::id_of(pool, name).await?;
    let entry = Operation::new().create(true).call_write("rbd", "set_id", names(&[&id]));
    pool.operate(id_object(new_name), entry).await?;
    if let Err(error) = tell(pool, DIRECTORY, "dir_rename_image", names(&[name, new_name, &id])).await {
        pool.remove(id_object(new_name)).await?;
        return Err(error);
    }
    pool.remove(id_object(name)).await?;
    let notice = super::notice::Notice::HeaderUpdate.to_bytes();
    pool.notify(header_object(&id), notice, super::watcher::NOTIFY_TIMEOUT).await.map(drop)
}

/// Removes an image. Errors: `ENOENT`, `ENOTEMPTY` if it has snapshots, `EBUSY` if a client has it open.
pub async fn remove(pool: &Pool, name: &str) -> Result<(), Error> {
    let (runtime, pool, name) = (pool, pool.clone(), name.to_owned());
    let opening = Opening::plain(SnapId::HEAD, false);
    let removing = async move {
        let id = find_id(&pool, &name).await?;
        remove_image(&pool, &name, &id, opening, &Course::default()).await
    };
    to_the_end(runtime, removing).await
}

/// The id of the image called `name`, also of one whose removal has stopped half-way. Errors: `ENOENT`.
pub async fn find_id(pool: &Pool, name: &str) -> Result<String, Error> {
    match header::id_of(pool, name).await {
        // An earlier removal may have stopped half-way: then only the directory knows the image.
        Err(Error::Errno(Errno::ENOENT)) => {
            let id: Bytes = ask(pool, DIRECTORY, "dir_get_id", names(&[name])).await?;
            Ok(String::from_utf8_lossy(&id).into_owned())
        }
        found => found,
    }
}

/// Removes the image of a known id, with rights that those may lack for whom it is done ([`Image::open_for_others`]).
/// One that is gone counts as removed. Errors: those of [`remove`]; `ESTALE` if the image has another name;
/// `EOPNOTSUPP`; `ECANCELED` if the course stopped it; data of the image is gone then.
pub async fn remove_for_others(pool: &Pool, name: &str, id: &str, course: &Course) -> Result<(), Error> {
    let (runtime, pool, name, id, course) = (pool, pool.clone(), name.to_owned(), id.to_owned(), course.clone());
    let opening = Opening::plain(SnapId::HEAD, false).for_others();
    let removing = async move {
        match find_id(&pool, &name).await {
            Ok(found) if found == id => remove_image(&pool, &name, &id, opening, &course).await,
            Ok(_) | Err(Error::Errno(Errno::ENOENT)) => must_not_have_another_name(&pool, &id).await,
            Err(error) => Err(error),
        }
    };
    to_the_end(runtime, removing).await
}

async fn remove_image(pool: &Pool, name: &str, id: &str, opening: Opening, course: &Course) -> Result<(), Error> {
    // Nothing of a parent is read, and a parent may be gone already.
    match Image::open_as(pool, name, id, opening.without_parent()).await {
        Ok(image) => {
            let removed = remove_data(&image, course).await;
            let closed = image.close().await;
            removed.and(closed)?;
        }
        Err(Error::Errno(Errno::ENOENT)) => must_be_gone(pool, id).await?,
        Err(error) => return Err(error),
    }
    unmake(pool, name, id).await
}

/// Removes the data of an image, then the link to its parent: once the link is gone the parent may go, and an image
/// whose parent is gone cannot be opened.
pub(super) async fn remove_data(image: &Image, course: &Course) -> Result<(), Error> {
    let inner = &image.inner;
    if !image.snapshots().await?.is_empty() {
        return Err(Errno::ENOTEMPTY.into());
    }
    let own = inner.client_id();
    let is_other =
        |watcher: &wire::messages::listing::Watcher| (watcher.name.num as u64, watcher.cookie) != (own.gid, own.handle);
    if inner.pool.watchers(inner.header.clone()).await?.iter().any(is_other) {
        return Err(Errno::EBUSY.into());
    }
    let (_turn, now) = inner.exclusive_turn().await?;
    if !now.snapshots.is_empty() {
        return Err(Errno::ENOTEMPTY.into());
    }
    let objects = inner.fixed.layout.object_count(now.size);
    course.begin(objects);
    let remove = |inner: Arc<Inner>, now: Arc<ImageState>, object| {
        let course = course.clone();
        async move {
            course.check()?;
            inner.remove_object(&now, object).await?;
            course.one_done();
            Ok(())
        }
    };
    inner.for_objects(&now, 0..objects, remove).await?;
    match &now.linked {
        Some(spec) => parent_link::detach(inner, spec).await,
        None => Ok(()),
    }
}
