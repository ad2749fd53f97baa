//! Row ids: the numbers by which rows of tables with row tracking are told apart.
//!
//! The rows of a file have the ids from its `baseRowId` on, by their places in it. The highest id that was ever given
//! is in the domain `delta.rowTracking`. So the ids of a new file depend on the version before its own, and each
//! attempt gives them anew: R12. See "Row Tracking" in Delta's PROTOCOL.md.

use serde::{Deserialize, Serialize};

use crate::actions::{Action, Add, DomainMetadata, Metadata, Protocol, UnknownFields};
use crate::error::{CommitError, Result};
use crate::log::Version;

/// The feature of tables whose files have row ids.
pub const FEATURE: &str = "rowTracking";

/// The domain that holds the highest id that was given.
pub const DOMAIN: &str = "delta.rowTracking";

/// The property of tables whose rows keep their ids when they are moved.
pub const ENABLED: &str = "delta.enableRowTracking";

/// The property of tables that give no ids for now.
pub const SUSPENDED: &str = "delta.rowTrackingSuspended";

/// The tag of `commitInfo` that says whether all rows have kept their ids.
pub(crate) const PRESERVED_TAG: &str = "delta.rowTracking.preserved";

/// The mark of a table that has given no id.
const NONE_GIVEN: i64 = -1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    row_id_high_water_mark: i64,
}

/// Returns true if the protocol names the feature.
#[must_use]
pub fn are_supported(protocol: &Protocol) -> bool {
    let mut features = protocol.writer_features.iter().flatten();
    protocol.min_writer_version >= 7 && features.any(|feature| feature == FEATURE)
}

/// Returns true if new files get row ids.
#[must_use]
pub fn are_given(protocol: &Protocol, metadata: &Metadata) -> bool {
    are_supported(protocol) && !metadata.is_enabled(SUSPENDED)
}

/// Returns true if rows keep their ids when they are moved.
#[must_use]
pub fn are_enabled(protocol: &Protocol, metadata: &Metadata) -> bool {
    are_supported(protocol) && metadata.is_enabled(ENABLED)
}

/// The highest id that was given, by a domain; none where it is another one, or is removed.
///
/// # Errors
/// [`CommitError::Malformed`] when its configuration has no such id.
pub fn high_water_mark(domain: &DomainMetadata) -> Result<Option<i64>> {
    if domain.domain != DOMAIN || domain.removed {
        return Ok(None);
    }
    match serde_json::from_str::<Configuration>(&domain.configuration) {
        Ok(found) if found.row_id_high_water_mark >= NONE_GIVEN => Ok(Some(found.row_id_high_water_mark)),
        _ => Err(CommitError::Malformed(format!(
            "the domain {DOMAIN} has the configuration {:?}, expected a rowIdHighWaterMark that is a whole number from \
             {NONE_GIVEN} on: nobody can say which row ids were given; have its writer mend it",
            domain.configuration
        ))),
    }
}

/// The row tracking of a table, as far as its next version depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowTracking {
    /// True if rows keep their ids when they are moved.
    pub(crate) is_enabled: bool,
    /// The highest id that was given.
    mark: i64,
}

impl RowTracking {
    /// That of a table with this protocol, metadata and highest id; none where its files get no ids.
    pub(crate) fn of(
        protocol: Option<&Protocol>,
        metadata: Option<&Metadata>,
        mark: Option<i64>,
    ) -> Option<Self> {
        let is = |property: &str| metadata.is_some_and(|metadata| metadata.is_enabled(property));
        let gives = protocol.is_some_and(are_supported) && !is(SUSPENDED);
        gives.then(|| Self {
            is_enabled: is(ENABLED),
            mark: mark.unwrap_or(NONE_GIVEN),
        })
    }
}

/// The ids that the files of one version get.
pub(crate) struct RowIds {
    version: Version,
    before: i64,
    mark: i64,
}

impl RowIds {
    /// Ids after those that were given.
    pub(crate) fn of(version: Version, tracking: RowTracking) -> Self {
        Self {
            version,
            before: tracking.mark,
            mark: tracking.mark,
        }
    }

