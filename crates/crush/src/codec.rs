//! The binary form, as OSD maps and `ceph osd getcrushmap` carry it.
//!
//! Layout: magic, slot counts, buckets by slot, rules by slot, names, tunables, device classes, weight sets. Maps of
//! old releases end earlier, anywhere behind the names; missing parts have the meaning of that release.

use crate::map::slot;
use crate::{Bucket, BucketAlg, BucketBody, ChooseArg, ChooseArgs, CrushMap, Rule, RuleKind, Step, Tunables};
use std::collections::BTreeMap;
use wire::codec::features;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

const MAGIC: u32 = 0x0001_0000;
/// The only hash there is: rjenkins1.
const HASH: u8 = 0;
/// Device ids from here on would be mistaken for markers of empty places.
const DEVICE_ID_END: i32 = 0x7fff_fffe;

impl Encode for CrushMap {
    fn encode(&self, w: &mut Writer) {
        w.u32(MAGIC);
        w.i32(self.buckets.len() as i32);
        w.count(self.rules.len());
        w.i32(self.max_devices);
        for bucket in &self.buckets {
            match bucket {
                None => w.u32(0),
                Some(bucket) => encode_bucket(bucket, w),
            }
        }
        for rule in &self.rules {
            w.u32(rule.is_some().into());
            if let Some(rule) = rule {
                encode_rule(rule, w);
            }
        }
        w.put(&self.types);
        w.put(&self.names);
        w.put(&self.rule_names);
        let tunables = &self.tunables;
        w.u32(tunables.choose_local_tries);
        w.u32(tunables.choose_local_fallback_tries);
        w.u32(tunables.choose_total_tries);
        w.u32(tunables.chooseleaf_descend_once);
        w.u8(tunables.chooseleaf_vary_r);
        w.u8(tunables.straw_calc_version);
        w.u32(tunables.allowed_bucket_algs);
        w.u8(tunables.chooseleaf_stable);
        w.put(&self.classes);
        w.put(&self.class_names);
        w.put(&self.shadows);
        w.count(self.choose_args.len());
        for (index, args) in &self.choose_args {
            w.i64(*index);
            w.count(args.by_slot.len());
            for (slot, arg) in &args.by_slot {
                w.u32(*slot);
                w.put(&arg.weight_sets);
                w.put(&arg.ids);
            }
        }
        if let Some(tries) = tunables.msr_tries.filter(|_| w.target().has(features::CRUSH_MSR)) {
            w.put(&tries);
        }
    }
}

fn encode_bucket(bucket: &Bucket, w: &mut Writer) {
    w.u32(bucket.alg() as u32);
    w.i32(bucket.id);
    w.u16(bucket.kind);
    w.u8(bucket.alg() as u8);
    w.u8(HASH);
    w.u32(bucket.weight);
    w.put(&bucket.items);
    match &bucket.body {
        BucketBody::Uniform { item_weight } => w.u32(*item_weight),
        BucketBody::List { weights } | BucketBody::Straw { weights } => weights.iter().for_each(|pair| w.put(pair)),
        BucketBody::Tree { node_weights } => {
            w.u8(node_weights.len() as u8);
            node_weights.iter().for_each(|weight| w.u32(*weight));
        }
        BucketBody::Straw2 { weights } => weights.iter().for_each(|weight| w.u32(*weight)),
    }
}

fn encode_rule(rule: &Rule, w: &mut Writer) {
    w.count(rule.steps.len());
    w.u8(rule.ruleset);
    w.u8(rule.kind.0);
    // Later releases ignore the sizes and write constants, so that all their maps agree.
    let sizes = if w.target().has(features::SERVER_QUINCY) { [1, 100] } else { [rule.min_size, rule.max_size] };
    w.raw(&sizes);
    for step in &rule.steps {
        w.u32(step.op);
        w.i32(step.arg1);
        w.i32(step.arg2);
    }
}

impl Decode for CrushMap {
    const MIN_BYTES: usize = 28;

    fn decode(r: &mut Reader<'_>) -> Result<CrushMap, DecodeError> {
        let magic = r.u32()?;
        if magic != MAGIC {
            return Err(DecodeError::Value { what: "crush map magic", value: magic.into() });
        }
        let (bucket_count, rule_count, max_devices) = (r.u32()? as usize, r.u32()? as usize, r.i32()?);
        for (what, count) in [("crush buckets", bucket_count), ("crush rules", rule_count)] {
            if count > r.left() / 4 {
                return Err(DecodeError::Count { what, count, left: r.left() });
            }
        }
        let buckets = (0..bucket_count).map(|slot| decode_bucket(slot, r)).collect::<Result<Vec<_>, _>>()?;
        let rules = (0..rule_count).map(|_| decode_rule(r)).collect::<Result<Vec<_>, _>>()?;
        let types = decode_names(r)?;
        let names = decode_names(r)?;
        let rule_names = decode_names(r)?;
        let ids = names.iter().map(|(id, name)| (name.clone(), *id)).collect();
        let mut map = CrushMap {
            buckets,
            rules,
            max_devices,
            types,
            names,
            ids,
            rule_names,
            tunables: decode_tunables(r)?,
            classes: BTreeMap::new(),
            class_names: BTreeMap::new(),
            shadows: BTreeMap::new(),
            choose_args: BTreeMap::new(),
            device_limit: 0,
            parents: BTreeMap::new(),
        };
        if !r.is_empty() {
            map.classes = r.get()?;
            map.class_names = r.get()?;
            map.shadows = r.get()?;
        }
        if !r.is_empty() {
            let count = r.count("crush weight sets", 12)?;
            for _ in 0..count {
                let index = r.i64()?;
                map.choose_args.insert(index, decode_choose_args(r, &map.buckets)?);
            }
        }
        if !r.is_empty() {
            map.tunables.msr_tries = Some(r.get()?);
        }
        if let Some(id) = map.misshapen() {
            return Err(DecodeError::Value { what: "crush bucket on a cycle or too deep", value: id as u32 as u64 });
        }
        map.finalize();
        Ok(map)
    }
}

