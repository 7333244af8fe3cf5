//! Work for others, whose headers are not believed.

use super::{SIZE, golden, make_parent, options, read_all};
use crate::Pool;
use crate::error::Error;
use crate::in_memory::{Memory, simulate};
use crate::operation::Operation;
use crate::rbd::create::names;
use crate::rbd::header::tell;
use crate::rbd::spec::input;
use crate::rbd::{
    Course, DIRECTORY, ESTALE, Image, TRASH, clone, create, feature, find_id, header_object, id_object, list,
    list_trash, move_to_trash, purge_trash, remove, remove_for_others, remove_from_trash, rename,
};
use std::time::{Duration, SystemTime};
use types::{Errno, SnapId};
use wire::Release;
use wire::rbd::ParentSpec;

async fn pools(seed: u64) -> (Memory, Pool, Pool) {
    let memory = Memory::start(seed, &["p", "q"], Release::MIMIC);
    let (_, p) = memory.pool("p").await;
    let q = p.cluster().pool("q").await.expect("a pool");
    (memory, p, q)
}

async fn make(pool: &Pool, name: &str) -> String {
    create(pool, name, SIZE, &options(feature::DEFAULT)).await.expect("an image");
    let image = Image::open(pool, name).await.expect("it opens");
    image.write(0, golden()).await.expect("a write");
    image.close().await.expect("it closes");
    find_id(pool, name).await.expect("an id")
}

/// Makes an image by hand, with this prefix and pool of its data.
async fn forge(pool: &Pool, name: &str, id: &str, prefix: &str, data_pool: i64) {
    tell(pool, DIRECTORY, "dir_add_image", names(&[name, id])).await.expect("an entry");
    let entry = Operation::new().create(true).call_write("rbd", "set_id", names(&[id]));
    pool.operate(id_object(name), entry).await.expect("an id");
    let fields = input(|w| {
        w.u64(SIZE);
        w.u8(12);
        w.u64(feature::LAYERING | if data_pool >= 0 { feature::DATA_POOL } else { 0 });
        w.str(prefix);
        w.i64(data_pool);
    });
    let header = Operation::new().create(true).call_write("rbd", "create", fields);
    pool.operate(header_object(id), header).await.expect("a header");
}

async fn name_parent(pool: &Pool, id: &str, spec: &ParentSpec) {
    let fields = input(|w| {
        w.put(spec);
        w.u64(SIZE);
        w.bool(false);
    });
    tell(pool, &header_object(id), "parent_attach", fields).await.expect("a parent");
}

async fn base(pool: &Pool) -> ParentSpec {
    make_parent(pool).await.expect("the parent");
    let image = Image::open_read_only(pool, "parent").await.expect("it opens");
    let snap = image.snapshots().await.expect("snapshots")[0].id.0;
    let id = find_id(pool, "parent").await.expect("an id");
    ParentSpec { pool: pool.id().0, namespace: Default::default(), image: id.into(), snap }
}

async fn flatten(pool: &Pool, name: &str, id: &str) -> Result<(), Error> {
    let image = Image::open_for_others(pool, name, id).await?;
    let flattened = image.flatten_by(&Course::default()).await;
    image.close().await.expect("it closes");
    flattened
}

async fn shows(pool: &Pool, name: &str) -> bool {
    let image = Image::open_read_only(pool, name).await.expect("it opens");
    read_all(&image).await == golden()
}

fn refused(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::Unsupported(_)))
}

