"""The metrics that every daemon has of itself: its version, its process, its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isocost import __version__
from isocost.reload import Reload

#: A gauge holds integers exactly up to 53 bits.
_HASH_DIGITS = 12


class DaemonMetrics(Collector):
    """Read at the scrape."""

    def __init__(self, registry: CollectorRegistry, reload: Reload[Any]) -> None:
        self._reload = reload
        ProcessCollector(registry=registry)
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Nothing is read before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("isocost_build_info", "1, with the version.", labels=["version"])
        build.add_metric([__version__], 1.0)
        yield build
        reload = self._reload
        reloads = CounterMetricFamily(
            "isocost_config_reloads",
            "Readings of the configuration file since the start, by what they came to.",
            labels=["result"],
        )
        for result, count in reload.results.items():
            reloads.add_metric([result], count)
        yield reloads
        yield GaugeMetricFamily(
            "isocost_config_refused",
            "1 = the configuration file of now is refused; the one before is in force.",
            value=float(reload.refused is not None),
        )
        yield GaugeMetricFamily(
            "isocost_config_loaded_timestamp_seconds",
            "When the configuration in force was read, in unix seconds.",
            value=reload.loaded.at_unix_s,
        )
        sha256 = reload.loaded.sha256
        if sha256 is not None:
            yield GaugeMetricFamily(
                "isocost_config_hash",
                "The first 48 bits of the SHA-256 of the file in force.",
                value=float(int(sha256[:_HASH_DIGITS], 16)),
            )
