//! Runs a rule: from an input to devices.

use crate::{Bucket, ChooseArgs, CrushMap, MapError, RuleKind, WEIGHT_ONE, hash::hash2, op};

/// A place in a result that could not be filled.
pub const ITEM_NONE: i32 = 0x7fff_ffff;
/// A place not decided yet; never leaves this file.
const ITEM_UNDEF: i32 = 0x7fff_fffe;

/// Memory that mappings reuse, so that mapping many inputs allocates nothing once it has grown.
#[derive(Clone, Default, Debug)]
pub struct Scratch {
    working: Vec<i32>,
    output: Vec<i32>,
    leaves: Vec<i32>,
    result: Vec<i32>,
    permutation: Vec<u32>,
}

/// Returns true if device `osd` is refused for input `x`: it is out, or reweighted and `x` falls into the refused
/// share.
///
/// `weights`: 16.16 per device, [`WEIGHT_ONE`] is fully in; devices beyond it are out.
#[inline]
pub fn is_out(weights: &[u32], osd: i32, x: u32) -> bool {
    match weights.get(osd as usize) {
        None | Some(0) => true,
        Some(weight) if *weight >= WEIGHT_ONE => false,
        Some(weight) => hash2(x, osd as u32) & 0xffff >= *weight,
    }
}

impl CrushMap {
    /// Returns the devices that rule number `rule` places input `x` on, at most `result_max` of them.
    ///
    /// `weights`: 16.16 per device, see [`is_out`]. `choose_args`: see [`CrushMap::choose_args_for`]. Rules with indep
    /// steps leave [`ITEM_NONE`] where a place could not be filled; firstn results are merely shorter. Errors:
    /// [`MapError`] if the rule does not exist or needs an unsupported feature; a rule whose steps select nothing has
    /// an empty result.
    pub fn do_rule<'s>(
        &self,
        rule: u32,
        x: u32,
        result_max: usize,
        weights: &[u32],
        choose_args: Option<&ChooseArgs>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [i32], MapError> {
        let Scratch { working, output, leaves, result, permutation } = scratch;
        let steps = self.rule(rule).ok_or(MapError::NoRule { rule })?;
        if steps.kind == RuleKind::MSR_FIRSTN || steps.kind == RuleKind::MSR_INDEP {
            return Err(MapError::UnsupportedRule { rule, kind: steps.kind.0 });
        }
        let tunables = self.tunables();
        let mut draw = Draw {
            map: self,
            max_devices: self.device_limit(),
            weights,
            x,
            choose_args,
            // The tunable was a count of retries historically, hence one more.
            tries: tunables.choose_total_tries.wrapping_add(1),
            leaf_tries: 0,
            local_tries: tunables.choose_local_tries,
            local_fallback_tries: tunables.choose_local_fallback_tries,
            vary_r: tunables.chooseleaf_vary_r.into(),
            stable: tunables.chooseleaf_stable != 0,
            permutation,
        };
        result.clear();
        working.clear();
        for buffer in [&mut *output, &mut *leaves] {
            buffer.clear();
            buffer.resize(result_max, ITEM_NONE);
        }
        for step in &steps.steps {
            match step.op {
                op::NOOP => {}
                op::TAKE => {
                    let item = step.arg1;
                    if (0..draw.max_devices).contains(&item) || self.bucket(item).is_some() {
                        working.clear();
                        working.push(item);
                    }
                }
                op::SET_CHOOSE_TRIES if step.arg1 > 0 => draw.tries = step.arg1 as u32,
                op::SET_CHOOSELEAF_TRIES if step.arg1 > 0 => draw.leaf_tries = step.arg1 as u32,
                op::SET_CHOOSE_LOCAL_TRIES if step.arg1 >= 0 => draw.local_tries = step.arg1 as u32,
                op::SET_CHOOSE_LOCAL_FALLBACK_TRIES if step.arg1 >= 0 => draw.local_fallback_tries = step.arg1 as u32,
                op::SET_CHOOSELEAF_VARY_R if step.arg1 >= 0 => draw.vary_r = step.arg1 as u32,
                op::SET_CHOOSELEAF_STABLE if step.arg1 >= 0 => draw.stable = step.arg1 != 0,
                op::SET_CHOOSE_TRIES..=op::SET_CHOOSELEAF_STABLE => {}
                op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP => {
                    if working.is_empty() {
                        continue;
                    }
                    let to_leaf = matches!(step.op, op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP);
                    let firstn = matches!(step.op, op::CHOOSE_FIRSTN | op::CHOOSELEAF_FIRSTN);
                    let mut replicas = step.arg1;
                    if replicas <= 0 {
                        replicas = replicas.wrapping_add(result_max as i32);
                        if replicas <= 0 {
                            working.clear();
                            continue;
                        }
                    }
                    let mut filled = 0;
                    for item in working.iter() {
                        // A place that an earlier step could not fill, or a device, has nothing below it.
                        let Some(bucket) = self.bucket(*item) else { continue };
                        let room = result_max - filled;
                        let out = &mut output[filled..];
                        let out2 = to_leaf.then_some(&mut leaves[filled..]);
                        filled += if firstn {
                            let leaf_tries = match draw.leaf_tries {
                                0 if tunables.chooseleaf_descend_once != 0 => 1,
                                0 => draw.tries,
                                tries => tries,
                            };
                            let want = Want { kind: step.arg2, replicas, tries: draw.tries, leaf_tries, parent_r: 0 };
                            draw.firstn(bucket, want, out, 0, room, out2)?
                        } else {
                            let leaf_tries = draw.leaf_tries.max(1);
                            let places = room.min(replicas as usize);
                            let want = Want { kind: step.arg2, replicas, tries: draw.tries, leaf_tries, parent_r: 0 };
                            draw.indep(bucket, want, out, 0, places, out2)?;
                            places
                        };
                    }
                    if to_leaf {
                        output[..filled].copy_from_slice(&leaves[..filled]);
                    }
                    working.clear();
                    working.extend_from_slice(&output[..filled]);
                }
                op::EMIT => {
                    let room = result_max - result.len();
                    result.extend_from_slice(&working[..working.len().min(room)]);
                    working.clear();
                }
                op => return Err(MapError::UnsupportedStep { rule, op }),
            }
        }
        Ok(result)
    }
}

