//! Encrypted files, decrypted by the `parquet` crate.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::bloom_filter::Sbbf;
use parquet::encryption::decrypt::FileDecryptionProperties;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet_writer::{
    BloomRule, ByColumn, Encryption, EncryptionKey, OptionInput, WriteError, WriterOptions,
};
use proptest::prelude::*;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::common;

const FOOTER: &[u8; 16] = b"0123456789012345";
const OTHER: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
const PREFIX: &[u8] = b"orders/2026-11-23";
const LEAVES: [&str; 4] = ["id", "text", "both.number", "list.list.element"];

fn key(bytes: &[u8]) -> EncryptionKey {
    EncryptionKey {
        bytes: bytes.to_vec(),
        metadata: None,
    }
}

fn uniform() -> Encryption {
    Encryption {
        footer_key: key(FOOTER),
        column_keys: Vec::new(),
        plaintext_footer: false,
        aad_prefix: None,
        store_aad_prefix: true,
    }
}

fn rows(count: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let texts = (0..count).map(|row| (row % 7 > 0).then(|| format!("text {}", row % 50)));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..count).map(|row| row * row % 977),
    ));
    let field = Arc::new(Field::new("number", DataType::Int64, true));
    let both: ArrayRef = Arc::new(StructArray::from(vec![(field, numbers)]));
    let element = Field::new("element", DataType::Int64, true);
    let mut lists = ListBuilder::new(Int64Builder::new()).with_field(element);
    for row in 0..count {
        (0..row % 4).for_each(|at| lists.values().append_value(row + at));
        lists.append(row % 9 > 0);
    }
    let list: ArrayRef = Arc::new(lists.finish());
    RecordBatch::try_from_iter_with_nullable([
        ("id", ids, false),
        ("text", texts, true),
        ("both", both, true),
        ("list", list, true),
    ])
    .unwrap()
}

/// The rows of a file, by page indexes where it has some.
fn read(file: &[u8], keys: Option<Arc<FileDecryptionProperties>>) -> ParquetResult<RecordBatch> {
    let mut options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    if let Some(keys) = keys {
        options = options.with_file_decryption_properties(keys);
    }
    let reader =
        ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::copy_from_slice(file), options)?;
    let schema = Arc::clone(reader.schema());
    let batches = reader.build()?.collect::<Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}

/// The keys of a reader of all columns.
fn keys_of(encryption: &Encryption) -> Arc<FileDecryptionProperties> {
    let mut keys = FileDecryptionProperties::builder(encryption.footer_key.bytes.clone());
    for (path, key) in &encryption.column_keys {
        if let Some(key) = key {
            keys = keys.with_column_key(&path.join("."), key.bytes.clone());
        }
    }
    if let Some(prefix) = encryption
        .aad_prefix
        .clone()
        .filter(|_| !encryption.store_aad_prefix)
    {
        keys = keys.with_aad_prefix(prefix);
    }
    keys.build().unwrap()
}

