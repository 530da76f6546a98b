//! A request on its way in: what its headers say and, as far as it is read, its body.

use crate::headers::Headers;
use crate::jwt;
use crate::model_source::Source;
use crate::number::whole_number;
use crate::profile::{name_hash, Api, Profile, Scanner};

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
    /// The hash of the user.
    pub user: Option<u64>,
    pub read_bytes: u64,
    pub content_length: Option<u64>,
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
        Asked {
            api: self.api,
            model: self.model.name(in_body.map(String::into_bytes)),
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
    /// Of the sources before the body, ...
    before: Option<Vec<u8>>,
    /// ... and behind it.
    after: Option<Vec<u8>>,
    body: bool,
}

impl Named {
    fn begin(headers: &[u8], sources: &[Source]) -> Named {
        let mut named = Named::default();
        for source in sources {
            let found = match source {
                Source::Body => {
                    named.body = true;
                    continue;
                }
                Source::Header(name) => value(headers, name.as_bytes()).map(<[u8]>::to_vec),
                Source::Jwt(claim) => value(headers, b"authorization")
                    .and_then(|token| jwt::claim(token, claim))
                    .map(String::into_bytes),
            };
            let place = if named.body { &mut named.after } else { &mut named.before };
            if place.is_none() {
                *place = found.filter(|name| !name.is_empty());
            }
        }
        named
    }

    fn name(self, in_body: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.before.or(in_body.filter(|_| self.body)).or(self.after)
    }

    fn user(self, in_body: Option<u64>) -> Option<u64> {
        let key = |name: Option<Vec<u8>>| name.and_then(|name| name_hash(&name));
        key(self.before).or(in_body.filter(|_| self.body)).or(key(self.after))
    }
}

fn value<'a>(headers: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    Headers::read(headers).find(|(other, _)| *other == name).map(|(_, value)| value)
}
