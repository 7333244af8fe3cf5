//! A survey as a page.

use report::{Axis, Bars, Block, Cell, Column, Figure, Page, Plot, Scale, Table, Tone};

use crate::advice::Advice;
use crate::risk::Risk;
use crate::time::Kind;
use crate::{Cluster, Survey};

/// Changes that stand on the first page.
const FIRST: usize = 3;
/// OSDs in the figure of fill.
const BARS_MAX: usize = 64;
const GIB: f64 = (1u64 << 30) as f64;

impl Survey {
    pub fn page(&self) -> Page {
        let mut page = Page::new(format!("Cluster {}", self.cluster.fsid));
        page.opening = opening(&self.cluster);
        let (first, further) = self.advice.split_at(self.advice.len().min(FIRST));
        let title = match first.len() {
            1 => "The change worth making".into(),
            2 => "Two changes worth making".into(),
            _ => "Three changes worth making".to_owned(),
        };
        match first.is_empty() {
            true => page.opening.push(Block::Prose("No change suggests itself.".into())),
            false => page.section(title, vec![changes("changes", first)]),
        }
        page.section("Ceilings", ceilings(self));
        page.section("Where time goes", self.time.iter().flat_map(kind).collect());
        page.section("Health and risk", vec![risks(&self.cluster, &self.risk), problems(&self.cluster)]);
        page.section("Pools", vec![pools(&self.cluster)]);
        page.section("OSDs", osds(&self.cluster));
        if !further.is_empty() {
            page.section("Further changes", vec![changes("further", further)]);
        }
        page
    }
}

