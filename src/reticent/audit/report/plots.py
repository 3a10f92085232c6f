"""Plots of a report: plain SVG, readable without colour and by screen readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from reticent.audit.membership.curve import TradeOff
from reticent.audit.membership.result import AttackPoint

_WIDTH, _HEIGHT = 460, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 26, 14, 52
Point = tuple[float, float]


@dataclass(frozen=True)
class PlotArea:
    """Maps a chart's numbers to positions on the page."""

    low: float
    high: float
    logarithmic: bool = False

    def x(self, value: float) -> float:
        """Return the position of a number on the horizontal axis."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(value)
        return _LEFT + (at - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    @staticmethod
    def y(value: float, low: float = 0.0, high: float = 1.0) -> float:
        """Return the position of a number on the vertical axis."""
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def trade_off_picture(
    curves: Sequence[tuple[str, TradeOff]],
    attacks: Sequence[tuple[str, str, Sequence[AttackPoint]]],
) -> str:
    """Draw what is allowed, and what attacks reached.

    There are at most two `curves`, each with its name; the first is drawn as an area.
    An attack has a name, a class, and observed rates with their intervals.
    """
    frame = PlotArea(0.0, 1.0)
    rates = np.concatenate([np.geomspace(1e-6, 1e-2, 40), np.linspace(0.01, 1, 100)])
    body, legend = [], []
    for place, (name, curve) in enumerate(curves):
        most = curve.true_positives_at_most(rates)
        line = _path((frame.x(a), frame.y(b)) for a, b in zip(rates, most, strict=True))
        if place == 0:
            corner = f"L {frame.x(1):.1f} {frame.y(0):.1f} L {frame.x(0):.1f} "
            body.append(f'<path class="area" d="{line} {corner}{frame.y(0):.1f} Z"/>')
        body.append(f'<path class="curve c{place}" d="{line}"/>')
        legend.append((f"curve c{place}", name))
    blind = _path([(frame.x(0), frame.y(0)), (frame.x(1), frame.y(1))])
    body.append(f'<path class="blind" d="{blind}"/>')
    legend.append(("blind", "blind guessing"))
    for name, style, points in attacks:
        body += [_cross(frame, point, style) for point in points]
        legend.append((f"mark {style}", name))
    described = "; ".join(
        f"{name}: at 5 in 100 wrong accusations at most "
        f"{100 * float(curve.true_positives_at_most(0.05)):.0f} in 100 found"
        for name, curve in curves
    )
    return _chart(
        "What an attacker can find out: allowed and observed",
        f"Curves of found members against wrong accusations. {described}.",
        [
            _axes(frame, [0, 0.25, 0.5, 0.75, 1], "wrongly accused", percent=True),
            *body,
        ],
        "members found",
        legend,
    )


def growth_picture(guesses: Sequence[tuple[int, float]], answers: int) -> str:
    """Draw how often a guess can be right, by the number of answers seen."""
    counts = [count for count, _ in guesses]
    frame = PlotArea(counts[0], max(counts[-1], counts[0] + 1), logarithmic=True)
    line = _path((frame.x(n), frame.y(share, 0.5)) for n, share in guesses)
    dots = [
        f'<circle class="{"chosen" if n == answers else "dot"}" r="4.5" '
        f'cx="{frame.x(n):.1f}" cy="{frame.y(share, 0.5):.1f}"/>'
        for n, share in guesses
    ]
    ticks = [n for n in (1, 10, 100, 1000, 10_000) if counts[0] <= n <= counts[-1]]
    said = ", ".join(f"{n} answers {100 * share:.0f} %" for n, share in guesses)
    return _chart(
        "How often a guess can be right, by answers seen",
        f"A rising line, from 50 % for blind guessing: {said}.",
        [
            _axes(frame, ticks, "answers seen", floor=0.5),
            f'<path class="curve c0" d="{line}"/>',
            *dots,
        ],
        "right guesses",
        [],
    )


def bars_picture(rows: Sequence[tuple[str, float, str]], limit: float) -> str:
    """Draw losses (name, value, class) as bars beside the promised limit, a line."""
    step, left = 46, 178
    height = step * len(rows) + 40
    most = max([limit, *(value for _, value, _ in rows)]) * 1.08 or 1.0
    scale = (_WIDTH - left - 56) / most
    parts = []
    for place, (name, value, style) in enumerate(rows):
        top = place * step + 10
        parts.append(
            f'<text class="name" x="{left - 10}" y="{top + 20}">{escape(name)}</text>'
            f'<rect class="{style}" x="{left}" y="{top + 4}" height="24" rx="3" '
            f'width="{max(1.5, value * scale):.1f}"/>'
            f'<text class="value" x="{left + value * scale + 7:.1f}" y="{top + 21}">'
            f"{value:.3g}</text>"
        )
    at, foot = left + limit * scale, step * len(rows) + 12
    # Drawn first, so that numbers stay on top of it.
    parts.insert(0, f'<path class="limit" d="M {at:.1f} 4 V {foot}"/>')
    parts.append(f'<text class="tick" x="{at:.1f}" y="{foot + 17}">promised</text>')
    said = "; ".join(f"{name} {value:.3g}" for name, value, _ in rows)
    return _svg(
        "Privacy loss: promised and found",
        f"Bars, with the promise of {limit:.3g} as a line: {said}.",
        parts,
        height,
    )


def _cross(frame: PlotArea, point: AttackPoint, style: str) -> str:
    (fpr, fpr_low, fpr_high), (tpr, low, high) = (
        point.false_positive_rate,
        point.true_positive_rate,
    )
    x, y = frame.x(fpr), frame.y(tpr)
    shape = (
        f'<circle class="mark {style}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        if style == "ours"
        else f'<rect class="mark {style}" x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" '
        'width="9" height="9"/>'
    )
    across = f"M {frame.x(fpr_low):.1f} {y:.1f} H {frame.x(fpr_high):.1f}"
    along = f"M {x:.1f} {frame.y(low):.1f} V {frame.y(high):.1f}"
    return f'<path class="whisker {style}" d="{across} {along}"/>{shape}'


def _axes(
    frame: PlotArea,
    ticks: Sequence[float],
    label: str,
    *,
    percent: bool = False,
    floor: float = 0.0,
) -> str:
    """Return grid, ticks and the name of the horizontal axis."""
    base, parts = frame.y(floor, floor), []
    for share in np.linspace(floor, 1, 6 if floor else 5):
        y = frame.y(float(share), floor)
        parts.append(f'<path class="grid" d="M {_LEFT} {y:.1f} H {_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="tick side" x="{_LEFT - 8}" y="{y + 4:.1f}">'
            f"{100 * share:.0f} %</text>"
        )
    for tick in ticks:
        shown = f"{100 * tick:.0f} %" if percent else f"{tick:,.0f}"
        x = frame.x(tick)
        parts.append(f'<path class="grid" d="M {x:.1f} {_TOP} V {base:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{base + 18:.1f}">{shown}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{base + 40:.1f}">{escape(label)}</text>'
    )
    return "".join(parts)


def _chart(
    title: str,
    described: str,
    body: Sequence[str],
    side: str,
    legend: Sequence[tuple[str, str]],
) -> str:
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    turned = (
        f'<text class="label" transform="translate(14 {middle}) rotate(-90)">'
        f"{escape(side)}</text>"
    )
    keys = []
    for place, (style, name) in enumerate(legend):
        y = _HEIGHT + 12 + 21 * place
        sign = (
            f'<circle class="{style}" cx="{_LEFT + 12}" cy="{y}" r="5"/>'
            if "ours" in style
            else f'<rect class="{style}" x="{_LEFT + 7}" y="{y - 5}" width="10" '
            'height="10"/>'
            if "mark" in style
            else f'<path class="{style}" d="M {_LEFT} {y} h 24"/>'
        )
        keys.append(
            f'{sign}<text class="key" x="{_LEFT + 34}" y="{y + 5}">'
            f"{escape(name)}</text>"
        )
    height = _HEIGHT + (21 * len(legend) + 6 if legend else 0)
    return _svg(title, described, [*body, turned, *keys], height)


def _svg(title: str, described: str, parts: Iterable[str], height: int) -> str:
    name = "".join(letter for letter in title.lower() if letter.isalpha())
    return (
        f'<svg role="img" aria-labelledby="{name}-t {name}-d" '
        f'viewBox="0 0 {_WIDTH} {height}" xmlns="http://www.w3.org/2000/svg">'
        f'<title id="{name}-t">{escape(title)}</title>'
        f'<desc id="{name}-d">{escape(described)}</desc>' + "".join(parts) + "</svg>"
    )


def _path(points: Iterable[Point]) -> str:
    return "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)
