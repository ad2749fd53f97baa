//! A schema from the first rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};

use crate::error::{Misfit, PathStep};

/// Digits of the largest 64-bit integer.
const INTEGER_DIGITS: u8 = 19;

/// The type that fits all values of a field so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Guess {
    /// Nothing but nulls.
    #[default]
    Null,
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Date,
    Time,
    Timestamp {
        zoned: bool,
    },
    Duration,
    /// The most digits before the point, and the most behind it.
    Decimal {
        whole: u8,
        scale: u8,
    },
    Uuid,
    List(Box<Guess>),
    Struct(Shape),
}

/// The fields of rows, or of structs in them, in the order of their first appearance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    fields: Vec<(String, Guess)>,
    places: HashMap<String, usize>,
}

/// A conflict: two values of one field that no type holds.
#[derive(Debug)]
pub struct TypeConflict {
    /// The path of the field in the row, from the inside out.
    steps: Vec<String>,
    before: String,
    found: String,
}

impl TypeConflict {
    fn new(before: &Guess, found: &Guess) -> Self {
        Self {
            steps: Vec::new(),
            before: before.to_string(),
            found: found.to_string(),
        }
    }

    fn within(mut self, step: &str) -> Self {
        self.steps.push(step.into());
        self
    }

    /// The path of the field, as in `tags[].name`.
    #[must_use]
    pub fn path(&self) -> String {
        let path: String = self
            .steps
            .iter()
            .rev()
            .map(|step| {
                if step == "[]" {
                    "[]".into()
                } else {
                    format!(".{step}")
                }
            })
            .collect();
        path.trim_start_matches('.').into()
    }
}

impl fmt::Display for TypeConflict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, found, .. } = self;
        write!(
            out,
            "it is {found}, and was {before} in rows before: pass schema= to say which it is"
        )
    }
}

impl Guess {
    /// Returns the type that holds the values of both.
    ///
    /// # Errors
    /// When nothing does.
    pub fn merge(self, other: Self) -> Result<Self, TypeConflict> {
        use Guess::{Decimal, Float, Int, List, Null, Struct};
        Ok(match (self, other) {
            (Null, other) | (other, Null) => other,
            (Int, Float) | (Float, Int) => Float,
            (Int, Decimal { whole, scale }) | (Decimal { whole, scale }, Int) => Decimal {
                whole: whole.max(INTEGER_DIGITS),
                scale,
            },
            (Decimal { whole: w, scale: s }, Decimal { whole, scale }) => Decimal {
                whole: w.max(whole),
                scale: s.max(scale),
            },
            (List(left), List(right)) => List(Box::new(
                left.merge(*right).map_err(|conflict| conflict.within("[]"))?,
            )),
            (Struct(mut left), Struct(right)) => {
                left.merge(right)?;
                Struct(left)
            }
            (left, right) if left == right => left,
            (left, right) => return Err(TypeConflict::new(&left, &right)),
        })
    }

    /// The type of a field that waits for its first value where there is none: it and fields of structs are null. The
    /// elements of lists do not wait.
    pub(crate) fn waiting_type(&self) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::List(items) if !matches!(**items, Self::Null) => {
                DataType::List(Arc::new(Field::new("element", items.waiting_type(), true)))
            }
            Self::Struct(shape) => DataType::Struct(shape.waiting_fields().into()),
            other => other.data_type(),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            // Most columns that are empty for long are texts: errors, remarks, names of the exceptional.
            Self::Null | Self::Text => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp { zoned } => {
                DataType::Timestamp(TimeUnit::Microsecond, zoned.then(|| Arc::from("UTC")))
            }
            Self::Duration => DataType::Duration(TimeUnit::Microsecond),
            Self::Decimal { whole, scale } => decimal(*whole, *scale),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::List(items) => DataType::List(Arc::new(Field::new("element", items.data_type(), true))),
            Self::Struct(shape) => DataType::Struct(shape.arrow_fields().into()),
        }
    }
}

fn decimal(whole: u8, scale: u8) -> DataType {
    let precision = whole.saturating_add(scale).max(1);
    let signed = i8::try_from(scale).unwrap_or(i8::MAX);
    if precision <= 38 {
        DataType::Decimal128(precision, signed)
    } else {
        DataType::Decimal256(precision.min(76), signed)
    }
}

impl fmt::Display for Guess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a bool",
            Self::Int => "an integer",
            Self::Float => "a float",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Date => "a date",
            Self::Time => "a time",
            Self::Timestamp { zoned: true } => "a date and time with a zone",
            Self::Timestamp { zoned: false } => "a date and time without a zone",
            Self::Duration => "a duration",
            Self::Decimal { .. } => "a decimal",
            Self::Uuid => "a UUID",
            Self::List(_) => "a list",
            Self::Struct(_) => "an object",
        })
    }
}

impl Shape {
    /// Adds a value under `name`.
    ///
    /// # Errors
    /// When no type holds it and what was there before.
    pub fn observe(&mut self, name: &str, guess: Guess) -> Result<(), TypeConflict> {
        if let Some((_, before)) = self
            .places
            .get(name)
            .and_then(|place| self.fields.get_mut(*place))
        {
            let merged = std::mem::take(before).merge(guess);
            *before = merged.map_err(|conflict| conflict.within(name))?;
            return Ok(());
        }
        self.places.insert(name.into(), self.fields.len());
        self.fields.push((name.into(), guess));
        Ok(())
    }

    fn merge(&mut self, other: Self) -> Result<(), TypeConflict> {
        other
            .fields
            .into_iter()
            .try_for_each(|(name, guess)| self.observe(&name, guess))
    }

    /// Returns true if no row had a field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns true if rows have given a type to the field in which a value did not fit.
    #[must_use]
    pub fn knows(&self, misfit: &Misfit) -> bool {
        let mut steps = misfit.steps();
        let Some(PathStep::Field(name)) = steps.next() else {
            return true;
        };
        let mut guess = self.guess(name);
        for step in steps {
            guess = match (guess, step) {
                (Some(Guess::List(items)), PathStep::Item(_)) => Some(items),
                (Some(Guess::Struct(shape)), PathStep::Field(name)) => shape.guess(name),
                _ => None,
            };
        }
        !matches!(guess, Some(Guess::Null))
    }

    pub(crate) fn guess(&self, name: &str) -> Option<&Guess> {
        self.places
            .get(name)
            .and_then(|place| self.fields.get(*place))
            .map(|(_, guess)| guess)
    }

    /// The schema of rows of this shape. Every field is nullable; a field that was always null is text.
    #[must_use]
    pub fn schema(&self) -> Schema {
        Schema::new(self.arrow_fields())
    }

    /// The schema of rows of this shape in which fields that were always null wait for their first value: they are of
    /// Arrow's null type. Those that are `typed` are text.
    #[must_use]
    pub fn waiting_schema(&self, typed: &[String]) -> Schema {
        let field = |field: FieldRef| match field.data_type() {
            DataType::Null if typed.contains(field.name()) => {
                Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8))
            }
            _ => field,
        };
        Schema::new(self.waiting_fields().into_iter().map(field).collect::<Vec<_>>())
    }

    fn waiting_fields(&self) -> Vec<FieldRef> {
        let field = |(name, guess): &(String, Guess)| Arc::new(Field::new(name, guess.waiting_type(), true));
        self.fields.iter().map(field).collect()
    }

    fn arrow_fields(&self) -> Vec<FieldRef> {
        let field = |(name, guess): &(String, Guess)| Arc::new(Field::new(name, guess.data_type(), true));
        self.fields.iter().map(field).collect()
    }
}
