//! Handshakes in which somebody on the path changes, repeats or reorders messages.

use super::world::{CEPHX, Failure, Met, Part, World, given_up, honest, refused};
use crate::accepted::Step;
use crate::cephx::client::{Client, ClientError};
use crate::cephx::monitor::requests;
use crate::cephx::protocol::{Authorizer, services};
use crate::keyring::parse_entity;
use crate::policy::Mode;
use crate::refusal::Refusal;
use proptest::prelude::*;
use types::EntityType;
use wire::{Decode, Encode, Target};

fn joined(world: &mut World, name: &str) -> Client {
    let mut client = world.client(name, Mode::Secure);
    world.join(&mut client).unwrap();
    client
}

/// Changes one byte of one message, each in turn: no two sides may then agree that all is well.
fn no_changed_byte_passes(
    name: &str,
    handshake: impl Fn(&mut World, &mut Client, &mut dyn FnMut(Part, &mut Vec<u8>)) -> Result<Met, Failure>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    for part in [Part::Request, Part::ReplyMore, Part::RequestMore, Part::Done] {
        let mut lengths = 1;
        let mut at = 0;
        while at < lengths {
            let mut world = World::new();
            let mut client = joined(&mut world, name);
            let result = handshake(&mut world, &mut client, &mut |found, message: &mut Vec<u8>| {
                if found == part {
                    lengths = message.len();
                    message[at] ^= 0x10;
                }
            });
            match result {
                Ok(met) => panic!("byte {at} of {part:?} was changed, and still: {met:?}"),
                Err(failure) => failures.push(failure),
            }
            // Long messages are mostly ciphertext.
            at += if lengths > 100 { 3 } else { 1 };
        }
    }
    failures
}

#[test]
fn no_changed_byte_passes_a_monitor() {
    for name in ["client.old", "client.new"] {
        let failures = no_changed_byte_passes(name, |world, client, path| world.join_over(client, |p, m| path(p, m)));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::WrongKey(_)))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::UnknownEntity(_)))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::OldTicketUnreadable(_)))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::OldTicketOfOther { .. }))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Client(ClientError::NotOpened { .. }))));
        assert!(failures.contains(&Failure::Signature));
    }
}

#[test]
fn no_changed_byte_passes_a_daemon() {
    for name in ["client.old", "client.new"] {
        let failures = no_changed_byte_passes(name, |world, client, path| world.reach_over(client, |p, m| path(p, m)));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::TicketUnreadable))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::SecretNotAtHand { .. }))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::OtherService { .. }))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::TicketOfOther { .. }))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Refused(Refusal::AuthorizerUnreadable))));
        assert!(failures.iter().any(|f| matches!(f, Failure::Client(ClientError::NotOpened { .. }))));
    }
}

#[test]
fn messages_that_are_cut_short_are_refused() {
    for part in [Part::Request, Part::ReplyMore, Part::RequestMore, Part::Done] {
        for left in [0, 1, 7, 9, 12, 30] {
            let mut world = World::new();
            let mut client = joined(&mut world, "client.new");
            let mut cut = |found: Part, message: &mut Vec<u8>| {
                if found == part {
                    message.truncate(left.min(message.len() - 1));
                }
            };
            assert!(world.reach_over(&client, &mut cut).is_err(), "{part:?} of {left} bytes");
            assert!(world.join_over(&mut client, &mut cut).is_err(), "{part:?} of {left} bytes");
        }
    }
}

/// Messages of an honest handshake, as somebody on the path saw them.
fn overheard(world: &mut World, client: &mut Client, osd: bool) -> Vec<(Part, Vec<u8>)> {
    let mut seen = Vec::new();
    let listen = |part, message: &mut Vec<u8>| seen.push((part, message.clone()));
    let met = if osd { world.reach_over(client, listen) } else { world.join_over(client, listen) };
    met.unwrap();
    seen
}

fn of(seen: &[(Part, Vec<u8>)], part: Part) -> Vec<u8> {
    seen.iter().find(|(found, _)| *found == part).unwrap().1.clone()
}

