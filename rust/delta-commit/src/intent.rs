//! Intents: announced bundles of transactions, which other processes may commit together with their own.
//!
//! An intent has one JSON object per line: first the header, then one line per member. It lies outside of `_delta_log`.
//! Its name begins with its first version, so that a listing shows whether its window is closed.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actions::{Action, Line};
use crate::batch::{MAX_ACTIONS, MAX_BYTES};
use crate::error::{CommitError, Result};
use crate::log::{LogStore, StoreError, Version};
use crate::path;
use crate::row_ids;
use crate::transaction::{MemberId, Transaction};

/// The number of versions that an intent may land in.
pub const WINDOW: Version = 32;

/// The time in milliseconds, by the store's clock, from the announcement of an intent to its expiry.
pub const LIFETIME: i64 = 45_000;

/// The time in milliseconds, by the store's clock, from the expiry of an intent to the settlement of a doubt about it.
/// The clocks of a store's servers may differ by less.
pub const CLOCK_MARGIN: i64 = 10_000;

/// The age in milliseconds, by the store's clock, above which helpers leave an intent alone. Intents of the first
/// format do not say when they expire.
pub(crate) const MAX_AGE: i64 = 60_000;

/// Bytes above which a body is not read as an intent. No committer that follows the rules writes such a body.
pub(crate) const MAX_BODY: usize = 16 << 20;

/// The format that is written.
const FORMAT: u32 = 2;

/// The format without an expiry.
const FIRST_FORMAT: u32 = 1;

/// Facts about the table on which the writer of an intent and its carrier must agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    /// `metaData.id`.
    pub table_id: String,
    /// The last version that changed metadata or protocol.
    pub changed_in: Version,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    format: u32,
    #[serde(flatten)]
    world: World,
    first: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
    members: usize,
}

impl Header {
    /// Returns true if it has what its format asks for.
    const fn is_known(&self) -> bool {
        matches!((self.format, self.expires), (FIRST_FORMAT, _) | (FORMAT, Some(_)))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MemberLine {
    id: String,
    read_version: Version,
    read_app_ids: Vec<String>,
    actions: Vec<Line>,
}

/// A blind append, ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct PreparedAppend {
    pub(crate) transaction: Arc<Transaction>,
    /// One action a line, each line ended.
    pub(crate) lines: Arc<str>,
    /// The error of a file that can get no row ids, once a table with row tracking has asked for it.
    uncounted: Arc<OnceLock<Option<CommitError>>>,
}

impl PreparedAppend {
    /// Serialises a transaction's actions once, outside of any lock.
    pub(crate) fn new(transaction: Transaction) -> Result<Self> {
        let mut lines = String::new();
        for action in &transaction.actions {
            lines.push_str(&action.to_line()?);
            lines.push('\n');
        }
        Ok(Self {
            transaction: Arc::new(transaction),
            lines: lines.into(),
            uncounted: Arc::default(),
        })
    }

    /// Returns true if it fits into a batch of its own. Larger transactions are never announced.
    pub(crate) fn fits_a_batch(&self) -> bool {
        self.transaction.actions.len() <= MAX_ACTIONS && self.lines.len() <= MAX_BYTES
    }

    pub(crate) fn id(&self) -> MemberId {
        self.transaction.id
    }

    /// The error of a table with row tracking, if the rows of a file were not counted.
    pub(crate) fn uncounted(&self) -> Option<&CommitError> {
        let found = self.uncounted.get_or_init(|| {
            let transaction = &self.transaction;
            let path = row_ids::first_uncounted(&transaction.actions, transaction.is_blind_append());
            path.map(row_ids::uncounted)
        });
        found.as_ref()
    }
}

/// An announced bundle.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    pub(crate) world: World,
    pub(crate) first: Version,
    /// The last moment at which a listing may show it to a carrier: milliseconds since the epoch, by the store's clock.
    /// Intents of the first format have none.
    pub(crate) expires: Option<i64>,
    pub(crate) members: Vec<PreparedAppend>,
}

