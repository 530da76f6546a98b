"""What is open on each node, as a VM knows it of its own and a table of all."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(slots=True)
class Work:
    """Of one node: prompt tokens that wait for a first token, open requests, tokens in KV."""

    pending_tokens: float = 0.0
    open: float = 0.0
    kv_tokens: float = 0.0

    def opened(self, pending_tokens: float, kv_tokens: float) -> None:
        self.pending_tokens += pending_tokens
        self.open += 1
        self.kv_tokens += kv_tokens

    def projected(self, table: Work, seen: Work, factor: float) -> Work:
        """The table with the own change since, times what that stands for; never below the own."""
        return Work(
            *(
                max(then + factor * (now - before), now)
                for now, then, before in (
                    (self.pending_tokens, table.pending_tokens, seen.pending_tokens),
                    (self.open, table.open, seen.open),
                    (self.kv_tokens, table.kv_tokens, seen.kv_tokens),
                )
            )
        )


#: One for each node.
NodeWork = list[Work]


def copied(works: NodeWork) -> NodeWork:
    return [replace(work) for work in works]


def total(parts: list[NodeWork]) -> NodeWork:
    """Of all VMs together."""
    return [
        Work(
            sum(work.pending_tokens for work in works),
            sum(work.open for work in works),
            sum(work.kv_tokens for work in works),
        )
        for works in zip(*parts, strict=True)
    ]
