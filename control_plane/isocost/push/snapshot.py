"""What the clients should have: immutable, versioned resources, one version for each type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType

from isocost.errors import IsocostError

#: Two contents with one version would be a change that nobody is told: 128 bits rule that out.
_DIGEST_BYTES = 16


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
    _versions: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "resources", MappingProxyType(dict(self.resources)))

    def version_of(self, name: str) -> str:
        """The version of one resource: the hash of its content, made when it is first asked for.

        Of a resource that did not change it is the same in every version of the type.
        """
        version = self._versions.get(name)
        if version is None:
            version = blake2b(self.resources[name], digest_size=_DIGEST_BYTES).hexdigest()
            self._versions[name] = version
        return version

    @classmethod
    def hashed(cls, type_url: str, resources: Mapping[str, bytes]) -> TypeResources:
        """Resources whose version is the hash of their content.

        The version is then the same in every life of every control plane that says the same, and
        never one that a former life used for something else.
        """
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for name in sorted(resources):
            for part in (name.encode(), resources[name]):
                digest.update(len(part).to_bytes(8, "little"))
                digest.update(part)
        return cls(type_url, digest.hexdigest(), resources)


@dataclass(frozen=True, slots=True)
class Response:
    """What of one type goes to a client: the names of resources, and of those that are gone.

    Every one of ``names`` is in ``resources``. ``removed`` is for delta; state of the world knows
    no word for it.
    """

    resources: TypeResources
    names: tuple[str, ...]
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The published types. A type that was never published is absent, which is not empty."""

    types: Mapping[str, TypeResources] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))

    def get(self, type_url: str) -> TypeResources | None:
        return self.types.get(type_url)

    def has(self, type_url: str, name: str) -> bool:
        """Whether there is a resource of this name now."""
        held = self.types.get(type_url)
        return held is not None and name in held.resources

    def replaced(self, types: Mapping[str, TypeResources]) -> Snapshot:
        """This snapshot with the given types in place of its own."""
        return Snapshot({**self.types, **types})
