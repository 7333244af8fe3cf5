//! The flags of `nacre disk`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::byte_size::ByteSize;

#[derive(Subcommand, Debug)]
pub enum Disk {
    /// List drives, what they hold, and what keeps them from being prepared.
    List(DiskList),
    /// Divide empty drives for OSDs. Shows what it would do, and does it with --yes.
    Prepare(DiskPrepare),
    /// Wipe drives for good, whatever is on them, unless somebody uses them. Shows what it would do, and does it with
    /// --yes.
    Wipe(DiskWipe),
    /// Give an NVMe drive namespaces of equal size, and erase them; everything on it goes. Shows what it would do, and
    /// does it with --yes.
    Namespaces(DiskNamespaces),
}

#[derive(Args, Debug)]
pub struct DiskList {
    /// Only these drives; or files that are images of drives. [default: all drives]
    #[arg(value_name = "DEVICE")]
    pub drives: Vec<PathBuf>,
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct DiskPrepare {
    /// Drives for the OSDs' data.
    #[arg(required = true, value_name = "DEVICE")]
    pub drives: Vec<PathBuf>,
    /// OSDs on each of them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub osds_per_drive: u32,
    /// Drives for the OSDs' logs, which are dealt out in turns. [default: logs lie with the data]
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    pub wal: Vec<PathBuf>,
    /// Size of each log's area.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", requires = "wal")]
    pub wal_size: ByteSize,
    /// Drives for the OSDs' metadata, which are dealt out in turns. [default: metadata lies with the data]
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    pub metadata: Vec<PathBuf>,
    /// Size of each metadata area. [default: 4 % of the largest data area]
    #[arg(long, value_name = "SIZE", requires = "metadata")]
    pub metadata_size: Option<ByteSize>,
    /// Means by which drives are divided.
    #[arg(long, value_enum, default_value_t = Division::Partitions)]
    pub by: Division,
    /// Do it.
    #[arg(long)]
    pub yes: bool,
    #[arg(long)]
    pub json: bool,
}

/// A value of `--by`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Division {
    /// A partition table (GPT).
    Partitions,
    /// Volumes of LVM.
    Lvm,
}

#[derive(Args, Debug)]
pub struct DiskWipe {
    /// The drives, or files that are images of drives.
    #[arg(required = true, value_name = "DEVICE")]
    pub drives: Vec<PathBuf>,
    /// Overwrite only where content has its marks: soon done, and most bytes stay.
    #[arg(long)]
    pub quick: bool,
    /// Do it.
    #[arg(long)]
    pub yes: bool,
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct DiskNamespaces {
    /// The controller: /dev/nvme0.
    #[arg(value_name = "CONTROLLER")]
    pub controller: PathBuf,
    /// Number of namespaces.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Do it.
    #[arg(long)]
    pub yes: bool,
    #[arg(long)]
    pub json: bool,
}
