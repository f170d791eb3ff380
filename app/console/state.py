"""The state of the service: what a person on call looks at first."""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from starlette.responses import Response

from app.console.api import ApiRefusedError
from app.console.pages import NOT_KEPT, Pages, page
from app.console.visits import Visit
from app.rest.http.edge import Reply

pages = Pages()

_OK = 200


class Check(NamedTuple):
    name: str
    passes: bool
    detail: str


@pages.get("/state")
async def state(visit: Visit) -> Reply:
    samples = await _samples(visit) if visit.observes else []
    return await page(
        visit, "state", checks=await _checks(visit), figures=_figures(samples), totals=_totals(samples), token=None
    )


@pages.get("/state/totals")
async def totals(visit: Visit) -> Reply:
    """The present counters, from which the page computes rates."""
    found = _totals(await _samples(visit))
    return Response(json.dumps(found), media_type="application/json", headers=NOT_KEPT)


async def _checks(visit: Visit) -> list[Check]:
    reply = await visit.api.ask("GET", "/readyz", parameters={"verbose": ""})
    lines = [each for each in reply.text.splitlines() if each.startswith("[")]
    found = []
    for line in lines:
        name, _, rest = line[3:].partition(" ")
        found.append(Check(name, line.startswith("[+]"), rest.partition(": ")[2]))
    return found


async def _samples(visit: Visit) -> list[Sample]:
    reply = await visit.api.ask("GET", "/metrics")
    if reply.status_code != _OK:
        raise ApiRefusedError(
            reply.status_code,
            "",
            "to read the metrics of this service, a caller needs the role observe, or DESCRIBE on the cluster",
        )
    return [sample for family in text_string_to_metric_families(reply.text) for sample in family.samples]


def _figures(samples: Iterable[Sample]) -> Mapping[str, float | str]:
    """Figures by their names on the page; of several workers' gauges, those of the one furthest behind."""
    states = {each.labels["state"] for each in samples if each.name == "klamm_readiness_state" and each.value}
    values: dict[str, list[float]] = {}
    for each in samples:
        values.setdefault(each.name, []).append(each.value)

    def least(name: str) -> float:
        return min(values.get(name, [0.0]))

    def most(name: str) -> float:
        return max(values.get(name, [0.0]))

    def total(name: str) -> float:
        return sum(values.get(name, []))

    return {
        "state": ", ".join(sorted(states)),
        "acls": least("klamm_acl_count"),
        "offset": least("klamm_feed_offset"),
        "behind": most("klamm_feed_high_watermark") - least("klamm_feed_offset"),
        "age": most("klamm_feed_age_seconds"),
        "followers": total("klamm_watch_readers"),
        "ending": most("klamm_acls_ending_within_a_day"),
        "connections": total("klamm_connections"),
        "workers": float(len(values.get("klamm_acl_count", [0]))),
        "refused": total("klamm_admission_refused_total") + total("klamm_requests_shed_total"),
        "poisoned": total("klamm_records_poisoned_total"),
        "failures": total("klamm_feed_poll_failures_total"),
        "memory": total("process_resident_memory_bytes"),
    }


def _totals(samples: Iterable[Sample]) -> Mapping[str, float]:
    found = {"allowed": 0.0, "denied": 0.0, "requests": 0.0, "changes": 0.0}
    for each in samples:
        match each.name:
            case "klamm_decisions_total":
                found["allowed" if each.labels["result"] == "ALLOWED" else "denied"] += each.value
            case "klamm_http_requests_total":
                found["requests"] += each.value
            case "klamm_mutator_mutations_written_total":
                found["changes"] += each.value
    return found
