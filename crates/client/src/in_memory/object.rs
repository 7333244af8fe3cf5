//! An object of the cluster in memory: its present state, its clones for snapshots, and the operations on it.

use bytes::Bytes;
use cls::{Called, Caller, Object, Stat, Stop};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use types::{Errno, SnapId, Utime};
use wire::messages::{Op, OpArgs, OpCode, OpReply, OsdOp, op_data, op_flag};
use wire::{Encode, Rope, Target};

/// One state of an object.
#[derive(Clone, Default)]
pub struct Content {
    pub data: Vec<u8>,
    attrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    omap_header: Bytes,
}

/// An object, which may exist in snapshots only.
#[derive(Clone, Default)]
pub struct Stored {
    pub head: Option<Content>,
    /// The newest snapshot sequence number that the object was written under.
    seq: u64,
    /// Former states by the newest snapshot that shows them, each with the list of snapshots that show it.
    clones: BTreeMap<u64, (Vec<u64>, Content)>,
    pub version: u64,
}

/// Outcome of an operation on one object.
pub struct Executed {
    pub result: i32,
    pub parts: Vec<OpReply>,
}

/// Caller and time of an operation.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub caller: Caller,
    pub now: Utime,
    pub removed_snaps: &'a BTreeSet<u64>,
    /// Number of the operation, counted by the cluster.
    pub number: u64,
}

impl Stored {
    /// The state that a snapshot shows, or the present state.
    fn at(&self, snap: SnapId) -> Option<&Content> {
        if snap == SnapId::HEAD || snap.0 > self.seq {
            return self.head.as_ref();
        }
        let (_, (snaps, content)) = self.clones.range(snap.0..).next()?;
        snaps.contains(&snap.0).then_some(content)
    }

    /// Carries out an operation whose parts need only the object: all parts or none.
    pub fn execute(&mut self, op: &OsdOp, may_write: bool, context: Context<'_>) -> Executed {
        let mut executed = Executed { result: 0, parts: Vec::new() };
        if !may_write && self.at(op.snap).is_none() {
            executed.result = Errno::ENOENT.as_result();
            return executed;
        }
        let before = self.at(op.snap).cloned();
        let mut work = before.clone();
        for part in &op.ops {
            let reply = |result, outdata| OpReply {
                code: part.code,
                flags: part.flags,
                args: part.args,
                result,
                outdata: Rope::from(outdata),
            };
            let kept = work.clone();
            match self.part(part, &before, &mut work, op, context) {
                Ok((result, output)) => executed.parts.push(reply(result, output)),
                Err((errno, output)) => {
                    executed.parts.push(reply(errno.as_result(), output));
                    work = kept;
                    if part.flags & op_flag::FAILOK == 0 {
                        executed.result = errno.as_result();
                        return executed;
                    }
                }
            }
        }
        if may_write {
            let snaps: Vec<u64> = op.snaps.iter().map(|snap| snap.0).collect();
            let newer = snaps.into_iter().filter(|snap| *snap > self.seq && !context.removed_snaps.contains(snap));
            let newer: Vec<u64> = newer.collect();
            if let (Some(newest), Some(head)) = (newer.first(), self.head.take()) {
                self.clones.insert(*newest, (newer.clone(), head));
            }
            self.seq = self.seq.max(op.snap_seq.0);
            self.head = work;
            self.version += 1;
            if self.head.is_none() && self.clones.is_empty() {
                // Neither a head nor a clone is left that could keep the sequence number.
                self.seq = 0;
            }
        }
        executed
    }

    fn part(
        &self,
        part: &Op,
        before: &Option<Content>,
        work: &mut Option<Content>,
        op: &OsdOp,
        context: Context<'_>,
    ) -> Result<(i32, Bytes), (Errno, Bytes)> {
        let fails = |errno| Err((errno, Bytes::new()));
        let extent = part.args.extent().unwrap_or_default();
        let (from, len) = (extent.offset as usize, extent.length as usize);
        let done = Ok((0, Bytes::new()));
        match part.code {
            OpCode::READ => match work {
                Some(content) => {
                    let end = if len == 0 { usize::MAX } else { from + len }.min(content.data.len());
                    Ok((0, Bytes::copy_from_slice(content.data.get(from..end).unwrap_or_default())))
                }
                None => fails(Errno::ENOENT),
            },
            OpCode::STAT => match work {
                Some(content) => {
                    let stat = op_data::StatOutput { size_bytes: content.data.len() as u64, mtime: context.now };
                    Ok((0, stat.to_vec(Target::default()).into()))
                }
                None => fails(Errno::ENOENT),
            },
            OpCode::WRITE => {
                write(work.get_or_insert_default(), from, &part.indata.to_vec());
                done
            }
            OpCode::WRITEFULL => {
                work.get_or_insert_default().data = part.indata.to_vec();
                done
            }
            OpCode::CREATE if part.flags & op_flag::EXCL != 0 && work.is_some() => fails(Errno::EEXIST),
            OpCode::CREATE => {
                work.get_or_insert_default();
                done
            }
            OpCode::TRUNCATE => {
                if let Some(content) = work {
                    content.data.resize(from, 0);
                }
                done
            }
            OpCode::ZERO => {
                if let Some(content) = work {
                    let end = content.data.len().min(from + len);
                    content.data[from.min(end)..end].fill(0);
                }
                done
            }
            OpCode::DELETE => match work.take() {
                Some(_) => done,
                None => fails(Errno::ENOENT),
            },
            OpCode::ROLLBACK => {
                let OpArgs::Snap(snap) = part.args else { return fails(Errno::EINVAL) };
                *work = self.at(snap).cloned();
                done
            }
            OpCode::SETALLOCHINT => {
                work.get_or_insert_default();
                done
            }
            OpCode::CALL => {
                let OpArgs::Call(call) = part.args else { return fails(Errno::EINVAL) };
                let bytes = part.indata.to_vec();
                let (class, rest) = bytes.split_at(call.class_len.into());
                let (method, input) = rest.split_at(call.method_len.into());
                let method = cls::find(class, method).map_err(|errno| (errno, Bytes::new()))?;
                if method.writes && !op.flags.has(wire::messages::OpFlags::WRITE) {
                    return fails(Errno::EINVAL);
                }
                let mut running = Running { before, work, context, seq: self.seq };
                match method.call(&mut running, input) {
                    Called::Ended { value, output } => match Errno::from_result(value) {
                        None => Ok((value, output)),
                        Some(errno) => Err((errno, output)),
                    },
                    Called::Pending => unreachable!("nothing has to wait in memory"),
                }
            }
            _ => fails(Errno::EOPNOTSUPP),
        }
    }
}

