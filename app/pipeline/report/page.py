"""One HTML file that needs nothing else: no network, no fonts, no other file.

Its Content-Security-Policy forbids every request, and every script but those that are in it. Only the driver loads
this module: jinja2 and plotly may be missing on executors.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from app import __version__
from app.core.readable import visible
from app.pipeline.report.figures import Figures
from app.pipeline.report.sections import sections_of
from app.pipeline.report.text import script_json


def page(figures: Figures) -> str:
    scripts = [get_plotlyjs(), _resource("page.js")]
    sections = sections_of(figures)
    specs = {each.name: each.chart for each in sections if each.chart is not None}
    return (
        _environment()
        .from_string(_resource("page.html.j2"))
        .render(
            head=figures.head,
            sections=sections,
            policy=_policy(scripts),
            style=_trusted(_look() + _resource("page.css")),
            specs=_trusted(script_json(specs)),
            scripts=[_trusted(each) for each in scripts],
            version=__version__,
        )
    )


def _environment() -> Environment:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = _number
    # A command with a name spelled out must not be copied: it would be about another name.
    environment.filters["are_plain"] = lambda texts: all(visible(text) == text for text in texts)
    return environment


def _finalized(value: object) -> object:
    # INVARIANT: every text that a template prints is made visible, and then escaped; only Markup of ours is neither.
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _trusted(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - our own files, plotly's script, and JSON in which `script_json` escapes tags


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _look() -> str:
    """The style sheet that the console shares; it belongs to neither room."""
    return (files("app") / "look.css").read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    # plotly sets styles one by one; images are those that it draws into a heat map.
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
