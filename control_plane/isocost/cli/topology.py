"""`isocost topology`: which GPUs of a machine have NVLinks between them, and what that allows."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from isocost.cli.ib_text import ib_json, ib_text
from isocost.cli.topology_text import drawing, gpus_text, source_text, verdict_text
from isocost.errors import RejectedError, StartError, TopologyError
from isocost.telemetry.topology.groups import (
    Proposal,
    instead_of,
    not_linked,
    nvlink_groups,
    propose,
    weak_pairs,
)
from isocost.telemetry.topology.ib_loss import MAX_LOSS, PortLoss, port_losses
from isocost.telemetry.topology.local import TIMEOUT_S, Told, local_topology
from isocost.telemetry.topology.machine import LinkKind, Topology, pairs, ranges_text
from isocost.telemetry.topology.read import read_topology
from isocost.telemetry.topology.sysfs import Sysfs

SUMMARY = "show a machine's NVLink groups, and which GPUs fit together as inference units"
EXAMPLES = """  isocost topology
  isocost topology --tp 4
  ssh gpu-3 nvidia-smi topo -m | isocost topology --file - --tp 8 --min-nvlinks 18
  isocost topology --file topo.txt --gpus 0-3 --json
"""

#: The matrix of the largest machine has 10 kB; more is some other file.
_MAX_BYTES = 1 << 20
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file",
        metavar="FILE",
        help="output of `nvidia-smi topo -m`, or NCCL's topology XML; - is standard input "
        "(default: ask NVML, or nvidia-smi where NVML cannot be opened)",
    )
    parser.add_argument(
        "--gpus",
        type=_indices,
        metavar="LIST",
        help="only these, such as 0-3,6; without --tp: may all of them be one unit",
    )
    parser.add_argument(
        "--tp",
        type=_positive,
        metavar="N",
        help="propose inference units of N GPUs; exit 1 if no N are fully connected",
    )
    parser.add_argument(
        "--min-nvlinks",
        type=_positive,
        metavar="N",
        help="fewer NVLinks between two GPUs do not join them; exit 1 if a pair has some, but "
        "fewer, or if none has as many",
    )
    parser.add_argument(
        "--max-ib-loss",
        type=_percent,
        metavar="PERCENT",
        help="exit 1 if an InfiniBand port of this machine lost more than this part of its packets "
        f"(shown in any case: more than {MAX_LOSS * 100:g})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    sysfs = Sysfs()
    losses: list[PortLoss] = []
    if args.file is None:
        told = local_topology(sysfs, TIMEOUT_S)
        losses = port_losses(sysfs.root)
    elif args.max_ib_loss is not None:
        raise RejectedError("--max-ib-loss: the ports of this machine are not those of a file")
    else:
        told = Told(read_topology(_text(args.file)), "the file")
    most = MAX_LOSS if args.max_ib_loss is None else args.max_ib_loss
    lossy = [loss for loss in losses if loss.share > most]
    topology = told.topology
    degree = args.tp
    if args.gpus is not None:
        missing = args.gpus - set(topology.indices)
        if missing:
            raise RejectedError(
                f"--gpus: no {gpus_text(missing)} here; there are {gpus_text(topology.indices)}"
            )
        topology = topology.only(args.gpus)
        degree = degree or len(args.gpus)
    asked = degree is not None or args.min_nvlinks is not None
    if asked and not topology.nvlinks_known:
        raise TopologyError(
            f"{told.source} does not tell where the NVLinks are; "
            "give the output of nvidia-smi topo -m"
        )
    least = args.min_nvlinks or 1
    proposal = None if degree is None else propose(topology, degree, least)
    instead = None
    if proposal is not None and not proposal.units:
        instead = instead_of(topology, proposal.degree, least)
    weak = weak_pairs(topology, least)
    too_few = args.min_nvlinks is not None and (
        bool(weak) or len(not_linked(topology, least)) == len(topology.links)
    )
    if args.json:
        source = {"source": told.source, "source_reason": told.reason or None}
        answer = _json(topology, least, proposal, instead, not too_few)
        # Of a file's machine nothing is known.
        ports = {"infiniband": ib_json(losses, most) if args.file is None else None}
        print(json.dumps(source | answer | ports, indent=2))
    else:
        print(source_text(told))
        print(drawing(topology, least, told.source))
        for line in verdict_text(topology, least, proposal, instead, too_few):
            print(line)
        for line in ib_text(losses, lossy, most):
            print(line)
    failed = bool(lossy) and args.max_ib_loss is not None
    return 1 if instead is not None or too_few or failed else 0


def _percent(text: str) -> float:
    """As a share."""
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0.0 <= percent <= 100.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; it must be 0 to 100 percent")
    return percent / 100.0


def _text(file: str) -> str:
    try:
        if file == "-":
            if sys.stdin is None:
                raise StartError("cannot read standard input: it is closed")
            content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise StartError(f"cannot read {file}: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise TopologyError(f"more than {_MAX_BYTES:,} bytes; this is no topology of a machine")
    return content.decode(errors="replace")


def _json(
    topology: Topology,
    least: int,
    proposal: Proposal | None,
    instead: Proposal | None,
    enough_nvlinks: bool,
) -> dict[str, Any]:
    known = topology.nvlinks_known
    return {
        "ok": instead is None and enough_nvlinks,
        "nvlinks_known": known,
        "min_nvlinks": least,
        "gpus": [
            {
                "index": gpu.index,
                "numa_nodes": gpu.numa_nodes,
                "cpus": None if gpu.cpus is None else ranges_text(gpu.cpus),
                "own_numa_node": gpu.own_numa_node,
                "mig": gpu.mig,
                "nearest_nics": [
                    {"name": name, "link": _kind_json(kind)} for name, kind in gpu.nearest_nics
                ],
            }
            for gpu in topology.gpus
        ],
        "links": [
            {
                "gpus": pair,
                "kind": _kind_json(link.kind),
                "nvlinks": link.nvlinks if known else None,
            }
            for pair, link in ((pair, topology.link(*pair)) for pair in pairs(topology.indices))
        ],
        "groups": [
            {"gpus": group.gpus, "nvlinks": group.nvlinks}
            for group in nvlink_groups(topology, least)
        ]
        if known
        else None,
        "not_linked": not_linked(topology, least) if known else None,
        "weak": weak_pairs(topology, least) if known else None,
        "proposal": _proposal_json(proposal),
        "instead": _proposal_json(instead),
    }


def _kind_json(kind: LinkKind) -> str | None:
    return None if kind is LinkKind.UNKNOWN else kind.name


def _proposal_json(proposal: Proposal | None) -> dict[str, Any] | None:
    if proposal is None:
        return None
    return {"degree": proposal.degree, "units": proposal.units, "unused": proposal.unused}


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _indices(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise argparse.ArgumentTypeError(f"{part!r} is neither a GPU's number nor a range")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)
