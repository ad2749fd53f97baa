//! A schema that has a place for a value that did not fit.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};

use crate::error::{Misfit, PathStep};
use crate::infer::{Guess, Shape};

/// The type that holds the values of two, where there is one.
type Wider<'a> = &'a dyn Fn(&DataType, &DataType) -> Option<DataType>;

/// The schema in which the field that caused `misfit` has a type for its value, or is there at all. `shape` is that of
/// the row, `wider` the type that holds the values of two. `None` where no type holds the value.
#[must_use]
pub fn widened(schema: &Schema, misfit: &Misfit, shape: &Shape, wider: Wider<'_>) -> Option<Schema> {
    let fields = within_fields(schema.fields(), shape, &mut misfit.steps(), wider)?;
    Some(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn within_fields(
    fields: &[FieldRef],
    shape: &Shape,
    steps: &mut dyn Iterator<Item = &PathStep>,
    wider: Wider<'_>,
) -> Option<Vec<FieldRef>> {
    let Some(PathStep::Field(name)) = steps.next() else {
        return None;
    };
    let guess = shape.guess(name)?;
    let mut fields = fields.to_vec();
    match fields.iter_mut().find(|field| field.name() == name) {
        Some(field) => *field = within_field(field, guess, steps, wider)?,
        None => fields.push(Arc::new(Field::new(name, guess.waiting_type(), true))),
    }
    Some(fields)
}

fn within_field(
    field: &Field,
    guess: &Guess,
    steps: &mut dyn Iterator<Item = &PathStep>,
    wider: Wider<'_>,
) -> Option<FieldRef> {
    let mut steps = steps.peekable();
    let data_type = match (steps.peek(), field.data_type(), guess) {
        (None, known, guess) => {
            let data_type = wider(known, &guess.waiting_type())?;
            (data_type != *known).then_some(data_type)?
        }
        (Some(PathStep::Field(_)), DataType::Struct(fields), Guess::Struct(shape)) => {
            DataType::Struct(within_fields(fields, shape, &mut steps, wider)?.into())
        }
        (Some(PathStep::Item(_)), DataType::List(element), Guess::List(items)) => {
            steps.next();
            DataType::List(within_field(element, items, &mut steps, wider)?)
        }
        (Some(PathStep::Item(_)), DataType::LargeList(element), Guess::List(items)) => {
            steps.next();
            DataType::LargeList(within_field(element, items, &mut steps, wider)?)
        }
        _ => return None,
    };
    Some(Arc::new(field.clone().with_data_type(data_type)))
}
