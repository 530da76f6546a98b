"""A real Consul server on ports of its own: forgetful or not, with ACLs and TLS if asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until

_DOWNLOADED = Path(__file__).parents[3] / "build" / "consul" / "consul"
#: A server alone elects itself within a few seconds; a busy machine takes longer.
_START_S = 30.0


def consul_binary() -> str:
    """The one on the PATH, or the one that `make consul-server` brought."""
    found = shutil.which("consul") or shutil.which(str(_DOWNLOADED))
    if found is None:
        raise AssertionError("there is no consul: run make consul-server")
    return found


class ConsulServer:
    """Stopped until ``start``; what is to be changed before that are its attributes. A dev server
    forgets everything when it ends, one with ``keeps`` nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._starts = 0
        self._process: Process | None = None
        self.keeps = False
        self.acls = False
        self.tls = False
        self.datacenter = "dc1"
        #: More of its configuration.
        self.settings: dict[str, Any] = {}
        self.http_port, self.https_port = free_port(), free_port()
        self._inner_ports = {
            "server": free_port(),
            "serf_lan": free_port(),
            "serf_wan": free_port(),
            "dns": -1,
            "grpc": -1,
        }
        #: The token of who may do everything, once ACLs are on.
        self.root: str | None = None

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def https(self) -> str:
        return f"https://127.0.0.1:{self.https_port}"

    @property
    def certificates(self) -> Path:
        """The folder of ca.pem, server.pem, client.pem and their keys, NAME.key."""
        return self._folder / "tls"

    async def start(self) -> ConsulServer:
        self._folder.mkdir(exist_ok=True)
        file = self._folder / "consul.json"
        file.write_text(json.dumps(self._config()))
        mode = ["-server", "-bootstrap-expect=1", f"-data-dir={self._folder / 'data'}"]
        command = [consul_binary(), "agent", *(mode if self.keeps else ["-dev"])]
        self._starts += 1
        name = f"consul-{self._starts}"
        self._process = Process(name, [*command, f"-config-file={file}"], self._folder)
        await wait_until(self._is_leader, "Consul has a leader", _START_S)
        if self.acls and self.root is None:
            self.root = (await self.call("PUT", "/v1/acl/bootstrap"))["SecretID"]
        await wait_until(self._lists_itself, "Consul lists itself", _START_S)
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()

    def stop(self) -> None:
        if self._process is not None and self._process.running:
            self._process.stop()

    async def call(self, method: str, path: str, data: Any = None) -> Any:
        """One request of somebody who may do everything; its answer."""
        headers = {} if self.root is None else {"X-Consul-Token": self.root}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, self.http + path, json=data) as response,
        ):
            text = await response.text()
            assert response.status == 200, f"{method} {path}: {response.status} {text}"
            return json.loads(text) if text else None

    async def token(self, rules: str) -> str:
        """A new token with a policy of these rules (HCL)."""
        assert self.root is not None, "without ACLs there are no tokens"
        name = f"policy-{len(await self.call('GET', '/v1/acl/policies'))}"
        await self.call("PUT", "/v1/acl/policy", {"Name": name, "Rules": rules})
        made = await self.call("PUT", "/v1/acl/token", {"Policies": [{"Name": name}]})
        secret: str = made["SecretID"]
        return secret

    async def delete_token(self, secret: str) -> None:
        headers = {"X-Consul-Token": secret}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(f"{self.http}/v1/acl/token/self") as response,
        ):
            accessor = (await response.json())["AccessorID"]
        await self.call("DELETE", f"/v1/acl/token/{accessor}")

    async def _is_leader(self) -> bool:
        assert self._process is not None
        self._process.require_running()
        try:
            return bool(await self.call("GET", "/v1/status/leader"))
        except (aiohttp.ClientError, AssertionError):
            return False

    async def _lists_itself(self) -> bool:
        return bool(await self.call("GET", "/v1/health/service/consul?passing"))

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "bind_addr": "127.0.0.1",
            "datacenter": self.datacenter,
            "node_name": "consul-1",
            "log_level": "warn",
            "disable_update_check": True,
            # Elections take a fifth of the time.
            "performance": {"raft_multiplier": 1},
            "ports": {"http": self.http_port, "https": -1, **self._inner_ports},
        }
        if self.acls:
            config["acl"] = {"enabled": True, "default_policy": "deny"}
        if self.tls:
            make_certificates(self.certificates)
            config["ports"]["https"] = self.https_port
            config |= {
                "ca_file": str(self.certificates / "ca.pem"),
                "cert_file": str(self.certificates / "server.pem"),
                "key_file": str(self.certificates / "server.key"),
                "verify_incoming_https": True,
            }
        return config | self.settings


def make_certificates(folder: Path) -> None:
    """An authority of our own, and what it signed for a server on 127.0.0.1 and for a client."""
    folder.mkdir(exist_ok=True)
    if (folder / "client.pem").exists():
        return
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    authority = [
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "30",
        "-subj",
        "/CN=test authority",
    ]
    openssl("req", "-x509", *key, *authority)
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        subject = ["-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"]
        openssl("req", *key, *subject)
        signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"]
        openssl(
            "x509", "-req", "-in", f"{name}.csr", *signer, "-extfile", "san", "-out", f"{name}.pem"
        )
