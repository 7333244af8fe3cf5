//! Clients that are locked out for a time.

use super::harness::*;

#[test]
fn lock_outs_end_when_their_time_is_over() {
    let mut h = Harness::new();
    let client = h.client();
    let mut add = |word: &str, addr: &str, seconds: u32| {
        let json =
            format!(r#"{{"prefix":"osd blocklist",{word}"blocklistop":"add","addr":"{addr}","expire":{seconds}.0}}"#);
        assert_eq!(h.command(client, &json).result, 0, "{addr}");
    };
    add("", "10.0.0.1:0/7", 20);
    add("", "10.0.0.2:0/7", 600);
    add(r#""range":"range","#, "10.1.0.0/16", 20);
    assert_eq!((h.map().blocklist.len(), h.map().range_blocklist.len()), (2, 1));
    h.pass(secs(10));
    assert_eq!((h.map().blocklist.len(), h.map().range_blocklist.len()), (2, 1));
    h.pass(secs(15));
    assert_eq!((h.map().blocklist.len(), h.map().range_blocklist.len()), (1, 0));
    let epoch = h.map().epoch;
    h.pass(secs(60));
    assert_eq!(h.map().epoch, epoch, "there is nothing more to do");
    // A client that is locked out again meanwhile stays so.
    let mut add = |seconds: u32| {
        let json =
            format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.3:0/7","expire":{seconds}.0}}"#);
        assert_eq!(h.command(client, &json).result, 0);
    };
    add(20);
    add(600);
    h.pass(secs(60));
    assert_eq!(h.map().blocklist.len(), 2);
}
