//! Laws that hold for any map, input and bytes.

use crate::support;
use crush::{
    BuildError, ChooseArg, ChooseArgs, CrushMap, ITEM_NONE, Location, MapError, RuleKind, Scratch, Step, TreeOptions,
    WEIGHT_ONE, fixed_weight, op,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::{Decode, Encode, Target};

/// A change that an operator or an OSD asks for; ids and weights are taken modulo the number of items.
#[derive(Clone, Debug)]
enum Change {
    Add { osd: u8, host: u8, weight: u32 },
    Move { host: u8, rack: u8 },
    Reweight { osd: u8, weight: u32 },
    Remove { osd: u8 },
    Class { osd: u8, class: Option<u8> },
    AddHost { host: u8 },
    RemoveHost { host: u8 },
    Swap { a: u8, b: u8 },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let (osd, host, rack) = (0u8..30, 0u8..8, 0u8..3);
    let weight = 0u32..WEIGHT_ONE * 4;
    let one = prop_oneof![
        4 => (osd.clone(), host.clone(), weight.clone())
            .prop_map(|(osd, host, weight)| Change::Add { osd, host, weight }),
        1 => (host.clone(), rack).prop_map(|(host, rack)| Change::Move { host, rack }),
        1 => (osd.clone(), weight).prop_map(|(osd, weight)| Change::Reweight { osd, weight }),
        1 => osd.clone().prop_map(|osd| Change::Remove { osd }),
        2 => (osd, prop::option::of(0u8..3)).prop_map(|(osd, class)| Change::Class { osd, class }),
        1 => host.clone().prop_map(|host| Change::AddHost { host }),
        1 => host.clone().prop_map(|host| Change::RemoveHost { host }),
        1 => (host.clone(), host).prop_map(|(a, b)| Change::Swap { a, b }),
    ];
    prop::collection::vec(one, 1..40)
}

fn apply(map: &mut CrushMap, change: &Change) -> Result<(), BuildError> {
    match change {
        Change::Add { osd, host, weight } => {
            let location = Location::from([("root", "default"), ("host", &format!("h{host}"))]);
            map.set_item(i32::from(*osd), *weight, &format!("osd.{osd}"), &location).map(drop)
        }
        Change::Move { host, rack } => {
            let location = Location::from([("root", "default"), ("rack", &format!("r{rack}"))]);
            map.move_item(&format!("h{host}"), &location)
        }
        Change::Reweight { osd, weight } => map.reweight(&format!("osd.{osd}"), *weight).map(drop),
        Change::Remove { osd } => map.remove_item(&format!("osd.{osd}"), None),
        Change::Class { osd, class: None } => map.remove_device_class((*osd).into()).map(drop),
        Change::Class { osd, class: Some(class) } => {
            map.set_device_class((*osd).into(), &format!("class{class}")).map(drop)
        }
        Change::AddHost { host } => map.add_bucket(&format!("h{host}"), "host").map(drop),
        Change::RemoveHost { host } => map.remove_item(&format!("h{host}"), None),
        Change::Swap { a, b } => map.swap_bucket(&format!("h{a}"), &format!("h{b}")),
    }
}

/// Every bucket weighs as much as its items, also where it is an item itself.
fn weights_add_up(map: &CrushMap) {
    for bucket in map.buckets() {
        let sum: u32 = bucket.weighted_items().map(|(_, weight)| weight).sum();
        assert_eq!(bucket.weight, sum, "bucket {}", bucket.id);
        for (item, weight) in bucket.weighted_items().filter(|(item, _)| *item < 0) {
            assert_eq!(map.bucket(item).unwrap().weight, weight, "bucket {item} in {}", bucket.id);
        }
    }
}

/// Each class's shadow of a root holds exactly the devices of that class below the root.
fn shadows_follow(map: &CrushMap) {
    for root in map.roots().into_iter().filter(|root| !map.is_shadow(*root)) {
        let below: BTreeSet<i32> = map.leaves(root).into_iter().collect();
        for (_, class) in map.classes() {
            let expected: BTreeSet<i32> = map.devices_of_class(class).intersection(&below).copied().collect();
            let Some(shadow) = map.shadow(root, class) else {
                // A bucket that was just made has no shadow until something changes.
                assert!(below.is_empty(), "no shadow of {root} for {class}");
                continue;
            };
            assert_eq!(map.leaves(shadow).into_iter().collect::<BTreeSet<_>>(), expected, "{root} {class}");
        }
    }
}

fn start() -> CrushMap {
    let mut map = CrushMap::new();
    map.add_bucket("default", "root").unwrap();
    map.create_replicated_rule("by-host", "default", "host", None).unwrap();
    map.create_replicated_rule("by-osd", "default", "osd", None).unwrap();
    map.create_erasure_rule("ec", "default", "osd", None, 20).unwrap();
    map
}

proptest! {
    #[test]
    fn any_changes_keep_the_map_sound(changes in changes(), weight_sets: bool) {
        let mut map = start();
        for (step, change) in changes.iter().enumerate() {
            if weight_sets && step == changes.len() / 2 {
                map.create_weight_set(-1, 2).unwrap();
            }
            let before = map.clone();
            if apply(&mut map, change).is_err() {
                prop_assert_eq!(&map, &before, "{:?} failed and changed something", change);
            }
            weights_add_up(&map);
            shadows_follow(&map);
            parents_follow(&map);
            let tree = map.tree(TreeOptions::default());
            prop_assert_eq!(tree.len(), tree.iter().map(|item| (item.id, item.parent)).collect::<BTreeSet<_>>().len());
        }
        prop_assert_eq!(&CrushMap::from_slice(&map.to_vec(Target::PACIFIC)).unwrap(), &map);
    }

    #[test]
    fn results_are_distinct_devices_that_are_in(
        changes in changes(),
        out in prop::collection::vec(0u32..=WEIGHT_ONE, 30),
    ) {
        let mut map = start();
        changes.iter().for_each(|change| drop(apply(&mut map, change)));
        let mut scratch = Scratch::default();
        for (rule, kind) in [(0, RuleKind::REPLICATED), (1, RuleKind::REPLICATED), (2, RuleKind::ERASURE)] {
            for input in 0..20 {
                let items = map.do_rule(rule, input, 5, &out, None, &mut scratch).unwrap();
                let real: Vec<i32> = items.iter().copied().filter(|item| *item != ITEM_NONE).collect();
                prop_assert!(real.iter().all(|item| map.devices().contains(item) && out[*item as usize] > 0));
                prop_assert_eq!(real.iter().collect::<BTreeSet<_>>().len(), real.len(), "{:?}", items);
                prop_assert!(kind == RuleKind::ERASURE || real.len() == items.len());
                if rule == 0 {
                    let hosts: BTreeSet<_> = real.iter().map(|item| map.parent(*item)).collect();
                    prop_assert_eq!(hosts.len(), real.len(), "one host twice in {:?}", items);
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        at in 0usize..2000,
        bytes in prop::collection::vec(any::<u8>(), 1..8),
        cut: usize,
    ) {
        let cases = [support::small_case("device classes"), support::small_case("weight sets by place, other ids")];
        for case in cases {
            let mut encoded = case.map.to_vec(Target::PACIFIC);
            let len = encoded.len();
            for (offset, byte) in bytes.iter().enumerate() {
                encoded[(at + offset) % len] = *byte;
            }
            if let Ok(map) = CrushMap::from_slice(&encoded) {
                // A map that can be read can be used: mapping ends, and does not panic.
                let tunables = map.tunables();
                let tries =
                    [tunables.choose_total_tries, tunables.choose_local_tries, tunables.choose_local_fallback_tries];
                let steps_bounded = map.rules().all(|(_, rule)| rule.steps.iter().all(|step| step.arg1 < 1000));
                let bounded = tries.iter().all(|tries| *tries < 1000) && steps_bounded;
                let mut scratch = Scratch::default();
                let weights = case.weights();
                for (rule, _) in map.rules().filter(|_| bounded) {
                    let _ = map.do_rule(rule, 7, 4, &weights, map.choose_args_for(0), &mut scratch);
                }
                map.tree(TreeOptions { shadows: true });
            }
            let _ = CrushMap::from_slice(&encoded[..cut % len]);
            let _ = CrushMap::from_slice(&bytes);
        }
    }
}

/// The index of parents agrees with a search through all buckets.
fn parents_follow(map: &CrushMap) {
    let items = map.buckets().map(|bucket| bucket.id).chain(map.devices());
    for item in items.chain([30, -100]) {
        let holds = |bucket: &&crush::Bucket| !map.is_shadow(bucket.id) && bucket.items.contains(&item);
        assert_eq!(map.parent(item), map.buckets().find(holds).map(|bucket| bucket.id), "parent of {item}");
    }
}

/// Raising one device's weight moves inputs to it and nowhere else.
#[test]
fn a_heavier_device_only_attracts() {
    let mut map = start();
    for osd in 0..8 {
        let location = Location::from([("root", "default"), ("host", "h")]);
        map.insert_item(osd, WEIGHT_ONE, &format!("osd.{osd}"), &location).unwrap();
    }
    let mut heavier = map.clone();
    heavier.reweight("osd.3", WEIGHT_ONE * 2).unwrap();
    let (weights, mut scratch) = ([WEIGHT_ONE; 8], Scratch::default());
    let mut on = BTreeMap::new();
    for input in 0..4000 {
        let mut first = |map: &CrushMap| map.do_rule(1, input, 1, &weights, None, &mut scratch).unwrap()[0];
        let (before, after) = (first(&map), first(&heavier));
        assert!(before == after || after == 3, "input {input} moved from {before} to {after}");
        *on.entry(after).or_insert(0) += 1;
    }
    // Two ninths of 4000 are 889; three standard deviations are 79.
    assert!((810..968).contains(&on[&3]), "{} on the device of double weight", on[&3]);
}

#[test]
fn what_is_not_supported_is_refused() {
    let mut map = support::small_case("six hosts").map;
    let mut scratch = Scratch::default();
    let root = map.id("default").unwrap();
    let msr = map.add_rule("msr", RuleKind::MSR_INDEP, 1, 10, vec![Step::take(root), Step::EMIT]).unwrap();
    let odd = map.add_rule("odd", RuleKind::REPLICATED, 1, 10, vec![Step::take(root), Step::new(5, 0, 0)]).unwrap();
    let weights = [WEIGHT_ONE; 6];
    let mut error = |map: &CrushMap, rule| map.do_rule(rule, 1, 3, &weights, None, &mut scratch).unwrap_err();
    assert_eq!(error(&map, msr), MapError::UnsupportedRule { rule: msr, kind: 5 });
    assert_eq!(error(&map, odd), MapError::UnsupportedStep { rule: odd, op: 5 });
    assert_eq!(error(&map, 77), MapError::NoRule { rule: 77 });

    // The root becomes a straw bucket: the number of its algorithm, twice, and a straw beside each weight.
    let bytes = map.to_vec(Target::PACIFIC);
    let head = [5u32.to_le_bytes(), root.to_le_bytes()].concat();
    let at = bytes.windows(8).position(|window| window == head).unwrap();
    let items = map.bucket(root).unwrap().items.len();
    let weights_at = at + 20 + 4 * items;
    let mut straw = bytes[..weights_at].to_vec();
    (straw[at], straw[at + 10]) = (4, 4);
    for weight in bytes[weights_at..weights_at + 4 * items].chunks(4) {
        straw.extend([weight, weight].concat());
    }
    straw.extend(&bytes[weights_at + 4 * items..]);
    let map = CrushMap::from_slice(&straw).unwrap();
    assert!(map.to_vec(Target::PACIFIC) == straw, "legacy buckets are kept as they are");
    let refused = MapError::UnsupportedBucket { id: root, alg: crush::BucketAlg::Straw };
    assert_eq!(error(&map, 0), refused);
    assert!(refused.to_string().contains("straw"), "{refused}");
}

#[test]
fn circles_are_refused() {
    let mut map = start();
    map.add_bucket("a", "host").unwrap();
    map.add_bucket("b", "rack").unwrap();
    map.move_item("a", &Location::from([("rack", "b")])).unwrap();
    let error = map.move_item("b", &Location::from([("host", "a")])).unwrap_err();
    assert!(matches!(error, BuildError::Loop { .. }), "{error}");
    // A circle in an encoded map is refused, too: b's only item, a, becomes b itself.
    let mut bytes = map.to_vec(Target::PACIFIC);
    let (a, b) = (map.id("a").unwrap(), map.id("b").unwrap());
    let head = [5u32.to_le_bytes(), b.to_le_bytes()].concat();
    let at = bytes.windows(8).position(|window| window == head).unwrap() + 20;
    assert_eq!(bytes[at..at + 4], a.to_le_bytes());
    bytes[at..at + 4].copy_from_slice(&b.to_le_bytes());
    assert!(CrushMap::from_slice(&bytes).is_err());
}

#[test]
fn weights_are_quantised_as_ceph_does() {
    assert_eq!(fixed_weight(1.0), Ok(0x10000));
    assert_eq!(fixed_weight(0.7), Ok(45875));
    assert_eq!(fixed_weight(1.8194), Ok(119236));
    assert!(fixed_weight(-1.0).is_err() && fixed_weight(f64::NAN).is_err() && fixed_weight(1e9).is_err());
}

#[test]
fn weight_sets_must_fit() {
    let mut map = support::small_case("six hosts").map;
    let root = map.id("default").unwrap();
    let wrong = ChooseArgs::new([(root, ChooseArg { weight_sets: vec![vec![1, 2, 3]], ids: Vec::new() })]);
    assert!(matches!(map.set_choose_args(0, Some(wrong)), Err(BuildError::WeightSetSize { .. })));
    let unknown = ChooseArgs::new([(-500, ChooseArg { weight_sets: vec![vec![1]], ids: Vec::new() })]);
    assert_eq!(map.set_choose_args(0, Some(unknown)), Err(BuildError::NoItemId(-500)));
    assert_eq!(op::name(op::CHOOSELEAF_INDEP), "chooseleaf_indep");
}
