//! Changes whose futures were dropped, and changes of unknown outcome.

use super::{OBJECT, SIZE, golden, make_parent, options, read_all, with_clone};
use crate::Pool;
use crate::error::Error;
use crate::in_memory::{Fault, Memory, Seen, simulate};
use crate::rbd::{Image, create, feature};
use std::pin::Pin;
use std::time::Duration;
use types::PoolId;
use wire::Release;
use wire::messages::OpCode;

const TIMEOUT: Duration = Duration::from_secs(5);

type Changing<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// True if the operation writes to an image's data.
fn writes(seen: &Seen<'_>) -> bool {
    let is_write = |op: &wire::messages::Op| [OpCode::WRITE, OpCode::WRITEFULL].contains(&op.code);
    seen.op.name.starts_with(b"rbd_data.") && seen.op.ops.iter().any(is_write)
}

/// A cluster with an image of some objects, which reads as zeros.
async fn with_image(features: u64) -> Memory {
    let memory = Memory::start(1, &["p"], Release::MIMIC);
    let (_, pool) = memory.pool("p").await;
    create(&pool, "disk", SIZE, &options(features)).await.expect("an image");
    memory
}

async fn open(pool: &Pool) -> Image {
    Image::open(pool, "disk").await.expect("the image")
}

/// Begins a change, and drops its future when one of its operations is held.
async fn begin_and_drop(memory: &Memory, change: impl Future<Output = Result<(), Error>>) {
    tokio::select! {
        biased;
        done = change => panic!("done already: {done:?}"),
        () = memory.until_held() => {}
    }
}

/// True if the future is not done within a minute.
async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::time::timeout(Duration::from_secs(60), future).await.is_err()
}

#[test]
fn a_lock_is_not_handed_on_before_a_write_that_nobody_waits_for_has_ended() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let ((a, pool_a), (_, pool_b)) = (memory.pool("p").await, memory.pool("p").await);
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        memory.set_rule(move |seen| if seen.client == a && writes(seen) { Fault::Hold } else { Fault::None });
        begin_and_drop(&memory, image_a.write(0, vec![b'a'; 100])).await;
        let mut writing = Box::pin(image_b.write(0, vec![b'b'; 100]));
        assert!(waits(&mut writing).await, "the other write may come at any time");
        memory.release();
        assert_eq!(writing.await, Ok(()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(read_all(&image_b).await[..100], [b'b'; 100]);
        image_a.close().await.expect("closing");
        image_b.close().await.expect("closing");
    });
}

#[test]
fn a_write_across_objects_that_failed_in_one_has_ended_in_the_others() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let ((a, pool_a), (_, pool_b)) = (memory.pool("p").await, memory.pool("p").await);
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        let mut first = true;
        memory.set_rule(move |seen| match seen.client == a && writes(seen) {
            true if std::mem::take(&mut first) => Fault::Refuse(types::Errno::ENOSPC),
            true => Fault::Hold,
            false => Fault::None,
        });
        begin_and_drop(&memory, image_a.write(0, vec![b'a'; SIZE as usize])).await;
        let mut writing = Box::pin(image_b.write(0, vec![b'b'; SIZE as usize]));
        assert!(waits(&mut writing).await);
        memory.release();
        assert_eq!(writing.await, Ok(()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(read_all(&image_b).await == vec![b'b'; SIZE as usize]);
    });
}

#[test]
fn flushing_waits_for_what_nobody_else_waits_for() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, pool) = memory.pool("p").await;
        let image = open(&pool).await;
        // The future is dropped while the write still waits for the lock.
        memory.set_rule(move |seen| if seen.client == a { Fault::Hold } else { Fault::None });
        begin_and_drop(&memory, image.write(0, vec![b'a'; 100])).await;
        let mut flushing = Box::pin(image.flush());
        assert!(waits(&mut flushing).await);
        memory.release();
        assert_eq!(flushing.await, Ok(()));
        assert_eq!(memory.lock().object_bytes(PoolId(1), &image.inner.object_name(0)), Some(vec![b'a'; 100]));
    });
}

