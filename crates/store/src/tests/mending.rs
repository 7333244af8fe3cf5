//! Parts of the metadata are lost: reported, never hidden, and given up on request.

use super::harness::{
    Bench, KIB, Random, ask, config, contents, finish_opening, next_tuning, object, open, read, txn, write,
};
use super::model::Model;
use crate::btree::{Depth, Found, PageCache, Walk, WalkProgress};
use crate::space::run::Run;
use crate::{
    IoRequest, Mended, OpenError, ReadError, SimDevice, Step, StopReason, Store, StoreConfig, SubmitError, Transaction,
};
use bytes::Bytes;
use types::{ObjectId, PgId};
use wire::Rope;

const OBJECTS: u64 = 1200;
const PG_NUM: u32 = 4;

fn roomy() -> StoreConfig {
    StoreConfig { device_bytes: 64 << 20, wal_bytes: 8 << 20, ..config() }
}

fn fill(bench: &mut Bench) {
    for n in 0..OBJECTS {
        let attr = Step::SetAttr { object: object(n), name: b"_".to_vec(), value: vec![n as u8; 30].into() };
        // Bytes are in the record, in one block, in several segments.
        let (offset, len) = match n % 8 {
            0..=5 => (0, 1000 + n as usize % 500),
            6 => (0, 5000),
            _ => (n % 3 * 100 * KIB, 9000),
        };
        let mut steps = vec![write(n, offset, vec![n as u8; len]), attr];
        if n % 10 == 0 {
            let entries = (0..20u32).map(|key| (Bytes::from(format!("key-{key}")), Bytes::from(vec![n as u8; 100])));
            let large = (Bytes::from("large"), Bytes::from(vec![n as u8; 20_000]));
            steps.push(Step::OmapSet {
                object: object(n),
                entries: entries.chain((n % 100 == 0).then_some(large)).collect(),
            });
        }
        let key = Bytes::from(format!("entry-{n}"));
        steps.push(Step::PgSet { key, value: vec![n as u8; 200].into() });
        let pg = PgId::new(1, object(n).hash % PG_NUM);
        bench.submit(Transaction { pg, steps }).unwrap();
        if n % 40 == 0 {
            bench.settle();
        }
    }
    bench.settle();
}

/// Makes a store with all of it in its tree, and some changes in the log.
fn filled(seed: u64) -> Bench {
    let mut bench = Bench::with(roomy(), seed);
    bench.store.set_memory(crate::Memory::default());
    fill(&mut bench);
    bench.store.checkpoint();
    bench.settle();
    for turn in 0..seed % 3 * 20 {
        if turn == 0 {
            bench.submit(txn(vec![write(OBJECTS + 1000, 0, vec![9; 300_000])])).unwrap();
        }
        let n = bench.random.below(OBJECTS + 20);
        let step = match bench.random.below(10) {
            0 => Step::Remove { object: object(n) },
            1 => Step::SetAttr { object: object(n), name: b"new".to_vec(), value: "value".into() },
            2 => Step::OmapSet { object: object(n), entries: vec![("new".into(), "value".into())] },
            3 => Step::Clone { from: object(OBJECTS + 1000), to: object(n) },
            4 => Step::Truncate { object: object(n), size: 50 },
            5 | 6 => Step::CloneRange {
                source: object(OBJECTS + 1000),
                target: object(n),
                source_offset: bench.random.below(40) * 4096,
                length: 20_000 * (1 + bench.random.below(7)),
                target_offset: bench.random.below(40) * 4096,
            },
            _ => write(n, bench.random.below(10_000), vec![7; 3000]),
        };
        let touch = Step::Touch { object: object(OBJECTS + 1000) };
        let entry = Step::PgSet { key: format!("later-{n}").into(), value: "value".into() };
        let pg = PgId::new(1, bench.random.below(u64::from(PG_NUM)) as u32);
        bench.submit(Transaction { pg, steps: vec![touch, step, entry] }).unwrap();
        bench.settle();
    }
    bench
}

/// Returns all pages and values of the tree except its topmost page, with their levels; 255: a value.
fn parts(bench: &Bench) -> Vec<(Run, u8)> {
    let state = &bench.store.state;
    let mut cache = PageCache::new(state.cache.tag(), usize::MAX);
    let mut walk = Walk::new(state.root, Depth::Values);
    let mut parts = Vec::new();
    let mut found = |found: Found| match found {
        Found::Page { run, level } => parts.push((run, level)),
        Found::Overflow { run } => parts.push((run, 255)),
        Found::Damage(lost) => panic!("{}", lost.damage),
    };
    while walk.step(&mut cache, 1000, &mut found) != WalkProgress::Done {
        while let Some(read) = cache.poll_read() {
            cache.read_done(read.id, Ok(bench.device.read(read.run.offset_bytes(), read.run.len_bytes())));
        }
    }
    let top = state.root.unwrap().page().run();
    parts.retain(|(run, _)| *run != top);
    parts
}

