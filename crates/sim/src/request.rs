//! Turns the workload's requests into messages, and reads their answers back.

use crate::content::{Content, OpId, WORD_BYTES};
use crate::history::{Answer, Ask, ObjectName, Usage};
use crate::model::{Change, Object, State};
use crate::values::{name, parsed, set_by, value};
use bytes::Bytes;
use client::Error;
use client::objecter::{Reply, Request, Subject};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, ObjectId, PoolId, SnapId, Utime};
use wire::basic::{Locator, SnapContext};
use wire::messages::listing::ObjectListing;
use wire::messages::op_data::{OmapValsOutput, StatOutput};
use wire::messages::{Op, OpFlags, OpReply, XattrArgs, op_flag};
use wire::{Decode, Target, Writer};

/// The namespace that stands for all namespaces in listings.
const ALL_NAMESPACES: &[u8] = b"\x01";
/// Number of objects in a page of a listing: few, so that listings take several pages.
const PAGE_OBJECTS: u64 = 3;
/// In runs with large operations, bytes that one operation may bring, write, or read.
pub(crate) const OP_BYTES_MAX: usize = 256 << 10;
/// Steps that one operation may have.
pub(crate) const STEPS_MAX: usize = 1024;
/// Key of an object's number in its omap; name of an object's lock; attribute that holds the lock.
const COUNT: &[u8] = b"count";
const LOCK: &[u8] = b"l";
const LOCK_ATTR: &[u8] = b"lock.l";
/// Attribute in which the class `version` keeps an object's version.
const VERSION_ATTR: &[u8] = b"ceph.objclass.version";

/// The message for request `ask` of operation `id`. `members`: flags for a read that tell which members may answer it.
pub(crate) fn request(
    pool: PoolId,
    id: OpId,
    object: ObjectName,
    ask: &Ask,
    members: OpFlags,
    mtime: Utime,
) -> Request {
    let locator = locator(pool, object);
    let subject = Subject::Object { locator, name: object.to_string().into() };
    let ops = match ask {
        Ask::Read | Ask::ReadAt(_) => {
            let omap = Op::omap_get_vals(Bytes::new(), 1000, Bytes::new());
            vec![Op::stat(), Op::read(0, 0), Op::get_xattrs(), omap]
        }
        Ask::Change(changes) => changes.iter().flat_map(|change| parts(pool, object, id, change)).collect(),
    };
    let mut request = Request::new(subject, ops, mtime);
    match ask {
        Ask::Read => request.flags = members,
        Ask::ReadAt(snap) => (request.flags, request.snap) = (members, SnapId(*snap)),
        Ask::Change(changes) => {
            // A class's method does not tell by its name that it changes the object.
            request.flags = request.flags | OpFlags::WRITE;
            if changes.first() == Some(&Change::NoSnaps) {
                let snap = SnapId(SnapId::LAST.0 + 1);
                request.snap_context = SnapContext { seq: snap, snaps: vec![snap] };
            }
            if let Some(Change::Knows { seq, without }) = changes.first() {
                let snaps = (1..=*seq).rev().filter(|snap| without >> snap & 1 == 0).map(SnapId).collect();
                request.snap_context = SnapContext { seq: SnapId(*seq), snaps };
            }
        }
    }
    request
}

fn locator(pool: PoolId, object: ObjectName) -> Locator {
    Locator { nspace: Bytes::from_static(object.nspace()), ..Locator::pool(pool) }
}

/// The steps for one change.
fn parts(pool: PoolId, object: ObjectName, id: OpId, change: &Change) -> Vec<Op> {
    match change {
        Change::Touch { times } => vec![Op::create(false); *times],
        change => part(pool, object, id, change).into_iter().collect(),
    }
}

/// Notes in the changes of operation `id` where it asks for more than one may. `request`: its message.
pub(crate) fn note_too_much(changes: &mut Vec<Change>, id: OpId, request: &Request) {
    let input_bytes: usize = request.ops.iter().map(|op| op.indata.len()).sum();
    if input_bytes > OP_BYTES_MAX || request.ops.len() > STEPS_MAX {
        return changes.insert(0, Change::TooMuch);
    }
    let mut written = 0;
    let is_too_much = |change: &Change| {
        written += written_bytes(change, id);
        written > OP_BYTES_MAX as u64
    };
    if let Some(index) = changes.iter().position(is_too_much) {
        changes.insert(index + 1, Change::TooMuch);
    }
}

/// Bytes that a change makes an operation write, as the operation's bound counts them.
fn written_bytes(change: &Change, id: OpId) -> u64 {
    match change {
        Change::WriteSame { words, times, .. } => words * times * WORD_BYTES,
        Change::Write { words, .. } | Change::WriteFull { words } => words * WORD_BYTES,
        Change::Append { words } | Change::AppendStripe { words } => words * WORD_BYTES,
        Change::SetAttr { attr } => value(*attr, id).len() as u64,
        Change::OmapSet { keys } => keys.iter().map(|key| (name(*key).len() + value(*key, id).len()) as u64).sum(),
        _ => 0,
    }
}

