"""What a reader's process sends: each message behind its length."""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

HEADER = struct.Struct("<I")


def send(out: BinaryIO, message: Any) -> None:
    """A round, or None: NVML is being initialised, which may take long."""
    data = pickle.dumps(message)
    out.write(HEADER.pack(len(data)) + data)
    out.flush()
