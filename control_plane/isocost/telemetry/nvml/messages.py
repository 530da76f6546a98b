"""What a reader's process sends: each message behind its length."""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

HEADER = struct.Struct("<I")
#: Told before and after NVML is initialised, which may take long.
SCANNING = "scanning"
READING = "reading"


def send(out: BinaryIO, message: Any) -> None:
    """A round, SCANNING or READING."""
    data = pickle.dumps(message)
    out.write(HEADER.pack(len(data)) + data)
    out.flush()
