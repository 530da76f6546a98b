//! The subscription: versions survive a stream, refusals keep the last good one.

use isocost_core::wire::{put_bytes, put_string, Reader, Value};
use isocost_core::xds::{NodeIdentity, Response, Subscription, ROSTER_TYPE, TABLE_TYPE};

const ENVOY: NodeIdentity = NodeIdentity { id: b"edge-1", cluster: b"edge" };

/// A request's version, nonce, error message, and whether it says who asks.
#[derive(Debug, PartialEq)]
struct Sent {
    version: String,
    nonce: String,
    error: Option<String>,
    has_node: bool,
}

fn sent(send: impl FnOnce(&mut Vec<u8>)) -> Sent {
    let mut bytes = Vec::new();
    send(&mut bytes);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut sent =
        Sent { version: String::new(), nonce: String::new(), error: None, has_node: false };
    let mut reader = Reader::new(&bytes);
    while let Some((number, value)) = reader.field().unwrap() {
        let Value::Bytes(value) = value else { panic!("{value:?}") };
        match number {
            1 => sent.version = text(value),
            2 => sent.has_node = true,
            3 => assert_eq!(value, b"fleet"),
            4 => assert_eq!(value, ROSTER_TYPE.as_bytes()),
            5 => sent.nonce = text(value),
            6 => {
                let mut status = Reader::new(value);
                assert_eq!(status.field(), Ok(Some((1, Value::Varint(3)))));
                let Ok(Some((2, Value::Bytes(message)))) = status.field() else { panic!() };
                sent.error = Some(text(message));
            }
            _ => panic!("field {number}"),
        }
    }
    sent
}

fn expected(version: &str, nonce: &str) -> Sent {
    Sent { version: version.into(), nonce: nonce.into(), error: None, has_node: false }
}

fn response(version: &'static str, nonce: &'static str) -> Response<'static> {
    Response {
        version_info: version.as_bytes(),
        type_url: ROSTER_TYPE.as_bytes(),
        nonce: nonce.as_bytes(),
        resource: Some(b""),
    }
}

#[test]
fn the_first_request_has_no_version_and_no_nonce() {
    let subscription = Subscription::new(ROSTER_TYPE);
    assert_eq!(subscription.type_url(), ROSTER_TYPE);
    let first = sent(|out| subscription.subscribe(&ENVOY, out));
    assert_eq!(first, Sent { has_node: true, ..expected("", "") });
}

#[test]
fn an_ack_takes_version_and_nonce_of_the_response() {
    let mut subscription = Subscription::new(ROSTER_TYPE);
    assert_eq!(sent(|out| subscription.ack(&response("v1", "n1"), out)), expected("v1", "n1"));
    assert_eq!(sent(|out| subscription.ack(&response("v2", "n2"), out)), expected("v2", "n2"));
}

#[test]
fn a_nack_keeps_the_last_good_version_and_says_why() {
    let mut subscription = Subscription::new(ROSTER_TYPE);
    let refused =
        |version: &str, nonce| Sent { error: Some("bad".into()), ..expected(version, nonce) };
    assert_eq!(sent(|out| subscription.nack(&response("v1", "n1"), "bad", out)), refused("", "n1"));
    sent(|out| subscription.ack(&response("v2", "n2"), out));
    assert_eq!(
        sent(|out| subscription.nack(&response("v3", "n3"), "bad", out)),
        refused("v2", "n3")
    );
    assert_eq!(sent(|out| subscription.ack(&response("v4", "n4"), out)), expected("v4", "n4"));
}

#[test]
fn a_new_stream_starts_from_the_version_in_use_without_a_nonce() {
    let mut subscription = Subscription::new(ROSTER_TYPE);
    sent(|out| subscription.ack(&response("v1", "n1"), out));
    let again = sent(|out| subscription.subscribe(&ENVOY, out));
    assert_eq!(again, Sent { has_node: true, ..expected("v1", "") });
}

/// A DiscoveryResponse of tables with these resources (type and value).
fn encoded(resources: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (type_url, value) in resources {
        let mut any = Vec::new();
        put_string(&mut any, 1, type_url.as_bytes());
        put_string(&mut any, 2, value);
        put_bytes(&mut out, 2, &any);
    }
    put_string(&mut out, 4, TABLE_TYPE.as_bytes());
    out
}

#[test]
fn the_first_resource_of_the_responses_type_is_the_resource() {
    let resource = |bytes: &[u8]| Response::decode(bytes).unwrap().resource.map(<[u8]>::to_vec);
    assert_eq!(resource(&encoded(&[])), None);
    assert_eq!(resource(&encoded(&[(ROSTER_TYPE, b"x")])), None);
    assert_eq!(resource(&encoded(&[(TABLE_TYPE, b"")])), Some(vec![]));
    assert_eq!(resource(&encoded(&[(TABLE_TYPE, b"a"), (TABLE_TYPE, b"b")])), Some(vec![b'a']));
}
