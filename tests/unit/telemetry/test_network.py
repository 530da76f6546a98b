"""The machine's network rate: which devices count, and what is known of it when."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.telemetry.network import ABSENT_S, FRESH_S, RESCAN_S
from tests.unit.telemetry.fake_machine import FakeMachine

MEASURED, STALE = SignalState.MEASURED, SignalState.STALE
SATURATED = 2**32 - 1


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def per_s(signal: Signal) -> float:
    assert signal.state is MEASURED
    return pytest.approx(signal.value)  # type: ignore[no-any-return]


def test_both_directions_of_all_physical_interfaces_count(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.interface("eth1", "card1")
    for virtual in ("lo", "veth1", "docker0", "bond0"):
        machine.interface(virtual)
    others = dict.fromkeys(("lo", "veth1", "docker0", "bond0"), (10**12, 0))
    assert machine.read(eth0=(10, 20), eth1=(0, 0), **others) == ABSENT
    others = dict.fromkeys(others, (2 * 10**12, 0))
    assert per_s(machine.read(eth0=(110, 40), eth1=(0, 80), **others)) == 200 / 0.2
    assert machine.network.rate(["eth1"]).value == pytest.approx(400)
    assert machine.network.rate(["eth0", "eth1", "eth1"]).value == pytest.approx(1000)


def test_the_rate_is_the_mean_of_the_last_5_s(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    rates = [machine.read(1.0, eth0=(min(moved, 3) * 600, 0)) for moved in range(12)]
    assert [rate.value for rate in rates[1:9]] == [600, 600, 600, 450, 360, 240, 120, 0]


def test_a_member_of_an_interface_with_a_device_counts_there(machine: FakeMachine) -> None:
    """Hyper-V: the synthetic interface's bytes include its virtual function's."""
    synthetic = machine.interface("eth0", "vmbus")
    (machine.interface("enP1s1", "function") / "master").symlink_to(synthetic)
    bond = machine.interface("bond0")
    (machine.interface("eth1", "card") / "master").symlink_to(bond)
    machine.read(eth0=(0, 0), enP1s1=(0, 0), bond0=(0, 0), eth1=(0, 0))
    rate = machine.read(eth0=(100, 0), enP1s1=(90, 0), bond0=(7, 0), eth1=(7, 0))
    assert per_s(rate) == 107 / 0.2


def test_infiniband_counts_words_of_all_ports_and_its_ip_interfaces_do_not(
    machine: FakeMachine,
) -> None:
    machine.interface("ib0", "hca", kind=32)
    machine.infiniband("mlx5_0", "hca", (0, 0), (50, 0))
    machine.read(ib0=(0, 0))
    machine.count("mlx5_0", 10, 20)
    machine.count("mlx5_0", 50, 70, port=2)
    assert per_s(machine.read(ib0=(300, 0))) == 400 / 0.2
    assert machine.network.rate(["mlx5_0", "ib0"]) == machine.network.rate()
    assert per_s(machine.network.rate(["ib0"])) == 300 / 0.2


def test_an_ip_interface_counts_where_its_infiniband_device_does_not(machine: FakeMachine) -> None:
    machine.interface("ib0", "hca", kind=32)
    machine.infiniband("qib0", "hca", ("N/A (no PMA)", "N/A (no PMA)"))
    machine.infiniband("mlx5_0", "another", (0, 0))
    machine.read(ib0=(0, 0))
    assert per_s(machine.read(ib0=(300, 0))) == 300 / 0.2
    assert machine.network.rate(["qib0"]) == UNSUPPORTED


def test_a_roce_cards_port_and_interface_both_count(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.infiniband("mlx5_0", "card0", (0, 0))
    machine.read(eth0=(0, 0))
    machine.count("mlx5_0", 10, 0)
    assert per_s(machine.read(eth0=(100, 0))) == 140 / 0.2


def test_rdma_in_software_counts_at_its_interface(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    (machine.infiniband("rxe0", "card1", (0, 0)) / "device").unlink()
    machine.read(eth0=(0, 0))
    machine.count("rxe0", 20, 0)
    assert per_s(machine.read(eth0=(100, 0))) == 500
    assert machine.network.rate(["rxe0"]) == UNSUPPORTED


def test_a_saturated_port_is_not_known(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.infiniband("mlx4_0", "card1", (0, SATURATED))
    for _ in range(4):
        assert machine.read(eth0=(0, 0)) == ABSENT
    assert per_s(machine.network.rate(["eth0"])) == 0
    machine.count("mlx4_0", 0, 0)
    assert machine.read(eth0=(0, 0)) == ABSENT
    machine.count("mlx4_0", 0, 5)
    assert per_s(machine.read(eth0=(0, 0))) == 100


def test_a_counter_that_began_anew_makes_no_rate_of_its_own(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.read(eth0=(10**12, 0))
    assert per_s(machine.read(eth0=(10**12 + 100, 0))) == 500
    anew = machine.read(eth0=(9 * 10**11, 0))
    assert anew.state is STALE and anew.value == pytest.approx(500)
    assert anew.age_s == pytest.approx(0.2)
    assert per_s(machine.read(eth0=(9 * 10**11 + 40, 0))) == 200


def test_without_new_readings_a_rate_is_stale_and_then_absent(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.read(eth0=(0, 0))
    assert machine.read(eth0=(100, 0)).state is MEASURED
    machine.now_s += FRESH_S + 0.1
    rate = machine.network.rate()
    assert rate.state is STALE and rate.value == pytest.approx(500)
    assert rate.age_s == pytest.approx(FRESH_S + 0.1)
    machine.now_s += ABSENT_S - FRESH_S
    assert machine.network.rate() == ABSENT
    assert machine.read(eth0=(200, 0)) == ABSENT
    assert per_s(machine.read(eth0=(300, 0))) == 500


def test_a_reading_that_fails_is_stale_at_once_and_told_once(
    machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine.interface("eth0", "card0")
    machine.infiniband("mlx5_0", "card1", (0, 0))
    machine.read(eth0=(0, 0))
    machine.read(eth0=(100, 0))
    machine.count("mlx5_0", "?", 0)
    rate = machine.read(eth0=(200, 0))
    assert rate.state is STALE and rate.age_s == pytest.approx(0.2)
    assert machine.network.rate(["eth0"]).state is MEASURED
    machine.read(eth0=(300, 0))
    assert caplog.text.count("no counters of mlx5_0") == 1
    machine.count("mlx5_0", 0, 0)
    assert machine.read(eth0=(400, 0)).state is MEASURED
    assert caplog.text.count("mlx5_0: counters are read again") == 1
    (machine.procfs / "net/dev").write_text("<html>")
    machine.now_s += 0.2
    machine.network.read()
    assert machine.network.rate(["eth0"]).state is STALE
    assert machine.network.rate(["mlx5_0"]).state is MEASURED


def test_without_the_list_of_interfaces_only_named_ports_are_known(machine: FakeMachine) -> None:
    machine.infiniband("mlx5_0", "card", (0, 0))
    (machine.procfs / "net/dev").unlink()
    for now_s in (1.0, 2.0):
        machine.now_s += now_s
        machine.network.read()
    assert machine.network.rate() == ABSENT
    assert machine.network.rate(["mlx5_0"]) == measured(0.0)


def test_a_machine_without_devices_has_no_rate(machine: FakeMachine) -> None:
    machine.interface("lo")
    assert machine.network.rate() == ABSENT
    assert machine.read(lo=(1, 1)) == UNSUPPORTED
    assert machine.network.rate(["eth0"]) == ABSENT


def test_without_sysfs_nobody_knows_what_is_physical(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    (machine.sysfs / "class/net").rmdir()
    assert machine.read(eth0=(1, 1)) == ABSENT
    assert machine.read(eth0=(1, 1)) == ABSENT


def test_a_named_device_that_is_not_there_is_told_once_and_when_it_comes(
    machine: FakeMachine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine.interface("eth0", "card0")
    for moved in (0, 100, 200):
        machine.read(eth0=(moved, 0))
        assert machine.network.rate(["eth0", "mlx5_7"]) == ABSENT
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages == ["there is no network device mlx5_7"]
    machine.infiniband("mlx5_7", "card7", (0, 0))
    machine.read(RESCAN_S, eth0=(200, 0))
    machine.read(eth0=(200, 0))
    for _ in range(2):
        assert machine.network.rate(["eth0", "mlx5_7"]).state is MEASURED
    assert caplog.messages[1:] == ["network device mlx5_7 is there now"]


def test_devices_that_come_and_go_change_nothing_of_the_others(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    machine.read(eth0=(0, 0))
    machine.read(eth0=(100, 0))
    machine.interface("eth1", "card1")
    assert per_s(machine.read(eth0=(200, 0), eth1=(10**12, 0))) == 500
    assert per_s(machine.read(eth0=(300, 0), eth1=(10**12 + 40, 0))) == 700
    assert per_s(machine.read(eth0=(400, 0))) == 500
    assert per_s(machine.read(eth0=(500, 0), eth1=(5, 0))) == 500
    assert per_s(machine.read(eth0=(600, 0), eth1=(45, 0))) == 700


def test_a_port_that_goes_is_stale_until_it_is_known_to_be_gone(machine: FakeMachine) -> None:
    machine.interface("eth0", "card0")
    device = machine.infiniband("mlx5_0", "card1", (0, 0))
    machine.read(eth0=(0, 0))
    machine.read(eth0=(0, 0))
    device.rename(machine.sysfs / "gone")
    assert machine.read(eth0=(0, 0)).state is STALE
    assert machine.read(RESCAN_S, eth0=(0, 0)).state is MEASURED
    assert machine.network.rate(["mlx5_0"]) == ABSENT


def test_this_machines_own_files_are_read(caplog: pytest.LogCaptureFixture) -> None:
    from isocost.telemetry.network import Network

    network = Network()
    network.read()
    network.read()
    assert network.rate(["lo"]).state is MEASURED
    assert "network devices" not in caplog.text and "net/dev" not in caplog.text
