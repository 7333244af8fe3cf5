//! Hops as text for people.

use super::{Breakdown, Member, OpHops};
use std::fmt::Write;

/// Length of the longest bar, in characters.
const BAR: usize = 40;
/// Smallest width of a hop's name, in characters.
const NAME: usize = 13;

/// A table of hops: median, 99th percentile and share of the whole.
pub fn breakdown_table(breakdown: &Breakdown) -> String {
    let mut text = format!("  {:<22}{:>10}{:>10}{:>9}\n", "hop", "median us", "p99 us", "share");
    for row in &breakdown.rows {
        line(&mut text, &row.hop, row.median_us, row.p99_us, Some(row.share));
    }
    line(&mut text, "all", breakdown.median_us, breakdown.p99_us, None);
    if let Some(last) = &breakdown.last_member
        && !last.rows.is_empty()
    {
        text += "  of the other members, the last one's part:\n";
        for row in &last.rows {
            line(&mut text, &format!("  {}", row.hop), row.median_us, row.p99_us, Some(row.share));
        }
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

fn line(text: &mut String, name: &str, median: u64, p99: u64, share: Option<f64>) {
    let share = share.map(|share| format!("{:>7.1} %", share * 100.0)).unwrap_or_default();
    let _ = writeln!(text, "  {name:<22}{median:>10}{p99:>10}{share}");
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
