"""`isocost config check --envoy` against the real Envoy, and a bootstrap that it accepts."""

from __future__ import annotations

from pathlib import Path

from isocost.config import BootstrapSettings
from isocost.envoy.binary import find_envoy, refusal
from isocost.envoy.bootstrap import bootstrap_yaml
from isocost.envoy.capabilities import CAPABILITIES
from isocost.envoy.check import check_envoy


def test_the_packaged_envoy_can_carry_the_filter() -> None:
    report = check_envoy(find_envoy())
    assert [finding.error for finding in report.findings if not finding.ok] == []


def test_each_probe_is_refused_when_what_it_asks_for_does_not_exist() -> None:
    named = {
        "wasm filters on V8": "envoy.wasm.runtime.v8",
        "wasm failure_policy FAIL_RELOAD": "FAIL_RELOAD",
        "wasm allow_on_headers_stop_iteration": "allow_on_headers_stop_iteration",
        "HTTP filters by ECDS": "config_discovery",
        "early header mutation": "early_header_mutation.header_mutation.v3",
        "override_host load balancing": "override_host.v3",
        "header mutation as an upstream filter": "header_mutation.v3",
        "request_body_buffer_limit of a route": "request_body_buffer_limit",
        "retry predicate previous_hosts": "previous_hosts.v3",
    }
    assert named.keys() == {capability.name for capability in CAPABILITIES}
    envoy = find_envoy()
    for capability in CAPABILITIES:
        word = named[capability.name]
        assert word in capability.bootstrap
        broken = capability.bootstrap.replace(word, word + "X")
        assert refusal(envoy, broken) is not None, capability.name


def test_the_rendered_bootstrap_is_accepted_for_ipv6_and_a_host_name(tmp_path: Path) -> None:
    settings = BootstrapSettings(
        listen="[::]:10000", admin="[::1]:9901", control_plane="control.invalid:18000"
    )
    path = tmp_path / "envoy.yaml"
    path.write_text(bootstrap_yaml(settings))
    assert refusal(find_envoy(), path.read_text()) is None
