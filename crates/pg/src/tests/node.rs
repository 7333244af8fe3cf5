//! An OSD of a test: its shards, each with a device of its own, and what makes one OSD of them.

use super::cluster::{FSID, PG};
use crate::as_one::{AsOne, Delivery};
use crate::ops::Limits;
use crate::{Homes, MapError, Output, Shard, route};
use std::collections::VecDeque;
use std::time::Duration;
use store::{Memory, SimDevice, Slice, Store, StoreConfig};
use types::{Epoch, Fsid, OsdId, PgId};
use wire::Envelope;
use wire::messages;
use wire::msgr::SessionId;

type Input = Box<dyn FnOnce(&mut Shard, Duration)>;

pub(super) struct Part {
    pub shard: Shard,
    pub device: SimDevice,
    /// Input that the first shard has handed on to this one.
    inbox: VecDeque<Input>,
}

/// A message that is about a group of a later map.
struct Early {
    needed: Epoch,
    from: EarlyFrom,
    envelope: Envelope,
}

enum EarlyFrom {
    Client(SessionId),
    Osd(OsdId),
}

pub(super) struct Node {
    parts: Vec<Part>,
    /// `None` with one shard.
    as_one: Option<AsOne>,
    early: Vec<Early>,
    home: usize,
}

fn config(osd: OsdId, slice: Slice) -> StoreConfig {
    // A shard's window for updates is a part of the OSD's, and tests write the same with any number of shards.
    let device_bytes = u64::from(slice.count) * (8 << 20);
    StoreConfig { slice, ..StoreConfig::one_device(device_bytes, 256 << 10, FSID, osd, Fsid([2; 16])) }
}

/// Opens the store of a device, with so little memory that lookups wait for the device; how little, `seed` says.
fn open(device: &mut SimDevice, osd: OsdId, slice: Slice, seed: u64) -> Store {
    let mut opening = Store::open(config(osd, slice));
    let mut store = loop {
        if let Some(result) = opening.poll_result() {
            break result.expect("the device has a store");
        }
        while let Some(request) = opening.poll_io() {
            device.submit(request);
        }
        opening.io_done(device.complete(0));
    };
    let seed = seed.wrapping_mul(5) + u64::from(osd.0.unsigned_abs());
    let (page_bytes, onode_bytes) = (seed as usize % 3 * 8192, seed as usize / 3 % 2 * 1000);
    store.set_memory(Memory { page_bytes, onode_bytes, overlay_bytes: seed as usize % 5 * 700 });
    store
}

impl Node {
    /// Makes a node with empty stores.
    pub fn new(osd: OsdId, seed: u64, limits: Limits, shards: usize) -> Node {
        let device = |index| {
            let config = config(osd, Slice { index, count: shards as u32 });
            let mut device = SimDevice::new(config.device_bytes);
            for request in Store::format(&config).expect("the device is large enough") {
                device.submit(request);
                device.complete(0).result.expect("the device works");
            }
            device
        };
        Node::over((0..shards as u32).map(device).collect(), osd, seed, limits)
    }

    fn over(devices: Vec<SimDevice>, osd: OsdId, seed: u64, limits: Limits) -> Node {
        let count = devices.len();
        let open_part = |(index, mut device)| {
            let slice = Slice { index: index as u32, count: count as u32 };
            (open(&mut device, osd, slice, seed), device)
        };
        let opened: Vec<(Store, SimDevice)> = devices.into_iter().enumerate().map(open_part).collect();
        let groups: Vec<Vec<PgId>> = opened.iter().map(|(store, _)| store.pgs()).collect();
        let homes = Homes::found(&groups).expect("no group has two homes");
        let part = |(index, (store, device))| {
            let shard = Shard::new(osd, store, limits).as_part(index, homes.clone());
            Part { shard, device, inbox: VecDeque::new() }
        };
        Node {
            parts: opened.into_iter().enumerate().map(part).collect(),
            as_one: (count > 1).then(|| AsOne::new(count)),
            early: Vec::new(),
            home: homes.for_import(PG),
        }
    }

    pub fn lose_power(&mut self, osd: OsdId, seed: u64, limits: Limits) {
        let devices = self.parts.iter_mut().map(|part| part.device.after_crash(&mut || 0)).collect();
        *self = Node::over(devices, osd, seed, limits);
    }

    /// Returns the first shard.
    pub fn front(&self) -> &Shard {
        &self.parts[0].shard
    }

    /// Returns the part that has the group of most tests.
    pub fn home_mut(&mut self) -> &mut Part {
        &mut self.parts[self.home]
    }

    pub fn pg_is_active(&self, pg: PgId) -> bool {
        self.parts.iter().any(|part| part.shard.pg_is_active(pg))
    }

    pub fn client_bytes(&self) -> usize {
        self.parts.iter().map(|part| part.shard.client_bytes()).sum()
    }

    pub fn group_wake(&self) -> Option<Duration> {
        self.parts.iter().filter_map(|part| part.shard.group_wake()).min()
    }

    pub fn wants_turn(&self, now: Duration) -> bool {
        self.group_wake().is_some_and(|at| at <= now) || self.parts.iter().any(|part| part.shard.store().wants_turn())
    }

    // ---- what it is told ----

    /// Tells the first shard at once, others when they take it.
    fn tell(&mut self, shard: usize, now: Duration, input: impl FnOnce(&mut Shard, Duration) + 'static) {
        match shard {
            0 => input(&mut self.parts[0].shard, now),
            _ => self.parts[shard].inbox.push_back(Box::new(input)),
        }
    }

    pub fn tell_all(&mut self, now: Duration, input: impl FnOnce(&mut Shard, Duration) + Clone + 'static) {
        (0..self.parts.len()).for_each(|shard| self.tell(shard, now, input.clone()));
    }

