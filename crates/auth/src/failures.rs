//! Failed logins, by the machine that they come from.
//!
//! A machine has [`FAILURES_MAX`] failures at once, and one more every [`FAILURE_EVERY`]. Where it has none left, its
//! next attempts are not looked at. Success costs nothing. So that clients go on behind an address that they share with
//! somebody who guesses, each name that has logged in from a machine has failures of its own there, for
//! [`KNOWN_FOR`] after its last success. Its failures count for the machine, too, and where the machine has none left
//! they are told as attempts that are not looked at ([`FailedLogins::failed`]): whoever guesses does not learn by them
//! which names there are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use wire::basic::AuthName;
use wire::msgr::machine_of;

/// Failures that a machine has at once.
pub const FAILURES_MAX: u32 = 20;
/// Time after which it has one more.
pub const FAILURE_EVERY: Duration = Duration::from_millis(500);
/// Time for which a name that has logged in from a machine is known there.
pub const KNOWN_FOR: Duration = Duration::from_secs(24 * 3600);
/// Machines with failures, and names that are known at a machine, that are remembered.
const MACHINES_MAX: usize = 8192;
const KNOWN_MAX: usize = 8192;

/// Time at which all failures are there again. Until [`FAILURES_MAX`] times [`FAILURE_EVERY`] before it there are some.
type FullAt = Duration;

/// All that is known of failures and successes.
#[derive(Debug, Default)]
pub struct FailedLogins {
    machines: BTreeMap<IpAddr, FullAt>,
    /// Names that have logged in, each with the time of its last success.
    known: BTreeMap<(IpAddr, AuthName), (FullAt, Duration)>,
}

impl FailedLogins {
    /// True if an attempt from `from` as `name`, if that is said, is to be looked at. Times are since an arbitrary
    /// start.
    pub fn may_try(&self, from: IpAddr, name: Option<&AuthName>, now: Duration) -> bool {
        let machine = machine_of(from);
        let known = name.and_then(|name| self.known.get(&(machine, name.clone())));
        let full_at = match known {
            Some((full_at, seen)) if now < *seen + KNOWN_FOR => Some(full_at),
            _ => self.machines.get(&machine),
        };
        full_at.is_none_or(|full_at| *full_at <= now + FAILURE_EVERY * (FAILURES_MAX - 1))
    }

    /// Notes that an attempt has failed. Returns true if the peer may hear why: the machine had a failure left, so that
    /// every other name would have heard it, too.
    pub fn failed(&mut self, from: IpAddr, name: Option<&AuthName>, now: Duration) -> bool {
        let may_hear = self.may_try(from, None, now);
        let machine = machine_of(from);
        let of_machine = self.machines.get(&machine).copied().unwrap_or_default();
        let known = name.and_then(|name| self.known.get_mut(&(machine, name.clone())));
        if let Some((full_at, _)) = known.filter(|(_, seen)| now < *seen + KNOWN_FOR) {
            *full_at = (*full_at).max(now) + FAILURE_EVERY;
            if !may_hear {
                // Others are not held up for longer by it. Once the machine has a failure again, the name has one, too.
                *full_at = (*full_at).min(of_machine);
                return false;
            }
        }
        if !self.machines.contains_key(&machine) && self.machines.len() >= MACHINES_MAX {
            self.machines.retain(|_, full_at| *full_at > now);
            // The one that fails least is not to be held up more than others.
            if self.machines.len() >= MACHINES_MAX
                && let Some(machine) = self.machines.iter().min_by_key(|(_, full_at)| **full_at).map(|(ip, _)| *ip)
            {
                self.machines.remove(&machine);
            }
        }
        let full_at = self.machines.entry(machine).or_default();
        *full_at = (*full_at).max(now) + FAILURE_EVERY;
        may_hear
    }

