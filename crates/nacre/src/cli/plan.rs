//! The flags of `nacre plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plan::Protection;

#[derive(Args, Debug)]
pub struct PlanFlags {
    /// Capacity for users, in TB (10^12 bytes).
    #[arg(long, value_name = "TB", required_unless_present = "drives")]
    pub usable_tb: Option<f64>,
    /// Servers that may fail with no byte lost.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub failures: u32,
    /// Size of the clients' operations.
    #[arg(long, value_enum, default_value_t = Size::Large)]
    pub workload: Size,
    /// Percentage of reads.
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0)]
    pub reads: f64,
    /// A drive of the catalogue; --drives lists them.
    #[arg(long, value_name = "NAME", default_value = "micron-7450-pro-7.68")]
    pub drive: String,
    /// Copies, such as 3x, or an erasure code, such as 4+2. [default: copies for small operations, a code for large
    /// ones]
    #[arg(long, value_name = "SCHEME")]
    pub protection: Option<Protection>,
    /// Whose daemons run.
    #[arg(long = "for", value_enum, default_value_t = Software::Nacre)]
    pub software: Software,
    /// Share of the raw capacity that is used, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 80.0)]
    pub fill: f64,
    /// Servers with OSDs. [default: as many as are needed]
    #[arg(long, value_name = "N")]
    pub servers: Option<u32>,
    /// Drives of each server. [default: at most as many as the catalogue says]
    #[arg(long, value_name = "N")]
    pub drives_per_server: Option<u32>,
    /// Speed of each of a server's two links, in Gb/s, which limits the rates. [default: links are chosen]
    #[arg(long, value_name = "GBIT")]
    pub link: Option<f64>,
    /// More drives and measured clusters, in TOML; entries of the same name replace those that are shipped.
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,
    /// A run of 'nacre bench', its folder or result.json, whose figures replace published ones. Its OSDs count as one
    /// drive each, such as --drive names.
    #[arg(long, value_name = "RUN")]
    pub measured: Option<PathBuf>,
    /// Print the plan as JSON.
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Write the plan as one HTML file with sliders for other sizes.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// List the drives of the catalogue instead.
    #[arg(long)]
    pub drives: bool,
}

/// Sizes of operations that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// 256 KiB and more.
    Large,
    /// 4 KiB at random places.
    Small,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Software {
    Nacre,
    Ceph,
}
