"""One chart: how much of the time each policy lost, and to what. SVG, written here: no library is needed for bars."""

from __future__ import annotations

from html import escape
from typing import Any

_COLOURS = {
    "detect": "#4c78a8",
    "restart": "#f58518",
    "wait": "#54a24b",
    "blind": "#b279a2",
    "person": "#e45756",
    "smaller": "#eeca3b",
    "lost_work": "#72b7b2",
    "checkpoint": "#9d9d9d",
}
_LEFT, _WIDTH, _RIGHT, _ROW, _TOP = 150, 620, 190, 34, 64


def chart(result: dict[str, Any]) -> str:
    """An SVG picture."""
    policies = result["policies"]
    shares = [policy["result"]["lost_share"] for policy in policies]
    widest = max(*(sum(share.values()) for share in shares), 1e-9)
    height = _TOP + _ROW * len(policies) + 16
    cluster = result["cluster"]
    title = f"Time lost: {cluster['nodes']} nodes, {cluster['days']:g} days, {policies[0]['result']['seeds']} seeds"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {height}">',
        "<style>text { font: 13px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="22">{escape(title)}</text>',
        *_legend(),
    ]
    for row, (policy, share) in enumerate(zip(policies, shares, strict=True)):
        top = _TOP + row * _ROW
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 16}" text-anchor="end">{escape(policy["name"])}</text>')
        left = float(_LEFT)
        for name, colour in _COLOURS.items():
            width = share[name] / widest * _WIDTH
            parts.append(
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="22" fill="{colour}">'
                f"<title>{escape(name)} {share[name] * 100:.3f} %</title></rect>"
            )
            left += width
        ettr = policy["result"]["ettr"]
        half = "" if ettr["half95"] is None else f" ± {ettr['half95'] * 100:.2f}"
        parts.append(f'<text x="{left + 8:.1f}" y="{top + 16}">ETTR {ettr["mean"] * 100:.2f}{half} %</text>')
    parts.append("</svg>\n")
    return "\n".join(parts)


def _legend() -> list[str]:
    parts: list[str] = []
    for place, (name, colour) in enumerate(_COLOURS.items()):
        left = 12 + place * 112
        parts.append(f'<rect x="{left}" y="36" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17}" y="47">{escape(name.replace("_", " "))}</text>')
    return parts
