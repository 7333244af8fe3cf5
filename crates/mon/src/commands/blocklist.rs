//! `ceph osd blocklist`: clients that are locked out.

use super::command::Command;
use super::context::{Context, with_status};
use super::{Answer, Format, Reply, done, refuse};
use serde_json::{Value, json};
use std::time::Duration;
use types::{Errno, Utime};
use wire::EntityAddr;
use wire::addr::AddrKind;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd blocklist {range:String,goodchars=[range],req=false} {blocklistop:Choices,strings=add|rm} \
         {addr:EntityAddr} \
         {expire:Float,range=0.0,req=false}",
        "rw",
        "lock a client out, or let it in again",
        |c| change(c, "blocklistop", "blocklist"),
    ),
    Command::new(
        "osd blacklist {blacklistop:Choices,strings=add|rm} {addr:EntityAddr} {expire:Float,range=0.0,req=false}",
        "rw",
        "lock a client out, or let it in again",
        |c| change(c, "blacklistop", "blocklist"),
    ),
    Command::new("osd blocklist ls", "r", "list clients that are locked out", list),
    Command::new("osd blacklist ls", "r", "list clients that are locked out", list),
    Command::new("osd blocklist clear", "rw", "let all clients in again", clear),
    Command::new("osd blacklist clear", "rw", "let all clients in again", clear),
];

/// Seconds of a lock-out, unless the command or an option gives another number.
const EXPIRE_SECONDS: f64 = 3600.0;
/// Most seconds of a lock-out: longer than any cluster lives, and still a stamp.
const EXPIRE_SECONDS_MAX: f64 = 1e9;

fn change(c: &Context<'_>, op: &str, word: &str) -> Answer {
    let text = c.args.word("addr");
    let range = c.args.has("range");
    let addr = if range { parse_range(text)? } else { EntityAddr { kind: AddrKind::ANY, ..parse(text)? } };
    let shown = addr.to_string();
    let entries = if range { &c.map().range_blocklist } else { &c.map().blocklist };
    if c.args.word(op) == "add" {
        let configured = c.state.mon_number("mon_osd_blocklist_default_expire").filter(|seconds: &f64| *seconds >= 0.0);
        let seconds = c.args.float("expire").or(configured).unwrap_or(EXPIRE_SECONDS).min(EXPIRE_SECONDS_MAX);
        let until = Utime::from_unix(c.request.now.to_unix() + Duration::from_secs_f64(seconds));
        let status = format!("{word}ing {shown} until {until} ({seconds} sec)");
        return c.change_map(status, |incremental| {
            let new = if range { &mut incremental.new_range_blocklist } else { &mut incremental.new_blocklist };
            new.insert(addr, until);
        });
    }
    if !entries.contains_key(&addr) {
        return done(format!("{shown} isn't {word}ed"));
    }
    c.change_map(format!("un-{word}ing {shown}"), |incremental| {
        let old = if range { &mut incremental.old_range_blocklist } else { &mut incremental.old_blocklist };
        old.push(addr);
    })
}

fn parse(text: &str) -> Result<EntityAddr, Reply> {
    let addr = EntityAddr::parse(text, AddrKind::MSGR2).ok().filter(|addr| addr.ip().is_some());
    addr.ok_or_else(|| Reply::error(Errno::EINVAL, format!("unable to parse address {text}")))
}

/// Reads `network/bits`; the bits stand where an address has its nonce. A range without bits would be all addresses
/// there are.
fn parse_range(text: &str) -> Result<EntityAddr, Reply> {
    let addr = parse(text)?;
    let bits_max = if addr.ip().is_some_and(|ip| ip.is_ipv4()) { 32 } else { 128 };
    match addr.nonce {
        0 => {
            let sentence = format!("You specified a range command, but {addr} does not parse as a CIDR range");
            refuse(Errno::EINVAL, sentence)
        }
        bits if bits > bits_max => refuse(Errno::EINVAL, "Too many bits in range for that protocol!"),
        _ => Ok(EntityAddr { kind: AddrKind::CIDR, ..addr }),
    }
}

fn list(c: &Context<'_>) -> Answer {
    let (single, ranges) = (&c.map().blocklist, &c.map().range_blocklist);
    let entries = || single.iter().chain(ranges);
    let text = || -> String { entries().map(|(addr, until)| format!("{addr} {until}\n")).collect() };
    let addrs = || -> Value {
        single.iter().map(|(addr, until)| json!({"addr": addr.to_string(), "until": until.to_string()})).collect()
    };
    let networks = || -> Value {
        let bare = |addr: &EntityAddr| EntityAddr { kind: AddrKind::ANY, ..*addr }.to_string();
        ranges.iter().map(|(addr, until)| json!({"range": bare(addr), "until": until.to_string()})).collect()
    };
    let answer = match c.format {
        Format::Plain => c.text(text()),
        format if format.is_xml() => {
            let part =
                |root, value| super::xml::render_as(root, "osd blocklist ls", value, format == Format::XmlPretty);
            c.text(part("blocklist", &addrs()) + &part("range_blocklist", &networks()))
        }
        // Ceph prints two arrays, one behind the other, which many programs cannot read. The second one is left out
        // where it is empty.
        format if ranges.is_empty() => c.text(format.render(&addrs())),
        format => c.text(format!("{}{}", format.render(&addrs()), format.render(&networks()))),
    };
    with_status(answer, format!("listed {} entries", entries().count()))
}

fn clear(c: &Context<'_>) -> Answer {
    let reply: Reply = Reply::status(" removed all blocklist entries");
    c.change_map(reply.status, |incremental| {
        incremental.old_blocklist.extend(c.map().blocklist.keys().copied());
        incremental.old_range_blocklist.extend(c.map().range_blocklist.keys().copied());
    })
}
