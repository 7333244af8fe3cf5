//! Answers of daemons.

use bench::hops::OpHops;
use serde_json::Value;

/// Answers to all questions, each as JSON; null where nobody answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    pub status: Value,
    pub df: Value,
    pub osd_df: Value,
    pub osd_dump: Value,
    pub osd_tree: Value,
    pub osd_perf: Value,
    pub osd_metadata: Value,
    pub crush_rules: Value,
    pub versions: Value,
    /// Operations that OSDs kept.
    pub operations: Vec<OpHops>,
    /// The operations are a Ceph's: the slowest, not those that stand for all.
    pub from_ceph: bool,
}

impl Answers {
    /// Commands for monitors, none of which changes anything, each with the place of its answer.
    pub fn commands(&mut self) -> [(&'static str, &mut Value); 9] {
        [
            ("status", &mut self.status),
            ("df", &mut self.df),
            ("osd df", &mut self.osd_df),
            ("osd dump", &mut self.osd_dump),
            ("osd tree", &mut self.osd_tree),
            ("osd perf", &mut self.osd_perf),
            ("osd metadata", &mut self.osd_metadata),
            ("osd crush rule dump", &mut self.crush_rules),
            ("versions", &mut self.versions),
        ]
    }
}

/// Elements of a list; none if it is no list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A number, which some answers write as text.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}
