"""The DCGM exporter's page, GPU by GPU."""

from __future__ import annotations

import pytest

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, measured
from isocost.telemetry.engines import dcgm
from isocost.telemetry.engines.dcgm import read_page
from tests.unit.telemetry.pages import recorded

MIB = 1 << 20


def line(name: str, value: object, uuid: str = "GPU-1", more: str = "") -> str:
    return f'DCGM_FI_{name}{{gpu="0",UUID="{uuid}"{more}}} {value}\n'


def test_the_recorded_page() -> None:
    got = read_page(recorded("dcgm", "dcgm-exporter-t4.txt"))
    first, second = got
    assert first.uuid == "GPU-00000000-0000-0000-0000-000000000001"
    assert first.vram_free_bytes == measured(15109 * MIB)
    assert first.vram_total_bytes == measured(15109 * MIB)
    assert first.gpu_utilisation == measured(0)
    # There the PCIe counters have no labels: they are nobody's.
    assert first.pcie_bytes_per_s == ABSENT
    assert second.uuid == "GPU-00000000-0000-0000-0000-000000000002"
    assert second.vram_total_bytes == measured(15109 * MIB)
    assert second.vram_free_bytes == second.gpu_utilisation == ABSENT
    assert first.nvlink_active_fraction == UNSUPPORTED


def test_every_name_but_the_total_is_exported_by_default() -> None:
    csv = recorded("dcgm", "dcgm-exporter-default-counters.csv").splitlines()
    fields = {row.split(",")[0].strip() for row in csv if row and not row.startswith("#")}
    names = (dcgm.FREE, dcgm.USED, dcgm.RESERVED, dcgm.UTILISATION, *dcgm.PCIE)
    assert fields.issuperset(names)


def test_units_are_mib_percent_and_bytes_per_second() -> None:
    (gpu,) = read_page(
        line("DEV_FB_FREE", 1000)
        + line("DEV_FB_USED", 70_000)
        + line("DEV_FB_RESERVED", 479)
        + line("DEV_GPU_UTIL", 37)
        + line("PROF_PCIE_TX_BYTES", 2e9)
        + line("PROF_PCIE_RX_BYTES", 3e9)
    )
    assert gpu.vram_total_bytes == measured(71_479 * MIB)
    assert gpu.gpu_utilisation.value == pytest.approx(0.37)
    assert gpu.pcie_bytes_per_s == measured(5e9)


def test_one_direction_alone_is_not_the_traffic() -> None:
    (gpu,) = read_page(line("PROF_PCIE_TX_BYTES", 2e9))
    assert gpu.pcie_bytes_per_s == ABSENT


@pytest.mark.parametrize(
    ("blank", "state"),
    [
        ("9223372036854775794", UNSUPPORTED),
        ("140737488355330", UNSUPPORTED),
        ("140737488355328", ABSENT),
        ("2147483634", UNSUPPORTED),
        ("2147483632", ABSENT),
        ("NaN", ABSENT),
    ],
)
def test_a_blank_is_no_number_and_costs_that_signal_only(blank: str, state: object) -> None:
    (gpu,) = read_page(line("DEV_GPU_UTIL", blank) + line("DEV_FB_FREE", 5))
    assert gpu.gpu_utilisation == state
    assert gpu.vram_free_bytes == measured(5 * MIB)


def test_a_gpu_in_mig_mode_is_its_instances() -> None:
    slices = "".join(
        line("DEV_FB_FREE", free, more=f',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{part}"')
        for part, free in ((7, 100), (8, 200))
    )
    page = line("DEV_FB_FREE", 80_000) + slices + line("DEV_FB_FREE", 9, "GPU-2")
    got = {gpu.uuid: gpu.vram_free_bytes.value / MIB for gpu in read_page(page)}
    assert got == {"GPU-1/7": 100, "GPU-1/8": 200, "GPU-2": 9}


def test_another_page_is_none() -> None:
    with pytest.raises(TelemetryError, match="not a DCGM exporter's metrics page"):
        read_page("process_cpu_seconds_total 1\n")
