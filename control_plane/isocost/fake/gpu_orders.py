"""Orders to the GPUs of a fake node as hardware: keys of the fake NVML over the node's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from isocost.fake.strict import Json, inside, refuse

#: A call that never returns, or NVML's error of that number.
_FAULT = "hang, or ! and the number of an NVML error"
_IS_FAULT = re.compile(r"hang|![1-9][0-9]{0,2}")
#: What a value can be besides, and how that reads.
_NUMBER = (re.compile(r"[0-9]{1,20}"), "an integer of at least 0")
_PERCENT = (re.compile(r"100|[0-9]{1,2}"), "an integer from 0 to 100")
_XIDS = (re.compile(r"[0-9]{1,4}(,[0-9]{1,4}){,199}"), "numbers separated by commas, at most 200")
_TEXT = (re.compile(r"[ -~]{0,1000}"), "a text of at most 1000 ASCII characters")
_NOTHING = (re.compile(r"(?!)"), "nothing else")

_KEYS = {
    **dict.fromkeys(("name", "pci", "processes"), _TEXT),
    "xids": _XIDS,
    **dict.fromkeys(("utilization", "memory_bandwidth"), _PERCENT),
    **dict.fromkeys(
        (
            *("memory_total", "memory_used", "memory_reserved", "memory_v2"),
            *("pcie_tx", "pcie_rx", "pcie_ms"),
            *("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max"),
            *("pcie_replays", "nvlinks", "temperature", "power", "clocks_event_reasons"),
            *("ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever", "ecc_uncorrected_ever"),
            *("rows_corrected", "rows_uncorrected", "rows_pending", "rows_failed"),
            "numa_node",
        ),
        _NUMBER,
    ),
    "all": _NOTHING,
}
_LINK_KEYS = {
    **dict.fromkeys(("active", "replays", "recoveries", "crc_flit", "crc_data"), _NUMBER),
    **dict.fromkeys(("remote", "remote_type"), _TEXT),
}
_LINK = re.compile(r"nvlink\.([0-9]{1,2})\.([a-z_]+)")


class GpuOrders:
    """They belong to the cards: an engine that starts anew does not end them."""

    def __init__(self, uuids: Sequence[str], links: int) -> None:
        self._uuids = uuids
        self._links = links
        self._orders: list[dict[str, str]] = [{} for _ in uuids]

    def order(self, data: Json) -> None:
        """``{"INDEX or UUID": {"key": value}}``; null lets a key go. BadRequestError names the
        first that is wrong, and then nothing is ordered.
        """
        orders = [dict(order) for order in self._orders]
        for gpu, keys in data.items():
            order = orders[self._index(gpu)]
            if not isinstance(keys, dict):
                refuse(gpu, keys, "must be an object of keys and values")
            with inside(gpu):
                for key, value in keys.items():
                    checked = self._checked(key, value)
                    if checked is None:
                        order.pop(key, None)
                    else:
                        order[key] = checked
        self._orders = orders

    def of(self, index: int) -> Mapping[str, str]:
        return self._orders[index]

    def _index(self, gpu: str) -> int:
        if gpu in self._uuids:
            return self._uuids.index(gpu)
        if not gpu.isdecimal() or int(gpu) >= len(self._uuids):
            uuids = ", ".join(self._uuids)
            refuse(gpu, None, f"must be the index or the UUID of a GPU: {uuids}")
        return int(gpu)

    def _checked(self, key: str, value: object) -> str | None:
        pattern, allowed = self._allowed(key)
        if value is None:
            return None
        text = str(value)
        plain = isinstance(value, int | str) and not isinstance(value, bool)
        if not plain or not (pattern.fullmatch(text) or _IS_FAULT.fullmatch(text)):
            refuse(key, value, f"must be {_FAULT}, or {allowed}")
        return text

    def _allowed(self, key: str) -> tuple[re.Pattern[str], str]:
        link = _LINK.fullmatch(key)
        if link and int(link[1]) < self._links and link[2] in _LINK_KEYS:
            return _LINK_KEYS[link[2]]
        if key not in _KEYS:
            links = f"nvlink.N.KEY with N below {self._links} and KEY {', '.join(_LINK_KEYS)}"
            refuse(key, None, f"unknown key; known here: {', '.join(_KEYS)}, {links}")
        return _KEYS[key]