/// Keys as a caller may give them: for each leaf none of its own, none at all, or one of two lengths.
fn encryptions() -> impl Strategy<Value = Encryption> {
    let own = || prop_oneof![Just(None), Just(Some(key(FOOTER))), Just(Some(key(OTHER)))];
    let columns = prop::collection::vec(prop::option::of(own()), LEAVES.len());
    let prefix = prop::option::of(Just(PREFIX.to_vec()));
    (columns, any::<bool>(), any::<bool>(), prefix, any::<bool>()).prop_map(
        |(columns, long, plaintext_footer, aad_prefix, store_aad_prefix)| {
            let named = LEAVES.iter().zip(columns);
            let named = named.filter_map(|(path, key)| Some((vec![(*path).to_owned()], key?)));
            Encryption {
                footer_key: key(if long { &OTHER[..] } else { &FOOTER[..] }),
                column_keys: named.collect(),
                plaintext_footer,
                // Without a prefix there is none to leave out.
                store_aad_prefix: store_aad_prefix || aad_prefix.is_none(),
                aad_prefix,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(2), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_with_the_keys_gets_the_rows(
        encryption in encryptions(),
        count in 0_i64..3000,
        row_group_rows in 200_i64..2000,
        page_bytes in 100_i64..5000,
        dictionaries in any::<bool>(),
        filters in any::<bool>(),
        page_checksums in any::<bool>(),
        threads in 1_i64..4,
    ) {
        let batch = rows(count);
        let options = OptionInput {
            row_group_rows,
            page_bytes,
            threads: Some(threads),
            page_checksums,
            dictionary: parquet_writer::DictionaryRule::All(dictionaries),
            bloom_filter: BloomRule::All(filters.then_some(0.01)),
            encryption: Some(encryption.clone()),
            ..OptionInput::default()
        };
        let file = common::written(&batch, &[], &options);
        let magic: &[u8] = if encryption.plaintext_footer { b"PAR1" } else { b"PARE" };
        prop_assert!(file.starts_with(magic) && file.ends_with(magic));
        prop_assert_eq!(read(&file, Some(keys_of(&encryption))).unwrap(), batch);
    }

    #[test]
    fn the_same_rows_are_in_the_file_without_encryption(encryption in encryptions(), count in 1_i64..500) {
        let batch = rows(count);
        let plain = common::written(&batch, &[], &OptionInput::default());
        let options = OptionInput { encryption: Some(encryption.clone()), ..OptionInput::default() };
        let file = common::written(&batch, &[], &options);
        prop_assert_eq!(
            read(&plain, None).unwrap(),
            read(&file, Some(keys_of(&encryption))).unwrap()
        );
    }
}

fn encrypted(encryption: Encryption) -> Vec<u8> {
    let options = OptionInput {
        encryption: Some(encryption),
        compression: ByColumn::All("uncompressed".into()),
        dictionary: parquet_writer::DictionaryRule::All(false),
        ..OptionInput::default()
    };
    common::written(&rows(100), &[], &options)
}

fn holds(file: &[u8], text: &[u8]) -> bool {
    file.windows(text.len()).any(|part| part == text)
}

#[test]
fn what_is_encrypted_is_nowhere_in_the_file() {
    let file = encrypted(uniform());
    for text in [&b"text 4"[..], b"number", b"spillway", b"ARROW"] {
        assert!(!holds(&file, text), "{text:?}");
    }
    let open = encrypted(Encryption {
        plaintext_footer: true,
        ..uniform()
    });
    assert!(!holds(&open, b"text 4"), "a value or a statistic is open");
    assert!(holds(&open, b"number"), "the schema is open");
    let left = vec![(vec!["text".to_owned()], None)];
    let part = encrypted(Encryption {
        column_keys: left,
        ..uniform()
    });
    assert!(holds(&part, b"text 4"), "the column is as it is");
}

#[test]
fn a_wrong_key_a_missing_one_and_a_wrong_prefix_are_errors() {
    let own = vec![(vec!["text".to_owned()], Some(key(OTHER)))];
    let encryption = Encryption {
        column_keys: own,
        ..uniform()
    };
    let file = encrypted(encryption.clone());
    assert!(read(&file, Some(keys_of(&encryption))).is_ok());
    let wrong = Encryption {
        footer_key: key(OTHER),
        ..encryption.clone()
    };
    assert!(read(&file, Some(keys_of(&wrong))).is_err());
    let mut wrong = encryption.clone();
    wrong.column_keys[0].1 = Some(key(b"another32bytesanother32bytes1234"));
    assert!(read(&file, Some(keys_of(&wrong))).is_err());
    assert!(read(&file, Some(keys_of(&uniform()))).is_err());
    assert!(read(&file, None).is_err());

    let hidden = Encryption {
        aad_prefix: Some(PREFIX.to_vec()),
        store_aad_prefix: false,
        ..uniform()
    };
    let file = encrypted(hidden.clone());
    assert!(read(&file, Some(keys_of(&hidden))).is_ok());
    assert!(read(&file, Some(keys_of(&uniform()))).is_err());
    let other = Encryption {
        aad_prefix: Some(b"orders/2026-11-24".to_vec()),
        ..hidden
    };
    assert!(read(&file, Some(keys_of(&other))).is_err());
}

#[test]
fn a_signed_footer_that_was_changed_is_refused() {
    let open = Encryption {
        plaintext_footer: true,
        ..uniform()
    };
    let mut file = encrypted(open.clone());
    let name = file.windows(6).rposition(|part| part == b"number").unwrap();
    file[name] = b'N';
    let error = read(&file, Some(keys_of(&open))).unwrap_err().to_string();
    assert!(error.contains("signature"), "{error}");
}

#[test]
fn a_key_of_another_length_is_refused_without_saying_it() {
    let short = Encryption {
        footer_key: key(b"hunter2"),
        ..uniform()
    };
    let own = vec![(vec!["a".to_owned()], Some(key(b"hunter2 and hunter3 again")))];
    for encryption in [
        short,
        Encryption {
            column_keys: own,
            ..uniform()
        },
    ] {
        let shown = format!("{encryption:?}");
        let input = OptionInput {
            encryption: Some(encryption),
            ..OptionInput::default()
        };
        let shown = format!("{shown}{input:?}");
        let error = WriterOptions::new(input).unwrap_err();
        assert!(matches!(&error, WriteError::Option(fault) if fault.option.as_deref() == Some("encryption")));
        assert!(!format!("{error}{error:?}{shown}").contains("hunter"));
    }
}

#[test]
fn more_pages_than_can_be_numbered_are_refused() {
    let batch = RecordBatch::try_from_iter([(
        "x",
        Arc::new(Int64Array::from_iter_values(0..200_000)) as ArrayRef,
    )]);
    let options = OptionInput {
        page_bytes: 1,
        encoding: ByColumn::All("plain".into()),
        encryption: Some(uniform()),
        ..OptionInput::default()
    };
    let sink = Box::new(parquet_writer::sink::StreamSink::new(Box::new(
        common::Shared::default(),
    )));
    let options = WriterOptions::new(options).unwrap();
    let mut writer = parquet_writer::FileWriter::new(sink, None, options).unwrap();
    let refused = writer.write(&batch.unwrap().into(), &mut || true).unwrap_err();
    assert!(refused.to_string().contains("more than 32768 pages"), "{refused}");
}

/// The plain bytes of the module at `at` of row group 1 and column 1, by its number, and the place behind it.
fn opened(file: &[u8], at: usize, unique: &[u8], module: u8) -> (Vec<u8>, usize) {
    let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (nonce, sealed) = file[at + 4..at + 4 + length].split_at(12);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, FOOTER).unwrap());
    let aad = [unique, &[module, 1, 0, 1, 0]].concat();
    let mut sealed = sealed.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(nonce).unwrap();
    let plain = key.open_in_place(nonce, Aad::from(aad), &mut sealed).unwrap();
    (plain.to_vec(), at + 4 + length)
}

#[test]
fn a_bloom_filter_is_sealed_as_two_modules() {
    let options = OptionInput {
        row_group_rows: 1000,
        bloom_filter: BloomRule::All(Some(0.01)),
        encryption: Some(uniform()),
        ..OptionInput::default()
    };
    let file = common::written(&rows(2000), &[], &options);
    let footer = file.len() - 8;
    let length = u32::from_le_bytes(file[footer..footer + 4].try_into().unwrap()) as usize;
    // FileCryptoMetaData: a struct in a union in a struct, whose only field is eight bytes long.
    let start = footer - length;
    assert_eq!(file[start..start + 4], [0x1c, 0x1c, 0x28, 8]);
    let unique = &file[start + 4..start + 12];
    let metadata = ParquetMetaDataReader::new()
        .with_decryption_properties(Some(keys_of(&uniform())))
        .parse_and_finish(&Bytes::copy_from_slice(&file))
        .unwrap();
    let chunk = metadata.row_group(1).column(1);
    let at = usize::try_from(chunk.bloom_filter_offset().unwrap()).unwrap();
    let (header, next) = opened(&file, at, unique, 8);
    let (bits, end) = opened(&file, next, unique, 9);
    assert_eq!(
        end - at,
        usize::try_from(chunk.bloom_filter_length().unwrap()).unwrap()
    );
    let filter = Sbbf::from_bytes(&[header, bits].concat()).unwrap();
    assert!((0..50).all(|number| filter.check(&format!("text {number}").as_str())));
    let wrong = (50..1050).filter(|number| filter.check(&format!("text {number}").as_str()));
    assert!(wrong.count() < 50);
}
