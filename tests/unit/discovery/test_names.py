"""Names in node addresses: resolved by their TTL, kept when that fails."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import socket
import time

import pytest

from isocost.discovery.names import MAX_TTL_S, MIN_TTL_S, Names
from isocost.discovery.resolver import Answer, Resolver
from isocost.errors import ResolveError


class Dns:
    """What a resolver would say; it has no answer for names that are not there."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def look_up(self, host: str) -> Answer:
        self.asked.append(host)
        if host not in self.answers:
            raise ResolveError(f"{host}: no such name")
        return self.answers[host]


def answer(*ips: str, ttl_s: float = 60.0) -> Answer:
    return Answer(ips, ttl_s)


def wanting(*hosts: str) -> Names:
    names = Names(rng=random.Random(1))
    names.want(set(hosts))
    return names


async def test_a_name_becomes_the_first_of_its_addresses() -> None:
    dns, names = Dns(a=answer("192.0.2.1", "192.0.2.2"), b=answer("2001:db8::1")), wanting("a", "b")
    assert names.address("a:80") is None and names.untried
    assert names.error("a:80") == "it is being resolved"
    await names.refresh(dns.look_up, 0.0)
    assert names.address("a:80") == "192.0.2.1:80"
    assert names.address("b:80") == "[2001:db8::1]:80"
    assert not names.untried


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("192.0.2.7:8000", "192.0.2.7:8000"),
        ("[2001:DB8::7]:8000", "[2001:db8::7]:8000"),
        ("2001:db8::7:8000", "[2001:db8::7]:8000"),
        ("[fe80::1%eth0]:80", None),
    ],
)
async def test_an_ip_address_is_never_looked_up(address: str, shown: str | None) -> None:
    dns, names = Dns(), wanting()
    assert names.address(address) == shown
    await names.refresh(dns.look_up, 0.0)
    assert dns.asked == []


@pytest.mark.parametrize(
    ("ttl_s", "lasts_s"), [(0.0, MIN_TTL_S), (60.0, 60.0), (86_400.0, MAX_TTL_S)]
)
async def test_a_name_is_asked_for_again_when_its_ttl_is_over(ttl_s: float, lasts_s: float) -> None:
    dns, names = Dns(a=answer("192.0.2.1", ttl_s=ttl_s)), wanting("a")
    await names.refresh(dns.look_up, 0.0)
    # Up to a fifth earlier.
    await names.refresh(dns.look_up, 0.79 * lasts_s)
    assert dns.asked == ["a"]
    await names.refresh(dns.look_up, lasts_s)
    assert dns.asked == ["a", "a"]


async def test_the_address_of_now_stays_while_it_is_among_the_answers() -> None:
    dns, names = Dns(a=answer("192.0.2.1", "192.0.2.2")), wanting("a")
    await names.refresh(dns.look_up, 0.0)
    version = names.version
    dns.answers["a"] = answer("192.0.2.0", "192.0.2.1")
    await names.refresh(dns.look_up, 100.0)
    assert names.address("a:80") == "192.0.2.1:80" and names.version is version
    dns.answers["a"] = answer("192.0.2.3")
    await names.refresh(dns.look_up, 200.0)
    assert names.address("a:80") == "192.0.2.3:80" and names.version is not version


async def test_a_name_that_fails_keeps_its_last_address_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    dns, names = Dns(a=answer("192.0.2.1")), wanting("a")
    await names.refresh(dns.look_up, 0.0)
    kept = dns.answers.pop("a")
    for now_s in (100.0, 110.0, 150.0):
        await names.refresh(dns.look_up, now_s)
    assert names.address("a:80") == "192.0.2.1:80"
    assert names.stale == {"a": "a: no such name"}
    dns.answers["a"] = kept
    await names.refresh(dns.look_up, 300.0)
    assert names.stale == {}
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_name_without_an_address_is_asked_for_ever_more_seldom() -> None:
    dns, names = Dns(), wanting("a")
    for tick in range(6000):
        await names.refresh(dns.look_up, tick / 10)
    assert names.address("a:80") is None and "no such name" in names.error("a:80")
    assert not names.untried
    assert 600 / 30 <= len(dns.asked) <= 600 / 24 + 8


async def test_names_that_are_not_wanted_any_more_are_forgotten() -> None:
    dns, names = Dns(a=answer("192.0.2.1")), wanting("a")
    await names.refresh(dns.look_up, 0.0)
    names.want({"b"})
    assert names.address("a:80") is None
    await names.refresh(dns.look_up, math.inf)
    assert dns.asked == ["a", "b"]


async def test_a_new_name_is_asked_for_at_once() -> None:
    dns = Dns(a=answer("192.0.2.1"), b=answer("192.0.2.2"))
    names = Names(dns.look_up, random.Random(1))
    running = asyncio.create_task(names.run())
    try:
        deadline_s = time.monotonic() + 5.0
        for wanted in ("a", "b"):
            names.want({"a", wanted})
            while names.address(f"{wanted}:80") is None:
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_name_that_is_not_answered_holds_up_no_other() -> None:
    async def look_up(host: str) -> Answer:
        if host == "dead":
            await asyncio.Event().wait()
        return answer("192.0.2.1")

    names = Names(look_up, random.Random(1))
    names.want({"dead"})
    running = asyncio.create_task(names.run())
    try:
        await asyncio.sleep(0)
        names.want({"dead", "a"})
        deadline_s = time.monotonic() + 5.0
        while names.address("a:80") is None:
            assert time.monotonic() < deadline_s
            await asyncio.sleep(0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_answer_that_nobody_thought_of_is_a_failure() -> None:
    async def look_up(_: str) -> Answer:
        raise ZeroDivisionError

    names = wanting("a")
    await names.refresh(look_up, 0.0)
    assert "ZeroDivisionError" in names.error("a:80")


async def test_the_hosts_file_answers_with_ipv4_first_and_a_bad_name_with_why() -> None:
    resolver = Resolver()
    try:
        assert (await resolver.look_up("localhost")).ips[0] == "127.0.0.1"
        with pytest.raises(ResolveError, match=r"no\.such\.name\.invalid: "):
            await resolver.look_up("no.such.name.invalid")
    finally:
        await resolver.close()


async def test_a_number_is_no_name_for_an_address() -> None:
    """The C library takes 10.1 for 10.0.0.1."""
    assert socket.gethostbyname("10.1") == "10.0.0.1"
    resolver = Resolver()
    try:
        with pytest.raises(ResolveError):
            await resolver.look_up("10.1")
    finally:
        await resolver.close()
