"""docker-compose.yml as its users meet it, in the order of the tests: up, looked at, under
load with kills, stopped.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from typing import Any

import openai
import pytest

from tests.compose.dashboard_queries import queries_without_data
from tests.compose.stack import Stack, settings, until

ENV = settings()
GATEWAY = f"http://127.0.0.1:{ENV['GATEWAY_PORT']}"
PROMETHEUS = f"http://127.0.0.1:{ENV['PROMETHEUS_PORT']}"
GRAFANA = f"http://127.0.0.1:{ENV['GRAFANA_PORT']}"
NODES = {f"node-{rack}-{number}" for rack in (1, 2) for number in (1, 2, 3, 4)}
OURS = {*NODES, "envoy", "control-plane"}
MODEL = "llama-3.1-8b"

#: A trace in place of the one that the profile `load` replays, in a container of its own.
BENCH = [
    *("run", "--no-deps", "--rm", "-T", "load"),
    *("bench", "--url", "http://envoy:10000", "--model", MODEL, "--rate", "20", "--json"),
]

READY_S = 60.0
#: As long as the kill sequence is under load.
LOAD_S = 60


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as response:
        return json.load(response)


def answered() -> bool:
    body = {"model": MODEL, "prompt": "hi", "max_tokens": 4}
    request = urllib.request.Request(
        f"{GATEWAY}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


def states(stack: Stack) -> dict[str, str]:
    try:
        return {name: node["state"] for name, node in stack.nodes().items()}
    except subprocess.CalledProcessError:
        # Its control plane is away.
        return {}


def all_serve(stack: Stack) -> bool:
    return states(stack) == dict.fromkeys(NODES, "serving")


def test_up_answers_soon(stack: Stack) -> None:
    start_s = time.monotonic()
    stack.up()
    until(answered, "a routed request", READY_S)
    print(f"up to the first routed request: {time.monotonic() - start_s:.1f} s")
    until(lambda: all_serve(stack), "8 serving nodes", READY_S)


def test_everything_is_healthy(stack: Stack) -> None:
    def healthy() -> bool:
        health = {name: one["State"].get("Health", {}) for name, one in stack.containers().items()}
        return {name for name, state in health.items() if state.get("Status") == "healthy"} == set(
            stack.services()
        )

    until(healthy, "health of every container", READY_S)


def test_nodes_come_from_their_agents_and_from_consul(stack: Stack) -> None:
    registered = get(f"http://127.0.0.1:{ENV['CONSUL_PORT']}/v1/health/service/isocost-node")
    assert {one["Service"]["Meta"]["node"] for one in registered} == NODES
    racks = {name: node["rack"] for name, node in stack.nodes().items()}
    assert racks == {name: f"rack-{name[5]}" for name in NODES}


def test_gpus_are_read_through_nvml(stack: Stack) -> None:
    for name, node in stack.nodes().items():
        (gpu,) = node["signals"]["gpus"]
        assert gpu["vram_free_bytes"]["state"] == "measured", (name, gpu)


def test_containers_may_do_nothing_but_their_work(stack: Stack) -> None:
    containers = stack.containers()
    for name in OURS:
        host, config = containers[name]["HostConfig"], containers[name]["Config"]
        assert config["User"] == "10001", name
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"], name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name


@pytest.mark.usefixtures("stack")
def test_openai_client() -> None:
    with openai.OpenAI(base_url=f"{GATEWAY}/v1", api_key="any") as client:
        messages: Any = [{"role": "user", "content": "hi"}]
        answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8)
        assert answer.choices[0].message.content
        assert answer.usage is not None and answer.usage.completion_tokens == 8
        pieces = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=8, stream=True
        )
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        with pytest.raises(openai.NotFoundError) as unknown:
            client.chat.completions.create(model="nobody", messages=messages)
        assert unknown.value.code == "model_not_found"


def test_load_profile_replays_a_trace(stack: Stack) -> None:
    output = stack.compose(
        *BENCH,
        "--control-plane",
        "control-plane:18080",
        "--duration",
        "20",
    )
    report = json.loads(output)
    assert report["requests"]["sent"] == report["requests"]["ok"] > 300
    assert {node["name"] for node in report["nodes"] if node["requests"]} == NODES


@pytest.mark.usefixtures("stack")
def test_prometheus_has_every_target_and_every_query_data() -> None:
    def down() -> list[str]:
        targets = get(f"{PROMETHEUS}/api/v1/targets?state=active")["data"]["activeTargets"]
        assert len(targets) == 20
        return [target["scrapeUrl"] for target in targets if target["health"] != "up"]

    until(lambda: not down(), "every target up", READY_S)
    until(lambda: not queries_without_data(PROMETHEUS), "data for every query", READY_S)


def test_grafana_has_the_dashboard_and_the_data_source(stack: Stack) -> None:
    if "grafana" in stack.missing:
        pytest.skip("no image of Grafana can be had here")
    (found,) = get(f"{GRAFANA}/api/search?type=dash-db")
    assert found["title"] == "Isocost"
    health = get(f"{GRAFANA}/api/datasources/uid/isocost-prometheus/health")
    assert health["status"] == "OK"


def test_kills_in_turn_fail_no_request(stack: Stack) -> None:
    # Answers in one piece: what a killed node has begun to stream nobody can take back.
    load = stack.popen(
        *BENCH,
        "--duration",
        str(LOAD_S),
        "--body",
        '{"stream": false}',
    )
    try:
        before = requests_of(stack, "node-1-1")
        until(lambda: requests_of(stack, "node-1-1") > before + 5, "load", READY_S)

        stack.kill("node-1-1")
        until(lambda: states(stack)["node-1-1"] != "serving", "node out", READY_S)
        stack.start("node-1-1")
        until(lambda: states(stack)["node-1-1"] == "serving", "node back", READY_S)

        served = metric("isocost_fallback_stale_table")
        stack.kill("control-plane")
        # Longer than a table is believed, so that Envoy's own policy has served.
        until(lambda: metric("isocost_fallback_stale_table") > served, "fallback", READY_S)
        stack.start("control-plane")
        until(lambda: all_serve(stack), "8 serving nodes after the control plane", READY_S)

        stack.kill("consul")
        until(lambda: consul_source()["error"] is not None, "Consul missed", READY_S)
        stack.start("consul")
        until(lambda: consul_source()["error"] is None, "Consul back", READY_S)

        assert load.poll() is None, "the load ended before the last kill was over"
        output, messages = load.communicate(timeout=LOAD_S + READY_S)
    finally:
        load.kill()
    assert load.returncode == 0, messages
    report = json.loads(output)
    print("kill sequence:", report["requests"], report["failures"])
    assert report["requests"]["sent"] > 10 * LOAD_S
    assert report["requests"]["ok"] == report["requests"]["sent"], report["failure_examples"]
    assert all_serve(stack)


def requests_of(stack: Stack, node: str) -> float:
    return float(stack.nodes()[node]["outcomes"]["started"])


def metric(name: str) -> float:
    """Of Envoy's page."""
    url = f"http://127.0.0.1:{ENV['ENVOY_ADMIN_PORT']}/stats/prometheus"
    with urllib.request.urlopen(url, timeout=5) as response:
        lines = response.read().decode().splitlines()
    (value,) = [float(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")]
    return value


def consul_source() -> dict[str, Any]:
    status = get(f"http://127.0.0.1:{ENV['CONTROL_PLANE_HTTP_PORT']}/v1/status")
    (source,) = status["discovery"]["sources"]
    return source


def test_chaos_profile_orders_faults_and_takes_them_back(stack: Stack) -> None:
    stack.compose("up", "--detach", "--no-build", "chaos")
    until(lambda: "begins" in stack.compose("logs", "chaos"), "a fault", READY_S)
    assert faults(stack, "node-1-1")
    stack.compose("stop", "chaos")
    assert not faults(stack, "node-1-1")
    assert stack.containers()["chaos"]["State"]["ExitCode"] == 0


def faults(stack: Stack, node: str) -> list[Any]:
    ask = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8000/fake/faults').read().decode())"
    return json.loads(stack.compose("exec", "-T", node, "python3", "-c", ask))["faults"]


def test_everything_stops_cleanly(stack: Stack) -> None:
    stack.compose("stop")
    ended = {name: stack.containers()[name]["State"] for name in OURS}
    # 137 would be a kill, after ten seconds without an end.
    assert {name: state["ExitCode"] for name, state in ended.items()} == dict.fromkeys(OURS, 0)
