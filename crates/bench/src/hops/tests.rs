use super::*;
use serde_json::json;

fn nacre(tid: u64, sampled: bool, replicas_us: u64, last: i32) -> Value {
    let total = 160 + replicas_us;
    let member = |osd: i32, acked: u64, own: u64| {
        let write = own - 5;
        json!({"osd": osd, "acked_us": acked, "receive_us": 0, "queue_us": 5, "write_us": write, "flush_us": 0})
    };
    json!({
        "reqid": format!("client.4123.0:{tid}"), "client": "client.4123", "tid": tid, "pg": "3.1f", "pool": 3,
        "object": "o", "what": "write 0~4096", "write": true, "bytes": 4096, "result": 0, "sampled": sampled,
        "began": format!("2026-11-21T21:34:{:02}.000000+0000", tid % 60), "age_us": 1000, "total_us": total,
        "waited_for": [],
        "hops": {"answer": 10, "receive": 0, "wait": 0, "lookup": 0, "read": 0, "queue": 50, "write": 60, "flush": 40,
            "replicas": replicas_us},
        "executed_us": 0, "durable_us": 150, "last_member": last,
        "members": [member(last, 150 + replicas_us, 105), member(7, 140, 100)],
    })
}

#[test]
fn what_nacre_tells_becomes_a_breakdown() {
    let recent: Vec<Value> = (0..100).map(|n| nacre(n, true, 50 + n, if n < 80 { 2 } else { 1 })).collect();
    // One sample is slow as well; another slow operation is no sample.
    let slowest = vec![recent[99].clone(), nacre(1000, false, 900_000, 4)];
    let dump = json!({"version": 1, "osd": 0, "one_op_kept_in": 8, "recent": recent, "slowest": slowest});
    let ops = kept_by_nacre(&dump).unwrap();
    assert_eq!(ops.len(), 101);
    assert!(ops.iter().all(|op| op.hops.iter().map(|(_, us)| us).sum::<u64>() == op.total_us));
    let chosen: Vec<&OpHops> = ops.iter().filter(|op| op.sampled).collect();
    let breakdown = Breakdown::of(&chosen).unwrap();
    assert_eq!((breakdown.ops, breakdown.median_us, breakdown.p99_us), (100, 260, 308));
    let rows: Vec<(&str, u64)> = breakdown.rows.iter().map(|row| (row.hop.as_str(), row.median_us)).collect();
    assert_eq!(rows, [("queue", 50), ("write", 60), ("flush", 40), ("replicas", 100), ("answer", 10)]);
    assert!((breakdown.rows.iter().map(|row| row.share).sum::<f64>() - 1.0).abs() < 1e-9);
    let last = breakdown.last_member.as_ref().unwrap();
    assert_eq!(last.times, [(2, 80), (1, 20)].into());
    let network = last.rows.iter().find(|row| row.hop == "network").unwrap();
    assert_eq!(network.median_us, 150 + 100 - 105);
    assert_eq!(breakdown.verdict().unwrap(), "most time goes into replicas (38 %), of that most into network");
    let table = breakdown_table(&breakdown);
    let words = |name: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).expect("a line");
        line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words("replicas"), ["replicas", "100", "148", "38.3", "%"]);
    assert_eq!(words("all"), ["all", "260", "308", "100.0", "%"]);
    assert!(table.contains("last to have the update: osd.2 80 %, osd.1 20 %"), "{table}");
    let text = timeline(ops.last().unwrap());
    assert!(text.contains("took 900160 us") && text.contains("last to have it: osd.4"), "{text}");
    assert_eq!(Breakdown::of(&[]), None);
}

/// Builds Ceph 16.2's answer about an operation with these events, and reads it.
fn of_ceph(description: &str, events: &[(&str, &str)]) -> Vec<OpHops> {
    let event = |(event, seconds): &(&str, &str)| {
        let time = format!("2026-11-21T21:34:{seconds}+0000");
        json!({"event": event, "time": time, "duration": 0})
    };
    let op = |description: &str| {
        json!({
            "description": description, "initiated_at": "2026-11-21T21:34:35.000000+0000", "age": 2.5,
            "duration": 0.0049,
            "type_data": {
                "flag_point": "commit sent; apply or cleanup",
                "events": events.iter().map(event).collect::<Vec<_>>(),
            },
        })
    };
    let of_another = op("osd_repop(client.4123.0:1 1.0 e11/10 1:18137794:::a:head v 11'1)");
    kept_by_ceph(5, &json!({"size": 20, "duration": 600, "ops": [op(description), of_another]})).unwrap()
}