#[test]
fn data_of_another_image_is_not_removed_by_a_header_that_names_it() {
    simulate(async {
        let (_memory, p, q) = pools(1).await;
        let (victim, near) = (make(&p, "victim").await, make(&q, "near").await);
        forge(&q, "evil", "e1", &format!("rbd_data.{victim}"), p.id().0).await;
        forge(&q, "wicked", "e2", &format!("rbd_data.{near}"), -1).await;
        for (name, id) in [("evil", "e1"), ("wicked", "e2")] {
            assert!(refused(remove_for_others(&q, name, id, &Course::default()).await), "{name}");
            move_to_trash(&q, name, Duration::ZERO).await.expect("moved");
            assert!(refused(remove_from_trash(&q, id, true, &Course::default()).await), "{name}");
        }
        assert!(shows(&p, "victim").await && shows(&q, "near").await);
        // A pool of its own for the data is no reason to refuse.
        let with_data_pool = crate::rbd::ImageOptions { data_pool: Some(p.clone()), ..options(feature::DEFAULT) };
        create(&q, "apart", SIZE, &with_data_pool).await.expect("an image");
        let id = find_id(&q, "apart").await.expect("an id");
        remove_for_others(&q, "apart", &id, &Course::default()).await.expect("removed");
    });
}

#[test]
fn a_parent_elsewhere_is_read_only_if_it_lists_the_clone() {
    simulate(async {
        let (_memory, p, q) = pools(2).await;
        let spec = base(&p).await;
        forge(&q, "evil", "e1", "rbd_data.e1", -1).await;
        name_parent(&q, "e1", &spec).await;
        assert!(refused(flatten(&q, "evil", "e1").await));
        // Likewise a clone of an image that names another one's data as its own.
        forge(&q, "between", "e2", &format!("rbd_data.{}", String::from_utf8_lossy(&spec.image)), p.id().0).await;
        let fields = input(|w| {
            w.str("s");
            w.u64(1);
            w.put(&wire::rbd::SnapshotNamespace::User);
        });
        tell(&q, &header_object("e2"), "snapshot_add", fields).await.expect("a snapshot");
        forge(&q, "behind", "e3", "rbd_data.e3", -1).await;
        name_parent(&q, "e3", &ParentSpec { pool: q.id().0, image: "e2".into(), snap: 1, ..spec.clone() }).await;
        assert!(refused(flatten(&q, "behind", "e3").await));
        // An image that is refused can be removed: nothing of the parent is read.
        remove_for_others(&q, "evil", "e1", &Course::default()).await.expect("removed");
        clone(&p, "parent", "base", &q, "honest", &options(feature::DEFAULT)).await.expect("a clone");
        let id = find_id(&q, "honest").await.expect("an id");
        flatten(&q, "honest", &id).await.expect("flattened");
        assert!(shows(&q, "honest").await && shows(&p, "parent").await);
    });
}

#[test]
fn a_task_is_about_its_image_and_not_about_another_of_that_name() {
    simulate(async {
        let (_memory, p, _) = pools(3).await;
        let first = make(&p, "disk").await;
        remove(&p, "disk").await.expect("removed");
        assert_eq!(remove_for_others(&p, "disk", &first, &Course::default()).await, Ok(()), "it is gone");
        let second = make(&p, "disk").await;
        assert_eq!(remove_for_others(&p, "disk", &first, &Course::default()).await, Ok(()), "it is gone");
        assert_eq!(flatten(&p, "disk", &first).await, Err(ESTALE.into()));
        assert!(shows(&p, "disk").await);
        rename(&p, "disk", "other").await.expect("renamed");
        assert_eq!(remove_for_others(&p, "disk", &second, &Course::default()).await, Err(ESTALE.into()));
        assert!(shows(&p, "other").await);
        remove_for_others(&p, "other", &second, &Course::default()).await.expect("removed");
        assert!(list(&p).await.expect("a list").is_empty());
    });
}

#[test]
fn an_image_that_names_itself_as_its_parent_ends_nothing_but_its_task() {
    simulate(async {
        let (_memory, p, _) = pools(4).await;
        let mut spec = base(&p).await;
        forge(&p, "own", "e1", "rbd_data.e1", -1).await;
        (spec.image, spec.snap) = ("e1".into(), 1);
        name_parent(&p, "e1", &spec).await;
        let fields = input(|w| {
            w.str("s");
            w.u64(1);
            w.put(&wire::rbd::SnapshotNamespace::User);
        });
        tell(&p, &header_object("e1"), "snapshot_add", fields).await.expect("a snapshot");
        assert!(refused(Image::open(&p, "own").await.map(drop)));
        assert!(refused(flatten(&p, "own", "e1").await));
        let fields = input(|w| w.u64(1));
        tell(&p, &header_object("e1"), "snapshot_remove", fields).await.expect("no snapshot");
        remove_for_others(&p, "own", "e1", &Course::default()).await.expect("removed");
    });
}

