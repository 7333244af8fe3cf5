//! Class `lock`: advisory locks on an object, shared or exclusive, that may expire.
//!
//! A lock is one attribute of the object, named after it. Its stored form is Ceph's `lock_info_t`.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use bytes::Bytes;
use types::{Errno, Utime};
use wire::lock::{LockInfo, LockerId, LockerInfo, kind};
use wire::{AddrKind, EntityAddr, Reader};

pub(crate) const METHODS: &[Method] = &[
    Method::update("lock", lock),
    Method::update("unlock", unlock),
    Method::update("break_lock", break_lock),
    Method::read("get_info", get_info),
    Method::read("list_locks", list_locks),
    Method::update("assert_locked", assert_locked),
    Method::update("set_cookie", set_cookie),
];

mod flag {
    /// A locker that has the lock already gets it again.
    pub const MAY_RENEW: u8 = 1;
    /// Only a locker that has the lock already gets it.
    pub const MUST_RENEW: u8 = 2;
}

const ATTR_PREFIX: &str = "lock.";

fn attr_name(lock: &[u8]) -> Result<String, Stop> {
    let name = std::str::from_utf8(lock).map_err(|_| Errno::EINVAL)?;
    Ok(format!("{ATTR_PREFIX}{name}"))
}

/// Loads the lock's state, without expired lockers.
fn load(object: &mut dyn Object, name: &[u8]) -> Result<LockInfo, Stop> {
    let stored = match object.exists()? {
        true => object.attr(&attr_name(name)?)?,
        false => None,
    };
    let mut info: LockInfo = match stored {
        Some(bytes) if !bytes.is_empty() => decode_stored(&bytes)?,
        _ => LockInfo::default(),
    };
    let now = object.now();
    info.lockers.retain(|_, locker| locker.expiration.is_zero() || locker.expiration >= now);
    Ok(info)
}

fn save(object: &mut dyn Object, name: &[u8], info: &LockInfo) -> Result<Output, Stop> {
    object.set_attr(&attr_name(name)?, encoded(info))?;
    Ok(Output::none())
}

fn check_kind_and_name(lock_kind: u8, name: &[u8]) -> Result<(), Stop> {
    let known = [kind::EXCLUSIVE, kind::SHARED, kind::EXCLUSIVE_EPHEMERAL];
    if known.contains(&lock_kind) && !name.is_empty() { Ok(()) } else { Err(Errno::EINVAL.into()) }
}

fn lock(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request for a lock", 1)?;
    let (name, lock_kind): (Bytes, u8) = (r.get()?, r.u8()?);
    let (cookie, tag, description): (Bytes, Bytes, Bytes) = (r.get()?, r.get()?, r.get()?);
    let (duration, flags): (Utime, u8) = (r.get()?, r.u8()?);
    check_kind_and_name(lock_kind, &name)?;
    let (may_renew, must_renew) = (flags & flag::MAY_RENEW != 0, flags & flag::MUST_RENEW != 0);
    if may_renew && must_renew {
        return Err(Errno::EINVAL.into());
    }
    let caller = object.caller();
    let id = LockerId { name: caller.name, cookie };
    let mut info = load(object, &name)?;
    // The tag is checked before the caller's own hold is removed, which may be the only one.
    if !info.lockers.is_empty() && info.tag != tag {
        return Err(Errno::EBUSY.into());
    }
    match info.lockers.remove(&id) {
        Some(_) if !may_renew && !must_renew => return Err(Errno::EEXIST.into()),
        None if must_renew => return Err(Errno::ENOENT.into()),
        _ => {}
    }
    if !info.lockers.is_empty() && (lock_kind != kind::SHARED || info.kind != lock_kind) {
        return Err(Errno::EBUSY.into());
    }
    let expiration = match duration.is_zero() {
        true => Utime::ZERO,
        false => Utime::from_unix(object.now().to_unix() + duration.to_unix()),
    };
    let addr = EntityAddr { kind: AddrKind::LEGACY, ..caller.addr };
    info.lockers.insert(id, LockerInfo { expiration, addr, description });
    (info.kind, info.tag) = (lock_kind, tag);
    save(object, &name, &info)
}

