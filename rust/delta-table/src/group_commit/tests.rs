//! Groups whose commits fail, panic and lose members.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{LazyLock, mpsc};

use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;

use super::*;
use crate::create::{CreateMode, CreateOptions};
use crate::table::Table;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Good,
    /// No transaction with it is committed.
    Refused,
    /// Its data make whoever writes them panic.
    Panics,
    /// Its comparison with others panics; by itself it is committed.
    Incomparable,
    /// Its caller stops waiting after this many tenths of a millisecond.
    Leaves(u8),
}

struct Request<const HALVES: bool> {
    number: usize,
    fate: Fate,
}

/// The transactions that were committed, by version.
static COMMITTED: Mutex<Vec<(Version, usize)>> = Mutex::new(Vec::new());
static NEWEST: AtomicI64 = AtomicI64::new(0);
/// The number of requests that must have come before a caller commits by itself, so that the others meet.
static LEADER_WAITS_FOR: AtomicUsize = AtomicUsize::new(0);
static COME: AtomicUsize = AtomicUsize::new(0);

trait HasQueue: Sized {
    fn own_queue() -> &'static GroupQueue<Self>;
}

impl HasQueue for Request<true> {
    fn own_queue() -> &'static GroupQueue<Self> {
        static QUEUE: LazyLock<GroupQueue<Request<true>>> = LazyLock::new(GroupQueue::default);
        &QUEUE
    }
}

impl HasQueue for Request<false> {
    fn own_queue() -> &'static GroupQueue<Self> {
        static QUEUE: LazyLock<GroupQueue<Request<false>>> = LazyLock::new(GroupQueue::default);
        &QUEUE
    }
}

impl<const HALVES: bool> Grouped for Request<HALVES>
where
    Self: HasQueue,
{
    const THREAD: &'static str = "test-group";
    const MOST_SEEN: usize = usize::MAX;

    type United = Vec<(usize, Fate)>;

    fn queue(_: &SharedTable) -> &GroupQueue<Self> {
        Self::own_queue()
    }

    fn joins(&self, group: &[Arc<GroupMember<Self>>]) -> bool {
        if self.fate == Fate::Incomparable {
            resume_unwind(Box::new("it cannot be compared"));
        }
        group.len() < 8
    }

    fn unite(
        _: &Arc<SharedTable>,
        group: &[Arc<GroupMember<Self>>],
        _: &mut dyn FnMut() -> bool,
    ) -> Result<Self::United> {
        let all = group
            .iter()
            .map(|member| (member.request.number, member.request.fate));
        Ok(written(all.collect()))
    }

    fn commit(
        united: &mut Self::United,
        _: &Arc<SharedTable>,
        _: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        tries();
        tried(united, go_on)
    }

    fn split(_: &CommitError) -> Option<Split> {
        Some(if HALVES { Split::Halves } else { Split::Each })
    }
}

fn written(all: Vec<(usize, Fate)>) -> Vec<(usize, Fate)> {
    if all.iter().any(|(_, fate)| *fate == Fate::Panics) {
        // Without a report of the panic.
        resume_unwind(Box::new("the data cannot be written"));
    }
    all
}

fn tried(all: &[(usize, Fate)], go_on: &mut dyn FnMut() -> bool) -> Result<Version> {
    for _ in 0..4 {
        if !go_on() {
            return Err(CommitError::DeadlinePassed.into());
        }
        thread::sleep(Duration::from_micros(100));
    }
    if all.iter().any(|(_, fate)| *fate == Fate::Refused) {
        return Err(CommitError::Invalid("refused".to_owned()).into());
    }
    let version = NEWEST.fetch_add(1, Ordering::AcqRel);
    lock(&COMMITTED).extend(all.iter().map(|(number, _)| (version, *number)));
    Ok(version)
}

/// Commits a request like its users do: by itself, if it is the first.
fn committed<const HALVES: bool>(
    shared: &Arc<SharedTable>,
    request: Request<HALVES>,
    time: Duration,
) -> Result<Version>
where
    Request<HALVES>: HasQueue,
{
    let mut wait = WaitLimit::until(Instant::now() + time);
    COME.fetch_add(1, Ordering::AcqRel);
    commit(shared, request, &mut wait).unwrap_or_else(|alone| {
        while COME.load(Ordering::Acquire) < LEADER_WAITS_FOR.load(Ordering::Acquire) && wait.left().is_some()
        {
            thread::yield_now();
        }
        tried(&written(vec![(alone.number, alone.fate)]), &mut || {
            wait.left().is_some()
        })
    })
}

