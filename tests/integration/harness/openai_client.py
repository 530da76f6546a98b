"""OpenAI's own Python client in front of Envoy, as strict as it can be."""

from __future__ import annotations

from typing import Any

from openai import APIError, AsyncOpenAI, OpenAI

from tests.integration.harness.envoy import Envoy


def connect(envoy: Envoy, **settings: Any) -> OpenAI:
    """A context manager. What does not have the shape of its type is an error, as is by default a
    failure that the client would hide by a retry.
    """
    return OpenAI(**_settings(envoy), **{**_STRICT, **settings})


def connect_async(envoy: Envoy, **settings: Any) -> AsyncOpenAI:
    """The same for asyncio."""
    return AsyncOpenAI(**_settings(envoy), **{**_STRICT, **settings})


_STRICT: dict[str, Any] = {"max_retries": 0, "_strict_response_validation": True}


def _settings(envoy: Envoy) -> dict[str, Any]:
    return {"base_url": f"{envoy.url}/v1", "api_key": "any"}


def error_of(found: APIError) -> dict[str, object]:
    """The error as it was sent, whose parts the exception must have."""
    assert isinstance(found.body, dict)
    parts = str(found.body["code"]), found.body["type"], found.body["param"]
    assert parts == (found.code, found.type, found.param)
    assert str(found.body["message"]) in found.message
    return found.body
