"""A running daemon takes a good file as a whole, and refuses any other as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from isocost import reload
from isocost.config import ControlPlaneConfig
from isocost.config_source import ConfigSource, built_in
from isocost.errors import IN_FORCE, ConfigError, FieldError
from isocost.reload import Reload
from tests.integration.harness.wait import wait_until

LIVE = frozenset({"tick_ms", "weight", "discovery.lost_after_ms"})


class Daemon:
    """What a configuration is applied to."""

    def __init__(self, path: Path, **flags: object) -> None:
        source = ConfigSource(ControlPlaneConfig, path, flags)
        self.path = path
        self.applied: list[ControlPlaneConfig] = []
        self.reload = Reload(source.load(), LIVE, self.applied.append)

    @property
    def results(self) -> dict[str, int]:
        return dict(self.reload.results)

    async def after(self, text: str) -> dict[str, int]:
        """What readings have come to once a new text was read."""
        before = self.reload.results.total()
        self.path.write_text(text)
        await wait_until(lambda: self.reload.results.total() > before, "it is read")
        return self.results


@pytest.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    monkeypatch.setattr(reload, "LOOK_S", 0.01)
    monkeypatch.setattr(reload, "STEADY_S", 0.02)
    path = tmp_path / "control-plane.yaml"
    path.write_text("tick_ms: 100\n")
    made = Daemon(path, http="127.0.0.1:9")
    async with following(made):
        yield made


@contextlib.asynccontextmanager
async def following(daemon: Daemon) -> AsyncIterator[None]:
    task = asyncio.create_task(daemon.reload.run())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_changed_file_is_in_force_and_words_of_the_command_line_still_win(
    daemon: Daemon,
) -> None:
    await daemon.after("tick_ms: 50\nhttp: 127.0.0.1:10\nweight: {latency_window_s: 3.0}\n")
    (config,) = daemon.applied
    assert (config.tick_ms, config.weight.latency_window_s) == (50, 3.0)
    assert config.http == "127.0.0.1:9"
    assert daemon.reload.loaded.config is config
    assert daemon.results == {"applied": 1, "unchanged": 0, "refused": 0}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("tick_ms: 5\n", "tick_ms"),
        ("tick_ms: 50\nweigth: {}\n", "weigth"),
        ("tick_ms: [", "(file)"),
        ("\n", "(file)"),
        ("tick_ms: 50\nlisten: 127.0.0.1:2\n", "listen"),
        ("tick_ms: 50\ndiscovery: {file: nodes.yaml, lost_after_ms: 2000}\n", "discovery.file"),
    ],
)
async def test_a_file_that_cannot_be_taken_changes_nothing_and_is_named_until_it_is_mended(
    daemon: Daemon, caplog: pytest.LogCaptureFixture, text: str, field: str
) -> None:
    before = daemon.reload.loaded
    assert (await daemon.after(text))["refused"] == 1
    assert daemon.applied == []
    assert daemon.reload.loaded is before
    refused = daemon.reload.refused
    assert refused is not None
    assert [error.field for error in refused.error.fields] == [field]
    assert f"{daemon.path}: {field}: " in caplog.text
    await daemon.after("tick_ms: 100\n")
    assert daemon.reload.refused is None


async def test_what_needs_a_restart_is_named_field_by_field(daemon: Daemon) -> None:
    await daemon.after("listen: 127.0.0.1:2\nhistory: {redis_url: 'redis://u:secret@r/0'}\n")
    refused = daemon.reload.refused
    assert refused is not None
    assert str(refused.error).splitlines() == [
        f"{daemon.path}: {field}: it changed, and takes effect only after a restart"
        for field in ("listen", "history.redis_url")
    ]


async def test_a_file_that_is_gone_changes_nothing(daemon: Daemon) -> None:
    daemon.path.unlink()
    await wait_until(lambda: daemon.reload.refused, "it is missed")
    assert daemon.applied == []
    assert "not readable" in str(daemon.reload.refused and daemon.reload.refused.error)


async def test_a_half_written_file_does_not_count(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each look finds another part of it, until all is there.
    parts = iter(["tick", "tick_ms: 5", "tick_ms: 50", "tick_ms: 50"])
    monkeypatch.setattr(reload, "read", lambda _: next(parts))
    os.utime(daemon.path, (1, 1))
    await wait_until(lambda: daemon.applied, "it is read")
    assert [config.tick_ms for config in daemon.applied] == [50]
    assert daemon.results["refused"] == 0


async def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As a ConfigMap is replaced: path -> ..data/FILE, ..data -> a folder."""
    for name, tick_ms in (("old", 100), ("new", 50)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "c.yaml").write_text(f"tick_ms: {tick_ms:3}\n")
    data, path = tmp_path / "..data", tmp_path / "c.yaml"
    data.symlink_to("old")
    path.symlink_to("..data/c.yaml")
    daemon = Daemon(path)
    async with following(daemon):
        (tmp_path / "tmp").symlink_to("new")
        (tmp_path / "tmp").replace(data)
        # With the times of a real daemon.
        await wait_until(lambda: daemon.applied, "it is read", 2)
    assert daemon.applied[0].tick_ms == 50


def test_a_stop_does_not_wait_for_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "control-plane.yaml"
    path.write_text("tick_ms: 100\n")
    reading, go_on = threading.Event(), threading.Event()

    def read(_: Path) -> str:
        reading.set()
        # A reading that ends by itself fails the test, and does not hang it.
        go_on.wait(5.0)
        return ""

    monkeypatch.setattr(reload, "read", read)

    async def stopped_meanwhile() -> None:
        async with following(Daemon(path)):
            await wait_until(reading.is_set, "it is read")

    began_s = time.monotonic()
    asyncio.run(stopped_meanwhile())
    took_s = time.monotonic() - began_s
    go_on.set()
    assert took_s < 2.0


async def test_what_its_parts_refuse_is_named_by_the_file(daemon: Daemon) -> None:
    def refuse(_: ControlPlaneConfig) -> None:
        raise ConfigError(IN_FORCE, [FieldError("models", None, "too many")])

    daemon.reload._apply = refuse
    await daemon.after("tick_ms: 50\n")
    refused = daemon.reload.refused
    assert refused is not None and str(refused.error) == f"{daemon.path}: models: too many"


async def test_sighup_reads_a_file_that_did_not_change(daemon: Daemon) -> None:
    daemon.reload.ask()
    await wait_until(lambda: daemon.results["unchanged"] == 1, "it is read")
    assert daemon.applied == []


async def test_sighup_without_a_file_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    made = Reload(built_in(ControlPlaneConfig()), LIVE, lambda _: None)
    made.ask()
    assert "from no file" in caplog.text


def test_words_of_the_command_line_are_checked_as_the_file_is() -> None:
    with pytest.raises(ConfigError, match=r"command line: filter\.policy: 'best'"):
        ConfigSource(ControlPlaneConfig, None, {"filter.policy": "best"}).load()
