//! Steps that call a method of an object class.

use super::execute::{Execution, OpStop, StepOutput};
use bytes::Bytes;
use cls::{Called, Caller, Method, Stat};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, Utime};
use wire::Rope;
use wire::messages::{Op, OpArgs, OpCode, OsdOp};

/// Returns the class and method that a step calls, and its input. EINVAL if the lengths do not fit what there is.
fn parts(op: &Op) -> Result<(&'static Method, Bytes), Errno> {
    let OpArgs::Call(args) = op.args else { return Err(Errno::EINVAL) };
    let (class_len, method_len) = (usize::from(args.class_len), usize::from(args.method_len));
    let data = op.indata.clone().into_bytes();
    let input_at = class_len + method_len;
    if input_at + args.indata_len as usize > data.len() {
        return Err(Errno::EINVAL);
    }
    let method = cls::find(&data[..class_len], &data[class_len..input_at])?;
    Ok((method, data.slice(input_at..input_at + args.indata_len as usize)))
}

/// Returns the class and the method that a step calls, if it calls one that there is.
pub(crate) fn class_and_method(op: &Op) -> Option<(String, &'static Method)> {
    let (method, OpArgs::Call(args)) = (parts(op).ok()?.0, op.args) else { return None };
    let data = op.indata.clone().into_bytes();
    let class = String::from_utf8_lossy(&data[..usize::from(args.class_len)]).into_owned();
    Some((class, method))
}

/// Returns true if an operation may change its object: by its steps, or by the methods that they call.
pub(crate) fn may_write(op: &OsdOp) -> bool {
    let calls_writer = |op: &Op| op.code == OpCode::CALL && parts(op).is_ok_and(|(method, _)| method.writes);
    op.may_write() || op.ops.iter().any(calls_writer)
}

/// Returns why an operation cannot be carried out because of what it calls.
pub(crate) fn refused_call(op: &OsdOp) -> Option<Errno> {
    op.ops.iter().filter(|op| op.code == OpCode::CALL).find_map(|op| parts(op).err())
}

impl Execution<'_> {
    pub(super) fn call(&mut self, op: &Op) -> StepOutput {
        let (method, input) = parts(op)?;
        let (before, bytes_before) = (self.progress(), self.answers.bytes());
        let mut target = Target { run: self, waits_for: None };
        match method.call(&mut target, &input) {
            Called::Pending => Err(target.waits_for.take().expect("something has to wait")),
            Called::Ended { value, output } => {
                if value < 0 {
                    // All changes of a failed method are dropped, even if the operation goes on in spite of the
                    // failure.
                    self.go_back(before);
                } else if let Err(too_much) = self.take_output(output.len(), bytes_before) {
                    self.go_back(before);
                    return Err(too_much.into());
                }
                Ok((value, Rope::from(output)))
            }
        }
    }
}

impl Execution<'_> {
    /// Counts the output of a method, unless it is what it has read since there were `bytes_before`.
    fn take_output(&mut self, len: usize, bytes_before: usize) -> Result<(), Errno> {
        let read = self.answers.bytes() - bytes_before;
        self.answers.take(len.saturating_sub(read) as u64)
    }
}

/// The object as a method sees it.
struct Target<'a, 'b> {
    run: &'a mut Execution<'b>,
    /// The stop for which the method was ended before it was done.
    waits_for: Option<OpStop>,
}

impl Target<'_, '_> {
    /// Returns a step's outcome as methods have them.
    fn outcome<T>(&mut self, result: Result<T, OpStop>) -> Result<T, cls::Stop> {
        match result {
            Ok(value) => Ok(value),
            Err(OpStop::Failed(errno)) => Err(errno.into()),
            Err(OpStop::Result(result)) => Err(Errno(-result).into()),
            Err(wait) => {
                self.waits_for = Some(wait);
                Err(cls::Stop::Pending)
            }
        }
    }

    /// Attributes as methods have them: an object that this operation has made has none.
    fn seen<T: Default>(&self, attrs: Result<T, Errno>) -> Result<T, cls::Stop> {
        if self.run.exists { Ok(attrs.unwrap_or_default()) } else { attrs.map_err(cls::Stop::from) }
    }

    /// Carries out a step that changes the object.
    fn step(&mut self, op: Op) -> Result<(), cls::Stop> {
        let result = self.run.step(&op);
        self.outcome(result).map(drop)
    }
}

impl cls::Object for Target<'_, '_> {
    fn caller(&self) -> Caller {
        self.run.request.caller
    }

    fn now(&self) -> Utime {
        self.run.request.now
    }

    fn update_id(&self) -> String {
        format!("{}.{}", self.run.request.last_user_version, self.run.steps().len())
    }

    fn random(&mut self) -> u64 {
        self.run.random()
    }

    fn snap_seq(&self) -> u64 {
        self.run.request.snaps.seq.0
    }

    fn stat(&mut self) -> Result<Option<Stat>, cls::Stop> {
        let run = &self.run;
        Ok(run.exists.then_some(Stat { size: run.size, mtime: run.info.mtime }))
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, cls::Stop> {
        let read = self.run.read_before(offset, len);
        self.outcome(read).map(Rope::into_bytes)
    }

    fn attr(&mut self, name: &str) -> Result<Option<Bytes>, cls::Stop> {
        self.seen(self.run.attr_before(name.as_bytes()))
    }

    fn attrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, cls::Stop> {
        self.seen(self.run.user_attrs_before())
    }

    fn omap_header(&mut self) -> Result<Bytes, cls::Stop> {
        let header = self.run.omap_header_before();
        self.outcome(header)
    }

    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, cls::Stop> {
        let found = self.run.omap_values(BTreeSet::from([Bytes::copy_from_slice(key)]));
        Ok(self.outcome(found)?.into_values().next())
    }

    fn omap_list(&mut self, after: &[u8], prefix: &[u8], max: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), cls::Stop> {
        let entries = self.run.omap_entries(after, prefix, max as u64);
        self.outcome(entries)
    }

    fn create(&mut self, exclusive: bool) -> Result<(), cls::Stop> {
        self.step(Op::create(exclusive))
    }

    fn remove(&mut self) -> Result<(), cls::Stop> {
        self.step(Op::delete())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), cls::Stop> {
        self.step(Op::write(offset, data))
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), cls::Stop> {
        self.step(Op::write_full(data))
    }

    fn truncate(&mut self, size: u64) -> Result<(), cls::Stop> {
        self.step(Op::truncate(size))
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), cls::Stop> {
        self.step(Op::zero(offset, len))
    }

    fn set_attr(&mut self, name: &str, value: Bytes) -> Result<(), cls::Stop> {
        self.step(Op::set_xattr(name.as_bytes(), &value))
    }

    fn remove_attr(&mut self, name: &str) -> Result<(), cls::Stop> {
        self.step(Op::rm_xattr(name.as_bytes()))
    }

    fn omap_set(&mut self, entries: Vec<(Bytes, Bytes)>) -> Result<(), cls::Stop> {
        self.step(Op::omap_set_vals(&entries.into_iter().collect()))
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), cls::Stop> {
        self.step(Op::omap_rm_keys(&keys.into_iter().collect()))
    }

    fn omap_remove_range(&mut self, from: Bytes, to: Bytes) -> Result<(), cls::Stop> {
        self.step(Op::omap_rm_key_range(from, to))
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<(), cls::Stop> {
        self.step(Op::omap_set_header(header))
    }
}
