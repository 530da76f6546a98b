//! What requests are expected to be like, from the control plane: how long answers are, by user and
//! by model, and how many tokens a text is.

use crate::profile::{Coefficients, DEFAULT_COEFFICIENTS};
use crate::prompt::MAX_TOKENS;
use crate::wire::{floats, set_string, DecodeError, Reader, Value};

/// Of an answer of which nothing is known: what chats' answers have in public traces.
const DEFAULT_OUTPUT_TOKENS: f32 = 256.0;
/// The user's place in the array is its hash modulo this.
const USER_BUCKETS: u64 = 65_536;

#[derive(Clone, Debug, PartialEq)]
struct ModelEstimates {
    name: String,
    output_tokens: f32,
    coefficients: Coefficients,
}

/// An isocost.v1.Estimates; the default knows nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimates {
    pub version: u64,
    user_output: Vec<u8>,
    models: Vec<ModelEstimates>,
    output_tokens: f32,
}

impl Estimates {
    pub fn decode(bytes: &[u8]) -> Result<Estimates, DecodeError> {
        let mut estimates = Estimates::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Fixed64(version)) => estimates.version = version,
                (2, Value::Bytes(users)) => estimates.user_output = users.to_vec(),
                (3, Value::Bytes(model)) => estimates.models.push(ModelEstimates::decode(model)?),
                (4, Value::Fixed32(bits)) => estimates.output_tokens = f32::from_bits(bits),
                _ => {}
            }
        }
        Ok(estimates)
    }

    /// How many tokens the answers to a request will have in all: as many as this user's have, else
    /// the model's, else anyone's, and at most `max_tokens`; for each of its `choices`.
    pub fn output_tokens(
        &self,
        user: Option<u64>,
        model: &str,
        max_tokens: Option<u32>,
        choices: Option<u32>,
    ) -> u32 {
        let of_model = self.model(model).map(|model| model.output_tokens);
        let means = [user.and_then(|user| self.of_user(user)), of_model, Some(self.output_tokens)];
        let known = |mean: &f32| mean.is_finite() && *mean > 0.0;
        let mean = means.into_iter().flatten().find(known).unwrap_or(DEFAULT_OUTPUT_TOKENS);
        let one = max_tokens.unwrap_or(u32::MAX).min(mean.ceil() as u32);
        one.saturating_mul(choices.unwrap_or(1).max(1)).min(MAX_TOKENS)
    }

    /// Of this model, or the defaults if it has none that are six and not below zero.
    pub fn coefficients(&self, model: &str) -> &Coefficients {
        self.model(model).map_or(&DEFAULT_COEFFICIENTS, |model| &model.coefficients)
    }

    fn model(&self, name: &str) -> Option<&ModelEstimates> {
        self.models.iter().find(|model| model.name == name)
    }

    /// The mean length of the user's answers.
    fn of_user(&self, user: u64) -> Option<f32> {
        /// 2^(i / 16).
        const STEPS: [f32; 16] = [
            1.0,
            1.044_273_8,
            1.090_507_7,
            1.138_788_6,
            1.189_207_1,
            1.241_857_8,
            1.296_839_6,
            1.354_255_5,
            core::f32::consts::SQRT_2,
            1.476_826_1,
            1.542_210_8,
            1.610_490_3,
            1.681_792_8,
            1.756_252_2,
            1.834_008_1,
            1.915_206_6,
        ];
        let step = *self.user_output.get((user % USER_BUCKETS) as usize)?;
        let step = step.checked_sub(1)?;
        let fraction = STEPS.get(usize::from(step % 16))?;
        Some(fraction * (1u32 << (step / 16)) as f32)
    }
}

impl ModelEstimates {
    fn decode(bytes: &[u8]) -> Result<ModelEstimates, DecodeError> {
        let mut model = ModelEstimates {
            name: String::new(),
            output_tokens: 0.0,
            coefficients: DEFAULT_COEFFICIENTS,
        };
        let mut numbers = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.field()? {
            match (number, value) {
                (1, Value::Bytes(name)) => set_string(&mut model.name, name)?,
                (2, Value::Fixed32(bits)) => model.output_tokens = f32::from_bits(bits),
                (3, _) => floats(value, &mut numbers)?,
                _ => {}
            }
        }
        if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0) {
            numbers.clear();
        }
        if let [letters, digits, punctuation, blank, cjk, other] = *numbers {
            model.coefficients = Coefficients { letters, digits, punctuation, blank, cjk, other };
        }
        Ok(model)
    }
}
