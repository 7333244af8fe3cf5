//! Generated hierarchies, shared by the tests that compare with Ceph's tools and with recorded mappings.
#![allow(dead_code, reason = "each test uses its part")]

mod dice;

use crush::{ChooseArg, ChooseArgs, CrushMap, DEFAULT_CHOOSE_ARGS, Profile, RuleKind, Step, Tunables, WEIGHT_ONE, op};
pub use dice::Dice;

/// One rule, result size and range of inputs to map.
#[derive(Clone, Copy)]
pub struct Probe {
    pub rule: u32,
    pub size: usize,
    pub inputs: u32,
}

pub struct Case {
    pub name: &'static str,
    pub map: CrushMap,
    /// Devices that are not fully in.
    pub reweights: Vec<(i32, u32)>,
    pub probes: Vec<Probe>,
}

impl Case {
    /// Returns the weight vector that mapping takes: devices in no bucket are out.
    pub fn weights(&self) -> Vec<u32> {
        let devices = self.map.devices();
        let mut weights: Vec<u32> = (0..devices.last().map_or(0, |last| last + 1))
            .map(|device| if devices.contains(&device) { WEIGHT_ONE } else { 0 })
            .collect();
        for (device, weight) in &self.reweights {
            weights[*device as usize] = *weight;
        }
        weights
    }
}

/// Shape of a generated tree: devices per host, hosts per rack, racks per row, rows.
#[derive(Clone, Copy)]
struct Shape {
    devices: u32,
    hosts: u32,
    racks: u32,
    rows: u32,
}

/// Returns `root default` over rows, racks and hosts, device weights drawn by `weight`.
fn tree(shape: Shape, dice: &mut Dice, mut weight: impl FnMut(&mut Dice, u32) -> u32) -> CrushMap {
    let mut map = CrushMap::new();
    let mut device = 0;
    let weight_of = |map: &CrushMap, id: i32| (id, map.bucket(id).unwrap().weight);
    let mut rows = Vec::new();
    for row in 0..shape.rows {
        let mut racks = Vec::new();
        for rack in 0..shape.racks {
            let mut hosts = Vec::new();
            for host in 0..shape.hosts {
                let items: Vec<(i32, u32)> = (0..shape.devices)
                    .map(|_| {
                        device += 1;
                        (device as i32 - 1, weight(dice, device - 1))
                    })
                    .collect();
                let id = map.add_bucket_of(&format!("host-{row}-{rack}-{host}"), "host", &items).unwrap();
                hosts.push(weight_of(&map, id));
            }
            let id = map.add_bucket_of(&format!("rack-{row}-{rack}"), "rack", &hosts).unwrap();
            racks.push(weight_of(&map, id));
        }
        let id = map.add_bucket_of(&format!("row-{row}"), "row", &racks).unwrap();
        rows.push(weight_of(&map, id));
    }
    map.add_bucket_of("default", "root", &rows).unwrap();
    map
}

fn even(_: &mut Dice, _: u32) -> u32 {
    WEIGHT_ONE
}

/// Returns a weight between 0.25 and about 5: ten thousand of these still sum to less than 65536, the most a weight can
/// be.
fn uneven(dice: &mut Dice, _: u32) -> u32 {
    WEIGHT_ONE / 4 + dice.below(20_000) * 16
}

fn some_zero(dice: &mut Dice, device: u32) -> u32 {
    if dice.below(5) == 0 { 0 } else { uneven(dice, device) }
}

