//! Deliberate bugs, to see that the simulator's checks find them.
//!
//! Where production code could be wrong, it asks `mutant::is(Mutant::...)`. Without the feature `on`, which only the
//! simulator's own feature `mutants` sets, the answer is the constant `false`, and nothing of a mutant is compiled. With it,
//! one mutant can be switched on for the running thread (`switch`); how often its place was come by is counted, so that one
//! that was missed can be told from one that was never met.
//!
//! A bug that the simulator missed is a check that is missing there: `docs/simulation.md` has the results.

macro_rules! mutants {
    ($($variant:ident $name:literal $part:ident $what:literal,)*) => {
        /// One deliberate bug.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Mutant {
            $(#[doc = $what] $variant,)*
        }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$variant,)*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// What is broken, in a sentence without its end.
            pub const fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }

            pub const fn part(self) -> Part {
                match self { $(Mutant::$variant => Part::$part,)* }
            }
        }
    };
}

/// What a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    Peering,
    Log,
    Leases,
    Replication,
    Recovery,
    Backfill,
    Coding,
    Merging,
    Watching,
    Monitor,
    Quorum,
    Store,
}

mutants! {
    ShortLogLeads "short-log-leads" Peering "the primary keeps its own log though another member has a longer one",
    OldRecordTaken "old-record-taken" Peering "the monitors' record as it was before the interval began is gone by",
    SameEpochAnew "same-epoch-anew" Peering "the interval that follows a session's end begins with the epoch of the one before",
    StrangerHasNothing "stranger-has-nothing" Peering "an OSD that is no member any more answers like one that has nothing",
    StrangerLeads "stranger-leads" Peering "a member that the record does not name may have the authoritative log",
    StartedNotDurable "started-not-durable" Peering "a member says that it has the authoritative log before it has it durably",
    MissingNotDurable "missing-not-durable" Peering "which objects are missing after a merge of logs is not kept",
    ShortUpSetWanted "short-up-set-wanted" Peering "groups want the up set though a further member serves that it has no successor for",
    AnsweredGoBack "answered-go-back" Peering "objects that nobody has go back behind updates that clients may have been answered for",
    VoidRequestsAnswered "void-requests-answered" Log "requests whose updates were lost when their object went back are answered from the log when they come again",
    AdoptedAtOnce "adopted-at-once" Peering "an interval is recorded while one member alone has objects of updates that it takes over",
    FollowsAnyone "follows-anyone" Peering "a member takes updates of a primary that it does not follow",
    MinSizeIgnored "min-size-ignored" Peering "a group serves with a single member",
    BehindServes "behind-serves" Peering "a member whose log does not meet counts as one that serves",
    PastIgnored "past-ignored" Peering "OSDs that served before are not asked for what members lack",
    DivergentKept "divergent-kept" Log "objects that divergent updates changed are not wanted in their version before",
    DivergentCreateKept "divergent-create-kept" Log "objects that divergent updates made are not removed",
    DeleteForgotten "delete-forgotten" Log "a merge of logs does not carry out removals",
    RequestsOutliveRewind "requests-outlive-rewind" Log "requests of updates that were taken back still count as carried out",
    LogTrimmedEarly "log-trimmed-early" Log "the log is trimmed to a few entries, whatever members need",
    NoLeaseWait "no-lease-wait" Leases "a new primary serves without waiting for the promises made to the last one",
    ReadsWithoutLease "reads-without-lease" Leases "a primary answers reads without leases",
    LeaseTooLong "lease-too-long" Leases "a lease counts for twice its time",
    LeaseForOlderMap "lease-for-older-map" Leases "a grant of a member with a newer map counts at once",
    FirstShardGrants "first-shard-grants" Leases "the first shard of an OSD grants leases for all, and the others know nothing of it",
    PromisesForgotten "promises-forgotten" Leases "who has just started tells of no promises made before",
    ClocksAgree "clocks-agree" Leases "a promise lasts no longer than the lease, as if all clocks ran at one rate",
    ShareNeverEnds "share-never-ends" Leases "a member that its primary once let read goes on reading",
    SharesNotWaitedFor "shares-not-waited-for" Leases "a new primary serves without waiting for members that the last one let read",
    ReplicaReadsBesideUpdates "replica-reads-beside-updates" Leases "a member that is not the primary answers reads of what not all members may have",
    AckFromPrimary "ack-from-primary" Replication "a client is answered when the primary alone has its update",
    MemberAcksEarly "member-acks-early" Replication "a member acknowledges an update before it has it durably",
    ResendApplied "resend-applied" Replication "a request that comes again is carried out again",
    ResendAnsweredEarly "resend-answered-early" Replication "a request that comes again is answered while its update is on its way",
    ReadsBesideUpdates "reads-beside-updates" Replication "a read is answered from an update that is not durable everywhere",
    UnblockedUnacknowledged "unblocked-unacknowledged" Replication "a client is let send again before it has acknowledged that it is to hold back",
    BackoffOvertaken "backoff-overtaken" Replication "what a client sent before it knew that it was to hold back is taken, behind what was dropped",
    ReadsMissing "reads-missing" Recovery "the primary answers from what it has of an object that it lacks the newest version of",
    WritesWhileLacking "writes-while-lacking" Recovery "an object is changed while a member lacks it",
    PullsAnyVersion "pulls-any-version" Recovery "the primary takes whatever version of an object it is sent",
    PulledNotDurable "pulled-not-durable" Recovery "an object that the primary has just got is changed before it has it durably",
    ReceivedInPlace "received-in-place" Recovery "pieces of an object that comes replace what was here before they are all there",
    CompleteWithoutLog "complete-without-log" Backfill "a member takes itself for complete though its log ends before the primary's did",
    ShortLogTakesBack "short-log-takes-back" Coding "the shortest log is the group's though others have rolled forward what it lacks",
    SessionEndUntold "session-end-untold" Replication "groups are not told that a session of their members has ended",
    PiecesInAnyOrder "pieces-in-any-order" Recovery "a piece of an object is taken whatever came before it",
    DigestKeptOverWrite "digest-kept-over-write" Replication "an object's digest stays where only a part of its data is written",
    OmapDigestKept "omap-digest-kept" Replication "the digest of an object's omap stays when the omap changes",
    ShardDigestFromZero "shard-digest-from-zero" Coding "the digests of shards that are appended to are those of what is added",
    ReceiverTrusts "receiver-trusts" Recovery "what comes of an object is taken without a look at its digests, and sent so, too",
    RecordedLate "recorded-late" Replication "a digest is recorded though the object has changed since it was read",
    StrayRemoved "stray-removed" Recovery "a copy is removed though the group is not clean",
    CursorAhead "cursor-ahead" Backfill "the cursor is told before what is before it has been sent",
    UpdatesNotSent "updates-not-sent" Backfill "updates of objects that were copied reach the member as log entries only",
    ExtrasKept "extras-kept" Backfill "objects that only the member has are not removed",
    BackfillSkipped "backfill-skipped" Backfill "a member that is behind counts as copied at once",
    NotNeeded "not-needed" Backfill "clients are answered without a member that has been copied",
    ServesBeforeAll "serves-before-all" Backfill "a member that is backfilled serves once the others have what clients were answered for, whether or not it has",
    OldShardsIgnored "old-shards-ignored" Coding "what members cannot make up for is not read from those that served before",
    ShardOfAnyVersion "shard-of-any-version" Coding "a shard is read in whatever version it is here",
    LongestShardLogLeads "longest-shard-log-leads" Coding "the longest of the shards' logs is the group's, though too few may have what it holds",
    UndoDroppedEarly "undo-dropped-early" Coding "what takes an update back is dropped before all shards have the update",
    UndoOfOthersKept "undo-of-others-kept" Coding "an entry of another shard's log is taken back here as there",
    BroughtTooEarly "brought-too-early" Coding "acting sets change while members have objects that they could not take back",
    AppendNotUndone "append-not-undone" Coding "an append that is taken back leaves its bytes",
    KeptBackNotRestored "kept-back-not-restored" Coding "a replacement that is taken back stays, and what was before is dropped",
    WrongShardRebuilt "wrong-shard-rebuilt" Coding "a shard is computed as if it were the next one",
    PlacesAreShards "places-are-shards" Coding "who comes to a group is brought the shard of its place in the up set, whoever stays with that",
    ShardOfUpPlace "shard-of-up-place" Coding "an OSD that is to replace another believes its place in the up set to be its shard",
    OtherShardDropped "other-shard-dropped" Coding "an OSD that the map wants for another shard drops the one that it has at once",
    MergedThoughStale "merged-though-stale" Merging "tables of two groups become that of a whole one, whichever intervals they are of",
    MergeForgetsRequests "merge-forgets-requests" Merging "a merged group does not know which requests were carried out",
    PremergeServes "premerge-serves" Merging "groups serve while they wait to be merged",
    AbsentPassedOver "absent-passed-over" Watching "notifications are not awaited from watchers that are not connected",
    WatchesNotLearned "watches-not-learned" Watching "a new primary waits for nobody whose watch it has not seen itself",
    MergeUnrecorded "merge-unrecorded" Merging "groups are merged though they are not recorded as having stopped",
    MergesOtherShards "merges-other-shards" Merging "groups of erasure-coded pools are merged though OSDs have different shards of them",
    StaleRecord "stale-record" Monitor "an acting set that is not the newest map's is recorded",
    BasisNotCompared "basis-not-compared" Monitor "an activation is recorded whatever record its primary went by",
    PastForgotten "past-forgotten" Monitor "the record forgets who served before",
    VoteNotDurable "vote-not-durable" Quorum "a monitor's vote is told before it is durable",
    EntriesAckedEarly "entries-acked-early" Quorum "a monitor acknowledges entries of the log before they are durable",
    AppliesUndecided "applies-undecided" Quorum "the leader applies entries that it alone has",
    VotesForBehind "votes-for-behind" Quorum "votes go to candidates whose log is behind",
    LeaderReadsUnsure "leader-reads-unsure" Quorum "a leader answers without a lease",
    PeonReadsAtOnce "peon-reads-at-once" Quorum "a peon answers from its state without asking how far that must be",
    StartForgetsPromise "start-forgets-promise" Quorum "who has just started votes though it may have promised the leader not to",
    WipedKeepsNumber "wiped-keeps-number" Quorum "a monitor whose disk was lost comes back as the server that it was",
    CommitBeforeFlush "commit-before-flush" Store "a commit is told when it is written, before the flush",
    ReuseEarly "reuse-early" Store "freed blocks are written again before the record that frees them is vouched for",
    CrcUnchecked "crc-unchecked" Store "checksums are not compared when blocks are read",
    TornAccepted "torn-accepted" Store "the last records of the log are replayed without a look at their data",
    ReplayStopsEarly "replay-stops-early" Store "the last record of the log is not replayed",
    LogReusedEarly "log-reused-early" Store "the log's room is given back when a checkpoint begins",
    RootBeforePages "root-before-pages" Store "a checkpoint's root is written before its pages are flushed",
    DataNotFlushed "data-not-flushed" Store "only the device with the log is flushed",
}

