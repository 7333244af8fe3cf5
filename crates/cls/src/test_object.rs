//! An object in memory for the classes' tests.

use crate::object::{Caller, Object, Stat, Stop};
use crate::{Called, find};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use types::{EntityName, Errno, Utime};
use wire::{EntityAddr, Target, Writer};

/// Calls take effect at once; a failed call changes nothing, as in an operation.
#[derive(Clone, Debug)]
pub(crate) struct TestObject {
    pub caller: Caller,
    pub now: Utime,
    pub exists: bool,
    pub data: Vec<u8>,
    pub attrs: BTreeMap<Bytes, Bytes>,
    pub omap: BTreeMap<Bytes, Bytes>,
    pub omap_header: Bytes,
    pub snap_seq: u64,
    pub calls: u64,
}

impl Default for TestObject {
    fn default() -> TestObject {
        let addr = EntityAddr::parse("v2:127.0.0.1:0/7", wire::AddrKind::MSGR2).expect("an address");
        TestObject {
            caller: Caller { name: EntityName::client(4100), addr },
            now: Utime { sec: 1000, nsec: 0 },
            exists: false,
            data: Vec::new(),
            attrs: BTreeMap::new(),
            omap: BTreeMap::new(),
            omap_header: Bytes::new(),
            snap_seq: 0,
            calls: 0,
        }
    }
}

/// The bytes that `write` writes.
pub(crate) fn encode(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    write(&mut w);
    w.into_vec()
}

impl TestObject {
    /// Calls a method as a placement group does: a read-only method on an absent object fails before it runs, and a
    /// method sees the object as it was before the call.
    pub fn call(&mut self, class: &str, method: &str, input: &[u8]) -> (i32, Bytes) {
        let found = find(class.as_bytes(), method.as_bytes());
        let method = found.unwrap_or_else(|_| panic!("there is no method {class}.{method}"));
        if !self.exists && !method.writes {
            return (Errno::ENOENT.as_result(), Bytes::new());
        }
        self.calls += 1;
        let mut running = Running { after: self.clone(), before: self };
        let ended = method.call(&mut running, input);
        let Called::Ended { value, output } = ended else { panic!("nothing has to wait here") };
        let after = running.after;
        if value >= 0 && method.writes {
            *self = after;
        }
        (value, output)
    }
}

struct Running<'a> {
    before: &'a TestObject,
    after: TestObject,
}

impl Object for Running<'_> {
    fn caller(&self) -> Caller {
        self.before.caller
    }

    fn now(&self) -> Utime {
        self.before.now
    }

    fn update_id(&self) -> String {
        format!("{:08}", self.before.calls)
    }

    fn random(&mut self) -> u64 {
        self.before.calls.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn snap_seq(&self) -> u64 {
        self.before.snap_seq
    }

    fn stat(&mut self) -> Result<Option<Stat>, Stop> {
        Ok(self.after.exists.then_some(Stat { size: self.after.data.len() as u64, mtime: self.before.now }))
    }

    fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Stop> {
        let data = &self.before.data;
        let from = (offset as usize).min(data.len());
        let len = if len == 0 { usize::MAX } else { len as usize };
        Ok(Bytes::copy_from_slice(&data[from..][..len.min(data.len() - from)]))
    }

    fn attr(&mut self, name: &str) -> Result<Option<Bytes>, Stop> {
        if self.before.exists { Ok(self.before.attrs.get(name.as_bytes()).cloned()) } else { Err(Errno::ENOENT.into()) }
    }

    fn attrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>, Stop> {
        if self.before.exists { Ok(self.before.attrs.clone()) } else { Err(Errno::ENOENT.into()) }
    }

    fn omap_header(&mut self) -> Result<Bytes, Stop> {
        Ok(self.before.omap_header.clone())
    }

    fn omap_get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Stop> {
        Ok(self.before.omap.get(key).cloned())
    }

    fn omap_list(&mut self, after: &[u8], prefix: &[u8], max: usize) -> Result<(Vec<(Bytes, Bytes)>, bool), Stop> {
        let behind = self.before.omap.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded));
        let mut matching = behind.filter(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone()));
        let page = matching.by_ref().take(max).collect();
        Ok((page, matching.next().is_some()))
    }

    fn create(&mut self, exclusive: bool) -> Result<(), Stop> {
        if exclusive && self.after.exists {
            return Err(Errno::EEXIST.into());
        }
        self.after.exists = true;
        Ok(())
    }

    fn remove(&mut self) -> Result<(), Stop> {
        if !self.after.exists {
            return Err(Errno::ENOENT.into());
        }
        let TestObject { caller, now, calls, .. } = *self.before;
        self.after = TestObject { caller, now, calls, ..TestObject::default() };
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Stop> {
        self.after.exists = true;
        let (from, to) = (offset as usize, offset as usize + data.len());
        self.after.data.resize(self.after.data.len().max(to), 0);
        self.after.data[from..to].copy_from_slice(&data);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<(), Stop> {
        (self.after.exists, self.after.data) = (true, data.to_vec());
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<(), Stop> {
        self.after.data.resize(size as usize, 0);
        Ok(())
    }

    fn zero(&mut self, offset: u64, len: u64) -> Result<(), Stop> {
        let end = self.after.data.len().min((offset + len) as usize);
        self.after.data[offset as usize..end].fill(0);
        Ok(())
    }

    fn set_attr(&mut self, name: &str, value: Bytes) -> Result<(), Stop> {
        self.after.exists = true;
        self.after.attrs.insert(Bytes::copy_from_slice(name.as_bytes()), value);
        Ok(())
    }

    fn remove_attr(&mut self, name: &str) -> Result<(), Stop> {
        self.after.attrs.remove(name.as_bytes());
        Ok(())
    }

    fn omap_set(&mut self, entries: Vec<(Bytes, Bytes)>) -> Result<(), Stop> {
        self.after.exists = true;
        self.after.omap.extend(entries);
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<(), Stop> {
        self.after.omap.retain(|key, _| !keys.contains(key));
        Ok(())
    }

    fn omap_remove_range(&mut self, from: Bytes, to: Bytes) -> Result<(), Stop> {
        self.after.omap.retain(|key, _| *key < from || *key >= to);
        Ok(())
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<(), Stop> {
        (self.after.exists, self.after.omap_header) = (true, header);
        Ok(())
    }
}
