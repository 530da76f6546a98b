//! A request on its way in: what its headers say and, as far as it is read, its body.

use crate::headers::Headers;
use crate::jwt;
use crate::model_source::{Source, MAX_SOURCES};
use crate::number::whole_number;
use crate::profile::{name_hash, Api, Profile, Scanner};
use crate::roster::Roster;

/// Beyond this a length is a lie.
const MAX_CONTENT_LENGTH: u64 = 1 << 40;
/// Methods that have none.
const BODILESS: [&[u8]; 3] = [b"GET", b"HEAD", b"CONNECT"];

/// All that is known of a request before its destination is chosen.
pub struct Asked {
    pub api: Api,
    /// None: it has no body, or nothing of it was read.
    pub profile: Option<Profile>,
    /// The model's name, as it was sent; never empty.
    pub model: Option<Vec<u8>>,
    /// Another name that a source behind that one's has.
    pub other_model: Option<Vec<u8>>,
    /// The hash of the user.
    pub user: Option<u64>,
    pub read_bytes: u64,
    pub content_length: Option<u64>,
}

impl Asked {
    /// Do its sources name different models? Two names of one model are no contradiction.
    pub fn names_two_models(&self, roster: &Roster) -> bool {
        let served = |name: &Vec<u8>| roster.model(name).map(|model| roster.cache_name(model));
        let Some(other) = &self.other_model else { return false };
        served(other).is_none_or(|other| self.model.as_ref().and_then(served) != Some(other))
    }
}

/// Reads a request piece by piece.
pub struct Asking {
    api: Api,
    model: Named,
    user: Named,
    content_length: Option<u64>,
    may_have_body: bool,
    /// Made for the first piece of a body.
    scanner: Option<Box<Scanner>>,
    read_bytes: u64,
}

impl Asking {
    /// `headers` as the host hands them over; the sources are asked in their order.
    pub fn begin(headers: &[u8], model_from: &[Source], user_from: &[Source]) -> Asking {
        let mut asking = Asking {
            api: Api::Other,
            model: Named::begin(headers, model_from),
            user: Named::begin(headers, user_from),
            content_length: None,
            may_have_body: true,
            scanner: None,
            read_bytes: 0,
        };
        for (name, value) in Headers::read(headers) {
            if name == b":path" {
                asking.api = Api::of_path(value);
            } else if name == b":method" {
                asking.may_have_body &= !BODILESS.contains(&value);
            } else if name == b"upgrade" {
                asking.may_have_body = false;
            } else if name == b"content-length" {
                asking.content_length = whole_number(value, MAX_CONTENT_LENGTH);
            }
        }
        asking
    }

    /// False: nothing may wait for one, whatever else the headers say.
    pub fn may_have_body(&self) -> bool {
        self.may_have_body
    }

    /// The next piece of the body.
    pub fn feed(&mut self, piece: &[u8]) {
        let api = self.api;
        self.scanner.get_or_insert_with(|| Box::new(Scanner::new(api))).feed(piece);
        self.read_bytes += piece.len() as u64;
    }

    /// Would more of the body tell nothing?
    pub fn is_stopped(&self) -> bool {
        self.scanner.as_ref().is_some_and(|scanner| scanner.is_stopped())
    }

    pub fn finish(self) -> Asked {
        let mut profile = self.scanner.map(|scanner| scanner.finish());
        let in_body = profile.as_mut().and_then(|profile| profile.model.take());
        let user_in_body = profile.as_ref().and_then(|profile| profile.user);
        let (model, other_model) = self.model.names(in_body.map(String::into_bytes));
        Asked {
            api: self.api,
            model,
            other_model,
            user: self.user.user(user_in_body),
            profile,
            read_bytes: self.read_bytes,
            content_length: self.content_length,
        }
    }
}

/// A name that can come from several places, of which the first counts that has one.
#[derive(Default)]
struct Named {
    /// By source; that of the body comes last.
    found: [Option<Vec<u8>>; MAX_SOURCES],
    /// The body's number among the sources.
    body: Option<usize>,
}

impl Named {
    fn begin(headers: &[u8], sources: &[Source]) -> Named {
        let mut named = Named::default();
        for (number, (source, place)) in sources.iter().zip(&mut named.found).enumerate() {
            let found = match source {
                Source::Body => {
                    named.body = named.body.or(Some(number));
                    continue;
                }
                Source::Header(name) => value(headers, name.as_bytes()).map(<[u8]>::to_vec),
                Source::Jwt(claim) => value(headers, b"authorization")
                    .and_then(|token| jwt::claim(token, claim))
                    .map(String::into_bytes),
            };
            *place = found.filter(|name| !name.is_empty());
        }
        named
    }

    /// The name that counts, and the first that is another.
    fn names(mut self, in_body: Option<Vec<u8>>) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if let Some(place) = self.body.and_then(|number| self.found.get_mut(number)) {
            *place = in_body;
        }
        let mut names = self.found.into_iter().flatten();
        let first = names.next();
        let other = names.find(|name| Some(name) != first.as_ref());
        (first, other)
    }

    fn user(self, in_body: Option<u64>) -> Option<u64> {
        self.found.iter().enumerate().find_map(|(number, name)| match name {
            Some(name) => name_hash(name),
            None => in_body.filter(|_| self.body == Some(number)),
        })
    }
}

fn value<'a>(headers: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Headers::read(headers).find(|(other, _)| *other == name).map(|(_, value)| value)
}
