"""A node in the meta of a service instance: all of it comes back, or what is too long is named."""

from __future__ import annotations

import pytest

from isocost.config import NodeSettings
from isocost.config_file import parse
from isocost.discovery import consul_meta
from isocost.discovery.consul_meta import MAX_PAIRS, MAX_VALUE_BYTES
from isocost.model import Model, Node


def node(*models: Model, gpu_kind: str = "H100") -> Node:
    return Node("n1", "n1@1700000000", "192.0.2.1:80", "r1", "h1", gpu_kind, 8, models, 10, 2000)


def back(of: Node) -> Node:
    data, epoch = consul_meta.decode(consul_meta.encode(of))
    return parse(NodeSettings, {**data, "address": of.address}, "node").node(epoch)


def test_every_field_comes_back() -> None:
    full = Model(
        "m\u00f6del/7b", ("a", "b"), 4, 15_000_000_000, 131072, 32768, ("lora-1", "lora-2")
    )
    assert back(node(full, Model("plain"))) == node(full, Model("plain"))
    assert back(node()) == node()


def test_long_lists_are_cut_into_values_that_consul_keeps() -> None:
    many = node(*(Model(f"model-{index}", ("alias" * 20,)) for index in range(100)))
    meta = consul_meta.encode(many)
    assert len(meta) <= MAX_PAIRS
    assert max(len(value.encode()) for value in meta.values()) <= MAX_VALUE_BYTES
    assert back(many) == many


def test_models_that_do_not_fit_are_an_error_with_their_size() -> None:
    many = node(*(Model(f"model-{index}", ("alias" * 50,)) for index in range(200)))
    with pytest.raises(ValueError, match=r"models: Consul keeps at most 28672 bytes of them, they"):
        consul_meta.encode(many)


def test_a_value_that_does_not_fit_is_an_error_with_its_name() -> None:
    with pytest.raises(ValueError, match="gpu_kind: Consul keeps at most 512 bytes of it"):
        consul_meta.encode(node(gpu_kind="\u00fc" * 300))
