//! Precedence of changes of rows over compactions.
//!
//! A compaction moves rows to other files, and a change that has found them begins anew. Beside an optimiser without a
//! pause that could go on for long. So such a change asks for precedence: it puts an empty object beside the intents,
//! and a compaction waits for it before it commits. What the change marks meanwhile, the compaction takes over.
//!
//! This is about speed alone. A request that is late, lost or never answered costs the change another beginning, and one
//! whose owner died costs compactions one wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{Committer, Desk, Patience};
use crate::intent::MAX_AGE;
use crate::log::LogStore;
use crate::timings::EffectKind;
use crate::transaction::MemberId;

/// The longest that compactions wait at once.
const LONGEST: Duration = Duration::from_secs(10);

/// The least time between two looks for requests.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Milliseconds by which a request may seem older than it is: some stores count whole seconds.
const CLOCK_STEP: i64 = 1_000;

const ENDING: &str = ".precedence";

/// A request that compactions wait. It ends when this is dropped.
pub struct Precedence {
    desk: Arc<Desk>,
    name: String,
}

impl Drop for Precedence {
    fn drop(&mut self) {
        self.desk.withdraw(std::slice::from_ref(&self.name));
    }
}

impl Committer {
    /// Asks the compactions of all processes to wait for so long, or until the request is dropped. None where it cannot
    /// be written.
    #[must_use]
    pub fn ask_precedence(&self, wait: Duration) -> Option<Precedence> {
        let desk = Arc::clone(self.desk());
        let name = format!("{}-{}{ENDING}", MemberId::random(), wait.min(LONGEST).as_millis());
        desk.timed(EffectKind::PutIntent, |store| store.put_intent(&name, &[]))
            .ok()?;
        Some(Precedence { desk, name })
    }

    /// Waits for changes that have asked for precedence, as long as the caller does and 10 s at most. Afterwards nobody
    /// is waited for, for as long as it took: compactions and changes have half of the time each.
    pub fn give_precedence(&self, patience: &mut Patience<'_>) {
        let desk = self.desk();
        if desk.millis() < desk.rests_until.load(Ordering::Acquire) {
            return;
        }
        let began = Instant::now();
        while began.elapsed() < LONGEST {
            let looked = Instant::now();
            if !desk.is_asked_for_precedence() {
                break;
            }
            // A store that takes long to answer is asked as much less often.
            let pause = looked.elapsed().max(LOOK_EVERY);
            match patience.left() {
                Some(left) => thread::sleep(pause.min(left)),
                None => break,
            }
        }
        let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let rests_until = desk.millis().saturating_add(waited);
        desk.rests_until.store(rests_until, Ordering::Release);
    }
}

impl Desk {
    /// Returns true if a change waits for precedence now. Requests of owners that died are deleted.
    fn is_asked_for_precedence(&self) -> bool {
        // Without a listing nobody is known to wait.
        let Ok(listing) = self.timed(EffectKind::ListIntents, |store| store.list_intents()) else {
            return false;
        };
        let mut dead = Vec::new();
        let mut is_asked = false;
        for entry in listing.entries {
            let Some(wait) = wait_of_name(&entry.name) else {
                continue;
            };
            let age = listing.now.saturating_sub(entry.created);
            is_asked |= age <= wait.saturating_add(CLOCK_STEP);
            if age > MAX_AGE {
                dead.push(entry.name);
            }
        }
        if !dead.is_empty() {
            self.withdraw(&dead);
        }
        is_asked
    }

    /// Deletes requests. One that stays is waited for once more, and then it is too old.
    fn withdraw(&self, names: &[String]) {
        let _ = self.timed(EffectKind::DeleteIntents, |store| store.delete_intents(names));
    }

    fn timed<T>(&self, kind: EffectKind, call: impl FnOnce(&dyn LogStore) -> T) -> T {
        let began = Instant::now();
        let done = call(self.store.as_ref());
        self.lock().timings.note(kind, began.elapsed());
        done
    }
}

/// The milliseconds that a request of this name asks for; none when the name is not a request's.
fn wait_of_name(name: &str) -> Option<i64> {
    let (id, wait) = name.strip_suffix(ENDING)?.split_once('-')?;
    id.parse::<MemberId>().ok()?;
    wait.parse().ok().filter(|wait| *wait >= 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::BEFORE_FIRST;
    use crate::machine::Start;
    use crate::store::LocalLogStore;

    fn patience() -> Patience<'static> {
        Patience::until(Instant::now() + Duration::from_secs(60))
    }

    fn process(table: &std::path::Path) -> Committer {
        let start = Start {
            version: BEFORE_FIRST,
            table_id: "4f1c".into(),
            changed_in: BEFORE_FIRST,
            in_commit_timestamp: None,
            high_water_mark: None,
            known: None,
        };
        Committer::new(Arc::new(LocalLogStore::new(table)), start)
    }

    fn looks(process: &Committer) -> u64 {
        process.commit_stats().timings.of(EffectKind::ListIntents).count
    }

    #[test]
    fn a_request_is_waited_for_until_it_ends() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let asked = change.ask_precedence(LONGEST).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| compaction.give_precedence(&mut patience()));
            while looks(&compaction) < 3 {
                assert!(!waits.is_finished(), "it waited for nobody");
                thread::yield_now();
            }
            drop(asked);
            waits.join().unwrap();
        });
        assert!(!compaction.desk().is_asked_for_precedence());
    }

    #[test]
    fn nobody_is_waited_for_once_the_time_is_up_and_for_as_long_afterwards() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let dead = change.ask_precedence(Duration::ZERO).unwrap();
        compaction.give_precedence(&mut patience());
        let before = looks(&compaction);
        assert!(before > 1, "it waited for nobody");
        let alive = change.ask_precedence(LONGEST).unwrap();
        compaction.give_precedence(&mut patience());
        assert_eq!(looks(&compaction), before);
        drop((dead, alive));
    }

    #[test]
    fn who_stops_waiting_waits_for_nobody() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let _asked = change.ask_precedence(LONGEST).unwrap();
        compaction.give_precedence(&mut Patience::until(Instant::now()));
        assert_eq!(looks(&compaction), 1);
    }

    proptest! {
        #[test]
        fn a_name_says_how_long_to_wait(id in any::<u128>(), wait in 0..i64::MAX) {
            let name = format!("{}-{wait}{ENDING}", MemberId::from_number(id));
            prop_assert_eq!(wait_of_name(&name), Some(wait));
            prop_assert_eq!(crate::intent::first_of_name(&name), None);
        }

        #[test]
        fn other_names_ask_for_nothing(name in any::<String>()) {
            prop_assert_eq!(wait_of_name(&name), None);
            prop_assert_eq!(wait_of_name(&format!("{name}{ENDING}")), None);
        }
    }
}
