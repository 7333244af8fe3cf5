//! Class `2pc_queue`: a queue in which room is reserved before entries are put there.
//!
//! Reservations lie in the queue's head. Those that have no room there lie in an attribute.

use crate::method::Method;
use crate::object::{Object, Output, Stop, encoded};
use crate::queue::{self, Head, NewQueue, OVERHEAD};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] = &[
    Method::update("2pc_queue_init", init),
    Method::read("2pc_queue_get_capacity", queue::get_capacity),
    Method::update("2pc_queue_reserve", reserve),
    Method::update("2pc_queue_commit", commit),
    Method::update("2pc_queue_abort", abort),
    Method::read("2pc_queue_list_reservations", list_reservations),
    Method::read("2pc_queue_list_entries", queue::list),
    Method::update("2pc_queue_remove_entries", queue::remove),
    Method::update("2pc_queue_expire_reservations", expire),
];

/// Bytes of reservations in the head.
const RESERVATION_BYTES_MAX: u64 = 23_552;
/// Attribute with the reservations that have no room in the head.
const ATTRIBUTE: &str = "cls_queue_urgent_data";

/// Ceph's `cls_2pc_reservation`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Reservation {
    bytes: u64,
    at: Utime,
}

impl Encode for Reservation {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.bytes);
            w.put(&self.at);
        });
    }
}

impl Decode for Reservation {
    const MIN_BYTES: usize = 22;

    fn decode(r: &mut Reader<'_>) -> Result<Reservation, DecodeError> {
        let (_, mut r) = r.versioned("reservation in a queue", 1)?;
        Ok(Reservation { bytes: r.get()?, at: r.get()? })
    }
}

type ById = BTreeMap<u32, Reservation>;

/// Ceph's `cls_2pc_urgent_data`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Reservations {
    bytes: u64,
    last_id: u32,
    by_id: ById,
    /// There are, or were, reservations in the attribute.
    spilled: bool,
}

impl Encode for Reservations {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.bytes);
            w.put(&self.last_id);
            w.put(&self.by_id);
            w.bool(self.spilled);
        });
    }
}

impl Decode for Reservations {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Reservations, DecodeError> {
        let (_, mut r) = r.versioned("reservations in a queue", 1)?;
        Ok(Reservations { bytes: r.get()?, last_id: r.get()?, by_id: r.get()?, spilled: r.get()? })
    }
}

/// A queue with its reservations.
struct Queue {
    head: Head,
    reservations: Reservations,
}

impl Queue {
    fn read(object: &mut dyn Object) -> Result<Queue, Stop> {
        let head = Head::read(object)?;
        let reservations = Reservations::decode(&mut Reader::new(&head.urgent))?;
        Ok(Queue { head, reservations })
    }

    fn write(mut self, object: &mut dyn Object) -> Result<(), Stop> {
        self.head.urgent = encoded(&self.reservations);
        self.head.write(object)
    }

    /// The reservations in the attribute; `None` if there is no such attribute, or need not be.
    fn spilled(&self, object: &mut dyn Object) -> Result<Option<ById>, Stop> {
        if !self.reservations.spilled {
            return Ok(None);
        }
        spilled(object)
    }

    /// Takes a reservation out, wherever it is. `None` if there is none of this number.
    fn take(&mut self, object: &mut dyn Object, id: u32) -> Result<Option<Taken>, Stop> {
        if let Some(reservation) = self.reservations.by_id.remove(&id) {
            return Ok(Some(Taken { reservation, others: None }));
        }
        let Some(mut others) = self.spilled(object)? else { return Ok(None) };
        Ok(others.remove(&id).map(|reservation| Taken { reservation, others: Some(others) }))
    }

    /// Gives back the room of a reservation that was taken out, and writes what is left.
    fn give_back(mut self, object: &mut dyn Object, taken: Taken) -> Result<Output, Stop> {
        self.reservations.bytes = self.reservations.bytes.wrapping_sub(taken.reservation.bytes);
        if let Some(others) = &taken.others {
            object.set_attr(ATTRIBUTE, encoded(others))?;
        }
        self.write(object)?;
        Ok(Output::none())
    }
}