#[test]
fn closing_waits_for_a_write_that_waits_for_the_lock() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let ((a, pool_a), (_, pool_b)) = (memory.pool("p").await, memory.pool("p").await);
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        image_b.write(0, vec![b'b'; 100]).await.expect("a write");
        memory.set_rule(move |seen| match seen.client == a && seen.calls("locklock") {
            true => Fault::Hold,
            false => Fault::None,
        });
        begin_and_drop(&memory, image_a.write(0, vec![b'a'; 100])).await;
        let mut closing = Box::pin(image_a.close());
        assert!(waits(&mut closing).await);
        memory.release();
        assert_eq!(closing.await, Ok(()));
        assert_eq!(read_all(&image_b).await[..100], [b'a'; 100]);
        assert_eq!(image_b.write(0, vec![b'b'; 100]).await, Ok(()));
        assert!(!memory.lock().clients[&a].is_blocklisted, "the lock was given up in order");
    });
}

#[test]
fn a_snapshot_is_not_changed_by_a_write_that_nobody_waited_for() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, pool) = memory.pool("p").await;
        let image = open(&pool).await;
        image.write(0, vec![b'0'; 100]).await.expect("a write");
        memory.set_rule(move |seen| if seen.client == a && writes(seen) { Fault::Hold } else { Fault::None });
        begin_and_drop(&memory, image.write(0, vec![b'a'; 100])).await;
        let mut taking = Box::pin(image.create_snapshot("s"));
        assert!(waits(&mut taking).await);
        memory.release();
        assert_eq!(taking.await, Ok(()));
        let snapshot = Image::open_snapshot(&pool, "disk", "s").await.expect("the snapshot");
        let shown = read_all(&snapshot).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(read_all(&snapshot).await == shown);
    });
}

/// Every change of the interface goes on to its end though its future was dropped at its first operation.
#[test]
fn whatever_is_begun_is_brought_to_its_end() {
    simulate(async {
        let memory = with_clone(1, feature::DEFAULT).await;
        let (a, pool) = memory.pool("p").await;
        let image = open(&pool).await;
        let hold = move || {
            let mut done = false;
            memory_rule(move |seen| {
                let holds = seen.client == a && !done && seen.op.ops[0].code != OpCode::WATCH;
                done |= holds;
                holds
            })
        };
        let begin = async |change: Changing<'static>| {
            memory.set_rule(hold());
            begin_and_drop(&memory, change).await;
            memory.release();
            image.flush().await.expect("flushing");
        };
        macro_rules! begin {
            ($change:expr) => {{
                let image = image.clone();
                let _ = &image;
                begin(Box::pin(async move { $change(image).await })).await
            }};
        }
        begin!(async |image: Image| image.write(0, vec![b'a'; 10]).await);
        assert_eq!(read_all(&image).await[..10], [b'a'; 10]);
        begin!(async |image: Image| image.discard(0, 5).await);
        assert_eq!(read_all(&image).await[..10], *b"\0\0\0\0\0aaaaa");
        begin!(async |image: Image| image.write_zeroes(5, 2).await);
        assert_eq!(read_all(&image).await[..10], *b"\0\0\0\0\0\0\0aaa");
        begin!(async |image: Image| image.create_snapshot("s").await);
        assert_eq!(image.snapshots().await.expect("snapshots").len(), 1);
        begin!(async |image: Image| image.protect_snapshot("s").await);
        assert!(image.snapshots().await.expect("snapshots")[0].is_protected);
        begin!(async |image: Image| image.unprotect_snapshot("s").await);
        assert!(!image.snapshots().await.expect("snapshots")[0].is_protected);
        image.write(0, vec![b'b'; 10]).await.expect("a write");
        begin!(async |image: Image| image.roll_back("s").await);
        assert_eq!(read_all(&image).await[..10], *b"\0\0\0\0\0\0\0aaa");
        begin!(async |image: Image| image.remove_snapshot("s").await);
        assert_eq!(image.snapshots().await.expect("snapshots"), []);
        begin!(async |image: Image| image.flatten().await);
        assert_eq!(image.info().await.expect("the image").parent_overlap_bytes, None);
        assert!(read_all(&image).await[10..] == golden()[10..]);
        begin!(async |image: Image| image.resize(OBJECT).await);
        assert_eq!(image.size_bytes().await, Ok(OBJECT));
        image.close().await.expect("closing");
    });
}

