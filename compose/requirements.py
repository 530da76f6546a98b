"""Prints the pinned requirements of pyproject.toml, one a line, so that an image can have them in a
layer of their own: `requirements.py dependencies redis`, where each name is "dependencies", an
extra, or "build-system".
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())
groups = {
    "dependencies": project["project"]["dependencies"],
    "build-system": project["build-system"]["requires"],
    **project["project"]["optional-dependencies"],
}
print("\n".join(requirement for name in sys.argv[1:] for requirement in groups[name]))
