"""The byte counters of network devices: how the kernel writes them, and what they rose by."""

from __future__ import annotations

from isocost.errors import TelemetryError

#: Interfaces with counters of 32 bits have 10 Gb/s at most. A fall that would be more than that as
#: a wrap is none.
MAX_WRAPPING_BYTES_PER_S = 10e9 / 8
#: Twice the fastest port (800 Gb/s): a counter that rose faster is another device's by now.
MAX_BYTES_PER_S = 2 * 800e9 / 8
#: InfiniBand ports count words of four bytes.
PORT_WORD_BYTES = 4
#: Where a port counter of 32 bits ends: it stays there until somebody clears it.
SATURATED = 2**32 - 1

_WRAP = 2**32
#: As 2**64 - 1 is written; longer ones are no counters.
_MAX_DIGITS = 20


def read_net_dev(text: str) -> dict[str, tuple[int, int] | None]:
    """Bytes received and sent by interface, of /proc/net/dev (TelemetryError: it is not that).

    None: the interface is listed, but not with numbers.
    """
    lines = text.split("\n")
    place = _sent_place(lines[1]) if len(lines) > 1 else None
    if place is None:
        raise TelemetryError("not the list of interfaces: no heading with bytes in both directions")
    interfaces = {}
    for line in lines[2:]:
        # The numbers have no colon; the name of an alias has one.
        name, colon, rest = line.rpartition(":")
        if colon and name.strip():
            interfaces[name.strip()] = _both(rest.split(), place)
    return interfaces


def read_port_counter(text: str) -> int | None:
    """In words. None: the device does not count ("N/A (no PMA)"). TelemetryError: neither."""
    count = _number(text.strip())
    if count is None and not text.startswith("N/A"):
        raise TelemetryError(f"{text[:40]!r} is no counter")
    return count


def interface_rise(before: int, now: int, elapsed_s: float) -> int | None:
    """What went through in between, in bytes; None: it cannot be told, the counter began anew."""
    if now >= before:
        return _plausible(now - before, MAX_BYTES_PER_S * elapsed_s)
    if before >= _WRAP:
        return None
    return _plausible(now + _WRAP - before, MAX_WRAPPING_BYTES_PER_S * elapsed_s)


def port_rise(before: int, now: int, elapsed_s: float) -> int | None:
    """The same for a port's words, in bytes. They never wrap: those of 32 bits stop."""
    if SATURATED in (before, now) or now < before:
        return None
    return _plausible((now - before) * PORT_WORD_BYTES, MAX_BYTES_PER_S * elapsed_s)


def _plausible(rise: int, limit: float) -> int | None:
    return rise if rise <= limit else None


def _sent_place(heading: str) -> int | None:
    """Where in an interface's numbers the bytes sent are; those received are the first."""
    parts = [part.split() for part in heading.split("|")]
    if len(parts) != 3 or parts[1][:1] != ["bytes"] or parts[2][:1] != ["bytes"]:
        return None
    return len(parts[1])


def _both(words: list[str], place: int) -> tuple[int, int] | None:
    if len(words) <= place:
        return None
    received, sent = _number(words[0]), _number(words[place])
    return None if received is None or sent is None else (received, sent)


def _number(word: str) -> int | None:
    good = word.isascii() and word.isdecimal() and len(word) <= _MAX_DIGITS
    return int(word) if good else None
