"""Where an installation keeps the files that are no code, and which file it is."""

from __future__ import annotations

from pathlib import Path

#: What changes when a file is written or replaced.
Identity = tuple[int, int, int]

DATA = Path(__file__).parent / "data"

#: The filter; built by `make filter`, part of every wheel.
WASM = DATA / "isocost.wasm"
#: NVML without a GPU; built by `make fake-nvml`, part of every wheel.
FAKE_NVML = DATA / "nvml" / "libnvidia-ml.so.1"
#: Envoy's bootstrap: in a checkout a link to envoy/bootstrap.yaml.
BOOTSTRAP = DATA / "bootstrap.yaml"


def identity(path: Path) -> Identity | None:
    """None: it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
