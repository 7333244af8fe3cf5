use serde_json::json;

use super::yaml::parse;
use super::*;
use crate::plan::{Load, Stop};
use crate::tool::Tool;

const FILE: &str = r#"# Objects, then images.
cluster:
  user: 'perf'
  head: "perf@head"   # runs the tool
  clients: ["c1", "c2"]
  osds: [ "o1" ]
  mons:
    o1:
      a: "10.0.0.1:6789"
  osds_per_node: 4
  conf_file: '/etc/ceph/ceph.conf'
  iterations: 3
  rebuild_every_test: False
  use_existing: True
  clusterid: ceph
  tmp_dir: "/tmp/t"
  pool_profiles:
    three:
      pg_size: 256
      pgp_size: 256
      replication: 3
    coded:
      pg_size: 128
      pgp_size: 128
      replication: 'erasure'
      erasure_profile: 'ec42'
  erasure_profiles:
    ec42: {erasure_k: 4, erasure_m: 2}
benchmarks:
  radosbench:
    op_size: [ 4194304, 65536 ]
    write_only: False
    time: 60
    concurrent_ops: [ 16, 128 ]
    concurrent_procs: 2
    use_existing: True
    pool_profile: coded
  librbdfio:
    time: 30
    ramp: 5
    vol_size: 1024
    mode: ['randwrite', 'randrw']
    rwmixread: [70]
    op_size: [4096]
    procs_per_volume: [1]
    volumes_per_client: [2]
    iodepth:
    - 8
    - 32
    cmd_path: '/usr/bin/fio'
    pool_profile: three
"#;

fn changed(from: &str, to: &str) -> Result<Translated, CbtError> {
    assert!(FILE.contains(from), "{from}");
    translate("t", &FILE.replacen(from, to, 1), vec![])
}

#[test]
fn lists_multiply() {
    let Translated { plan, configuration, .. } = translate("t", FILE, vec![]).unwrap();
    let names: Vec<&str> = plan.workloads.iter().map(|workload| workload.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "radosbench-4194304-4x16-write",
            "radosbench-4194304-4x16-seq",
            "radosbench-4194304-4x128-write",
            "radosbench-4194304-4x128-seq",
            "radosbench-65536-4x16-write",
            "radosbench-65536-4x16-seq",
            "radosbench-65536-4x128-write",
            "radosbench-65536-4x128-seq",
            "librbdfio-randwrite-4096-4x8-1024m",
            "librbdfio-randwrite-4096-4x32-1024m",
            "librbdfio-randrw70-4096-4x8-1024m",
            "librbdfio-randrw70-4096-4x32-1024m",
        ]
    );
    assert_eq!((plan.iterations, configuration.as_deref()), (3, Some("/etc/ceph/ceph.conf")));
    let pools: Vec<_> = plan.pools.iter().map(|pool| (pool.name.as_str(), pool.to_make().unwrap())).collect();
    assert_eq!(
        pools,
        [("coded", (Redundancy::Erasure { k: 4, m: 2 }, 128)), ("three", (Redundancy::Replicated { size: 3 }, 256))]
    );
    let deep = &plan.workloads[3];
    assert_eq!((deep.tool, &deep.stop), (Tool::Nacre, &Stop::DurationS(60.0)));
    let group = &deep.groups[0];
    assert_eq!((group.instances, group.load, group.object_bytes), (4, Load::Closed { queue_depth: 128 }, 4 << 20));
    assert_eq!((group.objects, group.operations.sequential_read), (512, 100), "a place for each worker");
    let images = &plan.workloads[11];
    assert_eq!((images.tool, images.groups.len(), images.warm_up_s), (Tool::NacreRbd, 4, 5.0));
    let group = &images.groups[3];
    assert_eq!((group.objects, group.io_bytes(), group.prefill()), (256, 4096, true));
    assert_eq!((group.operations.random_read, group.operations.random_write), (70, 30));
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
}

#[test]
fn clusters_that_are_named_go_before_the_files_own() {
    let ours = Cluster::new("n", Engine::Nacre, "n/ceph.conf");
    assert_eq!(translate("t", FILE, vec![ours.clone()]).unwrap().plan.clusters, [ours]);
    let own = &translate("t", FILE, vec![]).unwrap().plan.clusters;
    assert_eq!((own[0].engine, own[0].configuration.as_str()), (Engine::Ceph, "/etc/ceph/ceph.conf"));
}

