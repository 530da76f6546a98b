"""The connection to Consul: py-consul's asyncio client with the limits that it lacks."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
from consul import Check, aio, base
from consul.exceptions import ConsulException

from isocost import daemon_thread
from isocost.config_consul import ConsulSettings
from isocost.errors import ConsulRefusedError, DiscoveryError

#: 10,240 nodes with all their checks are some 25 MB.
MAX_ANSWER_BYTES = 64 * 2**20
#: An error is read by people.
_MAX_REASON_LENGTH = 300
#: An index is 64 bits wide; what is larger is none.
_MOST_INDEX = 2**64 - 1
#: Consul's are 36 characters, others' may be longer; a token with anything else is another file.
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
#: What a Consul before 1.10 writes into its 500 for a service that it does not have.
_UNKNOWN_SERVICE = "Unknown service"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class HealthAnswer:
    """The entries of a service as JSON, and the index to wait on: 0 if there is none. ``filtered``:
    there are more, which the token may not read; a Consul before 1.11 does not tell.
    """

    index: int
    body: bytes
    filtered: bool


@dataclass(frozen=True, slots=True)
class Registration:
    """A service instance with its one check, which lives on heartbeats."""

    service_id: str
    address: str
    port: int
    meta: Mapping[str, str]
    ttl_s: int
    deregister_after_s: int


class ConsulClient:
    """While it is entered: at most ``connections`` connections, and a time-out for each call.

    Every call raises DiscoveryError if there was no good answer in ``timeout_s``,
    ConsulRefusedError if Consul refused. No error has the token in it.
    """

    def __init__(self, settings: ConsulSettings, connections: int) -> None:
        self._settings = settings
        self._connections = connections

    async def __aenter__(self) -> Self:
        self._consul = _Consul(self._settings, self._connections)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consul.close()

    async def health(
        self,
        timeout_s: float,
        index: int = 0,
        wait_s: float = 0.0,
        datacenter: str | None = None,
        consistent: bool = False,
    ) -> HealthAnswer:
        """The service with all its checks, after ``index`` or ``wait_s`` if there is an index.
        ``consistent``: the leader answers once it has made sure that it is the leader; nothing that
        is cached.
        """
        params: list[tuple[str, str]] = []
        if index:
            params += [("index", str(index)), ("wait", f"{int(wait_s * 1e3)}ms")]
        if datacenter is not None:
            params.append(("dc", datacenter))
        if consistent:
            params.append(("consistent", "1"))
        path = f"/v1/health/service/{self._settings.service}"
        return await self._call(
            lambda token: self._consul.http.get(
                _health_answer, path, params, self._consul.prepare_headers(token), raw=True
            ),
            timeout_s,
        )

    async def register(self, what: Registration, status: str, timeout_s: float) -> None:
        """Service and check in one call, so that nobody sees the one without the other."""
        check = {
            **Check.ttl(f"{what.ttl_s}s"),
            "CheckID": heartbeat_id(what.service_id),
            "Name": "isocost agent",
            "Status": status,
            "DeregisterCriticalServiceAfter": f"{what.deregister_after_s}s",
        }
        await self._obeyed(
            lambda token: self._consul.agent.service.register(
                self._settings.service,
                service_id=what.service_id,
                address=what.address,
                port=what.port,
                meta=dict(what.meta),
                check=check,
                token=token,
            ),
            timeout_s,
        )

    async def heartbeat(self, service_id: str, status: str, note: str, timeout_s: float) -> None:
        """ConsulRefusedError: among others, if Consul does not know the check."""
        checks = self._consul.agent.check
        tell = {
            "passing": checks.ttl_pass,
            "warning": checks.ttl_warn,
            "critical": checks.ttl_fail,
        }[status]
        check_id = heartbeat_id(service_id)
        await self._obeyed(lambda token: tell(check_id, notes=note, token=token), timeout_s)

    async def deregister(self, service_id: str, timeout_s: float) -> None:
        """A service that Consul does not know is deregistered: a newer one answers 404, an older
        one 500.
        """
        try:
            # False is a 404.
            await self._call(
                lambda token: self._consul.agent.service.deregister(service_id, token=token),
                timeout_s,
            )
        except ConsulRefusedError as error:
            if _UNKNOWN_SERVICE not in str(error):
                raise

    async def _obeyed(
        self, request: Callable[[str | None], Awaitable[bool]], timeout_s: float
    ) -> None:
        if not await self._call(request, timeout_s):
            raise ConsulRefusedError(f"{self._settings.address} refused: not found")

    async def _call(
        self, request: Callable[[str | None], Awaitable[Answer]], timeout_s: float
    ) -> Answer:
        token: str | None = None
        try:
            # Not the client's own time-out: this one holds whatever the client waits for.
            async with asyncio.timeout(timeout_s):
                if self._settings.token_file is not None:
                    # In a thread: a disk that hangs must hold up nothing else.
                    token = await daemon_thread.call(_token, self._settings.token_file)
                return await request(token)
        except TimeoutError:
            reason = f"no answer in {timeout_s:g} s"
        except ConsulException as error:
            raise ConsulRefusedError(self._reason(error, token)) from None
        except aiohttp.ClientConnectorError as error:
            # Its own text has an address in memory in it: another one each time.
            reason = f"cannot connect: {error.os_error.strerror or error.os_error}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) or type(error).__name__
        # Without the cause: a client's error carries the request with its headers.
        raise DiscoveryError(self._reason(reason, token)) from None

    def _reason(self, error: object, token: str | None) -> str:
        text = f"{self._settings.address}: {' '.join(str(error).split()) or type(error).__name__}"
        return (text.replace(token, "***") if token else text)[:_MAX_REASON_LENGTH]


def heartbeat_id(service_id: str) -> str:
    """The check of an instance that an agent registered."""
    return f"{service_id}:heartbeat"


class _Consul(aio.Consul):  # type: ignore[misc]
    """py-consul's own, told everything: it would take what it is not told from the environment."""

    def __init__(self, settings: ConsulSettings, connections: int) -> None:
        self._settings = settings
        self._connections = connections
        url = urlsplit(settings.address)
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        super().__init__(host=host, port=url.port, scheme=url.scheme, verify=True)
        # CONSUL_HTTP_TOKEN would go before the token file.
        self.token = None

    def http_connect(self, host: str, port: int, scheme: str, *_: object, **__: object) -> _Http:
        return _Http(self._settings, self._connections, host, port, scheme)


