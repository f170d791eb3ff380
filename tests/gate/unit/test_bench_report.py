"""What the bench says of a bar is what was measured."""

import re
from pathlib import Path

import pytest

from tests.bench.report import Row, Section, Table, markdown, percentile, verdicts


def test_verdict_compares_the_median_with_the_bar(subtests: pytest.Subtests) -> None:
    for row, verdict in [
        (Row("no bar", "ms", [5]), ""),
        (Row("median under the bar", "ms", [1, 5, 99], bar=5), "held"),
        (Row("median under the goal", "ms", [1, 2, 99], bar=5, goal=2), "held, goal too"),
        (Row("median over the goal", "ms", [1, 3, 99], bar=5, goal=2), "held"),
        (Row("median over the bar", "ms", [1, 6, 99], bar=5, goal=2), "**not held** (by 20%)"),
        (Row("too few", "ACLs/s", [4_000], bar=5_000, at_least=True), "**not held** (by 20%)"),
        (Row("enough", "ACLs/s", [5_000], bar=5_000, at_least=True), "held"),
        (Row("ratio held", "us", [24, 36], [20, 30], bar=1.25, goal=1.15, of_ratio=True), "held"),
        (Row("ratio not held", "us", [30, 45], [20, 30], bar=1.25, of_ratio=True), "**not held** (by 20%)"),
        (Row("nothing came of it", "ms", [], bar=5), "not measured"),
    ]:
        with subtests.test(row=row, verdict=verdict):
            assert row.verdict == verdict


def test_summary_counts_bars_and_names_those_that_are_not_held() -> None:
    rows = [Row("fast", "ms", [1], bar=5), Row("slow", "ms", [10], bar=5), Row("unjudged", "ms", [10])]
    assert verdicts([Section("one", "", [Table("t", rows)])]) == (1, ["one, slow: **not held** (by 100%)"])


def test_table_shows_medians_with_their_spread_beside_the_yardstick() -> None:
    shown = markdown(Table("Cost", [Row("a request", "us", [20, 24, 22], [10, 12, 11])], "empty route", ["quietly"]))
    assert "| a request | us   | 22.0 (20.0-24.0) | 11.0 (10.0-12.0) | 2.00 (2.00-2.00) |" in shown
    assert shown.startswith("### Cost\n")
    assert shown.endswith("- quietly")


def test_percentile_of_few_values_is_one_of_them() -> None:
    assert [percentile([3, 1, 2], share) for share in (0, 0.5, 0.99, 1)] == [1, 2, 3, 3]


def test_each_figure_of_the_page_that_people_read_stands_in_the_tables() -> None:
    docs = Path(__file__).parents[3] / "docs"
    tables = (docs / "benchmarks-tables.md").read_text(encoding="utf-8")
    page = (docs / "benchmarks.md").read_text(encoding="utf-8")
    figures = re.findall(r"(?<![\w.,])(\d[\d,.]*\d) (?:us|ms|s|bytes)\b", page)
    assert len(figures) > 20
    assert [figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d])", tables)] == []
