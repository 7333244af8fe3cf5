//! Plans in files, and those that are shipped.

use std::path::Path;

use anyhow::{Context, Result, bail};
use bench::cbt;
use bench::plan::{Plan, Template};

/// A plan as it was found.
pub enum PlanFile {
    Plan(Box<Plan>),
    /// A plan of sweeps, which has no clusters and no scale yet.
    Template(Box<Template>),
    /// A plan of the Ceph Benchmarking Tool, as text: what it becomes depends on the clusters.
    Cbt {
        name: String,
        text: String,
    },
}

/// Reads the plan at `path`, or the shipped one of that name. Paths of configurations in a plan count from its own
/// folder.
pub fn read(path: &Path) -> Result<PlanFile> {
    let shipped = path.to_str().and_then(Template::shipped);
    if let Some(template) = shipped.filter(|_| !path.exists()) {
        return Ok(PlanFile::Template(Box::new(template)));
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.extension().is_none() => {
            let names = Template::names().collect::<Vec<_>>().join(", ");
            bail!("there is no plan {}; shipped ones are {names}", path.display());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read the plan {}", path.display())),
    };
    if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
        let name = path.file_stem().map_or_else(|| "plan".to_owned(), |stem| stem.to_string_lossy().into_owned());
        // Faults show before any cluster is asked.
        cbt::translate(&name, &text, vec![any_cluster()])
            .with_context(|| format!("the plan {} cannot be run", path.display()))?;
        return Ok(PlanFile::Cbt { name, text });
    }
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    let wrong = || format!("the plan {} cannot be run", path.display());
    if is_toml && text.lines().any(|line| line.trim() == "[[sweep]]") {
        return Ok(PlanFile::Template(Box::new(Template::from_toml(&text).with_context(wrong)?)));
    }
    let plan = if is_toml { Plan::from_toml(&text) } else { Plan::from_json(&text) };
    let mut plan = plan.with_context(wrong)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    for cluster in &mut plan.clusters {
        let found = std::path::absolute(folder.join(&cluster.configuration))?;
        cluster.configuration = found.display().to_string();
        for file in cluster.s3.iter_mut().flat_map(|gateway| [&mut gateway.keys, &mut gateway.ca]).flatten() {
            *file = std::path::absolute(folder.join(&file))?.display().to_string();
        }
    }
    Ok(PlanFile::Plan(Box::new(plan)))
}

/// A cluster in place of those that are known later.
fn any_cluster() -> bench::plan::Cluster {
    bench::plan::Cluster::new("any", bench::plan::Engine::Ceph, "any")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_name_and_by_file() {
        assert!(matches!(read(Path::new("intel-afa")).unwrap(), PlanFile::Template(_)));
        let error = read(Path::new("intel-afb")).err().unwrap().to_string();
        assert!(error.contains("no plan intel-afb; shipped ones are micron-7450-ec,"), "{error}");
        let folder = crate::scratch::Scratch::new();
        let file = folder.path().join("p.toml");
        std::fs::write(&file, include_str!("../../../../bench/plans/intel-afa.toml")).unwrap();
        assert!(matches!(read(&file).unwrap(), PlanFile::Template(_)));
        std::fs::write(&file, "version = 1\n[[sweep]]\n").unwrap();
        let error = format!("{:#}", read(&file).err().unwrap());
        assert!(error.contains("p.toml cannot be run") && error.contains("missing field"), "{error}");
        let yaml = folder.path().join("c.yaml");
        std::fs::write(&yaml, "cluster: {iterations: 1}\nbenchmarks:\n  radosbench: {time: 5}\n").unwrap();
        assert!(matches!(read(&yaml).unwrap(), PlanFile::Cbt { name, .. } if name == "c"));
        std::fs::write(&yaml, "cluster: {iterations: 1}\nbenchmarks:\n  radosbench: {write_omap: True}\n").unwrap();
        let error = format!("{:#}", read(&yaml).err().unwrap());
        assert!(error.contains("not supported here: benchmarks.radosbench.write_omap"), "{error}");
        let rows = include_str!("../../../../bench/plans/image-rows.json");
        let json = folder.path().join("p.json");
        std::fs::write(&json, rows).unwrap();
        let PlanFile::Plan(plan) = read(&json).unwrap() else { panic!("no plan") };
        let configuration = folder.path().join("nacre/ceph.conf");
        assert_eq!(Path::new(&plan.clusters[0].configuration), configuration);
    }
}
