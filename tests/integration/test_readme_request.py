"""The first request, word for word as the README shows it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletion

from tests.integration.harness.fleet import Fleet, decision_fields

README = Path(__file__).parents[2] / "README.md"
#: Where the README's Envoy listens; the test's own is on a free port.
GATEWAY = "http://127.0.0.1:10000"
#: How the fake engine's 16 tokens of four bytes look.
ANSWER = re.compile(r"([a-z]{3} ){16}")
RUN_S = 60.0


def snippet(language: str) -> str:
    """The only one in that language in the README's section."""
    section = README.read_text().split("\n## Send the first request\n")[1].split("\n## ")[0]
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert text.count(GATEWAY) == 1
    return text


@pytest.fixture
async def gateway(fleet: Fleet) -> Fleet:
    await fleet.start(1, "equal_cost")
    return fleet


async def run(gateway: Fleet, folder: Path, *command: str) -> str:
    """The command's output, once it ended well."""
    process = await asyncio.create_subprocess_exec(
        *(word.replace(GATEWAY, gateway.envoy.url) for word in command),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, messages = await asyncio.wait_for(process.communicate(), RUN_S)
    assert process.returncode == 0, messages.decode()
    return output.decode()


async def picked(gateway: Fleet, before: int, count: int) -> None:
    """Those requests are in the access log, all well and steered by the filter."""
    entries = (await gateway.envoy.logged(before + count))[before:]
    assert [entry["path"] for entry in entries] == ["/v1/chat/completions"] * count
    assert [entry["status"] for entry in entries] == [200] * count
    assert [decision_fields(entry)["reason"] for entry in entries] == ["picked"] * count


async def test_the_readmes_requests_are_answered(gateway: Fleet, tmp_path: Path) -> None:
    before = len(gateway.envoy.access_log())
    output = await run(gateway, tmp_path, "bash", "-c", snippet("sh"))
    answer = ChatCompletion.model_validate_json(output, strict=True)
    assert ANSWER.fullmatch(answer.choices[0].message.content or "")
    assert answer.system_fingerprint == "node-1"
    await picked(gateway, before, 1)

    output = await run(gateway, tmp_path, sys.executable, "-c", snippet("python"))
    whole, streamed = output.split("\n")
    assert ANSWER.fullmatch(whole)
    assert streamed == whole
    await picked(gateway, before + 1, 2)
