"""`python .ci/helm_chart.py CHART [VALUES]`: lint the chart, and print what Helm's own library makes of it as YAML.

VALUES is the text of a YAML or JSON object that goes over the chart's values.yaml. Ends with 1 and says what is wrong,
if anything is.
"""

import sys
from typing import Any

import helm_python
import yaml

NAMESPACE = "klamm"
_WARNING = 2


def faults(path: str, values: dict[str, Any]) -> list[str]:
    """What `helm lint --strict` has against the chart with these values."""
    report = helm_python.lint(path, values, strict=True, namespace=NAMESPACE)
    messages = [f"{each['path']}: {each['error']}" for each in report["messages"] if each["severity"] >= _WARNING]
    return messages or list(report["errors"])


def manifests(path: str, values: dict[str, Any]) -> str:
    """What `helm template --namespace klamm` prints."""
    with helm_python.Chart.load(path) as chart:
        rendered = chart.render(values, name="klamm", namespace=NAMESPACE)
    return "\n---\n".join(text for name, text in sorted(rendered.items()) if name.endswith(".yaml") and text.strip())


def main() -> int:
    path, *given = sys.argv[1:]
    values = yaml.safe_load(given[0]) if given else {}
    found = faults(path, values)
    print("\n".join(found) or manifests(path, values))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
