"""The start-up check: can this Envoy carry the filter, and if not, what does it lack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from isocost.config import BootstrapSettings
from isocost.envoy.binary import envoy_version, refusal
from isocost.envoy.bootstrap import bootstrap_yaml
from isocost.envoy.capabilities import CAPABILITIES
from isocost.errors import StartError
from isocost.files import WASM

#: The first with request_body_buffer_limit; the one that everything was measured with is 1.40.
MINIMUM_VERSION = (1, 36, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; ``error`` is None if it is there, else what Envoy said."""

    name: str
    needed_for: str
    error: str | None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class EnvoyReport:
    envoy: Path
    version: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def check_envoy(envoy: Path) -> EnvoyReport:
    """Ask ``envoy`` for its version, then let it judge what we need, piece by piece and whole.

    StartError if it cannot be run, is no Envoy, or the filter is not built.
    """
    version = envoy_version(envoy)
    findings = [
        Finding(
            f"version {_text(MINIMUM_VERSION)} or later",
            "everything below",
            None if version >= MINIMUM_VERSION else f"it is {_text(version)}",
        )
    ]
    findings += [
        Finding(item.name, item.needed_for, refusal(envoy, item.bootstrap)) for item in CAPABILITIES
    ]
    findings.append(_shipped_bootstrap(envoy))
    return EnvoyReport(envoy, _text(version), tuple(findings))


def _shipped_bootstrap(envoy: Path) -> Finding:
    if not WASM.is_file():
        raise StartError(f"{WASM} is not built: make filter")
    return Finding(
        "the shipped bootstrap with the filter",
        "the data path as a whole",
        refusal(envoy, bootstrap_yaml(BootstrapSettings())),
    )


def _text(version: tuple[int, int, int]) -> str:
    return ".".join(str(part) for part in version)
