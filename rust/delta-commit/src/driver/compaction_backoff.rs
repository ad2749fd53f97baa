//! The backoff of compactions for changes of rows.
//!
//! A compaction moves rows to other files, and a change that has found them begins anew. Beside an optimiser without a
//! pause that could go on for long. So such a change requests a backoff: it puts an empty object beside the intents,
//! and a compaction waits for it before it commits. What the change marks meanwhile, the compaction takes over.
//!
//! This is about speed alone. A request that is late, lost or never answered costs the change another beginning. One
//! whose owner died costs compactions one wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::{Committer, CommitterCore, LOOK_EVERY, WaitLimit};
use crate::intent::MAX_AGE;
use crate::intent_gc;
use crate::log::{LogStore, StoreErrorKind};
use crate::timings::EffectKind;
use crate::transaction::MemberId;

/// The longest that compactions wait at once.
const LONGEST: Duration = Duration::from_secs(10);

/// The time before the second look for requests. It doubles from look to look.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The longest time between two looks at a store that answers at once, and at one that takes long.
const QUICK_PAUSE: Duration = Duration::from_millis(50);
const SLOW_PAUSE: Duration = Duration::from_secs(1);

/// Milliseconds by which a request may seem older or younger than it is: some stores count whole seconds.
const CLOCK_STEP: i64 = 1_000;

const ENDING: &str = ".precedence";

/// A request to compactions to wait. It ends when this is dropped; a thread beside the caller deletes it.
pub struct CompactionBackoff {
    core: Arc<CommitterCore>,
    name: String,
}

impl Drop for CompactionBackoff {
    fn drop(&mut self) {
        let (core, name) = (Arc::clone(&self.core), std::mem::take(&mut self.name));
        // Without a thread it stays, and compactions wait until its time is up.
        intent_gc::spawn(move || core.withdraw(&[name]));
    }
}

impl Committer {
    /// Asks the compactions of all processes to wait for so long, 10 s at most, or until the request is dropped. None
    /// where it certainly was not written.
    #[must_use]
    pub fn request_backoff(&self, wait: Duration) -> Option<CompactionBackoff> {
        let core = Arc::clone(self.core());
        let name = format!("{}-{}{ENDING}", MemberId::random(), wait.min(LONGEST).as_millis());
        let put = core.timed(EffectKind::PutIntent, |store| store.put_intent(&name, &[]));
        match put {
            Err(error) if error.kind != StoreErrorKind::Transient => None,
            // One whose answer was lost may be there, and is to be withdrawn.
            _ => Some(CompactionBackoff { core, name }),
        }
    }

    /// Waits for changes that have requested a backoff: half of the time that the caller has left, and 10 s at most.
    /// Afterwards this process waits for nobody for as long as it has waited. Returns true if it waited.
    pub fn back_off(&self, wait: &mut WaitLimit<'_>) -> bool {
        let core = self.core();
        if core.millis() < core.rests_until.load(Ordering::Acquire) {
            return false;
        }
        let began = Instant::now();
        let end = began + LONGEST.min(wait.left().unwrap_or_default() / 2);
        let mut pause = FIRST_PAUSE;
        let mut looks_again = true;
        let mut waited = false;
        while looks_again {
            let looked = Instant::now();
            if !core.is_asked_for_precedence() {
                break;
            }
            waited = true;
            // A store that takes long to answer is asked as much less often.
            let next = Instant::now() + pause.max(looked.elapsed()).min(SLOW_PAUSE);
            pause = (2 * pause).min(QUICK_PAUSE);
            looks_again = sleep_until(next.min(end), wait) && next < end;
        }
        let rest = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let rests_until = core.millis().saturating_add(rest);
        core.rests_until.fetch_max(rests_until, Ordering::AcqRel);
        waited
    }
}

/// Returns false if the caller stopped waiting before.
fn sleep_until(moment: Instant, wait: &mut WaitLimit<'_>) -> bool {
    loop {
        let Some(left) = wait.left() else {
            return false;
        };
        let pause = moment.saturating_duration_since(Instant::now());
        if pause.is_zero() {
            return true;
        }
        thread::sleep(pause.min(left).min(LOOK_EVERY));
    }
}

