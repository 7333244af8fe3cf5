//! A rebuild: OSDs were lost, came back empty, and the cluster restored every copy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One rebuild on one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rebuild {
    pub cluster: String,
    /// Name of the rebuild in records over time; with a load also the name of the workload of its rows.
    pub name: String,
    /// The OSDs that were lost.
    pub osds: Vec<u32>,
    /// The host that was lost with all of its OSDs, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Clients loaded the cluster meanwhile.
    pub with_load: bool,
    /// Share of the cluster's raw capacity that was in use before.
    pub fill_percent: f64,
    /// Bytes in use on the lost OSDs before; `None` if nobody told.
    pub lost_bytes: Option<u64>,
    /// Seconds from the stop of the OSDs until their empty successors were started.
    pub down_s: f64,
    /// Seconds from that start until no copy was missing.
    pub rebuild_s: f64,
    /// The rebuild was cut short: `rebuild_s` is the time until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Missing copies over time.
    pub course: Vec<RebuildPoint>,
    /// Figures of the machine during the rebuild by name with unit, as those of rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
}

/// The cluster's own words at one time of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildPoint {
    /// Seconds since the start of the empty OSDs.
    pub at_s: f64,
    /// Copies that are missing, and copies that are not in their place.
    pub degraded: u64,
    pub misplaced: u64,
    pub recovered_bytes_per_s: u64,
}

impl Rebuild {
    /// Bytes restored per second, over the whole rebuild; `None` if it was cut short or the bytes are unknown.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let bytes = self.lost_bytes.filter(|_| !self.partial && self.rebuild_s > 0.0)?;
        Some(bytes as f64 / self.rebuild_s)
    }

    /// The lost OSDs in words: `osd.1, osd.2`, or `host a (osd.1, osd.2)`.
    pub fn lost_words(&self) -> String {
        let osds = self.osds.iter().map(|osd| format!("osd.{osd}")).collect::<Vec<_>>().join(", ");
        self.host.as_ref().map_or_else(|| osds.clone(), |host| format!("host {host} ({osds})"))
    }
}
