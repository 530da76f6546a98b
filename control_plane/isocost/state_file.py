"""Files of the state folder, replaced in one step: after a crash it is the old or the new one."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from isocost.errors import IN_FORCE, ConfigError, FieldError


def prepare(folder: Path) -> None:
    """Make the folder if need be and try to write in it; ConfigError: what it holds would be lost.

    A folder that cannot be written must show at start, not at the first order to drain.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        allowed = f"a folder that can be written: {error.strerror or error}"
        raise ConfigError(IN_FORCE, [FieldError("state_dir", str(folder), allowed)]) from error


def replace_json(path: Path, content: object) -> None:
    """Write ``content`` to ``path``, on the disk when this returns.

    OSError: it could not be written; the old file is still there.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
