"""Probes as Kubernetes prints them, and the page that Prometheus reads. None of them touches the database."""

from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from app.ops.metrics import CONTENT_TYPE
from app.rest.routing import CurrentAuthorizer, CurrentServices, documented_problems, strict_router
from app.runtime.readiness import Readiness, State

router = strict_router("health")
metrics_router = strict_router("health")

Check = tuple[str, bool, str]
Verbose = Annotated[str | None, Query(description="With any value, or none: every check on a line of its own.")]

_NOT_READY: dict[int | str, dict[str, Any]] = {
    **documented_problems(500),
    503: {
        "description": "Not now; the body names the checks that fail",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
}


@router.get("/livez", name="livez", response_class=PlainTextResponse, responses=documented_problems(500))
async def livez(verbose: Verbose = None) -> Response:
    """Tell that the process answers; nothing else is looked at."""
    return _probe("livez", [("ping", True, "")], ready=True, verbose=verbose is not None)


@router.get("/readyz", name="readyz", response_class=PlainTextResponse, responses=_NOT_READY)
async def readyz(authorizer: CurrentAuthorizer, verbose: Verbose = None) -> Response:
    """Tell whether this replica should get requests."""
    readiness = authorizer.readiness
    # A replica that serves on from an old image is ready, but says how old it is without being asked.
    verbosely = verbose is not None or readiness.state is not State.READY
    return _probe("readyz", readiness.checks(), ready=readiness.ready(), verbose=verbosely)


@router.get(
    "/readyz/{listener_name}",
    name="readyzListener",
    response_class=PlainTextResponse,
    responses={**documented_problems(400), **_NOT_READY},
)
async def readyz_listener(
    listener_name: Annotated[str, Path(max_length=249)], authorizer: CurrentAuthorizer, verbose: Verbose = None
) -> Response:
    """Tell whether one listener of a broker may take connections; early-start listeners may before the first load."""
    ready = authorizer.readiness.ready(listener_name)
    check = (f"listener/{listener_name}", ready, "may start" if ready else "waits for the first load")
    return _probe("readyz", [check], ready=ready, verbose=verbose is not None)


@router.get("/startupz", name="startupz", response_class=PlainTextResponse, responses=_NOT_READY)
async def startupz(authorizer: CurrentAuthorizer, verbose: Verbose = None) -> Response:
    """Tell whether the first load is complete."""
    started = authorizer.readiness.started
    checks = [check for check in authorizer.readiness.checks() if check[0] == "initial-load"]
    return _probe("startupz", checks, ready=started, verbose=verbose is not None)


@metrics_router.get("/metrics", name="metrics", include_in_schema=False)
async def metrics(services: CurrentServices) -> Response:
    """Every metric in Prometheus' text format."""
    _take_down(services)
    return Response(services.metrics_page.render(), media_type=CONTENT_TYPE)


def _take_down(services: CurrentServices) -> None:
    readiness: Readiness = services.authorizer.readiness
    services.metrics.acl_count = services.authorizer.acl_count()
    services.metrics.feed_age_seconds = readiness.age_s
    services.metrics.readiness_state = readiness.state.value


def _probe(name: str, checks: list[Check], *, ready: bool, verbose: bool) -> Response:
    """`ok`, or every check on a line where one fails or the caller asks for them, as kube-apiserver does."""
    if ready and not verbose:
        return PlainTextResponse("ok")
    lines = [_check_line(check) for check in checks]
    lines.append(f"{name} check {'passed' if ready else 'failed'}")
    return PlainTextResponse("\n".join(lines) + "\n", 200 if ready else 503)


def _check_line(check: Check) -> str:
    name, passed, detail = check
    line = f"[+]{name} ok" if passed else f"[-]{name} failed"
    if detail:
        line += f": {detail}"
    # Listeners are named by callers: one check stays one line.
    return line if line.isprintable() else ascii(line)[1:-1]
