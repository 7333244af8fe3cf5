//! A client that watches an object gets each notification, or the notifier gets its name.

use super::Violation;
use crate::watching::{ANSWER_TIME, Notification, NotifyOutcome, Watch, Witnessed};
use std::collections::BTreeMap;
use std::time::Duration;

/// Checks all clients' watches and notifications, once everything is over.
pub fn watchers_are_told<'a>(clients: impl Iterator<Item = &'a Witnessed> + Clone) -> Result<(), Violation> {
    let watches: Vec<&Watch> = clients.clone().flat_map(|client| client.watches.values()).collect();
    let told: BTreeMap<(u64, u64), Duration> =
        clients.clone().flat_map(|c| c.told.iter().map(|(k, v)| (*k, *v))).collect();
    for notification in clients.flat_map(|client| &client.notifications) {
        check(notification, &watches, &told).map_err(|why| Violation(format!("{notification}: a watcher {why}")))?;
    }
    Ok(())
}

fn check(notification: &Notification, watches: &[&Watch], told: &BTreeMap<(u64, u64), Duration>) -> Result<(), String> {
    let Some(NotifyOutcome { at, result, answered, late }) = &notification.answer else {
        return Err("was never answered for".to_owned());
    };
    for watcher in answered {
        // An OSD must not answer in a watcher's name.
        if told.get(&(notification.id, watcher.1)).is_none_or(|told| told > at) {
            return Err(format!("{watcher:?} is said to have answered and was not told"));
        }
    }
    if late.is_empty() != (*result == 0) {
        return Err(format!("is late, or none is, and the result is {result}"));
    }
    // OSDs' clocks run at rates of their own, so a tenth less is allowed.
    if !late.is_empty() && *at < notification.asked + ANSWER_TIME * 9 / 10 {
        return Err(format!("is called late after {:?}", *at - notification.asked));
    }
    if notification.is_calm && !late.is_empty() {
        return Err(format!("does not answer though nothing is wrong: {late:?}"));
    }
    for watch in watches.iter().filter(|watch| watch.object == notification.object) {
        let is_named = answered.contains(&watch.watcher) || late.contains(&watch.watcher);
        let watched = !watch.lost
            && watch.since.is_some_and(|since| since < notification.asked)
            && watch.until.is_none_or(|until| until > *at);
        if watched && !is_named {
            return Err(format!("{:?} was passed over", watch.watcher));
        }
        if watch.gone.is_some_and(|gone| gone < notification.asked) && is_named {
            return Err(format!("{:?} is named that had gone before", watch.watcher));
        }
    }
    Ok(())
}