/// Adds rules of every kind over `root default`; returns their numbers.
fn add_rules(map: &mut CrushMap) -> Vec<u32> {
    let root = map.id("default").unwrap();
    let [rack, host] = ["rack", "host"].map(|name| i32::from(map.type_id(name).unwrap()));
    let simple = map.create_replicated_rule("by-host", "default", "host", None).unwrap();
    let by_osd = map.create_replicated_rule("by-osd", "default", "osd", None).unwrap();
    let by_rack = map.create_replicated_rule("by-rack", "default", "rack", None).unwrap();
    let erasure = map.create_erasure_rule("ec-by-host", "default", "host", None, 20).unwrap();
    let erasure_osd = map.create_erasure_rule("ec-by-osd", "default", "osd", None, 20).unwrap();
    let firstn = |op, count, kind| Step::new(op, count, kind);
    let two_racks = map
        .add_rule(
            "two-racks",
            RuleKind::REPLICATED,
            1,
            10,
            vec![
                Step::take(root),
                firstn(op::CHOOSE_FIRSTN, 2, rack),
                firstn(op::CHOOSELEAF_FIRSTN, 2, host),
                Step::EMIT,
            ],
        )
        .unwrap();
    let ec_racks = map
        .add_rule(
            "ec-racks",
            RuleKind::ERASURE,
            3,
            20,
            vec![
                Step::new(op::SET_CHOOSELEAF_TRIES, 7, 0),
                Step::new(op::SET_CHOOSE_TRIES, 60, 0),
                Step::take(root),
                firstn(op::CHOOSE_INDEP, 3, rack),
                firstn(op::CHOOSELEAF_INDEP, 2, host),
                Step::EMIT,
            ],
        )
        .unwrap();
    let three_levels = map
        .add_rule(
            "rack-host-osd",
            RuleKind::REPLICATED,
            1,
            10,
            vec![
                Step::new(op::SET_CHOOSELEAF_VARY_R, 2, 0),
                Step::new(op::SET_CHOOSELEAF_STABLE, 0, 0),
                Step::take(root),
                firstn(op::CHOOSE_FIRSTN, 2, rack),
                firstn(op::CHOOSE_FIRSTN, 2, host),
                firstn(op::CHOOSE_FIRSTN, 1, 0),
                Step::EMIT,
            ],
        )
        .unwrap();
    let two_takes = map
        .add_rule(
            "one-here-rest-there",
            RuleKind::REPLICATED,
            1,
            10,
            vec![
                Step::take(map.id("rack-0-0").unwrap()),
                firstn(op::CHOOSELEAF_FIRSTN, 1, host),
                Step::EMIT,
                Step::take(root),
                Step::new(op::SET_CHOOSE_LOCAL_TRIES, 2, 0),
                firstn(op::CHOOSELEAF_FIRSTN, -1, host),
                Step::EMIT,
            ],
        )
        .unwrap();
    vec![simple, by_osd, by_rack, erasure, erasure_osd, two_racks, ec_racks, three_levels, two_takes]
}

fn probes(rules: &[u32], inputs: u32) -> Vec<Probe> {
    let sizes = [1, 3, 4, 6, 9];
    rules
        .iter()
        .enumerate()
        .flat_map(|(i, rule)| [sizes[i % 5], sizes[(i + 2) % 5]].map(|size| Probe { rule: *rule, size, inputs }))
        .collect()
}

/// Returns weight sets for every bucket, with as many places as `places`, and for some buckets other ids to hash.
fn weight_set(map: &CrushMap, dice: &mut Dice, places: usize, ids: bool) -> ChooseArgs {
    let args: Vec<(i32, ChooseArg)> = map
        .buckets()
        .map(|bucket| {
            let mut set = || {
                let vary = |weight: u32, dice: &mut Dice| {
                    weight / 2 + (u64::from(weight) * u64::from(dice.below(1000)) / 1000) as u32
                };
                bucket.weighted_items().map(|(_, weight)| vary(weight, dice)).collect::<Vec<u32>>()
            };
            let weight_sets = (0..places).map(|_| set()).collect();
            let replace = ids && bucket.id % 3 == 0;
            let ids = if replace { bucket.items.iter().map(|item| item + 1_000_000).collect() } else { Vec::new() };
            (bucket.id, ChooseArg { weight_sets, ids })
        })
        .collect();
    ChooseArgs::new(args)
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, shape: Shape, seed, inputs, profile: Profile, weight: fn(&mut Dice, u32) -> u32| {
        let mut dice = Dice::new(seed);
        let mut map = tree(shape, &mut dice, weight);
        let rules = add_rules(&mut map);
        map.set_tunables(profile.tunables());
        let devices = shape.devices * shape.hosts * shape.racks * shape.rows;
        let reweights = (0..devices)
            .filter_map(|device| match dice.below(12) {
                0 => Some((device as i32, 0)),
                1 => Some((device as i32, dice.below(WEIGHT_ONE))),
                _ => None,
            })
            .collect();
        cases.push(Case { name, map, reweights, probes: probes(&rules, inputs) });
    };
    let shape = |devices, hosts, racks, rows| Shape { devices, hosts, racks, rows };
    add("one device", shape(1, 1, 1, 1), 1, 20, Profile::Jewel, even);
    add("six hosts", shape(1, 6, 1, 1), 2, 200, Profile::Jewel, even);
    add("even, two racks", shape(4, 5, 2, 1), 3, 150, Profile::Jewel, even);
    add("uneven, firefly", shape(5, 4, 3, 1), 4, 150, Profile::Firefly, uneven);
    add("uneven, hammer", shape(5, 4, 3, 1), 5, 150, Profile::Hammer, uneven);
    add("uneven, jewel", shape(5, 4, 3, 2), 6, 150, Profile::Jewel, uneven);
    add("zero weights", shape(6, 4, 4, 1), 7, 150, Profile::Jewel, some_zero);
    add("zero weights, firefly", shape(3, 3, 3, 3), 8, 150, Profile::Firefly, some_zero);
    add("one thousand", shape(10, 10, 5, 2), 9, 60, Profile::Jewel, uneven);
    add("ten thousand", shape(20, 25, 10, 2), 10, 25, Profile::Jewel, some_zero);
    cases.extend([
        classes_case(),
        weight_set_case(1, false),
        weight_set_case(4, true),
        uniform_case(),
        local_tries_case(),
    ]);
    cases
}