fn give_up(object: &mut dyn Object, name: &[u8], id: &LockerId) -> Result<Output, Stop> {
    let mut info = load(object, name)?;
    info.lockers.remove(id).ok_or(Errno::ENOENT)?;
    if info.kind == kind::EXCLUSIVE_EPHEMERAL {
        object.remove()?;
        return Ok(Output::none());
    }
    save(object, name, &info)
}

fn unlock(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to unlock", 1)?;
    let (name, cookie): (Bytes, Bytes) = (r.get()?, r.get()?);
    let id = LockerId { name: object.caller().name, cookie };
    give_up(object, &name, &id)
}

fn break_lock(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to break a lock", 1)?;
    let (name, id): (Bytes, LockerId) = (r.get()?, LockerId { name: r.get()?, cookie: r.get()? });
    give_up(object, &name, &id)
}

fn get_info(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request for a lock's state", 1)?;
    let name: Bytes = r.get()?;
    let info = load(object, &name)?;
    Ok(Output::of(|w| w.put(&info)))
}

fn list_locks(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let attrs = object.attrs()?;
    let names: Vec<&[u8]> = attrs.keys().filter_map(|name| name.strip_prefix(ATTR_PREFIX.as_bytes())).collect();
    Ok(Output::of(|w| {
        w.versioned(1, 1, |w| {
            w.count(names.len());
            names.iter().for_each(|name| w.blob(name));
        })
    }))
}

/// The lock's state, if it has this kind and tag and the caller holds it under `cookie`. EBUSY otherwise; ENOENT if the
/// object is absent.
fn held(
    object: &mut dyn Object,
    (name, lock_kind): (&[u8], u8),
    (cookie, tag): (Bytes, Bytes),
) -> Result<(LockInfo, LockerId), Stop> {
    check_kind_and_name(lock_kind, name)?;
    let info = load(object, name)?;
    let id = LockerId { name: object.caller().name, cookie };
    if info.kind == lock_kind && info.tag == tag && info.lockers.contains_key(&id) {
        return Ok((info, id));
    }
    Err(Errno::EBUSY.into())
}

fn assert_locked(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("claim to hold a lock", 1)?;
    let (name, lock_kind): (Bytes, u8) = (r.get()?, r.u8()?);
    let (cookie, tag): (Bytes, Bytes) = (r.get()?, r.get()?);
    held(object, (&name, lock_kind), (cookie, tag))?;
    Ok(Output::none())
}

