"""One page of one node: at most one request outstanding, a time-out, a limit, the last answer."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Generic, TypeVar

import aiohttp

from isocost.errors import TelemetryError

#: A loaded engine answers its metrics page late; one that needs longer than this is not answering.
TIMEOUT_S = 2.0
#: vLLM's page has 0.1 MB; more than this is something else.
MAX_BYTES = 4 * 1024 * 1024
#: A page that failed so often in a row is gone; one failure alone is often load or a hiccup.
GONE_FAILURES = 5
#: Nobody listens there: that is no hiccup.
_NOBODY_THERE = (errno.ECONNREFUSED, errno.EHOSTUNREACH)

Page = TypeVar("Page")


def open_session(timeout_s: float = TIMEOUT_S) -> aiohttp.ClientSession:
    """A client for scraping: no cookies, no proxies, no compression to unpack."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        headers={"Accept-Encoding": "identity"},
    )


class Target(Generic[Page]):
    """``page`` and ``taken_s`` are of the last good answer, ``error`` of the last answer: None if
    it was good. All are None before the first.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        parse: Callable[[str], Page],
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._url = url
        self._parse = parse
        self._clock = clock
        self._scrape: asyncio.Task[None] | None = None
        self.page: Page | None = None
        self.taken_s: float | None = None
        self.error: str | None = None
        #: In a row, and since the start.
        self._failures = 0
        self.failures_total = 0

    @property
    def good(self) -> bool:
        """The last answer was good."""
        return self.page is not None and self.error is None

    @property
    def there(self) -> bool:
        """It answered, and has neither refused since then nor failed often in a row."""
        return self.page is not None and self._failures < GONE_FAILURES

    def start(self) -> asyncio.Task[None]:
        """The scrape in progress, or a new one."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._run())
        return self._scrape

    async def _run(self) -> None:
        taken_s = self._clock()
        try:
            page = self._parse(await self._fetch())
        except TelemetryError as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail("no answer in time")
        except aiohttp.ClientConnectorError as error:
            # Held down until the next good answer: an engine that starts fails in other ways too.
            self._fail(str(error), GONE_FAILURES if error.errno in _NOBODY_THERE else 1)
        except (aiohttp.ClientError, OSError) as error:
            self._fail(str(error) or repr(error))
        except (ValueError, ArithmeticError) as error:
            # A parser met what it was not written for: that must not pass for the last answer.
            self._fail(f"a page that cannot be read: {error!r}")
        else:
            self.page, self.taken_s, self.error = page, taken_s, None
            self._failures = 0

    def _fail(self, error: str, failures: int = 1) -> None:
        self.error = error
        self._failures += failures
        self.failures_total += 1

    async def _fetch(self) -> str:
        async with self._session.get(self._url, allow_redirects=False) as response:
            if response.status != 200:
                raise TelemetryError(f"HTTP status {response.status}")
            body = bytearray()
            async for data in response.content.iter_any():
                body += data
                if len(body) > MAX_BYTES:
                    raise TelemetryError(f"page of more than {MAX_BYTES} bytes")
        return body.decode("utf-8", "replace")