fn memory_rule(mut holds: impl FnMut(&Seen<'_>) -> bool + Send + 'static) -> impl FnMut(&Seen<'_>) -> Fault + Send {
    move |seen| if holds(seen) { Fault::Hold } else { Fault::None }
}

#[test]
fn a_handle_that_does_not_know_what_became_of_a_write_is_shut_out_before_others_write() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, cluster_a) = memory.client(Some(TIMEOUT)).await;
        let pool_a = cluster_a.pool("p").await.expect("the pool");
        let (_, pool_b) = memory.pool("p").await;
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        image_a.write(0, vec![b'0'; 100]).await.expect("a write");
        let late = Fault::Late(Duration::from_secs(100));
        memory.set_rule(move |seen| if seen.client == a && writes(seen) { late } else { Fault::None });
        let result = image_a.write(0, vec![b'a'; 100]).await;
        assert_eq!(result, Err(Error::TimedOut { seconds: 5 }));
        assert_eq!(image_a.flush().await, Err(Error::InDoubt));
        assert_eq!(image_a.create_snapshot("s").await, Err(Error::InDoubt));
        assert_eq!(image_a.resize(OBJECT).await, Err(Error::InDoubt));
        assert_eq!(image_a.write(0, vec![b'A'; 100]).await, Err(Error::InDoubt));
        assert_eq!(image_b.write(0, vec![b'b'; 100]).await, Ok(()), "whoever is in doubt counts as dead");
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(read_all(&image_b).await[..100], [b'b'; 100], "what was late was refused");
        assert_eq!(image_a.close().await, Err(Error::InDoubt));
        image_b.close().await.expect("closing");
    });
}

#[test]
fn a_handle_in_doubt_reads_what_others_have_made_of_the_image() {
    simulate(async {
        let memory = with_clone(1, feature::DEFAULT).await;
        let (a, cluster) = memory.client(Some(TIMEOUT)).await;
        let (pool_a, (_, pool_b)) = (cluster.pool("p").await.expect("the pool"), memory.pool("p").await);
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        image_a.write(0, vec![b'a'; 10]).await.expect("a write");
        // The lock is given up without an answer, so no other client blocklists this one.
        let gives_up = |seen: &Seen<'_>| seen.op.name.starts_with(b"rbd_header.") && seen.calls("lockunlock");
        memory.set_rule(move |seen| match seen.client == a && gives_up(seen) {
            true => Fault::LoseReply,
            false => Fault::None,
        });
        image_b.write(20, vec![b'b'; 10]).await.expect("a write");
        tokio::time::sleep(TIMEOUT * 2).await;
        image_b.flatten().await.expect("flattening");
        image_b.discard(0, SIZE).await.expect("a discard");
        assert_eq!(image_a.flush().await, Err(Error::InDoubt));
        assert!(read_all(&image_a).await == vec![0; SIZE as usize], "it shows a parent that the image has no more");
    });
}