impl CommitterCore {
    /// Returns true if a change requests a backoff now. Requests of owners that died are deleted.
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
            // Where the clock that dates requests is early, nobody knows when one ends.
            is_asked |= age >= -CLOCK_STEP && age <= wait.saturating_add(CLOCK_STEP);
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

/// The milliseconds that a request of this name asks for, as many as are granted. None when it is no request's name.
fn wait_of_name(name: &str) -> Option<i64> {
    let (id, wait) = name.strip_suffix(ENDING)?.split_once('-')?;
    id.parse::<MemberId>().ok()?;
    let longest = i64::try_from(LONGEST.as_millis()).unwrap_or(i64::MAX);
    let wait: u64 = wait.parse().ok()?;
    Some(i64::try_from(wait).unwrap_or(longest).min(longest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::BEFORE_FIRST;
    use crate::machine::Start;
    use crate::store::LocalLogStore;

    fn wait_limit() -> WaitLimit<'static> {
        WaitLimit::until(Instant::now() + Duration::from_secs(60))
    }

    fn process(table: &std::path::Path) -> Committer {
        let start = Start {
            version: BEFORE_FIRST,
            table_id: "4f1c".into(),
            changed_in: BEFORE_FIRST,
            in_commit_timestamp: None,
            high_water_mark: None,
            digest: None,
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
        let asked = change.request_backoff(LONGEST).unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| compaction.back_off(&mut wait_limit()));
            while looks(&compaction) < 3 {
                assert!(!waits.is_finished(), "it waited for nobody");
                thread::yield_now();
            }
            drop(asked);
            assert!(waits.join().unwrap());
        });
        assert!(!compaction.core().is_asked_for_precedence());
    }

    #[test]
    fn nobody_is_waited_for_once_the_time_is_up_and_for_as_long_afterwards() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let dead = change.request_backoff(Duration::ZERO).unwrap();
        assert!(compaction.back_off(&mut wait_limit()), "it waited for nobody");
        let before = looks(&compaction);
        let alive = change.request_backoff(LONGEST).unwrap();
        assert!(!compaction.back_off(&mut wait_limit()));
        assert_eq!(looks(&compaction), before);
        drop((dead, alive));
    }

    #[test]
    fn who_stops_waiting_waits_for_nobody() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let _asked = change.request_backoff(LONGEST).unwrap();
        compaction.back_off(&mut WaitLimit::until(Instant::now()));
        assert_eq!(looks(&compaction), 1);
    }

    #[test]
    fn half_of_the_callers_time_is_left_for_the_commit() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let _asked = change.request_backoff(LONGEST).unwrap();
        let mut wait = WaitLimit::until(Instant::now() + Duration::from_millis(400));
        assert!(compaction.back_off(&mut wait));
        assert!(wait.left().is_some());
    }

    #[test]
    fn requests_of_the_dead_are_deleted_and_those_of_the_future_not_waited_for() {
        let table = tempfile::tempdir().unwrap();
        let (change, compaction) = (process(table.path()), process(table.path()));
        let asked = change.request_backoff(LONGEST).unwrap();
        let file = table.path().join("_spillway/intents").join(&asked.name);
        let date = |at| {
            let file = std::fs::File::options().write(true).open(&file).unwrap();
            file.set_modified(at).unwrap();
        };
        let (now, hour) = (std::time::SystemTime::now(), Duration::from_secs(3_600));
        date(now + hour);
        assert!(!compaction.core().is_asked_for_precedence());
        assert!(file.exists());
        date(now - hour);
        assert!(!compaction.core().is_asked_for_precedence());
        assert!(!file.exists());
    }

    proptest! {
        #[test]
        fn a_name_says_how_long_to_wait(id in any::<u128>(), wait in any::<u64>()) {
            let name = format!("{}-{wait}{ENDING}", MemberId::from_number(id));
            let granted = i64::try_from(wait.min(10_000)).unwrap();
            prop_assert_eq!(wait_of_name(&name), Some(granted));
            prop_assert_eq!(crate::intent::first_of_name(&name), None);
        }

        #[test]
        fn other_names_ask_for_nothing(
            name in "[0-9a-f]{33}-[0-9]{1,6}|[0-9a-f-]{20,35}--[0-9]{1,6}|[0-9a-f]{32}(-x?)?|.*",
        ) {
            prop_assert_eq!(wait_of_name(&name), None);
            prop_assert_eq!(wait_of_name(&format!("{name}{ENDING}")), None);
        }
    }
}
