//! Images in the trash: they keep their data and header, and have no name until they are restored or removed.

use super::course::Course;
use super::create::{names, remove_data};
use super::header::{ask, id_of, tell};
use super::image::{Image, is_final, to_the_end};
use super::opening::{Opening, must_be_gone};
use super::spec::input;
use super::{DIRECTORY, TRASH, header_object, id_object, map_object};
use crate::error::Error;
use crate::pool::Pool;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use types::{Errno, SnapId, Utime};
use wire::rbd::TrashSpec;

/// Images asked for per request.
const PAGE: u64 = 1024;

/// The source of an image that a user has moved to the trash.
const BY_USER: u8 = 0;

/// States of an image in the trash.
mod state {
    pub const NORMAL: u8 = 0;
    pub const MOVING: u8 = 1;
    pub const REMOVING: u8 = 2;
}

/// An image in the trash.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trashed {
    pub id: String,
    /// The name that it had.
    pub name: String,
    pub deleted: Utime,
    /// Until then only those remove it who insist.
    pub kept_until: Utime,
    /// Nobody moves, restores or removes it right now.
    pub is_at_rest: bool,
    /// Its removal was begun, and has not ended.
    pub is_half_removed: bool,
}

impl Trashed {
    fn of(id: &Bytes, spec: &TrashSpec) -> Trashed {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Trashed {
            id: text(id),
            name: text(&spec.name),
            deleted: spec.deletion_time,
            kept_until: spec.deferment_end,
            is_at_rest: spec.state == state::NORMAL,
            is_half_removed: spec.state == state::REMOVING,
        }
    }
}

/// The images in the trash of a pool and namespace.
pub async fn list_trash(pool: &Pool) -> Result<Vec<Trashed>, Error> {
    let mut all = Vec::new();
    let mut after = Bytes::new();
    loop {
        let fields = input(|w| {
            w.put(&after);
            w.u64(PAGE);
        });
        let page: BTreeMap<Bytes, TrashSpec> = match ask(pool, TRASH, "trash_list", fields).await {
            Err(Error::Errno(Errno::ENOENT)) => return Ok(all),
            page => page?,
        };
        all.extend(page.iter().map(|(id, spec)| Trashed::of(id, spec)));
        match page.last_key_value().filter(|_| page.len() as u64 == PAGE) {
            Some((last, _)) => after = last.clone(),
            None => return Ok(all),
        }
    }
}

/// Moves an image to the trash, where it is kept for some time. Returns its id. Errors: `ENOENT`; `EBUSY` if a client
/// has it open.
pub async fn move_to_trash(pool: &Pool, name: &str, keep: Duration) -> Result<String, Error> {
    let (pool, name) = (pool.clone(), name.to_owned());
    to_the_end(&pool.clone(), async move { put_away(&pool, &name, keep).await }).await
}

async fn put_away(pool: &Pool, name: &str, keep: Duration) -> Result<String, Error> {
    let id = id_of(pool, name).await?;
    if !pool.watchers(header_object(&id)).await?.is_empty() {
        return Err(Errno::EBUSY.into());
    }
    let now = SystemTime::now();
    let spec = TrashSpec {
        source: BY_USER,
        name: name.to_owned().into(),
        deletion_time: now.into(),
        deferment_end: (now + keep).into(),
        state: state::MOVING,
    };
    let fields = input(|w| {
        w.str(&id);
        w.put(&spec);
    });
    match tell(pool, TRASH, "trash_add", fields).await {
        // An earlier attempt may have stopped half-way.
        Ok(()) | Err(Error::Errno(Errno::EEXIST)) => {}
        Err(error) => return Err(error),
    }
    gone(tell(pool, DIRECTORY, "dir_remove_image", names(&[name, &id])).await)?;
    gone(pool.remove(id_object(name)).await)?;
    set_state(pool, &id, state::NORMAL, state::MOVING).await?;
    Ok(id)
}

