"""One HTML file that needs nothing else: no network, no fonts, no other file.

Its Content-Security-Policy forbids every request, and every script but the two that are in it.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from plotly.offline import get_plotlyjs

from app import __version__
from app.pipeline.report.access_part import access_part
from app.pipeline.report.figures import Figures, Head
from app.pipeline.report.history_parts import decision_parts, growth_part
from app.pipeline.report.part import Part
from app.pipeline.report.text import escaped, script_json
from app.pipeline.report.trouble_parts import flips_part, hygiene_parts


def page(figures: Figures) -> str:
    """The report as the text of an HTML file."""
    drawing, style, plotly = _resource("page.js"), _resource("page.css"), get_plotlyjs()
    parts = parts_of(figures)
    specs = {part.name: part.chart for part in parts if part.chart is not None}
    title = f"Access report: {figures.head.cluster_id}"
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy([plotly, drawing])}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">',
            f'<title>{escaped(title)}</title><link rel="icon" href="data:,">',
            f"<style>{style}</style></head><body>",
            _head(figures.head, parts),
            "<main>",
            *(_section(part) for part in parts),
            "</main>",
            f"<footer>Made by Klamm {escaped(__version__)}. This file loads nothing from anywhere.</footer>",
            f'<script type="application/json" id="specs">{script_json(specs)}</script>',
            f"<script>{plotly}</script>",
            f"<script>{drawing}</script>",
            "</body></html>",
        ]
    )


def parts_of(figures: Figures) -> list[Part]:
    """All sections in their order."""
    why = figures.asked_for
    return [
        access_part(figures.access),
        flips_part(figures.what_if, why.get("what_if")),
        *hygiene_parts(figures.hygiene, why.get("hygiene")),
        growth_part(figures.growth, why.get("growth")),
        *decision_parts(figures.decisions, why.get("decisions")),
    ]


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    # plotly sets styles one by one; images are those that it draws into a heat map.
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


_THEMES = (("", "as the system"), ("light", "light"), ("dark", "dark"))


def _head(head: Head, parts: Sequence[Part]) -> str:
    tiles = "".join(f"<div><dt>{escaped(label)}</dt><dd>{number:,}</dd></div>" for label, number in head.counts.items())
    links = "".join(f'<li><a href="#{part.name}">{escaped(_SHORT_NAMES[part.name])}</a></li>' for part in parts)
    themes = "".join(f'<option value="{value}">{label}</option>' for value, label in _THEMES)
    supers = f" {head.super_users:,} super users may do all; they count nowhere." if head.super_users else ""
    return "\n".join(
        [
            '<header><div class="title"><h1>Who may do what</h1>',
            f'<label class="theme">Colours <select id="theme">{themes}</select></label></div>',
            f"<p>Cluster <strong><bdi>{escaped(head.cluster_id)}</bdi></strong>, ACLs as of",
            f"<strong>{head.as_of:%Y-%m-%d %H:%M:%S} UTC</strong> (offset {head.offset:,}).{supers}</p>",
            f'<dl class="tiles">{tiles}</dl><nav aria-label="Charts"><ul>{links}</ul></nav>',
            '<noscript><p class="notice">Without JavaScript there are no charts; the tables have their numbers.</p>',
            '</noscript><p class="notice" id="fault" role="alert" hidden></p></header>',
        ]
    )


_SHORT_NAMES = {
    "access": "Access",
    "what-if": "What if",
    "hygiene": "Hygiene",
    "offenders": "By principal",
    "growth": "Growth",
    "decisions": "Decisions",
    "busiest": "Busiest",
}


def _section(part: Part) -> str:
    chart = controls = ""
    if part.chart is not None:
        label = f"{part.title}. The same numbers follow as a table."
        chart = (
            '<div class="scroll" tabindex="0" role="region" aria-label="Chart, may be scrolled"><div class="chart" '
            f'id="chart-{part.name}" role="img" aria-label="{escaped(label)}"></div></div>'
        )
    if part.controls:
        controls = f'<div class="controls">{part.controls}</div>'
    reading = f'<p class="{"reading" if part.chart else "empty"}">{escaped(part.reading)}</p>'
    title = f'<h2 id="title-{part.name}">{escaped(part.title)}</h2>'
    body = f"{title}{reading}{controls}{chart}{part.below}"
    return f'<section id="{part.name}" aria-labelledby="title-{part.name}">{body}</section>'
