"""The `isocost` command: finds the subcommand, turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence
from types import ModuleType

from isocost import __version__, log_format
from isocost.errors import ConfigError, IsocostError, OutputError, RejectedError
from isocost.output import printable, written_out

#: Commands in the order of `--help`; a nested command is "outer inner".
COMMANDS = {
    "demo": "isocost.cli.demo",
    "control-plane": "isocost.cli.control_plane",
    "agent": "isocost.cli.agent",
    "fake-node": "isocost.cli.fake_node",
    "bench": "isocost.cli.bench",
    "chaos": "isocost.cli.chaos",
    "status": "isocost.cli.status",
    "nodes": "isocost.cli.nodes",
    "drain": "isocost.cli.drain",
    "undrain": "isocost.cli.undrain",
    "weight": "isocost.cli.weight",
    "calibrate": "isocost.cli.calibrate",
    "topology": "isocost.cli.topology",
    "config check": "isocost.cli.config_check",
    "config schema": "isocost.cli.config_schema",
    "config bootstrap": "isocost.cli.config_bootstrap",
}

EXIT_DONE, EXIT_NO, EXIT_USAGE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

EPILOG = """exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 could not run

example: isocost demo
"""


def build_parser(modules: dict[str, ModuleType]) -> argparse.ArgumentParser:
    """The parser of every command in ``modules`` (command -> module)."""
    parser = argparse.ArgumentParser(
        prog="isocost",
        description="Equal-cost load balancer for LLM inference fleets.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"isocost {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    groups: dict[str, argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    for name, module in modules.items():
        outer, _, inner = name.partition(" ")
        target = commands
        if inner:
            if outer not in groups:
                inside = [one for key, one in modules.items() if key.startswith(f"{outer} ")]
                group = commands.add_parser(
                    outer,
                    help=f"{outer} commands",
                    epilog="examples:\n" + "".join(one.EXAMPLES for one in inside),
                    formatter_class=argparse.RawDescriptionHelpFormatter,
                )
                groups[outer] = group.add_subparsers(metavar="COMMAND", required=True)
            target = groups[outer]
        sub = target.add_parser(
            inner or outer,
            help=module.SUMMARY,
            description=module.SUMMARY,
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def _modules(arguments: Sequence[str]) -> dict[str, ModuleType]:
    """The commands that ``arguments`` may mean: a daemon does not hold the code of all the others.
    Where they name none, all of them, for the help that follows.
    """
    meant = [name for name in COMMANDS if name.split(" ")[0] in arguments[:1]]
    return {name: importlib.import_module(COMMANDS[name]) for name in meant or COMMANDS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is its exit code."""
    handler = log_format.install()
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        with written_out():
            args = build_parser(_modules(arguments)).parse_args(arguments)
            handler.setFormatter(log_format.formatter(getattr(args, "log_format", "text")))
            return int(args.run(args))
    except ConfigError as error:
        _tell(handler, printable(str(error)))
        return EXIT_USAGE
    except IsocostError as error:
        # Who has closed the pipe has read what it wanted.
        if not (isinstance(error, OutputError) and error.reader_gone):
            _tell(handler, f"isocost: {printable(str(error))}")
        return EXIT_USAGE if isinstance(error, RejectedError) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception:
        # Python would say 1, which means "no" here.
        logging.exception("isocost %s failed", __version__)
        return EXIT_FAILED


def _tell(handler: logging.Handler, text: str) -> None:
    """Why a command ends, in the log's format if that is JSON."""
    if isinstance(handler.formatter, log_format.JsonFormatter):
        logging.getLogger("isocost").error("%s", text)
    else:
        print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
