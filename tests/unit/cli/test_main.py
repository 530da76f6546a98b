"""What every command has in common: an exit code says what it is documented to say."""

from __future__ import annotations

import pytest

from isocost.cli import main as command
from isocost.cli import nodes
from isocost.errors import RejectedError, StartError


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (StartError("no port"), 3, "isocost: no port"),
        (RejectedError("no such node"), 2, "isocost: no such node"),
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("nobody thought of this"), 3, ""),
    ],
)
def test_an_error_is_never_taken_for_a_no(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(nodes, "run", fail)
    assert command.main(["nodes"]) == code
    assert said in capsys.readouterr().err
    assert ("nobody thought of this" in caplog.text) == isinstance(error, RuntimeError)
