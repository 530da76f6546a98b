"""A state folder that cannot be used is refused at start, by name."""

from pathlib import Path

import pytest

from isocost.errors import ConfigError
from isocost.state_file import prepare


def test_a_folder_is_made_where_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    prepare(folder)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    for folder in (occupied, occupied / "below", Path("/proc/isocost")):
        with pytest.raises(ConfigError) as caught:
            prepare(folder)
        assert [error.field for error in caught.value.fields] == ["state_dir"]
