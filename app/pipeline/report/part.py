"""One section of the page."""

from dataclasses import dataclass

from app.pipeline.report.charts import Spec

NUMBERS = "The numbers as a table"
"""What opens the table that every chart has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: `chart` is None where there is nothing to draw, and `reading` then says why."""

    name: str
    title: str
    reading: str
    chart: Spec | None = None
    controls: str = ""
    below: str = ""
