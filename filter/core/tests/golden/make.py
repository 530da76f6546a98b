"""Makes the golden messages: what the control plane's own protobuf libraries write and expect.

Run it by the virtual environment's python with PYTHONPATH=.:control_plane.
"""

from pathlib import Path

from envoy_data_plane.envoy.config.core.v3 import Node as EnvoyNode
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryRequest, DiscoveryResponse
from envoy_data_plane.google.protobuf import Any
from envoy_data_plane.google.rpc import Status

from isocost.observe.batch import NodeObservation, PrefillSums
from isocost.v1 import observation_pb2, roster_pb2, table_pb2
from tests.unit.observation_rows import encode_nodes

HERE = Path(__file__).parent
TYPE = "type.googleapis.com/isocost.v1.Table"


def write(name: str, data: bytes) -> None:
    (HERE / f"{name}.bin").write_bytes(data)


roster = roster_pb2.Roster(version=0xFEDCBA9876543210)
for index in range(4):
    roster.nodes.add(
        id=0x8000000000000000 + index,
        name=f"gpu-{index}",
        instance_id=f"gpu-{index}@1790000000",
        address=f"10.0.0.{index + 1}:8000" if index < 3 else "[fd00::1]:8000",
        rack=f"r{index % 2}",
        host=f"h{index // 2}",
        gpu_kind="H100",
        gpu_count=8,
        models=[
            roster_pb2.Model(
                name="m",
                aliases=["a", "b"],
                weight_bits=16,
                kv_bytes_per_token=131_072,
                max_length_tokens=32_768,
                adapters=["tuned"],
            )
        ],
        min_input_tokens=index * 1000,
        max_input_tokens=8000,
    )
write("roster", roster.SerializeToString(deterministic=True))

table = table_pb2.Table(
    version=1790000000123,
    roster_version=roster.version,
    built_at_unix_ms=1790000000100,
    weight=[1.0, 0.25, 0.0, 0.5],
    entropy=[0.5, float("inf"), 0.0, 1.5],
    state=bytes([2, 1, 4, 3]),
    capacity=[1.0, 0.5, 0.0, 2.0],
    pending_tokens=[0, 300, 70_000, 1],
    open=[1, 2, 3, 4],
    kv_tokens=[10, 20, 300, 4_000_000_000],
    token_s=[0.0001, 0.0002, 0.0, 0.25],
    request_s=[0.5, 0.25, 0.0, 1.0],
    extra_s=[0.0, 0.0, 1.5, 0.0],
    kv_capacity_tokens=[0.0, 500_000.0, 0.0, 8.0],
    seen=[
        table_pb2.Seen(incarnation=7, sequence=300, share=0.75),
        table_pb2.Seen(incarnation=8),
    ],
    placements=[table_pb2.Placement(node_id=7, blocks=[1, 0xFFFFFFFFFFFFFFFF])],
)
write("table", table.SerializeToString(deterministic=True))

batch = observation_pb2.ObservationBatch(
    envoy="edge-1",
    incarnation=0x1122334455667788,
    sequence=300,
    taken_at_unix_ms=1790000000500,
    table_version=1790000000123,
    picked=3,
    fallback_no_table=1,
    fallback_stale_table=2,
    fallback_no_eligible=4,
    fallback_host_failure=5,
    stale_choices=6,
)
batch.open, batch.news = encode_nodes(
    [
        NodeObservation(
            7,
            in_flight=2,
            open_age_s_sum=0.7,
            pending_tokens=1_200,
            kv_tokens=3_400,
            started=3,
            succeeded=1,
            first_byte_count=1,
            first_byte_ms_sum=150.0,
            tpot_count=1,
            tpot_ms_sum=20.0,
            total_count=1,
            total_ms_sum=900.0,
            chunks=38,
            output_tokens=37,
            unknown_attempts=2,
            prefill=PrefillSums(2, 100_003, 2.15),
            finish_length=1,
        ),
        NodeObservation(
            0xFFFFFFFFFFFFFFFF,
            started=5,
            client_errors=1,
            rate_limited=1,
            server_errors=1,
            resets=1,
            client_aborts=1,
            failed_attempts=1,
            finish_stop=1,
            finish_tool=1,
            finish_other=1,
        ),
    ]
)
batch.placements.add(node_id=7, blocks=[1, 0xFFFFFFFFFFFFFFFF])
batch.placements.add(node_id=0xFFFFFFFFFFFFFFFF, blocks=[3])
batch.answers.add(user_bucket=1, model="m", output_tokens=37)
batch.answers.add(output_tokens=300)
write("batch", batch.SerializeToString(deterministic=True))

report = observation_pb2.ObservationReport(
    workers=observation_pb2.Workers(envoy="edge-1", live=2, expected=3)
)
write("workers", report.SerializeToString(deterministic=True))

node = EnvoyNode(id="edge-1", cluster="edge")
common = {"resource_names": ["fleet"], "type_url": TYPE}
write("subscribe", bytes(DiscoveryRequest(node=node, **common)))
write("ack", bytes(DiscoveryRequest(version_info="v7", response_nonce="n7", **common)))
refused = Status(code=3, message="the table follows another roster")
write(
    "nack",
    bytes(DiscoveryRequest(version_info="v7", response_nonce="n8", error_detail=refused, **common)),
)
resource = Any(type_url=TYPE, value=b"payload")
write(
    "response",
    bytes(DiscoveryResponse(version_info="v7", resources=[resource], type_url=TYPE, nonce="n7")),
)
