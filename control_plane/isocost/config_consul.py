"""The settings of Consul: how it is reached, and what is followed or registered there."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from isocost.config_types import AbsolutePath, StrictSettings
from isocost.errors import FieldError

#: A name, an IPv4 address, or an IPv6 address in brackets; and a port.
_ADDRESS = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")


#: What it checks, but for the port's range.
_ADDRESS_SCHEMA = WithJsonSchema({"type": "string", "pattern": r"^https?://.+:[0-9]{1,5}$"})


def _address(value: str) -> str:
    match = _ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ValueError("must be http://HOST:PORT or https://HOST:PORT")
    return value


#: A DNS label, so that Consul's DNS can serve it as well.
_Label = Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$")]
#: As Consul allows them.
_Name = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_-]+$")]


class ConsulSettings(StrictSettings):
    """How Consul is reached, and the service whose instances are the nodes."""

    address: Annotated[str, AfterValidator(_address), _ADDRESS_SCHEMA] = "http://127.0.0.1:8500"
    service: _Label = "isocost-node"
    #: Consul Enterprise only; None = the token's own.
    namespace: _Name | None = None
    #: Read for each request, so that a token can be replaced while we run.
    token_file: AbsolutePath | None = None
    #: None = the machine's authorities.
    ca_file: AbsolutePath | None = None
    #: The client's certificate, where Consul asks for one.
    cert_file: AbsolutePath | None = None
    key_file: AbsolutePath | None = None

    def contradictions(self) -> list[FieldError]:
        errors = []
        if (self.cert_file is None) != (self.key_file is None):
            lacking = "key_file" if self.key_file is None else "cert_file"
            errors.append(FieldError(lacking, None, "cert_file and key_file belong together"))
        if self.address.startswith("http:"):
            errors += [
                FieldError(field, value, "only with an address that begins with https://")
                for field in ("ca_file", "cert_file", "key_file")
                if (value := getattr(self, field)) is not None
            ]
        return errors


class ConsulDiscoverySettings(ConsulSettings):
    """What a control plane follows."""

    #: None = that of the Consul agent which is asked.
    datacenter: _Name | None = None


class ConsulRegistrationSettings(ConsulSettings):
    """What an agent registers."""

    #: Consul calls a node's check critical after this long without a heartbeat. Three of them fit
    #: in; longer than 15 s a dead machine would not be seen in time.
    check_ttl_s: int = Field(10, ge=2, le=15)
