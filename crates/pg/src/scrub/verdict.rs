//! Judgement on the copies of an object: what is wrong, which copy is good, and whether that is proven.
//!
//! No update of the object is on its way, and every member has applied all of them. So all copies should be equal, and
//! in the version that the log names.

use super::map::ObjectScan;
use crate::coded::fingerprint::{CodeWord, Fingerprints, compare};
use crate::group::digests::Digests;
use crate::group::object_info::ObjectInfo;
use bytes::Bytes;
use ec::Code;
use mutant::Mutant;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId, OsdId};
use wire::Decode;

/// Said of copies of one version that can all be read and are not equal.
pub(super) const COPIES_DIFFER: &str = "copies of one version differ, and nothing proves one of them right; \
    'ceph tell PG keep_copy OBJECT OSD' has the others replaced by the one on that OSD";

/// Said where no copy that can be read is what its digest says.
const NONE_IS_PROVEN: &str = "no copy is what its digest says; 'ceph tell PG keep_copy OBJECT OSD' has the digest of the \
    one on that OSD recorded, by which a deep scrub then finds the others bad";

/// Said of erasure-coded objects.
const TOO_FEW_SHARDS: &str = "too few of its shards are good";
const NO_CODE_WORD: &str = "its shards are not those of one object, and nothing proves which of them are wrong";

/// Errors of one copy; bits are those of librados (`err_t` in `rados_types.hpp`).
pub mod copy_error {
    pub const MISSING: u64 = 1 << 1;
    /// Metadata cannot be read.
    pub const STAT: u64 = 1 << 2;
    /// Bytes cannot be read, or fail their checksums.
    pub const READ: u64 = 1 << 3;
    /// The size is not what the object information that was taken says, or not what the copy's own says.
    pub const SIZE_MISMATCH_INFO: u64 = 1 << 11;
    pub const OWN_SIZE_MISMATCH_INFO: u64 = 1 << 18;
    pub const INFO_MISSING: u64 = 1 << 14;
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    pub const SNAP_SET_MISSING: u64 = 1 << 16;
    /// Data or omap is not what the digest in the object information says; a shard's bytes are not what its digest
    /// says.
    pub const DATA_DIGEST_MISMATCH_INFO: u64 = 1 << 9;
    pub const OMAP_DIGEST_MISMATCH_INFO: u64 = 1 << 10;
    pub const SHARD_DIGEST_MISMATCH: u64 = 1 << 12;
    pub const DIGESTS: u64 = DATA_DIGEST_MISMATCH_INFO | OMAP_DIGEST_MISMATCH_INFO;
    /// Found by deep scrubs only.
    pub const DEEP: u64 = READ | DIGESTS | SHARD_DIGEST_MISMATCH;
    /// Errors with which a copy cannot be taken for good.
    pub const UNREADABLE: u64 = MISSING | STAT | READ | INFO_MISSING | INFO_CORRUPTED;
}

/// Differences between copies; bits are those of librados (`obj_err_t`).
pub mod object_error {
    /// Copies are in different versions, or what is kept of one version differs.
    pub const INFO_INCONSISTENCY: u64 = 1 << 1;
    pub const DATA_DIGEST_MISMATCH: u64 = 1 << 4;
    pub const OMAP_DIGEST_MISMATCH: u64 = 1 << 5;
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    pub const ATTR_VALUE_MISMATCH: u64 = 1 << 7;
    pub const ATTR_NAME_MISMATCH: u64 = 1 << 8;
    pub const SNAP_SET_INCONSISTENCY: u64 = 1 << 9;
    pub const DEEP: u64 = DATA_DIGEST_MISMATCH | OMAP_DIGEST_MISMATCH;
}

/// State of an object by the group's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logged {
    Nothing,
    Version(EVersion),
    Removed,
}

/// One copy of an object that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyState {
    /// Bits of [`copy_error`].
    pub errors: u64,
    /// `None`: there is nothing.
    pub scan: Option<ObjectScan>,
    pub info: Option<ObjectInfo>,
}

/// Action that a finding calls for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// These copies are bad; others are good, in this version.
    Replace { bad: Vec<OsdId>, version: EVersion },
    /// The object was removed; these still have it.
    Remove { bad: Vec<OsdId> },
    /// The good copy cannot be told, or there is none.
    Undecided,
}

