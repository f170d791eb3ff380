"""ARCHITECTURE.md's table of what a change touches, tried out in copies of `app/`.

`tests/proof/unit/core/test_future_codes.py` does the same for a new operation and a new resource type.
"""

import re
from pathlib import Path

import pytest

from tests.copies import ROOT, Edits, copy_app, run_in

REFUSAL: Edits = {
    "app/core/kafka/validation.py": [
        (
            "def _bad_principal(principal: str) -> str | None:\n",
            (
                "def _bad_principal(principal: str) -> str | None:\n"
                '    if principal == "User:nobody":\n'
                '        return "nobody may have an ACL"\n'
            ),
        )
    ]
}
REFUSED = """
import io
from app.formats.reading import Reading
from app.formats.registry import format_named, read_entries
from app.formats.source import Source
line = (b'{"resource_type": "TOPIC", "resource_name": "orders", "principal": "User:nobody", '
        b'"operation": "READ", "permission_type": "ALLOW"}')
for where, entry in read_entries(Source(io.BytesIO(line)), Reading(), format_named("jsonl")):
    print(where, entry)
"""

METRIC: Edits = {
    "app/metrics/declared.py": [
        (
            "    connections_refused: int = _counter(",
            '    full_moons: int = _counter("Full moons since the start.")\n    connections_refused: int = _counter(',
        )
    ]
}
COUNTED = """
from app.metrics.declared import Metrics
from app.metrics.page import MetricsPage
metrics = Metrics()
metrics.full_moons += 2
print(MetricsPage(metrics, "1").render().decode())
"""

JOB: Edits = {
    "app/pipeline/jobs/moons.py": [
        (
            "",
            (
                '"""`moons`: how many principals there are."""\n\n'
                "from app.pipeline.context import Job\n\n"
                'JOB = Job("moons", "count moons", lambda _: None, lambda context, arguments: 0)\n'
            ),
        )
    ],
    "app/pipeline/jobs/__init__.py": [
        ("    ingest,\n", "    ingest,\n    moons,\n"),
        ("    ingest.JOB,\n", "    ingest.JOB,\n    moons.JOB,\n"),
    ],
}
ASKED = """
from app.pipeline.job import parser_of
print(parser_of("klamm pipeline").format_help())
"""

ENDPOINT: Edits = {
    "app/rest/bodies/explain.py": [
        (
            "class ProposedAcl(Reply):",
            (
                'class MoonsRequest(Request):\n    """Which moons."""\n\n    least: int\n\n\n'
                'class MoonsReply(Reply):\n    """How many moons."""\n\n    moons: int\n\n\nclass ProposedAcl(Reply):'
            ),
        )
    ],
    "app/rest/routes/explain.py": [
        (
            "def _about(",
            (
                '@routes.post("/v1/moons", name="moons", pool="lists", example=bodies.EXPLAIN_EXAMPLE)\n'
                "async def moons(body: Body[bodies.MoonsRequest], _: CurrentAuthorizer) -> bodies.MoonsReply:\n"
                '    """Count moons."""\n'
                "    return bodies.MoonsReply(moons=body.least + 1)\n\n\ndef _about("
            ),
        )
    ],
    "app/metrics/declared.py": [('    "explain",\n', '    "explain",\n    "moons",\n')],
}
SERVED = """
from app.rest.openapi import build_openapi
document = build_openapi()
operation = document["paths"]["/v1/moons"]["post"]
print(operation["operationId"], sorted(operation["responses"]))
print(document["components"]["schemas"]["MoonsRequest"]["properties"])
"""


@pytest.mark.parametrize(
    ("edits", "program", "expected", "row"),
    [
        pytest.param(REFUSAL, REFUSED, "nobody may have an ACL", "new refusal", id="refusal"),
        pytest.param(METRIC, COUNTED, "klamm_full_moons_total 2.0", "new metric", id="metric"),
        pytest.param(JOB, ASKED, "count moons", "new job or report", id="job"),
        pytest.param(ENDPOINT, SERVED, "moons", "new endpoint over existing power", id="endpoint"),
    ],
)
def test_a_change_touches_what_the_page_says(
    edits: Edits, program: str, expected: str, row: str, tmp_path: Path
) -> None:
    copy_app(tmp_path, edits)
    assert expected in run_in(tmp_path, "-c", program)
    (cells,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    names = [path.removeprefix("app/").removesuffix(".py") for path in edits]
    rooms = [name.rpartition("/")[0] for name in names]
    missing = [
        name
        for name, room in zip(names, rooms, strict=True)
        if not any(f"`{each}`" in cells for each in (name, room, f"{room}/"))
    ]
    assert not missing, cells
