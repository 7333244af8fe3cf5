//! The replay of the log at an opening.

use crate::btree::{Damage, Fetch};
use crate::config::BLOCK;
use crate::disk::numbers::WAL_OFFSET;
use crate::disk::redo::Redo;
use crate::disk::redo_bytes::decode_body;
use crate::engine::wal::{RecordHead, RecordHeader, Wal};
use crate::metadata::destroying::Destroyed;
use crate::metadata::loading::Need;
use crate::metadata::state::State;
use crate::opening::mending::LostLog;
use crate::opening::phases::{Opening, OpeningPhase};
use crate::space::run::Run;
use crate::{Device, OpenError};
use std::collections::VecDeque;
use types::AlignedBuf;

/// Bytes of the log read at once in the search for records.
const SCAN_BYTES: u64 = 1 << 20;
/// Maximum number of data blocks read at once for verification.
const VERIFY_BLOCKS_MAX: u32 = 256;
/// Number of steps whose needs are read ahead.
const AHEAD: usize = 256;

impl Opening {
    pub(super) fn read_log(&mut self, at: u64) {
        let len = SCAN_BYTES.min(self.superblock().wal_bytes - at);
        self.io.read(self.superblock().log_device(), WAL_OFFSET + at, len);
    }

    pub(super) fn scan(&mut self, at: u64, buffers: &[AlignedBuf]) -> Result<(), OpenError> {
        let bytes = buffers[0].as_slice();
        let uuid = self.superblock().uuid;
        for (index, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            let place = at + index as u64 * BLOCK;
            let header = match RecordHeader::decode(block, uuid) {
                None => continue,
                Some(RecordHead::Unknown { version, flags }) => {
                    return Err(OpenError::UnknownRecord { version, flags, offset: WAL_OFFSET + place });
                }
                Some(RecordHead::Known(header)) => header,
            };
            self.vouched_lsn = self.vouched_lsn.max(header.durable_lsn);
            self.session = self.session.max(header.session);
            let covered_lsn = self.root().covered_lsn;
            if header.lsn == covered_lsn && self.covered.is_none_or(|(session, _)| session < header.session) {
                self.covered = Some((header.session, place + header.record_bytes()));
            }
            if header.lsn > covered_lsn {
                let known = self.headers.entry(header.lsn).or_insert((header, place));
                if known.0.session < header.session {
                    *known = (header, place);
                }
            }
        }
        let next = at + bytes.len() as u64;
        if next < self.superblock().wal_bytes {
            self.phase = OpeningPhase::Scan(next);
            self.read_log(next);
            return Ok(());
        }
        if mutant::is(mutant::Mutant::ReplayStopsEarly) {
            self.headers.pop_last();
        }
        let (root, superblock) = (self.root(), self.superblock());
        let wal =
            Wal::new(uuid, self.session + 1, WAL_OFFSET, superblock.wal_bytes, root.wal_head, root.covered_lsn + 1);
        // From now on `self.session` is that of the last record that was replayed.
        let root_session = root.session;
        self.wal = Some(wal);
        self.session = root_session;
        self.next_record()
    }

    fn next_lsn(&self) -> u64 {
        self.wal.as_ref().expect("made at the end of the scan").next_lsn
    }

    pub(super) fn next_record(&mut self) -> Result<(), OpenError> {
        let lsn = self.next_lsn();
        let Some((header, place)) =
            self.headers.get(&lsn).copied().filter(|(header, _)| header.session >= self.session)
        else {
            return self.end_of_log(lsn);
        };
        if place + header.record_bytes() > self.superblock().wal_bytes {
            return self.end_of_log(lsn);
        }
        self.phase = OpeningPhase::Record(header);
        self.io.read(self.superblock().log_device(), WAL_OFFSET + place, header.record_bytes());
        Ok(())
    }

    pub(super) fn take_record(&mut self, header: RecordHeader, buf: &AlignedBuf) -> Result<(), OpenError> {
        let Some(body) = header.body(buf.as_slice()) else { return self.end_of_log(header.lsn) };
        let steps = decode_body(body).map_err(|source| OpenError::RecordBody { lsn: header.lsn, source })?;
        if header.lsn <= self.vouched_lsn || mutant::is(mutant::Mutant::TornAccepted) {
            return self.apply(header, steps);
        }
        let mut crcs = Vec::new();
        for step in &steps {
            let Redo::Map { runs, crcs: all, .. } = step else { continue };
            let mut rest = &all[..];
            for run in runs {
                if run.end() > self.superblock().device_blocks() {
                    return Err(OpenError::DamagedSpace { start: run.start, end: run.end() });
                }
                self.unvouched.push(*run);
                for start in (run.start..run.end()).step_by(VERIFY_BLOCKS_MAX as usize) {
                    let part = Run { start, count: VERIFY_BLOCKS_MAX.min(run.end() - start) };
                    let (here, behind) = rest.split_at(part.count as usize);
                    crcs.push((start, here.to_vec()));
                    rest = behind;
                    self.io.read(Device::Main, part.offset_bytes(), part.len_bytes());
                }
            }
        }
        if crcs.is_empty() {
            return self.apply(header, steps);
        }
        self.phase = OpeningPhase::Verify { header, steps, crcs };
        Ok(())
    }

