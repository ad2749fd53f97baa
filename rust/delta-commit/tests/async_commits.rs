//! Commits that no thread waits for, on a real disk: each gets one reply, and it is true.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod disk;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use delta_commit::log::LogStore;
use delta_commit::store::LocalLogStore;
use delta_commit::{
    AsyncCommit, CommitCallback, CommitError, Committer, MemberId, Outcome, Transaction, Version, WaitLimit,
};

use disk::{adds, append, failing, local, soon, table};

const SOON: Duration = Duration::from_secs(60);

/// A store whose first version after the creation is begun, and not done before others say so.
fn held(table: &Path) -> (Committer, Arc<Barrier>) {
    let both = Arc::new(Barrier::new(2));
    let there = Arc::clone(&both);
    let committer = failing(table, move |store, version, body| {
        if version == 1 {
            there.wait();
            there.wait();
        }
        store.put_version(version, body)
    });
    (committer, both)
}

type Told = (String, Result<Version, CommitError>);

/// Posts an append of a file, whose name comes with the result.
fn post(committer: &Committer, path: &str, told: &Sender<Told>) -> AsyncCommit {
    let (name, told) = (path.to_owned(), told.clone());
    let reply: CommitCallback = Box::new(move |result| told.send((name, result)).unwrap());
    committer.post(append(path), reply).unwrap()
}

fn next(told: &Receiver<Told>) -> Told {
    told.recv_timeout(SOON).expect("a reply comes")
}

#[test]
fn those_that_wait_share_a_version() {
    let table = table();
    let (committer, both) = held(table.path());
    let (told, replies) = channel();
    post(&committer, "first", &told);
    both.wait();
    for n in 0..1_000 {
        post(&committer, &n.to_string(), &told);
    }
    both.wait();
    let found: HashMap<_, _> = (0..=1_000)
        .map(|_| next(&replies))
        .map(|(name, result)| (name, result.unwrap()))
        .collect();
    assert_eq!(found, adds(table.path()));
    assert_eq!(LocalLogStore::new(table.path()).find_tip().unwrap(), 2);
    // Each has one reply.
    drop((committer, told));
    assert!(replies.recv_timeout(SOON).is_err());
}

#[test]
fn threads_and_those_without_a_thread_commit_for_each_other() {
    let table = table();
    let committer = local(table.path());
    let (told, replies) = channel();
    let mut found = thread::scope(|scope| {
        let committer = &committer;
        let waiting: Vec<_> = (0..8)
            .map(|thread| {
                let told = told.clone();
                scope.spawn(move || {
                    let mut found = HashMap::new();
                    for n in 0..20 {
                        post(committer, &format!("{thread}-{n}-posted"), &told);
                        let name = format!("{thread}-{n}");
                        let version = committer.commit(append(&name), soon()).unwrap();
                        found.insert(name, version);
                    }
                    found
                })
            })
            .collect();
        let found = waiting.into_iter().flat_map(|thread| thread.join().unwrap());
        found.collect::<HashMap<_, _>>()
    });
    for _ in 0..160 {
        let (name, result) = next(&replies);
        found.insert(name, result.unwrap());
    }
    assert_eq!(found, adds(table.path()));
}

#[test]
fn who_gives_up_is_told_at_once_and_the_others_commit() {
    let table = table();
    let (committer, both) = held(table.path());
    let (told, replies) = channel();
    let tried = post(&committer, "tried", &told);
    both.wait();
    let queued = post(&committer, "queued", &told);
    post(&committer, "patient", &told);
    queued.give_up();
    let (name, result) = next(&replies);
    assert_eq!(name, "queued");
    assert!(matches!(result, Err(CommitError::DeadlinePassed)), "{result:?}");
    tried.give_up();
    let (name, result) = next(&replies);
    assert_eq!(name, "tried");
    let Err(CommitError::Unknown { token, .. }) = result else {
        panic!("expected a doubt, but got {result:?}");
    };
    both.wait();
    assert_eq!(next(&replies).1.unwrap(), 2);
    let outcome = committer.outcome(&token, &mut WaitLimit::until(soon())).unwrap();
    assert_eq!(outcome, Outcome::Committed(1));
    // Once is enough.
    tried.give_up();
    queued.give_up();
    assert!(replies.try_recv().is_err());
    assert_eq!(adds(table.path()).len(), 2);
}

#[test]
fn a_store_that_panics_is_an_answer_too() {
    let table = table();
    let tries = AtomicUsize::new(0);
    let committer = failing(table.path(), move |store, version, body| {
        assert!(tries.fetch_add(1, Ordering::Relaxed) > 0, "planted");
        store.put_version(version, body)
    });
    let (told, replies) = channel();
    post(&committer, "first", &told);
    let (_, result) = next(&replies);
    assert!(
        matches!(result, Err(CommitError::Unknown { .. } | CommitError::Store(_))),
        "{result:?}"
    );
    post(&committer, "second", &told);
    assert_eq!(next(&replies).1.unwrap(), 1);
    assert_eq!(adds(table.path()).len(), 1);
}

#[test]
fn what_no_version_may_hold_is_refused_and_not_posted() {
    let table = table();
    let committer = local(table.path());
    let (told, replies) = channel::<Told>();
    let reply: CommitCallback = Box::new(move |result| told.send((String::new(), result)).unwrap());
    assert!(committer.post(append("../outside"), reply).is_err());
    assert!(replies.recv_timeout(SOON).is_err());
    let (told, replies) = channel();
    let nothing = Transaction::append(MemberId::random(), 0, Vec::new());
    let reply: CommitCallback = Box::new(move |result| told.send(result).unwrap());
    committer.post(nothing, reply).unwrap();
    assert_eq!(replies.recv_timeout(SOON).unwrap().unwrap(), 0);
}
