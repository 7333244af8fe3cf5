//! Drives, and clusters whose performance is known.

use serde::{Deserialize, Serialize};

use crate::protection::Protection;

const BUILT_IN: &str = include_str!("../catalogue.toml");

/// Drives and known clusters, as a file in TOML describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    #[serde(default, rename = "drive")]
    pub drives: Vec<Drive>,
    #[serde(default, rename = "cluster")]
    pub clusters: Vec<Known>,
}

/// A kind of drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    Nvme,
    Hdd,
}

/// A drive. Rates that are not known are absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    pub name: String,
    /// Origin of the figures.
    pub source: String,
    pub media: Media,
    pub capacity_tb: f64,
    /// Sequential throughput of the drive alone.
    pub read_gb_per_s: Option<f64>,
    pub write_gb_per_s: Option<f64>,
    /// OSDs on each drive with Ceph.
    pub osds: u32,
    /// Drives of a server.
    pub per_server: u32,
    /// Rate at which one drive was rebuilt.
    pub rebuild_gb_per_s: Option<f64>,
    pub watts: Option<f64>,
    /// Rack units of a server with such drives.
    pub rack_units: Option<f64>,
}

/// A cluster whose performance was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    pub name: String,
    pub source: String,
    /// Name of its drives in the catalogue; a cluster that was measured elsewhere may have others.
    pub drive: String,
    pub media: Media,
    pub servers: u32,
    pub drives: u32,
    /// Measurements, each of one kind of operation.
    #[serde(rename = "measured")]
    pub measured: Vec<Measured>,
}

/// Throughput of one kind of operation on a [`Known`] cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub protection: Protection,
    pub operation: Operation,
    /// GB/s of clients for large operations, operations per second for small ones.
    pub rate: f64,
    /// Processors of each server that were busy, at this rate or at `cores_at`.
    pub cores_per_server: Option<f64>,
    /// Rate at which `cores_per_server` were busy, where it is not `rate`.
    pub cores_at: Option<f64>,
    /// True if the clients' network was the bound, so that the drives may do more.
    #[serde(default)]
    pub network_bound: bool,
}

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Of 256 KiB and more.
    LargeRead,
    LargeWrite,
    /// Of 4 KiB at random places.
    SmallRead,
    SmallWrite,
}

/// The reason why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    #[error("{name}: {field} {value} is not a positive number")]
    Value { name: String, field: &'static str, value: f64 },
    #[error("two entries are called {0:?}")]
    Twice(String),
}

impl Operation {
    pub fn is_read(self) -> bool {
        matches!(self, Operation::LargeRead | Operation::SmallRead)
    }

    pub fn is_large(self) -> bool {
        matches!(self, Operation::LargeRead | Operation::LargeWrite)
    }
}

impl Catalogue {
    /// The catalogue that this release ships.
    pub fn built_in() -> Catalogue {
        Catalogue::from_toml(BUILT_IN).expect("the catalogue that is shipped is tested")
    }

    /// Reads a catalogue.
    ///
    /// Errors: [`CatalogueError`], which names the line or the entry at fault.
    pub fn from_toml(text: &str) -> Result<Catalogue, CatalogueError> {
        let catalogue: Catalogue = toml::from_str(text)?;
        catalogue.check()?;
        Ok(catalogue)
    }

    fn check(&self) -> Result<(), CatalogueError> {
        let positive = |name: &str, field: &'static str, value: Option<f64>| match value {
            Some(value) if !(value.is_finite() && value > 0.0) => {
                Err(CatalogueError::Value { name: name.into(), field, value })
            }
            _ => Ok(()),
        };
        for drive in &self.drives {
            let fields = [
                ("capacity_tb", Some(drive.capacity_tb)),
                ("read_gb_per_s", drive.read_gb_per_s),
                ("write_gb_per_s", drive.write_gb_per_s),
                ("osds", Some(f64::from(drive.osds))),
                ("per_server", Some(f64::from(drive.per_server))),
                ("rebuild_gb_per_s", drive.rebuild_gb_per_s),
                ("watts", drive.watts),
                ("rack_units", drive.rack_units),
            ];
            for (field, value) in fields {
                positive(&drive.name, field, value)?;
            }
        }
        for cluster in &self.clusters {
            positive(&cluster.name, "servers", Some(f64::from(cluster.servers)))?;
            positive(&cluster.name, "drives", Some(f64::from(cluster.drives)))?;
            for one in &cluster.measured {
                positive(&cluster.name, "rate", Some(one.rate))?;
                positive(&cluster.name, "cores_per_server", one.cores_per_server)?;
                positive(&cluster.name, "cores_at", one.cores_at)?;
            }
        }
        let twice = |names: Vec<&String>| {
            let mut sorted = names;
            sorted.sort();
            sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
        };
        let drives = twice(self.drives.iter().map(|drive| &drive.name).collect());
        match drives.or_else(|| twice(self.clusters.iter().map(|cluster| &cluster.name).collect())) {
            Some(name) => Err(CatalogueError::Twice(name)),
            None => Ok(()),
        }
    }

    /// Adds the entries of `other`, which replace those of the same name.
    pub fn extend(&mut self, other: Catalogue) {
        self.drives.retain(|drive| other.drives.iter().all(|new| new.name != drive.name));
        self.clusters.retain(|cluster| other.clusters.iter().all(|new| new.name != cluster.name));
        self.drives.extend(other.drives);
        self.clusters.extend(other.clusters);
    }

    /// Adds a known cluster whose measurements replace those of the same operations on all others.
    pub fn prefer(&mut self, known: Known) {
        let measured = |operation: Operation| known.measured.iter().any(|one| one.operation == operation);
        for other in &mut self.clusters {
            other.measured.retain(|one| !measured(one.operation));
        }
        self.clusters.push(known);
    }

    pub fn drive(&self, name: &str) -> Option<&Drive> {
        self.drives.iter().find(|drive| drive.name == name)
    }
}
