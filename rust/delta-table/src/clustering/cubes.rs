//! Groups of files that are clustered together, and the marks of those that were: delta-spark calls a group a z-cube.
//!
//! A file's tags name its cube and the columns that it is clustered by. A cube with half as many rows as a group may
//! have is full, and is left as it is; so are files of other columns and of other implementations. Smaller cubes go into
//! a group with files that are not clustered yet, or with each other. Each group becomes one cube. So work ends: there are
//! fewer parts after it, or fewer that are not clustered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use delta_commit::actions::Add;
use serde_json::Value;
use uuid::Uuid;

use crate::error::Result;

use super::listed;

/// The implementation that clusters files, by the name that delta-spark has for it: both cluster what the other did.
const PROVIDER: &str = "liquid";

const CUBE: &str = "ZCUBE_ID";
const COLUMNS: &str = "ZCUBE_ZORDER_BY";
const CURVE: &str = "ZCUBE_ZORDER_CURVE";

/// Marks of a file: the implementation that clustered it, and its tags.
pub(crate) type Marks = (Option<String>, Option<BTreeMap<String, Option<String>>>);

/// The marks of the files of a new cube.
pub(super) fn new_marks(columns: &[Vec<String>]) -> Marks {
    let tags = [
        (CUBE, Uuid::new_v4().to_string()),
        (COLUMNS, listed(columns)),
        (CURVE, "hilbert".to_owned()),
    ];
    let tags = tags.map(|(name, value)| (name.to_owned(), Some(value)));
    (Some(PROVIDER.to_owned()), Some(tags.into()))
}

/// The marks that a file keeps when it is written again by itself, with its rows in their order.
pub(crate) fn marks_of(add: &Add) -> Marks {
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
    fn of(add: &'a Add, columns: &Value) -> Self {
        if add.clustering_provider.as_ref().is_some_and(|by| by != PROVIDER) {
            return Self::Other;
        }
        let tag = |name: &str| add.tags.as_ref()?.get(name)?.as_deref();
        match (tag(CUBE), tag(COLUMNS)) {
            (Some(cube), Some(by)) => match serde_json::from_str::<Value>(by) {
                Ok(by) if by == *columns => Self::Cube(cube),
                _ => Self::Other,
            },
            _ => Self::None,
        }
    }
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
struct Part {
    files: Vec<Arc<Add>>,
    rows: u64,
    /// True if something is gained even where it is alone.
    is_wanted: bool,
}

impl Part {
    fn add(&mut self, add: Arc<Add>, packing: &Packing<'_>) -> Result<()> {
        self.rows += (packing.rows)(&add)?;
        self.is_wanted |= (packing.is_wanted)(&add)?;
        self.files.push(add);
        Ok(())
    }
}

/// The groups of files that are each to be clustered together.
pub(crate) fn groups(mut files: Vec<Arc<Add>>, packing: &Packing<'_>) -> Result<VecDeque<Vec<Arc<Add>>>> {
    files.sort_by(|a, b| (a.modification_time, &a.path).cmp(&(b.modification_time, &b.path)));
    let columns = serde_json::from_str(&listed(packing.columns)).unwrap_or(Value::Null);
    let mut cubes: BTreeMap<String, Part> = BTreeMap::new();
    let mut others = Vec::new();
    for add in files {
        match Clustering::of(&add, &columns) {
            Clustering::Other => {}
            Clustering::Cube(cube) => {
                let cube = cube.to_owned();
                cubes.entry(cube).or_default().add(add, packing)?;
            }
            Clustering::None => {
                let mut part = Part::default();
                part.add(add, packing)?;
                part.is_wanted = true;
                others.push(part);
            }
        }
    }
    let is_full = |cube: &Part| cube.rows >= packing.most_rows.div_ceil(2) && !cube.is_wanted;
    let small = cubes.into_values().filter(|cube| !is_full(cube));
    Ok(packed(small.chain(others), packing.most_rows))
}

/// Puts parts together in their order.
fn packed(parts: impl Iterator<Item = Part>, most_rows: u64) -> VecDeque<Vec<Arc<Add>>> {
    let mut groups = VecDeque::new();
    let mut open: Vec<Part> = Vec::new();
    for part in parts {
        let rows: u64 = open.iter().map(|part| part.rows).sum();
        if rows.saturating_add(part.rows) > most_rows {
            groups.extend(closed(std::mem::take(&mut open)));
        }
        open.push(part);
    }
    groups.extend(closed(open));
    groups
}

/// The files of a group, if something is gained by writing them again.
fn closed(parts: Vec<Part>) -> Option<Vec<Arc<Add>>> {
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
    fn file(number: usize, rows: i64, (clustering_provider, tags): Marks) -> Arc<Add> {
        Arc::new(Add {
            path: format!("{number}"),
            size: rows,
            clustering_provider,
            tags,
            ..Add::default()
        })
    }

    fn grouped(files: &[Arc<Add>], most_rows: u64) -> Vec<Vec<Arc<Add>>> {
        let packing = Packing {
            columns: &columns(),
            most_rows,
            rows: &|add| Ok(add.size.unsigned_abs()),
            is_wanted: &|_| Ok(false),
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
