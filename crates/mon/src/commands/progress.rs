//! Bars of events that move objects, and of tasks about images.

use super::Answer;
use super::context::Context;
use super::image_tasks::{self, TaskEvent};
use super::units;
use crate::volatile::ProgressEvent;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Characters between the brackets.
const BAR_WIDTH: usize = 28;

/// Returns the remaining time to the nearest second.
fn remaining(c: &Context<'_>, event: &ProgressEvent) -> Option<Duration> {
    let left = event.remaining(c.request.now)?;
    Some(Duration::from_secs(left.saturating_add(Duration::from_millis(500)).as_secs()))
}

fn remaining_text(c: &Context<'_>, event: &ProgressEvent) -> String {
    remaining(c, event).map(|left| format!(" (remaining: {})", units::age(left))).unwrap_or_default()
}

fn title(c: &Context<'_>, event: &ProgressEvent) -> String {
    format!("{} ({})", event.message, units::age(c.since(event.began)))
}

/// Returns two lines for each event, or nothing.
fn lines(c: &Context<'_>) -> String {
    let one = |title: String, share: f64, remaining: String| {
        let done = ((share * BAR_WIDTH as f64) as usize).min(BAR_WIDTH);
        let (done, left) = ("=".repeat(done), ".".repeat(BAR_WIDTH - done));
        format!("    {title}\n      [{done}{left}]{remaining}\n")
    };
    let moves = &c.volatile.progress.events;
    let moves = moves.iter().map(|event| one(title(c, event), event.share(), remaining_text(c, event)));
    let tasks = image_tasks::events(c).into_iter().map(|task| one(task_title(c, &task), task.share, String::new()));
    moves.chain(tasks).collect()
}

fn task_title(c: &Context<'_>, task: &TaskEvent) -> String {
    format!("{} ({})", task.message, units::age(c.since(task.began)))
}

/// Option that leaves all that out of `ceph -s`.
const ENABLED: &str = "mgr/progress/enabled";

fn is_enabled(c: &Context<'_>) -> bool {
    c.state.manager_option(&c.volatile.name, ENABLED) != Some("false")
}

/// Shows events in `ceph -s`, or hides them.
pub(super) fn enable(c: &Context<'_>, on: bool) -> Answer {
    let word = if on { "enabled" } else { "disabled" };
    if is_enabled(c) == on {
        return super::done(format!("progress already {word}!"));
    }
    let (who, name) = ("mgr".to_owned(), ENABLED.to_owned());
    let update = crate::Update::Config { who, name, value: Some(on.to_string()) };
    c.propose(vec![update], super::Reply::status(format!("progress {word}")))
}

/// Does nothing: events follow from the state of groups and end when the groups are clean, so there is nothing to
/// forget.
pub(super) fn clear(_: &Context<'_>) -> Answer {
    super::done("")
}

/// Returns the progress part of `ceph -s`.
pub(super) fn status_text(c: &Context<'_>) -> String {
    let lines = if is_enabled(c) { lines(c) } else { String::new() };
    if lines.is_empty() { lines } else { format!(" \n  progress:\n{lines}") }
}

/// Returns the progress part of `ceph -s` as a value.
pub(super) fn status_value(c: &Context<'_>) -> Value {
    let one = |event: &ProgressEvent| {
        let message = format!("{}{}", title(c, event), remaining_text(c, event));
        (event.id.to_string(), json!({"message": message, "progress": event.share(), "add_to_ceph_s": true}))
    };
    let task = |task: TaskEvent| {
        let shown = json!({"message": task_title(c, &task), "progress": task.share, "add_to_ceph_s": true});
        (task.id, shown)
    };
    if !is_enabled(c) {
        return json!({});
    }
    let moves = c.volatile.progress.events.iter().map(one);
    Value::Object(moves.chain(image_tasks::events(c).into_iter().map(task)).collect::<Map<_, _>>())
}

pub(super) fn print(c: &Context<'_>) -> Answer {
    let text = lines(c);
    if text.is_empty() { super::done("Nothing in progress") } else { c.text(text) }
}

pub(super) fn json(c: &Context<'_>) -> Answer {
    let seconds = |at: types::Utime| at.to_unix().as_secs_f64();
    let one = |event: &ProgressEvent| {
        json!({
            "duration": format!("({})", units::age(c.since(event.began))),
            "id": event.id.to_string(),
            "message": event.message,
            "progress": event.share(),
            "refs": [],
            "started_at": seconds(event.began),
            "time_remaining": remaining(c, event).map(|left| left.as_secs()),
        })
    };
    let task = |task: TaskEvent| {
        json!({
            "duration": format!("({})", units::age(c.since(task.began))),
            "id": task.id,
            "message": task.message,
            "progress": task.share,
            "refs": task.refs,
            "started_at": seconds(task.began),
            "time_remaining": null,
        })
    };
    let tasks = image_tasks::events(c).into_iter().map(task);
    let events: Vec<Value> = c.volatile.progress.events.iter().map(one).chain(tasks).collect();
    let ended = |(event, at): &(ProgressEvent, types::Utime)| {
        // The first key is Ceph's, with its colon.
        json!({
            "add_to_ceph_s:": true,
            "finished_at": seconds(*at),
            "id": event.id.to_string(),
            "message": event.message,
            "refs": [],
            "started_at": seconds(event.began),
        })
    };
    let ended_task = |task: TaskEvent| {
        let (at, failure) = task.ended.unwrap_or_default();
        let mut fields = json!({
            "add_to_ceph_s:": true,
            "finished_at": seconds(at),
            "id": task.id,
            "message": task.message,
            "refs": task.refs,
            "started_at": seconds(task.began),
        });
        if !failure.is_empty() {
            fields["failed"] = json!(true);
            fields["failure_message"] = json!(failure);
        }
        fields
    };
    let tasks = image_tasks::ended_events(c).into_iter().map(ended_task);
    let completed: Vec<Value> = c.volatile.progress.completed.iter().map(ended).chain(tasks).collect();
    c.value(json!({"completed": completed, "events": events}))
}