fn decode_bucket(at: usize, r: &mut Reader<'_>) -> Result<Option<Bucket>, DecodeError> {
    let number = r.u32()?;
    if number == 0 {
        return Ok(None);
    }
    let alg = BucketAlg::from_number(number)
        .ok_or(DecodeError::Value { what: "crush bucket algorithm", value: number.into() })?;
    let id = r.i32()?;
    if slot(id) != Some(at) {
        return Err(DecodeError::Value { what: "crush bucket id in this slot", value: id as u32 as u64 });
    }
    let kind = r.u16()?;
    let (again, hash) = (r.u8()?, r.u8()?);
    if u32::from(again) != number || hash != HASH {
        return Err(DecodeError::Value {
            what: "crush bucket algorithm and hash",
            value: u64::from(again) << 8 | u64::from(hash),
        });
    }
    let weight = r.u32()?;
    let items: Vec<i32> = r.get()?;
    if let Some(item) = items.iter().find(|item| **item >= DEVICE_ID_END) {
        return Err(DecodeError::Value { what: "crush item id", value: *item as u64 });
    }
    let size = items.len();
    let pairs = |r: &mut Reader<'_>| (0..size).map(|_| r.get::<(u32, u32)>()).collect::<Result<Vec<_>, _>>();
    let body = match alg {
        BucketAlg::Uniform => BucketBody::Uniform { item_weight: r.u32()? },
        BucketAlg::List => BucketBody::List { weights: pairs(r)? },
        BucketAlg::Straw => BucketBody::Straw { weights: pairs(r)? },
        BucketAlg::Tree => {
            let nodes = r.u8()?;
            BucketBody::Tree { node_weights: (0..nodes).map(|_| r.u32()).collect::<Result<_, _>>()? }
        }
        BucketAlg::Straw2 => BucketBody::Straw2 { weights: (0..size).map(|_| r.u32()).collect::<Result<_, _>>()? },
    };
    Ok(Some(Bucket { id, kind, weight, items, body }))
}

fn decode_rule(r: &mut Reader<'_>) -> Result<Option<Rule>, DecodeError> {
    if r.u32()? == 0 {
        return Ok(None);
    }
    let len = r.count("crush rule steps", 12)?;
    let [ruleset, kind, min_size, max_size] = r.array()?;
    let step = |r: &mut Reader<'_>| Ok(Step { op: r.u32()?, arg1: r.i32()?, arg2: r.i32()? });
    let steps = (0..len).map(|_| step(r)).collect::<Result<_, DecodeError>>()?;
    Ok(Some(Rule { ruleset, kind: RuleKind(kind), min_size, max_size, steps }))
}

/// Reads a map from number to text. Old encoders wrote some of the numbers with 64 bits; as no text is empty, a length
/// of zero gives them away.
fn decode_names(r: &mut Reader<'_>) -> Result<BTreeMap<i32, String>, DecodeError> {
    let count = r.count("crush names", 8)?;
    let mut names = BTreeMap::new();
    for _ in 0..count {
        let key = r.i32()?;
        let mut bytes = r.u32()? as usize;
        if bytes == 0 {
            bytes = r.u32()? as usize;
        }
        let text = std::str::from_utf8(r.raw(bytes)?).map_err(|_| DecodeError::Utf8 { what: "crush name" })?;
        names.insert(key, text.to_owned());
    }
    Ok(names)
}

fn decode_tunables(r: &mut Reader<'_>) -> Result<Tunables, DecodeError> {
    let mut tunables = Tunables::ARGONAUT;
    if !r.is_empty() {
        tunables.choose_local_tries = r.u32()?;
        tunables.choose_local_fallback_tries = r.u32()?;
        tunables.choose_total_tries = r.u32()?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_descend_once = r.u32()?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_vary_r = r.u8()?;
    }
    if !r.is_empty() {
        tunables.straw_calc_version = r.u8()?;
    }
    if !r.is_empty() {
        tunables.allowed_bucket_algs = r.u32()?;
    }
    if !r.is_empty() {
        tunables.chooseleaf_stable = r.u8()?;
    }
    Ok(tunables)
}

/// Reads one weight set. Entries for buckets that draw otherwise than by straw2 mean nothing and are dropped, as Ceph
/// does; entries that do not fit their bucket are refused.
fn decode_choose_args(r: &mut Reader<'_>, buckets: &[Option<Bucket>]) -> Result<ChooseArgs, DecodeError> {
    let mut args = ChooseArgs::default();
    for _ in 0..r.count("crush weight set buckets", 12)? {
        let slot = r.u32()?;
        let arg = ChooseArg { weight_sets: r.get()?, ids: r.get()? };
        let Some(bucket) = buckets.get(slot as usize) else {
            return Err(DecodeError::Value { what: "crush weight set for bucket slot", value: slot.into() });
        };
        let Some(bucket) = bucket.as_ref().filter(|bucket| bucket.alg() == BucketAlg::Straw2) else { continue };
        let size = bucket.items.len();
        let fits = arg.weight_sets.iter().all(|set| set.len() == size) && (arg.ids.is_empty() || arg.ids.len() == size);
        if !fits {
            return Err(DecodeError::Value { what: "crush weight set length for bucket slot", value: slot.into() });
        }
        if !arg.is_empty() && args.by_slot.insert(slot, arg).is_some() {
            return Err(DecodeError::Value { what: "second crush weight set for bucket slot", value: slot.into() });
        }
    }
    Ok(args)
}
