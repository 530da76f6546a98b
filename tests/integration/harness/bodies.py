"""Request bodies of a given size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

#: What the filter reads of a body as it is shipped.
LIMIT_BYTES = 262_144


def chat(size: int, text: str = "") -> bytes:
    """A chat request of so many bytes, no two places of which are alike; ``text`` stands in it now
    and then. Of less than 100 bytes it is an object without members.
    """
    if size < 100:
        return b"{" + b" " * (size - 2) + b"}"
    head = b'{"messages": [{"role": "user", "content": "'
    tail = b'"}]}'
    room = size - len(head) - len(tail)
    content = bytearray()
    for number in count():
        content += f"{number} {text}".encode()
        if len(content) >= room:
            break
    # A character that the cut goes through is left out as a whole.
    whole = content[:room].decode(errors="ignore").encode()
    return head + whole + b"." * (room - len(whole)) + tail


def pieces(body: bytes, size: int) -> Iterator[bytes]:
    """The body cut into pieces of so many bytes."""
    return (body[start : start + size] for start in range(0, len(body), size))