#[test]
fn options_without_effect_are_told() {
    let told = translate("t", FILE, vec![]).unwrap().without_effect;
    for path in ["cluster.user", "cluster.mons", "cluster.tmp_dir", "benchmarks.librbdfio.cmd_path"] {
        assert!(told.iter().any(|one| one == path), "{told:?}");
    }
    assert!(!told.iter().any(|one| one.contains("op_size") || one.contains("iterations")), "{told:?}");
    // The file's configuration has an effect unless other clusters are named.
    let conf_file = "cluster.conf_file".to_owned();
    assert!(!told.contains(&conf_file), "{told:?}");
    let other = Cluster::new("n", Engine::Nacre, "n/ceph.conf");
    assert!(translate("t", FILE, vec![other]).unwrap().without_effect.contains(&conf_file));
}

#[test]
fn what_would_change_the_load_is_refused_in_one_message() {
    let text = FILE
        .replace("  use_existing: True\n  clusterid", "  recovery_test: {osds: [1]}\n  clusterid")
        .replace("    ramp: 5\n", "    rate_iops: 100\n    numjobs: 4\n")
        .replace("    write_only: False\n", "    write_omap: True\n    pool_per_proc: True\n")
        + "  cosbench:\n    x: 1\nother: 2\n";
    let error = translate("t", &text, vec![]).unwrap_err().to_string();
    assert_eq!(
        error,
        "not supported here: other, cluster.recovery_test, benchmarks.radosbench.write_omap, \
         benchmarks.radosbench.pool_per_proc, benchmarks.librbdfio.rate_iops, \
         benchmarks.librbdfio.numjobs other than 1, benchmarks.cosbench"
    );
}

#[test]
fn values_that_cannot_be_run_are_named() {
    for (from, to, words) in [
        ("op_size: [ 4194304, 65536 ]", "op_size: [ big ]", "benchmarks.radosbench.op_size: \"big\" is not a whole"),
        ("mode: ['randwrite', 'randrw']", "mode: trim", "benchmarks.librbdfio.mode: \"trim\" is not a mode"),
        ("    time: 60\n", "    time: []\n", "benchmarks.radosbench.time: [] is not a number"),
        ("    ramp: 5\n", "    ramp: []\n", "benchmarks.librbdfio.ramp: [] is not a number"),
        ("pool_profile: coded", "pool_profile: none-such", "pool_profiles.none-such"),
        ("ec42: {", "ec43: {", "erasure_profiles.ec42"),
        ("write_only: False", "write_only: 3", "write_only: 3 is not True or False"),
        ("pg_size: 256", "pg_size: 100", "100 is not a power of two"),
        ("iterations: 3", "iterations: 0", "iterations: 0 is not within"),
        ("rwmixread: [70]", "rwmixread: [170]", "the percentages add up to 170"),
        ("cluster:\n", "clusters:\n", "cluster is missing"),
        ("    time: 60\n", "   time: 60\n", "line 33: it is indented under"),
    ] {
        let error = changed(from, to).unwrap_err().to_string();
        assert!(error.contains(words), "{to}: {error}");
    }
}

#[test]
fn yaml_that_is_read() {
    let text =
        "a: 1\nb:\n  - x\n  - [1, 'y, z', {k: v}]\nc: {d: \"#no\", e: }\nf: don't # yes\n'g h': ~\ni: 4.5\nj: a:b\n";
    assert_eq!(
        parse(text).unwrap(),
        json!({"a": 1, "b": ["x", [1, "y, z", {"k": "v"}]], "c": {"d": "#no", "e": null}, "f": "don't", "g h": null,
               "i": 4.5, "j": "a:b"})
    );
    assert_eq!(parse("---\n# nothing\n").unwrap(), json!({}));
    assert_eq!(parse("a:\n- 1\n- 2\nb: True\n").unwrap(), json!({"a": [1, 2], "b": true}));
}

#[test]
fn yaml_that_is_not_read_is_refused_with_its_line() {
    for (text, line) in [
        ("a: &x 1\n", 1),
        ("a: |\n  text\n", 1),
        ("a: 1\na: 2\n", 2),
        ("a: 1\n  b: 2\n", 2),
        ("a:\n    b: 1\n  c: 2\n", 3),
        ("a\n", 1),
        ("a: [1, 2\n", 1),
        ("a: [1,, 2]\n", 1),
        ("a: 'x\n", 1),
        ("\ta: 1\n", 1),
        ("a: 1\n---\nb: 1\n", 2),
        ("a:\n  - b: 1\n", 2),
        ("a: \"\\x41\"\n", 1),
        ("a: 1\n- b\n", 2),
        ("a: [1]]\n", 1),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
    let deep = "[".repeat(10_000);
    assert!(parse(&format!("a: {deep}")).is_err());
    assert!(parse(&format!("a: {deep}{}", "]".repeat(10_000))).is_err());
    let deep: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(parse(&deep).is_err());
}
