"""The page of a report: one HTML file without network, scripts or outside parts.

Reads the JSON of a report or a comparison: what the run did not measure is a dash.
"""

from isocost.bench.page.render import render

__all__ = ["render"]
