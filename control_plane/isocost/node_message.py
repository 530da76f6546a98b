"""A node as the message that agents announce and the roster carries."""

from __future__ import annotations

from isocost.model import Model, Node
from isocost.v1 import roster_pb2


def encode_node(node: Node) -> roster_pb2.Node:
    return roster_pb2.Node(
        id=node.id,
        name=node.name,
        instance_id=node.instance_id,
        address=node.address,
        rack=node.rack,
        host=node.host,
        gpu_kind=node.gpu_kind,
        gpu_count=node.gpu_count,
        models=[_model(model) for model in node.models],
        min_input_tokens=node.min_input_tokens,
        max_input_tokens=node.max_input_tokens,
    )


def _model(model: Model) -> roster_pb2.Model:
    return roster_pb2.Model(
        name=model.name,
        aliases=model.aliases,
        weight_bits=model.weight_bits,
        weight_bytes=model.weight_bytes,
        kv_bytes_per_token=model.kv_bytes_per_token,
        max_length_tokens=model.max_length_tokens,
        adapters=model.adapters,
    )