fn opening(cluster: &Cluster) -> Vec<Block> {
    let count = |is: fn(&crate::Osd) -> bool| cluster.osds.iter().filter(|osd| is(osd)).count();
    let versions = cluster.versions.iter().map(|(version, count)| format!("{count} of {version}"));
    let mut facts = vec![
        ("monitors".to_owned(), format!("{} of {} in quorum", cluster.monitors_in_quorum, cluster.monitors)),
        (
            "OSDs".to_owned(),
            format!(
                "{}, {} up, {} in, on {} hosts",
                cluster.osds.len(),
                count(|osd| osd.up),
                count(|osd| osd.is_in),
                cluster.hosts().len()
            ),
        ),
        ("capacity".to_owned(), format!("{:.1} GiB, {:.1} used", cluster.total_bytes / GIB, cluster.used_bytes / GIB)),
        ("daemons".to_owned(), versions.collect::<Vec<_>>().join("; ")),
        (
            "clients at this moment".to_owned(),
            format!(
                "{:.0} operations/s, {:.1} MB/s read, {:.1} MB/s written",
                cluster.operations_per_s,
                cluster.read_bytes_per_s / 1e6,
                cluster.written_bytes_per_s / 1e6
            ),
        ),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    let health = match cluster.health.as_str() {
        "HEALTH_OK" => Block::Prose("The monitors say HEALTH_OK.".into()),
        "" => Block::warning("Unknown", "The monitors do not tell their health."),
        other => Block::warning(other.trim_start_matches("HEALTH_"), format!("The monitors say {other}.")),
    };
    vec![health, Block::Facts(facts)]
}

fn changes(name: &str, advice: &[Advice]) -> Block {
    let columns = ["change", "since", "by"].map(Column::text).to_vec();
    let mut table = Table::new(name, "", columns);
    for one in advice {
        table.push(vec![Cell::text(&one.change), Cell::text(&one.evidence), Cell::text(&one.command)]);
    }
    table.into()
}

fn ceilings(survey: &Survey) -> Vec<Block> {
    let mut table = Table::new("ceilings", "", ["limit", "value", "from"].map(Column::text).to_vec());
    let mut row = |limit: String, value: String, from: &str| {
        table.push(vec![Cell::text(limit), Cell::text(value), Cell::text(from)]);
    };
    for kind in &survey.time {
        // The slowest operations do not say how many there could be.
        if kind.breakdown.mean_us > 0.0 && !kind.of_slowest {
            let from = "operations that OSDs kept";
            let limit = format!("{} of one client, one after the other", kind.name);
            row(limit, format!("{:.0} per s at most, without its network", 1e6 / kind.breakdown.mean_us), from);
        }
    }
    let mut commits: Vec<f64> = survey.cluster.osds.iter().filter_map(|osd| osd.commit_ms).collect();
    commits.sort_by(f64::total_cmp);
    if let Some(median) = commits.get(commits.len() / 2) {
        let worst = commits.last().copied().unwrap_or(*median);
        row("commit on an OSD".into(), format!("{median:.2} ms (median), {worst:.2} ms (slowest)"), "ceph osd perf");
    }
    for pool in survey.cluster.pools.iter().filter(|pool| pool.available_bytes > 0.0) {
        let value = format!("{:.1} GiB more until its fullest OSD is full", pool.available_bytes / GIB);
        row(format!("data of pool {}", pool.name), value, "ceph df");
    }
    let mut blocks = if table.is_empty() { vec![] } else { vec![Block::Table(table)] };
    if !survey.measured.is_empty() {
        let columns = vec![
            Column::text("load"),
            Column::number("operations", "/s"),
            Column::number("throughput", "MB/s"),
            Column::number("mean", "ms"),
            Column::number("p99", "ms"),
        ];
        let words = "Measured for this report, in a pool of its own that is gone again:";
        let mut measured = Table::new("measured", words, columns);
        for one in &survey.measured {
            measured.push(vec![
                Cell::text(&one.workload),
                Cell::Number(one.operations_per_s),
                Cell::Number(one.bytes_per_s / 1e6),
                Cell::number(one.mean_us.map(|us| us / 1000.0)),
                Cell::number(one.p99_us.map(|us| us / 1000.0)),
            ]);
        }
        blocks.push(measured.into());
    }
    blocks
}

fn kind(kind: &Kind) -> Vec<Block> {
    let breakdown = &kind.breakdown;
    let of = if kind.of_slowest { "of the slowest, as a Ceph keeps no others" } else { "that stand for all" };
    let verdict = breakdown.verdict().map(|words| format!("; {words}")).unwrap_or_default();
    let caption = format!(
        "{}: {} operations {of}, mean {:.0} us, p99 {} us{verdict}.",
        kind.name, breakdown.ops, breakdown.mean_us, breakdown.p99_us
    );
    let columns = vec![
        Column::text("hop"),
        Column::number("median", "us"),
        Column::number("p99", "us"),
        Column::number("share", "%"),
    ];
    let mut table = Table::new(kind.name, caption, columns);
    for hop in &breakdown.rows {
        table.push(vec![
            Cell::text(&hop.hop),
            Cell::Count(hop.median_us),
            Cell::Count(hop.p99_us),
            Cell::Percent(hop.share * 100.0),
        ]);
    }
    let bars = Bars {
        axis: Axis::new("share of time", "%", Scale::Linear),
        categories: breakdown.rows.iter().map(|hop| hop.hop.clone()).collect(),
        series: vec![(kind.name.into(), breakdown.rows.iter().map(|hop| Some(hop.share * 100.0)).collect())],
        stacked: false,
    };
    let figure = Figure {
        name: format!("time-of-{}", kind.name),
        title: format!("Time of {}", kind.name),
        caption: "Shares of all operations' time.".into(),
        plot: Plot::Bars(bars),
    };
    vec![table.into(), figure.into()]
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn risks(cluster: &Cluster, risk: &Risk) -> Block {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        facts.push((name.to_owned(), value.unwrap_or_else(|| report::number::ABSENT.to_owned())));
    };
    row("space in use", risk.fill.map(percent));
    let limits = format!("warned of at {}, writes end at {}", percent(cluster.near_full), percent(cluster.full));
    row("fullest OSD", risk.fullest_osd.map(|(osd, fill)| format!("osd.{osd}, {} ({limits})", percent(fill))));
    row("fullest OSD beside the mean", risk.imbalance.map(|over| format!("{over:.2} times")));
    let without = risk.fill_without_host.as_ref();
    row(
        "fill once the largest host is lost and healed",
        without.map(|(host, fill)| format!("{} ({host})", percent(*fill))),
    );
    row("failures that every pool with data survives", risk.failures.map(|failures| failures.to_string()));
    let rebuild = risk.rebuild.as_ref();
    row(
        "rebuild of the fullest OSD",
        rebuild.map(|one| {
            format!(
                "{:.2} h for {:.1} GiB at {:.2} GB/s: {}",
                one.hours,
                one.bytes / GIB,
                one.bytes_per_s / 1e9,
                one.assumed
            )
        }),
    );
    row(
        "loss of data per year, at most",
        rebuild.map(|one| format!("{:.1e}, if drives fail independently", one.loss_per_year)),
    );
    let missing = (cluster.copies > 0.0).then(|| percent(cluster.degraded_copies / cluster.copies));
    row("copies that are missing", missing.or_else(|| (!cluster.health.is_empty()).then(|| "none".into())));
    Block::Facts(facts)
}

fn problems(cluster: &Cluster) -> Block {
    if cluster.problems.is_empty() {
        return Block::Prose("The monitors tell of no problem.".into());
    }
    Block::List(cluster.problems.iter().map(|(code, words)| format!("{code}: {words}")).collect())
}

fn pools(cluster: &Cluster) -> Block {
    let columns = vec![
        Column::text("pool"),
        Column::text("protection"),
        Column::text("failure domain"),
        Column::number("min_size", ""),
        Column::number("PGs", ""),
        Column::number("objects", ""),
        Column::number("stored", "GiB"),
        Column::number("room", "GiB"),
    ];
    let mut table = Table::new("pools", "", columns);
    for pool in &cluster.pools {
        table.push(vec![
            Cell::text(&pool.name),
            Cell::text(pool.protection.words()),
            Cell::text(&pool.failure_domain),
            Cell::Count(pool.min_size),
            Cell::Count(pool.pg_num),
            Cell::Count(pool.objects as u64),
            Cell::Number(pool.stored_bytes / GIB),
            Cell::Number(pool.available_bytes / GIB),
        ]);
    }
    table.into()
}

fn osds(cluster: &Cluster) -> Vec<Block> {
    let columns = vec![
        Column::text("OSD"),
        Column::text("host"),
        Column::text("state"),
        Column::text("drives"),
        Column::number("size", "GiB"),
        Column::number("fill", "%"),
        Column::number("PGs", ""),
        Column::number("commit", "ms"),
    ];
    let mut table = Table::new("osds", "", columns);
    for osd in &cluster.osds {
        let state = format!("{}, {}", if osd.up { "up" } else { "down" }, if osd.is_in { "in" } else { "out" });
        let tone = if osd.up { Tone::Neutral } else { Tone::Bad };
        table.push(vec![
            Cell::text(format!("osd.{}", osd.id)),
            Cell::text(&osd.host),
            Cell::Verdict { tone, words: state },
            Cell::text(&osd.devices),
            Cell::number((osd.bytes > 0.0).then_some(osd.bytes / GIB)),
            osd.fill().map_or(Cell::Absent, |fill| Cell::Percent(fill * 100.0)),
            Cell::Count(osd.pgs),
            Cell::number(osd.commit_ms),
        ]);
    }
    let shown: Vec<_> = cluster.osds.iter().take(BARS_MAX).collect();
    if shown.is_empty() {
        return vec![];
    }
    let bars = Bars {
        axis: Axis::new("space in use", "%", Scale::Linear),
        categories: shown.iter().map(|osd| format!("osd.{}", osd.id)).collect(),
        series: vec![("in use".into(), shown.iter().map(|osd| osd.fill().map(|fill| fill * 100.0)).collect())],
        stacked: false,
    };
    let caption = format!("Share of each OSD's space that is used (the first {} OSDs).", shown.len());
    let figure = Figure { name: "fill".into(), title: "Fill of OSDs".into(), caption, plot: Plot::Bars(bars) };
    vec![table.into(), figure.into()]
}
