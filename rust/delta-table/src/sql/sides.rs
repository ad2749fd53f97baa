//! Conditions over rows of two sides, as a merge has them: `target.NAME` and `source.NAME`.
//!
//! As in Spark, a name without a side is that of the one side that has it. Each side is a struct to the rest of this
//! module.

use crate::error::Result;
use crate::near::near;
use crate::schema::{ColumnType, TableColumn, TableSchema};

use super::bind::Scope;
use super::bound::BoundCondition;
use super::{Purpose, refused};

/// A side of which conditions name columns.
pub(crate) struct SideColumns {
    /// Its name.
    pub name: &'static str,
    pub columns: Vec<TableColumn>,
    /// Columns of which no conditions are built: their names, and the reasons.
    pub others: Vec<(String, String)>,
}

impl SideColumns {
    fn has(&self, name: &str) -> bool {
        let others = self.others.iter().map(|(other, _)| other);
        let mut names = self.columns.iter().map(|column| &column.name).chain(others);
        names.any(|known| known == name)
    }
}

/// The condition that a text has over rows of these sides. Each name in it begins with that of a side.
///
/// # Errors
/// [`TableError::Option`](crate::error::TableError::Option) names `option`, and the place in the text.
pub(crate) fn over_sides(sides: &[SideColumns], text: &str, option: &str) -> Result<BoundCondition> {
    let columns = sides.iter().map(|side| TableColumn {
        name: side.name.to_owned(),
        kind: ColumnType::Struct(side.columns.clone()),
        nullable: false,
        metadata: serde_json::Map::new(),
    });
    let schema = TableSchema {
        columns: columns.collect(),
    };
    let scope = Scope {
        schema: &schema,
        partition_columns: &[],
        purpose: Purpose::Asked,
        of_files: false,
        sides,
    };
    scope.read(text).map_err(|fault| refused(option, text, &fault))
}

/// Puts the side's name before that of a column which has none. The error says why there is no such column.
pub(super) fn name_side(sides: &[SideColumns], names: &mut Vec<String>) -> Result<(), String> {
    let Some(first) = names.first_mut() else {
        return Ok(());
    };
    if let Some(side) = sides.iter().find(|side| side.name.eq_ignore_ascii_case(first)) {
        side.name.clone_into(first);
        let Some(name) = names.get(1) else {
            return Err(format!("{0} is a side: name a column of it, {0}.NAME", side.name));
        };
        let other = side.others.iter().find(|(other, _)| other == name);
        return other.map_or(Ok(()), |(_, why)| Err(why.clone()));
    }
    let mut having = sides.iter().filter(|side| side.has(first));
    match (having.next(), having.next()) {
        (Some(side), None) => {
            names.insert(0, side.name.to_owned());
            name_side(sides, names)
        }
        (Some(one), Some(two)) => Err(format!(
            "both sides have a column {first}: write {}.{first} or {}.{first}",
            one.name, two.name
        )),
        (None, _) => Err(no_side(sides, first)),
    }
}

/// The words for a name that no side has.
fn no_side(sides: &[SideColumns], name: &str) -> String {
    let of_side = |side: &SideColumns| {
        let names = side.columns.iter().map(|column| column.name.as_str());
        let near = near(name, names).into_iter();
        near.map(|near| format!("{}.{near}", side.name))
            .collect::<Vec<_>>()
    };
    let near: Vec<String> = sides.iter().flat_map(of_side).collect();
    let advice = if near.is_empty() {
        let forms: Vec<String> = sides.iter().map(|side| format!("{}.NAME", side.name)).collect();
        format!("columns of this clause are {}", forms.join(" and "))
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    format!("there is no column {name}: {advice}")
}
