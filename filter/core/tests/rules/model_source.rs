//! Where names are looked for.

use isocost_core::model_source::{parse_sources, Source};

fn header(name: &str) -> Source {
    Source::Header(name.to_owned())
}

fn jwt(claim: &str) -> Source {
    Source::Jwt(claim.to_owned())
}

#[test]
fn sources_keep_their_order() {
    for (text, expected) in [
        ("body", vec![Source::Body]),
        ("header:x-isocost-model,body", vec![header("x-isocost-model"), Source::Body]),
        ("jwt:sub,header:x-user,body", vec![jwt("sub"), header("x-user"), Source::Body]),
        ("jwt:https://example.org/model", vec![jwt("https://example.org/model")]),
        ("jwt:a,jwt:b,jwt:c,jwt:d", vec![jwt("a"), jwt("b"), jwt("c"), jwt("d")]),
    ] {
        assert_eq!(parse_sources(text.as_bytes()), Some(expected), "{text}");
    }
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "",
        ",",
        "body,",
        ",body",
        "Body",
        "body, body",
        "header",
        "header:",
        "header:X-User",
        "jwt",
        "header:x y",
        "header:x\u{e4}",
        "jwt:",
        "jwt:a b",
        "cookie:a",
        "body,body,body,body,body",
    ] {
        assert_eq!(parse_sources(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_sources(b"header:\xff"), None);
    assert_eq!(parse_sources(b"jwt:\xff"), None);
}
