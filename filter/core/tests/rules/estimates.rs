//! What requests are expected to be like.

use isocost_core::estimates::Estimates;
use isocost_core::profile::DEFAULT_COEFFICIENTS;
use isocost_core::wire::{put_bytes, put_fixed64};
use proptest::prelude::*;

use crate::fixtures::property;

fn put_float(out: &mut Vec<u8>, field: u8, value: f32) {
    out.push(field << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

fn model(name: &str, output_tokens: f32, coefficients: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, 1, name.as_bytes());
    put_float(&mut out, 2, output_tokens);
    let packed: Vec<u8> = coefficients.iter().flat_map(|number| number.to_le_bytes()).collect();
    put_bytes(&mut out, 3, &packed);
    out
}

fn message(users: &[u8], models: &[Vec<u8>], output_tokens: f32) -> Vec<u8> {
    let mut out = Vec::new();
    put_fixed64(&mut out, 1, 17);
    put_bytes(&mut out, 2, users);
    models.iter().for_each(|model| put_bytes(&mut out, 3, model));
    put_float(&mut out, 4, output_tokens);
    out
}

/// User 5's answers have 2^(80/16) = 32 tokens, user 6's 2^(1/16).
fn users() -> Vec<u8> {
    let mut users = vec![0; 65_536];
    users[5] = 81;
    users[6] = 2;
    users[7] = 255;
    users
}

fn estimates() -> Estimates {
    let models = [model("large", 400.0, &[]), model("new", 0.0, &[])];
    Estimates::decode(&message(&users(), &models, 300.0)).unwrap()
}

#[test]
fn the_user_s_mean_comes_before_the_model_s_and_anyone_s() {
    let estimates = estimates();
    let expected = |user, model| estimates.output_tokens(user, model, None, None);
    assert_eq!(estimates.version, 17);
    assert_eq!(expected(Some(5), "large"), 32);
    assert_eq!(expected(Some(65_536 * 3 + 5), "large"), 32);
    assert_eq!(expected(Some(6), "large"), 2);
    assert_eq!(expected(Some(7), "large"), 60_097);
    assert_eq!(expected(Some(8), "large"), 400);
    assert_eq!(expected(None, "large"), 400);
    assert_eq!(expected(None, "new"), 300);
    assert_eq!(expected(Some(8), "unknown"), 300);
    assert_eq!(Estimates::default().output_tokens(Some(5), "large", None, None), 256);
}

#[test]
fn it_is_capped_by_the_request_and_counts_each_choice() {
    let estimates = estimates();
    let expected = |max, choices| estimates.output_tokens(None, "large", max, choices);
    assert_eq!(expected(Some(100), None), 100);
    assert_eq!(expected(Some(1000), None), 400);
    assert_eq!(expected(Some(100), Some(3)), 300);
    assert_eq!(expected(None, Some(0)), 400);
    assert_eq!(expected(None, Some(u32::MAX)), 10_000_000);
}

#[test]
fn numbers_that_are_none_are_not_known() {
    for bad in [f32::NAN, f32::INFINITY, -1.0] {
        let estimates = Estimates::decode(&message(&[], &[model("m", bad, &[])], bad)).unwrap();
        assert_eq!(estimates.output_tokens(Some(1), "m", None, None), 256);
    }
}

#[test]
fn a_model_has_its_own_coefficients_or_the_defaults() {
    let own = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
    let models = [model("own", 0.0, &own), model("other", 0.0, &[])];
    let estimates = Estimates::decode(&message(&[], &models, 0.0)).unwrap();
    let found = estimates.coefficients("own");
    let found =
        [found.letters, found.digits, found.punctuation, found.blank, found.cjk, found.other];
    assert_eq!(found, own);
    assert_eq!(*estimates.coefficients("other"), DEFAULT_COEFFICIENTS);
    assert_eq!(*estimates.coefficients("unknown"), DEFAULT_COEFFICIENTS);
    for bad in [&own[..5], &[f32::NAN; 6], &[-1.0; 6], &[1.0; 7]] {
        let estimates = Estimates::decode(&message(&[], &[model("m", 0.0, bad)], 0.0)).unwrap();
        assert_eq!(*estimates.coefficients("m"), DEFAULT_COEFFICIENTS);
    }
}

#[test]
fn every_step_of_a_user_s_mean_is_its_power_of_two() {
    for step in 1..=255u8 {
        let estimates = Estimates::decode(&message(&[step; 65_536], &[], 0.0)).unwrap();
        let exact = 2f64.powf(f64::from(step - 1) / 16.0);
        let expected = estimates.output_tokens(Some(9), "m", None, None);
        assert!(f64::from(expected) >= exact - exact * 1e-6, "{step}");
        assert!(f64::from(expected) <= exact + 1.0 + exact * 1e-6, "{step}");
    }
}

proptest! {
    #![proptest_config(property(4))]

    #[test]
    fn no_bytes_make_it_fail(
        random in prop::collection::vec(any::<u8>(), 0..200),
        cut in 0usize..500,
        place in 0usize..500,
        byte: u8,
    ) {
        let mut broken = message(&[81; 300], &[model("m", 1.0, &[1.0; 6])], 2.0);
        broken.truncate(cut);
        if let Some(at) = broken.get_mut(place) {
            *at = byte;
        }
        for bytes in [random, broken] {
            if let Ok(estimates) = Estimates::decode(&bytes) {
                estimates.output_tokens(Some(299), "m", None, Some(2));
                estimates.coefficients("m");
            }
        }
    }
}
