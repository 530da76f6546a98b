//! The plugin configuration: defaults, and refusals that name the key.

use isocost_core::config::FilterConfig;
use isocost_core::model_source::{parse_sources, Source};
use isocost_core::pick::{Policy, Rules};

fn refusal(json: &str) -> String {
    String::from(FilterConfig::parse(json.as_bytes()).expect_err(json).text())
}

#[test]
fn nothing_means_the_defaults() {
    let defaults = FilterConfig {
        rules: Rules {
            policy: Policy::EqualCost,
            alternates: 2,
            projection: true,
            dispersion: true,
        },
        max_table_age_ms: 5000,
        profile_limit_bytes: 262_144,
        model_from: parse_sources(b"header:x-isocost-model,body").unwrap(),
        user_from: parse_sources(b"header:x-isocost-user,body").unwrap(),
        control_plane_cluster: String::from("isocost_control_plane"),
    };
    for nothing in ["", "{}", " {\n\t} \r\n"] {
        assert_eq!(FilterConfig::parse(nothing.as_bytes()), Ok(defaults.clone()));
    }
}

#[test]
fn every_key_is_read() {
    let json = r#"{"policy":"min_entropy", "max_table_age_ms" : 750,
        "alternates":0,"projection":0,"dispersion":0,"profile_limit_bytes":0,
        "model_from":"body,jwt:model","user_from":"header:x-user","control_plane_cluster":"cp"}"#;
    let expected = FilterConfig {
        rules: Rules {
            policy: Policy::MinEntropy,
            alternates: 0,
            projection: false,
            dispersion: false,
        },
        max_table_age_ms: 750,
        profile_limit_bytes: 0,
        model_from: vec![Source::Body, Source::Jwt("model".into())],
        user_from: vec![Source::Header("x-user".into())],
        control_plane_cluster: String::from("cp"),
    };
    assert_eq!(FilterConfig::parse(json.as_bytes()), Ok(expected));
}

#[test]
fn an_unknown_key_is_named() {
    assert_eq!(
        refusal(r#"{"alternates":1,"polcy":"min_entropy"}"#),
        "polcy: unknown key; known are policy, max_table_age_ms, alternates, projection, \
         dispersion, profile_limit_bytes, model_from, user_from, control_plane_cluster"
    );
}

#[test]
fn a_bad_value_is_shown_with_what_is_allowed() {
    assert_eq!(
        refusal(r#"{"policy":"round_robin"}"#),
        r#"policy: "round_robin" is not allowed; it must be equal_cost, min_entropy or weighted_random"#
    );
    for age in ["0", "3600001", "-1", "1.5", "1e3", "007", "+5", "null", "\"5\"", "true"] {
        let expected = format!(
            "max_table_age_ms: {age} is not allowed; it must be a whole number from 1 to 3600000"
        );
        assert_eq!(refusal(&format!(r#"{{"max_table_age_ms":{age}}}"#)), expected);
    }
    for alternates in ["9", "18446744073709551617", "[]"] {
        assert!(refusal(&format!(r#"{{"alternates":{alternates}}}"#)).starts_with("alternates: "));
    }
    for (key, value) in [
        ("projection", "2"),
        ("dispersion", "true"),
        ("profile_limit_bytes", "8388609"),
        ("model_from", "\"\""),
        ("model_from", "7"),
        ("user_from", "\"header:\""),
    ] {
        assert!(refusal(&format!(r#"{{"{key}":{value}}}"#)).starts_with(&format!("{key}: ")));
    }
    for cluster in ["\"\"", "7"] {
        let json = format!(r#"{{"control_plane_cluster":{cluster}}}"#);
        assert!(refusal(&json).starts_with("control_plane_cluster: "));
    }
}

#[test]
fn a_key_given_twice_is_refused() {
    assert_eq!(refusal(r#"{"alternates":1,"alternates":2}"#), "alternates: given twice");
}

#[test]
fn anything_but_one_flat_object_is_refused() {
    for broken in [
        " ",
        "null",
        "[]",
        "{",
        "}",
        "{}{}",
        "{} x",
        r#"{"alternates"}"#,
        r#"{"alternates":}"#,
        r#"{"alternates":1"#,
        r#"{"alternates":1,}"#,
        r#"{,"alternates":1}"#,
        r#"{"alternates" 1}"#,
        r#"{alternates:1}"#,
        r#"{"policy":"min_entropy}"#,
        r#"{"policy":"min\u005fentropy"}"#,
        "{\"policy\":\"min\nentropy\"}",
        r#"{"alternates":1 "policy":"min_entropy"}"#,
    ] {
        assert!(refusal(broken).starts_with("configuration is not a JSON object"), "{broken}");
    }
    assert!(!refusal(r#"{"policy":{"name":"min_entropy"}}"#).is_empty());
    let not_utf8 = FilterConfig::parse(b"{\"policy\":\"\xff\"}").unwrap_err();
    assert_eq!(not_utf8.text(), "configuration is not UTF-8");
}
