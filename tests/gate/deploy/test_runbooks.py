"""Each alert leads to its runbook, each runbook belongs to an alert, and what it tells to look at is there."""

import re

import pytest

from tests.deploy.manifests import ROOT
from tests.deploy.metrics_known import faults, known
from tests.gate.deploy.test_prometheus import ALERTS, NAMES

PAGE = (ROOT / "docs" / "runbooks.md").read_text()
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
NOT_KLAMMS = {"pg_stat_activity", "max_connections", "requests_per_second", "runbook_url"}
PARTS = ["What it means.", "Look first.", "Do.", "It is over when"]


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    assert re.findall(r"^### (.*)$", PAGE, re.MULTILINE) == [*SECTIONS], "no alert has two"
    assert set(SECTIONS) == set(NAMES)
    for alert in ALERTS:
        assert alert["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert['alert'].lower()}"


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_says_what_it_means_what_to_look_at_what_to_do_and_when_it_is_over(name: str) -> None:
    assert re.findall(r"^\*\*(.+?)\*\*", SECTIONS[name], re.MULTILINE) == PARTS


def test_metrics_and_events_that_runbooks_name_are_there() -> None:
    roles = set(re.findall(r"klamm_\w+", (ROOT / "deploy" / "postgres" / "roles.sql").read_text()))
    spans = set(re.findall(r"`([^`]+)`", PAGE)) - roles - NOT_KLAMMS
    for span in spans:
        if re.search(r"\b(?:klamm_\w+|up\{|process_)", span):
            assert faults(span) == [], span
    code = "\n".join(path.read_text() for path in sorted((ROOT / "app").rglob("*.py")))
    events = {span for span in spans if re.fullmatch(r"[a-z]+(_[a-z]+)+", span)} - known().keys()
    assert len(events) > 15
    assert [event for event in sorted(events) if f'"{event}"' not in code] == []
