//! Timers fire in order, once, and not early; they can be moved and cancelled.

use super::scenario::{Scenario, check};
use reactor::{Event, Io};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Timers {
    fired: Vec<u64>,
}

impl Scenario for Timers {
    fn start<I: Io>(&mut self, io: &mut I) {
        let now = io.now();
        io.set_timer(now + 30 * MS, 3);
        io.set_timer(now + 10 * MS, 1);
        io.set_timer(now + 20 * MS, 2);
        io.set_timer(now + 5 * MS, 4);
        io.set_timer(now + 40 * MS, 4);
        io.set_timer(now + 8 * MS, 5);
        io.cancel_timer(5);
        io.cancel_timer(77);
    }

    fn event<I: Io>(&mut self, io: &mut I, event: Event) {
        let Event::Timer { token } = event else { panic!("unexpected {event:?}") };
        self.fired.push(token);
        match token {
            1 => {
                assert!(io.now() >= 10 * MS, "early: {:?}", io.now());
                // A time in the past is due in the next turn.
                io.set_timer(Duration::ZERO, 10);
                // Both timers are due at once; the first to fire cancels the other.
                io.set_timer(io.now(), 11);
                io.set_timer(io.now(), 12);
            }
            11 => io.cancel_timer(12),
            _ => {}
        }
        if self.fired.len() == 6 {
            io.stop();
        }
    }

    fn check(&mut self) {
        // On a machine that is busy all four may be due before the first has fired.
        let of = |tokens: &[u64]| self.fired.iter().copied().filter(|token| tokens.contains(token)).collect::<Vec<_>>();
        assert_eq!(of(&[1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(of(&[1, 10, 11]), [1, 10, 11]);
        assert_eq!(self.fired.len(), 6, "5 and 12 are cancelled: {:?}", self.fired);
    }
}

#[test]
fn timers_fire_in_order_move_and_are_cancelled() {
    check(Timers::default);
}

/// A timer that sets itself again for now does not keep a turn from ending.
#[derive(Default)]
struct Again {
    turns: u32,
}

impl Scenario for Again {
    fn start<I: Io>(&mut self, io: &mut I) {
        io.set_timer(Duration::ZERO, 1);
    }

    fn event<I: Io>(&mut self, io: &mut I, _event: Event) {
        io.set_timer(Duration::ZERO, 1);
    }

    fn turn_end<I: Io>(&mut self, io: &mut I) {
        self.turns += 1;
        if self.turns == 5 {
            io.stop();
        }
    }
}

#[test]
fn a_turn_ends_even_if_a_timer_is_always_due() {
    check(Again::default);
}