fn classes_case() -> Case {
    let mut dice = Dice::new(21);
    let mut map = tree(Shape { devices: 4, hosts: 4, racks: 3, rows: 1 }, &mut dice, uneven);
    for device in 0..48 {
        let class = ["ssd", "hdd", "nvme"][dice.below(3) as usize];
        if dice.below(10) > 0 {
            map.set_device_class(device, class).unwrap();
        }
    }
    let rules = [
        map.create_replicated_rule("ssd", "default", "host", Some("ssd")).unwrap(),
        map.create_replicated_rule("hdd", "default", "rack", Some("hdd")).unwrap(),
        map.create_erasure_rule("nvme", "default", "osd", Some("nvme"), 20).unwrap(),
        map.create_erasure_rule("ssd-ec", "default", "host", Some("ssd"), 20).unwrap(),
    ];
    Case { name: "device classes", map, reweights: vec![(3, 0x8000), (17, 0)], probes: probes(&rules, 200) }
}

fn weight_set_case(places: usize, ids: bool) -> Case {
    let mut dice = Dice::new(22 + places as u64);
    let mut map = tree(Shape { devices: 4, hosts: 5, racks: 3, rows: 1 }, &mut dice, uneven);
    let rules = add_rules(&mut map);
    let args = weight_set(&map, &mut dice, places, ids);
    map.set_choose_args(DEFAULT_CHOOSE_ARGS, Some(args)).unwrap();
    let name = if places == 1 { "weight set" } else { "weight sets by place, other ids" };
    Case { name, map, reweights: vec![(1, 0x4000)], probes: probes(&rules, 150) }
}

/// Returns a case with hosts whose devices are drawn as equals.
fn uniform_case() -> Case {
    let mut map = tree(Shape { devices: 4, hosts: 6, racks: 3, rows: 1 }, &mut Dice::new(23), even);
    let rules = add_rules(&mut map);
    let buckets: Vec<i32> = map.buckets().map(|bucket| bucket.id).collect();
    for id in buckets {
        let kind = map.bucket(id).unwrap().kind;
        if map.type_name(kind) == Some("host") {
            map.make_uniform(id).unwrap();
        }
    }
    Case { name: "uniform hosts", map, reweights: vec![(2, 0), (9, 0x8000)], probes: probes(&rules, 150) }
}

/// Returns a case with local retries and the permuted fallback, which no profile from Firefly on uses but a map may
/// still ask for.
fn local_tries_case() -> Case {
    let mut map = tree(Shape { devices: 3, hosts: 4, racks: 3, rows: 1 }, &mut Dice::new(24), uneven);
    let rules = add_rules(&mut map);
    let tunables =
        Tunables { choose_local_tries: 2, choose_local_fallback_tries: 5, choose_total_tries: 19, ..*map.tunables() };
    map.set_tunables(Tunables { chooseleaf_descend_once: 0, chooseleaf_vary_r: 0, chooseleaf_stable: 0, ..tunables });
    Case { name: "local retries", map, reweights: vec![(2, 0), (9, 0x8000)], probes: probes(&rules, 150) }
}

/// Returns the case called `name`; only the small ones, without building the others.
pub fn small_case(name: &str) -> Case {
    match name {
        "device classes" => classes_case(),
        "weight sets by place, other ids" => weight_set_case(4, true),
        "six hosts" => {
            let mut map = tree(Shape { devices: 1, hosts: 6, racks: 1, rows: 1 }, &mut Dice::new(2), even);
            let rules = add_rules(&mut map);
            Case { name: "six hosts", map, reweights: Vec::new(), probes: probes(&rules, 20) }
        }
        other => panic!("no small case '{other}'"),
    }
}