impl Intent {
    /// The last version that it may land in.
    pub(crate) const fn last(&self) -> Version {
        last_of(self.first)
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let header = Header {
            format: if self.expires.is_some() {
                FORMAT
            } else {
                FIRST_FORMAT
            },
            world: self.world.clone(),
            first: self.first,
            expires: self.expires,
            members: self.members.len(),
        };
        let mut text = json(&header)?;
        text.push('\n');
        for member in &self.members {
            let transaction = &member.transaction;
            let app_ids: Vec<&str> = transaction.reads.app_ids.iter().map(String::as_str).collect();
            let actions = member.lines.trim_end().replace('\n', ",");
            let (id, read, app_ids) = (member.id(), transaction.read_version, json(&app_ids)?);
            // Writing into a string cannot fail.
            let _ = writeln!(
                text,
                r#"{{"id":"{id}","readVersion":{read},"readAppIds":{app_ids},"actions":[{actions}]}}"#
            );
        }
        Ok(text.into_bytes())
    }

    /// Decodes an intent, if this committer would have accepted every part of it from its own callers.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] or [`CommitError::Invalid`]: it is left alone.
    pub(crate) fn decode(body: &[u8]) -> Result<Self> {
        let malformed = |what: String| CommitError::Malformed(format!("an intent {what}"));
        if body.len() > MAX_BODY {
            return Err(malformed(format!("has {} bytes", body.len())));
        }
        let text = std::str::from_utf8(body).map_err(|e| malformed(e.to_string()))?;
        let mut lines = text.lines();
        let header: Header = serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|e| malformed(format!("has no header: {e}")))?;
        if !header.is_known() {
            return Err(malformed(format!("has the format {}", header.format)));
        }
        let members = lines.map(decode_member).collect::<Result<Vec<_>>>()?;
        if members.len() != header.members || header.first < 0 {
            return Err(malformed("is not whole".to_owned()));
        }
        Ok(Self {
            world: header.world,
            first: header.first,
            // The first format knows no such field.
            expires: header.expires.filter(|_| header.format != FIRST_FORMAT),
            members,
        })
    }
}

/// An intent that was parsed before. The machines of a simulator share what they read: each with a copy of its own
/// would take more memory than there is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct ParsedIntent {
    pub(crate) intent: Arc<Intent>,
    pub(crate) bytes: u64,
}

impl ParsedIntent {
    /// Parses a body.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] or [`CommitError::Invalid`]: nobody carries it.
    pub fn parse(body: &[u8]) -> Result<Self> {
        Ok(Self {
            intent: Arc::new(Intent::decode(body)?),
            bytes: body.len() as u64,
        })
    }

    /// The bytes of its body.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of actions of its members.
    #[must_use]
    pub fn actions(&self) -> usize {
        let members = self.intent.members.iter();
        members.map(|member| member.transaction.actions.len()).sum()
    }
}

/// Files that announced bundles add, as in `add.path`, but for those of the transactions `own`. Bundles that are too
/// old to be carried, or of a format that is not known, count too: their owners may still have them committed.
///
/// # Errors
/// An error if the store refuses, or does not answer.
pub fn announced_files(store: &dyn LogStore, own: &[MemberId]) -> Result<Vec<String>, StoreError> {
    let entries = store.list_intents()?.entries;
    let names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
    let bodies = store.read_intents(&names, &[])?.bodies;
    let own: Vec<String> = own.iter().map(MemberId::to_string).collect();
    Ok(bodies.iter().flat_map(|(_, body)| added_by(body, &own)).collect())
}

/// The files that the members in a body add, as far as it is one, but for the members `own`.
pub(crate) fn added_by(body: &[u8], own: &[String]) -> Vec<String> {
    let members = body.split(|byte| *byte == b'\n');
    let members = members.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut files = Vec::new();
    let is_own = |member: &Value| {
        let id = member.get("id").and_then(Value::as_str);
        id.is_some_and(|id| own.iter().any(|own| own == id))
    };
    for member in members.filter(|member| !is_own(member)) {
        let actions = member.get("actions").and_then(Value::as_array);
        let paths = actions.into_iter().flatten().filter_map(|action| {
            let path = action.get("add")?.get("path")?;
            path.as_str().map(str::to_owned)
        });
        files.extend(paths);
    }
    files
}

