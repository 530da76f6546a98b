"""Expected answers survive a restart: in the folder, and in a real Redis that may go away."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from isocost import kept_answers
from isocost.config import ControlPlaneConfig, HistorySettings
from isocost.daemon import ControlPlane
from isocost.errors import ConfigError, StateError
from isocost.kept_answers import KeptFile, SharedAnswers, decode, encode, load
from isocost.observe.batch import Answer
from isocost.observe.history import History, Sums

START_S = 10.0


def heard(*answers: Answer) -> History:
    history = History()
    history.add(answers)
    return history


def test_what_is_encoded_is_decoded() -> None:
    known = heard(Answer(1, "m", 100), Answer(65_536, "m", 300), Answer(0, "n", 7)).known()
    again = decode(json.loads(json.dumps(encode(known))))
    assert again.models == known.models
    assert np.array_equal(again.user_count, known.user_count)
    assert np.array_equal(again.user_tokens, known.user_tokens)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other"},
        {"users": {"count": "AAAA", "tokens": "AAAA"}},
        {"users": 7},
        {"models": {"m": [1]}},
        {"models": {"m": ["a", "b"]}},
        {"models": {"m": [-1.0, 2.0]}},
        {"models": {f"m{number}": [1, 1] for number in range(2000)}},
    ],
)
def test_what_is_none_of_ours_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(StateError):
        decode(encode(Sums()) | change)


async def test_the_folder_keeps_them_and_a_bad_file_stops_no_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert load(tmp_path) is None
    first = ControlPlane(ControlPlaneConfig(state_dir=str(tmp_path)))
    kept = KeptFile(tmp_path, first._observer.history)
    await kept.keep()
    assert not (tmp_path / kept_answers.FILE_NAME).exists()
    first._observer.history.add([Answer(5, "m", 100)])
    await kept.keep()
    again = ControlPlane(ControlPlaneConfig(state_dir=str(tmp_path)))
    assert again._observer.history.known().models == {"m": (1.0, 100.0)}
    (tmp_path / kept_answers.FILE_NAME).write_text("{")
    assert load(tmp_path) is None
    assert "are not used" in caplog.text


async def test_a_stop_writes_what_is_new(tmp_path: Path) -> None:
    history = History()
    keeping = asyncio.create_task(KeptFile(tmp_path, history).keep_forever())
    await asyncio.sleep(0)
    history.add([Answer(5, "m", 100)])
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    known = load(tmp_path)
    assert known is not None
    assert known.models == {"m": (1.0, 100.0)}


async def test_a_folder_that_cannot_be_written_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = KeptFile(tmp_path / "gone", history := heard(Answer(5, "m", 100)))
    kept._saved = 0
    await kept.keep()
    await kept.keep()
    assert len(caplog.messages) == 1
    (tmp_path / "gone").mkdir()
    await kept.keep()
    assert load(tmp_path / "gone") is not None
    assert history.answers == 1


class Server:
    """A real redis-server on a socket of its own, which can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/redis.sock"

    def _spawn(self) -> None:
        self._process = subprocess.Popen(
            [
                "redis-server",
                *("--port", "0", "--unixsocket", f"{self._folder}/redis.sock"),
                *("--save", "", "--dir", str(self._folder)),
            ],
            stdout=subprocess.DEVNULL,
        )

    async def start(self) -> None:
        self._spawn()
        client = Redis.from_url(self.url)
        async with asyncio.timeout(START_S):
            while True:
                with suppress(OSError, RedisError):
                    await client.ping()
                    break
                await asyncio.sleep(0.01)
        await client.aclose()

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
        self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if shutil.which("redis-server") is None:
        pytest.fail("redis-server is missing; on Debian and Ubuntu: apt-get install redis-server")
    made = Server(tmp_path)
    yield made
    made.stop()


async def test_two_control_planes_share_one_redis_and_no_answer_counts_twice(
    server: Server,
) -> None:
    await server.start()
    one, two = heard(Answer(1, "m", 100)), heard(Answer(1, "m", 300), Answer(2, "m", 50))
    first, second = SharedAnswers(server.url, one), SharedAnswers(server.url, two)
    for _ in range(3):
        assert await first.share()
        assert await second.share()
    one.add([Answer(1, "m", 200)])
    assert await first.share()
    assert await second.share()
    for history in (one, two):
        assert history.known().models == {"m": (4.0, 650.0)}
        assert history.known().user_tokens[:2].tolist() == [600.0, 50.0]
    restarted = History()
    third = SharedAnswers(server.url, restarted)
    assert await third.share()
    assert restarted.known().models == {"m": (4.0, 650.0)}
    for sharing in (first, second, third):
        await sharing._redis.aclose()


