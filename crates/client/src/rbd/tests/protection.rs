//! Clones of the old format and the protection of their snapshots.

use super::{OBJECT, golden, make_parent, options, read_all};
use crate::Pool;
use crate::error::Error;
use crate::in_memory::{Fault, Memory, simulate};
use crate::operation::Operation;
use crate::rbd::spec::input;
use crate::rbd::{CHILDREN, Image, NAMESPACES, clone, feature, list};
use types::Errno;
use wire::Release;
use wire::rbd::ParentSpec;

/// Two pools with namespace `n` each, and an image with a protected snapshot in namespace `parent_in` of pool `p`.
async fn with_parent(memory: &Memory, parent_in: &'static str) -> Pool {
    let (_, pool) = memory.pool("p").await;
    for pool in [&pool, &pool.cluster().pool("q").await.expect("a pool")] {
        let add = Operation::new().call_write("rbd", "namespace_add", input(|w| w.str("n")));
        pool.operate(NAMESPACES, add).await.expect("a namespace");
    }
    // Images can be added only to directories that are marked as ready.
    let ready = Operation::new().call_write("rbd", "dir_state_set", [0]);
    for pool in [&pool, &pool.cluster().pool("q").await.expect("a pool")] {
        pool.namespace("n").operate("rbd_directory", ready.clone()).await.expect("a directory");
    }
    let pool = pool.namespace(parent_in);
    make_parent(&pool).await.expect("the parent");
    let image = Image::open(&pool, "parent").await.expect("the parent");
    image.protect_snapshot("base").await.expect("protection");
    image.close().await.expect("closing");
    pool
}

async fn try_to_remove(pool: &Pool) -> (Result<(), Error>, Result<(), Error>) {
    let image = Image::open(pool, "parent").await.expect("the parent");
    let unprotected = image.unprotect_snapshot("base").await;
    let removed = image.remove_snapshot("base").await;
    image.close().await.expect("closing");
    (unprotected, removed)
}

#[test]
fn a_snapshot_with_clones_in_any_pool_of_its_namespace_stays_protected() {
    for (namespace, child_pool) in [("", "p"), ("", "q"), ("n", "p"), ("n", "q")] {
        simulate(async {
            let memory = Memory::start(1, &["p", "q"], Release::LUMINOUS);
            let pool = with_parent(&memory, namespace).await;
            let children = pool.cluster().pool(child_pool).await.expect("a pool").namespace(namespace);
            clone(&pool, "parent", "base", &children, "child", &options(feature::DEFAULT)).await.expect("a clone");
            let busy = Err(Errno::EBUSY.into());
            assert_eq!(try_to_remove(&pool).await, (busy.clone(), busy), "{namespace:?} {child_pool}");
            let child = Image::open(&children, "child").await.expect("the clone");
            assert!(read_all(&child).await == golden());
            child.flatten().await.expect("flattening");
            assert_eq!(try_to_remove(&pool).await, (Ok(()), Ok(())), "{namespace:?} {child_pool}");
            assert!(read_all(&child).await == golden());
        });
    }
}

#[test]
fn clones_of_the_old_format_are_not_made_across_namespaces() {
    for (parent_in, child_in) in [("", "n"), ("n", "")] {
        simulate(async {
            let memory = Memory::start(1, &["p", "q"], Release::LUMINOUS);
            let pool = with_parent(&memory, parent_in).await;
            let children = pool.namespace(child_in);
            let refused = clone(&pool, "parent", "base", &children, "child", &options(feature::DEFAULT)).await;
            assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
            assert!(!list(&children).await.expect("a list").contains_key("child"), "nothing is left of it");
            assert_eq!(try_to_remove(&pool).await, (Ok(()), Ok(())));
        });
    }
}

/// Earlier versions of this library made clones in other namespaces than their parents'.
#[test]
fn a_clone_in_another_namespace_is_found_all_the_same() {
    for (parent_in, child_pool, child_in) in [("", "p", "n"), ("", "q", "n"), ("n", "p", ""), ("n", "q", "")] {
        simulate(async {
            let memory = Memory::start(1, &["p", "q"], Release::LUMINOUS);
            let pool = with_parent(&memory, parent_in).await;
            let image = Image::open(&pool, "parent").await.expect("the parent");
            let spec = ParentSpec {
                pool: pool.id().0,
                namespace: parent_in.into(),
                image: image.info().await.expect("the parent").id.into(),
                snap: image.snapshots().await.expect("snapshots")[0].id.0,
            };
            image.close().await.expect("closing");
            let entry = input(|w| {
                w.put(&spec.pool);
                w.put(&spec.image);
                w.u64(spec.snap);
                w.str("child");
            });
            let children = pool.cluster().pool(child_pool).await.expect("a pool").namespace(child_in);
            let add = Operation::new().call_write("rbd", "add_child", entry);
            children.operate(CHILDREN, add).await.expect("an entry");
            let busy = Err(Errno::EBUSY.into());
            assert_eq!(try_to_remove(&pool).await, (busy.clone(), busy), "{parent_in:?} {child_pool}/{child_in:?}");
        });
    }
}

/// One client makes a clone while another ends the protection and removes the snapshot, at any point of the first one's
/// work. Either there is a clone that shows the snapshot, or there is none.
#[test]
fn a_snapshot_that_is_being_unprotected_and_a_clone_that_is_being_made_of_it_exclude_each_other() {
    let mut outcomes = [0, 0];
    for at in 1.. {
        let made = simulate(async {
            let memory = Memory::start(at, &["p", "q"], Release::LUMINOUS);
            let pool = with_parent(&memory, "").await;
            let (a, pool_a) = memory.pool("p").await;
            let mut count = 0;
            memory.set_rule(move |seen| {
                count += u64::from(seen.client == a);
                if seen.client == a && count == at { Fault::Hold } else { Fault::None }
            });
            let options = options(feature::DEFAULT);
            let mut cloning = Box::pin(clone(&pool_a, "parent", "base", &pool_a, "child", &options));
            tokio::select! {
                biased;
                done = &mut cloning => {
                    assert_eq!(done, Ok(()));
                    return None;
                }
                () = memory.until_held() => {}
            }
            let (unprotected, removed) = try_to_remove(&pool).await;
            memory.release();
            let made = cloning.await;
            match &made {
                Ok(()) => {
                    assert!(unprotected.is_err() && removed.is_err(), "operation {at}");
                    let child = Image::open(&pool, "child").await.expect("the clone");
                    child.write(OBJECT, vec![b'x'; 10]).await.expect("a write");
                    let mut expected = golden();
                    expected[OBJECT as usize..][..10].fill(b'x');
                    assert!(read_all(&child).await == expected);
                }
                Err(error) => {
                    assert_eq!((unprotected, removed), (Ok(()), Ok(())), "operation {at}");
                    assert!([Errno::EINVAL, Errno::ENOENT].contains(&error.errno()), "operation {at}: {error}");
                    assert_eq!(list(&pool).await.expect("a list").into_keys().collect::<Vec<_>>(), ["parent"]);
                    let left = memory.lock().object_names();
                    let of_parent: Vec<_> = left.iter().filter(|name| name.starts_with("rbd_header")).collect();
                    assert_eq!(of_parent.len(), 1, "{left:?}");
                }
            }
            Some(made.is_ok())
        });
        match made {
            Some(made) => outcomes[usize::from(made)] += 1,
            None => break,
        }
    }
    assert!(outcomes[0] > 5 && outcomes[1] > 0, "both happen: {outcomes:?}");
}