impl Verdict {
    /// Tells whether the copy on an OSD is replaced or removed.
    pub fn calls_bad(&self, osd: OsdId) -> bool {
        match self {
            Verdict::Replace { bad, .. } | Verdict::Remove { bad } => bad.contains(&osd),
            Verdict::Undecided => false,
        }
    }
}

/// An object whose copies are not equal and whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub object: ObjectId,
    /// Bits of [`object_error`].
    pub errors: u64,
    pub copies: BTreeMap<OsdId, CopyState>,
    /// The copy whose object information is taken for the object's; `None`: there is none that could be.
    pub selected: Option<OsdId>,
    pub verdict: Verdict,
    /// True if the verdict follows from checksums, the log or a majority that agrees on the version; else an operator
    /// must order it. How many copies of one version are equal proves nothing: what went wrong on one may have gone
    /// wrong on others.
    pub proven: bool,
    pub reason: &'static str,
}

/// Shards of an object that members have, and the number that it takes to compute the others. For replicated objects
/// none, and one copy.
pub struct Shards<'a> {
    pub of: &'a dyn Fn(OsdId) -> Option<u8>,
    pub needed: usize,
    /// Code that the shards are to be a word of.
    pub code: Option<&'a Code>,
}

impl Shards<'_> {
    /// Value for replicated objects.
    pub const NONE: Shards<'static> = Shards { of: &|_| None, needed: 1, code: None };

    /// Compares what these members have of an object, each of which is a shard that was read.
    fn compare(&self, copies: &BTreeMap<OsdId, CopyState>, members: &[OsdId]) -> CodeWord {
        let Some(code) = self.code.filter(|_| !mutant::is(Mutant::CodeWordBelieved)) else { return CodeWord::Whole };
        let fingerprints = |osd: &OsdId| copies[osd].scan.as_ref()?.fingerprints.as_ref();
        let of_member = |osd: &OsdId| Some((usize::from((self.of)(*osd)?), fingerprints(osd)?));
        let by_shard: BTreeMap<usize, &Fingerprints> = members.iter().filter_map(of_member).collect();
        compare(code, &by_shard.into_iter().collect::<Vec<_>>())
    }
}

/// Consequence of an operator's choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The others are replaced, as this verdict says.
    Replace(Finding),
    /// The copy is not what its digest says: that is to be recorded first, as it is.
    Record { version: EVersion, digests: Digests },
}

impl Finding {
    /// Returns true if an operator must say which copy is good.
    pub fn waits_for_choice(&self) -> bool {
        self.verdict == Verdict::Undecided && self.copies.keys().any(|osd| self.chosen(*osd).is_ok())
    }

    fn is_deep(&self, osd: OsdId) -> bool {
        let copy = &self.copies[&osd];
        copy.errors & copy_error::DEEP != 0 || copy.errors == 0 && self.errors & object_error::DEEP != 0
    }

    /// Errors that light and that deep scrubs find.
    pub fn counts(&self) -> (u64, u64) {
        let bad: Vec<OsdId> = match &self.verdict {
            Verdict::Replace { bad, .. } | Verdict::Remove { bad } => bad.clone(),
            Verdict::Undecided => {
                self.copies.iter().filter(|(_, copy)| copy.errors != 0).map(|(osd, _)| *osd).collect()
            }
        };
        if bad.is_empty() {
            let deep = self.errors & object_error::DEEP != 0;
            return (u64::from(!deep), u64::from(deep));
        }
        let deep = bad.iter().filter(|osd| self.is_deep(**osd)).count() as u64;
        (bad.len() as u64 - deep, deep)
    }
}

fn state(mut scan: Option<ObjectScan>, shard: Option<u8>) -> CopyState {
    let info = scan.as_ref().and_then(|scan| scan.info.as_ref());
    let info = info.map(|info| ObjectInfo::from_slice(info));
    let errors = match (&scan, &info) {
        (None, _) => copy_error::MISSING,
        (Some(scan), _) if scan.metadata_error.is_some() => copy_error::STAT,
        (Some(_), None) => copy_error::INFO_MISSING,
        (Some(_), Some(Err(_))) => copy_error::INFO_CORRUPTED,
        (Some(scan), _) if scan.read_error.is_some() => copy_error::READ,
        (Some(scan), Some(Ok(info))) => digest_errors(scan, info, shard),
    };
    if let Some(scan) = scan.as_mut().filter(|_| shard.is_some()) {
        // Shards differ.
        scan.data_crc = None;
    }
    let info = info.and_then(Result::ok).filter(|_| errors & copy_error::STAT == 0);
    CopyState { errors, scan, info }
}

