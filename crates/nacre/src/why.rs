//! `nacre why`: where the time of operations goes, as the OSDs tell it.

use crate::cli;
use crate::connection::with_cluster;
use anyhow::{Result, bail};
use bench::hops::{Breakdown, OpHops, breakdown_table, timeline};
use load::hops::{Gathered, gather};
use serde_json::{Value, json};
use types::OsdId;

/// Layout of the JSON.
const VERSION: u64 = 1;

/// One kind of operations, as it is shown.
struct Kind {
    name: &'static str,
    breakdown: Option<Breakdown>,
    median: Option<OpHops>,
    slowest: Option<OpHops>,
}

/// Prints the page. Fails if no OSD tells of any operation.
pub fn run(options: &cli::Why) -> Result<()> {
    let only = options.osd.map(|osd| OsdId(osd as i32));
    let (mut gathered, pools) = with_cluster(&options.target, async |cluster| {
        let pools = cluster.pools().await?;
        Ok((gather(&cluster, only).await?, pools))
    })?;
    if let Some(name) = &options.pool {
        let Some(pool) = pools.get(name) else {
            bail!("there is no pool '{name}'; 'nacre pool ls' shows what there is");
        };
        let number = u64::try_from(pool.0).ok();
        gathered.ops.retain(|op| op.pool == number);
    }
    if gathered.osds.is_empty() {
        let why: Vec<String> = gathered.silent.iter().map(|(osd, why)| format!("{osd}: {why}")).collect();
        bail!("no OSD tells of its operations ({})", if why.is_empty() { "none is up".into() } else { why.join("; ") });
    }
    let kinds = [("writes", true), ("reads", false)].map(|(name, write)| Kind::of(name, &gathered, write));
    match options.json {
        true => println!("{:#}", json_page(&gathered, &kinds)),
        false => print!("{}", text_page(&gathered, &kinds, options)),
    }
    Ok(())
}

impl Kind {
    fn of(name: &'static str, gathered: &Gathered, write: bool) -> Kind {
        let of_kind: Vec<&OpHops> = gathered.ops.iter().filter(|op| op.write == write).collect();
        // A Ceph has none that stand for others: then it is about the slowest, and says so.
        let stands = |op: &&OpHops| op.sampled || gathered.from_ceph;
        let mut chosen: Vec<&OpHops> = of_kind.iter().copied().filter(stands).collect();
        let breakdown = Breakdown::of(&chosen);
        chosen.sort_by_key(|op| op.total_us);
        Kind {
            name,
            breakdown,
            median: chosen.get(chosen.len().saturating_sub(1) / 2).copied().cloned(),
            slowest: of_kind.into_iter().max_by_key(|op| op.total_us).cloned(),
        }
    }
}

fn json_page(gathered: &Gathered, kinds: &[Kind]) -> Value {
    let osd = |(osd, kept_in): &(OsdId, Option<u64>)| json!({ "osd": osd.0, "one_op_kept_in": kept_in });
    let silent = |(osd, why): &(OsdId, String)| json!({ "osd": osd.0, "error": why });
    let kind = |kind: &Kind| {
        let verdict = kind.breakdown.as_ref().and_then(Breakdown::verdict);
        let page = json!({
            "breakdown": kind.breakdown, "verdict": verdict, "median": kind.median, "slowest": kind.slowest,
        });
        (kind.name.to_owned(), page)
    };
    let kinds: serde_json::Map<String, Value> = kinds.iter().map(kind).collect();
    json!({
        "version": VERSION,
        "engine": if gathered.from_ceph { "ceph" } else { "nacre" },
        "breakdown_of": if gathered.from_ceph { "slowest" } else { "chosen" },
        "osds": gathered.osds.iter().map(osd).collect::<Vec<_>>(),
        "silent_osds": gathered.silent.iter().map(silent).collect::<Vec<_>>(),
        "operations": kinds,
    })
}

