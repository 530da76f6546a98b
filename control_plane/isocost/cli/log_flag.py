"""The flag of the commands that run on and log."""

from __future__ import annotations

import argparse

from isocost.log_format import FORMATS


def add_log_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="how the log on standard error is written; json: one object a line (default text)",
    )
