"""`isocost calibrate`: what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from isocost.cli.main import EXIT_FAILED, EXIT_NO, EXIT_USAGE, main
from isocost.errors import FitError
from tests.integration.harness.ports import free_port

NOBODY = ("calibrate", "--url", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    "flags",
    [
        ("--lengths", "128,x"),
        ("--lengths", "128,128"),
        ("--lengths", "8"),
        ("--concurrency", "0"),
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--kv-bytes-per-token", "0"),
        ("--gpu-count", "65"),
    ],
)
def test_values_that_cannot_be_are_refused(
    flags: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*NOBODY, *flags])
    assert caught.value.code == EXIT_USAGE
    assert f"argument {flags[0]}: {flags[1]!r} is not allowed" in capsys.readouterr().err


def test_a_url_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--url", "engine"]) == EXIT_USAGE
    assert "--url 'engine' is not allowed" in capsys.readouterr().err


def test_a_reference_needs_the_kind_that_is_compared_with_it() -> None:
    assert main([*NOBODY, "--reference", "h100.json"]) == EXIT_USAGE


def test_a_key_of_several_lines_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret\nkey")
    assert main([*NOBODY]) == EXIT_USAGE
    assert "secret" not in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_found_out_before_the_run(tmp_path: Path) -> None:
    assert main([*NOBODY, "--output", str(tmp_path / "absent" / "file")]) == EXIT_FAILED


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--url", f"http://127.0.0.1:{free_port()}"]) == EXIT_FAILED
    assert "accepts no connection" in capsys.readouterr().err


def test_no_coefficients_is_the_answer_no(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def calibrate(*_: object) -> None:
        raise FitError("too noisy")

    monkeypatch.setattr("isocost.calibrate.run.calibrate", calibrate)
    path = tmp_path / "entropy.yaml"
    assert main([*NOBODY, "--output", str(path)]) == EXIT_NO
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "isocost: too noisy\n")
    assert not path.exists()
