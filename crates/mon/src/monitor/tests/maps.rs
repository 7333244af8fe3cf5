//! Peers that are behind.

use super::harness::*;
use super::prelude::*;

#[test]
fn a_peer_far_behind_gets_batches() {
    let mut h = Harness::new();
    h.boot(0);
    for i in 0..2000u32 {
        h.change(|incremental| {
            incremental.new_weight.insert(OsdId(0), 1 + i);
        });
    }
    let client = h.client();
    let newest = h.map().epoch;
    h.say(client, subscribe(&[("osdmap", 1, false)]));
    let messages = h.heard::<msg::OsdMap>(client);
    let mut map: Option<OsdMap> = None;
    for message in &messages {
        assert!(message.incrementals.len() <= 40);
        for full in message.fulls.values() {
            map = Some(OsdMap::from_slice(full).unwrap());
        }
        for bytes in message.incrementals.values() {
            let incremental = Incremental::from_slice(bytes).unwrap();
            map.as_mut().expect("a full map first").apply(&incremental).unwrap();
        }
    }
    assert_eq!(map.as_ref(), Some(h.map()));
    let maps = &h.monitor.state().osdmaps;
    assert!(maps.oldest() > Epoch(1) && newest.0 - maps.oldest().0 >= 500, "old increments are dropped");
    let (middle, before) = (Epoch(newest.0 - 77), Epoch(newest.0 - 78));
    let mut rebuilt = OsdMap::from_slice(&maps.full(before).unwrap()).unwrap();
    rebuilt.apply(&Incremental::from_slice(&maps.incremental(middle).unwrap()).unwrap()).unwrap();
    assert_eq!(OsdMap::from_slice(&maps.full(middle).unwrap()).unwrap(), rebuilt);
    // A request for one answer gets one message.
    h.say(client, subscribe(&[("osdmap", u64::from(maps_oldest(&h).0), true)]));
    assert_eq!(h.heard::<msg::OsdMap>(client).len(), 1);
}

fn maps_oldest(h: &Harness) -> Epoch {
    h.monitor.state().osdmaps.oldest()
}

#[test]
fn an_osd_far_behind_gets_as_many_maps_as_it_can_handle_and_asks_for_the_next() {
    let mut h = Harness::new();
    h.boot(0);
    let behind = h.map().epoch;
    for i in 0..300u32 {
        h.change(|incremental| {
            incremental.new_weight.insert(OsdId(0), 1 + i);
        });
    }
    let osd = h.open(EntityType::OSD, 0);
    let mut have = behind;
    let mut others = 0;
    while have < h.map().epoch {
        h.say(osd, subscribe(&[("osdmap", u64::from(have.next().0), false)]));
        let messages = h.heard::<msg::OsdMap>(osd);
        assert_eq!(messages.len(), 1, "after {have}");
        assert_eq!(messages[0].newest, h.map().epoch, "it sees that there is more");
        assert_eq!(messages[0].incrementals.keys().next(), Some(&have.next()));
        assert!(messages[0].incrementals.len() <= 40);
        have = messages[0].last();
        // Maps that come meanwhile are sent unasked, and nothing else.
        if others < 3 {
            others += 1;
            let before = h.map().epoch;
            h.boot(others);
            let news = h.heard::<msg::OsdMap>(osd);
            let epochs = news.iter().flat_map(|message| message.incrementals.keys().map(|epoch| epoch.0));
            assert_eq!(epochs.collect::<Vec<_>>(), (before.0 + 1..=h.map().epoch.0).collect::<Vec<_>>());
        }
    }
    assert!(have.0 - behind.0 >= 300);
}