/// A reservation that was taken out, and what is left in the attribute if that is where it was.
struct Taken {
    reservation: Reservation,
    others: Option<ById>,
}

fn spilled(object: &mut dyn Object) -> Result<Option<ById>, Stop> {
    let Some(bytes) = object.attr(ATTRIBUTE)? else { return Ok(None) };
    Ok(Some(ById::decode(&mut Reader::new(&bytes))?))
}

fn init(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let wanted = NewQueue::decode(input)?;
    let urgent = encoded(&Reservations::default());
    NewQueue { capacity: wanted.capacity, urgent_bytes_max: RESERVATION_BYTES_MAX, urgent }.make(object)
}

fn reserve(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to reserve room in a queue", 1)?;
    let (bytes, entries): (u64, u32) = (r.get()?, r.get()?);
    if bytes == 0 || entries == 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut queue = Queue::read(object)?;
    let reservations = &mut queue.reservations;
    let more = u128::from(bytes) + u128::from(entries) * u128::from(OVERHEAD);
    let all = more + u128::from(reservations.bytes);
    if all > u128::from(queue.head.free_bytes()) {
        return Err(Errno::ENOSPC.into());
    }
    reservations.bytes = u64::try_from(all).expect("it is less than a number of 64 bits");
    reservations.last_id = reservations.last_id.wrapping_add(1);
    let id = reservations.last_id;
    let reservation = Reservation { bytes, at: object.now() };
    // Numbers come again after 2^32 of them.
    if reservations.by_id.contains_key(&id) {
        return Err(Errno::EAGAIN.into());
    }
    reservations.by_id.insert(id, reservation.clone());
    if encoded(reservations).len() as u64 > queue.head.urgent_bytes_max {
        reservations.by_id.remove(&id);
        reservations.spilled = true;
        let mut others = spilled(object)?.unwrap_or_default();
        if others.insert(id, reservation).is_some() {
            return Err(Errno::EAGAIN.into());
        }
        object.set_attr(ATTRIBUTE, encoded(&others))?;
    }
    queue.write(object)?;
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&id))))
}

fn commit(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("entries for reserved room", 1)?;
    let (id, entries): (u32, Vec<Bytes>) = (r.get()?, r.get()?);
    let mut queue = Queue::read(object)?;
    let taken = queue.take(object, id)?.ok_or(Errno::ENOENT)?;
    let bytes: u64 = entries.iter().map(|entry| entry.len() as u64).sum();
    if taken.reservation.bytes < bytes {
        return Err(Errno::EINVAL.into());
    }
    queue.head.push(object, &entries)?;
    queue.give_back(object, taken)
}

fn abort(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to give up reserved room", 1)?;
    let id: u32 = r.get()?;
    let mut queue = Queue::read(object)?;
    let Some(taken) = queue.take(object, id)? else { return Ok(Output::none()) };
    queue.give_back(object, taken)
}

fn list_reservations(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let queue = Queue::read(object)?;
    let mut all = queue.spilled(object)?.unwrap_or_default();
    all.extend(queue.reservations.by_id);
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&all))))
}

