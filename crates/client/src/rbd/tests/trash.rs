//! Images in the trash, and long work that is stopped or whose client dies.

use super::{OBJECT, OBJECTS, SIZE, golden, make_parent, options, read_all, with_clone};
use crate::Pool;
use crate::error::Error;
use crate::in_memory::{Fault, Memory, Seen, simulate};
use crate::rbd::spec::input;
use crate::rbd::{
    Course, Image, TRASH, Trashed, create, feature, list, list_trash, move_to_trash, purge_trash, remove_from_trash,
};
use std::time::{Duration, SystemTime};
use types::{Errno, Utime};
use wire::Release;
use wire::messages::OpCode;

const DAY: Duration = Duration::from_secs(86_400);
const NO_TIME: Duration = Duration::ZERO;

async fn with_image(name: &str) -> (Memory, Pool) {
    let memory = Memory::start(7, &["p"], Release::MIMIC);
    let (_, pool) = memory.pool("p").await;
    make(&pool, name).await;
    (memory, pool)
}

async fn make(pool: &Pool, name: &str) {
    create(pool, name, SIZE, &options(feature::DEFAULT)).await.expect("an image");
    let image = Image::open(pool, name).await.expect("it opens");
    image.write(0, golden()).await.expect("a write");
    image.close().await.expect("it closes");
}

async fn trash(pool: &Pool) -> Vec<Trashed> {
    list_trash(pool).await.expect("a list")
}

fn removes_data(seen: &Seen<'_>) -> bool {
    seen.op.name.starts_with(b"rbd_data.") && seen.op.ops.iter().any(|op| op.code == OpCode::DELETE)
}

fn by_hand() -> Course {
    Course::default()
}

#[test]
fn an_image_leaves_the_trash_when_its_time_is_over_or_somebody_insists() {
    simulate(async {
        let (_memory, pool) = with_image("disk").await;
        assert_eq!(remove_from_trash(&pool, "none", true, &by_hand()).await, Err(Errno::ENOENT.into()));
        let id = move_to_trash(&pool, "disk", DAY).await.expect("moved");
        assert!(list(&pool).await.expect("a list").is_empty());
        let [put] = &trash(&pool).await[..] else { panic!("one image") };
        assert_eq!((put.id.as_str(), put.name.as_str(), put.is_at_rest), (id.as_str(), "disk", true));
        // Another image may have the name by now.
        make(&pool, "disk").await;
        assert_eq!(remove_from_trash(&pool, &id, false, &by_hand()).await, Err(Errno::EPERM.into()));
        assert_eq!(trash(&pool).await.len(), 1);
        let course = by_hand();
        remove_from_trash(&pool, &id, true, &course).await.expect("removed");
        assert_eq!((trash(&pool).await.len(), course.parts(100)), (0, 100));
        let image = Image::open(&pool, "disk").await.expect("the other image");
        assert!(read_all(&image).await == golden());
        image.close().await.expect("it closes");
    });
}

#[test]
fn an_image_in_use_or_with_snapshots_stays_in_the_trash() {
    simulate(async {
        let (memory, pool) = with_image("disk").await;
        let image = Image::open(&pool, "disk").await.expect("it opens");
        assert_eq!(move_to_trash(&pool, "disk", NO_TIME).await, Err(Errno::EBUSY.into()));
        image.create_snapshot("s").await.expect("a snapshot");
        image.close().await.expect("it closes");
        let id = move_to_trash(&pool, "disk", NO_TIME).await.expect("moved");
        assert_eq!(remove_from_trash(&pool, &id, true, &by_hand()).await, Err(Errno::ENOTEMPTY.into()));
        assert!(trash(&pool).await[0].is_at_rest, "it can be restored");
        let (_, other) = memory.pool("p").await;
        let opened = Image::open_by_id(&other, "disk", &id, types::SnapId::HEAD, false).await.expect("it opens");
        opened.remove_snapshot("s").await.expect("no snapshot");
        assert_eq!(remove_from_trash(&pool, &id, true, &by_hand()).await, Err(Errno::EBUSY.into()));
        opened.close().await.expect("it closes");
        remove_from_trash(&pool, &id, true, &by_hand()).await.expect("removed");
        // Nobody removes an image that is being restored.
        make(&pool, "disk").await;
        let id = move_to_trash(&pool, "disk", NO_TIME).await.expect("moved");
        let restoring = input(|w| {
            w.str(&id);
            w.u8(3);
            w.u8(0);
        });
        crate::rbd::header::tell(&pool, TRASH, "trash_state_set", restoring).await.expect("a state");
        assert_eq!(remove_from_trash(&pool, &id, true, &by_hand()).await, Err(Errno::EBUSY.into()));
    });
}

