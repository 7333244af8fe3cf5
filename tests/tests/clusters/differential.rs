//! Updates with guards and random operations, sent by the same programs to Nacre and to a real Ceph: answers, and what
//! objects hold at the end.

use cluster_tests::{TestCluster, clients_are_here, python, recorded_of_ceph, said_by_ceph};
use serde_json::Value;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);

/// `NACRE_DIFFERENTIAL=n`: so many operations instead of the usual number.
const OPERATIONS: u32 = 4000;
/// `NACRE_DIFFERENTIAL_SEED=n`: others than usual. `NACRE_DIFFERENTIAL_TRIMS=1`: forgotten snapshots are trimmed
/// meanwhile.
const SEED: &str = "1";

/// Answers that may differ, and why.
struct Allowed {
    contains: String,
    nacre_ends: String,
    ceph_ends: String,
    why: String,
}

/// `tests/python/allowed_differences.json`.
fn allowed() -> Vec<Allowed> {
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/python/allowed_differences.json");
    let list: Value = serde_json::from_str(&std::fs::read_to_string(list).expect("the list")).expect("JSON");
    let rules = list.as_array().expect("a list").iter().filter(|rule| rule["script"] == "differential.py");
    let rule = |rule: &Value| {
        let [contains, nacre_ends, ceph_ends, why] = ["contains", "nacre_ends", "ceph_ends", "why"]
            .map(|field| rule[field].as_str().unwrap_or_else(|| panic!("{rule}: {field}")).to_owned());
        Allowed { contains, nacre_ends, ceph_ends, why }
    };
    rules.map(rule).collect()
}

impl Allowed {
    fn covers(&self, ours: &str, cephs: &str) -> bool {
        let both = [(ours, &self.nacre_ends), (cephs, &self.ceph_ends)];
        let [ours, cephs] = both.map(|(line, end)| line.contains(&self.contains).then(|| line.strip_suffix(end)));
        // Up to there they are equal.
        ours.is_some() && ours.flatten().is_some() && ours == cephs
    }
}

#[test]
fn random_operations_are_answered_as_by_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let operations = match std::env::var("NACRE_DIFFERENTIAL") {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("NACRE_DIFFERENTIAL={number} is not a number")),
        Err(_) => OPERATIONS,
    };
    let (count, operations) = (operations as usize, operations.to_string());
    let seed = std::env::var("NACRE_DIFFERENTIAL_SEED").unwrap_or(SEED.to_owned());
    let mut arguments = vec!["p", &seed, &operations, "8"];
    arguments.extend(std::env::var_os("NACRE_DIFFERENTIAL_TRIMS").map(|_| "trims"));
    let run = |cluster: TestCluster| {
        cluster.ceph(&["osd", "pool", "create", "p", "8"]).ok();
        cluster.wait_until_clean(LIMIT);
        answers(&cluster, &arguments)
    };
    let ceph = || run(TestCluster::start_ceph("random-ceph", 3));
    let is_usual = operations == OPERATIONS.to_string() && seed == SEED && arguments.len() == 4;
    let cephs = if is_usual { said_by_ceph("differential", ceph) } else { ceph() };
    let ours = run(TestCluster::start("random", 3));
    assert!(ours.lines().count() > count, "{ours}");
    assert_alike(&ours, &cephs);
}

/// The operations that replicated pools of a Ceph take are answered so on an erasure-coded one, too.
#[test]
fn random_operations_on_an_erasure_coded_pool_are_answered_as_by_ceph() {
    if !clients_are_here(&["ceph", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("random-coded", 3);
    cluster.make_coded_pool("p", 8, 2, 1);
    let ours = answers(&cluster, &["p", SEED, &OPERATIONS.to_string(), "8"]);
    assert_alike(&ours, &recorded_of_ceph("differential"));
}

/// Runs the scripts on the pool `p`.
fn answers(cluster: &TestCluster, arguments: &[&str]) -> String {
    let run = |script: &str, arguments: &[&str]| {
        let script = format!("{}/python/{script}", env!("CARGO_MANIFEST_DIR"));
        cluster_tests::run(cluster.command(python(), &[&[&*script], arguments].concat()), LIMIT).ok()
    };
    run("guards.py", &["p"]) + &run("differential.py", arguments)
}

/// Compares line by line. Answers may differ where a rule says so.
fn assert_alike(ours: &str, cephs: &str) {
    let allowed = allowed();
    let mut excused = 0;
    for (line, (ours, cephs)) in ours.lines().zip(cephs.lines()).enumerate() {
        if ours == cephs {
            continue;
        }
        match allowed.iter().find(|rule| rule.covers(ours, cephs)) {
            Some(rule) => {
                excused += 1;
                eprintln!("line {line} may differ: {}", rule.why);
            }
            None => panic!("line {line}\nNacre {ours}\nCeph  {cephs}"),
        }
    }
    assert_eq!(ours.lines().count(), cephs.lines().count());
    eprintln!("{} lines, {excused} answers differ as they may", ours.lines().count());
}
