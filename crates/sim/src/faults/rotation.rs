//! The key by which monitors know each other is replaced again and again.

use crate::run::Run;
use mon::state::MONITORS;
use std::time::Duration;

/// Name in reports of keys that have taken a former one's place.
pub(crate) const ROTATED: &str = "monitors' keys replaced";
/// Time between two commands of the operator. A key is pending for so long at least.
const EVERY: Duration = Duration::from_secs(4);

impl Run {
    /// Has the operator ask for a pending key of monitors, or commit the one that there is. Monitors that are made
    /// later get the keys that the leader has now.
    pub(crate) fn rotate_key_of_monitors(&mut self) {
        let now = self.cluster.world.now();
        let known = self.cluster.monitor().and_then(|monitor| monitor.state().auth.get(MONITORS)).cloned();
        let (Some(known), Some(keys)) = (known, &mut self.cluster.keys) else { return };
        let is_pending = known.pending_key.is_some();
        if keys.replace_of_monitors(known) {
            *self.struck.entry(ROTATED).or_default() += 1;
        }
        if self.rotates_at.is_some_and(|at| at <= now) {
            self.rotates_at = Some(now + EVERY);
            let prefix = if is_pending { "auth commit-pending" } else { "auth get-or-create-pending" };
            let command = format!(r#"{{"prefix": "{prefix}", "entity": "{MONITORS}"}}"#);
            self.cluster.try_command(self.operator, command);
        }
    }
}
