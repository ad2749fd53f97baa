use std::collections::HashMap;
use std::hash::Hash;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArrayType, FixedLenByteArrayType, Int64Type};
use proptest::prelude::*;

use super::{as_offsets, as_views, byte_arrays, decoded, strings};
use crate::byte_arrays::{ByteArrays, FixedSize, Offsets, Views};
use crate::dictionary::{
    ByteDictionary, Dictionary, DictionaryLimits, Indices, KeyMap, NumberDictionary, UsedEntries,
};

const NO_LIMITS: DictionaryLimits = DictionaryLimits {
    entries: usize::MAX,
    bytes: usize::MAX,
    window: 1 << 16,
};

/// The distinct values in order of appearance, and the index of each row.
fn expected<T: Hash + Eq + Clone>(values: &[T]) -> (Vec<T>, Vec<u32>) {
    let mut numbers = HashMap::new();
    let mut distinct = vec![];
    let indices = values
        .iter()
        .map(|value| {
            *numbers.entry(value.clone()).or_insert_with(|| {
                distinct.push(value.clone());
                distinct.len() as u32 - 1
            })
        })
        .collect();
    (distinct, indices)
}

fn indices_of(values: &[u32]) -> Indices {
    let mut indices = Indices::new();
    indices.extend(values);
    indices
}

fn check_numbers(values: &[i64], cut: usize) {
    let (distinct, indices) = expected(values);
    for portable in [false, true] {
        let mut dictionary = NumberDictionary::new(NO_LIMITS);
        let mut encode = || {
            let mut found = indices_of(&[7]);
            let (head, tail) = values.split_at(cut.min(values.len()));
            assert_eq!(dictionary.encode(head, &mut found), head.len());
            assert_eq!(dictionary.encode(tail, &mut found), tail.len());
            assert_eq!(found.to_vec(1), indices);
        };
        if portable {
            crate::cpu::portably(encode);
        } else {
            encode();
        }
        assert_eq!(dictionary.entries(), distinct);
        assert_eq!(
            decoded::<Int64Type>(Encoding::PLAIN, 0, dictionary.page(), distinct.len()),
            distinct
        );
    }
}