/// The operation for one change. `None`: the request tells it in another way.
fn part(pool: PoolId, object: ObjectName, id: OpId, change: &Change) -> Option<Op> {
    let copy_of =
        |source: ObjectName, snap| Op::copy_from(source.to_string().into(), locator(pool, source), SnapId(snap), 0);
    let lenient = |op: Op| Op { flags: op.flags | op_flag::FAILOK, ..op };
    let data = |words| Bytes::from(Content::written_by(id, words).to_bytes());
    Some(match change {
        Change::Knows { .. } | Change::NoSnaps | Change::TooMuch | Change::Touch { .. } => return None,
        Change::RollBack { snap } => Op::rollback(SnapId(*snap)),
        Change::Guard { attr, left_by } => guard(*attr, *left_by),
        Change::Ask { attr, left_by } => lenient(guard(*attr, *left_by)),
        Change::Peek { by_class: true } => lenient(Op::call_method("hello", "replay", b"")),
        Change::Peek { by_class: false } => lenient(Op::read(0, 0)),
        Change::CopyOwn { snap } => copy_of(object, *snap),
        Change::CopyLog => copy_of(ObjectName { usage: Usage::Log, ..object }, SnapId::HEAD.0),
        Change::WriteSame { at, words, times } => {
            Op::write_same(at * WORD_BYTES, words * times * WORD_BYTES, data(*words))
        }
        Change::Write { at, words } => Op::write(at * WORD_BYTES, data(*words)),
        Change::WriteFull { words } => Op::write_full(data(*words)),
        Change::Append { words } | Change::AppendStripe { words } => Op::append(data(*words)),
        Change::Truncate { words } => Op::truncate(words * WORD_BYTES),
        Change::Zero { at, words } => Op::zero(at * WORD_BYTES, words * WORD_BYTES),
        Change::Create { exclusive } => Op::create(*exclusive),
        Change::Remove => Op::delete(),
        Change::SetAttr { attr } => Op::set_xattr(&name(*attr), &value(*attr, id)),
        Change::RemoveAttr { attr } => Op::rm_xattr(&name(*attr)),
        Change::OmapSet { keys } => {
            let entries: BTreeMap<_, _> = keys.iter().map(|key| (name(*key).into(), value(*key, id).into())).collect();
            Op::omap_set_vals(&entries)
        }
        Change::OmapRemove { key } => Op::omap_rm_keys(&BTreeSet::from([name(*key).into()])),
        Change::OmapClear => Op::omap_clear(),
        Change::Count { by } => class_call("numops", "add", |w| {
            w.blob(COUNT);
            w.blob(by.to_string().as_bytes());
        }),
        Change::Lock => class_call("lock", "lock", |w| {
            const EXCLUSIVE: u8 = 1;
            w.versioned(1, 1, |w| {
                w.blob(LOCK);
                w.u8(EXCLUSIVE);
                // The lock's cookie, tag and description.
                (0..3).for_each(|_| w.blob(b""));
                w.put(&Utime::ZERO);
                w.u8(0);
            });
        }),
        Change::Version { at_least } => class_call("version", "inc_conds", |w| {
            const AT_LEAST: u32 = 3;
            let version = |w: &mut Writer, version: u64| {
                w.versioned(1, 1, |w| {
                    w.u64(version);
                    // The version's tag.
                    w.blob(b"");
                });
            };
            w.versioned(1, 1, |w| {
                version(w, 0);
                w.u32(1);
                w.versioned(1, 1, |w| {
                    version(w, *at_least);
                    w.u32(AT_LEAST);
                });
            });
        }),
        Change::Unlock => class_call("lock", "unlock", |w| {
            w.versioned(1, 1, |w| {
                w.blob(LOCK);
                w.blob(b"");
            });
        }),
    })
}

fn class_call(class: &str, method: &str, input: impl FnOnce(&mut Writer)) -> Op {
    let mut w = Writer::new(Target::default());
    input(&mut w);
    Op::call_method(class, method, &w.into_vec())
}

fn guard(attr: u8, left_by: OpId) -> Op {
    let expected = if left_by == 0 { Vec::new() } else { value(attr, left_by) };
    Op::cmp_xattr(&name(attr), &expected, XattrArgs::EQ)
}

/// The cluster's answer to `ask`.
///
/// Errors: a sentence about an answer that no correct cluster gives.
pub(crate) fn answer(ask: &Ask, result: Result<Reply, Error>) -> Result<Answer, String> {
    let reply = match result {
        Ok(reply) => reply,
        Err(Error::Errno(errno)) => return failed(ask, errno),
        Err(error) => return Err(format!("the objecter failed: {error}")),
    };
    if let Some(errno) = reply.error() {
        return failed(ask, errno);
    }
    match ask {
        Ask::Change(_) => Ok(Answer::Done),
        Ask::Read | Ask::ReadAt(_) => Ok(match object(&reply.parts)? {
            Some(object) => Answer::Seen(Some(object)),
            None => Answer::Failed(Errno::EMSGSIZE),
        }),
    }
}

