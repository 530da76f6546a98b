"""How long answers are, kept for the next control plane: in the state folder, and in Redis."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isocost.errors import IN_FORCE, ConfigError, FieldError, StateError
from isocost.observe.history import BUCKETS, MOST_MODELS, Floats, History, Sums
from isocost.schedule import ticks
from isocost.state_file import replace_json

if TYPE_CHECKING:
    from redis.asyncio import Redis

FILE_NAME = "answers.json"
_SCHEMA = "isocost.answers/1"
#: The file is some hundred kilobytes; what a crash loses of it is soon learned again.
FILE_PERIOD_S = 30.0

REDIS_KEY = "isocost:answers"
REDIS_PERIOD_S = 5.0
#: A Redis that does not answer by then is away. Nothing waits for it but the task that asks.
_REDIS_TIMEOUT_S = 1.0
#: Another control plane may write between our reading and our writing.
_REDIS_TRIES = 5

log = logging.getLogger(__name__)


def encode(known: Sums) -> dict[str, object]:
    """The sums as plain data."""
    return {
        "schema": _SCHEMA,
        "users": {"count": _packed(known.user_count), "tokens": _packed(known.user_tokens)},
        "models": {name: list(held) for name, held in sorted(known.models.items())},
    }


def decode(data: Any) -> Sums:
    """The sums in plain data; StateError says why they cannot be used."""
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise StateError(f"not of the schema {_SCHEMA}")
    try:
        users, models = data["users"], data["models"]
        known = Sums(
            _unpacked(users["count"]),
            _unpacked(users["tokens"]),
            {str(name): (float(count), float(tokens)) for name, (count, tokens) in models.items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise StateError(f"not sums of answers: {error!r}") from error
    numbers = [number for held in known.models.values() for number in held]
    if not all(math.isfinite(number) and number >= 0.0 for number in numbers):
        raise StateError("a model's sums are no sums")
    if len(known.models) > MOST_MODELS:
        raise StateError(f"{len(known.models)} models are more than there can be")
    return known


def load(folder: Path) -> Sums | None:
    """What the folder holds; None if nothing, or if it cannot be read: to expect less well is no
    reason not to start.
    """
    path = folder / FILE_NAME
    try:
        return decode(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, StateError) as error:
        log.warning("the expected answers in %s are not used: %s", path, error)
        return None


def save(folder: Path, content: dict[str, object]) -> None:
    """Replace the file in one step. StateError: it could not be written; the old one is there."""
    path = folder / FILE_NAME
    try:
        replace_json(path, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StateError(f"cannot keep the expected answers in {path}: {reason}") from error


class KeptFile:
    """The state folder's copy of a history."""

    def __init__(self, folder: Path, history: History) -> None:
        self._folder = folder
        self._history = history
        self._saved = history.answers
        self._told = ""

    async def keep_forever(self) -> None:
        """Write now and then what is new, and once more when cancelled."""
        try:
            async for _ in ticks(FILE_PERIOD_S):
                await self.keep()
        finally:
            # Not in a thread: the loop may be about to end.
            if self._history.answers != self._saved:
                self._save(encode(self._history.known()))

    async def keep(self) -> None:
        """Write the file if there is anything new."""
        answers = self._history.answers
        if answers != self._saved:
            content = encode(self._history.known())
            if await asyncio.to_thread(self._save, content):
                self._saved = answers

    def _save(self, content: dict[str, object]) -> bool:
        try:
            save(self._folder, content)
        except StateError as error:
            if str(error) != self._told:
                log.warning("%s", error)
            self._told = str(error)
            return False
        self._told = ""
        return True


class SharedAnswers:
    """The copy in Redis, which several control planes add to: each brings what it alone has heard,
    so that no answer counts twice.
    """

    def __init__(self, url: str, history: History) -> None:
        """ConfigError: the package `redis` is not installed, or the URL cannot be used."""
        self._history = history
        self._redis = _client(url)
        self._away = False

    async def share_forever(self) -> None:
        """Bring and fetch now and then, and once more when cancelled. Redis may be away."""
        try:
            async for _ in ticks(REDIS_PERIOD_S):
                await self.share()
        finally:
            try:
                async with asyncio.timeout(_REDIS_TIMEOUT_S):
                    await self.share()
            except TimeoutError:
                pass
            await self._redis.aclose()

    async def share(self) -> bool:
        """Bring what is new and learn what the others know; False if Redis is away."""
        from redis.exceptions import RedisError

        taken = self._history.take_unshared()
        # A copy: what is heard of meanwhile is brought the next time.
        known = self._history.known().plus(Sums())
        try:
            merged = await self._exchange(taken, known)
        except (RedisError, OSError) as error:
            self._history.put_back(taken)
            if not self._away:
                log.warning("Redis is away, expected answers stay here: %s", error)
            self._away = True
            return False
        except BaseException:
            self._history.put_back(taken)
            raise
        if self._away:
            log.info("Redis is back")
        self._away = False
        self._history.shared(merged)
        return True

    async def _exchange(self, taken: Sums, known: Sums) -> Sums:
        """What is there afterwards. ``known``: all that is known here, ``taken`` included."""
        from redis.exceptions import WatchError

        for _ in range(_REDIS_TRIES):
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(REDIS_KEY)
                kept = await pipe.get(REDIS_KEY)
                stored = None if kept is None else _stored(kept)
                if stored is None:
                    # All that is known goes there, also what is from the folder.
                    merged = known
                else:
                    merged = stored.plus(taken)
                    if not taken.models:
                        return merged
                text = await asyncio.to_thread(json.dumps, encode(merged))
                pipe.multi()  # type: ignore[no-untyped-call]
                pipe.set(REDIS_KEY, text)
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return merged
        raise WatchError("another control plane wrote each time")


def _stored(text: bytes | str) -> Sums | None:
    """What Redis held; None if it is none of ours: it is replaced."""
    try:
        return decode(json.loads(text))
    except (ValueError, RecursionError, StateError) as error:
        log.warning("the expected answers in Redis are not used but replaced: %s", error)
        return None


def _client(url: str) -> Redis:
    try:
        from redis.asyncio import Redis
    except ImportError as error:
        allowed = "it needs the package redis: pip install 'isocost[redis]'"
        raise ConfigError(IN_FORCE, [FieldError("history.redis_url", None, allowed)]) from error
    try:
        client = Redis.from_url(
            url, socket_timeout=_REDIS_TIMEOUT_S, socket_connect_timeout=_REDIS_TIMEOUT_S
        )
        # Only a connection refuses an option that there is not.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        return client
    except (ValueError, TypeError) as error:
        raise ConfigError(
            IN_FORCE, [FieldError("history.redis_url", url, "redis refuses one of its options")]
        ) from error


def _packed(values: Floats) -> str:
    return base64.b64encode(zlib.compress(values.astype("<f4").tobytes(), 1)).decode()


def _unpacked(text: str) -> Floats:
    # Never more than what belongs there, whatever it claims to be.
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(text), 4 * BUCKETS + 1)
    values = np.frombuffer(data, dtype="<f4").astype(np.float64)
    if values.shape != (BUCKETS,) or not (np.isfinite(values) & (values >= 0.0)).all():
        raise ValueError("not a number for each bucket")
    return values
