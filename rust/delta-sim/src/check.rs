//! The promises of the committer, checked against the log after every schedule.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use delta_commit::actions::{Action, parse_commit};
use delta_commit::conflict;
use delta_commit::winner::Winner;
use delta_commit::{MemberId, Version};

use crate::client::{SimulatedClient, Told};
use crate::marks;
use crate::moves::{self, RowHistory};
use crate::order::Appends;
use crate::store::Store;

/// The most races that a member may lose after its announcement: one to a process that listed before it, and one to a
/// process that carried it.
const MOST_LOST_RACES: u32 = 2;

/// The first promise that is broken.
pub(crate) fn broken_promise(
    store: &Store,
    clients: &BTreeMap<MemberId, SimulatedClient>,
    calm: bool,
) -> Option<String> {
    if let Some(violation) = &store.violation {
        return Some(violation.clone());
    }
    let winners = match winners(store) {
        Ok(winners) => winners,
        Err(violation) => return Some(violation),
    };
    contiguous(&winners)
        .or_else(|| added_once(&winners))
        .or_else(|| alone_or_blind(&winners, clients))
        .or_else(|| rows_add_up(store, clients))
        .or_else(|| marks_add_up(store, clients))
        .or_else(|| ids_of_their_own(&winners))
        .or_else(|| told_the_truth(&winners, clients.iter().map(|(id, client)| (id, &client.told))))
        .or_else(|| serial(&winners, clients))
        .or_else(|| no_dangling_add(&winners, store))
        .or_else(|| if calm { bounded(clients) } else { None })
}

pub(crate) fn winners(store: &Store) -> Result<Vec<Winner>, String> {
    store
        .history
        .iter()
        .map(|(version, body)| Winner::parse(*version, body).map_err(|e| e.to_string()))
        .collect()
}

/// The first promise that a log of appends alone breaks.
pub(crate) fn broken_by_appends<'a, W: Borrow<Winner>>(
    winners: &[W],
    told: impl IntoIterator<Item = (&'a MemberId, &'a Told)>,
) -> Option<String> {
    contiguous(winners)
        .or_else(|| added_once(winners))
        .or_else(|| told_the_truth(winners, told))
}

/// Versions, each of which may be shared.
fn each<W: Borrow<Winner>>(winners: &[W]) -> impl Iterator<Item = &Winner> {
    winners.iter().map(<W as Borrow<Winner>>::borrow)
}

fn contiguous<W: Borrow<Winner>>(winners: &[W]) -> Option<String> {
    each(winners)
        .zip(0..)
        .find(|(winner, expected)| winner.version != *expected)
        .map(|(_, expected)| format!("version {expected} is missing"))
}

fn added_once<W: Borrow<Winner>>(winners: &[W]) -> Option<String> {
    let mut added = HashMap::<&str, Version>::new();
    let adds = each(winners).flat_map(|winner| {
        let new = winner.adds.iter().filter(|add| add.deletion_vector.is_none());
        new.map(|add| (add.path.as_str(), winner.version))
    });
    for (path, version) in adds {
        if let Some(before) = added.insert(path, version) {
            return Some(format!(
                "{path} is added in version {before} and in version {version}"
            ));
        }
    }
    None
}

fn alone_or_blind(winners: &[Winner], clients: &BTreeMap<MemberId, SimulatedClient>) -> Option<String> {
    winners
        .iter()
        .filter(|winner| winner.members.len() > 1)
        .find(|winner| {
            let mut members = winner.members.iter().filter_map(|id| clients.get(id));
            members.any(|client| !client.transaction.is_blind_append())
        })
        .map(|winner| {
            format!(
                "version {} holds others beside a transaction that is not blind",
                winner.version
            )
        })
}

/// Checks that each version removes entries that the table has, and that marks of rows are those of the version before
/// and the client's own, which nobody marked before.
fn marks_add_up(store: &Store, clients: &BTreeMap<MemberId, SimulatedClient>) -> Option<String> {
    let mut entries = BTreeMap::new();
    for (version, body) in &store.history {
        let winner = Winner::parse(*version, body).ok()?;
        let before = entries.clone();
        for action in parse_commit(body).ok()? {
            if let Action::Remove(remove) = action
                && entries.remove(&remove.path) != Some(marks::rows(remove.deletion_vector.as_ref()))
            {
                let path = remove.path;
                return Some(format!(
                    "version {version} removes an entry of {path} that is not there"
                ));
            }
        }
        for add in &winner.adds {
            let now = marks::rows(add.deletion_vector.as_ref());
            entries.insert(add.path.clone(), now.clone());
            let client = winner.members.iter().find_map(|id| clients.get(id));
            let Some((client, before)) = client
                .filter(|client| client.transaction.marks.is_some())
                .zip(before.get(&add.path))
            else {
                continue;
            };
            let own = marks::own(&client.transaction);
            if !before.is_disjoint(&own) || now != before | &own {
                let path = &add.path;
                return Some(format!(
                    "version {version} marks {now:?} of {path}: {before:?} were marked, and {own:?} are its own"
                ));
            }
        }
    }
    None
}