fn failed(ask: &Ask, errno: Errno) -> Result<Answer, String> {
    match (ask, errno) {
        (Ask::Read | Ask::ReadAt(_), Errno::ENOENT) => Ok(Answer::Seen(State::None)),
        (Ask::Read | Ask::ReadAt(_), errno) if errno != Errno::EMSGSIZE => Err(format!("a read failed with {errno}")),
        (Ask::Change(changes), Errno::ETIMEDOUT) if changes.iter().any(Change::copies) => Ok(Answer::Failed(errno)),
        // Which bound is met first is the cluster's affair.
        (_, Errno::EMSGSIZE | Errno::EFBIG | Errno::E2BIG) => Ok(Answer::Failed(Errno::EMSGSIZE)),
        (Ask::Change(changes), Errno::EINVAL) if changes.contains(&Change::NoSnaps) => Ok(Answer::Failed(errno)),
        (_, Errno::ENAMETOOLONG) => Ok(Answer::Failed(errno)),
        (_, Errno::ENOENT | Errno::EEXIST | Errno::ECANCELED | Errno::EOPNOTSUPP | Errno::EBUSY) => {
            Ok(Answer::Failed(errno))
        }
        (_, errno) => Err(format!("a change failed with {errno}")),
    }
}

/// `None`: the omap has more than an operation may give beside the rest.
fn object(parts: &[OpReply]) -> Result<Option<Object>, String> {
    let [stat, data, attrs, omap] = parts else { return Err(format!("{} parts answered of 4", parts.len())) };
    let stat: StatOutput = decoded(stat)?;
    let data = data.outdata.clone().into_bytes();
    if stat.size_bytes != data.len() as u64 {
        return Err(format!("an object of {} bytes gives {} bytes", stat.size_bytes, data.len()));
    }
    let content = Content::from_bytes(&data).ok_or_else(|| format!("{} bytes are no whole words", data.len()))?;
    let mut attrs: BTreeMap<Bytes, Bytes> = decoded(attrs)?;
    attrs.remove(LOCK_ATTR);
    let version = attrs.remove(VERSION_ATTR).map(|bytes| version_in(&bytes)).transpose()?;
    let omap: OmapValsOutput = decoded(omap)?;
    if omap.truncated {
        return Ok(None);
    }
    let (counts, entries): (Vec<_>, Vec<_>) = omap.entries.into_iter().partition(|(key, _)| key == COUNT);
    let count =
        counts.first().map(|(_, text)| text).map(|text| parsed(text).ok_or_else(|| format!("{text:?} is no number")));
    let (attrs, omap) = (names_and_values(attrs)?, names_and_values(entries)?);
    Ok(Some(Object { content, attrs, omap, count: count.transpose()?, version, locked_by: None }))
}

fn version_in(bytes: &Bytes) -> Result<u64, String> {
    let mut reader = wire::Reader::shared(bytes);
    let version = reader.versioned("version", 1).and_then(|(_, mut r)| r.u64());
    version.map_err(|e| format!("a version cannot be read: {e}"))
}

fn names_and_values(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> Result<BTreeMap<u8, OpId>, String> {
    let entry = |(key, value): (Bytes, Bytes)| {
        let number = key.strip_prefix(b"n").and_then(|key| key.split(|byte| *byte == b'_').next());
        let name: Option<u8> = number.and_then(parsed).filter(|number| name(*number) == key);
        let number = name.and_then(|name| Some((name, set_by(name, &value)?)));
        number.ok_or_else(|| format!("{key:?} = {value:?} was never set"))
    };
    entries.into_iter().map(entry).collect()
}

fn decoded<T: Decode>(part: &OpReply) -> Result<T, String> {
    let bytes = part.outdata.clone().into_bytes();
    T::decode(&mut wire::Reader::shared(&bytes)).map_err(|e| format!("output cannot be read: {e}"))
}

/// A request for the page of a listing that begins at `cursor`.
pub(crate) fn page_request(pool: PoolId, cursor: &ObjectId) -> Request {
    let nspace = Bytes::from_static(ALL_NAMESPACES);
    let subject = Subject::Group { pool, nspace, hash: cursor.hash };
    let mut request = Request::new(subject, vec![Op::pg_nls(cursor, PAGE_OBJECTS, 0)], Utime::ZERO);
    request.flags = OpFlags::PGOP | OpFlags::IGNORE_OVERLAY;
    request
}

/// The page, with the place where the next one begins.
pub(crate) fn page(result: Result<Reply, Error>) -> Result<ObjectListing, String> {
    let reply = result.map_err(|error| format!("a listing failed: {error}"))?;
    match (reply.error(), &reply.parts[..]) {
        (Some(errno), _) => Err(format!("a listing failed: {errno}")),
        (None, [part]) => decoded(part),
        (None, parts) => Err(format!("a listing of {} parts", parts.len())),
    }
}
