//! Load generators other than our client on plain objects, above all Ceph's own: their capabilities and their output.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::histogram::{Digits, Histogram, HistogramData, LatencySummary};
use crate::plan::{Group, Load, Operations, Stop, Workload};

/// Largest size of an image's objects.
const RBD_OBJECT_BYTES_MAX: u64 = 32 << 20;

/// The load generator of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// This program, with Nacre's client.
    #[default]
    Nacre,
    /// This program, with images by Nacre's client.
    NacreRbd,
    /// This program, with objects by S3.
    NacreS3,
    /// `rados bench` of Ceph's packages.
    RadosBench,
    /// `fio` with its engine `rados`.
    FioRados,
    /// `fio` with its engine `rbd`, on an image that the run makes.
    FioRbd,
}

/// A tool that is not this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignTool {
    RadosBench,
    FioRados,
    FioRbd,
}

/// Results of a tool for one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    pub measured_s: f64,
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    pub latency: LatencySummary,
    pub histogram: Option<HistogramData>,
}

/// The reason why a tool's output cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("its output holds no JSON: {0}")]
    NoJson(String),
    #[error("its output has no number {0}")]
    Missing(String),
    #[error("it did nothing")]
    Nothing,
}

impl Tool {
    /// The tool's name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Nacre => "nacre",
            Tool::NacreRbd => "nacre-rbd",
            Tool::NacreS3 => "nacre-s3",
            Tool::RadosBench => "rados-bench",
            Tool::FioRados => "fio-rados",
            Tool::FioRbd => "fio-rbd",
        }
    }

    pub fn is_nacre(&self) -> bool {
        *self == Tool::Nacre
    }

    /// True if this program makes the load.
    pub fn is_own(&self) -> bool {
        self.foreign().is_none()
    }

    /// The tool, if it is not this program.
    pub fn foreign(&self) -> Option<ForeignTool> {
        match self {
            Tool::Nacre | Tool::NacreRbd | Tool::NacreS3 => None,
            Tool::RadosBench => Some(ForeignTool::RadosBench),
            Tool::FioRados => Some(ForeignTool::FioRados),
            Tool::FioRbd => Some(ForeignTool::FioRbd),
        }
    }

    /// True if the load is on images.
    fn is_rbd(self) -> bool {
        matches!(self, Tool::NacreRbd | Tool::FioRbd)
    }

    /// The tool's programs, and the Debian packages that have them.
    pub fn programs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Tool::Nacre | Tool::NacreRbd | Tool::NacreS3 => &[],
            Tool::RadosBench => &[("rados", "ceph-common")],
            Tool::FioRados => &[("fio", "fio")],
            Tool::FioRbd => &[("fio", "fio"), ("rbd", "ceph-common")],
        }
    }

    /// The reason why the tool cannot run `workload`: the field at fault below the workload, and a sentence. `None` if
    /// it can.
    pub fn refusal(self, workload: &Workload) -> Option<(&'static str, String)> {
        if self != Tool::NacreS3 && workload.groups.iter().any(|group| group.operations.of_s3() > 0) {
            let reason = "has neither head, delete nor list, which are operations of the tool nacre-s3";
            return Some(("groups", format!("{} {reason}", self.name())));
        }
        if self.is_nacre() {
            return None;
        }
        let name = self.name();
        if self.is_rbd() {
            let sizes = workload.groups.iter().map(|group| group.object_bytes).enumerate();
            let is_wrong = |bytes: u64| !bytes.is_power_of_two() || bytes > RBD_OBJECT_BYTES_MAX;
            if let Some((index, bytes)) = sizes.into_iter().find(|(_, bytes)| is_wrong(*bytes)) {
                let reason = format!("{bytes} is not a power of two up to {RBD_OBJECT_BYTES_MAX}");
                let field = if index == 0 { "groups[0].object_bytes" } else { "groups" };
                return Some((field, format!("{reason}, as the objects of an image are")));
            }
        }
        if self == Tool::NacreRbd {
            let several = workload.groups.iter().any(|group| group.instances != 1);
            let reason = "gives each group an image, which one client at a time can write to; \
                          several clients take several groups";
            return several.then(|| ("groups", format!("{name} {reason}")));
        }
        if self == Tool::NacreS3 {
            let partial = |group: &Group| group.io_bytes() != group.object_bytes && group.operations.changes() > 0;
            let reason = "writes whole objects, which S3 only has; reads may be of io_bytes, writes may not";
            return workload.groups.iter().any(partial).then(|| ("groups", format!("{name} {reason}")));
        }
        let [group] = &workload.groups[..] else {
            return Some(("groups", format!("{name} runs one group at a time; several at once take the tool nacre")));
        };
        if matches!(group.load, Load::Open { .. }) {
            let reason = "starts an operation when another ends, and has no open loop; that takes the tool nacre";
            return Some(("groups[0].load", format!("{name} {reason}")));
        }
        if group.instances != 1 {
            let reason = "is one client; several that begin together take the tool nacre";
            return Some(("groups[0].instances", format!("{name} {reason}")));
        }
        if matches!(workload.stop, Stop::Steady { .. }) {
            let reason = "runs for a time given before and not until it is steady; give duration_s";
            return Some(("stop", format!("{name} {reason}")));
        }
        // Both programs take whole seconds.
        if let Stop::DurationS(seconds) = workload.stop
            && (seconds.fract() != 0.0 || workload.warm_up_s.fract() != 0.0)
        {
            return Some(("stop", format!("{name} takes whole seconds only, for the warm-up as well")));
        }
        let Operations { sequential_write, random_write, sequential_read, random_read, .. } = group.operations;
        if ![sequential_write, random_write, sequential_read, random_read].contains(&100) {
            let reason = "does one kind of operation here; mixes take the tool nacre";
            return Some(("groups[0].operations", format!("{name} {reason}")));
        }
        if self == Tool::RadosBench && random_write > 0 {
            let reason =
                "writes one object after the other and never at random; use write, or the tool fio-rados or nacre";
            return Some(("groups[0].operations", format!("rados-bench {reason}")));
        }
        if group.prefill == Some(false) && group.operations.reads() > 0 {
            return Some(("groups[0].prefill", format!("{name} cannot read what nobody wrote")));
        }
        None
    }
}