/// Flips a bit of a part, wipes it, puts another part in its place, or makes reads of it fail.
fn damage(device: &mut SimDevice, part: Run, other: Run, random: &mut Random) {
    let bytes = |device: &SimDevice, run: Run| device.read(run.offset_bytes(), run.len_bytes()).as_slice().to_vec();
    let old = bytes(device, part);
    let new = match random.below(4) {
        0 => {
            let mut new = old.clone();
            let at = random.below(new.len() as u64) as usize;
            new[at] ^= 1 << random.below(8);
            new
        }
        1 => vec![0; old.len()],
        2 => bytes(device, other).into_iter().chain(std::iter::repeat(1)).take(old.len()).collect(),
        _ => return device.make_unreadable(part.offset_bytes() + random.below(u64::from(part.count)) * 4096),
    };
    for (at, (old, new)) in old.iter().zip(&new).enumerate().filter(|(_, (old, new))| old != new) {
        device.corrupt(part.offset_bytes() + at as u64, old ^ new);
    }
}

fn open_to_mend(device: &mut SimDevice, config: &StoreConfig) -> Result<Store, OpenError> {
    finish_opening(device, Store::open_to_mend(StoreConfig { tuning: next_tuning(), ..config.clone() }))
}

/// `None`: the place of the bytes is unknown.
fn read_if_known(store: &mut Store, device: &mut SimDevice, id: &ObjectId) -> Option<Result<Rope, ReadError>> {
    match ask(store, device, |store| store.extents(id, 0, u64::MAX)) {
        Ok(_) => Some(read(store, device, id, 0, u64::MAX)),
        Err(_) => None,
    }
}

/// Checks a store that was opened as usual: answers are right or errors, and nothing that exists is reported absent.
fn nothing_is_hidden(bench: &Bench, device: &mut SimDevice) {
    let mut store = open(device, &bench.config).unwrap();
    for (id, expected) in &bench.model.objects {
        let Ok(stat) = ask(&mut store, device, |store| store.stat(id)) else { continue };
        let stat = stat.unwrap_or_else(|| panic!("{id} is absent"));
        assert_eq!(stat.size_bytes, expected.data.len() as u64, "{id}");
        if let Some(Ok(data)) = read_if_known(&mut store, device, id) {
            assert_eq!(data.to_vec(), *expected.data, "{id}");
        }
        if let Ok((omap, _)) = ask(&mut store, device, |store| store.omap_list(id, b"", b"", usize::MAX)) {
            assert_eq!(omap.into_iter().collect::<std::collections::BTreeMap<_, _>>(), expected.omap, "{id}");
        }
    }
    for n in 0..OBJECTS + 20 {
        if !bench.model.objects.contains_key(&object(n))
            && let Ok(stat) = ask(&mut store, device, |store| store.stat(&object(n)))
        {
            assert_eq!(stat, None, "removed object {n} is there");
        }
    }
    if let Ok(list) = ask(&mut store, device, |store| store.list(&ObjectId::min(), &ObjectId::max(), usize::MAX)) {
        assert!(bench.model.objects.keys().all(|id| list.contains(id)) && list.is_sorted());
        // Objects that changes which could not be replayed were to remove are not known to exist.
        for id in list.iter().filter(|id| !bench.model.objects.contains_key(id)) {
            assert!(ask(&mut store, device, |store| store.stat(id)).is_err(), "removed object {id} is listed");
        }
    }
    for pg in (0..PG_NUM).map(|seed| PgId::new(1, seed)) {
        assert!(store.pgs_contain(pg) || store.losses().iter().any(|loss| loss.meets_table_of(pg)));
        if let Ok(entries) = ask(&mut store, device, |store| store.pg_list(pg, b"", &[0xff; 40], usize::MAX)) {
            assert!(entries.iter().map(|(key, value)| ((pg, key), value)).eq(table(&bench.model, pg)), "{pg}");
        }
    }
    // The store takes changes only if it knows the free blocks.
    let freed = store.free_ranges();
    if store.losses().is_empty() && store.state.damaged.is_empty() {
        assert!(store.stopped().is_none());
    } else {
        assert_eq!(freed, []);
        let error = store.submit(txn(vec![write(1, 0, "new")])).unwrap_err();
        let SubmitError::Stopped(why) = &error else { panic!("{error}") };
        match store.losses() {
            [] => assert_eq!(**why, StopReason::ReplayDamage),
            [first, ..] => {
                let places = store.losses().len();
                assert_eq!(**why, StopReason::MetadataLost { first: Box::new(first.clone()), places });
            }
        }
        store.checkpoint();
        (0..10).for_each(|_| store.tick());
        store.end_turn();
        // Pages asked for ahead of a lookup that is over may still be read.
        while let Some(request) = store.poll_io() {
            assert!(matches!(request, IoRequest::Read { .. }), "a damaged store is written to: {request:?}");
        }
    }
}