#[test]
fn an_image_whose_parent_is_gone_is_removed() {
    simulate(async {
        let (_memory, p, _) = pools(5).await;
        make_parent(&p).await.expect("the parent");
        clone(&p, "parent", "base", &p, "disk", &options(feature::DEFAULT)).await.expect("a clone");
        let (parent, id) = (find_id(&p, "parent").await.expect("an id"), find_id(&p, "disk").await.expect("an id"));
        p.remove(header_object(&parent)).await.expect("the header is lost");
        assert!(refused(flatten(&p, "disk", &id).await), "the image itself is there");
        remove_for_others(&p, "disk", &id, &Course::default()).await.expect("removed");
        assert_eq!(find_id(&p, "disk").await, Err(Errno::ENOENT.into()));
    });
}

#[test]
fn a_clone_that_shows_nothing_more_of_its_parent_is_detached_by_flattening() {
    simulate(async {
        let (_memory, p, _) = pools(6).await;
        make_parent(&p).await.expect("the parent");
        clone(&p, "parent", "base", &p, "disk", &options(feature::DEFAULT)).await.expect("a clone");
        let image = Image::open(&p, "disk").await.expect("it opens");
        image.resize(0).await.expect("a new size");
        image.close().await.expect("it closes");
        let id = find_id(&p, "disk").await.expect("an id");
        flatten(&p, "disk", &id).await.expect("flattened");
        assert_eq!(flatten(&p, "disk", &id).await, Err(Errno::EINVAL.into()));
        let parent = Image::open(&p, "parent").await.expect("it opens");
        assert_eq!(parent.snapshots().await.expect("snapshots")[0].child_count, 0);
        parent.remove_snapshot("base").await.expect("nothing shows it");
        parent.close().await.expect("it closes");
        remove(&p, "parent").await.expect("removed");
    });
}

async fn set_state(pool: &Pool, id: &str, wanted: u8) {
    let fields = input(|w| {
        w.str(id);
        w.u8(wanted);
        w.u8(0);
    });
    tell(pool, TRASH, "trash_state_set", fields).await.expect("a state");
}

#[test]
fn a_purge_goes_on_behind_an_image_that_cannot_be_removed_and_ends_removals_that_had_stopped() {
    simulate(async {
        let (memory, p, q) = pools(7).await;
        let victim = make(&p, "victim").await;
        forge(&q, "evil", "0evil", &format!("rbd_data.{victim}"), p.id().0).await;
        for name in ["half", "whole"] {
            make(&q, name).await;
        }
        let mut ids = Vec::new();
        for name in ["evil", "half", "whole"] {
            ids.push(move_to_trash(&q, name, Duration::ZERO).await.expect("moved"));
        }
        set_state(&q, &ids[1], 2).await;
        let now = (SystemTime::now() + Duration::from_secs(1)).into();
        // A client has the image open: its removal stays one that was begun.
        let opened = Image::open_by_id(&q, "half", &ids[1], SnapId::HEAD, false).await.expect("it opens");
        let (_, other) = memory.pool("q").await;
        assert_eq!(remove_from_trash(&other, &ids[1], false, &Course::default()).await, Err(Errno::EBUSY.into()));
        opened.close().await.expect("it closes");
        let half = list_trash(&q).await.expect("a list").into_iter().find(|image| image.id == ids[1]);
        assert!(half.is_some_and(|half| half.is_half_removed && !half.is_at_rest));
        assert!(refused(purge_trash(&q, now, &Course::default()).await.map(drop)));
        let left: Vec<String> = list_trash(&q).await.expect("a list").into_iter().map(|image| image.name).collect();
        assert_eq!(left, ["evil"]);
        assert!(shows(&p, "victim").await);
    });
}
