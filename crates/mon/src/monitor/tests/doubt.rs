//! A monitor that was made the only one, and may not have heard of everything.

use super::harness::*;
use super::prelude::*;
use serde_json::json;
use wire::nacre::mon::doubt;

#[test]
fn a_record_that_may_be_behind_is_told_late_and_counts_again_once_all_is_there_and_confirmed() {
    let mut before = Harness::new();
    let client = before.client();
    for id in 0..3 {
        before.boot(id);
    }
    before.pool_op(client, msg::PoolOpKind::CREATE, 0, "x");
    let mut state = before.monitor.state().clone();
    state.in_doubt = true;
    for group in before.map().pgs().collect::<Vec<_>>() {
        state.pgs.entry(group).or_default().doubt = doubt::BEHIND;
    }
    let mut h = Harness::continuing(state, before.log);
    let client = h.client();
    let pgid = PgId::new(1, 5);
    let acting = h.map().pg_to_up_acting(pgid).unwrap().acting;
    let primary = h.open(EntityType::OSD, acting[0].0.into());
    let ask = |h: &mut Harness| {
        let epoch = h.map().epoch;
        h.say(primary, nacre::PgHistoryGet { epoch, pgs: vec![pgid] });
        h.heard::<nacre::PgHistoryReply>(primary).pop().expect("an answer").pgs
    };
    assert_eq!(ask(&mut h), [], "OSDs that this monitor does not know may come");
    h.pass(secs(10));
    assert_eq!(ask(&mut h), []);
    for id in 0..3 {
        let session = h.open(EntityType::OSD, id.into());
        h.beacon(session, id, Vec::new());
    }
    h.pass(secs(11));
    let told = ask(&mut h).pop().expect("it is told now");
    assert_eq!((told.doubt, told.last_epoch_started), (doubt::BEHIND, Epoch(0)));
    let since = h.map().epoch;
    let mut record = |recovered: bool| {
        let (acting, members, member_shards) = (acting.clone(), acting.clone(), Vec::new());
        let pgs = vec![nacre::PgActivation {
            pgid,
            interval_since: since,
            acting,
            members,
            recovered,
            member_shards,
            basis: Some(Epoch(0)),
        }];
        h.say(primary, nacre::PgActivate { epoch: since, pgs });
        h.heard::<nacre::PgActivated>(primary).pop().expect("an answer").pgs[0].doubt
    };
    assert_eq!(record(false), doubt::BEHIND, "others may have what members lack");
    assert_eq!(record(true), doubt::UNCONFIRMED);
    let confirm = json!({"prefix": "mon confirm-survivor", "yes_i_really_mean_it": true}).to_string();
    assert_eq!(h.command(client, &confirm).result, 0);
    assert_eq!(ask(&mut h).pop().map(|told| told.doubt), Some(doubt::NONE));
    // The log alone gives this state as well.
    let index = h.log.len() as u64;
    let batch = Batch::from_slice(&h.log[index as usize - 1].1).unwrap();
    assert_eq!(batch.to_vec(Target::PACIFIC), h.log[index as usize - 1].1);
    assert!(batch.updates.contains(&crate::update::Update::Confirmed));
}
