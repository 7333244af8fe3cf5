//! Compares changes to a map with the maps that Ceph's monitor made of the same commands.
//!
//! The fixtures were recorded from the store of a monitor of Ceph 16.2.15: each CRUSH map behind its length.

use crush::{BuildError, CrushMap, DEFAULT_CHOOSE_ARGS, Location, NewDevice, Profile, WEIGHT_ONE, fixed_weight};
use wire::{Decode, Encode, Reader, Target};

const FIRST: &[u8] = include_bytes!("../fixtures/ceph-16.2.15-first.crush-maps");
const SECOND: &[u8] = include_bytes!("../fixtures/ceph-16.2.15-second.crush-maps");

struct Recording {
    maps: std::vec::IntoIter<CrushMap>,
    ours: CrushMap,
}

impl Recording {
    /// Reads the recording and starts from its first map.
    fn new(fixture: &[u8]) -> Recording {
        let mut r = Reader::new(fixture);
        let mut maps = Vec::new();
        while !r.is_empty() {
            let bytes = r.blob().unwrap();
            let map = CrushMap::from_slice(bytes).unwrap();
            assert!(map.to_vec(Target::PACIFIC) == bytes, "map {} is written differently", maps.len());
            maps.push(map);
        }
        let mut maps = maps.into_iter();
        let ours = maps.next().unwrap();
        Recording { maps, ours }
    }

    /// Checks that the next recorded map equals the result of `change` on the one before.
    fn step<T>(&mut self, command: &str, change: impl FnOnce(&mut CrushMap) -> Result<T, crush::BuildError>) {
        self.ours.recount_devices();
        change(&mut self.ours).unwrap();
        let mut theirs = self.maps.next().unwrap();
        if theirs.id("rackx").is_some() {
            // Ceph leaves the shadows' old names until something else changes; ours follow at once.
            theirs.rename_bucket("rackx", "rack").unwrap();
            theirs.rename_bucket("rack", "rackx").unwrap();
        }
        if command.starts_with("osd crush rm ") {
            // By mistake Ceph leaves the sums of all places but the last at zero when it rebuilds shadow trees.
            assert!(self.ours.remove_weight_set(4) && theirs.remove_weight_set(4));
        }
        assert_eq!(self.ours, theirs, "after `{command}`");
        assert!(self.ours.to_vec(Target::PACIFIC) == theirs.to_vec(Target::PACIFIC), "bytes after `{command}`");
    }

    fn add(&mut self, osd: i32, location: &[&str]) {
        let location = Location::parse(location.iter().copied()).unwrap();
        let name = format!("osd.{osd}");
        self.step("osd crush add", |map| map.set_item(osd, WEIGHT_ONE, &name, &location));
    }

    fn end(mut self) {
        assert_eq!(self.maps.next(), None);
    }
}

#[test]
fn changes_equal_a_monitors() {
    let mut r = Recording::new(FIRST);
    for osd in 0..3 {
        r.add(osd, &[&format!("host=host{osd}"), "root=default"]);
    }
    r.step("osd pool create three erasure", |map| map.create_erasure_rule("three", "default", "osd", None, 3));
    r.step("osd crush set-device-class ssd 0 1", |map| {
        map.set_device_class(0, "ssd")?;
        map.set_device_class(1, "ssd")
    });
    r.step("osd crush set-device-class hdd 2", |map| map.set_device_class(2, "hdd"));
    r.step("osd crush rule create-replicated", |map| {
        map.create_replicated_rule("ssdrule", "default", "osd", Some("ssd"))
    });
    r.step("osd crush rule create-erasure", |map| map.create_erasure_rule("ecrule", "default", "osd", None, 3));
    r.step("osd crush add-bucket rack1 rack root=default", |map| {
        map.add_bucket("rack1", "rack")?;
        map.move_item("rack1", &Location::from([("root", "default")]))
    });
    r.step("osd crush move host1 rack=rack1", |map| map.move_item("host1", &Location::from([("rack", "rack1")])));
    r.step("osd crush reweight osd.0 1.5", |map| map.reweight("osd.0", fixed_weight(1.5)?));
    r.step("osd crush add-bucket lonely host", |map| map.add_bucket("lonely", "host"));
    r.step("osd crush weight-set create-compat", |map| map.create_weight_set(DEFAULT_CHOOSE_ARGS, 1));
    r.step("osd crush weight-set reweight-compat osd.1 0.7", |map| {
        map.reweight_in_weight_set(DEFAULT_CHOOSE_ARGS, "osd.1", &[fixed_weight(0.7)?])
    });
    r.step("osd crush weight-set create two flat", |map| map.create_weight_set(3, 1));
    r.step("osd crush weight-set create three positional", |map| map.create_weight_set(4, 3));
    r.step("osd crush weight-set reweight three osd.2 0.5 0.6 0.7", |map| {
        let weights = [0.5, 0.6, 0.7].map(|weight| fixed_weight(weight).unwrap());
        map.reweight_in_weight_set(4, "osd.2", &weights)
    });
    for profile in [Profile::Hammer, Profile::Jewel] {
        r.step("osd crush tunables", |map| {
            map.set_tunables(profile.tunables());
            Ok(())
        });
    }
    r.step("osd crush rename-bucket rack1 rackx", |map| map.rename_bucket("rack1", "rackx"));
    r.step("osd crush rm lonely", |map| map.remove_item("lonely", None));
    r.end();
}

