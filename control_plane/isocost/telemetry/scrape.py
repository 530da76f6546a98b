"""One page of one node: at most one request outstanding, a time-out, a limit, the last answer."""

from __future__ import annotations

import asyncio
import errno
import http.client
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from isocost.errors import TelemetryError
from isocost.telemetry.page_client import PageClient

#: A loaded engine answers its metrics page late; one that needs longer than this is not answering.
TIMEOUT_S = 2.0
#: More pages than a machine has nodes; a thread is only made for a page that waits.
MAX_THREADS = 256
#: A page that failed so often in a row is gone; one failure alone is often load or a hiccup.
GONE_FAILURES = 5
#: Nobody listens there: that is no hiccup.
_NOBODY_THERE = (errno.ECONNREFUSED, errno.EHOSTUNREACH)

Page = TypeVar("Page")


class Pages:
    """What scrapes have in common, while it is entered: threads, and the time that a page has."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        # As many as pages that are late at once: none waits for another.
        self._threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="page")
        self._clients: list[PageClient] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.interrupt()
        # One that is just connecting takes its time.
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for client in self._clients:
            client.close()

    def client(self, url: str) -> PageClient:
        """For one page, until it is released or the end."""
        client = PageClient(url, self._timeout_s)
        self._clients.append(client)
        return client

    def release(self, client: PageClient) -> None:
        """Its page is not fetched any more, and not now."""
        self._clients.remove(client)
        client.close()

    def fetching(self, client: PageClient) -> Callable[[], Awaitable[str]]:
        """What fetches the page: see PageClient.get."""

        async def get() -> str:
            fetch = asyncio.get_running_loop().run_in_executor(self._threads, client.get)
            done, _ = await asyncio.wait([fetch], timeout=self._timeout_s)
            if not done:
                # It waits for each piece of an answer's head anew.
                client.interrupt()
                await asyncio.wait([fetch])
                fetch.exception()
                raise TimeoutError
            return fetch.result()

        return get


class Target(Generic[Page]):
    """``page`` and ``taken_s`` are of the last good answer, ``error`` of the last answer: None if
    it was good. All are None before the first.
    """

    def __init__(
        self,
        pages: Pages,
        url: str,
        parse: Callable[[str], Page],
        clock: Callable[[], float],
    ) -> None:
        self._pages = pages
        self._client = pages.client(url)
        self._get = pages.fetching(self._client)
        self._parse = parse
        self._clock = clock
        self._scrape: asyncio.Task[None] | None = None
        self.page: Page | None = None
        self.taken_s: float | None = None
        self.error: str | None = None
        #: How long the last good answer took.
        self.took_s = 0.0
        #: Nobody was there, since the last good answer.
        self._refused = False
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

    @property
    def silent(self) -> bool:
        """It answered once and failed often in a row since, but nobody refused: it may be busy."""
        return self.page is not None and not self.there and not self._refused

    def start(self) -> asyncio.Task[None]:
        """The scrape in progress, or a new one."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._run())
        return self._scrape

    async def close(self) -> None:
        """Let go of the page, once a scrape in progress has ended."""
        if self._scrape is not None:
            await asyncio.wait([self._scrape])
        self._pages.release(self._client)

    async def _run(self) -> None:
        taken_s = self._clock()
        try:
            page = self._parse(await self._get())
        except TelemetryError as error:
            self._fail(str(error))
        except TimeoutError:
            self._fail("no answer in time")
        except (http.client.HTTPException, OSError) as error:
            # Nobody there: held down until the next good answer, for an engine that starts fails in
            # other ways too.
            nobody = isinstance(error, OSError) and error.errno in _NOBODY_THERE
            self._refused = self._refused or nobody
            self._fail(str(error) or repr(error), GONE_FAILURES if nobody else 1)
        except (ValueError, ArithmeticError) as error:
            # A parser met what it was not written for: that must not pass for the last answer.
            self._fail(f"a page that cannot be read: {error!r}")
        else:
            self.page, self.taken_s, self.error = page, taken_s, None
            self.took_s = self._clock() - taken_s
            self._failures, self._refused = 0, False

    def _fail(self, error: str, failures: int = 1) -> None:
        self.error = error
        self._failures += failures
        self.failures_total += 1
