"""What a reader's process sends: plain values, each message behind its length.

Plain, so that the reader needs none of the agent's types, whose imports take more memory than its
own work, and a round of eight GPUs costs neither side a millisecond. Both ends are one interpreter:
marshal is what it has built in for such values.
"""

from __future__ import annotations

import marshal
import struct
from types import EllipsisType
from typing import Any, BinaryIO

HEADER = struct.Struct("<I")
#: Told before and after NVML is initialised, which may take long.
SCANNING = "scanning"
READING = "reading"
#: And the index of a GPU that does not answer.
STUCK = "stuck"
#: What a reader is asked for: list the GPUs anew; also those that were left out.
SCAN = b"s"
RETRY = b"r"

#: A signal is a number, measured in this round; or not known; or (is it measured?, value, age).
ABSENT = None
#: Equal to no number: False would be 0 where both are keys.
UNSUPPORTED = ...
Raw = float | EllipsisType | tuple[bool, float, float] | None


#: The error counters of NVLinks: a GPU's are of all its links, and a link's come in this order.
NVLINK_ERRORS = (
    "nvlink_crc_flit_errors",
    "nvlink_crc_data_errors",
    "nvlink_replays",
    "nvlink_recoveries",
)


def send(out: BinaryIO, message: Any) -> None:
    """A round, SCANNING, READING, or STUCK with an index."""
    write(out, marshal.dumps(message))


def write(out: BinaryIO, data: bytes) -> None:
    """A message that is packed already."""
    out.write(HEADER.pack(len(data)) + data)
    out.flush()


def receive(data: bytes) -> Any:
    """The message that follows a header."""
    return marshal.loads(data)
