"""The Helm chart, as far as it can be seen without rendering it."""

import yaml

from app import __version__
from tests.deploy.manifests import CHART, DEPLOY


def test_alerts_have_one_source() -> None:
    alerts = CHART / "files" / "klamm.rules.yaml"
    assert alerts.is_symlink()
    assert alerts.resolve() == DEPLOY / "prometheus" / "klamm.rules.yaml"


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