fn write(content: &mut Content, from: usize, bytes: &[u8]) {
    let end = from + bytes.len();
    content.data.resize(content.data.len().max(end), 0);
    content.data[from..end].copy_from_slice(bytes);
}

/// A class method being run. Its reads see the object as it was before the operation.
struct Running<'a> {
    before: &'a Option<Content>,
    work: &'a mut Option<Content>,
    context: Context<'a>,
    seq: u64,
}

impl Running<'_> {
    fn work(&mut self) -> &mut Content {
        self.work.get_or_insert_default()
    }
}

impl Object for Running<'_> {
    fn caller(&self) -> Caller {
        self.context.caller
    }

    fn now(&self) -> Utime {
        self.context.now
    }

    fn update_id(&self) -> String {
        format!("{:016}", self.context.number)
    }

    fn random(&mut self) -> u64 {
        self.context.number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn snap_seq(&self) -> u64 {
        self.seq
    }

    fn stat(&mut self) -> Result<Option<Stat>, Stop> {
        let stat = |content: &Content| Stat { size: content.data.len() as u64, mtime: self.context.now };
        Ok(self.work.as_ref().map(stat))
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let data = self.before.as_ref().map(|content| &content.data[..]).unwrap_or_default();
        let from = (offset as usize).min(data.len());
        let len = if len == 0 { usize::MAX } else { len as usize };
        Ok(Bytes::copy_from_slice(&data[from..][..len.min(data.len() - from)]))
    }

    fn attr(&mut self, name: &str) -> Result<Option<Bytes>, Stop> {
        Ok(self.attrs()?.get(name.as_bytes()).cloned())
    }

    fn attrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        self.before.as_ref().map(|content| content.attrs.clone()).ok_or_else(|| Errno::ENOENT.into())
    }

    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        Ok(self.before.as_ref().map(|content| content.omap_header.clone()).unwrap_or_default())
    }

    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        Ok(self.before.as_ref().and_then(|content| content.omap.get(key).cloned()))
    }

    fn omap_list(&mut self, after: &[u8], prefix: &[u8], max: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let none = BTreeMap::new();
        let omap = self.before.as_ref().map_or(&none, |content| &content.omap);
        let behind = omap.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded));
        let mut matching = behind.filter(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone()));
        let page = matching.by_ref().take(max).collect();
        Ok((page, matching.next().is_some()))
    }

    fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        if exclusive && self.work.is_some() {
            return Err(Errno::EEXIST.into());
        }
        self.work();
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Stop> {
        match self.work.take() {
            Some(_) => Ok(()),
            None => Err(Errno::ENOENT.into()),
        }
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        write(self.work(), offset as usize, &data);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        self.work().data = data[..].to_vec();
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.work().data.resize(size as usize, 0);
        Ok(())
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let data = &mut self.work().data;
        let end = data.len().min((offset + len) as usize);
        data[(offset as usize).min(end)..end].fill(0);
        Ok(())
    }

    fn set_attr(&mut self, name: &str, value: Bytes) -> Result<(), Stop> {
        self.work().attrs.insert(Bytes::copy_from_slice(name.as_bytes()), value);
        Ok(())
    }

    fn remove_attr(&mut self, name: &str) -> Result<(), Stop> {
        self.work().attrs.remove(name.as_bytes());
        Ok(())
    }

    fn omap_set(&mut self, entries: Vec<(Bytes, Bytes)>) -> Result<(), Stop> {
        self.work().omap.extend(entries);
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        self.work().omap.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn omap_remove_range(&mut self, from: Bytes, to: Bytes) -> Result<(), Stop> {
        self.work().omap.retain(|key, _| *key < from || *key >= to);
        Ok(())
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        self.work().omap_header = header;
        Ok(())
    }
}
