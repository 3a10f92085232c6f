"""Charts as plain geometry for the templates: columns, axes and legends."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.service.activity import HOUR

#: The size of a chart in its own units; it is stretched to the page.
WIDTH, HEIGHT = 960, 200
#: Series with a colour of their own; the others are added up.
MOST_SERIES = 6
_N_TICKS = 5


@dataclass(frozen=True)
class Window:
    """How far back a chart looks, and in what steps."""

    name: str
    hours: int
    step: int
    words: str

    def starts(self, now: int) -> list[int]:
        """Return the hours with which steps begin, and the one that ends the last."""
        end = (now // HOUR // self.step + 1) * self.step
        return list(range(end - self.hours, end + self.step, self.step))


WINDOWS = {
    window.name: window
    for window in (
        Window("1d", 24, 1, "24 hours"),
        Window("2d", 48, 1, "48 hours"),
        Window("7d", 7 * 24, 6, "7 days"),
        Window("30d", 30 * 24, 24, "30 days"),
        Window("90d", 90 * 24, 72, "90 days"),
    )
}


def chart(
    series: Mapping[str, Sequence[float]],
    starts: Sequence[int],
    *,
    top: float | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Return columns, one on top of the other, with the texts of both axes.

    Parameters
    ----------
    series : mapping of str to sequence of float
        Values by name, one for each step.
    starts : sequence of int
        The hours with which steps begin, and the one that ends the last.
    top : float, optional
        The end of the vertical axis; the next round number by default.
    unit : str, default=""
        Follows the numbers of the vertical axis.
    """
    shown = _largest(series)
    count = len(starts) - 1
    totals = [sum(values[place] for values in shown.values()) for place in range(count)]
    high = top or _round_up(max(totals, default=0.0))
    step = WIDTH / count
    gap = min(4.0, step / 5)
    columns = []
    for place in range(count):
        y, when = float(HEIGHT), _moment(starts[place])
        for colour, (name, values) in enumerate(shown.items()):
            height = HEIGHT * min(values[place], high) / high
            if not height:
                continue
            y -= height
            told = f"{when}: {_text(values[place])}{unit}"
            columns.append(
                {
                    "x": round(place * step + gap / 2, 2),
                    "y": round(y, 2),
                    "width": round(step - gap, 2),
                    "height": round(height, 2),
                    "colour": colour,
                    "text": f"{name}, {told}" if name else told,
                }
            )
    return {
        "columns": columns,
        "width": WIDTH,
        "height": HEIGHT,
        "high": [f"{_text(high * part / 2)}{unit}" for part in (2, 1, 0)],
        "along": _ticks(starts),
        "legend": list(enumerate(shown)) if any(shown) else [],
        "rows": [
            (_moment(starts[place]), f"{_text(totals[place])}{unit}")
            for place in reversed(range(count))
            if totals[place]
        ],
    }


def _largest(series: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the largest series by name, the rest added up."""
    order = sorted(series, key=lambda name: (-sum(series[name]), name))
    if len(order) <= MOST_SERIES:
        return {name: series[name] for name in order}
    kept = {name: series[name] for name in order[: MOST_SERIES - 1]}
    rest = [series[name] for name in order[MOST_SERIES - 1 :]]
    kept[f"{len(rest)} others"] = [sum(step) for step in zip(*rest, strict=True)]
    return kept


def _round_up(value: float) -> float:
    """Return the next number that reads well at the end of an axis, and its half."""
    if not value > 0:
        return 2.0
    power = 10.0 ** math.floor(math.log10(value))
    return max(2.0, next(k * power for k in (1, 2, 4, 6, 8, 10) if k * power >= value))


def _text(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def _moment(hour: int) -> str:
    return time.strftime("%d %b, %H:00 UTC", time.gmtime(hour * HOUR))


def _ticks(starts: Sequence[int]) -> list[str]:
    """Return the texts below a chart, evenly spaced from its start to its end."""
    span = starts[-1] - starts[0]
    form = "%H:00" if span <= 24 else "%d %b %H:00" if span <= 48 else "%d %b"
    places = [starts[0] + span * k // (_N_TICKS - 1) for k in range(_N_TICKS - 1)]
    return [time.strftime(form, time.gmtime(hour * HOUR)) for hour in places] + ["now"]
