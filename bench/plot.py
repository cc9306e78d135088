#!/usr/bin/python3
"""plot.py - draws the numbers of a benchmark as SVG that reads well on a light and on a dark page: dark text on a light card

    plot.py RESULT.json PICTURE.svg

Knows the files of scale_out. The pictures of the documentation are drawn from glance.json and scale_out.json. Their
figures are those of docs/benchmarks.md (glance.json has rates as times: 1 / ratio).
Needs matplotlib.
"""

import json
import sys

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

INK, CARD, MEASURED, LINE = "#24292f", "#f6f8fa", "#0969da", "#bf8700"
TITLES = {"copy": "COPY, rows a second", "group": "1,000 groups, rows a second", "point": "point reads a second", "range": "sums over 100 keys a second"}


def scale_out(result):
    works = list(result["works"])
    figure, panels = pyplot.subplots(1, len(works), figsize=(3.3 * len(works), 3), squeeze=False)
    for axes, work in zip(panels[0], works):
        axes.plot(result["sizes"], result["lines"][work], "--", color=LINE, label="as one node" if work == "range" else "linear")
        axes.plot(result["sizes"], result["works"][work]["rate"], "o-", color=MEASURED, label="measured")
        axes.set_title(TITLES[work], color=INK, fontsize=10)
        axes.set_xlabel(f"nodes of {result['share']:g} core", color=INK, fontsize=9)
        axes.set_xticks(result["sizes"])
        axes.set_ylim(0, 1.1 * max(result["lines"][work] + result["works"][work]["rate"]))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}")
        axes.legend(frameon=False, labelcolor=INK, fontsize=8, loc="lower right" if work == "range" else "upper left")
    return figure


def glance(result):
    names = [name for name, _ in result["ratios"]][::-1]
    ratios = [ratio for _, ratio in result["ratios"]][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.32 * len(names) + 0.8))
    axes.barh(names, ratios, color=[MEASURED if ratio <= 1 else LINE for ratio in ratios], height=0.65)
    axes.axvline(1, color=INK, linewidth=1)
    for y, ratio in enumerate(ratios):
        axes.text(ratio + 0.03, y, f"{ratio:.2f}", color=INK, fontsize=9, va="center")
    axes.set_xlim(0, max(ratios) * 1.15)
    axes.set_xlabel("relative time (plain table = 1.0; shorter is faster)", color=INK, fontsize=9)
    return figure


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    # Text stays text, and equal numbers give an equal file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "shardfdw", "font.family": "sans-serif"})
    figure = {"scale_out": scale_out, "glance": glance}[result["benchmark"]](result)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
        axes.tick_params(colors=INK, labelsize=8)
        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(INK)
    figure.tight_layout()
    figure.savefig(sys.argv[2], facecolor=CARD, metadata={"Date": None})


if __name__ == "__main__":
    main()