/// Returns the errors of content that is not what the object information's digests say. Content that was not read, or
/// has no digest, is not wrong.
fn digest_errors(scan: &ObjectScan, info: &ObjectInfo, shard: Option<u8>) -> u64 {
    let known = &info.digests;
    let error = |known: Option<u32>, found: Option<u32>, bit: u64| match known.zip(found) {
        Some((known, found)) if known != found => bit,
        _ => 0,
    };
    let of_data = match shard {
        Some(shard) => {
            let known = known.shards.get(usize::from(shard)).copied();
            error(known, scan.data_crc, copy_error::SHARD_DIGEST_MISMATCH)
        }
        None => error(known.data, scan.data_crc, copy_error::DATA_DIGEST_MISMATCH_INFO),
    };
    of_data | error(known.omap, scan.omap_digest, copy_error::OMAP_DIGEST_MISMATCH_INFO)
}

/// Returns the values that tell two copies of one version apart.
fn content(copy: &CopyState) -> impl PartialEq + use<> {
    copy.scan.as_ref().map(|s| (s.size_bytes, s.info.clone(), s.attrs_crc, s.omap_keys, s.omap_crc, s.data_crc))
}

/// Returns the differences between two copies, as bits of [`object_error`].
pub(super) fn differences(copy: &CopyState, other: &CopyState) -> u64 {
    let infos = copy.info.as_ref().zip(other.info.as_ref());
    let snap_sets_differ = infos.is_some_and(|(a, b)| a.snap_set != b.snap_set);
    let (Some(a), Some(b)) = (&copy.scan, &other.scan) else { return 0 };
    let mut errors = 0;
    let mut differ = |differ: bool, bit: u64| errors |= if differ { bit } else { 0 };
    differ(a.size_bytes != b.size_bytes, object_error::SIZE_MISMATCH);
    differ(a.info != b.info, object_error::INFO_INCONSISTENCY);
    differ(snap_sets_differ, object_error::SNAP_SET_INCONSISTENCY);
    if a.attrs_crc != b.attrs_crc {
        let attrs = a.attrs.as_ref().zip(b.attrs.as_ref());
        let names_differ = attrs.is_some_and(|(a, b)| !a.keys().eq(b.keys()));
        let other_value = |(name, value): (&Bytes, &Bytes), b: &BTreeMap<Bytes, Bytes>| {
            b.get(name).is_some_and(|other| other != value)
        };
        let values_differ = attrs.is_none_or(|(a, b)| a.iter().any(|attr| other_value(attr, b)));
        differ(names_differ, object_error::ATTR_NAME_MISMATCH);
        differ(values_differ, object_error::ATTR_VALUE_MISMATCH);
    }
    differ((a.omap_keys, a.omap_crc) != (b.omap_keys, b.omap_crc), object_error::OMAP_DIGEST_MISMATCH);
    differ(a.data_crc != b.data_crc, object_error::DATA_DIGEST_MISMATCH);
    errors
}

/// Compares the copies of one object; `None` if all is well.
pub fn judge(
    object: &ObjectId,
    primary: OsdId,
    logged: Logged,
    copies: BTreeMap<OsdId, Option<ObjectScan>>,
    shards: &Shards<'_>,
) -> Option<Finding> {
    let states = copies.into_iter().map(|(osd, scan)| (osd, state(scan, (shards.of)(osd))));
    let copies: BTreeMap<OsdId, CopyState> = states.collect();
    let finding = Finding {
        object: object.clone(),
        errors: 0,
        copies,
        selected: None,
        verdict: Verdict::Undecided,
        proven: false,
        reason: "",
    };
    match logged {
        Logged::Removed => finding.judge_removed(),
        Logged::Version(version) => finding.judge_version(primary, Some(version), shards),
        Logged::Nothing => finding.judge_version(primary, None, shards),
    }
}

impl Finding {
    fn osds(&self, wanted: impl Fn(&CopyState) -> bool) -> Vec<OsdId> {
        self.copies.iter().filter(|(_, copy)| wanted(copy)).map(|(osd, _)| *osd).collect()
    }

