//! Questions of Ceph's clients to a manager, asked of a cluster that has none.

use cluster_tests::{TestCluster, clients_are_here, python};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

const ASKS: &str = r#"
import json, os, rados, sys
cluster = rados.Rados(conffile=os.environ['CEPH_CONF'])
cluster.connect(timeout=60)
for command in [{'prefix': 'pg stat', 'format': 'json'}, {'prefix': 'osd df', 'format': 'json'}]:
    ret, out, status = cluster.mgr_command(json.dumps(command), b'', timeout=60)
    assert ret == 0, (ret, status)
    json.loads(out)
ret, out, status = cluster.mgr_command('{"prefix": "no such thing"}', b'', timeout=60)
assert ret == -22 and status.startswith('No handler found'), (ret, status)
cluster.shutdown()
print('answered')
"#;

/// A daemon of another service registers, tells how it is, and leaves.
const REGISTERS: &str = r#"
import json, os, rados, time

def connected():
    cluster = rados.Rados(conffile=os.environ['CEPH_CONF'])
    cluster.connect(timeout=60)
    return cluster

def until(holds, what):
    for _ in range(240):
        if holds():
            return
        time.sleep(0.5)
    raise SystemExit(what)

witness, daemon = connected(), connected()
def ask(prefix):
    ret, out, status = witness.mon_command(json.dumps({'prefix': prefix, 'format': 'json'}), b'', timeout=60)
    assert ret == 0, (ret, status)
    return json.loads(out)
def known():
    return ask('service dump')['services'].get('iscsi-gw', {}).get('daemons', {})
def said():
    return ask('service status').get('iscsi-gw', {}).get('gw1', {}).get('status')

daemon.service_daemon_register('iscsi-gw', 'gw1', {'id': 'gw1', 'daemon_type': 'gateway'})
until(lambda: 'gw1' in known(), 'it is not in the service map')
daemon.service_daemon_update({'state': 'serving', 'images': '3'})
until(lambda: said() == {'state': 'serving', 'images': '3'}, 'its status is not told')
ret, out, status = witness.mon_command(json.dumps({'prefix': 'status'}), b'', timeout=60)
assert b'    iscsi-gw: 1 gateway active (1 hosts)\n' in out, out
daemon.shutdown()
until(lambda: 'gw1' not in known(), 'it is still in the service map')
witness.shutdown()
print('registered')
"#;

/// A cluster, the pool that is asked about, and what is not to depend on whose cluster it is.
fn check(cluster: &TestCluster) {
    cluster.make_pool("p", 8, 2);
    let none = cluster.rados_within(&["list-inconsistent-pg", "p"], LIMIT).ok();
    assert_eq!(none.trim(), "[]");
    let stat = cluster.ceph_json(&["mgr", "stat"]);
    assert_eq!(stat["available"], true);
    let mut asks = cluster.command(python(), &["-c", ASKS]);
    let out = asks.output().expect("python runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut registers = cluster.command(python(), &["-c", REGISTERS]);
    let out = registers.output().expect("python runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let refused = cluster.rados_within(&["list-inconsistent-pg", "nothing"], LIMIT);
    assert!(!refused.failure().is_empty());
}

#[test]
fn managers_commands_are_answered_also_after_a_restart() {
    if !clients_are_here(&["ceph", "rados", "python3-rados"]) {
        return;
    }
    let cluster = TestCluster::start("manager", 3);
    check(&cluster);
    // A Ceph's manager knows other commands by this way.
    let stat = cluster.ceph(&["tell", "mgr", "pg", "stat"]).ok();
    assert!(stat.contains("active+clean"), "{stat}");
    cluster.down();
    cluster.up();
    let none = cluster.rados_within(&["list-inconsistent-pg", "p"], LIMIT).ok();
    assert_eq!(none.trim(), "[]");
}

#[test]
fn a_real_ceph_answers_the_same() {
    if !clients_are_here(&["ceph", "rados", "python3-rados", "ceph-osd"]) {
        return;
    }
    check(&TestCluster::start_ceph("manager-ceph", 3));
}