/// Whether this mutant is switched on.
#[cfg(not(feature = "on"))]
#[inline(always)]
pub const fn is(_: Mutant) -> bool {
    false
}

#[cfg(feature = "on")]
pub use switched::{is, met, switch};

#[cfg(feature = "on")]
mod switched {
    use super::Mutant;
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<Option<Mutant>> = Cell::new(of_environment());
        static MET: Cell<u64> = const { Cell::new(0) };
    }

    /// The mutant that `NACRE_MUTANT` names, which is on in all threads from their start: so tests show whether they
    /// find it. Panics if there is none of that name.
    fn of_environment() -> Option<Mutant> {
        let name = std::env::var("NACRE_MUTANT").ok()?;
        let found = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        Some(found.unwrap_or_else(|| panic!("NACRE_MUTANT={name}: there is no such mutant")))
    }

    /// Switches one mutant on in this thread, or all off; its place has not been met yet.
    pub fn switch(mutant: Option<Mutant>) {
        ON.set(mutant);
        MET.set(0);
    }

    /// How often the mutant that is on was asked for.
    pub fn met() -> u64 {
        MET.get()
    }

    pub fn is(mutant: Mutant) -> bool {
        let on = ON.get() == Some(mutant);
        if on {
            MET.set(MET.get() + 1);
        }
        on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
        assert_eq!(names.len(), Mutant::ALL.len());
    }

    #[test]
    fn one_is_on_at_most_and_none_without_the_feature() {
        #[cfg(feature = "on")]
        {
            switch(Some(Mutant::NoLeaseWait));
            assert!(is(Mutant::NoLeaseWait) && !is(Mutant::ReuseEarly));
            assert_eq!(met(), 1);
            switch(None);
        }
        assert!(Mutant::ALL.iter().all(|mutant| !is(*mutant)));
    }
}