    fn is_majority(&self, count: usize) -> bool {
        2 * count > self.copies.len()
    }

    fn undecided(mut self, reason: &'static str) -> Option<Finding> {
        (self.verdict, self.proven, self.reason) = (Verdict::Undecided, false, reason);
        Some(self)
    }

    fn judge_removed(mut self) -> Option<Finding> {
        let there = self.osds(|copy| copy.scan.is_some());
        if there.is_empty() {
            return None;
        }
        let bad = self.osds(|copy| copy.scan.is_some() && copy.errors & copy_error::STAT == 0);
        // Copies that have nothing are right.
        for copy in self.copies.values_mut() {
            copy.errors &= !copy_error::MISSING;
        }
        self.errors = object_error::INFO_INCONSISTENCY;
        if bad.is_empty() {
            return self.undecided("its metadata is damaged");
        }
        (self.verdict, self.proven, self.reason) = (Verdict::Remove { bad }, true, "the log says that it was removed");
        Some(self)
    }

    /// Returns the choice of an operator who keeps the copy on `osd`: copies that are not like it are bad.
    ///
    /// Errors: that copy cannot be read, or is all that there is.
    pub fn chosen(&self, osd: OsdId) -> Result<Choice, &'static str> {
        let kept = self.copies.get(&osd).ok_or("that OSD has no copy that was compared")?;
        let info = kept.info.as_ref().filter(|_| kept.errors & copy_error::UNREADABLE == 0);
        let info = info.ok_or("the copy on that OSD cannot be read")?;
        let version = info.version;
        if kept.errors & copy_error::DIGESTS != 0 {
            if self.object.is_clone() {
                return Err(
                    "the copy on that OSD is not what its digest says, and a snapshot's digests are recorded no more",
                );
            }
            let found = kept.scan.as_ref().expect("it was compared with its digests");
            let (data, omap) = (found.data_crc.or(info.digests.data), found.omap_digest);
            let shards = info.digests.shards.clone();
            return Ok(Choice::Record { version, digests: Digests { data, omap, shards } });
        }
        let wanted = content(kept);
        let is_bad = |copy: &CopyState| copy.errors & copy_error::STAT == 0 && content(copy) != wanted;
        let bad = self.osds(is_bad);
        if bad.is_empty() {
            return Err("all copies that can be replaced are like that one");
        }
        let (verdict, reason) = (Verdict::Replace { bad, version }, "an operator has chosen");
        Ok(Choice::Replace(Finding { verdict, reason, selected: Some(osd), ..self.clone() }))
    }

    /// Judges an object that the log says is in this version, or does not name.
    fn judge_version(mut self, primary: OsdId, logged: Option<EVersion>, shards: &Shards<'_>) -> Option<Finding> {
        let versions: Vec<EVersion> =
            self.copies.values().filter_map(|copy| copy.info.as_ref()).map(|i| i.version).collect();
        let version = logged.or(versions.iter().max().copied());
        let Some(version) = version else {
            return self.undecided("no copy can be read");
        };
        if versions.iter().any(|v| *v != version) {
            self.errors |= object_error::INFO_INCONSISTENCY;
        }
        let in_version = |copy: &CopyState| copy.info.as_ref().is_some_and(|info| info.version == version);
        let candidates = self.osds(|copy| copy.errors == 0 && in_version(copy));
        let Some(first) = candidates.first().map(|osd| &self.copies[osd]) else {
            let is_readable = |copy: &CopyState| copy.errors & copy_error::UNREADABLE == 0 && in_version(copy);
            let readable = self.osds(is_readable);
            self.selected = readable.iter().find(|osd| **osd == primary).or(readable.first()).copied();
            return match self.osds(|copy| copy.errors & copy_error::DIGESTS != 0 && is_readable(copy)).is_empty() {
                false => self.undecided(NONE_IS_PROVEN),
                true => self.undecided("no copy of its newest version can be read"),
            };
        };
        let differ = candidates.iter().fold(0, |errors, osd| errors | differences(first, &self.copies[osd]));
        self.errors |= differ;
        let preferred = |of: &[OsdId]| of.iter().find(|osd| **osd == primary).or(of.first()).copied();
        self.selected = preferred(&candidates);
        let good = match differ {
            0 => candidates,
            _ => {
                let like = |osd: &OsdId| {
                    let wanted = content(&self.copies[osd]);
                    let same = candidates.iter().filter(|other| content(&self.copies[other]) == wanted);
                    same.copied().collect::<Vec<OsdId>>()
                };
                let most = candidates.iter().map(like).max_by_key(Vec::len).expect("there are some");
                self.selected = preferred(&most);
                return self.undecided(COPIES_DIFFER);
            }
        };
        let good = match shards.compare(&self.copies, &good) {
            CodeWord::Whole => good,
            CodeWord::Broken => {
                self.errors |= object_error::DATA_DIGEST_MISMATCH;
                return self.undecided(NO_CODE_WORD);
            }
            CodeWord::Without(wrong) => {
                let is_wrong = |osd: &OsdId| (shards.of)(*osd).is_some_and(|shard| wrong.contains(shard.into()));
                let (wrong, good): (Vec<OsdId>, Vec<OsdId>) = good.into_iter().partition(is_wrong);
                for osd in wrong {
                    let copy = self.copies.get_mut(&osd).expect("it was compared");
                    copy.errors |= copy_error::SHARD_DIGEST_MISMATCH;
                }
                good
            }
        };
        self.selected = preferred(&good);
        let all_bad = self.osds(|_| true).into_iter().filter(|osd| !good.contains(osd)).collect::<Vec<_>>();
        if all_bad.is_empty() {
            return None;
        }
        if good.len() < shards.needed {
            return self.undecided(TOO_FEW_SHARDS);
        }
        // The store stops rather than change what it cannot read: such a copy is repaired offline.
        let bad: Vec<OsdId> =
            all_bad.into_iter().filter(|osd| self.copies[osd].errors & copy_error::STAT == 0).collect();
        if bad.is_empty() {
            return self.undecided("a copy's metadata is damaged; `nacre store repair` gives it up");
        }
        let there = self.copies.values().filter(|copy| copy.scan.is_some()).count();
        let of_version = self.copies.values().filter(|copy| in_version(copy)).count();
        let is_version_sure =
            logged.is_some() || versions.iter().all(|v| *v == version) || self.is_majority(of_version);
        let is_presence_sure = logged.is_some() || there == self.copies.len() || self.is_majority(there);
        self.proven = differ == 0 && is_version_sure && is_presence_sure;
        if differ == 0 {
            self.reason = match (logged, self.proven) {
                (Some(_), _) => "the log names the version of the good copies",
                (None, true) => "all that can be read are equal",
                (None, false) => "the newest version that a member has",
            };
        }
        self.verdict = Verdict::Replace { bad, version };
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PoolId;

    fn object() -> ObjectId {
        ObjectId::head(PoolId(1), 1, b"", b"o")
    }

    fn scan(version: u64) -> ObjectScan {
        let info = ObjectInfo { version: EVersion::new(1, version), ..ObjectInfo::default() };
        ObjectScan { info: Some(info.to_bytes()), data_crc: Some(7), ..ObjectScan::of(object()) }
    }

    fn judged(logged: Logged, copies: [Option<ObjectScan>; 3]) -> Option<(Verdict, bool)> {
        let copies = copies.into_iter().enumerate().map(|(i, scan)| (OsdId(i as i32), scan)).collect();
        judge(&object(), OsdId(0), logged, copies, &Shards::NONE).map(|finding| (finding.verdict, finding.proven))
    }

    fn replace(bad: &[i32], version: u64) -> Verdict {
        Verdict::Replace { bad: bad.iter().copied().map(OsdId).collect(), version: EVersion::new(1, version) }
    }

    const V5: Logged = Logged::Version(EVersion::new(1, 5));
    const SILENT: Logged = Logged::Nothing;

    #[test]
    fn equal_copies_are_well() {
        assert_eq!(judged(V5, [Some(scan(5)), Some(scan(5)), Some(scan(5))]), None);
        assert_eq!(judged(SILENT, [Some(scan(5)), Some(scan(5)), Some(scan(5))]), None);
        assert_eq!(judged(Logged::Removed, [None, None, None]), None);
    }

    #[test]
    fn what_is_bad_by_itself_is_proven() {
        let unreadable = ObjectScan { read_error: Some("crc".to_owned()), data_crc: None, ..scan(5) };
        let without_info = ObjectScan { info: None, ..scan(5) };
        let garbled = ObjectScan { info: Some(Bytes::from_static(b"x")), ..scan(5) };
        for bad in [unreadable.clone(), without_info, garbled] {
            for logged in [V5, SILENT] {
                let copies = [Some(bad.clone()), Some(scan(5)), Some(scan(5))];
                assert_eq!(judged(logged, copies), Some((replace(&[0], 5), true)), "{bad:?}");
            }
        }
        let all = [Some(unreadable.clone()), Some(unreadable.clone()), Some(unreadable.clone())];
        assert_eq!(judged(V5, all), Some((Verdict::Undecided, false)));
        // The newest is unreadable: an older one is no substitute.
        let copies = [Some(unreadable), Some(scan(4)), Some(scan(4))];
        assert_eq!(judged(SILENT, copies), Some((Verdict::Undecided, false)));
    }

    #[test]
    fn the_log_decides_over_versions_and_existence() {
        assert_eq!(judged(V5, [Some(scan(4)), Some(scan(4)), Some(scan(5))]), Some((replace(&[0, 1], 5), true)));
        assert_eq!(judged(V5, [Some(scan(6)), None, Some(scan(5))]), Some((replace(&[0, 1], 5), true)));
        assert_eq!(judged(V5, [None, None, None]), Some((Verdict::Undecided, false)));
        let removed = judged(Logged::Removed, [None, Some(scan(5)), None]);
        assert_eq!(removed, Some((Verdict::Remove { bad: vec![OsdId(1)] }, true)));
    }

    #[test]
    fn without_the_log_a_majority_decides() {
        assert_eq!(judged(SILENT, [Some(scan(5)), Some(scan(4)), Some(scan(5))]), Some((replace(&[1], 5), true)));
        assert_eq!(judged(SILENT, [Some(scan(4)), Some(scan(4)), Some(scan(5))]), Some((replace(&[0, 1], 5), false)));
        assert_eq!(judged(SILENT, [None, Some(scan(5)), Some(scan(5))]), Some((replace(&[0], 5), true)));
        assert_eq!(judged(SILENT, [None, None, Some(scan(5))]), Some((replace(&[0, 1], 5), false)));
    }

    #[test]
    fn readable_copies_of_one_version_that_differ_wait_for_a_choice() {
        let other = |crc| Some(ObjectScan { data_crc: Some(crc), ..scan(5) });
        for logged in [V5, SILENT] {
            for copies in [[other(1), other(7), other(7)], [other(1), other(2), other(7)], [None, other(2), other(7)]] {
                assert_eq!(judged(logged, copies), Some((Verdict::Undecided, false)));
            }
        }
    }

    #[test]
    fn an_operator_chooses_among_what_can_be_read() {
        let other = |crc| Some(ObjectScan { data_crc: Some(crc), ..scan(5) });
        let found = |copies: [Option<ObjectScan>; 3]| {
            let copies = copies.into_iter().enumerate().map(|(i, scan)| (OsdId(i as i32), scan)).collect();
            judge(&object(), OsdId(0), V5, copies, &Shards::NONE).expect("they differ")
        };
        let verdict = |finding: &Finding, osd: i32| match finding.chosen(OsdId(osd)) {
            Ok(Choice::Replace(finding)) => Some(finding.verdict),
            _ => None,
        };
        let two_alike = found([other(1), other(7), other(7)]);
        assert_eq!(verdict(&two_alike, 0), Some(replace(&[1, 2], 5)));
        assert_eq!(verdict(&two_alike, 2), Some(replace(&[0], 5)));
        let one_is_gone = found([None, other(2), other(7)]);
        assert!(one_is_gone.chosen(OsdId(0)).is_err() && one_is_gone.chosen(OsdId(5)).is_err());
        assert_eq!(verdict(&one_is_gone, 1), Some(replace(&[0, 2], 5)));
    }

    #[test]
    fn digests_prove_copies_whatever_most_members_have() {
        let digests = Digests { data: Some(7), omap: Some(3), shards: Vec::new() };
        let info = ObjectInfo { version: EVersion::new(1, 5), digests, ..ObjectInfo::default() };
        let copy = |data, omap| {
            let info = Some(info.to_bytes());
            Some(ObjectScan { info, data_crc: Some(data), omap_digest: Some(omap), ..ObjectScan::of(object()) })
        };
        for logged in [V5, SILENT] {
            assert_eq!(judged(logged, [copy(7, 3), copy(7, 3), copy(7, 3)]), None);
            assert_eq!(judged(logged, [copy(8, 3), copy(8, 3), copy(7, 3)]), Some((replace(&[0, 1], 5), true)));
            assert_eq!(judged(logged, [copy(7, 3), copy(7, 4), copy(7, 3)]), Some((replace(&[1], 5), true)));
            // A light scrub reads no data.
            let light = |omap| copy(0, omap).map(|scan| ObjectScan { data_crc: None, ..scan });
            assert_eq!(judged(logged, [light(3), light(3), light(3)]), None);
            assert_eq!(judged(logged, [light(3), light(4), light(3)]), Some((replace(&[1], 5), true)));
        }
        let copies = [copy(8, 3), copy(8, 3), copy(9, 3)].into_iter().enumerate();
        let copies = copies.map(|(i, scan)| (OsdId(i as i32), scan)).collect();
        let none = judge(&object(), OsdId(0), V5, copies, &Shards::NONE).expect("none is right");
        assert_eq!((&none.verdict, none.proven, none.waits_for_choice()), (&Verdict::Undecided, false, true));
        let digests = Digests { data: Some(9), omap: Some(3), shards: Vec::new() };
        assert_eq!(none.chosen(OsdId(2)), Ok(Choice::Record { version: EVersion::new(1, 5), digests }));
        assert_eq!(none.counts(), (0, 3));
    }

    #[test]
    fn digests_prove_shards_and_too_few_good_ones_replace_nothing() {
        let digests = Digests { shards: vec![10, 11, 12], ..Digests::default() };
        let info = ObjectInfo { version: EVersion::new(1, 5), digests, ..ObjectInfo::default() };
        let judged = |data: [u32; 3]| {
            let scan =
                |crc| ObjectScan { info: Some(info.to_bytes()), data_crc: Some(crc), ..ObjectScan::of(object()) };
            let copies = data.into_iter().enumerate().map(|(i, crc)| (OsdId(i as i32), Some(scan(crc)))).collect();
            let shards = Shards { of: &|osd| Some(osd.0 as u8), needed: 2, code: None };
            judge(&object(), OsdId(0), V5, copies, &shards).map(|found| (found.verdict, found.proven))
        };
        assert_eq!(judged([10, 11, 12]), None);
        assert_eq!(judged([10, 10, 12]), Some((replace(&[1], 5), true)));
        assert_eq!(judged([10, 10, 10]), Some((Verdict::Undecided, false)));
    }

    #[test]
    fn attributes_differ_by_name_or_value() {
        let with = |attrs: &[(&'static str, &'static str)]| {
            let attrs: BTreeMap<_, _> =
                attrs.iter().map(|(name, value)| (Bytes::from(*name), Bytes::from(*value))).collect();
            let attrs_crc = attrs
                .iter()
                .fold(7, |crc, (name, value)| types::crc32c::update(types::crc32c::update(crc, name), value));
            state(Some(ObjectScan { attrs: Some(attrs), attrs_crc, ..scan(5) }), None)
        };
        let plain = with(&[("_a", "1")]);
        assert_eq!(differences(&plain, &plain), 0);
        assert_eq!(differences(&plain, &with(&[("_a", "2")])), object_error::ATTR_VALUE_MISMATCH);
        assert_eq!(differences(&plain, &with(&[("_b", "1")])), object_error::ATTR_NAME_MISMATCH);
        let both = object_error::ATTR_NAME_MISMATCH | object_error::ATTR_VALUE_MISMATCH;
        assert_eq!(differences(&plain, &with(&[("_a", "2"), ("_b", "1")])), both);
        let unsent = CopyState {
            scan: plain.scan.clone().map(|scan| ObjectScan { attrs: None, attrs_crc: 1, ..scan }),
            ..plain.clone()
        };
        assert_eq!(differences(&plain, &unsent), object_error::ATTR_VALUE_MISMATCH, "what differs is not known");
    }

    #[test]
    fn damaged_metadata_is_left_to_the_offline_repair() {
        let damaged = Some(ObjectScan { metadata_error: Some("page".to_owned()), info: None, ..scan(5) });
        assert_eq!(judged(V5, [damaged.clone(), Some(scan(5)), Some(scan(5))]), Some((Verdict::Undecided, false)));
        assert_eq!(judged(V5, [damaged, None, Some(scan(5))]), Some((replace(&[1], 5), true)));
    }
}