#[test]
fn what_was_overheard_is_of_no_use_again() {
    for name in ["client.old", "client.new"] {
        let mut world = World::new();
        let mut client = world.client(name, Mode::Secure);
        let seen = overheard(&mut world, &mut client, false);
        // The monitor asks another number each time.
        let replay = |part: Part, message: &mut Vec<u8>| {
            if matches!(part, Part::Request | Part::RequestMore) {
                *message = of(&seen, part);
            }
        };
        let mut thief = world.client(name, Mode::Secure);
        assert_eq!(refused(world.join_over(&mut thief, replay)), Refusal::WrongKey(client.name().clone()));

        let seen = overheard(&mut world, &mut client, true);
        let replay = |part: Part, message: &mut Vec<u8>| {
            if matches!(part, Part::Request | Part::RequestMore) {
                *message = of(&seen, part);
            }
        };
        assert_eq!(refused(world.reach_over(&client, replay)), Refusal::OtherChallenge);
        // An earlier challenge, and an earlier proof, towards the client.
        let replay = |part: Part, message: &mut Vec<u8>| {
            if part == Part::ReplyMore {
                *message = of(&seen, part);
            }
        };
        assert_eq!(refused(world.reach_over(&client, replay)), Refusal::OtherChallenge);
        let replay = |part: Part, message: &mut Vec<u8>| {
            if part == Part::Done {
                *message = of(&seen, part);
            }
        };
        assert_eq!(given_up(world.reach_over(&client, replay)), ClientError::NotProven);
    }
}

#[test]
fn messages_out_of_their_order_are_refused() {
    let mut world = World::new();
    let mut client = joined(&mut world, "client.new");
    let seen = overheard(&mut world, &mut client, true);
    // The answer first; the first authorizer as the answer.
    let mut swap = |part: Part, message: &mut Vec<u8>| {
        if part == Part::Request {
            *message = of(&seen, Part::RequestMore);
        }
    };
    assert_eq!(refused(world.reach_over(&client, &mut swap)), Refusal::OtherChallenge);
    let mut swap = |part: Part, message: &mut Vec<u8>| {
        if part == Part::RequestMore {
            *message = of(&seen, Part::Request);
        }
    };
    assert_eq!(refused(world.reach_over(&client, &mut swap)), Refusal::ChallengeUnanswered);
    // The good news in place of the challenge, and the other way round.
    let mut swap = |part: Part, message: &mut Vec<u8>| match part {
        Part::ReplyMore => *message = of(&seen, Part::Done),
        _ => honest(part, message),
    };
    assert!(matches!(given_up(world.reach_over(&client, &mut swap)), ClientError::NotOpened { .. }));

    let mut connect = client.connect_service(EntityType::OSD, CEPHX, &mut world.entropy).unwrap();
    let (Step::More(challenge), _) = ({
        let request = connect.request(&mut world.entropy);
        world.osd_begins(&request)
    }) else {
        panic!()
    };
    connect.more(&challenge, &mut world.entropy).unwrap();
    assert_eq!(connect.more(&challenge, &mut world.entropy), Err(ClientError::OutOfTurn), "a second challenge");
    let connect = client.connect_service(EntityType::OSD, CEPHX, &mut world.entropy).unwrap();
    assert_eq!(connect.done(1, Mode::Secure.number(), &of(&seen, Part::Done)), Err(ClientError::OutOfTurn));
    let connect = client.connect_monitor(CEPHX).unwrap();
    assert_eq!(connect.done(1, Mode::Secure.number(), b"", world.now), Err(ClientError::OutOfTurn));
}

#[test]
fn what_is_for_a_monitor_is_not_for_a_daemon() {
    let mut world = World::new();
    let client = joined(&mut world, "client.new");
    let to_monitor = client.connect_monitor(CEPHX).unwrap().request();
    let (step, _) = world.osd_begins(&to_monitor);
    assert_eq!(step, Step::Refused(Refusal::Audience(10)));
    let to_osd = client.connect_service(EntityType::OSD, CEPHX, &mut world.entropy).unwrap();
    let to_osd = to_osd.request(&mut world.entropy);
    let (step, _) = world.monitor_begins(&to_osd);
    assert_eq!(step, Step::Refused(Refusal::Audience(1)));
    let to_manager = client.connect_service(EntityType::MGR, CEPHX, &mut world.entropy).unwrap();
    let to_manager = to_manager.request(&mut world.entropy);
    let (step, _) = world.osd_begins(&to_manager);
    let (wanted, own) = (EntityType::MGR, EntityType::OSD);
    assert_eq!(step, Step::Refused(Refusal::OtherService { wanted, own }));
}

/// An authorizer in which a part is another's.
fn spliced(client: &Client, world: &mut World, splice: impl FnOnce(&mut Authorizer)) -> Step {
    let connect = client.connect_service(EntityType::OSD, CEPHX, &mut world.entropy).unwrap();
    let mut request = connect.request(&mut world.entropy);
    let mut authorizer = Authorizer::from_slice(&request.payload).unwrap();
    splice(&mut authorizer);
    request.payload = authorizer.to_vec(Target::PACIFIC);
    world.osd_begins(&request).0
}

