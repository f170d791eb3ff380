"""The log of a service with several workers."""

import json
from pathlib import Path

from tests.klamm import Json, action, context, over_socket, wait_until

DENIED: Json = {"context": context("User:alice"), "actions": [action("correlated")]}


def test_every_line_of_a_service_is_json(tmp_path: Path) -> None:
    with over_socket(
        "--data-dir", str(tmp_path / "data"), "--workers", "2", settings={"KLAMM_LOG_FORMAT": "JSON"}
    ) as service:
        service.ready().post("/v1/authorize", DENIED)
        wait_until(lambda: any('"event":"decision"' in line for line in [*service.lines]), "the audit line is written")
    events = [json.loads(line) for line in service.lines]
    for line, event in zip(service.lines, events, strict=True):
        assert {"time", "level", "logger", "event"} <= event.keys()
        assert line.isprintable()
    assert {1, 2} <= {each.get("worker") for each in events}