proptest! {
    #[test]
    fn indices_stay_what_they_are_in_any_width(
        batches in prop::collection::vec(
            prop_oneof![Just(1_u32 << 8), Just(1 << 16), Just(1 << 20)]
                .prop_flat_map(|most| prop::collection::vec(0..=most, 0..70)),
            0..8,
        ),
        kept in 0..500usize,
    ) {
        let mut indices = Indices::new();
        for batch in &batches {
            indices.extend(batch);
        }
        let all = batches.concat();
        prop_assert_eq!(indices.to_vec(0), &all[..]);
        let width = match indices {
            Indices::Narrow(_) => 8,
            Indices::Medium(_) => 16,
            Indices::Wide(_) => 32,
        };
        let bits = all.iter().max().map_or(0, |most| u32::BITS - most.leading_zeros());
        prop_assert_eq!(width, bits.next_power_of_two().max(8));
        indices.truncate(kept);
        prop_assert_eq!(indices.to_vec(0), &all[..kept.min(all.len())]);
        prop_assert_eq!(indices.len(), kept.min(all.len()));
    }

    #[test]
    fn byte_arrays_in_order_of_appearance(values in strings(), cut in 0..400usize) {
        let (distinct, indices) = expected(&values);
        let (offsets, data) = as_offsets(&values);
        let (views, buffer) = as_views(&values);
        let offsets = Offsets { offsets: &offsets, data: &data };
        let views = Views { views: &views, buffers: &[&[], &buffer] };
        let (head, tail) = values.split_at(cut.min(values.len()));
        for round in 0..4 {
            let mut dictionary = ByteDictionary::new(NO_LIMITS);
            let mut found = Indices::new();
            let taken = match round {
                0 => dictionary.encode(&offsets, &mut found),
                1 => dictionary.encode(&views, &mut found),
                2 => {
                    let head = head.iter().map(|value| &value[..]).collect::<Vec<_>>();
                    let tail = tail.iter().map(|value| &value[..]).collect::<Vec<_>>();
                    dictionary.encode(&Slices(&head), &mut found) + dictionary.encode(&Slices(&tail), &mut found)
                }
                _ => crate::cpu::portably(|| dictionary.encode(&offsets, &mut found)),
            };
            prop_assert_eq!(taken, values.len());
            prop_assert_eq!(&found.to_vec(0), &indices);
            prop_assert_eq!(dictionary.len(), distinct.len());
            prop_assert_eq!(
                decoded::<ByteArrayType>(Encoding::PLAIN, 0, dictionary.page(), distinct.len()),
                byte_arrays(&distinct)
            );
            let entries = dictionary.entries();
            for (row, value) in distinct.iter().enumerate() {
                prop_assert_eq!(entries.value(row), &value[..]);
                prop_assert_eq!(entries.head(row), ByteArrays::head(&distinct, row));
            }
        }
    }

    #[test]
    fn fixed_size_pages_have_no_lengths(width in 0..30usize, bytes in prop::collection::vec(0..3u8, 0..900)) {
        let count = bytes.len().checked_div(width).unwrap_or(5);
        let data = &bytes[..count * width];
        let values = FixedSize { data, width, count };
        let (distinct, indices) =
            expected(&(0..count).map(|row| values.value(row).to_vec()).collect::<Vec<_>>());
        let mut dictionary = ByteDictionary::fixed_size(NO_LIMITS);
        let mut found = Indices::new();
        prop_assert_eq!(dictionary.encode(&values, &mut found), count);
        prop_assert_eq!(&found.to_vec(0), &indices);
        prop_assert_eq!(dictionary.page(), &distinct.concat()[..]);
        if width > 0 {
            let back = decoded::<FixedLenByteArrayType>(
                Encoding::PLAIN, width as i32, dictionary.page(), distinct.len(),
            );
            prop_assert_eq!(back.iter().map(|value| value.data().to_vec()).collect::<Vec<_>>(), distinct);
        }
    }

    #[test]
    fn numbers_in_order_of_appearance(
        values in prop::collection::vec(prop_oneof![0..50i64, -70_000..70_000i64, any::<i64>()], 0..600),
        narrow in prop::collection::vec(any::<i16>(), 0..600),
        base in any::<i64>(),
        cut in 0..600usize,
    ) {
        check_numbers(&values, cut);
        let near: Vec<i64> = narrow.iter().map(|value| base.wrapping_add((*value).into())).collect();
        check_numbers(&near, cut);
        // First in the window, then far out of it, then back.
        check_numbers(&[&near[..], &values, &near].concat(), near.len());
    }

    #[test]
    fn keys_give_what_their_values_give(
        values in strings().prop_filter("some", |values| !values.is_empty()),
        keys in prop::collection::vec(any::<u16>(), 0..500),
    ) {
        let keys: Vec<u16> = keys.iter().map(|key| *key % values.len() as u16).collect();
        let rows: Vec<Vec<u8>> = keys.iter().map(|key| values[usize::from(*key)].clone()).collect();
        let (offsets, data) = as_offsets(&rows);
        let (mut by_key, mut by_value) = (ByteDictionary::new(NO_LIMITS), ByteDictionary::new(NO_LIMITS));
        let (mut found, mut direct) = (Indices::new(), Indices::new());
        let mut map = KeyMap::new();
        map.reset(values.len());
        let (value_offsets, value_data) = as_offsets(&values);
        let values = Offsets { offsets: &value_offsets, data: &value_data };
        for keys in keys.chunks(100) {
            prop_assert_eq!(by_key.encode_keys(keys, &values, &mut map, &mut found), keys.len());
        }
        by_value.encode(&Offsets { offsets: &offsets, data: &data }, &mut direct);
        prop_assert_eq!(found.to_vec(0), direct.to_vec(0));
        prop_assert_eq!(by_key.page(), by_value.page());
    }

    #[test]
    fn the_used_are_the_distinct(indices in prop::collection::vec(0..5000u32, 0..500), few in any::<bool>()) {
        let entries = if few { 64 } else { 5000 };
        let indices: Vec<u32> = indices.iter().map(|index| index % entries).collect();
        let mut distinct = indices.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let indices = indices_of(&indices);
        let mut used = UsedEntries::new();
        prop_assert_eq!(used.of(&indices_of(&[entries - 1, 0]), entries as usize), &[0, entries - 1]);
        prop_assert_eq!(used.of(&indices, entries as usize), &distinct);
        prop_assert_eq!(crate::cpu::portably(|| used.of(&indices, entries as usize).to_vec()), distinct);
    }

    #[test]
    fn limits_stop_at_the_value_that_breaks_them(values in strings(), entries in 0..20usize, bytes in 0..300usize) {
        let mut dictionary = ByteDictionary::new(DictionaryLimits { entries, bytes, ..DictionaryLimits::default() });
        let mut found = Indices::new();
        let (offsets, data) = as_offsets(&values);
        let taken = dictionary.encode(&Offsets { offsets: &offsets, data: &data }, &mut found);
        let (mut seen, mut size, mut fits) = (std::collections::HashSet::new(), 0, 0);
        for value in &values {
            if !seen.contains(value) {
                if seen.len() == entries || size + 4 + value.len() > bytes {
                    break;
                }
                size += 4 + value.len();
                seen.insert(value.clone());
            }
            fits += 1;
        }
        prop_assert_eq!(taken, fits);
        prop_assert_eq!(&found.to_vec(0), &expected(&values[..fits]).1);
        prop_assert_eq!(dictionary.page().len(), size);
    }
}

