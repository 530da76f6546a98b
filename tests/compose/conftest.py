"""One stack for all tests here: built and started once, stopped and taken down at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    stack = Stack()
    stack.prepare()
    print(f"\nimages built in {stack.build():.0f} s", "; not to be had:", stack.missing or "none")
    stack.down()
    try:
        yield stack
    finally:
        stack.down()
