"""From matplotlib's SVG to one that is small, needs no inline style and can stand in a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
_COMMAND = re.compile(r"([MLCQz])([^MLCQz]*)")
_NO_ROTATION = re.compile(r"rotate\(-?0 ")
#: Layout used matplotlib's own font; a page has the reader's, which is seldom wider.
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def compact(svg: str, *, key: str, title: str, description: str) -> str:
    """The drawing as one ``<svg>`` element.

    ``key`` begins every id, so that drawings of one page do not meet. Styles become presentation
    attributes, which a content security policy does not forbid and a style sheet overrides.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {f"{_SVG}metadata", f"{_SVG}style"}:
                parent.remove(child)
    used = _referenced(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = _attributes(element, used, key)
        if not (element.text or "").strip():
            element.text = None
        element.tail = None
    _drop_empty_definitions(root)
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{key}-title {key}-description",
        "stroke-linejoin": "round",
        "font-family": _FONTS,
    }
    for index, (tag, text) in enumerate((("title", title), ("desc", description))):
        name = "description" if tag == "desc" else tag
        element = ElementTree.Element(tag, {"id": f"{key}-{name}"})
        element.text = text
        root.insert(index, element)
    return ElementTree.tostring(root, encoding="unicode")


def compact_path(path: str) -> str:
    """A path's data with two decimals, and horizontal and vertical lines written as such."""
    parts: list[str] = []
    here = ("", "")
    for command, arguments in _COMMAND.findall(path):
        numbers = [_short(number) for number in _NUMBER.findall(arguments)]
        if command == "L" and numbers[1] == here[1]:
            parts.append(f"H{numbers[0]}")
        elif command == "L" and numbers[0] == here[0]:
            parts.append(f"V{numbers[1]}")
        else:
            parts.append(command + " ".join(numbers))
        if numbers:
            here = (numbers[-2], numbers[-1])
    return "".join(parts)


def _referenced(root: ElementTree.Element) -> set[str]:
    names: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            names.update(_REFERENCE.findall(value))
        names.add(element.get(f"{_XLINK}href", "").removeprefix("#"))
    return names


def _attributes(element: ElementTree.Element, used: set[str], key: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for name, value in element.attrib.items():
        if name == "id":
            if value in used:
                attributes["id"] = f"{key}-{value}"
        elif name == f"{_XLINK}href":
            attributes["href"] = f"#{key}-{value.removeprefix('#')}"
        elif name == "d":
            attributes["d"] = compact_path(value)
        elif name == "style":
            attributes.update(_presentation(value, key))
        elif name == "transform" and _NO_ROTATION.match(value):
            continue
        elif name in {"x", "y"}:
            attributes[name] = _short(value)
        else:
            attributes[name] = _REFERENCE.sub(rf"url(#{key}-\1)", value)
    return attributes


def _presentation(style: str, key: str) -> dict[str, str]:
    """The properties of a style as attributes; the drawing has one family of fonts, at its root."""
    properties = (part.split(":", 1) for part in style.split(";") if ":" in part)
    return {
        name.strip(): _REFERENCE.sub(rf"url(#{key}-\1)", value.strip())
        for name, value in properties
        if name.strip() != "font-family"
    }


def _drop_empty_definitions(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {"defs", "g"} and not len(child):
                parent.remove(child)


def _short(number: str) -> str:
    """Two decimals: a hundredth of a point is below what is seen."""
    text = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