    pub fn maps(&mut self, message: messages::OsdMap, now: Duration) -> Result<(), MapError> {
        for shard in 1..self.parts.len() {
            let message = message.clone();
            self.tell(shard, now, move |shard, _| drop(shard.osd_maps(&message)));
        }
        self.parts[0].shard.osd_maps(&message)?;
        self.take_early(now);
        Ok(())
    }

    /// Returns true if a map has come that is not in force yet.
    pub fn follows_maps(&self) -> bool {
        self.parts.iter().any(|part| part.shard.newest_epoch() > part.shard.map().epoch)
    }

    /// Goes on with messages that came before their map, once that is in force.
    fn take_early(&mut self, now: Duration) {
        let epoch = self.front().map().epoch;
        for Early { from, envelope, .. } in self.early.extract_if(.., |early| early.needed <= epoch).collect::<Vec<_>>()
        {
            match from {
                EarlyFrom::Client(session) => self.client_op(session, envelope, now),
                EarlyFrom::Osd(osd) => self.osd_message(osd, &envelope, now),
            }
        }
    }

    pub fn client_op(&mut self, session: SessionId, envelope: Envelope, now: Duration) {
        let (pg, needed) = route::of_client_op(&envelope).expect("well-formed");
        let home = self.front().homes().of(pg);
        if home.is_none() && needed > self.front().map().epoch {
            return self.early.push(Early { needed, from: EarlyFrom::Client(session), envelope });
        }
        self.tell(home.unwrap_or(0), now, move |shard, at| {
            shard.set_time(at);
            shard.client_op(session, &envelope, now).expect("well-formed");
        });
    }

    pub fn client_backoff(&mut self, session: SessionId, envelope: Envelope, now: Duration) {
        let shard = route::of_backoff(&envelope).expect("well-formed");
        self.tell(shard, now, move |shard, _| shard.client_backoff(session, &envelope).expect("well-formed"));
    }

    pub fn osd_message(&mut self, from: OsdId, envelope: &Envelope, now: Duration) {
        let (homes, epoch) = (self.parts[0].shard.homes(), self.parts[0].shard.map().epoch);
        let delivery = match &mut self.as_one {
            None => Ok(Delivery::Shards(vec![(0, envelope.clone())])),
            Some(as_one) => as_one.deliver(homes, epoch, from, envelope),
        };
        match delivery.expect("well-formed") {
            Delivery::Later(needed) => {
                self.early.push(Early { needed, from: EarlyFrom::Osd(from), envelope: envelope.clone() });
            }
            Delivery::Shards(deliveries) => {
                for (shard, envelope) in deliveries {
                    self.tell(shard, now, move |shard, at| {
                        shard.set_time(at);
                        shard.peer_message(from, &envelope, now).expect("well-formed");
                    });
                }
            }
        }
    }

    // ---- what it does ----

    /// Has a shard take the oldest that it is told. Returns whether there was something.
    pub fn take_in(&mut self, now: Duration) -> bool {
        let part = self.parts.iter_mut().find(|part| !part.inbox.is_empty());
        let taken = part.and_then(|part| Some((part.inbox.pop_front()?, &mut part.shard)));
        taken.map(|(input, shard)| input(shard, now)).is_some()
    }

    /// Does the oldest device request of a shard. Returns whether there was one.
    pub fn device_request(&mut self, now: Duration) -> bool {
        let Some(part) = self.parts.iter_mut().find(|part| part.device.queued() > 0) else { return false };
        let done = part.device.complete(0);
        part.shard.set_time(now);
        part.shard.io_done(done);
        true
    }

    /// Tells whether operations wait for what answers of the last turn hold.
    pub fn waits_for_answers(&self) -> bool {
        self.parts.iter().any(|part| part.shard.waits_for_answers())
    }

    pub fn tick(&mut self, now: Duration) {
        for part in &mut self.parts {
            part.shard.set_time(now);
            part.shard.tick();
        }
        if let Some(as_one) = &mut self.as_one {
            as_one.tick(now);
        }
    }

    /// Runs one turn of each shard: devices get their requests. Returns what the OSD has to say, as others hear it.
    pub fn turn(&mut self, now: Duration, queues_wait: bool) -> Vec<Output> {
        while !queues_wait && self.take_in(now) {}
        for Part { shard, .. } in &mut self.parts {
            shard.set_time(now);
            shard.follow_maps();
        }
        self.take_early(now);
        let mut said = Vec::new();
        for (index, Part { shard, device, .. }) in self.parts.iter_mut().enumerate() {
            shard.set_time(now);
            // The network takes all answers at once, but for those that a test counts.
            shard.set_unsent_bytes(shard.unsent_bytes());
            shard.end_turn();
            while let Some(request) = shard.poll_io() {
                device.submit(request);
            }
            shard.turn_sent(now);
            said.extend(shard.take_outputs().into_iter().map(|output| (index, output)));
        }
        let map = self.front().map().clone();
        let (whoami, as_one) = (self.front().whoami(), &mut self.as_one);
        let heard = said.into_iter().filter_map(|(shard, output)| match (output, as_one.as_mut()) {
            (Output::ToOsd { osd, envelope }, Some(as_one)) if osd != whoami => {
                let envelope = as_one.send(shard, &map, osd, envelope, now).expect("well-formed");
                envelope.map(|envelope| Output::ToOsd { osd, envelope })
            }
            // Maps that the first shard has and another one lacks are on their way to it.
            (Output::NeedMaps { from }, _) if shard > 0 && from <= map.epoch => None,
            (output, _) => Some(output),
        });
        heard.collect()
    }
}
