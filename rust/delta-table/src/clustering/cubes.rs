//! Groups of files that are clustered together, and the marks of those that were: delta-spark calls a group a z-cube.
//!
//! A file's tags name its cube and the columns that it is clustered by. A cube with half as many rows as a group may
//! have is full, and stays as it is, but for files with many deleted rows: each of these is copied without them, and
//! stays in the cube. Files of other columns and of other implementations are left alone. Smaller cubes go into a group
//! with files that are not clustered yet, or with each other. Each group becomes one cube. So work ends: there are
//! fewer parts after it, or fewer that are not clustered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use delta_commit::actions::Add;
use uuid::Uuid;

use crate::error::Result;
use crate::stats_columns;

use super::listed;

/// The implementation that clusters files, by the name that delta-spark has for it: both cluster what the other did.
const PROVIDER: &str = "liquid";

const CUBE: &str = "ZCUBE_ID";
const COLUMNS: &str = "ZCUBE_ZORDER_BY";
const CURVE: &str = "ZCUBE_ZORDER_CURVE";

/// Marks of a file: the implementation that clustered it, and its tags.
pub(crate) type ClusteringMarks = (Option<String>, Option<BTreeMap<String, Option<String>>>);

/// The marks of the files of a new cube.
pub(super) fn new_marks(columns: &[Vec<String>]) -> ClusteringMarks {
    let tags = [
        (CUBE, Uuid::new_v4().to_string()),
        (COLUMNS, listed(columns)),
        (CURVE, "hilbert".to_owned()),
    ];
    let tags = tags.map(|(name, value)| (name.to_owned(), Some(value)));
    (Some(PROVIDER.to_owned()), Some(tags.into()))
}

/// The marks that a file keeps when it is written again by itself, with its rows in their order.
pub(crate) fn marks_of(add: &Add) -> ClusteringMarks {
    let tags = add.tags.iter().flatten();
    let kept = tags.filter(|(name, _)| [CUBE, COLUMNS, CURVE].contains(&name.as_str()));
    let kept: BTreeMap<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    (
        add.clustering_provider.clone(),
        (!kept.is_empty()).then_some(kept),
    )
}

/// The clustering of a file.
enum Clustering<'a> {
    /// None yet.
    None,
    /// In the cube of this id, by the table's columns.
    Cube(&'a str),
    /// By other columns, or by another implementation.
    Other,
}

impl<'a> Clustering<'a> {
    fn of(add: &'a Add, columns: &[Vec<String>]) -> Self {
        if add.clustering_provider.as_ref().is_some_and(|by| by != PROVIDER) {
            return Self::Other;
        }
        let tag = |name: &str| add.tags.as_ref()?.get(name)?.as_deref();
        match (tag(CUBE), tag(COLUMNS)) {
            (Some(cube), Some(by)) if parsed(by).as_deref() == Some(columns) => Self::Cube(cube),
            (Some(_), Some(_)) => Self::Other,
            _ => Self::None,
        }
    }
}

/// The columns of a tag: versions of Spark differ in the names that they quote.
fn parsed(listed: &str) -> Option<Vec<Vec<String>>> {
    let names: Vec<String> = serde_json::from_str(listed).ok()?;
    let columns = names
        .iter()
        .map(|name| match stats_columns::parse(name)?.as_slice() {
            [column] => Some(column.clone()),
            _ => None,
        });
    columns.collect()
}

/// Returns true if a file is in a cube of these columns.
pub(crate) fn is_clustered(add: &Add, columns: &[Vec<String>]) -> bool {
    matches!(Clustering::of(add, columns), Clustering::Cube(_))
}

/// The rules by which files are put into groups.
pub(crate) struct Packing<'a> {
    /// The table's clustering columns.
    pub columns: &'a [Vec<String>],
    /// Rows of a group, at most, unless one file has more.
    pub most_rows: u64,
    /// The rows of a file that are there.
    pub rows: &'a dyn Fn(&Arc<Add>) -> Result<u64>,
    /// Returns true if a file is to be written again for its deleted rows.
    pub is_wanted: &'a dyn Fn(&Arc<Add>) -> Result<bool>,
}

