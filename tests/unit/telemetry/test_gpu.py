"""A node's telemetry page: one bad value costs that value only."""

from __future__ import annotations

import json

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry.gpu import read_page


def test_numbers_states_and_gaps() -> None:
    page = read_page(
        json.dumps(
            {
                "gpus": [
                    {
                        "uuid": "GPU-1",
                        "vram_total_bytes": 80e9,
                        "vram_free_bytes": "[N/A]",
                        "gpu_utilisation": 0,
                        "pcie_bytes_per_s": "unsupported",
                    },
                    {"uuid": "GPU-2", "vram_total_bytes": -1, "gpu_utilisation": True},
                ],
                "net_bytes_per_s": 5,
            }
        )
    )
    first, second = page.gpus
    assert first.uuid == "GPU-1"
    assert first.vram_total_bytes == measured(80e9)
    assert first.vram_free_bytes == ABSENT
    assert first.gpu_utilisation == measured(0)
    assert first.pcie_bytes_per_s == UNSUPPORTED
    assert first.nvlink_active_fraction == ABSENT
    assert second.vram_total_bytes == ABSENT and second.gpu_utilisation == ABSENT
    assert page.net_bytes_per_s == measured(5)


def test_infinity_and_nan_are_no_measurements() -> None:
    page = read_page(
        '{"gpus": [{"uuid": "a", "vram_total_bytes": Infinity}], "net_bytes_per_s": NaN}'
    )
    assert page.gpus[0].vram_total_bytes == ABSENT and page.net_bytes_per_s == ABSENT


def test_a_number_too_large_for_a_measurement_costs_that_value_only() -> None:
    page = read_page(
        '{"gpus": [{"uuid": "a", "vram_total_bytes": 1%s}], "net_bytes_per_s": 5}' % ("0" * 400)
    )
    assert page.gpus[0].vram_total_bytes == ABSENT and page.net_bytes_per_s == measured(5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"gpus": 5}',
        '{"gpus": [{}]}',
        '{"gpus": [5]}',
        "[" * 100_000,
        r'{"gpus": [{"uuid": "\ud800"}]}',
    ],
)
def test_another_page_is_an_error(text: str) -> None:
    with pytest.raises(TelemetryError, match="not a telemetry page"):
        read_page(text)
