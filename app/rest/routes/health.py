"""Probes as Kubernetes prints them, and the page that Prometheus reads. None of them touches the database.

With several workers, the one that is asked speaks for all:
- `/livez` is about the worker that answers.
- `/readyz`, `/readyz/{listener_name}` and `/startupz` are about all workers that take connections. A worker that was
  started again takes none before it has loaded, so it does not count until then. One that doesn't answer within half a
  second is not ready. If the supervisor doesn't answer, the worker speaks for itself, and says so.
- `/metrics` holds sums and, per worker, gauges (`app.metrics.workers`). If the supervisor doesn't answer it is a 503,
  as the numbers of one worker could be taken for those of the service.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from app import __version__
from app.core.kafka.codes import AclOperation
from app.core.readable import visible
from app.metrics.page import CONTENT_TYPE
from app.metrics.workers import Family, families_of
from app.process.siblings import Sibling, WorkerProbe, WorkerReadiness
from app.rest.bodies.examples import Example
from app.rest.callers.roles import OBSERVERS
from app.rest.http.arguments import CurrentReader, CurrentServices
from app.rest.http.edge import Routes
from app.rest.http.services import Services
from app.runtime.readiness import Readiness, State

routes = Routes("health")

Check = tuple[str, bool, str]
Verbose = Annotated[str | None, Query(description="List every check on its own line; the value is ignored.")]

_PLAIN_TEXT = {"text/plain": {"schema": {"type": "string"}}}
_probe_route = partial(routes.get, needs_caller=False, pool="probes", response_class=PlainTextResponse)
_NOT_READY: Mapping[int | str, dict[str, Any]] = {
    503: {"description": "Not ready; the body names the checks that fail", "content": _PLAIN_TEXT}
}
_OK = Example(reply="ok")
_METRICS_EXAMPLE = Example(
    reply="# HELP klamm_build_info The running version.\n"
    "# TYPE klamm_build_info gauge\n"
    f'klamm_build_info{{version="{__version__}"}} 1.0\n'
    "# HELP klamm_acl_count ACLs in memory; -1 until the first load is complete.\n"
    "# TYPE klamm_acl_count gauge\n"
    "klamm_acl_count 348.0\n",
)


ALIVE = PlainTextResponse("ok")
"""What /livez replies unless it is asked to be verbose."""


@_probe_route("/livez", name="livez", example=_OK)
async def livez(verbose: Verbose = None) -> Response:
    """Report that the process answers; nothing else is checked."""
    return _probe("livez", [("ping", True, "")], ready=True, verbose=verbose is not None)


@_probe_route("/readyz", name="readyz", responses=_NOT_READY, example=_OK)
async def readyz(services: CurrentServices, verbose: Verbose = None) -> Response:
    """Report whether this replica should get requests."""
    readiness = services.authorizer.readiness
    siblings = await _siblings(services, None)
    checks = [*readiness.checks(), *_ready_checks(siblings)]
    # A replica that serves on from an old image is ready, but says how old it is without being asked.
    verbosely = verbose is not None or readiness.state is not State.READY
    return _probe("readyz", checks, ready=readiness.ready() and _all_pass(checks), verbose=verbosely)


@_probe_route(
    "/readyz/{listener_name}",
    name="readyzListener",
    responses=_NOT_READY,
    may_refuse=(400,),
    example=Example(parameters={"listener_name": "EXTERNAL"}, reply="ok"),
)
async def readyz_listener(
    listener_name: Annotated[str, Path(max_length=249)], services: CurrentServices, verbose: Verbose = None
) -> Response:
    """Report whether a broker's listener may take connections; early-start listeners may before the first load."""
    readiness = services.authorizer.readiness
    ready = readiness.ready(listener_name)
    waits = "draining" if readiness.state is State.DRAINING else "waiting for the first load"
    own = (f"listener/{listener_name}", ready, "may start" if ready else waits)
    checks = [own, *_ready_checks(await _siblings(services, listener_name))]
    return _probe("readyz", checks, ready=_all_pass(checks), verbose=verbose is not None)