async def test_writers_at_the_same_time_lose_nothing(server: Server) -> None:
    await server.start()
    histories = [heard(Answer(1, "m", 10)) for _ in range(4)]
    sharing = [SharedAnswers(server.url, history) for history in histories]
    for _ in range(3):
        await asyncio.gather(*(one.share() for one in sharing))
    for one in sharing:
        assert await one.share()
    assert [history.known().models for history in histories] == [{"m": (4.0, 40.0)}] * 4
    for one in sharing:
        await one._redis.aclose()


async def test_a_redis_that_is_away_is_told_once_and_gets_all_when_it_is_back(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    history = heard(Answer(1, "m", 100))
    sharing = SharedAnswers(server.url, history)
    with caplog.at_level("INFO", kept_answers.__name__):
        assert not await sharing.share()
        assert not await sharing.share()
        assert [line[:13] for line in caplog.messages] == ["Redis is away"]
        await server.start()
        assert await sharing.share()
        server.stop()
        history.add([Answer(1, "m", 300)])
        assert not await sharing.share()
        await server.start()
        assert await sharing.share()
    assert caplog.messages.count("Redis is back") == 2
    other = History()
    fetching = SharedAnswers(server.url, other)
    assert await fetching.share()
    assert other.known().models == {"m": (2.0, 400.0)}
    await sharing._redis.aclose()
    await fetching._redis.aclose()


async def test_what_is_none_of_ours_in_redis_is_replaced(server: Server) -> None:
    await server.start()
    client = Redis.from_url(server.url)
    await client.set(kept_answers.REDIS_KEY, "rubbish")
    sharing = SharedAnswers(server.url, heard(Answer(1, "m", 100)))
    assert await sharing.share()
    assert decode(json.loads(await client.get(kept_answers.REDIS_KEY))).models == {
        "m": (1.0, 100.0)
    }
    await client.aclose()
    await sharing._redis.aclose()


@pytest.mark.parametrize("foreign", ["rubbish", b"\xff", "null", '{"schema": "isocost.answers/2"}'])
async def test_what_is_none_of_ours_in_redis_erases_nothing_that_is_known(
    server: Server, caplog: pytest.LogCaptureFixture, foreign: bytes | str
) -> None:
    await server.start()
    client = Redis.from_url(server.url)
    history = heard(Answer(1, "m", 100))
    sharing = SharedAnswers(server.url, history)
    assert await sharing.share()
    history.add([Answer(2, "m", 300)])
    await client.set(kept_answers.REDIS_KEY, foreign)
    for _ in range(2):
        assert await sharing.share()
    kept = decode(json.loads(await client.get(kept_answers.REDIS_KEY)))
    for known in (history.known(), kept):
        assert known.models == {"m": (2.0, 400.0)}
        assert known.user_tokens[:2].tolist() == [100.0, 300.0]
    assert len(caplog.messages) == 1
    await client.aclose()
    await sharing._redis.aclose()


async def test_what_is_heard_of_while_an_empty_redis_is_filled_counts_once(server: Server) -> None:
    await server.start()
    history = heard(Answer(1, "m", 100))
    sharing = SharedAnswers(server.url, history)
    filling = asyncio.create_task(sharing.share())
    await asyncio.sleep(0)
    history.add([Answer(1, "m", 300)])
    assert await filling
    assert await sharing.share()
    assert history.known().models == {"m": (2.0, 400.0)}
    await sharing._redis.aclose()


async def test_the_last_answers_are_brought_at_the_stop(server: Server) -> None:
    await server.start()
    history = History()
    sharing = asyncio.create_task(SharedAnswers(server.url, history).share_forever())
    await asyncio.sleep(0)
    history.add([Answer(1, "m", 100)])
    sharing.cancel()
    await asyncio.gather(sharing, return_exceptions=True)
    other = History()
    fetching = SharedAnswers(server.url, other)
    assert await fetching.share()
    assert other.known().models == {"m": (1.0, 100.0)}
    await fetching._redis.aclose()


def test_an_option_that_redis_does_not_have_stops_the_start_and_shows_no_password() -> None:
    settings = HistorySettings(redis_url="redis://u:secret@host?secret=1")
    with pytest.raises(ConfigError, match=r"history\.redis_url") as caught:
        ControlPlane(ControlPlaneConfig(history=settings))
    assert "secret" not in str(caught.value)