fn table(model: &Model, pg: PgId) -> impl Iterator<Item = ((PgId, &Bytes), &Bytes)> {
    model.pgs.iter().filter(move |((of, _), _)| *of == pg).map(|((pg, key), value)| ((*pg, key), value))
}

/// Checks that the remaining content is unchanged, and that the rest is reported. Returns the number of lost objects.
fn all_that_is_lost_is_told(found: &Model, model: &Model, mended: Option<&Mended>) -> usize {
    for (id, object) in &found.objects {
        assert_eq!(Some(object), model.objects.get(id), "{id}");
    }
    for (key, value) in &found.pgs {
        assert_eq!(Some(value), model.pgs.get(key), "{key:?}");
    }
    let losses = mended.map_or(&[][..], |mended| &mended.losses);
    let named = |id: &ObjectId| mended.is_some_and(|mended| mended.objects.iter().any(|lost| lost.object == *id));
    let mut lost = 0;
    for id in model.objects.keys().filter(|id| !found.objects.contains_key(id)) {
        assert!(named(id) || losses.iter().any(|loss| loss.meets_object(id)), "{id} is gone without a word");
        let pg = PgId::new(1, id.hash % PG_NUM);
        assert!(named(id) || losses.iter().any(|loss| loss.meets_objects_of(pg, PG_NUM)));
        lost += 1;
    }
    for lost in mended.iter().flat_map(|mended| &mended.objects) {
        assert!(!found.objects.contains_key(&lost.object));
    }
    for (pg, key) in model.pgs.keys().filter(|key| !found.pgs.contains_key(key)) {
        assert!(losses.iter().any(|loss| loss.meets_table_of(*pg)), "{key:?} of {pg} is gone without a word");
    }
    lost
}

fn settle(store: &mut Store, device: &mut SimDevice) {
    let mut turns = 0;
    while !store.is_idle() {
        store.end_turn();
        while let Some(request) = store.poll_io() {
            device.submit(request);
        }
        while device.queued() > 0 {
            store.io_done(device.complete(0));
        }
        while let Some(event) = store.poll_event() {
            assert!(!matches!(event, crate::StoreEvent::Failed { .. }), "{event:?}");
        }
        turns += 1;
        assert!(turns < 10_000, "never idle");
    }
}

/// Damages parts, checks the report, mends, checks again. Returns the number of lost objects.
fn mend(bench: &Bench, random: &mut Random, bad: &[Run], all: &[(Run, u8)]) -> usize {
    let mut device = bench.device.after_kill(&mut || 0);
    for part in bad {
        let (other, _) = all[random.below(all.len() as u64) as usize];
        if other != *part {
            damage(&mut device, *part, other, random);
        }
    }
    nothing_is_hidden(bench, &mut device.after_kill(&mut || 0));
    let mut store = open_to_mend(&mut device, &bench.config).unwrap();
    let mended = store.mended().cloned();
    assert!(store.stopped().is_none());
    let found = contents(&mut store, &mut device);
    let lost = all_that_is_lost_is_told(&found, &bench.model, mended.as_ref());
    // Mending that is cut off in between can be done again.
    store.submit(txn(vec![write(OBJECTS + 5000, 0, vec![3; 70_000])])).unwrap();
    store.checkpoint();
    let cut = random.below(40);
    for _ in 0..cut {
        store.end_turn();
        while let Some(request) = store.poll_io() {
            device.submit(request);
        }
        if device.queued() > 0 {
            store.io_done(device.complete(random.below(device.queued() as u64) as usize));
        }
    }
    let mut crashed = device.after_crash(&mut || random.next());
    let mut again = open_to_mend(&mut crashed, &bench.config).unwrap();
    let mut rest = contents(&mut again, &mut crashed);
    let new = rest.objects.remove(&object(OBJECTS + 5000));
    assert!(new.is_none_or(|new| *new.data == vec![3; 70_000]));
    assert!(rest == found, "what was left before is not what is left now");
    // Now mending runs to its end.
    settle(&mut store, &mut device);
    let mut device = device.after_crash(&mut || random.next());
    let mut whole = open(&mut device, &bench.config).unwrap();
    assert!(whole.stopped().is_none() && whole.losses().is_empty() && whole.blocks_add_up());
    let mut rest = contents(&mut whole, &mut device);
    assert_eq!(*rest.objects.remove(&object(OBJECTS + 5000)).unwrap().data, vec![3; 70_000]);
    assert!(rest == found);
    assert!(open_to_mend(&mut device, &bench.config).unwrap().mended().is_none());
    lost
}

