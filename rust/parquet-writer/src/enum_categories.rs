//! The categories of a polars Enum, which polars stores in the metadata of the field.
//!
//! polars reads any other value as null. A later batch may bring other values, from another Enum or from plain text:
//! the file must not store the categories then, and polars reads the column as categorical.

use std::collections::HashSet;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::Field;

use crate::column::all_texts;
use crate::integrity::check_run;

/// The metadata keys; older versions of polars use the first.
pub(crate) const KEYS: [&str; 2] = ["_PL_ENUM_VALUES", "_PL_ENUM_VALUES2"];

/// The categories of one leaf, and whether all its values so far are among them.
#[derive(Debug)]
pub(crate) struct EnumCategories {
    in_order: Vec<Box<[u8]>>,
    all: HashSet<Box<[u8]>>,
    holds: bool,
}

impl EnumCategories {
    /// The categories in the metadata of a leaf's field, if there are any. If they cannot be parsed, no value is one.
    pub fn of(field: &Field) -> Option<Self> {
        let mut stated = KEYS.iter().filter_map(|key| field.metadata().get(key));
        let in_order = parsed(stated.next_back()?).unwrap_or_default();
        Some(Self {
            all: in_order.iter().cloned().collect(),
            in_order,
            holds: true,
        })
    }

    /// Returns true if all values so far are among them.
    pub fn holds(&self) -> bool {
        self.holds
    }

    /// Treats the leaf as having other values.
    pub fn give_up(&mut self) {
        self.holds = false;
    }

    /// Compares the values of a batch: those of its dictionary, or of its rows if it has none.
    pub fn look_at(&mut self, leaf: &ArrayRef) {
        let values = leaf.as_any_dictionary_opt().map_or(leaf, |array| array.values());
        // Usually the batch has the same dictionary. Invalid text is refused later, when it is encoded.
        self.holds = self.holds
            && check_run("", values).is_ok()
            && all_texts(values, &|row, value| {
                self.in_order
                    .get(row)
                    .is_some_and(|category| **category == *value)
                    || self.all.contains(value)
            });
    }
}

/// The values of `1;a2;bc`: the bytes of each, a semicolon, and the value.
fn parsed(text: &str) -> Option<Vec<Box<[u8]>>> {
    let (mut values, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (length, after) = rest.split_once(';')?;
        let (value, others) = after.split_at_checked(length.parse().ok()?)?;
        values.push(value.as_bytes().into());
        rest = others;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_any_characters() {
        let texts = |text| {
            parsed(text).map(|values| {
                let texts = values.into_iter().map(|value| String::from_utf8(value.into()));
                texts.collect::<Result<Vec<_>, _>>().unwrap()
            })
        };
        assert_eq!(
            texts("1;x3;a;b0;2;ü4;3;zz"),
            Some(["x", "a;b", "", "ü", "3;zz"].map(str::to_owned).to_vec())
        );
        assert_eq!(texts(""), Some(Vec::new()));
        for other in ["x;y", "2;x", "1;ü", ";", "1"] {
            assert_eq!(texts(other), None, "{other}");
        }
    }
}
