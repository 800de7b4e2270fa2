"""Charts as SVG, readable without script, colours by class so that dark and light are the style sheet's. Pure.

The only place that makes :class:`markupsafe.Markup` of its own; every text in it is escaped by :func:`_tag`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from cn.values.text import visible

WIDE, NARROW, HEIGHT = 480, 330, 150
"""Of a chart, in its own units: as many as it has pixels where there is room."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 10, 22
_GAP = 0.28
"""The part of a step that is left free between bars."""
_LABEL = 62
"""The room of a label below a chart."""


class Series(NamedTuple):
    """The values of one colour. ``style`` is a class of the style sheet; None is nothing to draw."""

    name: str
    style: str
    values: Sequence[float | None]


class Chart(NamedTuple):
    """A chart: what it shows, in words too, and its columns. ``form`` says a value of the axis."""

    name: str
    title: str
    text: str
    labels: Sequence[str]
    form: Callable[[float], str] = lambda value: f"{value:g}"
    width: int = WIDE


def stacked(chart: Chart, series: Sequence[Series]) -> Markup:
    """Bars, the series of a column on top of each other."""
    tops = [sum(s.values[at] or 0 for s in series) for at in range(len(chart.labels))]
    frame = _Frame(chart.width, len(chart.labels), _round_up(max(tops, default=0)))
    drawn = []
    for at in range(len(chart.labels)):
        below = 0.0
        for one in series:
            value = one.values[at] or 0
            if value:
                drawn.append(_bar(frame, at, below, value, one, chart))
                below += value
    return _svg(chart, frame, drawn)


def beside(chart: Chart, series: Sequence[Series]) -> Markup:
    """Bars, the series of a column beside each other."""
    most = max((value or 0 for one in series for value in one.values), default=0)
    frame = _Frame(chart.width, len(chart.labels), _round_up(most))
    drawn = [
        _bar(frame, at, 0, value, one, chart, number, len(series))
        for number, one in enumerate(series)
        for at, value in enumerate(one.values)
        if value
    ]
    return _svg(chart, frame, drawn)


def line(chart: Chart, series: Series, most: float = 0) -> Markup:
    """Points joined by a line, which is broken where there is no value; ``most`` is the top of the axis, 0: found."""
    top = most or _round_up(max((v for v in series.values if v is not None), default=0))
    frame = _Frame(chart.width, len(chart.labels), top)
    runs: list[list[tuple[float, float]]] = [[]]
    dots = []
    for at, value in enumerate(series.values):
        if value is None:
            runs.append([])
            continue
        x, y = frame.middle(at), frame.y(value)
        runs[-1].append((x, y))
        told = _tag("title", {}, f"{chart.labels[at]}: {chart.form(value)}")
        dots.append(_tag("circle", {"cx": x, "cy": y, "r": 3.2, "class": f"dot {series.style}"}, told))
    paths = [
        _tag("path", {"d": "M" + "L".join(f"{x:g} {y:g}" for x, y in run), "class": f"line {series.style}"})
        for run in runs
        if len(run) > 1
    ]
    return _svg(chart, frame, [*paths, *dots])


class _Frame(NamedTuple):
    """The room of a chart: so many columns, an axis from 0 to ``most``."""

    width: int
    columns: int
    most: float

    @property
    def step(self) -> float:
        return (self.width - _LEFT - _RIGHT) / max(1, self.columns)

    def middle(self, at: int) -> float:
        return round(_LEFT + (at + 0.5) * self.step, 2)

    def y(self, value: float) -> float:
        return round(HEIGHT - _BOTTOM - value / self.most * (HEIGHT - _TOP - _BOTTOM), 2)


def _round_up(value: float) -> float:
    """A round number that is not below the value, and never 0."""
    if value <= 0:
        return 1
    size = 1.0
    while size < value:
        size *= 10
    while size / 10 >= value:
        size /= 10
    return next(size * part for part in (0.1, 0.2, 0.4, 0.5, 0.8, 1.0) if size * part >= value)


def _bar(
    frame: _Frame, at: int, below: float, value: float, one: Series, chart: Chart, number: int = 0, of: int = 1
) -> Markup:
    room = frame.step * (1 - _GAP)
    wide = min(room / of, 26)
    x = frame.middle(at) - wide * of / 2 + number * wide
    top, foot = frame.y(below + value), frame.y(below)
    shape = {"x": round(x, 2), "y": top, "width": round(max(wide - 1, 1), 2), "height": round(max(foot - top, 0.5), 2)}
    told = _tag("title", {}, f"{chart.labels[at]}: {chart.form(value)} {one.name}")
    return _tag("rect", {**shape, "rx": 1.5, "class": f"bar {one.style}"}, told)


def _svg(chart: Chart, frame: _Frame, drawn: Sequence[Markup]) -> Markup:
    ids = f"{chart.name}-title", f"{chart.name}-text"
    return _tag(
        "svg",
        {
            "viewBox": f"0 0 {chart.width} {HEIGHT}",
            "role": "img",
            "aria-labelledby": " ".join(ids),
            "class": "chart wide" if chart.width == WIDE else "chart",
        },
        _tag("title", {"id": ids[0]}, chart.title),
        _tag("desc", {"id": ids[1]}, chart.text),
        *_grid(chart, frame),
        *drawn,
        *_labels(chart, frame),
    )


def _grid(chart: Chart, frame: _Frame) -> list[Markup]:
    found = []
    for part in (0, 0.5, 1):
        value, y = frame.most * part, frame.y(frame.most * part)
        found.append(_tag("line", {"x1": _LEFT, "x2": chart.width - _RIGHT, "y1": y, "y2": y, "class": "rule"}))
        found.append(_tag("text", {"x": _LEFT - 6, "y": y + 3.5, "class": "tick end"}, chart.form(value)))
    return found


def _labels(chart: Chart, frame: _Frame) -> list[Markup]:
    every = max(1, -(-len(chart.labels) * _LABEL // chart.width))
    shown = range((len(chart.labels) - 1) % every, len(chart.labels), every)
    return [
        _tag("text", {"x": frame.middle(at), "y": HEIGHT - 6, "class": "tick middle"}, chart.labels[at]) for at in shown
    ]


def _tag(name: str, given: dict[str, object], *inner: str | Markup) -> Markup:
    """An element; its values and texts are escaped, unless they are elements."""
    words = "".join(f' {key}="{escape(str(value))}"' for key, value in given.items())
    inside = "".join(str(one) if isinstance(one, Markup) else str(escape(visible(one))) for one in inner)
    return Markup(f"<{name}{words}>{inside}</{name}>")  # noqa: S704  escaped above