class _Http(aio.HTTPClient):  # type: ignore[misc]
    """py-consul's own makes its session in a way that aiohttp deprecates as soon as there is TLS,
    repeats requests, follows redirects with the token, and reads answers of any size.
    """

    def __init__(
        self, settings: ConsulSettings, connections: int, host: str, port: int, scheme: str
    ) -> None:
        base.HTTPClient.__init__(self, host, port, scheme)
        self._namespace = settings.namespace
        tls = _tls(settings) if scheme == "https" else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        # It would repeat a blocking query on a new connection, behind which there may be a Consul
        # that was made anew: the old index would keep us waiting for what has happened there.
        self._session._retry_connection = False

    def uri(self, path: str, params: list[tuple[str, Any]] | None = None) -> str:
        params = list(params or ())
        if self._namespace is not None:
            params.append(("ns", self._namespace))
        address: str = super().uri(path, params)
        return address

    async def _request(
        self,
        callback: Callable[[base.Response], Any],
        method: str,
        uri: str,
        headers: dict[str, str] | None,
        data: Any = None,
        connections_timeout: float | None = None,  # noqa: ARG002 - py-consul passes it
        raw: bool = False,
    ) -> Any:
        async with self._session.request(
            method, uri, headers=headers, data=data, allow_redirects=False
        ) as response:
            body = await _bounded(response)
        content = body if raw else body.decode(errors="replace")
        return callback(base.Response(response.status, response.headers, content))


def _tls(settings: ConsulSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ValueError) as error:
        files = filter(None, (settings.ca_file, settings.cert_file, settings.key_file))
        reason = getattr(error, "strerror", None) or str(error)
        raise DiscoveryError(f"cannot use {', '.join(files)}: {reason}") from error
    return context


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _health_answer(response: base.Response) -> HealthAnswer:
    if response.code != 200:
        text = response.body[:_MAX_REASON_LENGTH].decode(errors="replace")
        raise ConsulException(f"{response.code} {text}")
    try:
        index = int(response.headers.get("X-Consul-Index", "0"))
    except ValueError:
        index = 0
    filtered = response.headers.get("X-Consul-Results-Filtered-By-ACLs") == "true"
    index = index if 0 < index <= _MOST_INDEX else 0
    return HealthAnswer(index, response.body, filtered)


def _token(path: str) -> str:
    """Read each time: a few times a second at most, and so a new one counts at once."""
    try:
        # Nobody may write to a FIFO: without O_NONBLOCK its opening waits.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            # Not all of it: it may be any file.
            text = file.read(8192).decode("ascii").strip()
    except OSError as error:
        raise DiscoveryError(f"token_file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        text = ""
    if not _TOKEN.fullmatch(text):
        raise DiscoveryError(f"token_file {path}: there is no token in it")
    return text
