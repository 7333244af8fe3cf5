//! Findings and decisions, for people and programs.

use report::{Block, Cell, Column, Page, Table};
use serde_json::json;

use crate::inventory::Drive;
use crate::obstacle::{Purpose, obstacles};
use crate::prepare::Preparation;
use crate::step::Step;

/// Value of the field `format`, and version of what is printed as JSON.
const FORMAT: &str = "nacre-disk";
const VERSION: u32 = 1;

/// A table of drives.
pub fn list(drives: &[Drive]) -> Page {
    let columns = vec![
        Column::text("drive"),
        Column::number("size", "GB"),
        Column::text("kind"),
        Column::text("model"),
        Column::text("holds"),
        Column::text("can be prepared"),
    ];
    let mut table = Table::new("drives", "Drives of this machine.", columns);
    for drive in drives {
        let against = obstacles(drive, Purpose::Prepare).first().map(ToString::to_string);
        let kind = match drive.rotates {
            Some(true) => "disk",
            Some(false) => "flash",
            None => "-",
        };
        let parts = drive.partitions.len();
        let holds = match (&drive.content, parts) {
            (_, 1..) => format!("{parts} partitions"),
            (Some(content), 0) => content.clone(),
            (None, 0) => "nothing known".into(),
        };
        table.push(vec![
            Cell::Text(drive.path.display().to_string()),
            Cell::Number(drive.bytes as f64 / 1e9),
            Cell::text(kind),
            Cell::text(drive.model.as_deref().unwrap_or("-")),
            Cell::Text(holds),
            Cell::Text(against.map_or_else(|| "yes".into(), |why| format!("no: {why}"))),
        ]);
    }
    let mut page = Page::new("Drives");
    page.opening.push(Block::Table(table));
    page
}

/// The drives as JSON.
pub fn list_json(drives: &[Drive]) -> String {
    let drives: Vec<_> = drives
        .iter()
        .map(|drive| {
            let reasons = |purpose| obstacles(drive, purpose).iter().map(ToString::to_string).collect::<Vec<_>>();
            let (prepare, wipe) = (reasons(Purpose::Prepare), reasons(Purpose::Wipe));
            json!({"drive": drive, "against_preparing": prepare, "against_wiping": wipe})
        })
        .collect();
    pretty(&json!({"format": FORMAT, "version": VERSION, "drives": drives}))
}

/// A preparation as JSON. `done`: its steps were carried out.
pub fn preparation_json(preparation: &Preparation, done: bool) -> String {
    let Preparation { steps, ready, osds } = preparation;
    pretty(&json!({"format": FORMAT, "version": VERSION, "done": done, "steps": steps, "ready": ready, "osds": osds}))
}

/// Steps as JSON. `done`: they were carried out.
pub fn steps_json(steps: &[Step], done: bool) -> String {
    pretty(&json!({"format": FORMAT, "version": VERSION, "done": done, "steps": steps}))
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON that was made can be written") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_listed_with_what_stands_against_them() {
        let drive = |name: &str, content: Option<&str>| Drive {
            name: name.into(),
            path: format!("/dev/{name}").into(),
            bytes: 2_000_000_000,
            rotates: Some(false),
            content: content.map(str::to_owned),
            ..Drive::default()
        };
        let drives = [drive("sda", None), drive("sdb", Some("a file system (XFS)"))];
        let text = list(&drives).to_markdown();
        assert!(text.contains("| /dev/sda | 2.000 | flash | - | nothing known | yes |"), "{text}");
        assert!(text.contains("| no: /dev/sdb holds a file system (XFS)"), "{text}");
        let value: serde_json::Value = serde_json::from_str(&list_json(&drives)).unwrap();
        assert_eq!((&value["format"], &value["version"]), (&json!("nacre-disk"), &json!(1)));
        assert_eq!(value["drives"][0]["against_preparing"], json!([]));
        assert_eq!(value["drives"][1]["against_wiping"], json!([]));
        assert_eq!(value["drives"][1]["drive"]["bytes"], json!(2_000_000_000u64));
    }
}