@_probe_route("/startupz", name="startupz", responses=_NOT_READY, example=_OK)
async def startupz(services: CurrentServices, verbose: Verbose = None) -> Response:
    """Report whether the first load is complete."""
    readiness = services.authorizer.readiness
    checks = [check for check in readiness.checks() if check[0] == "initial-load"]
    checks += _worker_checks(
        await _siblings(services, None),
        lambda found: (found.started, "loaded" if found.started else "not loaded"),
    )
    return _probe("startupz", checks, ready=readiness.started and _all_pass(checks[1:]), verbose=verbose is not None)


@routes.get(
    "/metrics",
    name="metrics",
    open_to=OBSERVERS,
    pool="probes",
    response_class=PlainTextResponse,
    responses={503: {"description": "The supervisor of the workers doesn't answer", "content": _PLAIN_TEXT}},
    example=_METRICS_EXAMPLE,
)
async def metrics(reader: CurrentReader, services: CurrentServices) -> Response:
    """Return all metrics in Prometheus' text format.

    For callers with the role observe; an admin caller needs DESCRIBE on the cluster.
    """
    services.authorizer.rights.check_reader(reader, AclOperation.DESCRIBE)
    if services.siblings is None:
        _take_down(services)
        return Response(services.metrics_page.render(), media_type=CONTENT_TYPE)
    page = await services.siblings.metrics()
    if page is None:
        return PlainTextResponse("the supervisor of the workers does not answer\n", 503)
    return Response(page, media_type=CONTENT_TYPE)


async def ready_everywhere(services: Services, listener_name: str) -> bool:
    own = services.authorizer.readiness.ready(listener_name)
    return own and _all_pass(_ready_checks(await _siblings(services, listener_name)))


def worker_probe(services: Services) -> WorkerProbe:
    def families() -> list[Family]:
        _take_down(services)
        return families_of(services.metrics_page.collect())

    def standing(listener: str | None) -> WorkerReadiness:
        readiness: Readiness = services.authorizer.readiness
        return WorkerReadiness(readiness.ready(listener), readiness.started, readiness.state.value)

    return WorkerProbe(families, standing)


def _take_down(services: Services) -> None:
    readiness: Readiness = services.authorizer.readiness
    services.metrics.acl_count = services.authorizer.image.acl_count
    services.metrics.feed_age_seconds = readiness.age_s
    services.metrics.readiness_state = readiness.state.value


async def _siblings(services: Services, listener: str | None) -> list[Sibling] | None:
    """The other workers, none if there are none; None if nothing can be known of them."""
    return [] if services.siblings is None else await services.siblings.readiness(listener)


def _ready_checks(siblings: list[Sibling] | None) -> list[Check]:
    return _worker_checks(siblings, lambda found: (found.ready, found.state.lower()))


def _worker_checks(siblings: list[Sibling] | None, look: Callable[[WorkerReadiness], tuple[bool, str]]) -> list[Check]:
    if siblings is None:
        return [("workers", True, "the supervisor does not answer; only this worker was checked")]
    checks: list[Check] = []
    for sibling in siblings:
        if not sibling.needed:
            found = (True, "restarting, takes no connections yet")
        elif sibling.readiness is None:
            found = (False, "no answer")
        else:
            found = look(sibling.readiness)
        checks.append((f"worker/{sibling.number}", *found))
    return checks


def _all_pass(checks: list[Check]) -> bool:
    return all(passed for _, passed, _ in checks)


def _probe(name: str, checks: list[Check], *, ready: bool, verbose: bool) -> Response:
    """`ok`, or every check on a line where one fails or the caller asks for them, as kube-apiserver does."""
    if ready and not verbose:
        return PlainTextResponse("ok")
    lines = [_check_line(check) for check in checks]
    lines.append(f"{name} check {'passed' if ready else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 200 if ready else 503)


def _check_line(check: Check) -> str:
    name, passed, detail = check
    line = (f"[+]{name} ok" if passed else f"[-]{name} failed") + (f": {detail}" if detail else "")
    # Listeners are named by callers: one check stays one line.
    return visible(line)
