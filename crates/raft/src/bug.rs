//! Deliberate bugs, which show that the checks of this crate's simulator find bugs. The list is separate from that of
//! the crate `mutant`, because its bugs are of raft alone: some show only in thousands of runs, far more than campaigns
//! over whole clusters have. Six of them are mutants of whole clusters, too, and the feature of `mutant` switches those
//! on outside this crate's tests. The others are not compiled there.

/// One deliberate bug.
#[cfg_attr(not(test), allow(dead_code))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Bug {
    /// A vote is sent before it is durable.
    VoteNotDurable,
    /// A server that is a majority alone leads before its vote is durable.
    SoleVoteNotDurable,
    /// Entries are acknowledged before they are durable.
    AckNotDurable,
    /// A leader counts itself before its entries are durable.
    LeaderCountsEarly,
    /// Votes go to candidates whose log is behind.
    LogNotCompared,
    /// A server votes twice in a term.
    VotesTwice,
    /// A leader commits entries that it alone has.
    AppliesUndecided,
    /// Entries of older terms are committed by counting copies.
    OlderTermCounted,
    /// Entries that contradict the leader's stay.
    ConflictKept,
    /// The entry before those of a message is not compared.
    PrevNotCompared,
    /// A server acknowledges all of its log, also entries behind those that the message vouches for.
    AcksWholeLog,
    /// Learners count.
    LearnersCount,
    /// A change of members begins while another is under way.
    TwoChanges,
    /// A new leader changes members before an entry of its term is committed.
    ChangeBeforeTermStart,
    /// Members that a removed entry brought stay in force.
    MembershipKept,
    /// A snapshot's members are not taken over.
    SnapshotKeepsMembers,
    /// Entries that contradict a snapshot stay behind it.
    SnapshotKeepsLog,
    /// A lease lasts as if all clocks ran at one rate.
    ClocksAgree,
    /// A lease counts from when the answer came.
    LeaseFromAnswer,
    /// A server that has just started votes though it may have promised not to.
    PromiseForgotten,
    /// Candidates are voted for while the leader is alive.
    PromiseBroken,
    /// A leader reads without being sure that it is one.
    ReadsUnconfirmed,
    /// A new leader reads by the commit index that it knows, before its first entry is committed.
    ReadsBeforeTermStart,
    /// A leader that has handed over its leadership goes on.
    ReleasedStays,
}

#[cfg(test)]
impl Bug {
    pub const ALL: &[Bug] = &[
        Bug::VoteNotDurable,
        Bug::SoleVoteNotDurable,
        Bug::AckNotDurable,
        Bug::LeaderCountsEarly,
        Bug::LogNotCompared,
        Bug::VotesTwice,
        Bug::AppliesUndecided,
        Bug::OlderTermCounted,
        Bug::ConflictKept,
        Bug::PrevNotCompared,
        Bug::AcksWholeLog,
        Bug::LearnersCount,
        Bug::TwoChanges,
        Bug::ChangeBeforeTermStart,
        Bug::MembershipKept,
        Bug::SnapshotKeepsMembers,
        Bug::SnapshotKeepsLog,
        Bug::ClocksAgree,
        Bug::LeaseFromAnswer,
        Bug::PromiseForgotten,
        Bug::PromiseBroken,
        Bug::ReadsUnconfirmed,
        Bug::ReadsBeforeTermStart,
        Bug::ReleasedStays,
    ];
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) fn is(bug: Bug) -> bool {
    use mutant::Mutant;
    match bug {
        Bug::VoteNotDurable => mutant::is(Mutant::VoteNotDurable),
        Bug::AckNotDurable => mutant::is(Mutant::EntriesAckedEarly),
        Bug::LogNotCompared => mutant::is(Mutant::VotesForBehind),
        Bug::PromiseForgotten => mutant::is(Mutant::StartForgetsPromise),
        Bug::ReadsUnconfirmed => mutant::is(Mutant::LeaderReadsUnsure),
        Bug::AppliesUndecided => mutant::is(Mutant::AppliesUndecided),
        _ => false,
    }
}

#[cfg(test)]
pub(crate) use switched::{is, switch};

#[cfg(test)]
mod switched {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        static ON: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Switches one bug on in this thread, or all off.
    pub(crate) fn switch(bug: Option<Bug>) {
        ON.set(bug);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        ON.get() == Some(bug)
    }
}
