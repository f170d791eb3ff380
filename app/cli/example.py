"""`klamm serve --example`: loads an example's ACLs over HTTP, asks for decisions and prints them."""

import asyncio
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.core.readable import readable
from app.formats.command_errors import UsageError

_CALL_TIMEOUT_S = 30.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Example:
    """`acls` is a body for createAcls; each question is what it shows, and a body for authorize with one action."""

    acls: dict[str, Any]
    questions: list[tuple[str, dict[str, Any]]]


def read_example(path: Path) -> Example:
    """`path` holds the body for createAcls, `decisions.json` beside it the questions. Raises UsageError."""
    questions_path = path.with_name("decisions.json")
    acls, asked = _json(path), _json(questions_path)
    if not isinstance(acls, dict):
        raise UsageError(f"--example: `{path}` is not a body of createAcls; see examples/acls.json")
    try:
        questions = [(each["shows"], each["request"]) for each in asked]
    except (KeyError, TypeError):
        raise UsageError(
            f"--example: `{questions_path}` is not a list of objects with `shows` and `request`; see "
            "examples/decisions.json"
        ) from None
    return Example(acls, questions)


def _json(path: Path) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--example: can't read `{path}` ({error.strerror})") from None
    except ValueError as error:  # UnicodeDecodeError is one as well
        raise UsageError(f"--example: `{path}` is not JSON in UTF-8 ({error})") from None


async def show_example(
    example: Example,
    base_url: str,
    write: Callable[[str], object],
    *,
    ready_timeout_s: float = 60.0,
    transport: httpx.AsyncBaseTransport | None = None,
) -> None:
    """Loads the ACLs only if the service has none. Raises UsageError if it does not answer as it should."""
    async with httpx.AsyncClient(
        base_url=base_url, timeout=_CALL_TIMEOUT_S, trust_env=False, transport=transport
    ) as client:
        try:
            await _await_ready(client, ready_timeout_s)
            loaded = await _load(client, example.acls)
            decisions = [await _decision(client, base_url, shows, request) for shows, request in example.questions]
        except httpx.HTTPError as error:
            raise UsageError(f"the service does not answer: {error!r}") from None
    # In one write: the service's own lines may go to the same screen.
    write("\n".join([loaded, *decisions]))


async def _await_ready(client: httpx.AsyncClient, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while not (await client.get("/readyz")).is_success:  # noqa: ASYNC110 - the event is at the far end of HTTP
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise UsageError(f"the service was not ready within {timeout_s:g} s") from None


async def _load(client: httpx.AsyncClient, acls: dict[str, Any]) -> str:
    count = _body(await client.get("/v1/acls/count"))["acl_count"]
    if count:
        return f"The store holds {count} ACLs, so the example is not loaded into it."
    results = _body(await client.post("/v1/acls", json=acls))["results"]
    for binding, result in zip(acls["bindings"], results, strict=True):
        if result["error_code"]:
            raise UsageError(f"{result['code']}: {result['error_message']} ({json.dumps(binding)})")
    return f"Loaded {len(results)} ACLs of the example into the empty store."


async def _decision(client: httpx.AsyncClient, base_url: str, shows: str, request: dict[str, Any]) -> str:
    result = _body(await client.post("/v1/authorize", json=request))["results"][0]
    action, context = request["actions"][0], request["context"]
    call = shlex.join(["curl", "-s", f"{base_url}/v1/authorize", "-H", "content-type: application/json"])
    return (
        f"\n{result}: {readable(context['principal'])} from {context['client_address']}, {action['operation']} on "
        f"{action['resource_type']} {readable(action['resource_name'])}\n  {shows}\n"
        f"  {call} \\\n    -d {shlex.quote(json.dumps(request))}"
    )


def _body(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or response.status_code != httpx.codes.OK:
        detail = body.get("detail") if isinstance(body, dict) else response.text
        raise UsageError(f"{response.request.url.path} answered {response.status_code}: {detail}")
    return body