#[test]
fn any_part_of_the_tree_may_be_lost() {
    let (mut lost, mut levels) = (0, [0; 256]);
    for seed in 0..3 {
        let bench = filled(seed);
        let all = parts(&bench);
        let mut random = Random::new(seed + 100);
        // Each interior page is damaged, some leaves (of every table, as they are in the order of keys), and some
        // values.
        let interior = all.iter().filter(|(_, level)| (1..255).contains(level)).copied();
        let some = (0..8).map(|at| all[(at * all.len() + random.below(all.len() as u64) as usize) / 8]);
        let values = all.iter().filter(|(_, level)| *level == 255).take(2).copied();
        let chosen: Vec<(Run, u8)> = interior.chain(some).chain(values).collect();
        for (part, level) in chosen {
            levels[usize::from(level)] += 1;
            lost += mend(&bench, &mut random, &[part], &all);
        }
        // Several parts are damaged at once.
        for _ in 0..3 {
            let bad: Vec<Run> = (0..6).map(|_| all[random.below(all.len() as u64) as usize].0).collect();
            lost += mend(&bench, &mut random, &bad, &all);
        }
        // The last leaf is damaged: no key behind it tells where its keys end.
        lost += mend(&bench, &mut random, &[all.iter().rfind(|(_, level)| *level == 0).unwrap().0], &all);
    }
    assert!(lost > 50 && levels[0] > 10 && levels[1] > 2 && levels[255] > 2, "{lost} lost, {:?}", &levels[..3]);
}

#[test]
fn what_is_left_can_be_removed_before_the_rest_is_whole() {
    for seed in 0..4 {
        let bench = filled(seed);
        let (all, mut random) = (parts(&bench), Random::new(seed + 200));
        let mut device = bench.device.after_kill(&mut || 0);
        for _ in 0..4 {
            let part = all[random.below(all.len() as u64) as usize].0;
            device.corrupt(part.offset_bytes() + 50, 2);
        }
        let mut store = open_to_mend(&mut device, &bench.config).unwrap();
        let mut expected = contents(&mut store, &mut device);
        let large: Vec<ObjectId> =
            expected.objects.iter().filter(|(_, o)| o.data.len() > 150_000).map(|(id, _)| id.clone()).collect();
        assert!(large.len() > 20);
        // Some reads are before the checkpoint, some while it is under way.
        let (first, second) = large.split_at(large.len() / 2);
        let remove = |object: &ObjectId| Step::Remove { object: object.clone() };
        let destroy = Transaction { pg: PgId::new(1, 1), steps: vec![Step::PgDestroy { pg_num: PG_NUM }] };
        store.submit(txn(first.iter().map(remove).collect())).unwrap();
        store.checkpoint();
        store.end_turn();
        store.submit(txn(second.iter().map(remove).collect())).unwrap();
        store.submit(destroy.clone()).unwrap();
        settle(&mut store, &mut device);
        expected.objects.retain(|id, _| !large.contains(id));
        expected.apply(&destroy);
        assert!(store.blocks_add_up() && contents(&mut store, &mut device) == expected);
        store.checkpoint();
        settle(&mut store, &mut device);
        assert!(store.blocks_add_up());
        let used = store.usage().data_bytes;
        let mut device = device.after_crash(&mut || random.next());
        let mut whole = open(&mut device, &bench.config).unwrap();
        assert!(whole.stopped().is_none() && whole.losses().is_empty() && whole.blocks_add_up());
        assert_eq!(whole.usage().data_bytes, used);
        assert!(contents(&mut whole, &mut device) == expected);
    }
}

#[test]
fn a_store_without_damage_is_opened_to_be_mended_like_any_other() {
    let bench = filled(2);
    let mut device = bench.device.after_kill(&mut || 0);
    let mut store = open_to_mend(&mut device, &bench.config).unwrap();
    assert!(store.mended().is_none() && store.losses().is_empty() && store.stopped().is_none());
    assert!(store.blocks_add_up());
    assert_eq!(contents(&mut store, &mut device), bench.model);
}

#[test]
fn without_the_topmost_page_there_is_nothing_to_mend() {
    let bench = filled(0);
    let mut device = bench.device.after_kill(&mut || 0);
    let top = bench.store.state.root.unwrap().page().run();
    device.corrupt(top.offset_bytes() + 50, 2);
    // There is no checkpoint before it either.
    let older = 1 - bench.store.log_state().checkpoint as usize % 2;
    device.corrupt(crate::disk::numbers::ROOT_OFFSETS[older] + 20, 2);
    let error = open_to_mend(&mut device, &bench.config).map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::DamagedTree(damage) if damage.run == top), "{error}");
    assert_eq!(open(&mut device, &bench.config).map(drop).unwrap_err(), error);
}
