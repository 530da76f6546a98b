"""What the demo's tests share."""

from pathlib import Path

import pytest

from isocost.demo.options import DemoOptions


@pytest.fixture
def options(tmp_path: Path) -> DemoOptions:
    return DemoOptions(
        duration_s=30.0,
        policy="weighted_random",
        report=tmp_path / "report.json",
        envoy=None,
        port=19410,
        admin_port=19411,
        control_plane_port=19412,
        http_port=19413,
        node_port_base=19420,
        seed=1,
        keep_logs=False,
    )