struct Slices<'a>(&'a [&'a [u8]]);

impl ByteArrays for Slices<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn value(&self, row: usize) -> &[u8] {
        self.0[row]
    }
}

#[test]
fn many_entries_grow_the_table() {
    let values: Vec<Vec<u8>> = (0..100_000u32)
        .map(|value| (value % 70_000).to_string().into_bytes())
        .collect();
    let (offsets, data) = as_offsets(&values);
    let mut dictionary = ByteDictionary::new(NO_LIMITS);
    let mut found = Indices::new();
    dictionary.encode(
        &Offsets {
            offsets: &offsets,
            data: &data,
        },
        &mut found,
    );
    assert_eq!(
        found.to_vec(0),
        (0..100_000).map(|value| value % 70_000).collect::<Vec<u32>>()
    );

    let values: Vec<i64> = (0..200_000).map(|value| value % 130_000 * 1_000_003).collect();
    check_numbers(&values, 1000);
}

#[test]
fn repeated_values_of_an_input_dictionary_become_one() {
    let mut dictionary = NumberDictionary::new(NO_LIMITS);
    let mut map = KeyMap::new();
    map.reset(4);
    let mut found = Indices::new();
    assert_eq!(
        dictionary.encode_keys(&[3i8, 1, 0, 2, 3], &[5i32, 6, 5, 7], &mut map, &mut found),
        5
    );
    assert_eq!(found.to_vec(0), [0, 1, 2, 2, 0]);
    assert_eq!(dictionary.entries(), [7, 6, 5]);
    // Another batch brings another dictionary, of which one value is known.
    map.reset(2);
    assert_eq!(
        dictionary.encode_keys(&[0u64, 1], &[6, 8], &mut map, &mut found),
        2
    );
    assert_eq!(found.to_vec(5), [1, 3]);
}

#[test]
fn limits_of_keys_and_numbers() {
    let mut dictionary = NumberDictionary::new(DictionaryLimits {
        entries: 2,
        bytes: 100,
        ..DictionaryLimits::default()
    });
    let mut found = Indices::new();
    assert_eq!(dictionary.encode(&[1i64, 2, 1, 3, 1], &mut found), 3);
    assert_eq!(found.to_vec(0), [0, 1, 0]);
    let mut map = KeyMap::new();
    map.reset(3);
    assert_eq!(
        dictionary.encode_keys(&[2u8, 1, 0], &[9, 1, 2], &mut map, &mut found),
        2
    );
    assert_eq!(found.to_vec(0), [0, 1, 0, 1, 0]);
    let mut small = NumberDictionary::new(DictionaryLimits {
        entries: 9,
        bytes: 3 * 8,
        ..DictionaryLimits::default()
    });
    assert_eq!(small.encode(&[1, 2, i64::MAX, 4, 1], &mut found), 3);
}

#[test]
fn floats_are_told_apart_by_their_bits() {
    let nan = f64::from_bits(f64::NAN.to_bits() ^ 1);
    let values = [0.0, -0.0, f64::NAN, nan, 0.0, f64::NAN];
    let mut dictionary = NumberDictionary::new(NO_LIMITS);
    let mut found = Indices::new();
    assert_eq!(dictionary.encode(&values, &mut found), 6);
    assert_eq!(found.to_vec(0), [0, 1, 2, 3, 0, 2]);
}

#[test]
fn values_that_end_with_zeros() {
    let values: Vec<Vec<u8>> = (0..40).map(|len| vec![0; len]).collect();
    let (offsets, data) = as_offsets(&values);
    let mut dictionary = ByteDictionary::new(NO_LIMITS);
    let mut found = Indices::new();
    dictionary.encode(
        &Offsets {
            offsets: &offsets,
            data: &data,
        },
        &mut found,
    );
    assert_eq!(found.to_vec(0), (0..40).collect::<Vec<u32>>());
}

#[test]
fn batches_of_one_value() {
    for value in ["short", "a value that is longer than its head"] {
        let mut values = vec![value.as_bytes().to_vec(); 300];
        let mut dictionary = ByteDictionary::new(DictionaryLimits {
            entries: 1,
            bytes: 100,
            ..DictionaryLimits::default()
        });
        let mut found = Indices::new();
        assert_eq!(dictionary.encode(&values, &mut found), 300);
        assert_eq!(found.to_vec(0), [0; 300]);
        // Another end, in the middle of a batch; and then a batch that the limit forbids.
        *values[100].last_mut().unwrap() ^= 1;
        found.clear();
        assert_eq!(dictionary.encode(&values, &mut found), 100);
        assert_eq!(dictionary.encode(&vec![values[100].clone(); 64], &mut found), 0);
        assert_eq!(found.to_vec(0), [0; 100]);
    }
}

