"""Cost against size, as SVG, with matplotlib (extra ``bench``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.frame.workload import Result


def draw(results: Sequence[Result], path: Path) -> bool:
    """One panel per ``chart``, cn and floor as lines; False when there is nothing or no matplotlib."""
    charts: dict[str, list[Result]] = {}
    for result in results:
        if result.chart:
            charts.setdefault(result.chart, []).append(result)
    charts = {name: found for name, found in charts.items() if len(found) > 1}
    try:
        import matplotlib as mpl
    except ImportError:
        return False
    if not charts:
        return False
    mpl.use("svg")
    from matplotlib import pyplot as plot

    mpl.rcParams |= {"svg.hashsalt": "cn", "svg.fonttype": "none", "font.size": 8}
    columns = 3
    rows = -(-len(charts) // columns)
    figure, axes = plot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    for axis in axes.flat[len(charts) :]:
        axis.set_visible(False)
    for axis, (name, found) in zip(axes.flat, charts.items(), strict=False):
        found.sort(key=lambda r: r.size)
        sizes = [r.size for r in found]
        axis.plot(sizes, [r.cn.value for r in found], marker="o", label="cn")
        axis.plot(sizes, [r.floor.value for r in found], marker="s", linestyle="--", label=found[0].base)
        naive = [r for r in found if r.naive]
        if naive:
            values = [r.naive.value for r in naive if r.naive]
            axis.plot([r.size for r in naive], values, marker="x", linestyle=":", label="naive")
        axis.set(title=name, xscale="log", yscale="log", ylabel="bytes" if found[0].unit == "bytes" else "seconds")
        axis.grid(True, which="both", linewidth=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plot.close(figure)
    return True