#[test]
fn a_removal_that_is_stopped_or_whose_client_dies_is_begun_again() {
    simulate(async {
        let (memory, pool) = with_image("disk").await;
        let id = move_to_trash(&pool, "disk", NO_TIME).await.expect("moved");
        let course = by_hand();
        course.stop();
        assert_eq!(remove_from_trash(&pool, &id, true, &course).await, Err(Errno::ECANCELED.into()));
        assert!(trash(&pool).await[0].is_at_rest);
        let (gid, dying) = memory.pool("p").await;
        memory.set_rule(move |seen| if seen.client == gid && removes_data(seen) { Fault::Hold } else { Fault::None });
        let course = by_hand();
        tokio::select! {
            biased;
            done = remove_from_trash(&dying, &id, true, &course) => panic!("done already: {done:?}"),
            () = memory.until_held() => {}
        }
        memory.kill(gid);
        memory.release();
        assert!(!trash(&pool).await[0].is_at_rest);
        // The dead client's watch lives for half a minute.
        tokio::time::sleep(Duration::from_secs(60)).await;
        remove_from_trash(&pool, &id, true, &by_hand()).await.expect("removed");
        assert!(trash(&pool).await.is_empty());
    });
}

#[test]
fn a_purge_removes_what_is_due_and_leaves_the_rest() {
    simulate(async {
        let memory = Memory::start(3, &["p"], Release::MIMIC);
        let (_, pool) = memory.pool("p").await;
        make_parent(&pool).await.expect("the parent");
        super::super::clone(&pool, "parent", "base", &pool, "child", &options(feature::DEFAULT))
            .await
            .expect("a clone");
        let parent = Image::open(&pool, "parent").await.expect("it opens");
        parent.remove_snapshot("base").await.expect("it goes on for its clone");
        parent.close().await.expect("it closes");
        make(&pool, "kept").await;
        // The parent comes before its clone, in the order of the trash.
        for (name, keep) in [("parent", NO_TIME), ("child", NO_TIME), ("kept", DAY)] {
            move_to_trash(&pool, name, keep).await.expect("moved");
        }
        let now = Utime::from(SystemTime::now() + Duration::from_secs(1));
        assert_eq!(purge_trash(&pool, now, &by_hand()).await, Ok(2));
        assert_eq!(trash(&pool).await.iter().map(|image| image.name.as_str()).collect::<Vec<_>>(), ["kept"]);
    });
}

/// Another client writes between two steps, and stops the work in its midst.
#[test]
fn flattening_lets_others_in_and_goes_on_where_it_stood() {
    simulate(async {
        let memory = with_clone(5, feature::DEFAULT).await;
        let ((gid, a), (_, b)) = (memory.pool("p").await, memory.pool("p").await);
        let (flattened, written) =
            (Image::open(&a, "disk").await.expect("a"), Image::open(&b, "disk").await.expect("b"));
        let course = Course::by_steps_of(1);
        let copies = |seen: &Seen<'_>| seen.calls("copyup");
        memory.set_rule(move |seen| if seen.client == gid && copies(seen) { Fault::Hold } else { Fault::None });
        let (work, of) = (flattened.clone(), course.clone());
        let flattening = tokio::spawn(async move { work.flatten_by(&of).await });
        memory.until_held().await;
        let writing = tokio::spawn(async move {
            let done = written.write(3 * OBJECT, vec![b'w'; OBJECT as usize]).await;
            (done, written)
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        memory.release();
        let (done, written) = writing.await.expect("the writer");
        done.expect("a write in the midst of flattening");
        let is_before_its_end = !flattening.is_finished();
        flattening.await.expect("the work").expect("flattened");
        assert!(is_before_its_end, "the writer waited for all of it");
        let mut content = golden();
        content[3 * OBJECT as usize..].fill(b'w');
        assert!(read_all(&written).await == content);
        assert_eq!(written.info().await.expect("info").parent_overlap_bytes, None);
        assert_eq!(flattened.flatten().await, Err(Error::Errno(Errno::EINVAL)), "there is no parent");
        flattened.close().await.expect("a closes");
        written.close().await.expect("b closes");
    });
}

#[test]
fn flattening_that_is_stopped_is_begun_again() {
    simulate(async {
        let memory = with_clone(6, feature::DEFAULT).await;
        let (_, pool) = memory.pool("p").await;
        let image = Image::open(&pool, "disk").await.expect("it opens");
        let course = Course::by_steps_of(1);
        let stopping = course.clone();
        let mut copies = 0;
        memory.set_rule(move |seen| {
            copies += u64::from(seen.calls("copyup"));
            if copies == OBJECTS / 2 {
                stopping.stop();
            }
            Fault::None
        });
        assert_eq!(image.flatten_by(&course).await, Err(Errno::ECANCELED.into()));
        assert_eq!(course.parts(100), 50);
        memory.clear_rule();
        assert!(image.info().await.expect("info").parent_overlap_bytes.is_some());
        image.flatten_by(&by_hand()).await.expect("flattened");
        assert!(read_all(&image).await == golden());
        image.close().await.expect("it closes");
    });
}