#[test]
fn a_handle_whose_watch_was_not_connected_learns_of_what_it_was_not_told() {
    simulate(async {
        let memory = with_clone(1, feature::DEFAULT).await;
        let ((a, pool_a), (_, pool_b)) = (memory.pool("p").await, memory.pool("p").await);
        let (image_a, image_b) = (open(&pool_a).await, open(&pool_b).await);
        assert!(read_all(&image_a).await == golden());
        // Watch operations of client `a` are held until long after it was due to be told.
        memory.set_rule(move |seen| match seen.client == a && seen.op.ops[0].code == OpCode::WATCH {
            true => Fault::Hold,
            false => Fault::None,
        });
        memory.reset(a);
        memory.until_held().await;
        image_b.flatten().await.expect("flattening");
        image_b.discard(0, SIZE).await.expect("a discard");
        memory.release();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(read_all(&image_a).await == vec![0; SIZE as usize], "it shows a parent that the image has no more");
    });
}

#[test]
fn a_client_in_doubt_does_not_shut_itself_out() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, cluster) = memory.client(Some(TIMEOUT)).await;
        let pool = cluster.pool("p").await.expect("the pool");
        let image = open(&pool).await;
        memory.set_rule(move |seen| if seen.client == a && writes(seen) { Fault::LoseReply } else { Fault::None });
        assert_eq!(image.write(0, vec![b'a'; 100]).await, Err(Error::TimedOut { seconds: 5 }));
        memory.clear_rule();
        assert_eq!(image.close().await, Err(Error::InDoubt));
        let again = open(&pool).await;
        assert_eq!(again.write(0, vec![b'b'; 100]).await, Err(Error::InDoubt));
        assert_eq!(read_all(&again).await[..100], [b'a'; 100]);
        // A new connection can write.
        let (_, pool) = memory.pool("p").await;
        assert_eq!(open(&pool).await.write(0, vec![b'b'; 100]).await, Ok(()));
    });
}

#[test]
fn a_snapshot_that_the_header_may_name_keeps_its_bytes() {
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Late(TIMEOUT * 3)] {
        simulate(async {
            let memory = with_image(feature::DEFAULT).await;
            let (a, cluster) = memory.client(Some(TIMEOUT)).await;
            let pool_a = cluster.pool("p").await.expect("the pool");
            let image = open(&pool_a).await;
            image.write(0, vec![b'0'; 100]).await.expect("a write");
            memory.set_rule(move |seen| match seen.client == a && seen.calls("snapshot_add") {
                true => fault,
                false => Fault::None,
            });
            assert_eq!(image.create_snapshot("s").await, Err(Error::TimedOut { seconds: 5 }));
            memory.clear_rule();
            let (_, pool) = memory.pool("p").await;
            let other = open(&pool).await;
            other.write(0, vec![b'b'; 100]).await.expect("a write");
            tokio::time::sleep(Duration::from_secs(100)).await;
            let names: Vec<String> = other.snapshots().await.expect("snapshots").into_iter().map(|s| s.name).collect();
            // A late operation arrives before the other client has the lock, or not at all.
            assert_eq!(names.is_empty(), fault == Fault::LoseRequest, "{fault:?}: {names:?}");
            if !names.is_empty() {
                let snapshot = Image::open_snapshot(&pool, "disk", "s").await.expect("the snapshot");
                assert_eq!(read_all(&snapshot).await[..100], [b'0'; 100], "{fault:?}");
            }
            assert_eq!(read_all(&other).await[..100], [b'b'; 100]);
        });
    }
}

#[test]
fn a_lock_that_may_have_been_taken_is_not_left_behind_unnoticed() {
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Late(TIMEOUT * 3)] {
        simulate(async {
            let memory = with_image(feature::DEFAULT).await;
            let (a, cluster) = memory.client(Some(TIMEOUT)).await;
            let pool_a = cluster.pool("p").await.expect("the pool");
            let image = open(&pool_a).await;
            memory.set_rule(move |seen| match seen.client == a && seen.calls("locklock") {
                true => fault,
                false => Fault::None,
            });
            assert_eq!(image.write(0, vec![b'a'; 100]).await, Err(Error::TimedOut { seconds: 5 }));
            memory.clear_rule();
            tokio::time::sleep(TIMEOUT * 4).await;
            let (_, pool) = memory.pool("p").await;
            let writing = open(&pool).await;
            assert_eq!(writing.write(0, vec![b'b'; 100]).await, Ok(()), "{fault:?}");
        });
    }
}

