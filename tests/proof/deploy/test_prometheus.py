"""The chart's rule for Prometheus' operator."""

from tests.gate.deploy.test_prometheus import RULES
from tests.proof.deploy.rendering import charted_object


def test_the_operator_s_rule_holds_the_same_alerts() -> None:
    assert charted_object("PrometheusRule")["spec"] == RULES
