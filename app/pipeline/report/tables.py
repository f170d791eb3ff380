"""The same numbers as tables, for whoever can't see a chart, and lists that are read and not drawn."""

from collections.abc import Iterable, Sequence

from app.pipeline.report.text import escaped

Cell = str | int | float


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """An HTML table; the first cell of a row is its head, numbers stand to the right."""
    head = "".join(f'<th scope="col">{escaped(each)}</th>' for each in heads)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption)}"><table>'
        f"<caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, inside: str) -> str:
    """Something that is shown on demand."""
    return f"<details><summary>{escaped(summary)}</summary>{inside}</details>"


def commands(lines: Iterable[str]) -> str:
    """Shell commands, as they are to be copied."""
    return f"<pre><code>{escaped_lines(lines)}</code></pre>"


def escaped_lines(lines: Iterable[str]) -> str:
    """Each line made safe by itself, so that only the ends between them are ends of lines."""
    return "\n".join(escaped(line) for line in lines)


def _cells(row: Sequence[Cell]) -> str:
    first, *rest = row
    return f'<th scope="row">{_text(first)}</th>' + "".join(
        f'<td class="number">{_text(cell)}</td>' if isinstance(cell, int | float) else f"<td>{_text(cell)}</td>"
        for cell in rest
    )


def _text(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<bdi>{escaped(cell)}</bdi>"
    return f"{cell:,}" if isinstance(cell, int) or cell == int(cell) else f"{cell:,.1f}"
