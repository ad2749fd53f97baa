//! A member that was settled as rejected never lands; and without one of the rules it does.
//!
//! These scenarios need more to coincide than random schedules bring about. Each process is a machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use delta_commit::log::{BEFORE_FIRST, Effect, Event, StoreError, StoreErrorKind};
use delta_commit::rules::ProtocolRules;
use delta_commit::winner::Winner;
use delta_commit::{
    CLOCK_MARGIN, CommitError, EffectKind, Machine, MemberId, Outcome, Submission, Token, Transaction,
    Verdict,
};

use memory::{ELSEWHERE, Fate, Store, UNREADABLE, added, new_table, time_at};

/// The member whose commit comes to be in doubt.
const DOUBTED: MemberId = MemberId::from_number(1);

/// Three processes: the owner of the member, one that settles the doubt, and one that may carry the member.
struct Scene {
    store: Store,
    now: u64,
    owner: Machine,
    settler: Machine,
    carrier: Machine,
    /// A clone of the owner, from before its member came.
    twin: Machine,
}

impl Scene {
    fn new(rules: ProtocolRules) -> Self {
        let machine = |number, rules| Machine::with_rules(MemberId::from_number(number), new_table(), rules);
        let hasty = ProtocolRules {
            leaves_to_others: false,
            ..rules
        };
        let mut store = Store::default();
        // Beside it, members are announced.
        store.announce(0, ELSEWHERE, UNREADABLE);
        let owner = machine(2, rules);
        Self {
            store,
            now: 0,
            twin: owner.cloned_as(MemberId::from_number(6)),
            owner,
            settler: machine(3, rules),
            carrier: machine(4, hasty),
        }
    }

    /// Performs the effects of a process up to the first of a kind, or all of them.
    fn perform(&mut self, who: fn(&mut Self) -> &mut Machine, last: Option<EffectKind>) {
        loop {
            let now = self.now;
            let Some(effect) = who(self).next(time_at(now)) else {
                return;
            };
            self.now += if let Effect::Pause(milliseconds) = &effect {
                *milliseconds
            } else {
                1
            };
            let now = time_at(self.now);
            let event = self.store.apply(now.wall, &effect);
            who(self).complete(now, event);
            let names = who(self).take_garbage();
            self.store.delete(&names);
            who(self).tidied(&names);
            if last == Some(EffectKind::of(&effect)) {
                return;
            }
        }
    }

    /// The member is announced, and its owner stops waiting.
    fn doubt(&mut self) -> Token {
        self.doubt_after(EffectKind::PutIntent)
    }

    /// The member is announced, and its owner stops waiting after an effect of this kind.
    fn doubt_after(&mut self, last: EffectKind) -> Token {
        self.owner.submit(append(DOUBTED));
        self.perform(|scene| &mut scene.owner, Some(EffectKind::PutIntent));
        if last != EffectKind::PutIntent {
            self.store.let_arrive(time_at(self.now).wall);
            self.perform(|scene| &mut scene.owner, Some(last));
        }
        match self.owner.give_up(DOUBTED) {
            Some(Verdict::Commit(Err(CommitError::Unknown { token, .. }))) => *token,
            other => panic!("expected a doubt, but got {other:?}"),
        }
    }

    fn settle(&mut self, token: &Token) -> Outcome {
        self.settler.settle(token).unwrap();
        self.perform(|scene| &mut scene.settler, None);
        match self.settler.take_verdicts().as_slice() {
            [(id, Verdict::Settled(outcome))] if *id == DOUBTED => *outcome,
            other => panic!("expected an outcome, but got {other:?}"),
        }
    }

    /// The carrier commits a member of its own, as far as the first effect of this kind.
    fn carry(&mut self, last: Option<EffectKind>) {
        self.carrier.submit(append(MemberId::from_number(5)));
        self.perform(|scene| &mut scene.carrier, last);
    }

    fn has_landed(&self) -> bool {
        let mut winners = self.store.log.iter();
        winners.any(|(version, body)| {
            let winner = Winner::parse(*version, body).unwrap();
            winner.members.contains(&DOUBTED)
        })
    }
}

fn append(id: MemberId) -> Submission {
    let append = Transaction::append(id, BEFORE_FIRST, vec![added(&id.to_string())]);
    Submission::new(append).unwrap()
}

fn milliseconds(time: i64) -> u64 {
    u64::try_from(time).unwrap()
}

