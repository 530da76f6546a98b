//! Rosters and tables that decode but need not make sense.

use isocost_core::wire::{put_bytes, put_fixed64, put_string, put_varint};
use isocost_core::Rng;

const MAX_NODES: usize = 48;

/// An isocost.v1.Roster and an isocost.v1.Table for its nodes.
pub fn fleet(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let count = rng.usize(..=MAX_NODES);
    let version = rng.u64(..);
    (roster(version, count, rng), table(version, count, rng))
}

fn roster(version: u64, count: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_fixed64(&mut bytes, 1, version);
    for slot in 0..count {
        let mut node = Vec::new();
        put_fixed64(&mut node, 1, slot as u64 + 1);
        put_string(&mut node, 2, format!("n-{slot}").as_bytes());
        put_string(&mut node, 4, format!("10.0.0.{slot}:8000").as_bytes());
        put_string(&mut node, 5, format!("r-{}", rng.u32(0..4)).as_bytes());
        put_string(&mut node, 6, format!("h-{}", rng.u32(0..8)).as_bytes());
        for _ in 0..rng.u32(0..3) {
            put_bytes(&mut node, 9, &model(rng));
        }
        put_varint(&mut node, 10, number(rng));
        put_varint(&mut node, 11, number(rng));
        put_bytes(&mut bytes, 2, &node);
    }
    bytes
}

fn model(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [1, 2, 7] {
        put_string(&mut bytes, field, format!("m-{}", rng.u32(0..6)).as_bytes());
    }
    for field in [5, 6] {
        put_varint(&mut bytes, field, number(rng));
    }
    bytes
}

fn table(roster_version: u64, count: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_fixed64(&mut bytes, 1, rng.u64(..));
    put_fixed64(&mut bytes, 2, roster_version);
    put_fixed64(&mut bytes, 3, rng.u64(..));
    let states: Vec<u8> = (0..count).map(|_| rng.u8(0..8)).collect();
    put_bytes(&mut bytes, 6, &states);
    for field in [4, 5, 7, 11, 12, 13, 14] {
        // The first two must be there, any other may be missing.
        if field < 7 || rng.bool() {
            let column: Vec<u8> = (0..count).flat_map(|_| float(rng).to_le_bytes()).collect();
            put_bytes(&mut bytes, field, &column);
        }
    }
    for field in [8, 9, 10] {
        if rng.bool() {
            let mut column = Vec::new();
            (0..count).for_each(|_| varint(number(rng), &mut column));
            put_bytes(&mut bytes, field, &column);
        }
    }
    for _ in 0..rng.u32(0..4) {
        let mut seen = Vec::new();
        put_fixed64(&mut seen, 1, rng.u64(0..4));
        put_varint(&mut seen, 2, number(rng));
        put_bytes(&mut bytes, 15, &seen);
        let mut placement = Vec::new();
        put_fixed64(&mut placement, 1, rng.u64(0..50));
        let blocks: Vec<u8> = (0..rng.u32(0..5)).flat_map(|_| rng.u64(..).to_le_bytes()).collect();
        put_bytes(&mut placement, 2, &blocks);
        put_bytes(&mut bytes, 16, &placement);
    }
    bytes
}

/// Usual ones, and those at which arithmetic goes wrong.
fn float(rng: &mut Rng) -> f32 {
    match rng.u32(0..8) {
        0 => 0.0,
        1 => f32::from_bits(rng.u32(..)),
        2 => [f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN, -0.0, -1.0][rng.usize(0..6)],
        _ => rng.f32(),
    }
}

fn number(rng: &mut Rng) -> u64 {
    let most = [0, 3, 4_096, u64::from(u32::MAX)][rng.usize(0..4)];
    rng.u64(..=most)
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