    pub(super) fn apply(&mut self, header: RecordHeader, steps: Vec<Redo>) -> Result<(), OpenError> {
        let (_, place) = self.headers[&header.lsn];
        let wal = self.wal.as_mut().expect("made at the end of the scan");
        if !wal.adopt(place, header.record_bytes()) {
            let error = OpenError::MisplacedRecord { lsn: header.lsn, offset: WAL_OFFSET + place };
            return self.give_up_log(header.lsn, error);
        }
        self.session = header.session;
        self.replayed += 1;
        self.phase = OpeningPhase::Apply(steps.into());
        self.advance_pages()
    }

    /// Ends the log before `lsn`, or reports damage.
    pub(super) fn end_of_log(&mut self, lsn: u64) -> Result<(), OpenError> {
        if let Some((offset, errno)) = self.unreadable_record(lsn) {
            return self.give_up_log(lsn, OpenError::UnreadableLog { lsn, offset, errno });
        }
        if lsn <= self.vouched_lsn {
            return self.give_up_log(lsn, OpenError::DamagedLog { lsn, vouched_lsn: self.vouched_lsn });
        }
        self.log_ended()
    }

    /// Returns an unreadable block that may have held a part of the record `lsn`, whose other parts are not known to be
    /// missing.
    fn unreadable_record(&self, lsn: u64) -> Option<(u64, i32)> {
        let wal = self.wal.as_ref().expect("made at the end of the scan");
        let unreadable =
            |at: u64, len: u64| self.io.first_unreadable(self.superblock().log_device(), WAL_OFFSET + at, len);
        // A torn record may be of an earlier session, behind which a later session wrote another with this LSN.
        let known = self.headers.get(&lsn).filter(|(header, _)| header.session >= self.session);
        let torn = known.and_then(|(header, place)| unreadable(*place, header.record_bytes()));
        // The record began where the one before ended or, if it did not fit there, at the ring's begin. The first
        // record behind a checkpoint that a later session wrote began where the root says; that place lies apart if
        // records were written beside the checkpoint and then lost.
        let end = match (wal.live_records(), self.covered) {
            (0, Some((_, end))) => end % wal.bytes(),
            // No record was ever written.
            (0, None) if lsn == 1 => wal.head_in_ring(),
            (0, None) => return torn.or_else(|| unreadable(0, wal.bytes())),
            _ => wal.head_in_ring(),
        };
        if mutant::is(mutant::Mutant::LogEndGuessed) {
            return torn.or_else(|| [end, 0].into_iter().find_map(|at| unreadable(at, BLOCK)));
        }
        torn.or_else(|| [end, wal.head_in_ring(), 0].into_iter().find_map(|at| unreadable(at, BLOCK)))
    }

    /// Gives up the log from the record `lsn` on, which cannot be read and may have been durable: later records are of
    /// no use without it.
    fn give_up_log(&mut self, lsn: u64, error: OpenError) -> Result<(), OpenError> {
        if !self.is_to_mend {
            return Err(error);
        }
        let last_lsn = self.headers.keys().next_back().map_or(lsn, |last| lsn.max(*last)).max(self.vouched_lsn);
        self.lost_log = Some(LostLog { lsn, last_lsn, why: error });
        // New records get LSNs behind all that ever existed.
        self.wal.as_mut().expect("made at the end of the scan").close_at(last_lsn + 1);
        self.log_ended()
    }
}

/// Applies steps of the log, as far as the pages in memory allow. Returns true if all are applied.
pub(super) fn apply_steps(state: &mut State, steps: &mut VecDeque<Redo>) -> Result<bool, OpenError> {
    // Blocks that become free are not tracked: blocks in use are counted at the end of the log.
    let mut freed = Vec::new();
    loop {
        while !state.destroying.is_empty() {
            if let Destroyed::Waiting(_) = state.destroy_some(&mut freed) {
                return Ok(false);
            }
        }
        let Some(redo) = steps.front() else { break };
        match is_ready(state, redo) {
            Ok(true) => state.apply(redo, &mut freed),
            Ok(false) => {
                // The needs of the next steps are read meanwhile.
                for redo in steps.iter().skip(1).take(AHEAD) {
                    let _ = is_loaded(state, redo);
                }
                return Ok(false);
            }
            Err(damage) => {
                let object = redo.object().expect("steps on groups need nothing");
                state.damaged.insert(object.into(), damage);
            }
        }
        steps.pop_front();
    }
    state.settle();
    state.omap_copies.clear();
    state.onodes.trim(|_| false);
    Ok(true)
}

/// Returns true if the next step can be applied: its needs are in memory, and the copy that it takes is whole.
fn is_ready(state: &mut State, redo: &Redo) -> Result<bool, Damage> {
    Ok(is_loaded(state, redo)? && matches!(state.copy_for(redo)?, Fetch::Ready(())))
}

/// Returns true if a step's needs are in memory; otherwise they are being read.
fn is_loaded(state: &mut State, redo: &Redo) -> Result<bool, Damage> {
    let (mut loaded, mut failed) = (true, None);
    Need::of_redo(redo, &mut |need| match state.load(need) {
        Ok(Fetch::Ready(())) => {}
        Ok(Fetch::Pending(_)) => loaded = false,
        Err(damage) => drop(failed.get_or_insert(damage)),
    });
    failed.map_or(Ok(loaded), Err)
}
