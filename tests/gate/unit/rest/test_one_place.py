"""No request has two places, and nobody who is unauthenticated has one that a known caller needs."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.console.forms import MAX_UNAUTHENTICATED_BYTES
from app.console.routes import console_routes
from app.metrics.declared import ADMISSION_POOLS, Metrics
from app.rest.app import AppOptions, create_rest_app
from app.rest.http.admission import BOUNDS, Admission, PlaceHolder
from tests.browser import KEY, browsing
from tests.gate.unit.rest.routes.test_at import ASKED
from tests.gate.unit.rest.test_bad_input import ENDPOINT
from tests.klamm import ADMIN, InProcess, acl, in_process, until

FORM = {"content-type": "application/x-www-form-urlencoded"}


class SlowRecords:
    """A service elsewhere with the records, which answers when it is told."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def ask(self, _: str, __: bytes) -> bytes:
        await self.go_on.wait()
        return b"{}"


@pytest.mark.parametrize("path", ASKED)
async def test_questions_about_the_past_keep_nothing_from_those_about_the_present(
    service: InProcess, path: str
) -> None:
    await service.create(acl("orders"))
    slow, token = SlowRecords(), str(service.authorizer.image.token)
    app = create_rest_app(service.authorizer, service.metrics, service.audit, AppOptions(past_elsewhere=slow.ask))
    service.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
    past = [
        asyncio.create_task(service.send(path, {"context": ADMIN, **ASKED[path], "at": token}))
        for _ in range(BOUNDS["lists"].places * 3)
    ]
    in_flight = service.metrics.admission_requests
    await until(lambda: in_flight["past"][0] == BOUNDS["past"].places)
    now = [service.send(path, {"context": ADMIN, **ASKED[path]}) for _ in range(BOUNDS["lists"].places)]
    assert {reply.status_code for reply in await asyncio.gather(*now)} == {200}
    slow.go_on.set()
    assert {reply.status_code for reply in await asyncio.gather(*past)} <= {200, 429}
    assert all(counts == [0, 0] for counts in in_flight.values())


@pytest.mark.parametrize("first", ADMISSION_POOLS)
async def test_a_request_that_has_a_place_gets_no_other(first: str) -> None:
    pools, holder = Admission(Metrics()).pools, PlaceHolder()
    async with pools[first].admitted(0, None, None, holder):
        for pool in pools.values():
            with pytest.raises(RuntimeError, match="while it has one"):
                await pool.admitted(0, None, None, holder).__aenter__()
    for pool in pools.values():
        async with pool.admitted(0, None, None, holder):
            pass


def test_places_are_given_to_calls_only() -> None:
    """So that the holder of each is known, which `Call.admitted` names."""
    taken = re.compile(r"(?:pools?\[[^]]*\]|pool|waiting)\.(?:admitted|enter)\(")
    found = {
        str(file)
        for folder in ("app/rest", "app/console")
        for file in Path(folder).rglob("*.py")
        if taken.search(file.read_text(encoding="utf-8"))
    }
    assert found == {"app/rest/http/admission.py", "app/rest/http/arguments.py"}


@asynccontextmanager
async def slow_forms(client: httpx.AsyncClient, count: int, announced: int) -> AsyncIterator[None]:
    """So many forms to sign in, of which nothing comes."""
    never = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"form_token="
        await never.wait()

    headers = {**FORM, "content-length": str(announced)}
    tasks = [
        asyncio.create_task(client.post("/console/sign-in", content=body(), headers=headers)) for _ in range(count)
    ]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("announced", [100, MAX_UNAUTHENTICATED_BYTES, 1024 * 1024])
async def test_slow_forms_of_strangers_keep_nothing_from_callers(tmp_path: Path, announced: int) -> None:
    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as stranger,
        slow_forms(stranger.client, 200, announced),
    ):
        for _ in range(20):
            await asyncio.sleep(0)
        used = {pool for pool, (places, _) in it.metrics.admission_requests.items() if places}
        assert used <= {"unauthenticated"}
        reply = await it.send("/v1/start", {"broker_id": 1, "endpoints": [ENDPOINT], "wait_ms": 0}, "sidecar")
        assert reply.status_code == 200, reply.text
        reply = await it.client.get("/console/state", headers={"authorization": f"Bearer {it.tokens['root']}"})
        assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    "headers", [{"transfer-encoding": "chunked"}, {"content-length": "100", "expect": "100-continue"}]
)
async def test_a_strangers_form_comes_whole_or_is_refused_before_it_has_a_place(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("the form was read")
        yield b""

    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as stranger,
    ):
        reply = await stranger.client.post("/console/sign-in", content=never(), headers={**FORM, **headers})
        assert reply.status_code == 400, reply.text
        assert "as browsers do" in reply.text


async def test_a_strangers_form_is_bounded_and_the_refusal_names_the_bound(tmp_path: Path) -> None:
    async with (
        in_process(tokens_file=tmp_path / "klamm.tokens", around=AppOptions(console=console_routes(KEY))) as it,
        browsing(it.app) as stranger,
    ):
        page = await stranger.go("/console/sign-in")
        token = "x" * MAX_UNAUTHENTICATED_BYTES
        assert (
            "16384 are the most here; sign in first"
            in (await stranger.send(page.form("Sign in"), 413, token=token)).text
        )