pub(crate) fn json(text: &str) -> Result<Value, ToolError> {
    let at = text.find('{').ok_or_else(|| ToolError::NoJson(text.chars().take(200).collect()))?;
    // More lines may follow the document.
    let mut documents = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
    match documents.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(ToolError::NoJson(error.to_string())),
        None => Err(ToolError::NoJson("nothing".into())),
    }
}

/// A number of `rados bench`, which writes all of its numbers as strings.
pub(crate) fn rados_number(from: &Value, name: &str) -> Option<f64> {
    let field = &from[name];
    field.as_f64().or_else(|| field.as_str()?.trim().parse().ok())
}

/// Numbers that `rados bench` gives of a run, in whichever form.
pub(crate) struct RadosBench {
    pub operations: f64,
    pub io_bytes: f64,
    pub measured_s: f64,
    /// Latencies in seconds.
    pub mean_s: Result<f64, ToolError>,
    pub min_s: Option<f64>,
    pub max_s: Option<f64>,
}

impl RadosBench {
    /// Errors: no operation was done; there is no mean latency.
    pub fn outcome(self) -> Result<ToolOutcome, ToolError> {
        let RadosBench { operations, io_bytes, measured_s, mean_s, min_s, max_s } = self;
        if operations < 1.0 || measured_s <= 0.0 {
            return Err(ToolError::Nothing);
        }
        let us = |seconds: f64| seconds * 1e6;
        Ok(ToolOutcome {
            measured_s,
            operations: operations as u64,
            bytes: (operations * io_bytes) as u64,
            errors: 0,
            latency: LatencySummary {
                count: operations as u64,
                mean_us: Some(us(mean_s?)),
                min_us: min_s.map(us),
                max_us: max_s.map(us),
                ..LatencySummary::default()
            },
            histogram: None,
        })
    }
}