    /// Notes that `name` has proven who it is.
    pub fn succeeded(&mut self, from: IpAddr, name: &AuthName, now: Duration) {
        let at = (machine_of(from), name.clone());
        if !self.known.contains_key(&at) && self.known.len() >= KNOWN_MAX {
            let oldest = self.known.iter().min_by_key(|(_, (_, seen))| *seen).map(|(at, _)| at.clone());
            oldest.and_then(|at| self.known.remove(&at));
        }
        self.known.entry(at).or_default().1 = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::EntityType;

    const AT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn client(id: &str) -> AuthName {
        AuthName::new(EntityType::CLIENT, id)
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Attempts at this moment until one is not looked at.
    fn failures(it: &mut FailedLogins, from: IpAddr, name: Option<&AuthName>, now: Duration) -> u32 {
        let mut count = 0;
        while it.may_try(from, name, now) {
            it.failed(from, name, now);
            count += 1;
        }
        count
    }

    #[test]
    fn a_machine_has_so_many_failures_and_gets_them_back() {
        let mut it = FailedLogins::default();
        assert_eq!(failures(&mut it, AT, Some(&client("a")), seconds(100)), FAILURES_MAX);
        assert!(!it.may_try(AT, Some(&client("b")), seconds(100)), "another name helps nobody");
        assert!(it.may_try([10, 0, 0, 2].into(), None, seconds(100)));
        assert_eq!(failures(&mut it, AT, None, seconds(103)), 6);
        assert_eq!(failures(&mut it, AT, None, seconds(200)), FAILURES_MAX);
    }

    #[test]
    fn whoever_is_known_at_a_machine_is_not_held_up_by_others_there() {
        let mut it = FailedLogins::default();
        it.succeeded(AT, &client("honest"), seconds(1));
        assert_eq!(failures(&mut it, AT, Some(&client("guess")), seconds(10)), FAILURES_MAX);
        assert!(it.may_try(AT, Some(&client("honest")), seconds(10)));
        // One whose name is guessed has to wait, but not for good.
        assert_eq!(failures(&mut it, AT, Some(&client("honest")), seconds(10)), FAILURES_MAX);
        assert!(it.may_try(AT, Some(&client("honest")), seconds(11)));
        it.succeeded(AT, &client("honest"), seconds(11));
        let later = seconds(11) + KNOWN_FOR;
        failures(&mut it, AT, None, later);
        assert!(!it.may_try(AT, Some(&client("honest")), later), "nothing is known for ever");
    }

    /// The answers to failed attempts, each with true if the peer heard why.
    fn heard(it: &mut FailedLogins, names: &[&str], now: Duration) -> Vec<bool> {
        let mut attempt = |id: &&str| {
            let name = client(id);
            it.may_try(AT, Some(&name), now) && it.failed(AT, Some(&name), now)
        };
        names.iter().map(&mut attempt).collect()
    }

    #[test]
    fn a_name_that_is_known_is_answered_as_one_that_is_not() {
        let of = |known: bool, names: &[&str]| {
            let mut it = FailedLogins::default();
            if known {
                it.succeeded(AT, &client("x"), seconds(1));
            }
            heard(&mut it, names, seconds(10))
        };
        let max = FAILURES_MAX as usize;
        // The machine's failures are used up by guesses at others, then by guesses at the name itself.
        let others_first = [vec!["y"; max], vec!["x"; 3], vec!["y"; 3]].concat();
        let it_first = [vec!["x"; max], vec!["y"; 3], vec!["x"; 3]].concat();
        for names in [others_first, it_first] {
            let expect: Vec<bool> = (0..max + 6).map(|n| n < max).collect();
            assert_eq!((of(true, &names), of(false, &names)), (expect.clone(), expect));
        }
        // Guesses at the name that are not told leave it no worse off than the machine, to the moment.
        let mut it = FailedLogins::default();
        it.succeeded(AT, &client("x"), seconds(1));
        heard(&mut it, &vec!["y"; max], Duration::from_millis(9_600));
        assert_eq!(heard(&mut it, &vec!["x"; max + 1], seconds(10)), vec![false; max + 1]);
        assert_eq!(heard(&mut it, &["x", "y"], Duration::from_millis(10_100)), [true, false]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut it = FailedLogins::default();
        failures(&mut it, AT, None, seconds(5));
        for number in 0..MACHINES_MAX as u32 + 100 {
            let from = IpAddr::from(std::net::Ipv4Addr::from_bits(0x0b00_0000 + number));
            it.failed(from, None, seconds(5));
            it.succeeded(from, &client("a"), seconds(5));
        }
        assert!(it.machines.len() <= MACHINES_MAX && it.known.len() <= KNOWN_MAX);
        assert!(!it.may_try(AT, None, seconds(5)), "who fails most is remembered");
        it.failed([9, 9, 9, 9].into(), None, seconds(500));
        assert!(it.machines.len() < 3, "those that have all their failures again are forgotten");
    }
}