/// An announcement arrives after the doubt about it was settled. Returns the outcome, and whether the member landed.
fn late(rules: ProtocolRules, settled: i64, settlers_clock: i64, carriers_clock: i64) -> (Outcome, bool) {
    let mut scene = Scene::new(rules);
    scene.store.holds_back = true;
    let token = scene.doubt();
    scene.store.holds_back = false;
    assert!(token.announcement_in_doubt);
    scene.now = milliseconds(token.expires.unwrap() + settled);
    scene.store.ahead = settlers_clock;
    let outcome = scene.settle(&token);
    let arrival = time_at(scene.now).wall;
    scene.store.let_arrive(arrival);
    scene.store.ahead = carriers_clock;
    scene.carry(None);
    (outcome, scene.has_landed())
}

#[test]
fn who_stops_waiting_is_told_of_a_doubt_that_nobody_has_taken_yet() {
    let mut scene = Scene::new(ProtocolRules::default());
    scene.store.fate = Some(Fate::Unanswered);
    scene.owner.submit(append(DOUBTED));
    scene.perform(|scene| &mut scene.owner, Some(EffectKind::PutVersion));
    let now = time_at(scene.now);
    scene.owner.next(now).unwrap();
    let gone = StoreError {
        kind: StoreErrorKind::Permanent,
        ..StoreError::transient("the store is gone")
    };
    scene.owner.complete(now, Event::Failed(gone));
    let told = scene.owner.give_up(DOUBTED);
    assert!(
        matches!(told, Some(Verdict::Commit(Err(CommitError::Unknown { .. })))),
        "{told:?}"
    );
    assert!(scene.owner.take_verdicts().is_empty());
    assert!(scene.has_landed());
}

#[test]
fn what_arrives_after_its_expiry_is_left_alone() {
    let after = |rules| late(rules, CLOCK_MARGIN + 1, 0, 0);
    assert_eq!(after(ProtocolRules::default()), (Outcome::Rejected, false));
    let mutant = ProtocolRules {
        r2_expiry: false,
        ..ProtocolRules::default()
    };
    assert_eq!(after(mutant), (Outcome::Rejected, true));
}

#[test]
fn a_doubt_is_pending_while_a_slow_clock_may_carry_it() {
    // The servers of the store differ by eight seconds.
    let about = |rules| late(rules, -1_000, 4_000, -4_000);
    assert_eq!(about(ProtocolRules::default()), (Outcome::Pending, true));
    let mutant = ProtocolRules {
        r2_clock_margin: false,
        ..ProtocolRules::default()
    };
    assert_eq!(about(mutant), (Outcome::Rejected, true));
}

#[test]
fn what_a_listing_still_shows_is_read_again() {
    let withdrawn = |rules| {
        let mut scene = Scene::new(rules);
        let token = scene.doubt();
        assert!(!token.announcement_in_doubt);
        // It knows the intent, and is about to attempt the version that settles the doubt.
        scene.carry(Some(EffectKind::ReadIntents));
        let shown = scene.store.entries();
        let outcome = scene.settle(&token);
        scene.store.out_of_date = Some(shown);
        scene.perform(|scene| &mut scene.carrier, None);
        (outcome, scene.has_landed())
    };
    assert_eq!(withdrawn(ProtocolRules::default()), (Outcome::Rejected, false));
    let mutant = ProtocolRules {
        r2_read_anew: false,
        ..ProtocolRules::default()
    };
    assert_eq!(withdrawn(mutant), (Outcome::Rejected, true));
}

#[test]
fn a_member_that_has_landed_is_not_pending() {
    let mut scene = Scene::new(ProtocolRules::default());
    // The settler opened the table before.
    scene.settler.submit(append(MemberId::from_number(6)));
    scene.perform(|scene| &mut scene.settler, None);
    scene.settler.take_verdicts();
    scene.store.holds_back = true;
    let token = scene.doubt();
    scene.store.holds_back = false;
    scene.store.let_arrive(time_at(scene.now).wall);
    scene.carry(None);
    assert!(token.announcement_in_doubt && scene.has_landed());
    assert!(matches!(scene.settle(&token), Outcome::Committed(_)));
}

#[test]
fn an_announcement_that_a_listing_shows_is_in_doubt_no_more() {
    let mut scene = Scene::new(ProtocolRules::default());
    scene.store.holds_back = true;
    let token = scene.doubt_after(EffectKind::ListIntents);
    assert!(!token.announcement_in_doubt);
    // So it is settled at once, and not only after its expiry.
    assert_eq!(
        (scene.settle(&token), scene.has_landed()),
        (Outcome::Rejected, false)
    );
}