fn expire(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to give up old reservations", 1)?;
    let before: Utime = r.get()?;
    let mut queue = Queue::read(object)?;
    let mut freed = 0_u64;
    let mut give_up = |all: &mut ById| {
        let count = all.len();
        all.retain(|_, reservation| {
            let stays = reservation.at >= before;
            freed = freed.wrapping_add(if stays { 0 } else { reservation.bytes });
            stays
        });
        all.len() != count
    };
    let others = queue.spilled(object)?;
    let mut has_changed = give_up(&mut queue.reservations.by_id);
    if let Some(mut others) = others
        && give_up(&mut others)
    {
        object.set_attr(ATTRIBUTE, encoded(&others))?;
        has_changed = true;
    }
    if has_changed {
        queue.reservations.bytes = queue.reservations.bytes.wrapping_sub(freed);
        queue.write(object)?;
    }
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};

    fn call(object: &mut TestObject, method: &str, body: impl FnOnce(&mut Writer)) -> (i32, Bytes) {
        object.call("2pc_queue", &format!("2pc_queue_{method}"), &encode(|w| w.versioned(1, 1, body)))
    }

    fn reserve(object: &mut TestObject, bytes: u64, entries: u32) -> (i32, Option<u32>) {
        let (value, out) = call(object, "reserve", |w| {
            w.put(&bytes);
            w.put(&entries);
        });
        (value, out.get(6..10).map(|id| u32::from_le_bytes(id.try_into().unwrap())))
    }

    fn commit(object: &mut TestObject, id: u32, entries: &[&'static str]) -> i32 {
        let entries: Vec<Bytes> = entries.iter().map(|entry| Bytes::from(*entry)).collect();
        let (value, _) = call(object, "commit", |w| {
            w.put(&id);
            w.put(&entries);
        });
        value
    }

    fn new_queue(capacity: u64) -> TestObject {
        let mut object = TestObject::default();
        let (value, _) = call(&mut object, "init", |w| {
            w.put(&capacity);
            w.put(&0_u64);
            w.put(&Bytes::new());
        });
        assert_eq!(value, 0);
        object
    }

    fn reservations(object: &mut TestObject) -> Vec<(u32, u64)> {
        let (value, out) = call(object, "list_reservations", |_| {});
        assert_eq!(value, 0);
        let by_id = ById::decode(&mut Reader::new(&out[6..])).unwrap();
        by_id.into_iter().map(|(id, reservation)| (id, reservation.bytes)).collect()
    }

    #[test]
    fn room_is_reserved_before_it_is_used() {
        let mut it = new_queue(100);
        assert_eq!(reserve(&mut it, 91, 1).0, -28, "an entry takes ten bytes more");
        assert_eq!(reserve(&mut it, 5, u32::MAX).0, -28);
        assert_eq!(reserve(&mut it, u64::MAX, 1).0, -28);
        assert_eq!(reserve(&mut it, 30, 2), (0, Some(1)));
        assert_eq!(reserve(&mut it, 20, 1), (0, Some(2)));
        assert_eq!(reserve(&mut it, 20, 1).0, -28);
        assert_eq!(reservations(&mut it), [(1, 30), (2, 20)]);
        assert_eq!(commit(&mut it, 3, &["x"]), -2);
        assert_eq!(commit(&mut it, 2, &["a text of 21 letters."]), -22);
        assert_eq!(commit(&mut it, 2, &["short"]), 0);
        assert_eq!(commit(&mut it, 2, &["short"]), -2);
        assert_eq!(call(&mut it, "abort", |w| w.put(&1_u32)).0, 0);
        assert_eq!(reservations(&mut it), []);
    }

    #[test]
    fn reservations_without_room_in_the_head_are_in_an_attribute() {
        let mut it = new_queue(1 << 20);
        for id in 1..=1000 {
            assert_eq!(reserve(&mut it, u64::from(id), 1), (0, Some(id)));
        }
        let listed = reservations(&mut it);
        assert_eq!((listed.len(), listed[999]), (1000, (1000, 1000)));
        let spilled = ById::decode(&mut Reader::new(&it.attrs[ATTRIBUTE.as_bytes()])).unwrap();
        assert!(spilled.len() > 50 && spilled.contains_key(&1000) && !spilled.contains_key(&1));
        assert_eq!(commit(&mut it, 1000, &["late"]), 0);
        assert_eq!(call(&mut it, "abort", |w| w.put(&999_u32)).0, 0);
        assert_eq!(reservations(&mut it).len(), 998);
        let before = Utime { sec: it.now.sec, nsec: 0 };
        assert_eq!(call(&mut it, "expire_reservations", |w| w.put(&before)).0, 0);
        assert_eq!(reservations(&mut it).len(), 998, "none is older");
        let before = Utime { sec: it.now.sec + 1, nsec: 0 };
        assert_eq!(call(&mut it, "expire_reservations", |w| w.put(&before)).0, 0);
        assert_eq!(reservations(&mut it), []);
    }
}
