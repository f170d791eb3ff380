"""Descriptions as the document has them, as HTML: paragraphs, and code between backticks."""

from collections.abc import Iterator

from app.rest.pages.markup import Child, Html, tag


def paragraphs(text: str) -> Iterator[Html]:
    """A paragraph for each that is divided from the next by an empty line."""
    for each in text.split("\n\n"):
        yield tag("p", *code_spans(each))


def code_spans(text: str) -> Iterator[Child]:
    """The text, and what stands between two backticks as code."""
    parts = text.split("`")
    for at, part in enumerate(parts):
        is_code = at % 2 == 1
        if is_code and at == len(parts) - 1:
            # The last backtick has no second one.
            yield f"`{part}"
        else:
            yield tag("code", part) if is_code else part
