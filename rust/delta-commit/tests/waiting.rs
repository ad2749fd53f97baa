//! Transactions that wait for others of their process, each alone in its version.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;

use delta_commit::actions::{Action, Add, Remove};
use delta_commit::log::{Effect, Event};
use delta_commit::{Machine, MemberId, Operation, Start, Submission, Transaction, Verdict};

use memory::{Store, new_table, time_at, version};

/// More than the versions that a machine keeps for the windows of intents.
const WAITING: usize = 200;

#[test]
fn a_version_is_read_once_for_all_that_wait() {
    let mut store = Store::default();
    store.commit(&version(&[], &[]));
    let start = Start {
        version: 0,
        changed_in: 0,
        ..new_table()
    };
    let mut machine = Machine::new(MemberId::from_number(2), start);
    for number in 0..WAITING {
        let add = Add {
            path: format!("{number}.parquet"),
            data_change: true,
            ..Add::default()
        };
        let mut removal = Transaction::append(MemberId::random(), 0, Vec::new());
        removal.operation = Operation::new("DELETE");
        removal.reads.files.insert(add.path.clone());
        removal.actions.push(Action::Remove(Remove::of(&add, 0, true)));
        machine.submit(Submission::new(removal).unwrap());
    }
    let (mut now, mut read) = (0, 0);
    while let Some(effect) = machine.next(time_at(now)) {
        now += 1;
        let event = store.apply(time_at(now).wall, &effect);
        read += usize::from(matches!(
            (&effect, &event),
            (Effect::ReadVersion(_), Event::Body(Some(_)))
        ));
        machine.complete(time_at(now), event);
    }
    let verdicts = machine.take_verdicts();
    assert_eq!(verdicts.len(), WAITING);
    let is_there = |verdict: &Verdict| matches!(verdict, Verdict::Commit(Ok(_)));
    assert!(verdicts.iter().all(|(_, verdict)| is_there(verdict)));
    // Its own versions are known to the machine that wrote them.
    assert_eq!(read, 0);
}
