//! Errors of mappings and changes.

use crate::BucketAlg;

/// Reason why an input cannot be mapped.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    #[error("crush rule {rule} does not exist")]
    NoRule { rule: u32 },
    #[error(
        "bucket {id} uses the legacy algorithm {}, through which nothing is placed here; convert it with \
         `ceph osd crush set-all-straw-buckets-to-straw2`",
        alg.name()
    )]
    UnsupportedBucket { id: i32, alg: BucketAlg },
    #[error("crush rule {rule} has step {op}, which is not supported")]
    UnsupportedStep { rule: u32, op: u32 },
    #[error("crush rule {rule} is of type {kind} (MSR), which is not supported")]
    UnsupportedRule { rule: u32, kind: u8 },
}

/// Reason why a map cannot be changed as asked. The map is then unchanged.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum BuildError {
    #[error("'{0}' is not a valid name: letters, digits, '-', '_' and '.' are allowed")]
    Name(String),
    #[error("item '{0}' does not exist")]
    NoItem(String),
    #[error("item {0} does not exist")]
    NoItemId(i32),
    #[error("name '{0}' exists already")]
    NameExists(String),
    #[error("item {0} exists already")]
    ItemExists(i32),
    #[error("'{0}' is a device, not a bucket")]
    NotABucket(String),
    #[error("type '{0}' does not exist")]
    NoType(String),
    #[error("'{name}' exists, but is a {is} and not a {wanted}")]
    WrongType { name: String, is: String, wanted: String },
    #[error("the location must name at least one bucket above the item")]
    NoLocation,
    #[error("'{item}' cannot move below '{below}', which it contains")]
    Loop { item: String, below: String },
    #[error("bucket '{0}' is not empty")]
    NotEmpty(String),
    #[error("bucket '{0}' is in use by a rule or as a device class's shadow")]
    InUse(String),
    #[error("'{0}' is the shadow of a bucket for one device class and follows that bucket")]
    Shadow(String),
    #[error("'{name}' is linked at {places} places; say which one")]
    Ambiguous { name: String, places: usize },
    #[error("weight {0} is out of range")]
    Weight(f64),
    #[error("weights of bucket {0} do not fit 32 bits")]
    WeightOverflow(i32),
    #[error("bucket {id} uses the legacy algorithm {}, which cannot be changed here", alg.name())]
    UnsupportedBucket { id: i32, alg: BucketAlg },
    #[error("device class '{0}' does not exist")]
    NoClass(String),
    #[error("item {item} is of device class '{is}' already; remove it first")]
    ClassSet { item: i32, is: String },
    #[error("device class '{0}' is in use by a rule")]
    ClassInUse(String),
    #[error("rule '{0}' exists already")]
    RuleExists(String),
    #[error("rule '{0}' does not exist")]
    NoRule(String),
    #[error("there are {0} rules, the most a map can hold")]
    TooManyRules(usize),
    #[error("root '{root}' has no device of class '{class}'")]
    EmptyClass { root: String, class: String },
    #[error("weight set for bucket {id} does not have one entry for each of its {size} items")]
    WeightSetSize { id: i32, size: usize },
    #[error("there is no weight set {0}")]
    NoWeightSet(i64),
    #[error("weight set distinguishes {places} places, {given} weights are given")]
    WeightSetPlaces { places: usize, given: usize },
    #[error("items of bucket {0} do not all weigh the same")]
    Uneven(i32),
    #[error("the hierarchy would be too deep or circular at bucket {0}")]
    TooDeep(i32),
    #[error("osd id {0} is out of range")]
    OsdId(i32),
}
