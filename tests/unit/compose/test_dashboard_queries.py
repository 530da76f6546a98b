"""Queries without data are found: no series, or nothing but NaN."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.compose.dashboard_queries import queries_without_data, substituted

ANSWERS = {
    'a{node=~".+"}': ["NaN", "0"],
    "b": ["NaN"],
    "c": [],
    "rate(d[20s])": ["+Inf"],
}


class Prometheus(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        (expr,) = urllib.parse.parse_qs(body)["query"]
        known = expr in ANSWERS
        result = [{"metric": {}, "value": [0, value]} for value in ANSWERS.get(expr, ())]
        data = {"status": "success", "data": {"resultType": "vector", "result": result}}
        self.send_response(200 if known else 400)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def prometheus() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Prometheus) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def dashboard(folder: Path, *exprs: str) -> Path:
    targets = [{"expr": expr, "legendFormat": ""} for expr in exprs]
    folded = {"title": "row", "panels": [{"title": "folded", "targets": targets[1:]}]}
    file = folder / "dashboard.json"
    file.write_text(json.dumps({"panels": [{"title": "p", "targets": targets[:1]}, folded]}))
    return file


def test_a_query_without_a_number_is_named_with_its_panel(prometheus: str, tmp_path: Path) -> None:
    file = dashboard(tmp_path, 'a{node=~"$node"}', "b", "c", "rate(d[$__rate_interval])")
    found = queries_without_data(prometheus, file)
    assert [(query.panel, query.expr) for query in found] == [("folded", "b"), ("folded", "c")]


def test_a_query_that_prometheus_refuses_is_no_query_without_data(
    prometheus: str, tmp_path: Path
) -> None:
    with pytest.raises(urllib.error.HTTPError):
        queries_without_data(prometheus, dashboard(tmp_path, "unknown"))


def test_a_variable_that_nobody_fills_in_is_an_error() -> None:
    assert substituted("a{x='${node:regex}'}", {"node": "n"}) == "a{x='n'}"
    with pytest.raises(KeyError, match="nodes"):
        substituted("a{x=~'$nodes'}")
