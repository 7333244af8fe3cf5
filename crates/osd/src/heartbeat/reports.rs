//! Reports to the monitors about OSDs that are silent.

use osdmap::OsdMap;
use std::collections::BTreeMap;
use std::time::Duration;
use types::OsdId;
use wire::nacre::mon::{FAILURE_REPORT_LASTS, OsdFailure};

/// Interval at which a report is repeated while the map still shows the silent OSD up.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(2);
const _: () = assert!(
    3 * REPORT_EVERY.as_millis() < FAILURE_REPORT_LASTS.as_millis(),
    "a report counts for the monitors until it has been repeated, even if two repetitions are lost"
);

/// The time of the last report about each OSD.
#[derive(Default)]
pub(crate) struct Reports(BTreeMap<OsdId, Duration>);

impl Reports {
    /// Reports that are due now about the OSDs in `silent`, each with the time for which it has been silent.
    pub fn due(&mut self, silent: &BTreeMap<OsdId, Duration>, map: &OsdMap, now: Duration) -> Vec<OsdFailure> {
        self.0.retain(|osd, _| silent.contains_key(osd) && map.is_up(*osd));
        let mut due = Vec::new();
        for (&osd, silence) in silent {
            let Some(known) = map.osd(osd).filter(|_| map.is_up(osd)) else { continue };
            if self.0.get(&osd).is_some_and(|at| now < *at + REPORT_EVERY) {
                continue;
            }
            self.0.insert(osd, now);
            due.push(OsdFailure {
                target: osd,
                target_addrs: known.cluster_addrs.clone(),
                epoch: map.epoch,
                immediate: false,
                failed_for_ms: silence.as_millis() as u64,
            });
        }
        due
    }
}
