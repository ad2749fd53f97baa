use parquet::bloom_filter::Sbbf;
use parquet::data_type::ByteArray;
use proptest::prelude::*;

use crate::bloom::{BloomFilter, hash_bytes, hash_fixed, size_for};

fn bytes_of(filter: &Sbbf) -> Vec<u8> {
    let mut bytes = vec![];
    filter.write(&mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn filters_equal_those_of_another_writer(
        strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..100),
        numbers in prop::collection::vec(any::<i64>(), 0..100),
        size in 1..5000usize,
    ) {
        let mut theirs = Sbbf::new_with_num_of_bytes(size.next_power_of_two());
        let mut ours = BloomFilter::with_size(size);
        for value in &strings {
            theirs.insert(&ByteArray::from(value.clone()));
            ours.insert_hash(hash_bytes(value));
        }
        let hashes: Vec<u64> = numbers.iter().map(|number| hash_fixed(*number)).collect();
        for number in &numbers {
            theirs.insert(number);
            ours.insert_hash(hash_fixed(*number));
        }
        let mut bytes = vec![];
        ours.write(&mut bytes);
        prop_assert_eq!(&bytes, &bytes_of(&theirs));
        for number in &numbers {
            prop_assert_eq!(hash_fixed(*number), hash_bytes(&number.to_le_bytes()));
            prop_assert_eq!(hash_fixed(*number as i32), hash_bytes(&(*number as i32).to_le_bytes()));
            prop_assert_eq!(hash_fixed(number.to_le_bytes()), hash_fixed(*number));
        }
        let read = Sbbf::from_bytes(&bytes).unwrap();
        for number in &numbers {
            prop_assert!(read.check(number));
            prop_assert!(ours.may_hold_hash(hash_fixed(*number)));
        }
        // A filter that shrinks is the one that was small from the start.
        let mut small = BloomFilter::new(10, 0.01);
        for value in &strings {
            small.insert_hash(hash_bytes(value));
        }
        for hash in &hashes {
            small.insert_hash(*hash);
        }
        let mut large = BloomFilter::with_size(1 << 14);
        for value in &strings {
            large.insert_hash(hash_bytes(value));
        }
        for hash in &hashes {
            large.insert_hash(*hash);
        }
        large.shrink(10, 0.01);
        let (mut left, mut right) = (vec![], vec![]);
        small.write(&mut left);
        large.write(&mut right);
        prop_assert_eq!(left, right);
    }
}

#[test]
fn hashes_leave_the_length_out() {
    // XXH64 of the bytes alone, seed 0.
    assert_eq!(hash_bytes(b""), 0xef46_db37_51d8_e999);
    assert_eq!(hash_bytes(b"a"), 0xd24e_c4f1_a98c_6e5b);
    assert_eq!(hash_fixed(1i32), hash_bytes(&[1, 0, 0, 0]));
}

#[test]
fn sizes_keep_the_promise() {
    assert_eq!(size_for(0, 0.01), 32);
    assert_eq!(size_for(usize::MAX, 0.01), 128 << 20);
    let mut filter = BloomFilter::new(10_000, 0.01);
    assert_eq!(filter.size(), 16 << 10);
    for number in 0..10_000i64 {
        filter.insert_hash(hash_fixed(number));
    }
    let wrong = (10_000..110_000i64)
        .filter(|number| filter.may_hold_hash(hash_fixed(*number)))
        .count();
    assert!(wrong < 1000, "{wrong} of 100000 were taken for members");
}
