//! Hops as text for people.

use super::{Breakdown, HopRow, Member, OpHops};
use report::{Cell, Column, Table};
use std::fmt::Write;

/// Columns of a terminal. Tables of hops are narrower.
const COLUMNS: usize = 100;
/// Length of the longest bar, in characters.
const BAR: usize = 40;
/// Smallest width of a hop's name, in characters.
const NAME: usize = 13;

/// Tables of hops: median, 99th percentile and share of the whole.
pub fn breakdown_table(breakdown: &Breakdown) -> String {
    let mut hops = table("hops", &breakdown.rows);
    hops.push(cells("all", breakdown.median_us, breakdown.p99_us, 1.0));
    let mut text = indented(&hops);
    if let Some(last) = &breakdown.last_member
        && !last.rows.is_empty()
    {
        text += "  of the other members, the last one's part:\n";
        text += &indented(&table("last-member", &last.rows));
    }
    if let Some(last) = &breakdown.last_member
        && !last.times.is_empty()
    {
        let all: u64 = last.times.values().sum();
        let mut times: Vec<_> = last.times.iter().collect();
        times.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        let who = |osd: i32| if osd < 0 { "the primary".to_owned() } else { format!("osd.{osd}") };
        let shown: Vec<String> =
            times.iter().map(|(osd, n)| format!("{} {:.0} %", who(**osd), **n as f64 * 100.0 / all as f64)).collect();
        let _ = writeln!(text, "  last to have the update: {}", shown.join(", "));
    }
    text
}

fn table(name: &str, rows: &[HopRow]) -> Table {
    let columns = [Column::text("hop"), Column::number("median", "us"), Column::number("p99", "us")];
    let mut table = Table::new(name, "", columns.into_iter().chain([Column::number("share", "")]).collect());
    rows.iter().for_each(|row| table.push(cells(&row.hop, row.median_us, row.p99_us, row.share)));
    table
}

fn cells(name: &str, median_us: u64, p99_us: u64, share: f64) -> Vec<Cell> {
    vec![Cell::text(name), Cell::Count(median_us), Cell::Count(p99_us), Cell::Percent(share * 100.0)]
}

fn indented(table: &Table) -> String {
    table.to_text(COLUMNS).lines().map(|line| format!("  {line}\n")).collect()
}

/// The course of one operation: a line per hop, and one per member that told its part.
pub fn timeline(op: &OpHops) -> String {
    let kind = if op.write { "write" } else { "read" };
    let failed = if op.result < 0 { format!(", failed ({})", op.result) } else { String::new() };
    let mut text = format!("  {kind} of {} by {}, pg {}, primary osd.{}{failed}\n", op.object, op.reqid, op.pg, op.osd);
    let _ = writeln!(text, "  {}", op.what);
    let _ = writeln!(text, "  began {} ({:.1} s ago), took {} us", op.began, op.age_us as f64 / 1e6, op.total_us);
    if !op.waited_for.is_empty() {
        let _ = writeln!(text, "  waited for: {}", op.waited_for.join(", "));
    }
    let longest = op.hops.iter().filter(|(_, us)| *us > 0).map(|(hop, _)| hop.len()).max().unwrap_or(0);
    let width = longest.max(NAME) + 1;
    let mut at = 0;
    for (hop, us) in &op.hops {
        if *us > 0 {
            let _ = writeln!(text, "  {hop:<width$}{us:>10} us  {}", bar(at, *us, op.total_us));
        }
        at += us;
    }
    for member in &op.members {
        let sent = op.executed_us.unwrap_or(0);
        let away = member.acked_us.saturating_sub(sent);
        let _ = writeln!(
            text,
            "  {:<width$}{away:>10} us  {}",
            format!("osd.{}", member.osd),
            bar(sent, away, op.total_us)
        );
        let _ = writeln!(text, "  {:<width$}{:>13}  {}", "", "", parts(member, away));
    }
    if let Some(last) = op.last_member.filter(|last| *last != op.osd) {
        let told = op.members.iter().any(|member| member.osd == last);
        let more = if told { "" } else { " (it was not asked how long its part took)" };
        let _ = writeln!(text, "  last to have it: osd.{last}{more}");
    }
    text
}

fn parts(member: &Member, away: u64) -> String {
    let network = away.saturating_sub(member.own_us());
    let Member { receive_us, queue_us, write_us, flush_us, .. } = member;
    format!("network {network}, receive {receive_us}, queue {queue_us}, write {write_us}, flush {flush_us}")
}

fn bar(from: u64, us: u64, all: u64) -> String {
    let place = |us: u64| ((us as f64 / all.max(1) as f64) * BAR as f64).round() as usize;
    let begin = place(from).min(BAR - 1);
    let length = place(from + us).min(BAR).saturating_sub(begin).max(1);
    format!("{}{}", " ".repeat(begin), "#".repeat(length))
}
