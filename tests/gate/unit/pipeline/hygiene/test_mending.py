import csv
import io
from typing import Any

import pytest

from app.core.kafka.bindings import AclBinding
from app.formats.csv_cells import marked, unmarked

LINES = "a'b\n$(touch hacked)\n; `touch hacked` 😀"


def finding(name: str, kind: str = "REDUNDANT", tool: str = "kafka-acls") -> dict[str, Any]:
    from app.pipeline.history.schemas import BINDING_FIELDS
    from app.pipeline.hygiene.mending import Removal, remove_command

    fields = dict(zip(BINDING_FIELDS, ("TOPIC", name, "LITERAL", "User:a", "*", "READ", "ALLOW"), strict=True))
    rest = {"kind": kind, "acl_id": "1", "why": f"as `{name}`", "by_acl_id": None, "covered": 3, "used": None}
    return {**fields, **rest, "mend": [remove_command(Removal(kind, AclBinding.from_words(fields.values())), tool)]}


def test_csv_holds_every_column_of_every_finding() -> None:
    from app.pipeline.history.schemas import FINDINGS
    from app.pipeline.hygiene.mending import csv_lines

    text = "\n".join(csv_lines([finding(LINES)]))
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header == FINDINGS.fieldNames()
    named = dict(zip(header, row, strict=True))
    assert (named["resource_name"], named["covered"], named["used"]) == (LINES, "3", "")


def test_csv_holds_nothing_that_a_spreadsheet_runs(subtests: pytest.Subtests) -> None:
    from app.pipeline.history.schemas import FINDINGS
    from app.pipeline.hygiene.mending import csv_lines

    for name in ['=HYPERLINK("http://x")', "@SUM(1)", "+1", "-1", "\uff1dx", "a;=1"]:
        with subtests.test(name=name):
            _, row = csv.reader(io.StringIO("\n".join(csv_lines([finding(name)])), newline=""))
            cell = dict(zip(FINDINGS.fieldNames(), row, strict=True))["resource_name"]
            assert cell == marked(name) != name
            assert unmarked(cell) == name
