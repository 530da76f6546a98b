"""What the clients should have: immutable, versioned resources, one version for each type."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from isocost.errors import IsocostError


class SnapshotError(IsocostError):
    """A publication that would leave clients with parts that do not fit; nothing was changed."""


@dataclass(frozen=True, slots=True)
class TypeResources:
    """All resources of one type at one version.

    ``resources`` maps a resource's name to its serialised ``google.protobuf.Any``, ready to be
    placed in a DiscoveryResponse. Equal versions promise equal content.
    """

    type_url: str
    version: str
    resources: Mapping[str, bytes]

    def __post_init__(self) -> None:
        object.__setattr__(self, "resources", MappingProxyType(dict(self.resources)))

    @classmethod
    def hashed(cls, type_url: str, resources: Mapping[str, bytes]) -> TypeResources:
        """Resources whose version is the hash of their content.

        The version is then the same in every life of every control plane that says the same, and
        never one that a former life used for something else.
        """
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(resources):
            for part in (name.encode(), resources[name]):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return cls(type_url, digest.hexdigest(), resources)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The published types. A type that was never published is absent, which is not empty."""

    types: Mapping[str, TypeResources] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    def get(self, type_url: str) -> TypeResources | None:
        return self.types.get(type_url)

    def replaced(self, types: Mapping[str, TypeResources]) -> Snapshot:
        """This snapshot with the given types in place of its own."""
        return Snapshot({**self.types, **types})