/// The seeds of the hashes, which everybody can read.
const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0xc0ac_29b7_c97c_50dd];

/// Values of 16 bytes whose hashes are all zero. Their first half is the first seed, and zero times anything is zero.
fn colliding_bytes(count: u64) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| [SEEDS[0].to_le_bytes(), number.to_le_bytes()].concat())
        .collect()
}

/// Integers whose hashes differ only in low bits. They are multiples of a number whose product with the second seed is
/// close to a multiple of 2^64, found by the continued fraction of their ratio.
fn colliding_numbers(count: u64) -> Vec<i64> {
    let (mut above, mut below) = (1_u128 << 64, u128::from(SEEDS[1]));
    let (mut denominators, mut rising) = ((0_u64, 1_u64), true);
    while below > 1 << 36 || !rising {
        let quotient = u64::try_from(above / below).unwrap();
        (above, below) = (below, above % below);
        denominators = (denominators.1, quotient * denominators.1 + denominators.0);
        rising = !rising;
    }
    (1..=count)
        .map(|number| ((number * denominators.1) ^ SEEDS[0]).cast_signed())
        .collect()
}

#[test]
fn values_that_collide_end_a_dictionary_however_they_are_cut() {
    let (bytes, numbers) = (colliding_bytes(20_000), colliding_numbers(20_000));
    for cut in [0, 1, 10, 64, 20_000] {
        let (head, tail) = bytes.split_at(cut);
        let mut found = Indices::new();
        let mut dictionary = ByteDictionary::new(NO_LIMITS);
        let taken = dictionary.encode(&head.to_vec(), &mut found);
        let taken = taken + dictionary.encode(&tail.to_vec(), &mut found);
        assert_eq!((taken, dictionary.len()), (129, 129));
        // Those that are in it are found as before.
        assert_eq!(dictionary.encode(&bytes[..129].to_vec(), &mut found), 129);
        assert_eq!(found.to_vec(129), (0..129).collect::<Vec<u32>>());

        let (head, tail) = numbers.split_at(cut);
        found.clear();
        let mut dictionary = NumberDictionary::new(NO_LIMITS);
        let taken = dictionary.encode(head, &mut found);
        let taken = taken + dictionary.encode(tail, &mut found);
        assert_eq!((taken, dictionary.len()), (129, 129));
        assert_eq!(dictionary.encode(&numbers[..129], &mut found), 129);
        assert_eq!(found.to_vec(129), (0..129).collect::<Vec<u32>>());
    }
}

#[test]
fn values_may_differ_anywhere() {
    for len in (1..100).chain([200, 1000]) {
        for at in 0..len {
            let value = |number: u8| {
                let mut value = vec![b'x'; len];
                value[at] = number;
                value
            };
            let values: Vec<_> = (0..=u8::MAX).map(value).collect();
            let mut found = Indices::new();
            let taken = ByteDictionary::new(NO_LIMITS).encode(&values, &mut found);
            assert_eq!(taken, values.len(), "byte {at} of {len} has no part in the hash");
        }
    }
}

#[test]
fn ordinary_patterns_of_values_stay_in_a_dictionary() {
    const COUNT: i64 = 150_000;
    let steps = (0..20)
        .map(|bits| 1_i64 << bits)
        .chain([3, 10, 1000, 86_400, 1_000_003]);
    for step in steps {
        let integers: Vec<i64> = (0..COUNT).map(|row| 1_700_000_000_000 + row * step).collect();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let floats: Vec<f64> = (0..COUNT).map(|row| (row * step) as f64 / 100.0).collect();
        let mut found = Indices::new();
        assert_eq!(
            NumberDictionary::new(NO_LIMITS).encode(&integers, &mut found),
            integers.len()
        );
        assert_eq!(
            NumberDictionary::new(NO_LIMITS).encode(&floats, &mut found),
            floats.len()
        );
        for name in [
            "{}",
            "key-{}",
            "https://example.org/things/{}/parts",
            "{}@example.org",
        ] {
            let texts: Vec<Vec<u8>> = integers
                .iter()
                .map(|number| name.replace("{}", &number.to_string()).into_bytes())
                .collect();
            assert_eq!(
                ByteDictionary::new(NO_LIMITS).encode(&texts, &mut found),
                texts.len()
            );
        }
        let words: Vec<Vec<u8>> = integers
            .iter()
            .map(|number| number.to_le_bytes().to_vec())
            .collect();
        assert_eq!(
            ByteDictionary::fixed_size(NO_LIMITS).encode(&words, &mut found),
            words.len()
        );
    }
}
