"""Whatever is wrong with a file, no error has a secret that is in it."""

from __future__ import annotations

import pytest

from isocost.config import AgentConfig, ControlPlaneConfig
from isocost.config_file import parse_text
from isocost.errors import ConfigError, FieldError

NODE = "name: n, address: '192.0.2.1:80', rack: r, host: h, metrics_url: 'http://m', dcgm_url: 'x'"


def refused(
    text: str, kind: type[ControlPlaneConfig] | type[AgentConfig] = ControlPlaneConfig
) -> list[FieldError]:
    """The errors of a file; none of what they say may have the secret."""
    with pytest.raises(ConfigError) as caught:
        parse_text(kind, text, "f")
    errors = caught.value.fields
    said = [str(caught.value), *(f"{item.field}{item.shown}{item.allowed}" for item in errors)]
    assert [words for words in said if "S3" in words or "CRET" in words] == []
    return errors


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'tick_ms: 200\nhistory: {redis_url: "redis://:S3CRET@h/0" foo}',
            "line 2, column 44: expected ',' or '}', but got '<scalar>' "
            "(while parsing a flow mapping that begins in line 2)",
        ),
        (
            'tick_ms: 1\nhistory: {redis_url: "redis://:S3CRET@h/0"}\ntick_ms: 2',
            "line 3, column 1: the key tick_ms is there twice",
        ),
        ("{redis_url:S3CRET: 1, redis_url:S3CRET: 1}", "column 23: the key *** is there twice"),
        ("history: *S3CRET", "column 10: found undefined alias"),
        ("history: !S3CRET x", "column 10: could not determine a constructor for the tag"),
        ("history: !it's\"S3CRET x", "column 15: expected ' ', but found '\"'"),
        ("history: &S3CRET 1\nx: &S3CRET 2", "second occurrence (found duplicate anchor that"),
        ("history: !!int S3CRET", "column 10: not a possible int"),
        ("history: !!bool S3CRET", "column 10: not a possible bool"),
        ("history: !!timestamp S3CRET", "column 10: not a possible timestamp"),
        ("x: 1\nhistory: 'S3CRET\ny: 2", "scanning a quoted scalar that begins in line 2"),
        ("\nhistory: S3\0CRET", "line 2: a character that YAML does not allow"),
        ("\thistory: S3CRET", "column 1: found character '\\t' that cannot start any token"),
        ("[" * 10_000 + "S3CRET", "it is nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_told_by_its_place(text: str, problem: str) -> None:
    (error,) = refused(text)
    assert error.field == "(file)"
    assert problem in error.allowed


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("history: [{redis_url: 'redis://:S3CRET@h'}]", "history"),
        ("history: {redis_url: [S3CRET]}", "history.redis_url"),
        ("history: {redis_url: 'redis//:S3CRET@h'}", "history.redis_url"),
        ("history: {redis_url: 'redis://u:S3/CRET@h'}", "history.redis_url"),
        ("history: {redis_url: 'http://h?password=S3CRET&foo=1'}", "history.redis_url"),
        ("history: {redis_url: S3CRET}", "history.redis_url"),
        ("history: {redis_url:S3CRET}", "history.***"),
        ("history:\n  redis_url:S3CRET", "history"),
        ("redis_url: S3CRET", "redis_url"),
        ("listen: 'redis//:S3CRET@h'", "listen"),
        ("listen: 'password=S3CRET'", "listen"),
        ("listen: {password: S3CRET}", "listen"),
        ("discovery: {consul: {Token: S3CRET}}", "discovery.consul.Token"),
        ("discovery: {consul: {acl_token: S3CRET}}", "discovery.consul.acl_token"),
        ("discovery: {consul: {token_file: S3CRET}}", "discovery.consul.token_file"),
        ("discovery: {consul: {address: 'u:S3CRET@h'}}", "discovery.consul.address"),
        ("models: S3CRET", "models"),
    ],
)
def test_a_refused_value_that_may_be_secret_is_not_told(text: str, field: str) -> None:
    (error,) = refused(text)
    assert error.field == field


def test_an_agents_command_and_urls_are_not_told() -> None:
    node = f"{{{NODE}, restart_command: [a, [S3CRET]], clock_url: S3CRET}}"
    fields = [error.field for error in refused(f"name: a\nnodes: [{node}]", AgentConfig)]
    assert {"nodes.0.restart_command.1", "nodes.0.clock_url"} <= set(fields)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("fast", "'fast'"),
        (5, "5"),
        (True, "True"),
        ([1], "a list"),
        ({}, "a mapping"),
        (None, None),
    ],
)
def test_a_value_is_told_as_it_is_and_of_parts_only_the_kind(
    value: object, shown: str | None
) -> None:
    assert FieldError("tick_ms", value, "a number").shown == shown
