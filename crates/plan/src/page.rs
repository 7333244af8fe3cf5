//! A plan as a page.

use report::number::significant;
use report::{Axis, Bars, Block, Cell, Column, Control, Explorer, Figure, Page, Plot, Scale, Table};

use crate::catalogue::Catalogue;
use crate::performance::Performance;
use crate::sizing::{Engine, Plan, Request, Workload, alternatives, plan};

/// Choices of the sliders.
const USABLE_TB: [f64; 12] = [10.0, 25.0, 50.0, 100.0, 200.0, 300.0, 500.0, 750.0, 1000.0, 2000.0, 5000.0, 10_000.0];
const FAILURES: [u32; 3] = [1, 2, 3];
const FILLS: [f64; 4] = [0.6, 0.7, 0.8, 0.85];

/// The unit of a workload's rates.
fn unit(workload: Workload) -> &'static str {
    match workload {
        Workload::Large { .. } => "GB/s",
        Workload::Small { .. } => "operations/s",
    }
}

fn engine(engine: Engine) -> &'static str {
    match engine {
        Engine::Ceph => "Ceph",
        Engine::Nacre => "Nacre",
    }
}

/// A number with its unit, or the words for a value that is not known.
fn known(value: Option<f64>, unit: &str) -> String {
    let text = value.map_or_else(|| report::number::ABSENT.to_owned(), significant);
    if value.is_none() || unit.is_empty() { text } else { format!("{text} {unit}") }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Rate and bound of one kind of operation.
fn rate(one: Option<&Performance>, unit: &str) -> String {
    match one {
        Some(one) => format!("{} {unit}, limited by {}", significant(one.rate), one.bound),
        None => report::number::ABSENT.to_owned(),
    }
}

/// Names and values of a plan, the same rows for every plan.
fn rows(plan: &Plan, workload: Workload) -> Vec<(String, String)> {
    let unit = unit(workload);
    let row = |name: &str, value: String| (name.to_owned(), value);
    let link = |gb: Option<f64>, gbit: Option<f64>| match (gb, gbit) {
        (Some(gb), Some(gbit)) => format!("{gbit} Gb/s, for {} GB/s each way", significant(gb)),
        (Some(gb), None) => format!("{} GB/s each way: more than one link carries", significant(gb)),
        _ => report::number::ABSENT.to_owned(),
    };
    let rebuild = plan.rebuild.as_ref();
    vec![
        row("protection", plan.protection.to_string()),
        row("raw per usable", significant(plan.protection.raw_per_usable())),
        row("failures of servers survived", plan.protection.failures().to_string()),
        row("servers with OSDs", plan.servers.to_string()),
        row("monitors", plan.monitors.to_string()),
        row("drives", format!("{} ({} in each server), {}", plan.drives, plan.drives_per_server, plan.drive)),
        row("OSDs", format!("{} ({} on each drive)", plan.osds, plan.osds_per_drive)),
        row("placement groups", plan.pg_count.to_string()),
        row("raw capacity", format!("{} TB", significant(plan.raw_tb))),
        row("usable capacity at 100 %", format!("{} TB", significant(plan.usable_at_full_tb))),
        row("filled", percent(plan.fill)),
        row(
            "filled after the loss of a server",
            plan.fill_after_loss.map_or_else(|| "no server is left to take its data".to_owned(), percent),
        ),
        row(
            "processors of a server",
            plan.cores_per_server.map_or_else(|| report::number::ABSENT.to_owned(), |cores| cores.to_string()),
        ),
        row("memory of a server", format!("{} GB", plan.dram_per_server_gb)),
        row("client network of a server", link(plan.client_gb_per_s, plan.client_link_gbit_per_s)),
        row("storage network of a server", link(plan.storage_gb_per_s, plan.storage_link_gbit_per_s)),
        row("reads", rate(plan.read.as_ref(), unit)),
        row("writes", rate(plan.write.as_ref(), unit)),
        row("the workload's mix", known(plan.mixed_rate, unit)),
        row("rebuild of a drive", known(rebuild.map(|rebuild| rebuild.hours), "h")),
        row(
            "chance of loss per year, at most",
            rebuild
                .map_or_else(|| report::number::ABSENT.to_owned(), |rebuild| format!("{:.1e}", rebuild.loss_per_year)),
        ),
        row("power of the drives", known(plan.drives_watts, "W")),
        row("rack units", plan.rack_units.map_or_else(|| report::number::ABSENT.to_owned(), |units| units.to_string())),
    ]
}

fn workload_words(workload: Workload) -> String {
    match workload {
        Workload::Large { read_percent } => format!("operations of 256 KiB and more, {read_percent} % reads"),
        Workload::Small { read_percent } => format!("4 KiB at random places, {read_percent} % reads"),
    }
}

/// The page of a plan: the cluster, other protections beside it, formulas' inputs, and sliders.
pub fn page(catalogue: &Catalogue, request: &Request, made: &Plan) -> Page {
    let title = format!("A cluster for {} TB", request.usable_tb);
    let mut page = Page::new(title);
    page.opening.push(Block::Facts(vec![
        ("software".into(), engine(request.engine).into()),
        (
            "usable capacity".into(),
            format!("{} TB, drives filled to {} at most", request.usable_tb, percent(request.fill)),
        ),
        ("failures of servers to survive".into(), request.failures.to_string()),
        ("workload".into(), workload_words(request.workload)),
    ]));
    if !made.extrapolated.is_empty() {
        page.opening.push(Block::warning("Extrapolated", "these figures rest on no measurement of such a cluster:"));
        page.opening.push(Block::List(made.extrapolated.clone()));
    }
    let mut table = Table::new("cluster", "", vec![Column::text("quantity"), Column::text("value")]);
    rows(made, request.workload)
        .into_iter()
        .for_each(|(name, value)| table.push(vec![Cell::Text(name), Cell::Text(value)]));
    page.section("The cluster", vec![table.into()]);
    let others = alternatives(catalogue, &Request { servers: None, ..request.clone() });
    if others.len() > 1 {
        page.section("Other protections", vec![what_if(&others, request).into(), raw_figure(&others).into()]);
    }
    page.section("Origin of the figures", vec![Block::List(sources(catalogue, made))]);
    page
}

/// The page with sliders for capacity, failures, fill and drives, for browsers.
pub fn page_with_sliders(catalogue: &Catalogue, request: &Request, made: &Plan) -> Page {
    let mut page = page(catalogue, request, made);
    let at = page.sections.len().min(1);
    let section = report::Section { title: "Other sizes".into(), blocks: vec![sliders(catalogue, request).into()] };
    page.sections.insert(at, section);
    page
}

fn sliders(catalogue: &Catalogue, request: &Request) -> Explorer {
    let nearest = |values: &[f64], value: f64| {
        let distance = |index: &usize| (values[*index] / value).ln().abs();
        (0..values.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let failures = FAILURES.map(f64::from);
    let control = |label: &str, choices: Vec<String>, chosen| Control { label: label.into(), choices, chosen };
    let controls = vec![
        control("usable TB", USABLE_TB.map(|tb| tb.to_string()).into(), nearest(&USABLE_TB, request.usable_tb)),
        control(
            "failures of servers to survive",
            FAILURES.map(|failures| failures.to_string()).into(),
            nearest(&failures, f64::from(request.failures.max(1))),
        ),
        control("drives filled to", FILLS.map(percent).into(), nearest(&FILLS, request.fill)),
        control(
            "drive",
            catalogue.drives.iter().map(|drive| drive.name.clone()).collect(),
            catalogue.drives.iter().position(|drive| drive.name == request.drive).unwrap_or(0),
        ),
    ];
    let of = |at: &[usize]| {
        let asked = Request {
            usable_tb: USABLE_TB[at[0]],
            failures: FAILURES[at[1]],
            fill: FILLS[at[2]],
            drive: catalogue.drives[at[3]].name.clone(),
            protection: None,
            servers: None,
            drives_per_server: None,
            ..request.clone()
        };
        plan(catalogue, &asked).map(|plan| rows(&plan, request.workload))
    };
    let first = of(&[0, 0, 0, 0]);
    let names: Vec<String> = first.iter().flatten().map(|(name, _)| name.clone()).collect();
    Explorer::new(
        "sizes",
        "The planner's answer for other sizes, with the protection that it chooses.",
        controls,
        names.clone(),
        |at| match of(at) {
            Ok(rows) => rows.into_iter().map(|(_, value)| value).collect(),
            Err(error) => names.iter().map(|_| error.to_string()).collect(),
        },
    )
}

/// Protections side by side.
fn what_if(plans: &[Plan], request: &Request) -> Table {
    let unit = unit(request.workload);
    let columns = vec![
        Column::text("protection"),
        Column::number("raw per usable", ""),
        Column::number("failures", ""),
        Column::number("servers", ""),
        Column::number("drives", ""),
        Column::number("placement groups", ""),
        Column::number("reads", unit),
        Column::number("writes", unit),
        Column::number("processors per server", ""),
        Column::number("client net", "GB/s"),
        Column::number("storage net", "GB/s"),
        Column::number("rebuild", "h"),
        Column::text("chance of loss per year"),
    ];
    let mut table = Table::new("protections", "The same capacity with other protections.", columns);
    for plan in plans {
        let rebuild = plan.rebuild.as_ref();
        table.push(vec![
            Cell::text(plan.protection.to_string()),
            Cell::Number(plan.protection.raw_per_usable()),
            Cell::Count(plan.protection.failures().into()),
            Cell::Count(plan.servers.into()),
            Cell::Count(plan.drives.into()),
            Cell::Count(plan.pg_count.into()),
            Cell::number(plan.read.as_ref().map(|one| one.rate)),
            Cell::number(plan.write.as_ref().map(|one| one.rate)),
            plan.cores_per_server.map_or(Cell::Absent, |cores| Cell::Count(cores.into())),
            Cell::number(plan.client_gb_per_s),
            Cell::number(plan.storage_gb_per_s),
            Cell::number(rebuild.map(|rebuild| rebuild.hours)),
            rebuild.map_or(Cell::Absent, |rebuild| Cell::text(format!("{:.1e}", rebuild.loss_per_year))),
        ]);
    }
    table
}

fn raw_figure(plans: &[Plan]) -> Figure {
    let values = |value: fn(&Plan) -> f64| plans.iter().map(|plan| Some(value(plan))).collect();
    Figure {
        name: "raw".into(),
        title: "Raw capacity by protection".into(),
        caption: "Usable capacity that is asked for, and raw capacity that is bought, in TB.".into(),
        plot: Plot::Bars(Bars {
            axis: Axis::new("capacity", "TB", Scale::Linear),
            categories: plans.iter().map(|plan| plan.protection.to_string()).collect(),
            series: vec![("usable".into(), values(|plan| plan.usable_tb)), ("raw".into(), values(|plan| plan.raw_tb))],
            stacked: false,
        }),
    }
}

/// The drive's and the known clusters' sources.
fn sources(catalogue: &Catalogue, plan: &Plan) -> Vec<String> {
    let mut sources: Vec<String> =
        catalogue.drive(&plan.drive).map(|drive| format!("{}: {}", drive.name, drive.source)).into_iter().collect();
    for (what, one) in [("reads", &plan.read), ("writes", &plan.write)] {
        let Some(one) = one else { continue };
        let known = catalogue.clusters.iter().find(|known| known.name == one.known);
        sources.extend(known.map(|known| format!("{what}: {}, {}", known.name, known.source)));
    }
    sources
}
