//! A stretch of the prompt as it is gathered: the tools, the system prompt or the messages.

use super::classes::ClassCounts;
use super::prefix::{Blocks, Boundary, TextHash};
use super::shapes::{Medium, Role};
use super::words::Words;

/// Bytes that no text in UTF-8 has mark in the hash where something ends: a message (plus its
/// role's number), or a token of what is taken verbatim.
const MESSAGE_END: u8 = 0xf8;
const TOKEN_END: u8 = 0xff;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub counts: ClassCounts,
    pub blocks: Blocks,
    pub messages: u32,
    pub images: u32,
    pub audios: u32,
    pub token_ids: u32,
    /// After the system's messages that come first.
    pub system: Option<Boundary>,
    pub first_turn: Option<Boundary>,
    hash: TextHash,
    /// A message was seen that is not the system's.
    turned: bool,
}

impl Section {
    pub fn add_text(&mut self, text: &[u8]) {
        self.counts.add(text);
        self.add_unread(text);
    }

    /// What the prompt depends on, but is no text.
    pub fn add_unread(&mut self, bytes: &[u8]) {
        self.hash.add(&Words::of(bytes), Some(&mut self.blocks));
    }

    /// JSON's own characters. They follow from the rest, so that the hash does without.
    pub fn add_syntax(&mut self, bytes: u32) {
        self.counts.add_punctuation(bytes);
    }

    pub fn end_token(&mut self) {
        self.add_unread(&[TOKEN_END]);
    }

    pub fn end_token_id(&mut self) {
        self.token_ids = self.token_ids.saturating_add(1);
        self.end_token();
    }

    pub fn add_message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    pub fn add_medium(&mut self, medium: Medium) {
        let count = match medium {
            Medium::Image => &mut self.images,
            Medium::Audio => &mut self.audios,
        };
        *count = count.saturating_add(1);
    }

    pub fn end_message(&mut self, role: Role) {
        self.add_unread(&[MESSAGE_END + role as u8]);
        match role {
            Role::System if !self.turned => self.system = Some(self.here()),
            Role::User if self.first_turn.is_none() => self.first_turn = Some(self.here()),
            _ => {}
        }
        self.turned |= role != Role::System;
    }

    /// This place, and the hash of the section before it.
    pub fn here(&self) -> Boundary {
        Boundary { hash: self.hash.value(), text_bytes: self.hash.bytes() }
    }

    pub fn is_empty(&self) -> bool {
        self.hash.bytes() == 0
    }
}
