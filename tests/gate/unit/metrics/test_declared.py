"""What Prometheus reads."""

from dataclasses import fields

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.core.verdicts import Verdict
from app.metrics.declared import READINESS_STATES, Histogram, Metrics
from app.metrics.page import MetricsPage
from app.runtime.readiness import State


def samples(metrics: Metrics) -> dict[str, float]:
    """Every sample by name and labels."""
    page = MetricsPage(metrics, "1.2.3").render().decode()
    found = {}
    for family in text_string_to_metric_families(page):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_every_plain_metric_shows_its_attribute() -> None:
    metrics = Metrics(acl_count=7, feed_age_seconds=1.5, audit_lines_dropped=3)
    found = samples(metrics)
    assert found["klamm_acl_count"] == 7
    assert found["klamm_feed_age_seconds"] == 1.5
    assert found["klamm_audit_lines_dropped_total"] == 3
    assert found["klamm_build_info{version=1.2.3}"] == 1


def test_what_the_decision_log_loses_is_shown_by_reason_from_the_start() -> None:
    metrics = Metrics(decision_log_lines=5, decision_log_bytes=700, decision_log_faults=2, decision_log_files_deleted=1)
    metrics.decision_log_dropped["disk"] += 3
    found = samples(metrics)
    assert {name: value for name, value in found.items() if "decision_log" in name} == {
        "klamm_decision_log_lines_total": 5,
        "klamm_decision_log_bytes_total": 700,
        "klamm_decision_log_dropped_total{reason=buffer}": 0,
        "klamm_decision_log_dropped_total{reason=disk}": 3,
        "klamm_decision_log_faults_total": 2,
        "klamm_decision_log_files_deleted_total": 1,
    }


def test_the_count_of_acls_is_unknown_before_the_first_load() -> None:
    assert samples(Metrics())["klamm_acl_count"] == -1


def test_every_number_is_shown_once_under_its_attributes_name() -> None:
    metrics = Metrics()
    plain = [each.name for each in fields(metrics) if each.type in (int, float)]
    for value, name in enumerate(plain, 1000):
        setattr(metrics, name, value)
    shown = {value: name for name, value in samples(metrics).items() if value >= 1000 and name.startswith("klamm_")}
    assert [shown[value].removesuffix("_total") for value in sorted(shown)] == [f"klamm_{name}" for name in plain]


def test_local_and_remote_time_of_updates_are_histograms_by_request() -> None:
    metrics = Metrics()
    metrics.request_local_time_seconds["createAcls"].observe(0.002)
    metrics.request_remote_time_seconds["deleteAcls"].observe(100.0)
    found = samples(metrics)
    assert found["klamm_request_local_time_seconds_count{request=createAcls}"] == 1
    assert found["klamm_request_local_time_seconds_bucket{le=0.001,request=createAcls}"] == 0
    assert found["klamm_request_local_time_seconds_bucket{le=0.0025,request=createAcls}"] == 1
    assert found["klamm_request_remote_time_seconds_bucket{le=10.0,request=deleteAcls}"] == 0
    assert found["klamm_request_remote_time_seconds_bucket{le=+Inf,request=deleteAcls}"] == 1
    assert found["klamm_request_remote_time_seconds_sum{request=deleteAcls}"] == 100


def test_one_readiness_state_is_on() -> None:
    found = samples(Metrics(readiness_state="LAGGING"))
    states = {state: found[f"klamm_readiness_state{{state={state}}}"] for state in READINESS_STATES}
    assert [state for state, value in states.items() if value] == ["LAGGING"]


def test_the_readiness_states_are_those_of_the_runtime() -> None:
    assert {state.value for state in State} == set(READINESS_STATES)


def test_decisions_are_counted_by_result_and_rule() -> None:
    metrics = Metrics()
    metrics.count_verdicts([Verdict.DENIED_BY_ACL, Verdict.SUPER_USER, Verdict.DENIED_BY_ACL])
    metrics.count_verdicts([])
    found = samples(metrics)
    assert found["klamm_decisions_total{result=DENIED,rule=MatchingAcl}"] == 2
    assert found["klamm_decisions_total{result=ALLOWED,rule=SuperUser}"] == 1
    assert found["klamm_decisions_total{result=ALLOWED,rule=MatchingAcl}"] == 0


@pytest.mark.parametrize(("status", "status_class"), [(200, "2xx"), (404, "4xx"), (499, "4xx"), (503, "5xx")])
def test_requests_are_counted_by_operation_and_class_of_status(status: int, status_class: str) -> None:
    metrics = Metrics()
    metrics.count_request("authorize", status, 0.0003)
    found = samples(metrics)
    assert found[f"klamm_http_requests_total{{operation=authorize,status={status_class}}}"] == 1
    assert found["klamm_http_request_duration_seconds_bucket{le=0.00025,operation=authorize}"] == 0
    assert found["klamm_http_request_duration_seconds_bucket{le=0.0005,operation=authorize}"] == 1
    assert "klamm_http_requests_total{operation=acls,status=2xx}" not in found


def test_a_bucket_takes_its_upper_bound() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.5, 0.6, 1.0, 1.1):
        histogram.observe(value)
    assert histogram.buckets() == [("0.5", 1), ("1.0", 3), ("+Inf", 4)]
    assert histogram.total == pytest.approx(3.2)


def test_the_process_is_measured_too() -> None:
    assert samples(Metrics())["process_resident_memory_bytes"] > 0
