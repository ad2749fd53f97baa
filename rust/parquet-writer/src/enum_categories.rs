//! The categories that polars states of an Enum, in the metadata of its field.
//!
//! polars reads a value that is none of them as null. A column gets other values where a later batch has another Enum,
//! a larger one, or text: then its file must not state them, and polars reads categories.

use std::collections::HashSet;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::Field;

use crate::column::all_texts;
use crate::integrity::check_run;

/// The keys of the metadata. The first is that of older versions.
pub(crate) const KEYS: [&str; 2] = ["_PL_ENUM_VALUES", "_PL_ENUM_VALUES2"];

/// The categories of one leaf, as long as it has no other values.
#[derive(Debug)]
pub(crate) struct EnumCategories {
    in_order: Vec<Box<[u8]>>,
    all: HashSet<Box<[u8]>>,
    holds: bool,
}

impl EnumCategories {
    /// Those of a leaf's field; none where it states none. Where a text has another form, every value is another one.
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

    /// Counts with other values.
    pub fn give_up(&mut self) {
        self.holds = false;
    }

    /// Looks at the values of a batch: those of its dictionary, or of its rows where they have none.
    pub fn look_at(&mut self, leaf: &ArrayRef) {
        let values = leaf.as_any_dictionary_opt().map_or(leaf, |array| array.values());
        // As a rule a batch has the dictionary that the schema states. Text that is not sound is refused when it is
        // encoded.
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
