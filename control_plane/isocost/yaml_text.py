"""YAML as plain data; an error says where and what, but not the text there: it may be secret."""

from __future__ import annotations

import re
from typing import Any

import yaml

from isocost.errors import told_key

#: The beginning of a message of PyYAML that quotes nothing but single characters and names of
#: tokens: what else it quotes (tags, aliases) is the file's text.
_UNQUOTED = re.compile(r"""(?:[^'"]|(['"])(?:<[a-z ]+>|\\?.)\1)*""")


class _Loader(yaml.SafeLoader):
    """Of two equal keys YAML itself would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[object] = set()
        for place, _ in node.value:
            key = self.construct_object(place, deep=True)
            try:
                twice = key in keys
            except TypeError:
                # A list or a mapping; PyYAML has words for that.
                continue
            if twice:
                problem = f"the key {told_key(key)} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, place.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            # What PyYAML itself fails with on impossible dates, and after a tag such as !!int.
            problem = f"not a possible {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def parse_yaml(text: str) -> Any:
    """ValueError says the line, the column and what is wrong there."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        raise ValueError(_words(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ValueError(f"line {line}: a character that YAML does not allow") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("it is nested too deeply") from error


def _words(error: yaml.MarkedYAMLError) -> str:
    words = _unquoted(error.problem or "an error")
    mark, begin = error.problem_mark, error.context_mark
    if mark is not None:
        words = f"line {mark.line + 1}, column {mark.column + 1}: {words}"
    if error.context and begin is not None:
        # Of a quote that is not closed, the end of the file says little.
        words += f" ({_unquoted(error.context)} that begins in line {begin.line + 1})"
    return words


def _unquoted(words: str) -> str:
    match = _UNQUOTED.match(words)
    return match[0].rstrip(" ,;:") if match else ""
