//! Deliberate bugs, which show that the simulator's checks find bugs.
//!
//! Production code asks `mutant::is(Mutant::...)` where a bug is possible. Without the feature `on`, which only the
//! simulator's own feature `mutants` sets, the answer is the constant `false`, and no code of a mutant is compiled.
//! With it, one mutant can be switched on for the running thread (`switch`). A counter (`met`) tells how often the
//! thread reached its place, which distinguishes a mutant that was missed from one that was never met.
//!
//! A bug that the simulator misses shows a missing check: `docs/simulation.md` has the results.

macro_rules! mutants {
    ($($variant:ident $name:literal $part:ident $what:literal,)*) => {
        /// One deliberate bug.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Mutant {
            $(#[doc = $what] $variant,)*
        }

        impl Mutant {
            pub const ALL: &[Mutant] = &[$(Mutant::$variant,)*];

            /// Name of the mutant on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name,)* }
            }

            /// Description of the bug: a sentence without a capital and a full stop.
            pub const fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what,)* }
            }

            pub const fn part(self) -> Part {
                match self { $(Mutant::$variant => Part::$part,)* }
            }
        }
    };
}

/// The part of the system that a mutant breaks.
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
    Clocks,
    Memory,
}

mutants! {
    ShortLogLeads "short-log-leads" Peering "the primary keeps its own log though another member has a longer one",
    OldRecordTaken "old-record-taken" Peering "a primary goes by the monitors' record from before its interval began",
    SameEpochAnew "same-epoch-anew" Peering "the interval after a session's end begins with the epoch of the one \
        before",
    StrangerHasNothing "stranger-has-nothing" Peering "an OSD that is no member any more answers like one that has \
        nothing",
    StrangerLeads "stranger-leads" Peering "a member that the record does not name may have the authoritative log",
    StartedNotDurable "started-not-durable" Peering "a member reports the authoritative log before it has it durably",
    MissingNotDurable "missing-not-durable" Peering "a merge of logs does not store its list of missing objects",
    ShortUpSetWanted "short-up-set-wanted" Peering "groups want the up set though a further member serves and has no \
        successor in it",
    AnsweredGoBack "answered-go-back" Peering "unfound objects go back behind updates that clients may have been \
        answered for",
    VoidRequestsAnswered "void-requests-answered" Log "a request whose update was lost when its object went back is \
        answered from the log when it comes again",
    AdoptedAtOnce "adopted-at-once" Peering "an interval is recorded while one member alone has objects of adopted \
        updates",
    FollowsAnyone "follows-anyone" Peering "a member takes updates of a primary that it does not follow",
    MinSizeIgnored "min-size-ignored" Peering "a group serves with a single member",
    BehindServes "behind-serves" Peering "a member whose log does not meet counts as one that serves",
    FormerMembersNotAwaited "former-members-not-awaited" Peering "a group serves with fewer members than there may be, \
        while it asks for those that served before",
    PastIgnored "past-ignored" Peering "OSDs that served before are not asked for missing objects",
    DivergentKept "divergent-kept" Log "a merge of logs does not want the prior versions of objects that divergent \
        updates changed",
    DivergentCreateKept "divergent-create-kept" Log "a merge of logs does not remove objects that divergent updates \
        made",
    DeleteForgotten "delete-forgotten" Log "a merge of logs does not carry out removals",
    RequestsOutliveRewind "requests-outlive-rewind" Log "requests of undone updates still count as carried out",
    LogTrimmedEarly "log-trimmed-early" Log "the log is trimmed to a few entries, though members need more",
    NoLeaseWait "no-lease-wait" Leases "a new primary serves without waiting for the promises made to the last one",
    ReadsWithoutLease "reads-without-lease" Leases "a primary answers reads without leases",
    LeaseTooLong "lease-too-long" Leases "a lease counts for twice its time",
    LeaseForOlderMap "lease-for-older-map" Leases "a grant of a member with a newer map counts at once",
    FirstShardGrants "first-shard-grants" Leases "the first shard of an OSD grants leases for all shards, and the \
        others do not know of it",
    PromisesForgotten "promises-forgotten" Leases "an OSD that has just started reports no promises made before",
    ClocksAgree "clocks-agree" Leases "a promise lasts no longer than the lease, as if all clocks ran at one rate",
    ShareNeverEnds "share-never-ends" Leases "a member that its primary once let read goes on reading",
    SharesNotWaitedFor "shares-not-waited-for" Leases "a new primary serves without waiting for members that the last \
        one let read",
    ReplicaReadsBesideUpdates "replica-reads-beside-updates" Leases "a member other than the primary answers reads of \
        updates that not all members may have",
    AckFromPrimary "ack-from-primary" Replication "a client is answered when the primary alone has its update",
    MemberAcksEarly "member-acks-early" Replication "a member acknowledges an update before it has it durably",
    ResendApplied "resend-applied" Replication "a request that comes again is carried out again",
    ResendAnsweredEarly "resend-answered-early" Replication "a request that comes again is answered while its update \
        is in flight",
    ReadsBesideUpdates "reads-beside-updates" Replication "a read is answered from an update that is not durable \
        everywhere",
    UnblockedUnacknowledged "unblocked-unacknowledged" Replication "a client's backoff ends before the client has \
        acknowledged it",
    BackoffOvertaken "backoff-overtaken" Replication "a request sent before its client knew of the backoff is taken, \
        after earlier ones were dropped",
    ReadsMissing "reads-missing" Recovery "the primary answers reads of an object whose newest version it lacks",
    WritesWhileLacking "writes-while-lacking" Recovery "an object is changed while a member lacks it",
    PullsAnyVersion "pulls-any-version" Recovery "the primary takes any version of an object that it is sent",
    PulledNotDurable "pulled-not-durable" Recovery "an object that the primary has just received is changed before it \
        is durable there",
    ReceivedInPlace "received-in-place" Recovery "pieces of an incoming object replace the old one before all of them \
        are there",
    CompleteWithoutLog "complete-without-log" Backfill "a member counts itself as complete though its log ends before \
        the primary's did",
    ShortLogTakesBack "short-log-takes-back" Coding "the shortest log becomes the group's though other shards have \
        rolled forward beyond it",
    SessionEndUntold "session-end-untold" Replication "groups are not told that a session of their members has ended",
    PiecesInAnyOrder "pieces-in-any-order" Recovery "a piece of an object is taken without the pieces before it",
    DigestKeptOverWrite "digest-kept-over-write" Replication "an object's digest stays after a write of a part of its \
        data",
    OmapDigestKept "omap-digest-kept" Replication "the digest of an object's omap stays when the omap changes",
    ShardDigestFromZero "shard-digest-from-zero" Coding "after an append, digests of shards are those of the added bytes",
    OldBytesAsZeros "old-bytes-as-zeros" Coding "bytes around an overwrite in a stripe become zeros",
    OverwriteNotUndone "overwrite-not-undone" Coding "what an overwrite replaced on a shard does not come back",
    OmapNotUndone "omap-not-undone" Coding "keys of an omap stay what an update made them when it is taken back",
    QuestionsOfAnyProcess "questions-of-any-process" Replication "an OSD that has restarted takes answers to what its former process asked",
    DifferenceWritten "difference-written" Coding "parity shards become the change of parity instead of changing by it",
    ParityNotWritten "parity-not-written" Coding "an overwrite does not change the parity shards",
    CodeWordBelieved "code-word-believed" Coding "a deep scrub believes that shards are a code word",
    ReceiverTrusts "receiver-trusts" Recovery "sender and receiver of an object do not compare it with its digests",
    RecordedLate "recorded-late" Replication "a digest is recorded though the object has changed since it was read",
    StrayRemoved "stray-removed" Recovery "a copy is removed though the group is not clean",
    CursorAhead "cursor-ahead" Backfill "a backfill cursor is told before the objects before it have been sent",
    UpdatesNotSent "updates-not-sent" Backfill "updates of objects that were copied reach the member as log entries \
        only",
    ExtrasKept "extras-kept" Backfill "objects that only the backfilled member has are not removed",
    BackfillSkipped "backfill-skipped" Backfill "a member that is behind counts as copied at once",
    NotNeeded "not-needed" Backfill "clients are answered without a member that has been copied",
    ServesBeforeAll "serves-before-all" Backfill "a backfilled member serves once the others have all answered \
        updates, even if it lacks some itself",
    OldShardsIgnored "old-shards-ignored" Coding "data that the members cannot reconstruct is not read from OSDs that \
        served before",
    ShardOfAnyVersion "shard-of-any-version" Coding "a shard is read in any version that is here",
    LongestShardLogLeads "longest-shard-log-leads" Coding "the longest of the shards' logs becomes the group's, though \
        too few shards may have its updates",
    TouchedNotAwaited "touched-not-awaited" Coding "an update that skips some shards is answered without waiting for \
        those that it touches",
    UntoldOvertaken "untold-overtaken" Coding "a shard is read before its OSD is told of the updates that skip it",
    SkippedUndoLost "skipped-undo-lost" Coding "a shard that takes over an update which skips it cannot take it back",
    SplitForgetsSkips "split-forgets-skips" Coding "a split group does not know which shards the other group's updates \
        skip",
    SkipsUntold "skips-untold" Coding "updates skip shards though some OSD has not told that it understands that",
    SkippedIsStale "skipped-is-stale" Coding "the group's log ends before an update that a shard lacks which it skips",
    AnsweredForgotten "answered-forgotten" Coding "a primary does not remember what clients were answered for before \
        those that an update skips have it",
    SkippedHidesMissing "skipped-hides-missing" Coding "an update that skips some shards counts as had by all that lack \
        it",
    UndoDroppedEarly "undo-dropped-early" Coding "undo data of an update is dropped before all shards have the update",
    UndoOfOthersKept "undo-of-others-kept" Coding "an entry of another shard's log is undone here by that shard's undo \
        data",
    BroughtTooEarly "brought-too-early" Coding "acting sets change while members have received objects that they could \
        not undo",
    AppendNotUndone "append-not-undone" Coding "an append that is undone leaves its bytes",
    KeptBackNotRestored "kept-back-not-restored" Coding "a replacement that is undone stays, and the former object is \
        dropped",
    WrongShardRebuilt "wrong-shard-rebuilt" Coding "a shard is computed as if it were the next one",
    PlacesAreShards "places-are-shards" Coding "a new OSD is sent the shard of its place in the up set, even if \
        another OSD keeps that shard",
    ShardOfUpPlace "shard-of-up-place" Coding "an OSD that is to replace another takes its place in the up set for its \
        shard",
    OtherShardDropped "other-shard-dropped" Coding "an OSD that the map wants for another shard drops its present one \
        at once",
    MergedThoughStale "merged-though-stale" Merging "tables of two groups become that of a merged one, though they are \
        of different intervals",
    MergeForgetsRequests "merge-forgets-requests" Merging "a merged group does not know which requests were carried \
        out",
    PremergeServes "premerge-serves" Merging "groups serve while they wait to be merged",
    AbsentPassedOver "absent-passed-over" Watching "notifications do not wait for watchers that are not connected",
    WatchesNotLearned "watches-not-learned" Watching "a new primary does not wait for watchers whose watches it has \
        not seen itself",
    MergeUnrecorded "merge-unrecorded" Merging "groups are merged though no record says that they have stopped",
    MergesOtherShards "merges-other-shards" Merging "groups of erasure-coded pools are merged though OSDs have \
        different shards of them",
    StaleRecord "stale-record" Monitor "an acting set that is not the newest map's is recorded",
    BasisNotCompared "basis-not-compared" Monitor "an activation is recorded whatever record its primary went by",
    PastForgotten "past-forgotten" Monitor "the record forgets the OSDs that served before",
    VoteNotDurable "vote-not-durable" Quorum "a monitor's vote is told before it is durable",
    EntriesAckedEarly "entries-acked-early" Quorum "a monitor acknowledges entries of the log before they are durable",
    AppliesUndecided "applies-undecided" Quorum "the leader applies entries that it alone has",
    VotesForBehind "votes-for-behind" Quorum "votes go to candidates whose log is behind",
    LeaderReadsUnsure "leader-reads-unsure" Quorum "a leader answers without a lease",
    PeonReadsAtOnce "peon-reads-at-once" Quorum "a peon answers from its state without asking how far that must be",
    StartForgetsPromise "start-forgets-promise" Quorum "a monitor that has just started votes though it may have \
        promised the leader not to",
    WipedKeepsNumber "wiped-keeps-number" Quorum "a monitor whose disk was lost comes back as the server that it was",
    FormerKeyRefused "former-key-refused" Quorum "a monitor refuses the former key of monitors as soon as it has the new \
        one",
    CommitBeforeFlush "commit-before-flush" Store "a commit is told when it is written, before the flush",
    ReuseEarly "reuse-early" Store "freed blocks are written again before the record that frees them is vouched for",
    CrcUnchecked "crc-unchecked" Store "checksums are not compared when blocks are read",
    TornAccepted "torn-accepted" Store "the last records of the log are replayed without a check of their data",
    ReplayStopsEarly "replay-stops-early" Store "the last record of the log is not replayed",
    LogReusedEarly "log-reused-early" Store "the log's room is given back when a checkpoint begins",
    RootBeforePages "root-before-pages" Store "a checkpoint's root is written before its pages are flushed",
    DataNotFlushed "data-not-flushed" Store "only the device with the log is flushed",
    FlushBelieved "flush-believed" Store "a flush that failed is asked for again, and believed when it succeeds",
    CacheBelieved "cache-believed" Store "what the page cache has of a file is believed when the file is opened",
    StaleTurnTime "stale-turn-time" Clocks "what comes during a turn is handled with the time at which the turn began",
    SleepUncounted "sleep-uncounted" Clocks "the clock of leases stands still while the machine sleeps",
    PauseUnnoticed "pause-unnoticed" Clocks "leases go on though the wall clock has jumped ahead",
    ShardTimeBehind "shard-time-behind" Clocks "a shard handles what others hand it by the time of its last turn",
    DroppedStaysHeld "dropped-stays-held" Memory "what operations hold is not given back when their group drops them",
    DeferredUncounted "deferred-uncounted" Memory "operations that wait for their map are not counted",
    HalfReceivedUncounted "half-received-uncounted" Memory "messages are received whether or not there is room for them",
    PartsUnbounded "parts-unbounded" Memory "messages in parts are put together whether or not there is room for them",
    UnsentUncounted "unsent-uncounted" Memory "answers that the network has not taken are not counted",
    CopiesUncounted "copies-uncounted" Memory "what copies have fetched is not counted",
    EffectsUnbounded "effects-unbounded" Memory "what the steps of an operation write has no bound",
    UnfoundByOwnOnly "unfound-by-own-only" Recovery "an object is unfound only where the primary itself lacks it",
    SnapBeyondTaken "snap-beyond-taken" Replication "updates are taken with snapshots that cannot be",
    LogEndGuessed "log-end-guessed" Store "the log ends where the record before a checkpoint did, whatever the root says",
    LockIgnored "lock-ignored" Store "a store is opened though another process has it",
    MkfsOverwrites "mkfs-overwrites" Store "a device that holds something becomes a new store",
    LateTaken "late-taken" Quorum "what a client sent by a session that it has left since is carried out",
    RemovedComesBack "removed-comes-back" Monitor "an OSD that was removed comes back by what it said before",
    SurvivorBelieved "survivor-believed" Monitor "records of a monitor that was made the only one count as the newest",
    IntervalUnbounded "interval-unbounded" Monitor "the time between two rounds of the balancer may be any number",
}

/// True if this mutant is switched on.
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

    /// The mutant that `NACRE_MUTANT` names, which is on in all threads from their start, so that tests can find it.
    /// Panics if there is no mutant of that name.
    fn of_environment() -> Option<Mutant> {
        let name = std::env::var("NACRE_MUTANT").ok()?;
        let found = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        Some(found.unwrap_or_else(|| panic!("NACRE_MUTANT={name}: there is no such mutant")))
    }

    /// Switches one mutant on in this thread, or all off, and resets the counter of [`met`].
    pub fn switch(mutant: Option<Mutant>) {
        ON.set(mutant);
        MET.set(0);
    }

    /// Number of times that this thread has asked for the mutant that is on.
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