/// The target of one choose call.
#[derive(Clone, Copy)]
struct Want {
    /// Type of the items wanted.
    kind: i32,
    replicas: i32,
    tries: u32,
    leaf_tries: u32,
    parent_r: u32,
}

struct Draw<'a> {
    map: &'a CrushMap,
    max_devices: i32,
    weights: &'a [u32],
    x: u32,
    choose_args: Option<&'a ChooseArgs>,
    tries: u32,
    leaf_tries: u32,
    local_tries: u32,
    local_fallback_tries: u32,
    vary_r: u32,
    stable: bool,
    permutation: &'a mut Vec<u32>,
}

/// The end of a descent from one bucket.
enum Reached<'a> {
    /// An item of the wanted type, its bucket if it is one, and the attempt number it was drawn with.
    Item(i32, Option<&'a Bucket>, u32),
    /// A bucket without items: another attempt may avoid it.
    Empty,
    /// A device or unknown bucket where neither was wanted: no further attempt is made for this place.
    Dead,
}

impl<'a> Draw<'a> {
    fn choose(&mut self, bucket: &Bucket, r: u32, position: usize) -> Result<i32, MapError> {
        let arg = self.choose_args.and_then(|args| args.get(bucket.id));
        bucket.choose(self.x, r, position, arg, self.permutation)
    }

    /// Classifies `item`, just drawn, for a descent that wants `kind`: `Err` names the bucket to go on with.
    fn classify(&self, item: i32, kind: i32, r: u32) -> Result<Reached<'a>, &'a Bucket> {
        if item >= self.max_devices {
            return Ok(Reached::Dead);
        }
        if item >= 0 {
            return Ok(if kind == 0 { Reached::Item(item, None, r) } else { Reached::Dead });
        }
        match self.map.bucket(item) {
            None => Ok(Reached::Dead),
            Some(bucket) if i32::from(bucket.kind) == kind => Ok(Reached::Item(item, Some(bucket), r)),
            Some(bucket) => Err(bucket),
        }
    }

