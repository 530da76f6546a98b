//! weighted_random keeps the shares that the weights promise.

use isocost_core::fleet::Fleet;
use isocost_core::pick::Policy;
use isocost_core::Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::fixtures::{pick, weighted};

const PICKS: usize = 100_000;

fn counts(fleet: &Fleet, nodes: usize, seed: u64) -> Vec<usize> {
    let mut rng = Rng::with_seed(seed);
    let mut counts = vec![0; nodes];
    for _ in 0..PICKS {
        let pick = pick(fleet, Policy::WeightedRandom, 0, &mut rng).unwrap();
        counts[pick.first() as usize] += 1;
    }
    counts
}

/// The probability of a fit at least this bad if the shares are right.
fn chi_square_p(counts: &[usize], shares: &[f64]) -> f64 {
    let mut statistic = 0.0;
    let mut cells = 0;
    for (&count, share) in counts.iter().zip(shares) {
        let expected = share * PICKS as f64;
        if expected > 0.0 {
            statistic += (count as f64 - expected).powi(2) / expected;
            cells += 1;
        }
    }
    1.0 - ChiSquared::new(f64::from(cells - 1)).unwrap().cdf(statistic)
}

fn check_shares(weights: &[f32]) {
    let fleet = weighted(weights);
    let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
    let shares: Vec<f64> = weights.iter().map(|&w| f64::from(w) / total).collect();
    for seed in 1..=10 {
        let counts = counts(&fleet, weights.len(), seed);
        for (count, share) in counts.iter().zip(&shares) {
            let seen = *count as f64 / PICKS as f64;
            assert!((seen - share).abs() <= 0.01, "{seen} is not {share}, seed {seed}");
            assert!(*share > 0.0 || *count == 0);
        }
        let p = chi_square_p(&counts, &shares);
        assert!(p > 1e-4, "p = {p} for seed {seed}, weights {weights:?}");
    }
}

#[test]
fn equal_weights_give_equal_shares() {
    check_shares(&[0.1; 10]);
}

#[test]
fn shares_are_proportional_to_weights() {
    check_shares(&[1.0, 0.5, 0.25, 0.125]);
}

#[test]
fn shares_hold_for_a_dominant_node_and_drained_ones() {
    check_shares(&[1.0, 0.01, 0.0, 0.002, 0.0]);
}

#[test]
fn shares_hold_for_a_fleet_of_many_different_weights() {
    let weights: Vec<f32> = (0..256).map(|slot| (slot * 37 % 101) as f32 / 100.0).collect();
    check_shares(&weights);
}

#[test]
fn the_chi_square_test_notices_a_wrong_share() {
    let fleet = weighted(&[0.26, 0.25, 0.25, 0.24]);
    assert!(chi_square_p(&counts(&fleet, 4, 1), &[0.25; 4]) < 1e-4);
}
