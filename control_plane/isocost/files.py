"""Where an installation keeps the files that are no code."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"

#: The filter; built by `make filter`, part of every wheel.
WASM = DATA / "isocost.wasm"
#: NVML without a GPU; built by `make fake-nvml`, part of every wheel.
FAKE_NVML = DATA / "nvml" / "libnvidia-ml.so.1"
#: Envoy's bootstrap: in a checkout a link to envoy/bootstrap.yaml.
BOOTSTRAP = DATA / "bootstrap.yaml"
