//! Payloads of handshakes and requests that say anything.

use super::world::World;
use crate::accepted::{Accepted, Step};
use crate::cephx::monitor::{MonitorAccept, requests};
use crate::cephx::service::ServiceAccept;
use crate::policy::Mode;
use proptest::prelude::*;
use types::EntityType;

/// Bytes that begin as payloads do: with the number of an audience and a kind of request, perhaps.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let begins = prop_oneof![
        Just(Vec::new()),
        Just(vec![10]),
        Just(vec![1]),
        Just(vec![0, 1]),
        Just(vec![0, 2]),
        Just(vec![0, 4]),
        Just(vec![0, 1, 3]),
        Just(vec![10, 8, 0, 0, 0, 5, 0, 0, 0, b'o', b'l', b'd', b'e', b'r']),
    ];
    (begins, proptest::collection::vec(any::<u8>(), 0..300)).prop_map(|(begin, rest)| [begin, rest].concat())
}

/// The answers of a party that accepts, until it has judged.
fn judged(step: Step, more: impl FnOnce() -> Step) -> Option<Box<Accepted>> {
    let step = if let Step::More(_) = step { more() } else { step };
    match step {
        Step::Accepted(accepted) => Some(accepted),
        Step::Refused(refusal) => {
            // A reason for the log, and an error for the peer.
            assert!(!refusal.to_string().is_empty() && refusal.errno().as_result() < 0);
            None
        }
        Step::More(_) => panic!("there is one challenge"),
    }
}

proptest! {
    #[test]
    fn nobody_comes_in_by_saying_anything(first in payload(), second in payload(), method in 0..4_u32) {
        let mut world = World::new();
        let modes = [Mode::Secure.number(), Mode::Crc.number()];
        let (step, accept) = world.monitor(|view| MonitorAccept::begin(view, method, &modes, &first));
        let at_monitor = judged(step, || world.monitor(|view| accept.unwrap().more(view, &second)));
        prop_assert!(at_monitor.is_none());
        let (step, accept) = world.osd(|view| ServiceAccept::begin(view, method, &modes, &first));
        let at_osd = judged(step, || world.osd(|view| accept.unwrap().more(view, &second)));
        prop_assert!(at_osd.is_none());
    }

    #[test]
    fn answers_to_a_challenge_that_say_anything_are_refused(second in payload()) {
        let mut world = World::new();
        let mut client = world.client("client.new", Mode::Secure);
        let modes = [Mode::Secure.number()];
        let request = client.connect_monitor(client.method().unwrap()).unwrap().request();
        let (step, accept) =
            world.monitor(|view| MonitorAccept::begin(view, request.method.number(), &modes, &request.payload));
        prop_assert!(matches!(step, Step::More(_)));
        prop_assert!(judged(step, || world.monitor(|view| accept.unwrap().more(view, &second))).is_none());

        world.join(&mut client).unwrap();
        let mut entropy = crate::testing::seeded(5);
        let connect = client.connect_service(EntityType::OSD, client.method().unwrap(), &mut entropy).unwrap();
        let request = connect.request(&mut entropy);
        let (step, accept) =
            world.osd(|view| ServiceAccept::begin(view, request.method.number(), &modes, &request.payload));
        prop_assert!(matches!(step, Step::More(_)));
        prop_assert!(judged(step, || world.osd(|view| accept.unwrap().more(view, &second))).is_none());
    }

    #[test]
    fn requests_that_say_anything_get_nothing(request in payload()) {
        let mut world = World::new();
        let mut client = world.client("client.old", Mode::Crc);
        let met = world.join(&mut client).unwrap();
        prop_assert!(world.monitor(|view| requests(view, &mut met.server.clone(), &request)).is_err());
    }
}
