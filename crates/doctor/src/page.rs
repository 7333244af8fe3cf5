//! Findings as a page and as JSON.

use report::{Block, Cell, Column, Page, Table, Tone};
use serde_json::json;

use crate::changes::Change;
use crate::finding::{Examination, Finding, Mend, Severity};
use crate::machine::Machine;

/// Value of the field `format` of an examination in JSON.
pub const FORMAT: &str = "nacre-doctor";
pub const VERSION: u32 = 1;
/// Commands of one finding that are shown; those of a machine with 100 processors are alike.
const COMMANDS_SHOWN: usize = 4;

/// The page of an examination. `changes`: settings that `--fix` would change.
pub fn page(machine: &Machine, examination: &Examination, changes: &[Change]) -> Page {
    let mut page = Page::new("What this machine costs a storage cluster");
    page.opening.push(Block::Facts(machine.facts()));
    page.opening.push(verdict(examination));
    for severity in [Severity::Danger, Severity::Cost, Severity::Note] {
        let found: Vec<&Finding> = examination.findings.iter().filter(|one| one.severity == severity).collect();
        let title = match severity {
            Severity::Danger => "Data or daemons are in danger",
            Severity::Cost => "Performance is lost",
            Severity::Note => "Worth knowing",
        };
        let blocks = if found.is_empty() { vec![] } else { findings(severity, &found) };
        page.section(title, blocks);
    }
    let lines: Vec<String> = changes.iter().filter_map(Change::sysctl_line).collect();
    if !lines.is_empty() {
        let words = "Settings last until the machine boots. Lines for a file in /etc/sysctl.d keep them:";
        page.section("After the next boot", vec![Block::Prose(words.into()), Block::List(lines)]);
    }
    page.section("Looked at", looked_at(examination));
    page
}

fn verdict(examination: &Examination) -> Block {
    let count = |severity: Severity| examination.findings.iter().filter(|one| one.severity == severity).count();
    let (danger, cost, note) = (count(Severity::Danger), count(Severity::Cost), count(Severity::Note));
    let words = format!(
        "{danger} findings endanger data or daemons, {cost} cost performance, {note} are worth knowing; {} checks found \
         nothing.",
        examination.fine.len()
    );
    if danger > 0 { Block::warning("Danger", words) } else { Block::Prose(words) }
}

fn findings(severity: Severity, found: &[&Finding]) -> Vec<Block> {
    let columns = ["check", "where", "is", "should be", "what it costs", "mended by"].map(Column::text).to_vec();
    let mut table = Table::new(severity.word(), "", columns);
    for one in found {
        let tone = if severity == Severity::Note { Tone::Neutral } else { Tone::Bad };
        table.push(vec![
            Cell::Verdict { tone, words: format!("{} ({})", one.title, one.id) },
            Cell::text(&one.subject),
            Cell::text(&one.read),
            Cell::text(&one.wanted),
            Cell::text(&one.cost),
            Cell::text(commands(&one.mends)),
        ]);
    }
    vec![table.into()]
}

fn commands(mends: &[Mend]) -> String {
    let shown: Vec<String> = mends.iter().take(COMMANDS_SHOWN).map(Mend::command).collect();
    let rest = mends.len() - shown.len();
    shown.join("; ") + &if rest > 0 { format!("; and {rest} more like these") } else { String::new() }
}

fn looked_at(examination: &Examination) -> Vec<Block> {
    let mut blocks = vec![Block::Prose(format!("Nothing found by: {}.", examination.fine.join(", ")))];
    if !examination.unknown.is_empty() {
        let words = format!("This machine does not show what these read: {}.", examination.unknown.join(", "));
        blocks.push(Block::Prose(words));
    }
    if !examination.left_out.is_empty() {
        blocks.push(Block::Prose("Of the profile these were left out:".into()));
        blocks.push(Block::List(examination.left_out.clone()));
    }
    blocks
}

/// The examination for programs.
pub fn json(machine: &Machine, examination: &Examination, changes: &[Change]) -> String {
    let machine: serde_json::Map<String, serde_json::Value> =
        machine.facts().into_iter().map(|(name, value)| (name, value.into())).collect();
    let all = json!({
        "format": FORMAT, "version": VERSION, "machine": machine, "findings": examination.findings,
        "fine": examination.fine, "unknown": examination.unknown, "left_out": examination.left_out,
        "changes": changes,
    });
    format!("{all:#}\n")
}