/// The answer to a request that no thread waits for; none after a panic.
fn posted<const HALVES: bool>(
    shared: &Arc<SharedTable>,
    request: Request<HALVES>,
    time: Duration,
) -> Option<Result<Version>>
where
    Request<HALVES>: HasQueue,
{
    let (told, answer) = mpsc::channel();
    let reply = Box::new(move |done| told.send(done).unwrap());
    COME.fetch_add(1, Ordering::AcqRel);
    let Ok(queued) = post(shared, request, reply) else {
        panic!("no thread can be started");
    };
    answer.recv_timeout(time).unwrap_or_else(|_| {
        queued.leave();
        answer.recv().unwrap()
    })
}

/// The answer to each request; none after a panic.
fn answers<const HALVES: bool>(
    shared: &Arc<SharedTable>,
    fates: &[(Fate, bool)],
) -> Vec<Option<Result<Version>>>
where
    Request<HALVES>: HasQueue,
{
    COME.store(0, Ordering::Release);
    LEADER_WAITS_FOR.store(fates.len(), Ordering::Release);
    thread::scope(|scope| {
        let threads: Vec<_> = fates
            .iter()
            .enumerate()
            .map(|(number, &(fate, is_posted))| {
                let request = Request::<HALVES> { number, fate };
                let time = match fate {
                    Fate::Leaves(tenths) => Duration::from_micros(100 * u64::from(tenths)),
                    _ => Duration::from_secs(60),
                };
                scope.spawn(move || {
                    if is_posted {
                        return posted(shared, request, time);
                    }
                    catch_unwind(AssertUnwindSafe(|| committed(shared, request, time))).ok()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().ok().flatten())
            .collect()
    })
}

fn each_has_its_own_result<const HALVES: bool>(shared: &Arc<SharedTable>, fates: &[(Fate, bool)])
where
    Request<HALVES>: HasQueue,
{
    lock(&COMMITTED).clear();
    let answers = answers::<HALVES>(shared, fates);
    let committed = std::mem::take(&mut *lock(&COMMITTED));
    for (number, ((fate, _), answer)) in fates.iter().zip(answers).enumerate() {
        let of_it = committed.iter().filter(|(_, other)| *other == number);
        let versions: Vec<Version> = of_it.map(|(version, _)| *version).collect();
        match (fate, answer) {
            (Fate::Good | Fate::Incomparable | Fate::Leaves(_), Some(Ok(version))) => {
                assert_eq!(versions, [version]);
            }
            (Fate::Refused, Some(Err(TableError::Commit(CommitError::Invalid(_)))))
            | (Fate::Panics, None)
            | (Fate::Leaves(_), Some(Err(TableError::Commit(CommitError::DeadlinePassed)))) => {
                assert!(versions.is_empty(), "{fate:?} is in {versions:?}");
            }
            (_, other) => panic!("{fate:?}: {other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_member_of_a_group_has_the_result_that_it_would_have_alone(
        fates in prop::collection::vec(
            (
                prop_oneof![
                    4 => Just(Fate::Good),
                    1 => Just(Fate::Refused),
                    1 => Just(Fate::Panics),
                    1 => Just(Fate::Incomparable),
                    2 => (0..20u8).prop_map(Fate::Leaves),
                ],
                any::<bool>(),
            ),
            1..20,
        ),
        halves: bool,
    ) {
        static TABLE: LazyLock<(tempfile::TempDir, Arc<SharedTable>)> = LazyLock::new(|| {
            let folder = tempfile::tempdir().unwrap();
            let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
            let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(60));
            let options = CreateOptions::default();
            let table = Table::create(folder.path(), &schema, options, CreateMode::Error, &mut wait);
            let shared = table.unwrap().shared().unwrap();
            (folder, shared)
        });
        if halves {
            each_has_its_own_result::<true>(&TABLE.1, &fates);
        } else {
            each_has_its_own_result::<false>(&TABLE.1, &fates);
        }
    }
}
