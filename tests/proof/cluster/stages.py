"""What Spark's own log of events says of the tasks of a stage."""

import json
from collections import defaultdict
from pathlib import Path

from app.pipeline.access.replay import DEFAULT_BUCKETS


def event_log(events: Path) -> list[str]:
    """How a job is told to write it into this folder."""
    told = {"enabled": "true", "dir": events.as_uri(), "rolling.enabled": "false", "compress": "false"}
    return [word for name, value in told.items() for word in ("--conf", f"spark.eventLog.{name}={value}")]


def largest_stage(events: Path) -> tuple[list[int], set[str]]:
    """The records that each task of the stage has read that was dealt the most, and the executors that ran them."""
    (log,) = events.iterdir()
    records, executors = defaultdict[int, list[int]](list), defaultdict[int, set[str]](set)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            read = event["Task Metrics"]["Shuffle Read Metrics"]["Total Records Read"]
            records[event["Stage ID"]].append(read)
            executors[event["Stage ID"]].add(event["Task Info"]["Executor ID"])
    largest = max((stage for stage in records if len(records[stage]) == DEFAULT_BUCKETS), key=lambda s: sum(records[s]))
    return records[largest], executors[largest]