    /// A file with ids. One that comes again has its own; a `new` one has none yet, whatever it says.
    ///
    /// # Errors
    /// [`CommitError::Invalid`] when its rows were not counted, or too few ids are left.
    pub(crate) fn give(&mut self, mut add: Add, new: bool) -> Result<Add> {
        if new {
            add.base_row_id = None;
            add.default_row_commit_version = None;
        }
        if add.base_row_id.is_none() {
            let rows = rows_of(&add).ok_or_else(|| uncounted(&add.path))?;
            let last = self.mark.checked_add(rows).filter(|last| *last < i64::MAX);
            let last = last.ok_or_else(|| {
                CommitError::Invalid(format!(
                    "the table has given the row ids up to {}, and {rows} more are too many",
                    self.mark
                ))
            })?;
            add.base_row_id = Some(self.mark + 1);
            self.mark = last;
        }
        add.default_row_commit_version.get_or_insert(self.version);
        Ok(add)
    }

    /// The domain with the highest id, if ids were given.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when it has no JSON form.
    pub(crate) fn domain(&self) -> Result<Option<Action>> {
        if self.mark == self.before {
            return Ok(None);
        }
        let configuration = Configuration {
            row_id_high_water_mark: self.mark,
        };
        let configuration = serde_json::to_string(&configuration)
            .map_err(|e| CommitError::Malformed(format!("the domain {DOMAIN} has no JSON form: {e}")))?;
        Ok(Some(Action::DomainMetadata(DomainMetadata {
            domain: DOMAIN.to_owned(),
            configuration,
            removed: false,
            unknown: UnknownFields::default(),
        })))
    }
}

/// The first file that needs ids, and of which no statistics count the rows. In a `blind` append all files are new.
pub(crate) fn first_uncounted(actions: &[Action], blind: bool) -> Option<&str> {
    actions.iter().find_map(|action| match action {
        Action::Add(add) if (blind || add.base_row_id.is_none()) && rows_of(add).is_none() => {
            Some(add.path.as_str())
        }
        _ => None,
    })
}

pub(crate) fn uncounted(path: &str) -> CommitError {
    CommitError::Invalid(format!(
        "the file {path:?} has no numRecords in its statistics, or more than {MOST_ROWS}, and the table has row tracking, \
         which gives each row an id: add the file with statistics that count its rows"
    ))
}

/// The most rows of one file that are believed. More are in no file, and would leave too few ids for those to come.
const MOST_ROWS: i64 = 1 << 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    num_records: Option<i64>,
}