const CEPH_WRITE: &str = "osd_op(client.4123.0:1 1.3 1:e9a5352a:::b:head [writefull 0~4096] snapc 0=[] \
                          ondisk+write+known_if_redirected e11)";

#[test]
fn what_ceph_tells_becomes_hops_between_its_events() {
    let events = [
        ("initiated", "35.000000"),
        ("throttled", "34.999999"),
        ("all_read", "35.000100"),
        ("reached_pg", "35.000150"),
        ("op must wait for map", "35.000150"),
        ("reached_pg", "35.000180"),
        ("started", "35.000200"),
        ("waiting for subops from 1,2", "35.000300"),
        ("op_commit", "35.003200"),
        ("sub_op_commit_rec", "35.004800"),
        ("sub_op_commit_rec", "35.004850"),
        ("done", "35.004900"),
    ];
    let ops = of_ceph(CEPH_WRITE, &events);
    let [op] = &ops[..] else { panic!("{ops:?}") };
    assert_eq!((op.osd, op.reqid.as_str(), op.pg.as_str(), op.object.as_str()), (5, "client.4123.0:1", "1.3", "b"));
    assert_eq!((op.pool, op.write, op.total_us, op.what.as_str()), (Some(1), true, 4900, "writefull 0~4096"));
    assert!(!op.sampled, "it may have been kept for being slow");
    let hops: Vec<(&str, u64)> = op.hops.iter().map(|(hop, us)| (hop.as_str(), *us)).collect();
    let expected = [
        ("throttled", 0),
        ("all_read", 101),
        ("reached_pg", 50),
        ("op must wait for map", 0),
        ("op must wait for map", 30),
        ("started", 20),
        ("waiting for subops", 100),
        ("op_commit", 2900),
        ("sub_op_commit_rec", 1600),
        ("sub_op_commit_rec", 50),
        ("done", 50),
    ];
    assert_eq!(hops, expected);
    let breakdown = Breakdown::of(&[op]).unwrap();
    assert_eq!(breakdown.verdict().unwrap(), "most time goes into op_commit (59 %)");
    let waited = breakdown.rows.iter().find(|row| row.hop == "sub_op_commit_rec").unwrap();
    assert_eq!(waited.median_us, 1650, "what bears the same name is added up");
    let text = timeline(op);
    assert!(text.contains("  op must wait for map         30 us "), "{text}");
    assert!(kept_by_ceph(5, &json!({})).is_err());
}

#[test]
fn who_was_last_is_told_where_ceph_says_so() {
    let check = |from: &str, committed: [&str; 2], expected: Option<i32>| {
        let waiting = format!("waiting for subops from {from}");
        let events = [("initiated", "35.0"), (&waiting, "35.1"), (committed[0], "35.2"), (committed[1], "35.3")];
        let ops = of_ceph(CEPH_WRITE, &events);
        assert_eq!(ops[0].last_member, expected, "{from} {committed:?}");
        let times = Breakdown::of(&[&ops[0]]).unwrap().last_member.unwrap().times;
        assert_eq!(times, expected.map(|osd| (if osd == 5 { -1 } else { osd }, 1)).into_iter().collect());
    };
    check("1,2", ["sub_op_commit_rec", "op_commit"], Some(5));
    check("1,2", ["op_commit", "sub_op_commit_rec"], None);
    check("2", ["op_commit", "sub_op_commit_rec"], Some(2));
    check("1,2", ["op_commit", "sub_op_commit_rec from osd.2"], Some(2));
}

#[test]
fn answers_that_are_no_answers_are_refused() {
    assert_eq!(
        kept_by_nacre(&json!({"osd": 3})).unwrap_err().to_string(),
        "what osd.3 tells of its operations has no recent"
    );
    let mut bad = nacre(1, true, 1, 1);
    bad["total_us"] = json!("long");
    assert!(kept_by_nacre(&json!({"osd": 3, "recent": [bad], "slowest": []})).is_err());
}