/// The first and the last version of the windows of intents with these names.
pub(crate) fn window_of<'a>(names: impl IntoIterator<Item = &'a String>) -> Option<(Version, Version)> {
    let firsts = names.into_iter().filter_map(|name| first_of_name(name));
    let windows = firsts.map(|first| (first, last_of(first)));
    windows.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The last version that an intent with this first version may land in.
pub(crate) const fn last_of(first: Version) -> Version {
    first.saturating_add(WINDOW - 1)
}

/// The name of an intent. It is unique if `process` is unique and `count` rises.
pub(crate) fn name(first: Version, process: MemberId, count: u64) -> String {
    format!("{first:020}-{process}-{count}.json")
}

/// The first version that an intent of this name may land in; none when the name is not an intent's.
pub(crate) fn first_of_name(name: &str) -> Option<Version> {
    let (digits, _) = name.strip_suffix(".json")?.split_once('-')?;
    first_of_digits(digits)
}

/// The version that a name begins with.
pub(crate) fn first_of_digits(digits: &str) -> Option<Version> {
    let is_one = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if is_one { digits.parse().ok() } else { None }
}

fn decode_member(line: &str) -> Result<PreparedAppend> {
    let member: MemberLine = serde_json::from_str(line)
        .map_err(|e| CommitError::Malformed(format!("a member of an intent is not whole: {e}")))?;
    let mut actions = Vec::with_capacity(member.actions.len());
    for Line(action) in member.actions {
        let action = action.ok_or_else(|| {
            CommitError::Malformed("a member of an intent holds an unknown action".to_owned())
        })?;
        check_carried(&action)?;
        actions.push(action);
    }
    let mut transaction = Transaction::append(member.id.parse()?, member.read_version, actions);
    transaction.reads.app_ids = member.read_app_ids.into_iter().collect();
    transaction.check()?;
    if !transaction.is_blind_append() {
        return Err(CommitError::Invalid(
            "a member of an intent is no blind append".to_owned(),
        ));
    }
    let member = PreparedAppend::new(transaction)?;
    if member.fits_a_batch() {
        Ok(member)
    } else {
        Err(CommitError::Invalid(
            "a member of an intent is too large".to_owned(),
        ))
    }
}

/// Checks an action of another process as strictly as one of this process.
pub(crate) fn check_carried(action: &Action) -> Result<()> {
    let Action::Add(add) = action else {
        return Ok(());
    };
    path::decode_inside(&add.path)?;
    if add.size < 0 {
        return Err(CommitError::Invalid(format!(
            "the file {:?} has the size {}",
            add.path, add.size
        )));
    }
    let Some(stats) = &add.stats else {
        return Ok(());
    };
    match serde_json::from_str::<Value>(stats) {
        Ok(Value::Object(_)) => Ok(()),
        _ => Err(CommitError::Invalid(format!(
            "the statistics of the file {:?} are not a JSON object",
            add.path
        ))),
    }
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| CommitError::Malformed(format!("an intent has no JSON form: {e}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::actions::{Add, Metadata, Txn};

    fn add(path: &str) -> Action {
        Action::Add(Add {
            path: path.to_owned(),
            size: 1,
            data_change: true,
            stats: Some(r#"{"numRecords":1}"#.to_owned()),
            ..Add::default()
        })
    }

    fn intent(members: Vec<Vec<Action>>) -> Intent {
        let world = World {
            table_id: "t".to_owned(),
            changed_in: 3,
        };
        let members = members
            .into_iter()
            .zip(1..)
            .map(|(actions, number)| {
                let mut transaction = Transaction::append(MemberId::from_number(number), 4, actions);
                transaction.reads.app_ids.insert("app \"1\"".to_owned());
                PreparedAppend::new(transaction).unwrap()
            })
            .collect();
        Intent {
            world,
            first: 7,
            expires: Some(1_700_000_000_000),
            members,
        }
    }

    #[test]
    fn the_files_of_any_intent_are_known() {
        let body = intent(vec![vec![add("a")], vec![add("b%20c")]]).encode().unwrap();
        let later = String::from_utf8(body)
            .unwrap()
            .replace("\"format\":2", "\"format\":9");
        assert_eq!(added_by(later.as_bytes(), &[]), ["a", "b%20c"]);
        let own = [MemberId::from_number(1).to_string()];
        assert_eq!(added_by(later.as_bytes(), &own), ["b%20c"]);
        assert!(added_by(b"{\"actions\":3}\nnothing", &[]).is_empty());
    }

    fn refusal(actions: Vec<Action>) -> String {
        Intent::decode(&intent(vec![actions]).encode().unwrap())
            .unwrap_err()
            .to_string()
    }

    proptest! {
        #[test]
        fn an_intent_is_carried_as_it_was_announced(paths in prop::collection::vec("[^/.\0][^/.\0:]{0,8}", 1..6)) {
            let announced = intent(paths.iter().map(|path| vec![add(&crate::path::encode(path))]).collect());
            let carried = Intent::decode(&announced.encode().unwrap()).unwrap();
            prop_assert_eq!(&carried.world, &announced.world);
            prop_assert_eq!((carried.first, carried.last()), (7, 38));
            prop_assert_eq!(carried.expires, announced.expires);
            prop_assert_eq!(carried.members.len(), announced.members.len());
            for (ours, theirs) in carried.members.iter().zip(&announced.members) {
                prop_assert_eq!(ours.id(), theirs.id());
                prop_assert_eq!(&ours.lines, &theirs.lines);
                prop_assert_eq!(&ours.transaction.reads.app_ids, &theirs.transaction.reads.app_ids);
            }
        }

        #[test]
        fn half_an_intent_is_none(cut in 0.0..1.0_f64) {
            let whole = intent(vec![vec![add("a")], vec![add("b")]]).encode().unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let cut = (cut * (whole.len() - 1) as f64) as usize;
            prop_assert!(Intent::decode(&whole[..cut]).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
            let _ = Intent::decode(&bytes);
            let _ = Intent::decode(text.as_bytes());
            let _ = first_of_name(&text);
        }
    }

    #[test]
    fn only_what_an_own_caller_could_write_is_carried() {
        let progress = Action::Txn(Txn::default());
        assert!(Intent::decode(&intent(vec![vec![add("a"), progress]]).encode().unwrap()).is_ok());
        assert!(refusal(vec![Action::Metadata(Metadata::default())]).contains("no blind append"));
        assert!(refusal(vec![]).contains("no blind append"));
        assert!(refusal(vec![add("../a")]).contains("inside the table"));
        assert!(refusal(vec![add("a"), add("a")]).contains("two add actions"));
        let wrong = |change: fn(&mut Add)| {
            let mut file = Add {
                path: "a".to_owned(),
                ..Add::default()
            };
            change(&mut file);
            refusal(vec![Action::Add(file)])
        };
        assert!(wrong(|file| file.size = -1).contains("size"));
        assert!(wrong(|file| file.stats = Some("[1]".to_owned())).contains("statistics"));
        let many = (0..=MAX_ACTIONS).map(|n| add(&n.to_string())).collect();
        assert!(refusal(many).contains("too large"));
    }

    #[test]
    fn the_first_format_is_read_and_later_ones_are_left_alone() {
        let body = String::from_utf8(intent(vec![vec![add("a")]]).encode().unwrap()).unwrap();
        let of_format = |format: u32| {
            let body = body.replace(r#""format":2"#, &format!(r#""format":{format}"#));
            Intent::decode(body.as_bytes())
        };
        assert_eq!(of_format(1).unwrap().expires, None);
        assert!(of_format(3).unwrap_err().to_string().contains("format 3"));
        // The second format has an expiry.
        let without = body.replace(r#""expires":1700000000000,"#, "");
        assert!(Intent::decode(without.as_bytes()).is_err());
        let first = without.replace(r#""format":2"#, r#""format":1"#);
        assert_eq!(Intent::decode(first.as_bytes()).unwrap().members.len(), 1);
    }

    #[test]
    fn a_name_tells_its_window() {
        let name = name(7, MemberId::from_number(1), 2);
        assert_eq!(first_of_name(&name), Some(7));
        for other in ["", "x.json", "7-x.json", ".tmp", "00000000000000000007.json"] {
            assert_eq!(first_of_name(other), None, "{other}");
        }
        let last = first_of_name("09223372036854775807-x.json");
        assert_eq!(last.map(last_of), Some(Version::MAX));
    }
}
