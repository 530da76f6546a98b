//! The client's half of xDS, state of the world, for our three resource types. Each type has one
//! resource, so a response is its version, its nonce and one value.

use crate::wire::{put_string, put_varint, DecodeError, Reader, Value};

pub const ROSTER_TYPE: &str = "type.googleapis.com/isocost.v1.Roster";
pub const TABLE_TYPE: &str = "type.googleapis.com/isocost.v1.Table";
pub const ESTIMATES_TYPE: &str = "type.googleapis.com/isocost.v1.Estimates";
/// The name of each type's resource.
pub const RESOURCE: &str = "fleet";

/// google.rpc.Code.INVALID_ARGUMENT.
const INVALID_ARGUMENT: u64 = 3;

/// Envoy's own node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity<'a> {
    pub id: &'a [u8],
    pub cluster: &'a [u8],
}

/// A DiscoveryResponse with its one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response<'a> {
    pub version_info: &'a [u8],
    pub type_url: &'a [u8],
    pub nonce: &'a [u8],
    /// The value of the first resource; None if there is none, or it is not of type `type_url`.
    pub resource: Option<&'a [u8]>,
}

impl<'a> Response<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Response<'a>, DecodeError> {
        let mut response = Response::default();
        let mut first = None;
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.field()? {
            match field {
                (1, Value::Bytes(version)) => response.version_info = version,
                (2, Value::Bytes(any)) => first = first.or(Some(any)),
                (4, Value::Bytes(type_url)) => response.type_url = type_url,
                (5, Value::Bytes(nonce)) => response.nonce = nonce,
                _ => {}
            }
        }
        if let Some(any) = first {
            let (type_url, value) = decode_any(any)?;
            response.resource = (type_url == response.type_url).then_some(value);
        }
        Ok(response)
    }
}

/// The type URL and value of a google.protobuf.Any.
fn decode_any(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (mut type_url, mut value): (&[u8], &[u8]) = (&[], &[]);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Value::Bytes(bytes)) => type_url = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((type_url, value))
}

/// One type's subscription: remembers the last good version, also from one stream to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    type_url: &'static str,
    accepted_version: Vec<u8>,
}

impl Subscription {
    pub fn new(type_url: &'static str) -> Subscription {
        Subscription { type_url, accepted_version: Vec::new() }
    }

    pub fn type_url(&self) -> &'static str {
        self.type_url
    }

    /// Appends the first DiscoveryRequest on a new stream: no nonce yet, but the version that is
    /// in use from an earlier stream.
    pub fn subscribe(&self, node: &NodeIdentity, out: &mut Vec<u8>) {
        let mut identity = Vec::new();
        put_string(&mut identity, 1, node.id);
        put_string(&mut identity, 2, node.cluster);
        self.request(&identity, &[], out);
    }

    /// Appends the ACK of a response that was accepted.
    pub fn ack(&mut self, response: &Response, out: &mut Vec<u8>) {
        self.accepted_version = response.version_info.to_vec();
        self.request(&[], response.nonce, out);
    }

    /// Appends the NACK of a response that was refused: the last good version, and why.
    pub fn nack(&self, response: &Response, message: &str, out: &mut Vec<u8>) {
        self.request(&[], response.nonce, out);
        let mut status = Vec::new();
        put_varint(&mut status, 1, INVALID_ARGUMENT);
        put_string(&mut status, 2, message.as_bytes());
        put_string(out, 6, &status);
    }

    fn request(&self, identity: &[u8], nonce: &[u8], out: &mut Vec<u8>) {
        put_string(out, 1, &self.accepted_version);
        put_string(out, 2, identity);
        put_string(out, 3, RESOURCE.as_bytes());
        put_string(out, 4, self.type_url.as_bytes());
        put_string(out, 5, nonce);
    }
}
