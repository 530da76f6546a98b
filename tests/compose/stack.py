"""The whole of docker-compose.yml on this machine's Docker engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Apart from a stack that somebody runs from this checkout.
PROJECT = "isocost-test"
#: What the images are built with here, beside .env.
BUNDLE = Path("build/extra-ca.pem")
CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
PROFILES = {"load", "chaos", "gpu-agent"}


def settings() -> dict[str, str]:
    """.env as compose reads it."""
    lines = (ROOT / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Stack:
    """Its images and containers. Commands that fail raise CalledProcessError."""

    def __init__(self) -> None:
        self._env = {**os.environ, "COMPOSE_PROJECT_NAME": PROJECT}
        self._compose = _compose_command()
        #: Services whose images can be had nowhere.
        self.missing: set[str] = set()

    def prepare(self) -> None:
        """Get or make the images of others."""
        names = {key: value for key, value in settings().items() if key.endswith("_IMAGE")}
        output = self._run(["bash", "tests/compose/base-images.sh"])
        without = set(output.split())
        for key, name in names.items():
            plain = name.partition("@")[0]
            if plain in without:
                self.missing.add(key.removesuffix("_IMAGE").lower())
            # An image that was made here has no digest.
            inspected = subprocess.run(
                ["docker", "image", "inspect", name], capture_output=True, check=False
            )
            if inspected.returncode:
                self._env[key] = plain
        # What this machine trusts, so that a proxy of its own is no obstacle.
        bundle = next(path for path in CA_FILES if Path(path).exists())
        (ROOT / BUNDLE).parent.mkdir(exist_ok=True)
        (ROOT / BUNDLE).write_bytes(Path(bundle).read_bytes())
        self._env["EXTRA_CA_BUNDLE"] = str(BUNDLE)

    def build(self, services: Sequence[str] = ()) -> float:
        """How long it took, in seconds."""
        start_s = time.monotonic()
        self.compose("build", *services)
        return time.monotonic() - start_s

    def services(self) -> list[str]:
        """Those that `up` starts without a profile, as far as their images can be had."""
        listed = self.compose("config", "--services").split()
        return sorted(set(listed) - PROFILES - self.missing)

    def up(self) -> None:
        self.compose("up", "--detach", "--no-build", *self.services())

    def down(self) -> None:
        profiles = [word for name in ("load", "chaos") for word in ("--profile", name)]
        self.compose(*profiles, "down", "--volumes", "--remove-orphans")
        assert not self.containers()

    def kill(self, service: str) -> None:
        self.compose("kill", service)

    def start(self, service: str) -> None:
        self.compose("start", service)

    def compose(self, *arguments: str) -> str:
        return self._run([*self._compose, *arguments])

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._compose, *arguments],
            cwd=ROOT,
            env=self._env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def isocost(self, *arguments: str) -> str:
        """A command in the control plane's container."""
        return self.compose("exec", "-T", "control-plane", "isocost", *arguments)

    def nodes(self) -> dict[str, Any]:
        """By name what `isocost nodes --json` says."""
        return {node["name"]: node for node in json.loads(self.isocost("nodes", "--json"))["nodes"]}

    def containers(self) -> dict[str, dict[str, Any]]:
        """`docker inspect` by service."""
        label = f"label=com.docker.compose.project={PROJECT}"
        ids = self._run(["docker", "ps", "--all", "--quiet", "--filter", label]).split()
        found = json.loads(self._run(["docker", "inspect", *ids])) if ids else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def _run(self, command: Sequence[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self._env, text=True, capture_output=True, check=False
        )
        if done.returncode:
            print(done.stdout[-5000:], done.stderr[-5000:], file=sys.stderr)
            done.check_returncode()
        return done.stdout


def until(condition: Callable[[], bool], what: str, deadline_s: float) -> float:
    """Wait until it holds; the seconds that took. AssertionError: not by the deadline."""
    start_s = time.monotonic()
    while not condition():
        assert time.monotonic() < start_s + deadline_s, f"{what} not within {deadline_s:g} s"
        time.sleep(0.1)
    return time.monotonic() - start_s


def _compose_command() -> list[str]:
    """Compose as a plugin of Docker's, or as the older command."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


if __name__ == "__main__":
    # Builds the images only; the tests then find them.
    stack = Stack()
    stack.prepare()
    print(f"images built in {stack.build():.0f} s")