#[test]
fn a_ticket_is_of_no_use_to_others() {
    let mut world = World::new();
    let (owner, thief) = (joined(&mut world, "client.new"), joined(&mut world, "client.old"));
    let connect = owner.connect_service(EntityType::OSD, CEPHX, &mut world.entropy).unwrap();
    let stolen = Authorizer::from_slice(&connect.request(&mut world.entropy).payload).unwrap();
    let ids = (owner.global_id(), thief.global_id());
    let step = spliced(&thief, &mut world, |authorizer| authorizer.ticket = stolen.ticket.clone());
    assert_eq!(step, Step::Refused(Refusal::TicketOfOther { ticket: ids.0, authorizer: ids.1 }));
    let step = spliced(&thief, &mut world, |authorizer| {
        (authorizer.ticket, authorizer.global_id) = (stolen.ticket.clone(), ids.0);
    });
    assert_eq!(step, Step::Refused(Refusal::AuthorizerUnreadable));
    let step = spliced(&owner, &mut world, |authorizer| authorizer.ticket.secret_id += 1);
    assert_eq!(step, Step::Refused(Refusal::TicketUnreadable), "a secret that is at hand, and another");
}

#[test]
fn an_id_is_not_given_to_others() {
    let mut world = World::new();
    let mut owner = joined(&mut world, "client.new");
    let seen = overheard(&mut world, &mut owner, false);
    let owners = of(&seen, Part::Request);
    // A thief asks for the owner's id, with its own ticket and with none.
    let mut thief = joined(&mut world, "client.old");
    let claimed = owner.global_id();
    let claim = |part: Part, message: &mut Vec<u8>| {
        if part == Part::Request {
            let at = message.len() - 8;
            message[at..].copy_from_slice(&owners[owners.len() - 8..]);
        }
    };
    let found = thief.global_id();
    assert_eq!(refused(world.join_over(&mut thief, claim)), Refusal::OldTicketOfOther { claimed, found });
    let mut new = world.client("client.old", Mode::Crc);
    assert_eq!(refused(world.join_over(&mut new, claim)), Refusal::OldTicketMissing);
    // A ticket where a new id is asked for.
    let forget = |part: Part, message: &mut Vec<u8>| {
        if part == Part::Request {
            let at = message.len() - 8;
            message[at..].fill(0);
        }
    };
    assert_eq!(refused(world.join_over(&mut owner, forget)), Refusal::OldTicketUnasked);
}

#[test]
fn requests_are_of_the_session_that_they_come_on() {
    let mut world = World::new();
    let mut owner = world.client("client.new", Mode::Crc);
    let mut thief = world.client("client.old", Mode::Crc);
    world.join(&mut owner).unwrap();
    let session = world.join(&mut thief).unwrap().server;
    owner.forget_ticket(EntityType::OSD);
    let request = owner.renewal(world.now, &mut world.entropy).unwrap();
    let (ticket, authorizer) = (owner.global_id(), thief.global_id());
    let refusal = world.monitor(|view| requests(view, &mut session.clone(), &request)).unwrap_err();
    assert_eq!(refusal, Refusal::TicketOfOther { ticket, authorizer });
    let refusal = world.monitor(|view| requests(view, &mut session.clone(), &[0x00, 0x03])).unwrap_err();
    assert_eq!(refusal, Refusal::UnknownRequest(0x0300));
    world.entities.entries.remove(&parse_entity("client.old").unwrap());
    assert!(matches!(
        world.monitor(|view| requests(view, &mut session.clone(), &request)),
        Err(Refusal::UnknownEntity(_))
    ));
    assert_eq!(services(0x1_00).count(), 0);
}

proptest! {
    /// Anything at all in place of one message is refused, and ends in no panic.
    #[test]
    fn arbitrary_messages_are_refused(
        part in prop::sample::select(vec![Part::ReplyMore, Part::RequestMore, Part::Done]),
        head in prop::sample::select(vec![vec![], vec![1], vec![0, 1, 0, 0, 0, 0, 1], vec![0, 1, 3]]),
        tail in any::<Vec<u8>>(),
        name in prop::sample::select(vec!["client.old", "client.new"]),
    ) {
        let mut world = World::new();
        let mut client = joined(&mut world, name);
        let mut replace = |found: Part, message: &mut Vec<u8>| {
            if found == part {
                *message = head.iter().chain(&tail).copied().collect();
            }
        };
        prop_assert!(world.reach_over(&client, &mut replace).is_err());
        prop_assert!(world.join_over(&mut client, &mut replace).is_err());
        let session = world.join(&mut client).unwrap().server;
        let message: Vec<u8> = [vec![0, 2], head.clone(), tail.clone()].concat();
        prop_assert!(world.monitor(|view| requests(view, &mut session.clone(), &message)).is_err());
        prop_assert!(client.renewed(&message, world.now).is_err());
        prop_assert!(client.open_secrets(&message).is_err());
    }
}