    /// Fills `out` from `outpos` with up to `count` distinct items; returns the end of the filled part. With `out2`,
    /// finds a device below each item too. Later items move up when an earlier one cannot be placed.
    fn firstn(
        &mut self,
        root: &'a Bucket,
        want: Want,
        out: &mut [i32],
        mut outpos: usize,
        mut count: usize,
        mut out2: Option<&mut [i32]>,
    ) -> Result<usize, MapError> {
        let mut rep = if self.stable { 0 } else { outpos as i32 };
        'replicas: while rep < want.replicas && count > 0 {
            let mut failures = 0u32;
            let item = 'descent: loop {
                let mut bucket = root;
                let mut local_failures = 0u32;
                loop {
                    let r = (rep as u32).wrapping_add(want.parent_r).wrapping_add(failures);
                    let size = bucket.items.len() as u32;
                    let reached = if size == 0 {
                        Reached::Empty
                    } else {
                        let item = if self.local_fallback_tries > 0
                            && local_failures >= size >> 1
                            && local_failures > self.local_fallback_tries
                        {
                            bucket.choose_permuted(self.x, r, self.permutation)
                        } else {
                            self.choose(bucket, r, outpos)?
                        };
                        match self.classify(item, want.kind, r) {
                            Ok(reached) => reached,
                            Err(below) => {
                                bucket = below;
                                continue;
                            }
                        }
                    };
                    let (reject, collide) = match reached {
                        Reached::Dead => {
                            rep += 1;
                            continue 'replicas;
                        }
                        Reached::Empty => (true, false),
                        Reached::Item(item, below, r) => {
                            let collide = out[..outpos].contains(&item);
                            let mut reject = false;
                            if !collide && let Some(leaves) = out2.as_deref_mut() {
                                match below {
                                    None => leaves[outpos] = item,
                                    Some(below) => {
                                        let parent_r = if self.vary_r == 0 {
                                            0
                                        } else {
                                            (r as i32).wrapping_shr(self.vary_r - 1) as u32
                                        };
                                        let want = Want {
                                            kind: 0,
                                            replicas: if self.stable { 1 } else { outpos as i32 + 1 },
                                            tries: want.leaf_tries,
                                            leaf_tries: 0,
                                            parent_r,
                                        };
                                        reject = self.firstn(below, want, leaves, outpos, count, None)? <= outpos;
                                    }
                                }
                            }
                            if !reject && !collide && below.is_none() {
                                reject = is_out(self.weights, item, self.x);
                            }
                            if !reject && !collide {
                                break 'descent item;
                            }
                            (reject, collide)
                        }
                    };
                    debug_assert!(reject || collide);
                    failures = failures.wrapping_add(1);
                    local_failures += 1;
                    if collide && local_failures <= self.local_tries {
                        continue;
                    }
                    if self.local_fallback_tries > 0
                        && u64::from(local_failures) <= u64::from(size) + u64::from(self.local_fallback_tries)
                    {
                        continue;
                    }
                    if failures < want.tries {
                        continue 'descent;
                    }
                    rep += 1;
                    continue 'replicas;
                }
            };
            out[outpos] = item;
            outpos += 1;
            count -= 1;
            rep += 1;
        }
        Ok(outpos)
    }

    /// Fills `places` places of `out` from `outpos`, each independently of the others' failures, so that an item
    /// keeps its place when another fails. Places that cannot be filled are [`ITEM_NONE`].
    fn indep(
        &mut self,
        root: &'a Bucket,
        want: Want,
        out: &mut [i32],
        outpos: usize,
        places: usize,
        mut out2: Option<&mut [i32]>,
    ) -> Result<(), MapError> {
        let end = outpos + places;
        out[outpos..end].fill(ITEM_UNDEF);
        if let Some(leaves) = out2.as_deref_mut() {
            leaves[outpos..end].fill(ITEM_UNDEF);
        }
        let mut left = places;
        let mut attempt = 0u32;
        while left > 0 && attempt < want.tries {
            for rep in outpos..end {
                if out[rep] != ITEM_UNDEF {
                    continue;
                }
                let mut bucket = root;
                let reached = loop {
                    let size = bucket.items.len() as u32;
                    // A uniform bucket's permutation repeats with its size: another stride avoids meeting the same
                    // items again.
                    let uniform = matches!(bucket.body, crate::BucketBody::Uniform { .. });
                    let stride = want.replicas as u32 + u32::from(uniform && size.is_multiple_of(want.replicas as u32));
                    let r = (rep as u32).wrapping_add(want.parent_r).wrapping_add(stride.wrapping_mul(attempt));
                    if size == 0 {
                        break Reached::Empty;
                    }
                    let item = self.choose(bucket, r, outpos)?;
                    match self.classify(item, want.kind, r) {
                        Ok(reached) => break reached,
                        Err(below) => bucket = below,
                    }
                };
                match reached {
                    Reached::Empty => {}
                    Reached::Dead => {
                        out[rep] = ITEM_NONE;
                        if let Some(leaves) = out2.as_deref_mut() {
                            leaves[rep] = ITEM_NONE;
                        }
                        left -= 1;
                    }
                    Reached::Item(item, below, r) => {
                        if out[outpos..end].contains(&item) {
                            continue;
                        }
                        if let Some(leaves) = out2.as_deref_mut() {
                            match below {
                                None => leaves[rep] = item,
                                Some(below) => {
                                    let want =
                                        Want { kind: 0, tries: want.leaf_tries, leaf_tries: 0, parent_r: r, ..want };
                                    self.indep(below, want, leaves, rep, 1, None)?;
                                    if leaves[rep] == ITEM_NONE {
                                        continue;
                                    }
                                }
                            }
                        }
                        if below.is_none() && is_out(self.weights, item, self.x) {
                            continue;
                        }
                        out[rep] = item;
                        left -= 1;
                    }
                }
            }
            attempt += 1;
        }
        let settle = |places: &mut [i32]| {
            places.iter_mut().filter(|place| **place == ITEM_UNDEF).for_each(|place| *place = ITEM_NONE);
        };
        settle(&mut out[outpos..end]);
        if let Some(leaves) = out2 {
            settle(&mut leaves[outpos..end]);
        }
        Ok(())
    }
}
