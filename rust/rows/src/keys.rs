//! Keys and their columns. Rows of one producer share their order, so the key at this position of the last row is tried
//! first.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::ndjson::scan::is_special;

/// The number of places ahead in which a key is searched before it is looked up. Rows often leave out keys with null
/// values.
const PLACES_AHEAD: usize = 6;

/// The keys of a row, in the order of the last row.
#[derive(Debug)]
pub struct Keys {
    /// Columns in the order of the last row's keys.
    order: Vec<u32>,
    /// The place of each column in `order`.
    places: Vec<u32>,
    slots: Vec<Slot>,
    columns: HashMap<Box<str>, u32, RandomState>,
}

/// One key.
#[derive(Debug)]
pub struct Slot {
    name: Box<str>,
    /// The address of the last object that was this key; 0 for none. The code that sets it keeps the object alive.
    pub token: usize,
    /// The key as JSON, with its quotes and colon.
    json: Box<[u8]>,
    /// The first sixteen bytes of that, and a mask of those that count.
    head: u128,
    mask: u128,
}

impl Slot {
    fn new(name: &str) -> Self {
        let json = format!("\"{name}\":").into_bytes();
        let mut head = [0; 16];
        let mut mask = [0; 16];
        for (place, byte) in json.iter().take(16).enumerate() {
            head[place] = *byte;
            mask[place] = 0xff;
        }
        // JSON can spell such names in more than one way: they are always looked up.
        let plain = !name.bytes().any(is_special);
        Self {
            name: name.into(),
            token: 0,
            json: if plain { json.into() } else { Box::default() },
            head: u128::from_le_bytes(head),
            mask: u128::from_le_bytes(mask),
        }
    }

    /// The key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if this is the key. Compares names of usual lengths without a call.
    #[inline]
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        let (ours, theirs) = (self.name.as_bytes(), name.as_bytes());
        if ours.len() != theirs.len() {
            return false;
        }
        if ours.len() > 16 {
            return ours == theirs;
        }
        if ours.len() >= 8 {
            return ours.first_chunk::<8>() == theirs.first_chunk()
                && ours.last_chunk::<8>() == theirs.last_chunk();
        }
        if ours.len() >= 4 {
            return ours.first_chunk::<4>() == theirs.first_chunk()
                && ours.last_chunk::<4>() == theirs.last_chunk();
        }
        ours.iter().eq(theirs)
    }

    /// The length of this key, its quotes and its colon, if `bytes` begin with them.
    #[inline]
    pub(crate) fn starts(&self, bytes: &[u8]) -> Option<usize> {
        let (first, rest) = bytes.split_first_chunk::<16>()?;
        let length = self.json.len();
        let same_head = u128::from_le_bytes(*first) & self.mask == self.head && length > 0;
        (same_head && (length <= 16 || rest.starts_with(&self.json[16..]))).then_some(length)
    }
}

impl Keys {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let slots: Vec<_> = names.map(Slot::new).collect();
        let order: Vec<u32> = (0..).take(slots.len()).collect();
        // Of columns with one name, the first has it.
        let mut columns = HashMap::with_capacity_and_hasher(slots.len(), RandomState::default());
        for (slot, column) in slots.iter().zip(0..) {
            columns.entry(slot.name.clone()).or_insert(column);
        }
        Self {
            places: order.clone(),
            order,
            slots,
            columns,
        }
    }

    /// The column that is expected at this position of the row, with its key.
    #[inline]
    #[must_use]
    pub fn expected(&self, place: usize) -> Option<(usize, &Slot)> {
        let column = *self.order.get(place)? as usize;
        Some((column, self.slots.get(column)?))
    }

    /// The slot of a column's key, to remember its object in.
    pub fn slot_mut(&mut self, column: usize) -> Option<&mut Slot> {
        self.slots.get_mut(column)
    }

    pub(crate) fn forget_tokens(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.token = 0);
    }

    /// Finds the first key for which `is` holds, from `place` on and a few positions ahead at most.
    #[inline]
    pub fn ahead(&self, place: usize, is: impl Fn(&Slot) -> bool) -> Option<(usize, usize)> {
        let end = (place + PLACES_AHEAD).min(self.order.len());
        (place..end).find_map(|place| {
            let (column, slot) = self.expected(place)?;
            is(slot).then_some((column, place))
        })
    }

    /// Looks up a key that was not expected at `place`. Returns its column and its present position. A key of earlier
    /// rows is expected here from now on.
    pub fn look_up(&mut self, name: &str, place: usize) -> Option<(usize, usize)> {
        let column = *self.columns.get(name)?;
        let was = *self.places.get(column as usize)? as usize;
        if was >= place {
            return Some((column as usize, was));
        }
        let moved = self.order.get_mut(was..place)?;
        moved.rotate_left(1);
        for (offset, column) in (0..).zip(moved.iter()) {
            self.places[*column as usize] = u32::try_from(was).ok()? + offset;
        }
        Some((column as usize, place - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(keys: &mut Keys, row: &[&str]) -> usize {
        let (mut place, mut surprises) = (0, 0);
        for name in row {
            let expected = keys.expected(place).is_some_and(|(_, slot)| slot.name() == *name);
            if !expected {
                surprises += 1;
                place = keys.look_up(name, place).unwrap().1;
            }
            place += 1;
        }
        surprises
    }

    #[test]
    fn an_order_that_is_new_is_expected_the_next_time() {
        let mut keys = Keys::new(["a", "b", "c", "d"].into_iter());
        let row = ["d", "b", "a", "c"];
        assert!(walk(&mut keys, &row) > 0);
        assert_eq!(walk(&mut keys, &row), 0);
        assert_eq!(walk(&mut keys, &["d", "a", "c"]), 1);
        assert_eq!(walk(&mut keys, &row), 0);
    }

    #[test]
    fn a_key_is_its_name_and_no_other() {
        let name = "abcdefghijklmnopqrstuvwxyz";
        for length in 0..name.len() {
            let slot = Slot::new(&name[..length]);
            assert!(slot.is(&name[..length]));
            assert!(!slot.is(&name[..=length]));
            for place in 0..length {
                let mut other = name[..length].to_owned();
                other.replace_range(place..=place, "_");
                assert!(!slot.is(&other));
            }
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_not_found() {
        assert_eq!(Keys::new(["a"].into_iter()).look_up("b", 0), None);
    }
}