#[test]
fn a_doubt_is_settled_at_once_by_a_listing_that_shows_the_announcement() {
    let mut scene = Scene::new(ProtocolRules::default());
    scene.store.holds_back = true;
    let token = scene.doubt();
    assert!(token.announcement_in_doubt);
    scene.store.let_arrive(time_at(scene.now).wall);
    assert_eq!(
        (scene.settle(&token), scene.has_landed()),
        (Outcome::Rejected, false)
    );
    scene.carry(None);
    assert!(!scene.has_landed());
}

#[test]
fn what_no_listing_shows_is_in_doubt() {
    let unseen = |rules| {
        let mut scene = Scene::new(rules);
        scene.store.holds_back = true;
        let token = scene.doubt();
        let outcome = scene.settle(&token);
        let arrival = time_at(scene.now).wall;
        scene.store.let_arrive(arrival);
        scene.store.holds_back = false;
        scene.carry(None);
        (outcome, scene.has_landed())
    };
    assert_eq!(unseen(ProtocolRules::default()), (Outcome::Pending, true));
    let mutant = ProtocolRules {
        r2_doubt_until_seen: false,
        ..ProtocolRules::default()
    };
    assert_eq!(unseen(mutant), (Outcome::Rejected, true));
}

#[test]
fn silence_is_no_refusal() {
    let silent = |rules| {
        let mut scene = Scene::new(rules);
        scene.store.holds_back = true;
        scene.owner.submit(append(DOUBTED));
        scene.perform(|scene| &mut scene.owner, Some(EffectKind::PutIntent));
        let verdict = scene.owner.give_up(DOUBTED);
        let is_certain = matches!(verdict, Some(Verdict::Commit(Err(CommitError::DeadlinePassed))));
        let arrival = time_at(scene.now).wall;
        scene.store.let_arrive(arrival);
        scene.store.holds_back = false;
        scene.carry(None);
        (is_certain, scene.has_landed())
    };
    assert_eq!(silent(ProtocolRules::default()), (false, true));
    let mutant = ProtocolRules {
        r3_unheard_is_doubt: false,
        ..ProtocolRules::default()
    };
    assert_eq!(silent(mutant), (true, true));
}

#[test]
fn the_token_of_a_version_that_a_crash_may_take_names_the_intent_that_stays() {
    let mut scene = Scene::new(ProtocolRules::default());
    scene.owner.submit(append(DOUBTED));
    scene.perform(|scene| &mut scene.owner, Some(EffectKind::PutVersion));
    let sync = scene.owner.next(time_at(scene.now));
    assert!(matches!(sync, Some(Effect::SyncLog(..))), "{sync:?}");
    match scene.owner.give_up(DOUBTED) {
        Some(Verdict::Commit(Err(CommitError::Unknown { token, .. }))) => {
            assert_eq!((token.intents.len(), token.first, token.last), (1, 0, 31));
        }
        other => panic!("expected a doubt, but got {other:?}"),
    }
}

/// A process was cloned. Both announce a member before the same version, and that of the first one is given up. Returns
/// the outcome, and whether that member landed.
fn cloned(rules: ProtocolRules) -> (Outcome, bool) {
    let mut scene = Scene::new(rules);
    let token = scene.doubt();
    // The carrier knows the content of the first announcement now.
    scene.carry(Some(EffectKind::ReadIntents));
    scene.settler.settle(&token).unwrap();
    scene.perform(|scene| &mut scene.settler, Some(EffectKind::WithdrawIntents));
    scene.twin.submit(append(MemberId::from_number(7)));
    scene.perform(|scene| &mut scene.twin, Some(EffectKind::PutIntent));
    scene.store.out_of_date = Some(Vec::new());
    scene.perform(|scene| &mut scene.settler, None);
    scene.store.out_of_date = None;
    let verdicts = scene.settler.take_verdicts();
    let [(DOUBTED, Verdict::Settled(outcome))] = verdicts.as_slice() else {
        panic!("expected an outcome, but got {verdicts:?}");
    };
    scene.perform(|scene| &mut scene.carrier, None);
    (*outcome, scene.has_landed())
}

#[test]
fn a_clone_does_not_bring_back_what_was_taken_back() {
    assert_eq!(cloned(ProtocolRules::default()), (Outcome::Rejected, false));
    let shared = ProtocolRules {
        r2_own_names: false,
        ..ProtocolRules::default()
    };
    assert_eq!(cloned(shared), (Outcome::Rejected, true));
}
