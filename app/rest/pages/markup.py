"""HTML as a type: text becomes a part of it only escaped."""

from dataclasses import dataclass
from html import escape

_VOID = frozenset({"meta", "link"})


@dataclass(frozen=True, slots=True)
class Html:
    """Finished markup."""

    # INVARIANT: nothing but `tag` and `page` makes one, and they escape whatever is text.
    markup: str


Child = Html | str


def tag(element: str, /, *children: Child, **attributes: str) -> Html:
    """An element; `class_` stands for class, and other underscores for hyphens."""
    named = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    if element in _VOID:
        return Html(f"<{element}{named}>")
    return Html(f"<{element}{named}>{_inner(children)}</{element}>")


def page(title: str, css: str, *children: Child) -> str:
    """A whole document. `css` is Klamm's own file, and the one thing that is not escaped."""
    head = (
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Without it browsers ask for /favicon.ico.
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        Html(f"<style>{css}</style>"),
    )
    html = tag("html", tag("head", *head), tag("body", *children), lang="en")
    return f"<!DOCTYPE html>\n{html.markup}\n"


def _inner(children: tuple[Child, ...]) -> str:
    return "".join(each.markup if isinstance(each, Html) else escape(each, quote=False) for each in children)