fn set_cookie(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request for another cookie", 1)?;
    let (name, lock_kind): (Bytes, u8) = (r.get()?, r.u8()?);
    let (cookie, tag, new_cookie): (Bytes, Bytes, Bytes) = (r.get()?, r.get()?, r.get()?);
    let (mut info, id) = held(object, (&name, lock_kind), (cookie, tag))?;
    let new_id = LockerId { cookie: new_cookie, ..id.clone() };
    if info.lockers.contains_key(&new_id) {
        return Err(Errno::EBUSY.into());
    }
    let locker = info.lockers.remove(&id).expect("it is held");
    info.lockers.insert(new_id, locker);
    save(object, &name, &info)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};
    use types::EntityName;
    use wire::Decode;

    fn lock_input(kind: u8, cookie: &str, tag: &str, seconds: u32, flags: u8) -> Vec<u8> {
        encode(|w| {
            w.versioned(1, 1, |w| {
                w.str("l");
                w.u8(kind);
                w.str(cookie);
                w.str(tag);
                w.str("why");
                w.put(&Utime { sec: seconds, nsec: 0 });
                w.u8(flags);
            })
        })
    }

    fn lock_as(object: &mut TestObject, client: u64, kind: u8, tag: &str, flags: u8) -> i32 {
        object.caller.name = EntityName::client(client);
        object.call("lock", "lock", &lock_input(kind, "c", tag, 0, flags)).0
    }

    #[test]
    fn one_holds_an_exclusive_lock_and_several_a_shared_one() {
        let mut object = TestObject::default();
        assert_eq!(lock_as(&mut object, 1, kind::EXCLUSIVE, "t", 0), 0);
        assert_eq!(lock_as(&mut object, 2, kind::EXCLUSIVE, "t", 0), -16);
        assert_eq!(lock_as(&mut object, 2, kind::SHARED, "t", 0), -16);
        assert_eq!(lock_as(&mut object, 1, kind::EXCLUSIVE, "t", 0), -17);
        assert_eq!(lock_as(&mut object, 1, kind::EXCLUSIVE, "t", flag::MAY_RENEW), 0);
        assert_eq!(lock_as(&mut object, 1, kind::EXCLUSIVE, "other", flag::MAY_RENEW), -16);

        let mut object = TestObject::default();
        assert_eq!(lock_as(&mut object, 1, kind::SHARED, "t", flag::MUST_RENEW), -2);
        assert_eq!(lock_as(&mut object, 1, kind::SHARED, "t", 0), 0);
        assert_eq!(lock_as(&mut object, 2, kind::SHARED, "t", 0), 0);
        assert_eq!(lock_as(&mut object, 3, kind::EXCLUSIVE, "t", 0), -16);
        assert_eq!(lock_as(&mut object, 3, kind::SHARED, "t", 3), -22);
        assert_eq!(lock_as(&mut object, 3, 9, "t", 0), -22);
    }

    #[test]
    fn an_object_that_is_absent_has_no_lock_to_be_held() {
        let mut object = TestObject::default();
        let claim = |other: Option<&str>| {
            encode(|w| {
                w.versioned(1, 1, |w| {
                    w.str("l");
                    w.u8(kind::EXCLUSIVE);
                    w.str("c");
                    w.str("t");
                    other.into_iter().for_each(|other| w.str(other));
                })
            })
        };
        assert_eq!(object.call("lock", "set_cookie", &claim(Some("d"))).0, -2);
        assert_eq!(object.call("lock", "assert_locked", &claim(None)).0, -2);
        object.exists = true;
        assert_eq!(object.call("lock", "set_cookie", &claim(Some("d"))).0, -16);
        assert_eq!(lock_as(&mut object, 0, kind::EXCLUSIVE, "t", 0), 0);
        assert_eq!(object.call("lock", "set_cookie", &claim(Some("d"))).0, 0);
    }

    #[test]
    fn a_lock_expires() {
        let mut object = TestObject::default();
        assert_eq!(object.call("lock", "lock", &lock_input(kind::EXCLUSIVE, "a", "t", 10, 0)).0, 0);
        object.now.sec += 10;
        assert_eq!(object.call("lock", "lock", &lock_input(kind::EXCLUSIVE, "b", "t", 10, 0)).0, -16);
        object.now.sec += 1;
        assert_eq!(object.call("lock", "lock", &lock_input(kind::EXCLUSIVE, "b", "t", 10, 0)).0, 0);
        let (value, info) = object.call("lock", "get_info", &encode(|w| w.versioned(1, 1, |w| w.str("l"))));
        let info = LockInfo::from_slice(&info).unwrap();
        assert_eq!((value, info.lockers.len(), info.kind), (0, 1, kind::EXCLUSIVE));
        assert_eq!(info.lockers.first_key_value().unwrap().0.cookie, "b");
    }

    #[test]
    fn an_ephemeral_lock_takes_its_object_along() {
        let mut object = TestObject::default();
        assert_eq!(lock_as(&mut object, 1, kind::EXCLUSIVE_EPHEMERAL, "", 0), 0);
        assert!(object.exists);
        let unlock = encode(|w| {
            w.versioned(1, 1, |w| {
                w.str("l");
                w.str("c");
            })
        });
        assert_eq!(object.call("lock", "unlock", &unlock).0, 0);
        assert!(!object.exists);
        assert_eq!(object.call("lock", "unlock", &unlock).0, -2);
    }
}
