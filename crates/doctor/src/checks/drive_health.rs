//! Health of drives, as `smartctl` tells it.

use serde_json::Value;

use super::of_parts;
use crate::finding::{Check, Deviation, Mend, Severity};
use crate::machine::Machine;

/// Share of its rated writes from which on a drive should be replaced soon, in percent.
const WORN_PERCENT: u64 = 80;
/// Numbers of ATA attributes that count bad sectors.
const BAD_SECTORS: [u64; 3] = [5, 197, 198];

pub const CHECKS: &[Check] = &[
    Check {
        id: "drive-failing",
        severity: Severity::Danger,
        title: "A drive fails or has lost data",
        cost: "what it holds is about to need other copies; a rebuild takes hours",
        find: |machine| each(machine, failing),
    },
    Check {
        id: "drive-worn",
        severity: Severity::Note,
        title: "A drive is nearly worn out",
        cost: "the vendor promises nothing beyond 100 %; several of the same age may end together",
        find: |machine| each(machine, worn),
    },
];

fn each(machine: &Machine, ask: fn(&Value) -> Option<Vec<String>>) -> Option<Vec<Deviation>> {
    of_parts(machine.drives().iter().map(|drive| {
        let told = machine.command(&["smartctl", "--json=c", "-H", "-A", &format!("/dev/{drive}")])?;
        let words = ask(&serde_json::from_str(&told).ok()?)?;
        let by_hand = Mend::ByHand(format!("replace {drive}; 'smartctl -x /dev/{drive}' tells more"));
        let found = |words: String| Deviation::new(words, "healthy", vec![by_hand.clone()]).at(drive.as_str());
        Some(words.into_iter().map(found).collect())
    }))
}

/// Bad news of a drive; `None` if it tells nothing.
fn failing(told: &Value) -> Option<Vec<String>> {
    let passed = told["smart_status"]["passed"].as_bool();
    let nvme = &told["nvme_smart_health_information_log"];
    let ata = told["ata_smart_attributes"]["table"].as_array();
    if passed.is_none() && nvme.is_null() && ata.is_none() {
        return None;
    }
    let mut words = Vec::new();
    if passed == Some(false) {
        words.push("the drive says that it fails".to_owned());
    }
    let number = |name: &str| nvme[name].as_u64();
    if let Some(bits) = number("critical_warning").filter(|bits| *bits != 0) {
        words.push(format!("critical warning {bits:#04x}"));
    }
    if let Some(errors) = number("media_errors").filter(|errors| *errors != 0) {
        words.push(format!("{errors} blocks could not be read or written"));
    }
    if let (Some(spare), Some(least)) = (number("available_spare"), number("available_spare_threshold"))
        && spare < least
    {
        words.push(format!("{spare} % of spare blocks are left, below {least} %"));
    }
    for attribute in ata.into_iter().flatten() {
        let is_bad = attribute["id"].as_u64().is_some_and(|id| BAD_SECTORS.contains(&id));
        let count = attribute["raw"]["value"].as_u64().unwrap_or(0);
        if is_bad && count > 0 {
            words.push(format!("{} is {count}", attribute["name"].as_str().unwrap_or("bad sectors")));
        }
    }
    Some(words)
}

fn worn(told: &Value) -> Option<Vec<String>> {
    let used = told["nvme_smart_health_information_log"]["percentage_used"].as_u64()?;
    Some(if used >= WORN_PERCENT { vec![format!("{used} % of its rated writes are used")] } else { vec![] })
}
