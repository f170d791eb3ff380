"""Alerts and dashboard ask for what /metrics shows, and every alert is tried."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import DEPLOY
from tests.deploy.metrics_known import faults, groupings, known, uses

RULES = yaml.safe_load((DEPLOY / "prometheus" / "klamm.rules.yaml").read_text())
TESTS = [
    test
    for path in sorted((DEPLOY / "prometheus").glob("*.test.yaml"))
    for test in yaml.safe_load(path.read_text())["tests"]
]
BOARD = json.loads((DEPLOY / "grafana" / "klamm.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAMES = [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alert_asks_for_what_there_is(alert: dict[str, Any]) -> None:
    assert faults(alert["expr"]) == []


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_an_alert_says_what_is_wrong_in_labels_that_it_has(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    shown = set(re.findall(r"\$labels\.(\w+)", " ".join(annotations.values())))
    assert shown <= (groupings(alert["expr"]) or set(known()[uses(alert["expr"])[0].name]))


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_is_seen_to_fire_and_to_be_silent(name: str) -> None:
    expected = [
        bool(case["exp_alerts"]) for test in TESTS for case in test["alert_rule_test"] if case["alertname"] == name
    ]
    assert set(expected) == {True, False}


def test_only_alerts_that_exist_are_tried() -> None:
    assert {case["alertname"] for test in TESTS for case in test["alert_rule_test"]} == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test["name"])
def test_what_alerts_are_tried_with_is_what_there_is(test: dict[str, Any]) -> None:
    for series in test["input_series"]:
        assert faults(series["series"]) == []


@pytest.mark.parametrize("expression", sorted(set(EXPRESSIONS)))
def test_the_dashboard_asks_for_what_there_is(expression: str) -> None:
    assert faults(expression) == []


def test_legends_name_labels_that_are_left() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            left = groupings(target["expr"])
            if left:
                assert shown <= left, panel["title"]
            assert target["datasource"]["uid"] == "${datasource}", "whoever imports it chooses the data source"


def test_every_panel_is_explained_and_none_covers_another() -> None:
    assert len(PANELS) >= 12
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert all(panel["description"] and panel["title"] for panel in PANELS)
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "expression",
    [
        "klamm_no_such_metric",
        'klamm_http_requests_total{verb="x"}',
        'klamm_http_requests_total{status="500"}',
        'klamm_readiness_state{state=~"READY|ASLEEP"}',
        "sum by (topic) (klamm_acl_count)",
        "rate(klamm_audit_lines_dropped[5m])",
        "1 + 1",
    ],
)
def test_an_expression_that_could_match_nothing_is_found_out(expression: str) -> None:
    assert faults(expression)