#[test]
fn adding_and_purging_equals_a_monitors() {
    let mut r = Recording::new(SECOND);
    for osd in 0..3 {
        r.add(osd, &[&format!("host=host{osd}"), "root=default"]);
    }
    r.step("osd crush set-device-class ssd 0 1", |map| {
        map.set_device_class(0, "ssd")?;
        map.set_device_class(1, "ssd")
    });
    r.add(3, &["host=host3", "rack=rack2", "root=default"]);
    r.step("osd purge 3", |map| map.remove_item("osd.3", None));
    r.end();
}

/// Returns names, weights, classes and locations of all items; ids of buckets aside.
fn shape(map: &CrushMap) -> Vec<String> {
    let described = |id: i32, name: &str| {
        let (weight, class) = (map.item_weight(id), map.class_of(id));
        format!("{name} {weight:?} {class:?} {:?}", map.full_location(id))
    };
    let mut all: Vec<String> = map.names().map(|(id, name)| described(id, name)).collect();
    all.sort();
    all
}

#[test]
fn devices_that_come_at_once_stand_where_they_would_one_by_one() {
    let place = |id: i32| {
        Location::from([("root", "default"), ("rack", &format!("r{}", id / 12)), ("host", &format!("h{}", id / 4))])
    };
    let device = |id: i32| NewDevice {
        id,
        weight: WEIGHT_ONE * (1 + id as u32 % 3),
        location: Some(place(id)),
        class: Some(["hdd", "ssd"][id as usize % 2].to_owned()),
    };
    let mut one_by_one = CrushMap::new();
    one_by_one.add_bucket("default", "root").unwrap();
    let mut at_once = one_by_one.clone();
    for device in (0..50).map(device) {
        let name = format!("osd.{}", device.id);
        one_by_one.insert_item(device.id, device.weight, &name, device.location.as_ref().unwrap()).unwrap();
        one_by_one.set_device_class(device.id, device.class.as_ref().unwrap()).unwrap();
    }
    let (first, second): (Vec<NewDevice>, Vec<NewDevice>) = (0..50).map(device).partition(|device| device.id < 20);
    assert_eq!(at_once.add_devices(&first), []);
    let shadow = at_once.id("h3~ssd").expect("a shadow");
    assert_eq!(at_once.add_devices(&second), []);
    assert_eq!(shape(&at_once), shape(&one_by_one));
    assert_eq!(at_once.id("h3~ssd"), Some(shadow), "rules go on to mean the same");
    assert_eq!(at_once.max_devices(), one_by_one.max_devices());
    let bytes = at_once.to_vec(Target::PACIFIC);
    assert_eq!(CrushMap::from_slice(&bytes).unwrap(), at_once, "what follows from buckets is up to date");
}

#[test]
fn devices_that_cannot_be_placed_are_left_out_and_leave_no_trace() {
    let mut map = CrushMap::new();
    map.add_bucket("default", "root").unwrap();
    let device = |id, location: Location, class: Option<&str>| NewDevice {
        id,
        weight: WEIGHT_ONE,
        location: Some(location),
        class: class.map(str::to_owned),
    };
    let fits = |id| device(id, Location::from([("root", "default"), ("host", "a")]), Some("ssd"));
    let unknown = device(5, Location::from([("planet", "earth")]), None);
    let unfit = device(6, Location::from([("root", "default"), ("host", "new")]), Some("no such name!"));
    let twice = fits(1);
    let refused = map.add_devices(&[fits(1), unknown, fits(2), unfit, twice]);
    let ids: Vec<i32> = refused.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [5, 6, 1]);
    assert!(
        matches!(refused[0].1, BuildError::NoType(_)) && matches!(refused[1].1, BuildError::Name(_)),
        "{refused:?}"
    );
    assert_eq!((map.id("new"), map.id("osd.6"), map.is_linked(2)), (None, None, true));
    let before = map.clone();
    assert_eq!(map.add_devices(&[unfit_class()]).len(), 1);
    assert_eq!(map, before);
    // A device that stands somewhere gets its class only.
    map.add_devices(&[NewDevice {
        id: 3,
        weight: WEIGHT_ONE,
        location: Some(Location::from([("root", "default")])),
        class: None,
    }]);
    assert_eq!(map.add_devices(&[NewDevice { id: 3, weight: 0, location: None, class: Some("hdd".to_owned()) }]), []);
    assert_eq!((map.class_of(3), map.item_weight(3)), (Some("hdd"), Some(WEIGHT_ONE)));
}

fn unfit_class() -> NewDevice {
    NewDevice { id: 77, weight: 1, location: None, class: Some("ssd".to_owned()) }
}
