"""Programs that answer like an Envoy of another release, or like none."""

from __future__ import annotations

from pathlib import Path


def fake_envoy(folder: Path, version: str, lacks: str = "nothing-at-all") -> Path:
    """An Envoy that gives ``version`` and refuses any configuration with ``lacks`` in it."""
    return program(
        folder,
        f"""
        if [ "$1" = --version ]; then
          echo "envoy  version: 816188b86a0a52095b116b107f576324082c7c02/{version}/Clean/RELEASE/BoringSSL"
          exit 0
        fi
        case "$*" in
          *"{lacks}"*)
            echo "[2026-01-01 00:00:00.000][1][critical][main] [source/server/server.cc:131]" \\
              "error initializing configuration '': could not find {lacks}" >&2
            exit 1;;
        esac
        echo "configuration '' OK"
        """,  # noqa: E501
    )


def program(folder: Path, script: str) -> Path:
    """An executable shell script."""
    path = folder / "envoy"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path