/// Removes an image from the trash, if need be with rights that those lack for whom it is done: the header is not
/// believed, as by [`Image::open_for_others`]. `insists`: also before its time. Errors: `ENOENT`; `EPERM` before its
/// time; `EBUSY` if a client has it open, or somebody moves or restores it; `ENOTEMPTY` if it has snapshots;
/// `EOPNOTSUPP` for a header that names another image's data; `ECANCELED` if the course stopped it.
pub async fn remove_from_trash(pool: &Pool, id: &str, insists: bool, course: &Course) -> Result<(), Error> {
    let (pool, id, course) = (pool.clone(), id.to_owned(), course.clone());
    to_the_end(&pool.clone(), async move { throw_away(&pool, &id, insists, &course).await }).await
}

async fn throw_away(pool: &Pool, id: &str, insists: bool, course: &Course) -> Result<(), Error> {
    let spec: TrashSpec = ask(pool, TRASH, "trash_get", names(&[id])).await?;
    if !insists && spec.deferment_end > Utime::from(SystemTime::now()) {
        return Err(Errno::EPERM.into());
    }
    if ![state::NORMAL, state::REMOVING].contains(&spec.state) {
        return Err(Errno::EBUSY.into());
    }
    let was_at_rest = spec.state == state::NORMAL;
    if was_at_rest {
        set_state(pool, id, state::REMOVING, state::NORMAL).await?;
    }
    if let Err(error) = remove_image(pool, id, &String::from_utf8_lossy(&spec.name), course).await {
        if was_at_rest && !is_final(&error) {
            // It can be restored again, unless data of it is gone already; librbd does so, too. One that another
            // client has begun to remove, or removes right now, is left as that one has left it.
            set_state(pool, id, state::NORMAL, state::REMOVING).await?;
        }
        return Err(error);
    }
    gone(tell(pool, TRASH, "trash_remove", names(&[id])).await)
}

async fn remove_image(pool: &Pool, id: &str, name: &str, course: &Course) -> Result<(), Error> {
    let opening = Opening::plain(SnapId::HEAD, false).for_others().without_parent();
    match Image::open_as(pool, name, id, opening).await {
        Ok(image) => {
            let removed = remove_data(&image, course).await;
            let closed = image.close().await;
            removed.and(closed)?;
        }
        // An earlier removal stopped behind the header.
        Err(Error::Errno(Errno::ENOENT)) => must_be_gone(pool, id).await?,
        Err(error) => return Err(error),
    }
    gone(pool.remove(map_object(id, None)).await)?;
    gone(pool.remove(header_object(id)).await)
}

/// Removes the images in the trash of a pool and namespace whose time is over by `now`, also those whose removal has
/// stopped half-way. Those that cannot be removed yet, because of snapshots or clients, are left; so are those that
/// others work on. Returns the number of the removed ones. Errors: `ECANCELED` if the course stopped it; the first
/// error of an image that could not be removed, once all others are.
pub async fn purge_trash(pool: &Pool, now: Utime, course: &Course) -> Result<usize, Error> {
    let mut removed = 0;
    loop {
        let before = removed;
        let mut failure = None;
        let trash = list_trash(pool).await?;
        let is_due = |image: &&Trashed| (image.is_at_rest || image.is_half_removed) && image.kept_until <= now;
        for image in trash.iter().filter(is_due) {
            course.check()?;
            course.gets_on();
            match remove_from_trash(pool, &image.id, false, course).await {
                Ok(()) => removed += 1,
                Err(Error::Errno(Errno::ENOTEMPTY | Errno::EBUSY | Errno::ENOENT | Errno::EPERM)) => {}
                Err(error) if is_final(&error) || error.errno() == Errno::ECANCELED => return Err(error),
                Err(error) => {
                    tracing::warn!(image = image.id, %error, "an image in the trash cannot be removed");
                    failure = failure.or(Some(error));
                }
            }
        }
        // An image that kept a snapshot for its clones loses the snapshot with the last of them.
        if removed == before {
            return failure.map_or(Ok(removed), Err);
        }
    }
}

/// Changes the state of an image in the trash from `expected`.
async fn set_state(pool: &Pool, id: &str, wanted: u8, expected: u8) -> Result<(), Error> {
    let fields = input(|w| {
        w.str(id);
        w.u8(wanted);
        w.u8(expected);
    });
    tell(pool, TRASH, "trash_state_set", fields).await
}

fn gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Errno(Errno::ENOENT)) => Ok(()),
        other => other,
    }
}
