"""Whatever stands at the address, the commands say it in words."""

from __future__ import annotations

import argparse
import socket
import threading

import pytest

from isocost.cli.admin_client import add_http_argument, call
from isocost.errors import StartError


def answer_once(data: bytes) -> int:
    """A server that answers its first connection with these bytes; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "data", [b"\x00\x00\x12\x04 not HTTP\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n\r\n{"]
)
def test_an_answer_that_is_no_control_planes_is_told_with_the_flag(data: bytes) -> None:
    address = f"127.0.0.1:{answer_once(data)}"
    with pytest.raises(StartError, match=f"{address}.*--http"):
        call(address, "GET", "/v1/nodes")


@pytest.mark.parametrize("address", ["127.0.0.1 :80", "nowhere", "127.0.0.1:notaport", "[::1"])
def test_an_address_that_is_none_is_told_with_the_flag(address: str) -> None:
    with pytest.raises(StartError, match="--http"):
        call(address, "GET", "/v1/nodes")


def test_the_address_may_be_a_url_and_what_is_neither_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    add_http_argument(parser)
    for given in ("h:1", "http://h:1", "http://h:1/"):
        assert parser.parse_args(["--http", given]).http == "h:1"
    for given in ("h", "https://h:1", "http://h:1/v1", "http://h"):
        with pytest.raises(SystemExit):
            parser.parse_args(["--http", given])
        told = capsys.readouterr().err
        assert f"{given!r} is not allowed; it must be HOST:PORT or http://HOST:PORT, like" in told


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    port = answer_once(b'HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{"nodes": []}')
    assert call(f"127.0.0.1:{port}", "GET", "/v1/nodes") == {"nodes": []}