/// Files that go into a group together: one that is not clustered, or a cube.
#[derive(Default)]
struct GroupPart {
    files: Vec<Arc<Add>>,
    rows: u64,
    /// True if something is gained even where it is alone.
    is_wanted: bool,
    /// Files that are to be written again for their deleted rows.
    wanted: Vec<Arc<Add>>,
}

impl GroupPart {
    fn add(&mut self, add: Arc<Add>, packing: &Packing<'_>) -> Result<()> {
        self.rows += (packing.rows)(&add)?;
        if (packing.is_wanted)(&add)? {
            self.is_wanted = true;
            self.wanted.push(Arc::clone(&add));
        }
        self.files.push(add);
        Ok(())
    }
}

/// The groups of files that are each to be clustered together. The first ones are of a file each, which is clustered
/// and is to be copied.
pub(crate) fn groups(mut files: Vec<Arc<Add>>, packing: &Packing<'_>) -> Result<VecDeque<Vec<Arc<Add>>>> {
    files.sort_by(|a, b| (a.modification_time, &a.path).cmp(&(b.modification_time, &b.path)));
    let mut cubes: BTreeMap<String, GroupPart> = BTreeMap::new();
    let mut others = Vec::new();
    for add in files {
        match Clustering::of(&add, packing.columns) {
            Clustering::Other => {}
            Clustering::Cube(cube) => {
                let cube = cube.to_owned();
                cubes.entry(cube).or_default().add(add, packing)?;
            }
            Clustering::None => {
                let mut part = GroupPart::default();
                part.add(add, packing)?;
                part.is_wanted = true;
                others.push(part);
            }
        }
    }
    let is_full = |cube: &GroupPart| cube.rows >= packing.most_rows.div_ceil(2);
    let (full, small): (Vec<_>, Vec<_>) = cubes.into_values().partition(is_full);
    let mut groups: VecDeque<_> = full
        .into_iter()
        .flat_map(|cube| cube.wanted)
        .map(|add| vec![add])
        .collect();
    groups.append(&mut packed(small.into_iter().chain(others), packing.most_rows));
    Ok(groups)
}

/// Puts parts together in their order.
fn packed(parts: impl Iterator<Item = GroupPart>, most_rows: u64) -> VecDeque<Vec<Arc<Add>>> {
    let mut groups = VecDeque::new();
    let mut open: Vec<GroupPart> = Vec::new();
    let mut rows: u64 = 0;
    for part in parts {
        if rows.saturating_add(part.rows) > most_rows {
            groups.extend(closed(std::mem::take(&mut open)));
            rows = 0;
        }
        rows = rows.saturating_add(part.rows);
        open.push(part);
    }
    groups.extend(closed(open));
    groups
}

