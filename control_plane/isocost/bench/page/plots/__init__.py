"""The plots: each takes a report's JSON and gives SVG text, or None where there is nothing."""

from isocost.bench.page.plots.heat_map import heat_map
from isocost.bench.page.plots.node_balance import node_balance
from isocost.bench.page.plots.node_share import BASIS, node_share
from isocost.bench.page.plots.ratios import ratios
from isocost.bench.page.plots.timeline import timeline
from isocost.bench.page.plots.ttft_cdf import ttft_cdf

__all__ = ["BASIS", "heat_map", "node_balance", "node_share", "ratios", "timeline", "ttft_cdf"]