fn text_page(gathered: &Gathered, kinds: &[Kind], options: &cli::Why) -> String {
    let mut text = String::new();
    for (osd, why) in &gathered.silent {
        text += &format!("{osd} tells nothing: {why}\n");
    }
    if gathered.from_ceph {
        text += "these OSDs are Ceph's: they keep the slowest operations of the last minutes only (20 each in ten minutes by \
                 default), so what is usual is not told; hops bear the names of Ceph's events, and what their members' drives \
                 took is not told\n";
    }
    let mut any = false;
    for kind in kinds {
        if let Some(breakdown) = kind.breakdown.as_ref().filter(|_| !options.slowest) {
            any = true;
            let of = if gathered.from_ceph { "of the slowest operations" } else { "operations kept" };
            text += &format!("\n{}: {} {of}", kind.name, breakdown.ops);
            text += &breakdown.verdict().map(|verdict| format!("; {verdict}\n")).unwrap_or_else(|| "\n".into());
            text += &breakdown_table(breakdown);
            if let Some(op) = &kind.median {
                text += &format!(
                    "\n  the median one{}:\n{}",
                    if gathered.from_ceph { " of these" } else { "" },
                    timeline(op)
                );
            }
        }
        if let Some(op) = kind.slowest.as_ref().filter(|_| !options.median) {
            any = true;
            text += &format!("\nthe slowest of the {}:\n{}", kind.name, timeline(op));
        }
    }
    if !any {
        text += "the OSDs keep no such operation: nothing was asked of them in the last minutes\n";
    }
    text.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn op(tid: u64, write: bool, sampled: bool, total_us: u64) -> OpHops {
        let hops = vec![("queue".to_owned(), 1), ("replicas".to_owned(), total_us - 1)];
        let last_member = write.then_some(2);
        OpHops { reqid: format!("client.1.0:{tid}"), write, sampled, total_us, hops, last_member, ..OpHops::default() }
    }

    fn options(args: &[&str]) -> cli::Why {
        match cli::Cli::try_parse_from([&["nacre", "why"], args].concat()).unwrap().command {
            cli::Command::Why(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_median_is_of_those_that_were_chosen_and_the_slowest_of_all() {
        let mut ops: Vec<OpHops> = (1..=9).map(|tid| op(tid, true, true, 100 * tid)).collect();
        ops.push(op(50, true, false, 77_000));
        let gathered = Gathered { ops, osds: vec![(OsdId(0), Some(1))], ..Gathered::default() };
        let kind = Kind::of("writes", &gathered, true);
        assert_eq!(kind.median.as_ref().map(|op| op.total_us), Some(500));
        assert_eq!(kind.slowest.as_ref().map(|op| op.total_us), Some(77_000));
        let kinds = [kind, Kind::of("reads", &gathered, false)];
        let page = text_page(&gathered, &kinds, &options(&[]));
        assert!(page.starts_with("writes: 9 operations kept; most time goes into replicas"), "{page}");
        assert!(page.contains("the slowest of the writes:") && !page.contains("reads"), "{page}");
        assert!(!text_page(&gathered, &kinds, &options(&["--median"])).contains("slowest"));
        assert!(!text_page(&gathered, &kinds, &options(&["--slowest"])).contains("kept"));
        let json = json_page(&gathered, &kinds);
        assert_eq!(json["operations"]["writes"]["slowest"]["last_member"], 2);
        assert_eq!(json["operations"]["reads"]["breakdown"], Value::Null);
        let nothing = [Kind::of("writes", &Gathered::default(), true)];
        assert!(text_page(&gathered, &nothing, &options(&[])).contains("keep no such operation"));

        // Of Ceph's none stands for others.
        let gathered = Gathered { from_ceph: true, ..gathered };
        let kind = Kind::of("writes", &gathered, true);
        assert_eq!(kind.breakdown.as_ref().map(|breakdown| breakdown.ops), Some(10));
        let page = text_page(&gathered, &[kind], &options(&[]));
        assert!(page.contains("writes: 10 of the slowest operations; most") && page.contains("of these"), "{page}");
    }
}