/// The files of a group, if something is gained by writing them again.
fn closed(parts: Vec<GroupPart>) -> Option<Vec<Arc<Add>>> {
    let gains = parts.len() > 1 || parts.iter().any(|part| part.is_wanted);
    gains.then(|| parts.into_iter().flat_map(|part| part.files).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns() -> Vec<Vec<String>> {
        vec![vec!["a".to_owned()]]
    }

    /// A file of so many rows, which are its size here.
    fn file(number: usize, rows: i64, (clustering_provider, tags): ClusteringMarks) -> Arc<Add> {
        Arc::new(Add {
            path: format!("{number}"),
            size: rows,
            clustering_provider,
            tags,
            ..Add::default()
        })
    }

    fn grouped(files: &[Arc<Add>], most_rows: u64) -> Vec<Vec<Arc<Add>>> {
        grouped_for(files, most_rows, &|_| false)
    }

    fn grouped_for(
        files: &[Arc<Add>],
        most_rows: u64,
        is_wanted: &dyn Fn(&Arc<Add>) -> bool,
    ) -> Vec<Vec<Arc<Add>>> {
        let packing = Packing {
            columns: &columns(),
            most_rows,
            rows: &|add| Ok(add.size.unsigned_abs()),
            is_wanted: &|add| Ok(is_wanted(add)),
        };
        groups(files.to_vec(), &packing).unwrap().into()
    }

    #[test]
    fn files_of_other_columns_and_implementations_are_left_alone() {
        let others = [
            new_marks(&[vec!["b".to_owned()]]),
            (Some("other".to_owned()), None),
        ];
        let others: Vec<_> = (0..)
            .zip(others)
            .map(|(number, marks)| file(number, 1, marks))
            .collect();
        assert_eq!(grouped(&others, 100), Vec::<Vec<_>>::new());
        let plain = file(7, 1, (None, None));
        let all = [others, vec![Arc::clone(&plain)]].concat();
        assert_eq!(grouped(&all, 100), [[plain]]);
    }

    #[test]
    fn a_full_cube_and_a_lone_small_one_are_left_alone() {
        let marks = new_marks(&columns());
        let full: Vec<_> = (0..5).map(|number| file(number, 12, marks.clone())).collect();
        let small = file(5, 49, new_marks(&columns()));
        let plain = file(6, 60, (None, None));
        assert_eq!(
            grouped(&[full.clone(), vec![Arc::clone(&small)]].concat(), 100),
            Vec::<Vec<_>>::new()
        );
        let all = [full, vec![Arc::clone(&small), Arc::clone(&plain)]].concat();
        assert_eq!(grouped(&all, 100), [[plain]]);
        assert_eq!(grouped(&all, 109)[0].len(), 2);
    }

    #[test]
    fn of_a_full_cube_only_files_with_deleted_rows_are_written_again() {
        let marks = new_marks(&columns());
        let full: Vec<_> = (0..5).map(|number| file(number, 100, marks.clone())).collect();
        let found = grouped_for(&full, 100, &|add| add.path == "3");
        assert_eq!(found, [[Arc::clone(&full[3])]]);
        assert!(is_clustered(&full[3], &columns()));
    }

    #[test]
    fn a_tag_names_columns_however_they_are_quoted() {
        let by = |listed: &str| {
            file(
                0,
                1,
                (
                    None,
                    Some(
                        [(CUBE, "c"), (COLUMNS, listed)]
                            .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
                            .into(),
                    ),
                ),
            )
        };
        let columns = [vec!["2xx".to_owned()], vec!["a".to_owned(), "b".to_owned()]];
        for listed in [r#"["2xx","a.b"]"#, r#"["`2xx`","a.`b`"]"#] {
            assert!(is_clustered(&by(listed), &columns), "{listed}");
        }
        for listed in [r#"["a.b","2xx"]"#, r#"["2xx"]"#, "[7]", "2xx"] {
            assert!(!is_clustered(&by(listed), &columns), "{listed}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn clustering_ends_and_leaves_one_small_cube_at_most(
            sizes in prop::collection::vec(1_i64..40, 0..30),
            most in 1_u64..60,
        ) {
            let mut files: Vec<_> =
                (0..).zip(&sizes).map(|(number, rows)| file(number, *rows, (None, None))).collect();
            let mut next = files.len();
            for _ in 0..=sizes.len() {
                let groups = grouped(&files, most);
                for group in &groups {
                    files.retain(|file| !group.contains(file));
                    let rows: i64 = group.iter().map(|file| file.size).sum();
                    prop_assert!(group.len() == 1 || rows.unsigned_abs() <= most);
                    let marks = new_marks(&columns());
                    // Half of the rows go into each of two files.
                    files.extend([(next, rows / 2), (next + 1, rows - rows / 2)].map(|(number, rows)| {
                        file(number, rows, marks.clone())
                    }));
                    next += 2;
                }
                if groups.is_empty() {
                    break;
                }
            }
            prop_assert!(grouped(&files, most).is_empty());
            let small = files.chunks(2).map(|cube| cube.iter().map(|file| file.size.unsigned_abs()).sum::<u64>());
            let small = small.filter(|rows| *rows < most.div_ceil(2)).count();
            prop_assert!(small <= 1, "{small} small cubes");
            prop_assert_eq!(files.iter().map(|file| file.size).sum::<i64>(), sizes.iter().sum::<i64>());
        }
    }
}