#[test]
fn an_object_that_is_written_to_while_it_is_removed_stays_noted() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, pool) = memory.pool("p").await;
        let image = open(&pool).await;
        image.write(0, vec![b'0'; OBJECT as usize]).await.expect("a write");
        // A full pool holds writes back and lets removals pass.
        memory.set_rule(move |seen| if seen.client == a && writes(seen) { Fault::HoldBack } else { Fault::None });
        begin_and_drop(&memory, image.write(0, vec![b'a'; 100])).await;
        image.discard(0, OBJECT).await.expect("a discard");
        memory.release();
        image.flush().await.expect("flushing");
        let shown = read_all(&image).await;
        let (_, pool) = memory.pool("p").await;
        let unlocked = Image::open_read_only(&pool, "disk").await.expect("the image");
        assert!(shown == read_all(&unlocked).await, "who knows the map and who does not see the same");
        image.close().await.expect("closing");
        let again = open(&pool).await;
        again.write(SIZE - 1, vec![b'z']).await.expect("a write");
        assert_eq!(read_all(&again).await[..100], shown[..100]);
    });
}

#[test]
fn a_watch_that_nobody_waited_for_does_not_stay() {
    simulate(async {
        let memory = with_image(feature::DEFAULT).await;
        let (a, pool) = memory.pool("p").await;
        memory.set_rule(move |seen| match seen.client == a && seen.op.ops[0].code == OpCode::WATCH {
            true => Fault::Hold,
            false => Fault::None,
        });
        tokio::select! {
            biased;
            _ = Image::open(&pool, "disk") => panic!("opened though its watch is held"),
            () = memory.until_held() => {}
        }
        memory.release();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (_, pool) = memory.pool("p").await;
        assert_eq!(crate::rbd::remove(&pool, "disk").await, Ok(()), "nobody has it open");
    });
}

#[test]
fn making_cloning_renaming_and_removing_are_brought_to_their_ends() {
    simulate(async {
        let memory = Memory::start(1, &["p"], Release::MIMIC);
        let (a, pool) = memory.pool("p").await;
        make_parent(&pool).await.expect("the parent");
        let hold = move || {
            let mut done = false;
            memory_rule(move |seen| {
                let holds = seen.client == a && !done && seen.op.flags.has(wire::messages::OpFlags::WRITE);
                let holds = holds && seen.op.ops[0].code != OpCode::WATCH;
                done |= holds;
                holds
            })
        };
        let options = options(feature::DEFAULT);
        let changes: [(&str, Changing<'_>, &[&str]); 4] = [
            ("create", Box::pin(create(&pool, "new", SIZE, &options)), &["new", "parent"]),
            ("rename", Box::pin(crate::rbd::rename(&pool, "new", "renamed")), &["parent", "renamed"]),
            ("remove", Box::pin(crate::rbd::remove(&pool, "renamed")), &["parent"]),
            (
                "clone",
                Box::pin(crate::rbd::clone(&pool, "parent", "base", &pool, "child", &options)),
                &["child", "parent"],
            ),
        ];
        for (what, change, names) in changes {
            memory.set_rule(hold());
            begin_and_drop(&memory, change).await;
            memory.release();
            tokio::time::sleep(Duration::from_secs(30)).await;
            let images = crate::rbd::list(&pool).await.expect("a list");
            assert_eq!(images.into_keys().collect::<Vec<_>>(), names, "{what}");
        }
        let child = Image::open(&pool, "child").await.expect("the clone");
        assert!(read_all(&child).await == golden());
    });
}
