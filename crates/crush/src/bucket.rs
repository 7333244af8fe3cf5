//! Buckets: inner nodes of the hierarchy, and the drawing of one of their items.

use crate::choose_args::ChooseArg;
use crate::error::MapError;
use crate::hash::hash3;
use crate::ln::ln;

/// Algorithm by which a bucket draws an item. The numbers are those of the binary form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BucketAlg {
    Uniform = 1,
    List = 2,
    Tree = 3,
    Straw = 4,
    Straw2 = 5,
}

impl BucketAlg {
    pub(crate) fn from_number(n: u32) -> Option<BucketAlg> {
        Some(match n {
            1 => BucketAlg::Uniform,
            2 => BucketAlg::List,
            3 => BucketAlg::Tree,
            4 => BucketAlg::Straw,
            5 => BucketAlg::Straw2,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            BucketAlg::Uniform => "uniform",
            BucketAlg::List => "list",
            BucketAlg::Tree => "tree",
            BucketAlg::Straw => "straw",
            BucketAlg::Straw2 => "straw2",
        }
    }
}

/// A bucket's data beside its items; weights are 16.16 fixed point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BucketBody {
    /// All items have one weight.
    Uniform { item_weight: u32 },
    /// Weight of each item, and the sum of weights up to it.
    List { weights: Vec<(u32, u32)> },
    /// Weights of the nodes of a binary tree whose leaves are the items.
    Tree { node_weights: Vec<u32> },
    /// Weight of each item, and the length of its straw.
    Straw { weights: Vec<(u32, u32)> },
    /// Weight of each item.
    Straw2 { weights: Vec<u32> },
}

/// An inner node: its items are devices (ids from 0) and buckets (ids below 0).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Id of the bucket; below 0.
    pub id: i32,
    /// Index into the map's types; 0 is the devices' type and no bucket's.
    pub kind: u16,
    /// Sum of the items' weights, 16.16 fixed point.
    pub weight: u32,
    pub items: Vec<i32>,
    pub body: BucketBody,
}

impl Bucket {
    /// Returns an empty straw2 bucket.
    pub fn straw2(id: i32, kind: u16) -> Bucket {
        Bucket { id, kind, weight: 0, items: Vec::new(), body: BucketBody::Straw2 { weights: Vec::new() } }
    }

    pub fn alg(&self) -> BucketAlg {
        match self.body {
            BucketBody::Uniform { .. } => BucketAlg::Uniform,
            BucketBody::List { .. } => BucketAlg::List,
            BucketBody::Tree { .. } => BucketAlg::Tree,
            BucketBody::Straw { .. } => BucketAlg::Straw,
            BucketBody::Straw2 { .. } => BucketAlg::Straw2,
        }
    }

    /// Returns the weight of the item at `index`, 16.16 fixed point; 0 beyond the items.
    pub fn item_weight(&self, index: usize) -> u32 {
        if index >= self.items.len() {
            return 0;
        }
        match &self.body {
            BucketBody::Uniform { item_weight } => *item_weight,
            BucketBody::List { weights } | BucketBody::Straw { weights } => weights[index].0,
            // Leaves of the binary tree are its odd nodes.
            BucketBody::Tree { node_weights } => node_weights.get(2 * index + 1).copied().unwrap_or(0),
            BucketBody::Straw2 { weights } => weights[index],
        }
    }

    /// Returns the items with their weights.
    pub fn weighted_items(&self) -> impl Iterator<Item = (i32, u32)> + '_ {
        self.items.iter().enumerate().map(|(i, item)| (*item, self.item_weight(i)))
    }

    pub fn position(&self, item: i32) -> Option<usize> {
        self.items.iter().position(|i| *i == item)
    }

    /// Draws an item for input `x` and attempt `r`; `position` is the place in the result being filled, which
    /// selects among weight sets. The bucket has items.
    #[inline]
    pub(crate) fn choose(
        &self,
        x: u32,
        r: u32,
        position: usize,
        arg: Option<&ChooseArg>,
        permutation: &mut Vec<u32>,
    ) -> Result<i32, MapError> {
        match &self.body {
            BucketBody::Straw2 { weights } => Ok(self.choose_straw2(weights, x, r, position, arg)),
            BucketBody::Uniform { .. } => Ok(self.choose_permuted(x, r, permutation)),
            _ => Err(MapError::UnsupportedBucket { id: self.id, alg: self.alg() }),
        }
    }

    /// Draws by straw2: each item draws a number from an exponential distribution with its weight as rate; the largest
    /// (negated) draw wins, so a change of one weight moves only inputs to or from that item.
    fn choose_straw2(&self, weights: &[u32], x: u32, r: u32, position: usize, arg: Option<&ChooseArg>) -> i32 {
        let (mut weights, mut ids) = (weights, self.items.as_slice());
        if let Some(arg) = arg {
            if let Some(set) = arg.weight_sets.get(position).or(arg.weight_sets.last()) {
                weights = set;
            }
            if !arg.ids.is_empty() {
                ids = &arg.ids;
            }
        }
        let mut best = (0, i64::MIN);
        for (index, (id, weight)) in ids.iter().zip(weights).enumerate() {
            if *weight == 0 {
                continue;
            }
            let log = ln(hash3(x, *id as u32, r)) as i64 - 0x1_0000_0000_0000;
            let draw = log / i64::from(*weight);
            if draw > best.1 {
                best = (index, draw);
            }
        }
        self.items[best.0]
    }

    /// Returns the item at place `r` of a permutation that depends on `x` (Fisher-Yates, one hash per step).
    pub(crate) fn choose_permuted(&self, x: u32, r: u32, permutation: &mut Vec<u32>) -> i32 {
        let size = self.items.len() as u32;
        let place = r % size;
        permutation.clear();
        permutation.extend(0..size);
        for step in 0..=place {
            if step < size - 1 {
                let swap = hash3(x, self.id as u32, step) % (size - step);
                permutation.swap(step as usize, (step + swap) as usize);
            }
        }
        self.items[permutation[place as usize] as usize]
    }
}