/// The number of rows of a file by its statistics, deleted ones too; none where they do not say it, or it cannot be.
#[must_use]
pub fn rows_of(add: &Add) -> Option<i64> {
    let counted: Counted = serde_json::from_str(add.stats.as_deref()?).ok()?;
    counted.num_records.filter(|rows| (0..=MOST_ROWS).contains(rows))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(rows: i64) -> Add {
        Add {
            stats: Some(format!(
                r#"{{"numRecords":{rows},"nullCount":{{"numRecords":7}}}}"#
            )),
            ..Add::default()
        }
    }

    fn tracking(mark: Option<i64>) -> RowTracking {
        let protocol = Protocol {
            min_writer_version: 7,
            writer_features: Some(vec![FEATURE.to_owned()]),
            ..Protocol::default()
        };
        RowTracking::of(Some(&protocol), None, mark).unwrap()
    }

    fn domain(configuration: &str) -> DomainMetadata {
        DomainMetadata {
            domain: DOMAIN.to_owned(),
            configuration: configuration.to_owned(),
            ..DomainMetadata::default()
        }
    }

    proptest! {
        #[test]
        fn files_get_ids_side_by_side_after_those_that_were_given(
            mark in prop::option::of(-1_i64..1_000),
            rows in prop::collection::vec(0_i64..100, 0..10),
        ) {
            let mut ids = RowIds::of(7, tracking(mark));
            let first = mark.unwrap_or(-1) + 1;
            let mut next = first;
            for rows in rows {
                let given = ids.give(file(rows), true).unwrap();
                prop_assert_eq!(given.base_row_id, Some(next));
                prop_assert_eq!(given.default_row_commit_version, Some(7));
                next += rows;
            }
            let written = ids.domain().unwrap();
            prop_assert_eq!(written.is_some(), next > first);
            if let Some(Action::DomainMetadata(written)) = written {
                prop_assert_eq!(high_water_mark(&written).unwrap(), Some(next - 1));
            }
        }
    }

    #[test]
    fn a_file_that_comes_again_keeps_its_ids_and_a_new_one_has_none_of_its_own() {
        let mut ids = RowIds::of(9, tracking(Some(99)));
        let known = Add {
            base_row_id: Some(3),
            default_row_commit_version: Some(2),
            ..file(10)
        };
        let again = ids.give(known.clone(), false).unwrap();
        assert_eq!(
            (again.base_row_id, again.default_row_commit_version),
            (Some(3), Some(2))
        );
        assert!(ids.domain().unwrap().is_none());
        let new = ids.give(known, true).unwrap();
        assert_eq!(
            (new.base_row_id, new.default_row_commit_version),
            (Some(100), Some(9))
        );
    }

    #[test]
    fn files_whose_rows_are_not_counted_get_no_ids() {
        for stats in [
            None,
            Some("{}"),
            Some(r#"{"numRecords":-1}"#),
            Some(r#"{"numRecords":1.5}"#),
            Some("no"),
        ] {
            let add = Add {
                path: "a".to_owned(),
                stats: stats.map(str::to_owned),
                ..Add::default()
            };
            let refused = RowIds::of(1, tracking(None)).give(add.clone(), true).unwrap_err();
            assert!(refused.to_string().contains("numRecords"), "{refused}");
            assert_eq!(first_uncounted(&[Action::Add(add)], true), Some("a"));
        }
        let known = Add {
            base_row_id: Some(0),
            ..Add::default()
        };
        assert_eq!(first_uncounted(&[Action::Add(known)], false), None);
    }

    #[test]
    fn ids_end_before_they_overflow() {
        let mut ids = RowIds::of(1, tracking(Some(i64::MAX - 2)));
        assert!(ids.give(file(1), true).is_ok());
        assert!(
            ids.give(file(1), true)
                .unwrap_err()
                .to_string()
                .contains("too many")
        );
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_an_error() {
        assert_eq!(
            high_water_mark(&domain(r#"{"rowIdHighWaterMark":12}"#)).unwrap(),
            Some(12)
        );
        let removed = DomainMetadata {
            removed: true,
            ..domain("")
        };
        assert_eq!(high_water_mark(&removed).unwrap(), None);
        for odd in [
            "",
            "{}",
            r#"{"rowIdHighWaterMark":"12"}"#,
            r#"{"rowIdHighWaterMark":-2}"#,
        ] {
            let refused = high_water_mark(&domain(odd)).unwrap_err().to_string();
            assert!(refused.contains("rowIdHighWaterMark"), "{odd}: {refused}");
        }
    }

    #[test]
    fn suspended_tables_give_no_ids() {
        let protocol = Protocol {
            min_writer_version: 7,
            writer_features: Some(vec![FEATURE.to_owned()]),
            ..Protocol::default()
        };
        let with = |property: &str| Metadata {
            configuration: [(property.to_owned(), "true".to_owned())].into(),
            ..Metadata::default()
        };
        let of = |property| RowTracking::of(Some(&protocol), Some(&with(property)), None);
        assert_eq!(of(SUSPENDED), None);
        assert!(of(ENABLED).is_some_and(|tracking| tracking.is_enabled));
        assert!(of("other").is_some_and(|tracking| !tracking.is_enabled));
        assert_eq!(
            RowTracking::of(Some(&Protocol::default()), Some(&with(ENABLED)), None),
            None
        );
    }
}
