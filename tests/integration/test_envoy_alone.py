"""Envoy before, and without, a control plane: it answers, in the shape that clients understand."""

from __future__ import annotations

import time

import aiohttp
import pytest

from tests.integration.conftest import StartEnvoy
from tests.integration.harness.envoy import local_bootstrap
from tests.integration.harness.filters import aborting, holding_bodies
from tests.integration.harness.gateway import COMPLETIONS
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until

_START_BAR_S = 2.0


async def test_envoy_alone_answers_503_in_openai_shape_within_2_s(
    start_envoy: StartEnvoy, client: aiohttp.ClientSession
) -> None:
    envoy = start_envoy(local_bootstrap(control_plane_port=free_port()))
    started_s = time.monotonic()

    async def answer() -> aiohttp.ClientResponse | None:
        envoy.require_running()
        try:
            return await client.post(envoy.url + COMPLETIONS, json={"model": "m"})
        except aiohttp.ClientError:
            return None

    response = await wait_until(answer, "Envoy answers")
    assert time.monotonic() - started_s < _START_BAR_S
    assert response.status == 503
    assert response.headers["content-type"] == "application/json"
    assert response.headers["retry-after"] == "1"
    error = (await response.json())["error"]
    assert error == {
        "message": "The gateway does not know its nodes yet. Try again shortly.",
        "type": "server_error",
        "param": None,
        "code": "service_unavailable",
    }


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", "fault_filter_abort"),
        (404, "invalid_request_error", "fault_filter_abort"),
        (408, "timeout_error", "request_timeout"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", "fault_filter_abort"),
        (502, "server_error", "bad_gateway"),
        (503, "server_error", "service_unavailable"),
        (504, "timeout_error", "gateway_timeout"),
    ],
)
async def test_each_status_that_envoy_gives_has_openais_shape_and_a_fitting_type(
    start_envoy: StartEnvoy, client: aiohttp.ClientSession, status: int, kind: str, code: str
) -> None:
    envoy = start_envoy(aborting(local_bootstrap(control_plane_port=free_port())))
    await envoy.wait_live()
    headers = {"x-envoy-fault-abort-request": str(status)}
    async with client.post(envoy.url + COMPLETIONS, headers=headers) as response:
        assert response.status == status
        assert response.headers["content-type"] == "application/json"
        error = (await response.json())["error"]
    assert error["type"] == kind
    assert error["code"] == code
    assert error["param"] is None
    assert error["message"]


async def test_a_body_that_envoy_refuses_to_hold_gets_413_in_openais_shape(
    start_envoy: StartEnvoy, client: aiohttp.ClientSession
) -> None:
    envoy = start_envoy(holding_bodies(local_bootstrap(free_port()), limit_bytes=1000))
    await envoy.wait_live()
    async with client.post(envoy.url + COMPLETIONS, data=b"x" * 5000) as response:
        assert response.status == 413
        assert (await response.json())["error"] == {
            "message": "Payload Too Large",
            "type": "invalid_request_error",
            "param": None,
            "code": "request_too_large",
        }
