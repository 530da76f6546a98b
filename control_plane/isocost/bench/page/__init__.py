"""The page of a report: one HTML file without network, scripts or outside parts.

Reads the JSON of a report or a comparison, never the types that wrote it: an older file, or one
of a run that measured less, gives a page with dashes where nothing is known.
"""

from isocost.bench.page.render import render

__all__ = ["render"]
