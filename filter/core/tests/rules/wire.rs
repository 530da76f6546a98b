//! The wire format: what is read, skipped and refused.

use isocost_core::table::Table;
use isocost_core::wire::{put_bytes, put_fixed64, put_string, put_varint, Reader, Value};
use proptest::prelude::*;

use crate::fixtures::property;

fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value<'_>)>, &'static str> {
    let mut reader = Reader::new(bytes);
    let mut fields = Vec::new();
    while let Some(field) = reader.field().map_err(|error| error.text())? {
        fields.push(field);
    }
    Ok(fields)
}

#[test]
fn all_wire_types_are_read() {
    let bytes = [
        &[0x08, 0x96, 0x01][..],               // 1: varint 150
        &[0x11, 1, 0, 0, 0, 0, 0, 0, 0x80],    // 2: fixed64
        &[0x1a, 3, b'a', b'b', b'c'],          // 3: bytes
        &[0x25, 0, 0, 0x80, 0x3f],             // 4: fixed32
        &[0xf8, 0xff, 0xff, 0xff, 0x0f, 0x00], // 536,870,911: the highest number
    ]
    .concat();
    let expected = vec![
        (1, Value::Varint(150)),
        (2, Value::Fixed64(0x8000_0000_0000_0001)),
        (3, Value::Bytes(b"abc")),
        (4, Value::Fixed32(1.0f32.to_bits())),
        (0x1fff_ffff, Value::Varint(0)),
    ];
    assert_eq!(fields(&bytes), Ok(expected));
}

#[test]
fn malformed_fields_are_refused() {
    for bytes in [
        &[0x80][..],                           // key cut
        &[0x08],                               // varint missing
        &[0x08, 0xff],                         // varint cut
        &[0x11, 1, 2, 3],                      // fixed64 cut
        &[0x25, 1],                            // fixed32 cut
        &[0x1a, 4, b'a'],                      // bytes cut
        &[0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f], // 4 GB announced
        &[0x0b],                               // a group
        &[0x0e],                               // no such wire type
        &[0x00, 0x00],                         // field number 0
        &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ] {
        assert!(fields(bytes).is_err(), "{bytes:x?}");
    }
}

#[test]
fn floats_are_read_packed_and_one_by_one() {
    let mut one_by_one = Vec::new();
    for weight in [1.0f32, 0.5] {
        one_by_one.push(4 << 3 | 5);
        one_by_one.extend_from_slice(&weight.to_le_bytes());
    }
    let mut packed = Vec::new();
    put_bytes(&mut packed, 5, &[0.25f32, 0.75].map(f32::to_le_bytes).concat());
    let mut state = Vec::new();
    put_bytes(&mut state, 6, &[2, 2]);
    let table = Table::decode(&[one_by_one, packed, state].concat()).unwrap();
    assert_eq!((table.weight, table.entropy), (vec![1.0, 0.5], vec![0.25, 0.75]));
}

#[test]
fn fields_that_are_not_known_are_skipped() {
    let mut bytes = Vec::new();
    put_fixed64(&mut bytes, 1, 77);
    put_varint(&mut bytes, 1, 5); // known number, other type
    put_string(&mut bytes, 99, b"future");
    put_varint(&mut bytes, 98, u64::MAX);
    assert_eq!(Table::decode(&bytes).unwrap().version, 77);
}

#[test]
fn arrays_of_unequal_length_are_refused() {
    for (weights, entropies, states) in [(2, 2, 1), (2, 1, 2), (1, 2, 2), (0, 0, 1), (1, 0, 0)] {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, 4, &vec![0; 4 * weights]);
        put_bytes(&mut bytes, 5, &vec![0; 4 * entropies]);
        put_bytes(&mut bytes, 6, &vec![2; states]);
        assert!(Table::decode(&bytes).is_err());
    }
    let mut half_a_float = Vec::new();
    put_bytes(&mut half_a_float, 4, &[0; 6]);
    put_bytes(&mut half_a_float, 5, &[0; 4]);
    put_bytes(&mut half_a_float, 6, &[2]);
    assert!(Table::decode(&half_a_float).is_err());
}

#[test]
fn defaults_are_not_written_but_elements_are() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, 1, 0);
    put_fixed64(&mut bytes, 2, 0);
    put_string(&mut bytes, 3, b"");
    assert!(bytes.is_empty());
    put_bytes(&mut bytes, 4, b"");
    assert_eq!(bytes, [0x22, 0]);
}

proptest! {
    #![proptest_config(property(1))]

    #[test]
    fn what_is_written_is_read_back(number in 1u32..0x2000_0000, varint: u64, text: Vec<u8>) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number, varint.max(1));
        put_fixed64(&mut bytes, number, varint.max(1));
        put_bytes(&mut bytes, number, &text);
        let expected = vec![
            (number, Value::Varint(varint.max(1))),
            (number, Value::Fixed64(varint.max(1))),
            (number, Value::Bytes(&text)),
        ];
        prop_assert_eq!(fields(&bytes), Ok(expected));
    }
}