/// Checks that a compaction leaves the table's rows as they were before it, and that an order holds each transaction
/// and the appends that it missed.
fn rows_add_up(store: &Store, clients: &BTreeMap<MemberId, SimulatedClient>) -> Option<String> {
    let mut rows = RowHistory::default();
    let mut appends = Appends::default();
    let mut before = rows.left();
    for (version, body) in &store.history {
        let winner = Winner::parse(*version, body).ok()?;
        let client = winner.members.iter().find_map(|id| clients.get(id));
        let transaction = client.map(|client| &client.transaction);
        let appended = transaction.and_then(|transaction| appends.without_order(transaction, &before));
        if let Some(appended) = appended {
            return Some(format!(
                "no order holds version {version}, version {appended} of which it missed rows, and a version that follows that one"
            ));
        }
        let compaction = transaction.filter(|transaction| transaction.operation.name == moves::OPTIMIZE);
        rows.take(&parse_commit(body).ok()?, compaction);
        let after = rows.left();
        let deleted = &before - &after;
        if compaction.is_some() && before != after {
            return Some(format!(
                "version {version} only moves rows, but it takes {deleted:?} and brings back {:?}",
                &after - &before
            ));
        }
        appends.take(&winner, &deleted);
        before = after;
    }
    None
}

/// Checks that each new file has row ids above those of all versions before, that a file that comes again keeps its
/// own, and that each version with new ids says which is the highest.
fn ids_of_their_own(winners: &[Winner]) -> Option<String> {
    let mut known = HashMap::<&str, (Option<i64>, Option<Version>)>::new();
    let mut highest = -1;
    for winner in winners {
        let (version, mut next) = (winner.version, highest + 1);
        for add in &winner.adds {
            let given = (add.base_row_id, add.default_row_commit_version);
            // The rows of a file are as many as its bytes.
            let expected = known.get(add.path.as_str()).copied().unwrap_or_else(|| {
                let first = next;
                next += add.size;
                (Some(first), Some(version))
            });
            if given != expected {
                let path = &add.path;
                return Some(format!(
                    "version {version} gives {path} the row ids {given:?}, expected {expected:?}"
                ));
            }
            known.insert(&add.path, given);
        }
        if winner.high_water_mark.unwrap_or(highest) != next - 1 {
            let mark = winner.high_water_mark;
            return Some(format!(
                "version {version} has row ids up to {}, and the mark {mark:?}",
                next - 1
            ));
        }
        highest = next - 1;
    }
    None
}

fn told_the_truth<'a, W: Borrow<Winner>>(
    winners: &[W],
    told: impl IntoIterator<Item = (&'a MemberId, &'a Told)>,
) -> Option<String> {
    let mut places = HashMap::new();
    for winner in each(winners) {
        for member in &winner.members {
            places.entry(*member).or_insert(winner.version);
        }
    }
    told.into_iter()
        .find_map(|(id, told)| match (told, places.get(id).copied()) {
            (Told::Committed(version), found) if found != Some(*version) => Some(format!(
                "{id} was acknowledged in version {version}, but it is in {found:?}"
            )),
            (Told::Rejected(reason), Some(found)) => Some(format!(
                "{id} was rejected ({reason}), but it is in version {found}"
            )),
            _ => None,
        })
}

/// Checks that no member followed a version that conflicts with it. The conflict rules are the oracle.
fn serial(winners: &[Winner], clients: &BTreeMap<MemberId, SimulatedClient>) -> Option<String> {
    for winner in winners {
        for client in winner.members.iter().filter_map(|id| clients.get(id)) {
            let transaction = &client.transaction;
            let between = winners
                .iter()
                .filter(|other| other.version > transaction.read_version && other.version < winner.version);
            for other in between {
                if let Err(conflict) = conflict::check(transaction, other) {
                    return Some(format!(
                        "version {} holds a member that must not follow: {conflict}",
                        winner.version
                    ));
                }
            }
        }
    }
    None
}

fn no_dangling_add(winners: &[Winner], store: &Store) -> Option<String> {
    winners
        .iter()
        .flat_map(|winner| winner.adds.iter().map(|add| (winner.version, &add.path)))
        .find(|(_, path)| !store.has_data(path))
        .map(|(version, path)| format!("version {version} adds {path}, which does not exist"))
}

fn bounded(clients: &BTreeMap<MemberId, SimulatedClient>) -> Option<String> {
    clients
        .iter()
        .find(|(_, client)| client.lost_races > MOST_LOST_RACES)
        .map(|(id, client)| format!("{id} lost {} races after its announcement", client.lost_races))
}
