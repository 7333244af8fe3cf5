//! Every `ceph` command that Nacre answers, on a cluster with data in it, in plain text and as JSON.

use cluster_tests::{TestCluster, clients_are_here, run, wait_until};
use std::time::Duration;

/// Commands that only look.
const QUERIES: &str = "
status; health; health detail; versions; df; df detail; fsid; mon dump; mon stat; quorum_status; mon metadata; mgr dump; mgr stat
osd tree; osd dump; osd ls; osd stat; osd df; osd df tree; osd find 1; osd metadata; osd metadata 1; osd map p object; osd perf
osd pool ls; osd pool ls detail; osd lspools; osd pool get p size; osd pool get p all; osd pool stats; osd pool stats p
osd pool application get; osd pool application get p; osd pool autoscale-status; osd ok-to-stop 1
osd crush rule ls; osd crush rule dump; osd crush tree; osd crush dump; osd crush class ls; osd crush get-device-class 0
pg stat; pg dump; pg dump pgs_brief; pg dump summary; pg ls; pg ls-by-pool p; pg ls-by-osd 0; pg ls-by-primary 0; pg map 1.0
config get mon.a; config dump; config-key ls; config-key dump; auth ls; auth get client.admin; auth get-key client.admin
balancer status; balancer ls; mgr metadata; mgr versions; log last; log last 5; osd blocklist ls; osd utilization; osd getmaxosd; features; time-sync-status; mgr module ls
osd erasure-code-profile ls; osd numa-status; node ls; report; tell osd.0 version; tell osd.* version; tell mon.a version
osd crush class ls-osd ssd; osd ls-tree default; osd crush ls default
";

/// Commands that change something, in an order that leaves the cluster as it was.
const CHANGES: &str = "
osd pool create q 8; osd pool rename q r; osd pool set r size 2; osd pool application enable r rbd
osd pool application set r rbd k v; osd pool application rm r rbd k; osd pool set-quota r max_objects 10; osd pool get-quota r
osd pool application disable r rbd --yes-i-really-mean-it; osd pool delete r r --yes-i-really-really-mean-it
osd set noout; osd unset noout; osd set norebalance; osd unset norebalance; osd set norecover; osd unset norecover
osd set nobackfill; osd unset nobackfill; osd set noscrub; osd unset noscrub; osd set pause; osd unset pause
osd set-nearfull-ratio 0.86; osd set-backfillfull-ratio 0.91; osd set-full-ratio 0.96
osd set-nearfull-ratio 0.85; osd set-backfillfull-ratio 0.9; osd set-full-ratio 0.95
osd set-require-min-compat-client mimic; osd reweight 0 0.9; osd reweight 0 1; osd out 1; osd in 1; osd primary-affinity 0 1
osd crush add-bucket rack1 rack; osd crush move rack1 root=default; osd crush rename-bucket rack1 rack2; osd crush rm rack2
osd crush rule create-replicated fast default osd; osd crush rule rm fast; osd crush reweight osd.0 0.00391; osd crush add osd.0 0.00391 host=host0 root=default
osd crush weight-set create-compat; osd crush weight-set reweight-compat osd.0 0.00391; osd crush weight-set rm-compat
osd crush rm-device-class osd.2; osd crush set-device-class ssd osd.2
config set osd debug_osd 5; config rm osd debug_osd; config-key set k v; config-key get k; config-key exists k; config-key rm k
auth get-or-create client.x mon allow\\ r; auth caps client.x mon allow\\ rw; auth rm client.x; osd blocklist add 10.0.0.1; osd blocklist rm 10.0.0.1
osd new 01234567-89ab-cdef-0123-456789abcdef; osd purge 3 --yes-i-really-mean-it; log hello; balancer off
pg force-recovery 1.0; pg cancel-force-backfill 1.0 1.1; osd pool force-backfill p; osd pool cancel-force-recovery p; pg repeer 1.0
osd pg-temp 1.1 0 1; osd pg-temp 1.1; osd primary-temp 1.0 1; osd rm-primary-temp 1.0
";

/// Commands that must be refused, with a word of the sentence that says why.
const REFUSED: [(&str, &str); 16] = [
    ("osd safe-to-destroy 1", "mapped"),
    ("no such command", "invalid command"),
    ("osd pool get nopool size", "unrecognized pool"),
    ("osd pool set p size many", "p"),
    ("osd pool set p no_such_setting 1", "no_such_setting"),
    ("osd pool delete p p", "WARNING"),
    ("osd pool delete p q --yes-i-really-really-mean-it", "twice"),
    ("osd out 77x", "77x"),
    ("osd find 77", "77"),
    ("osd crush reweight osd.77 1", "osd.77"),
    ("osd crush rule dump nothing", "nothing"),
    ("auth get client.nobody", "client.nobody"),
    ("pg map 99.0", "99.0"),
    ("pg repeer 99.0", "99.0"),
    ("pg force-recovery 99.0", "99.0"),
    ("osd pg-temp 1.0 77", "osd.77"),
];

fn commands(text: &str) -> impl Iterator<Item = Vec<String>> {
    text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let kept = line.replace("\\ ", "\u{1}");
        kept.split(' ').map(|word| word.replace('\u{1}', " ")).collect()
    })
}

#[test]
fn every_command_answers() {
    if !clients_are_here(&["ceph", "rados"]) {
        return;
    }
    let cluster = TestCluster::start("commands", 3);
    cluster.make_pool("p", 8, 3);
    cluster.rados(&["-p", "p", "bench", "1", "write", "-b", "4096", "--no-cleanup"]).ok();
    let mut wrong = Vec::new();
    for command in commands(QUERIES) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let plain = cluster.ceph(&words);
        if !plain.succeeded() || (plain.stdout.trim().is_empty() && plain.stderr.trim().is_empty()) {
            wrong.push(format!("{}: {plain:?}", command.join(" ")));
        }
        let json = cluster.ceph(&[&words[..], &["--format", "json"]].concat());
        // Some answer every daemon in turn, and some with a sentence only.
        let readable = json.stdout.trim().is_empty() && !json.stderr.trim().is_empty()
            || command[0] == "tell"
            || serde_json::from_str::<serde_json::Value>(&json.stdout).is_ok();
        if !json.succeeded() || !readable {
            wrong.push(format!("{} as JSON: {json:?}", command.join(" ")));
        }
    }
    for command in commands(CHANGES) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let outcome = cluster.ceph(&words);
        if !outcome.succeeded() {
            wrong.push(format!("{outcome:?}"));
        }
    }
    // By a program that is started anew each time, as users do.
    for (command, word) in REFUSED {
        let words: Vec<_> = command.split(' ').collect();
        let outcome = run(cluster.command("ceph", &words), Duration::from_secs(120));
        if outcome.succeeded() || !outcome.stderr.contains(word) {
            wrong.push(format!("refused otherwise: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} commands go wrong:\n{}", wrong.len(), wrong.join("\n"));
    cluster.wait_until_clean(Duration::from_secs(30));
    // Some of the commands leave warnings until daemons have told of themselves.
    wait_until("nothing is left to warn of", Duration::from_secs(60), || {
        let health = cluster.ceph(&["health", "detail"]).ok();
        eprint!("{health}");
        health.starts_with("HEALTH_OK")
    });
}