/// Reads the output of `rados bench --format json`.
///
/// Errors: [`ToolError`] if the text is no such output, or no operation was done.
pub fn read_rados_bench(text: &str) -> Result<ToolOutcome, ToolError> {
    rados_bench(&json(text)?)
}

/// [`read_rados_bench`] of a document that was read.
pub(crate) fn rados_bench(value: &Value) -> Result<ToolOutcome, ToolError> {
    let number = |name: &str| rados_number(value, name).filter(|number| number.is_finite() && *number >= 0.0);
    let of = |name: &str| number(name).ok_or_else(|| ToolError::Missing(name.to_owned()));
    let operations = number("total_writes_made").or_else(|| number("total_reads_made"));
    let operations = operations.ok_or_else(|| ToolError::Missing("total_writes_made or total_reads_made".into()))?;
    let size = number("write_size").or_else(|| number("read_size"));
    let io_bytes = size.ok_or_else(|| ToolError::Missing("write_size or read_size".into()))?;
    let (mean_s, min_s, max_s) = (of("average_latency"), number("min_latency"), number("max_latency"));
    RadosBench { operations, io_bytes, measured_s: of("total_time_run")?, mean_s, min_s, max_s }.outcome()
}

/// Reads the output of `fio --output-format=json+ --lat_percentiles=1` about its one job: of its reads if `reads`, else
/// of its writes.
///
/// Errors: [`ToolError`] if the text is no such output, or no operation was done.
pub fn read_fio(text: &str, reads: bool) -> Result<ToolOutcome, ToolError> {
    let value = json(text)?;
    let job = &value["jobs"][0];
    let side = &job[if reads { "read" } else { "write" }];
    let of = |from: &Value, name: &str| from[name].as_f64().ok_or_else(|| ToolError::Missing(name.to_owned()));
    let count = |from: &Value, name: &str| from[name].as_u64().ok_or_else(|| ToolError::Missing(name.to_owned()));
    let operations = count(side, "total_ios")?;
    let measured_s = of(side, "runtime")? / 1000.0;
    if operations == 0 || measured_s <= 0.0 {
        return Err(ToolError::Nothing);
    }
    let latency = &side["lat_ns"];
    let (min, max, mean) = (count(latency, "min")?, count(latency, "max")?, of(latency, "mean")?);
    let mut histogram = Histogram::new(Digits::Three);
    let bins = latency["bins"].as_object().ok_or_else(|| ToolError::Missing("lat_ns.bins".into()))?;
    for (value, count) in bins {
        let wrong = || ToolError::Missing(format!("lat_ns.bins.{value}"));
        let (value, count) = (value.parse().map_err(|_| wrong())?, count.as_u64().ok_or_else(wrong)?);
        // A bin is named for its middle, so the outermost names may lie beyond the measured values.
        let within: u64 = Ord::clamp(value, min, max.max(min));
        histogram.record_n(Duration::from_nanos(within), count);
    }
    let mut summary = histogram.summary();
    // fio reports the mean, the minimum and the maximum exactly, beside its bins.
    let us = |ns: f64| ns / 1000.0;
    (summary.mean_us, summary.min_us, summary.max_us) = (Some(us(mean)), Some(us(min as f64)), Some(us(max as f64)));
    Ok(ToolOutcome {
        measured_s,
        operations,
        bytes: count(side, "io_bytes")?,
        errors: job["total_err"].as_u64().unwrap_or(0),
        latency: summary,
        histogram: Some(histogram.to_data()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    const WRITE: &str = r#"hints = 1
        {"concurrent_ios":"4","object_size":"65536","op_size":"65536","datas":[{"sec":"0","cur_ops":"4"}],
         "total_time_run":"2.5","total_writes_made":"250","write_size":"65536","bandwidth":"15.395616",
         "stddev_iops":"-1683577936","average_latency":"0.25","max_latency":"0.5","min_latency":"0.125"}
        trailing"#;

    #[test]
    fn rados_bench() {
        let outcome = read_rados_bench(WRITE).unwrap();
        assert_eq!((outcome.operations, outcome.bytes, outcome.measured_s), (250, 250 << 16, 2.5));
        let latency = &outcome.latency;
        assert_eq!((latency.mean_us, latency.max_us, latency.p50_us), (Some(250_000.0), Some(500_000.0), None));
        let read = WRITE.replace("total_writes_made", "total_reads_made").replace("write_size", "read_size");
        assert_eq!(read_rados_bench(&read).unwrap(), outcome);
        let check = |from: &str, to: &str| read_rados_bench(&WRITE.replace(from, to)).unwrap_err();
        assert_eq!(check("\"250\"", "\"0\""), ToolError::Nothing);
        assert_eq!(check("2.5", "x"), ToolError::Missing("total_time_run".into()));
        assert_eq!(check("average_", "other_"), ToolError::Missing("average_latency".into()));
        assert!(matches!(check("{", "("), ToolError::NoJson(_)));
        assert!(matches!(read_rados_bench("error opening pool"), Err(ToolError::NoJson(_))));
        assert!(matches!(read_rados_bench("{\"a\": "), Err(ToolError::NoJson(_))));
    }

    const FIO: &str = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 0, "total_err": 0,
        "read": {"io_bytes": 0, "runtime": 0, "total_ios": 0, "lat_ns": {"min": 0, "max": 0, "mean": 0.0}},
        "write": {"io_bytes": 40960, "runtime": 2000, "total_ios": 10,
                  "lat_ns": {"min": 95000, "max": 1000500, "mean": 190000.5, "N": 10,
                             "bins": {"94000": 1, "100000": 8, "1000448": 1}}}}]}"#;

    #[test]
    fn fio() {
        let outcome = read_fio(FIO, false).unwrap();
        assert_eq!((outcome.operations, outcome.bytes, outcome.measured_s, outcome.errors), (10, 40_960, 2.0, 0));
        let latency = &outcome.latency;
        assert_eq!((latency.count, latency.mean_us, latency.min_us), (10, Some(190.0005), Some(95.0)));
        assert!((latency.p50_us.unwrap() - 100.0).abs() < 0.2 && latency.max_us == Some(1000.5), "{latency:?}");
        let back = Histogram::from_data(Digits::Three, &outcome.histogram.unwrap()).unwrap();
        assert_eq!(back.count(), 10);
        assert_eq!(read_fio(FIO, true), Err(ToolError::Nothing));
        let check = |from: &str, to: &str| read_fio(&FIO.replace(from, to), false).unwrap_err();
        assert_eq!(check("\"bins\"", "\"x\""), ToolError::Missing("lat_ns.bins".into()));
        assert_eq!(check("\"94000\": 1", "\"94000\": -1"), ToolError::Missing("lat_ns.bins.94000".into()));
        assert_eq!(check("\"total_ios\": 10", "\"ios\": 10"), ToolError::Missing("total_ios".into()));
        assert!(matches!(read_fio("rados_ioctx_create failed.", false), Err(ToolError::NoJson(_))));
    }

    #[test]
    fn what_tools_cannot_do_is_refused_with_a_sentence() {
        let plan = |tool: &str, change: &[(&str, &str)]| {
            let mut text = format!(
                r#"{{"version": 1, "name": "n", "seed": 1,
                    "clusters": [{{"name": "n", "engine": "nacre", "configuration": "a"}}], "pools": [{{"name": "p"}}],
                    "workloads": [{{"name": "w", "pool": "p", "tool": "{tool}", "warm_up_s": 1,
                      "stop": {{"duration_s": 5}},
                      "groups": [{{"name": "g", "object_bytes": 65536, "io_bytes": 4096, "objects": 30,
                                   "operations": {{"sequential_write": 100}}, "instances": 1,
                                   "load": {{"closed": {{"queue_depth": 4}}}}}}]}}]}}"#
            );
            change.iter().for_each(|(from, to)| text = text.replace(from, to));
            Plan::from_json(&text)
        };
        for tool in ["nacre", "nacre-rbd", "rados-bench", "fio-rados", "fio-rbd"] {
            let plan = plan(tool, &[]).unwrap();
            assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
        }
        for tool in ["fio-rados", "fio-rbd"] {
            plan(tool, &[("sequential_write", "random_write")]).unwrap();
        }
        let refused = |tool: &str, from: &str, to: &str, words: &str| {
            plan("nacre", &[(from, to)]).unwrap();
            let error = plan(tool, &[(from, to)]).unwrap_err();
            let said = error.to_string();
            assert!(said.starts_with("workloads[0].") && said.contains(words), "{said}");
        };
        let open = r#"{"open": {"arrivals_per_s": 5, "spacing": "constant", "in_flight_max": 4}}"#;
        for tool in ["rados-bench", "fio-rados", "fio-rbd"] {
            refused(tool, r#"{"closed": {"queue_depth": 4}}"#, open, "no open loop");
            refused(tool, "\"instances\": 1", "\"instances\": 2", "is one client");
            refused(tool, "{\"duration_s\": 5}", "{\"steady\": {\"round_s\": 2}}", "until it is steady");
            refused(tool, "\"warm_up_s\": 1", "\"warm_up_s\": 1.5", "whole seconds");
            refused(tool, "\"sequential_write\": 100", "\"random_write\": 50, \"random_read\": 50", "mixes");
        }
        refused("rados-bench", "sequential_write", "random_write", "never at random");
        for tool in ["fio-rbd", "nacre-rbd"] {
            refused(tool, "\"object_bytes\": 65536", "\"object_bytes\": 12288", "power of two");
            refused(tool, "\"object_bytes\": 65536", "\"object_bytes\": 67108864", "power of two");
        }
        refused("nacre-rbd", "\"instances\": 1", "\"instances\": 2", "several groups");
        // Our client has no such limits, with images as with objects.
        plan("nacre-rbd", &[(r#"{"closed": {"queue_depth": 4}}"#, open)]).unwrap();
        plan("nacre-rbd", &[("{\"duration_s\": 5}", "{\"steady\": {\"round_s\": 2}}")]).unwrap();
        assert!(plan("dd", &[]).is_err());
    }

    #[test]
    fn workloads_of_s3_have_gateways_and_whole_objects() {
        let plan = |change: &[(&str, &str)]| {
            let mut text = r#"{"version": 1, "name": "x", "seed": 1, "clusters": [
                {"name": "n", "engine": "nacre", "configuration": "a",
                 "s3": {"endpoint": "http://127.0.0.1:8333", "keys": "k"}}],
                "pools": [{"name": "b"}, {"name": "p"}],
                "workloads": [{"name": "w", "pool": "b", "tool": "nacre-s3", "warm_up_s": 1, "stop": {"duration_s": 5},
                  "groups": [{"name": "g", "object_bytes": 65536, "objects": 30, "operations": {"random_write": 100},
                              "instances": 2, "load": {"closed": {"queue_depth": 4}}}]}]}"#
                .to_owned();
            for (from, to) in change {
                assert!(text.contains(from), "{from}");
                text = text.replace(from, to);
            }
            Plan::from_json(&text)
        };
        let whole = plan(&[]).unwrap();
        assert_eq!(Plan::from_json(&whole.to_json()).unwrap(), whole);
        assert!(whole.is_bucket("b") && !whole.is_bucket("p"));
        let gateway = whole.clusters[0].s3.as_ref().unwrap();
        assert!(gateway.region == "us-east-1" && !gateway.signed_payload);
        let refused = |change: &[(&str, &str)], field: &str, words: &str| {
            let said = plan(change).unwrap_err().to_string();
            assert!(said.starts_with(field) && said.contains(words), "{said}");
        };
        let partial = ("\"objects\": 30", "\"objects\": 30, \"io_bytes\": 4096");
        refused(&[partial], "workloads[0].groups", "whole objects");
        plan(&[partial, ("random_write", "random_read")]).unwrap();
        let endpoint = ",\n                 \"s3\": {\"endpoint\": \"http://127.0.0.1:8333\", \"keys\": \"k\"}";
        refused(&[(endpoint, "")], "clusters[0].s3", "is missing");
        for wrong in ["ftp://h:1", "http://h", "http://:1", "https://h:x", "h:1"] {
            refused(&[("http://127.0.0.1:8333", wrong)], "clusters[0].s3.endpoint", "is neither http://HOST:PORT");
        }
        let with_ca = ("\"keys\": \"k\"", "\"ca\": \"ca.pem\"");
        refused(&[with_ca], "clusters[0].s3.ca", "is for an endpoint with https");
        let secure = plan(&[with_ca, ("http://", "https://")]).unwrap();
        let gateway = secure.clusters[0].s3.as_ref().unwrap();
        assert!(gateway.is_secure() && gateway.authority() == Some("127.0.0.1:8333"));
        assert_eq!(Plan::from_json(&secure.to_json()).unwrap(), secure);
        refused(&[("\"keys\": \"k\"", "\"region\": \"\"")], "clusters[0].s3.region", "no region");
        let made = "{\"name\": \"b\", \"pg_count\": 8, \"redundancy\": {\"replicated\": {\"size\": 3}}}";
        refused(&[("{\"name\": \"b\"}", made)], "workloads[0].pool", "the gateway chooses redundancy");
        let other = "\"workloads\": [{\"name\": \"o\", \"pool\": \"b\", \"warm_up_s\": 1, \"stop\": {\"duration_s\": 5}, \
                     \"groups\": [{\"name\": \"g\", \"object_bytes\": 4096, \"objects\": 1, \"instances\": 1, \
                     \"operations\": {\"random_write\": 100}, \"load\": {\"closed\": {\"queue_depth\": 1}}}]},";
        refused(&[("\"workloads\": [", other)], "workloads[1].pool", "a pool elsewhere");
        // Operations that only S3 has.
        let mixed = ("\"random_write\": 100", "\"head\": 50, \"delete\": 30, \"list\": 20");
        let made = plan(&[mixed]).unwrap();
        assert_eq!(Plan::from_json(&made.to_json()).unwrap(), made);
        assert!(made.workloads[0].groups[0].prefill() && !whole.to_json().contains("\"head\""));
        refused(&[mixed, partial], "workloads[0].groups", "whole objects");
        plan(&[("\"random_write\": 100", "\"head\": 80, \"list\": 20"), partial]).unwrap();
        refused(&[mixed, ("\"nacre-s3\"", "\"nacre\"")], "workloads[0].groups", "has neither head, delete nor list");
        refused(&[mixed, ("\"nacre-s3\"", "\"fio-rados\"")], "workloads[0].groups", "neither head, delete nor list");
        let keys = |count: &str| format!("\"objects\": 30, \"list_keys\": {count}");
        plan(&[mixed, ("\"objects\": 30", &keys("7"))]).unwrap();
        for wrong in ["0", "1001"] {
            refused(&[mixed, ("\"objects\": 30", &keys(wrong))], "workloads[0].groups[0].list_keys", "not within");
        }
        refused(&[("\"objects\": 30", &keys("7"))], "workloads[0].groups[0].list_keys", "lists nothing");
        let second = |name: &str| {
            let group = "{\"name\": \"NAME\", \"object_bytes\": 4096, \"objects\": 1, \"instances\": 1, \
                         \"operations\": {\"random_write\": 100}, \"load\": {\"closed\": {\"queue_depth\": 1}}}, ";
            format!("\"groups\": [{}", group.replace("NAME", name))
        };
        plan(&[mixed, ("\"groups\": [", &second("g1"))]).unwrap();
        plan(&[("\"groups\": [", &second("g.1"))]).unwrap();
        refused(&[mixed, ("\"groups\": [", &second("g.1"))], "workloads[0].groups[1].name", "is listed");
        let empty = ("\"objects\": 30", "\"objects\": 30, \"prefill\": false");
        refused(&[mixed, empty], "workloads[0].groups[0].prefill", "nothing to read");
    }
}
