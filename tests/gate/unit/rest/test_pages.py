"""`/`, `/openapi.json` and `/docs`: true, harmless, the same for everybody, and not there where they are not wanted."""

import asyncio
import hashlib
import json
import shlex
from base64 import b64encode
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import __version__
from app.rest.app import AppOptions, create_rest_app
from app.rest.openapi import build_openapi
from app.rest.pages.routes import reference_page, wants_html
from tests.gate.unit.rest.test_bad_input import check_problem
from tests.klamm import InProcess, in_process

ROOT = Path(__file__).parents[4]
DOCUMENT = build_openapi()
CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


class Page(HTMLParser):
    """What of a page matters: its text, its elements with their attributes, and what stands in each kind."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.inside: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in ("meta", "link"):
            self._open.append(tag)
            self._texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "elements are closed in order"
        text = self._texts.pop()
        self.inside.append((tag, text))
        if self._texts:
            self._texts[-1] += text

    def handle_data(self, data: str) -> None:
        if self._texts:
            self._texts[-1] += data

    def texts(self, tag: str) -> list[str]:
        return [text for each, text in self.inside if each == tag]

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.elements if attribute in attributes]


@pytest.fixture
async def documented() -> AsyncIterator[InProcess]:
    """A replica that serves its reference."""
    async with in_process(around=AppOptions(document=build_openapi)) as service:
        yield service


async def got(service: InProcess, path: str, accept: str = "*/*") -> httpx.Response:
    reply = await service.client.get(path, headers={"accept": accept})
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-content-type-options"] == "nosniff"
    return reply


def check_harmless(reply: httpx.Response) -> Page:
    """Nothing runs, nothing is fetched, and the policy allows no more than the page's own style."""
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(reply.text)
    assert not {"script", "form", "iframe", "object", "img", "base"} & {tag for tag, _ in page.elements}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("style", "src")]
    assert all(each.startswith(("#", "/", "data:,")) and not each.startswith("//") for each in page.values("href"))
    (style,) = page.texts("style")
    assert "url(" not in style
    assert "@import" not in style
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = dict(each.strip().partition(" ")[::2] for each in reply.headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert reply.headers["referrer-policy"] == "no-referrer"
    return page


async def test_the_first_page_tells_programs_what_there_is(documented: InProcess) -> None:
    reply = await got(documented, "/")
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["vary"] == "accept"
    told = reply.json()
    assert (told["name"], told["version"]) == ("Klamm", __version__)
    assert {"/docs", "/openapi.json", "/readyz", "/metrics"} <= set(told["links"])
    for path in told["links"]:
        assert (await documented.client.get(path)).status_code == 200, path
    assert "docs/callers.md" in told["guides"]
    assert [name for name in told["guides"] if not (ROOT / name).is_file()] == []


async def test_a_browser_gets_the_same_as_a_page(documented: InProcess) -> None:
    reply = await got(documented, "/", CHROMIUM)
    page = check_harmless(reply)
    assert reply.headers["vary"] == "accept"
    told = (await got(documented, "/")).json()
    assert page.texts("h1") == [f"Klamm {__version__}"]
    assert [each for each in page.values("href") if not each.startswith("data:")] == list(told["links"])
    assert [*told["links"], *told["guides"]] == page.texts("dt")


def test_who_wants_a_page_and_who_wants_json(subtests: pytest.Subtests) -> None:
    for accept, expected in [
        (CHROMIUM, True),
        ("text/html", True),
        ("TEXT/HTML ; Q=0.5, application/json;q=0.4", True),
        ("*/*", False),
        ("", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("image/png", False),
        (";;;=,,,q=", False),
        ("," * 16_000, False),
    ]:
        with subtests.test(accept=accept, expected=expected):
            assert wants_html(accept) is expected


async def test_openapi_json_is_the_file_of_the_repository(documented: InProcess) -> None:
    reply = await got(documented, "/openapi.json", CHROMIUM)
    assert reply.headers["content-type"] == "application/json"
    assert reply.content == (ROOT / "openapi.json").read_bytes()


async def test_the_reference_has_every_operation_and_schema_and_every_link_in_it_leads_somewhere(
    documented: InProcess,
) -> None:
    page = check_harmless(await got(documented, "/docs"))
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    assert set(OPERATIONS) | {f"schema-{name}" for name in DOCUMENT["components"]["schemas"]} <= set(ids)
    assert {each[1:] for each in page.values("href") if each.startswith("#")} <= set(ids)
    text = " ".join(page.texts("html"))
    for method, path, operation in OPERATIONS.values():
        assert f"{method} {path}" in text
        for part in (
            operation["description"],
            *(each.get("description", "") for each in operation.get("parameters", ())),
        ):
            assert part.replace("`", "").replace("\n\n", "") in text
        for status, response in operation["responses"].items():
            assert status in page.texts("code")
            assert response["description"] == "Successful Response" or response["description"] in text
    for schema in DOCUMENT["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            assert name in page.texts("code")
            assert field.get("description", "").replace("`", "") in text
    assert not [each for tag in ("p", "dd") for each in page.texts(tag) if "`" in each]


async def test_a_command_of_the_reference_sends_the_example_when_it_is_pasted(documented: InProcess) -> None:
    page = check_harmless(await got(documented, "/docs"))
    commands = [text for text in page.texts("pre") if text.startswith("curl ")]
    assert len(commands) == len(OPERATIONS)
    base = DOCUMENT["servers"][0]["url"]
    for text, (method, path, operation) in zip(commands, OPERATIONS.values(), strict=True):
        _, _, url, *rest = shlex.split(text)
        assert url.startswith(base)
        assert "{" not in url
        assert url.count("/") == f"{base}{path}".count("/")
        if method == "GET":
            assert not rest
            continue
        header, typed, data, body = rest
        assert (header, typed, data) == ("-H", "content-type: application/json", "-d")
        assert json.loads(body) == operation["requestBody"]["content"]["application/json"]["example"]


async def test_the_reference_is_made_once_and_off_the_loop_however_many_ask() -> None:
    made: list[int] = []

    def document() -> dict[str, Any]:
        made.append(1)
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return build_openapi()

    async with in_process(around=AppOptions(document=document)) as service:
        assert not made
        replies = await asyncio.gather(*(service.client.get(path) for path in ("/docs", "/openapi.json") * 20))
        assert {reply.status_code for reply in replies} == {200}
        assert len(made) == 1


HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&`"


def spoiled(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same with markup in all text that people would read."""
    if isinstance(node, dict):
        words = ("description", "title", "summary", "version", "example")
        return {key: HOSTILE if key in words and isinstance(each, str) else spoiled(each) for key, each in node.items()}
    return [spoiled(each) for each in node] if isinstance(node, list) else node


def test_text_of_the_document_never_becomes_markup() -> None:
    page = Page(reference_page(spoiled(DOCUMENT)))
    plain = Page(reference_page(DOCUMENT))
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert {name for _, attributes in page.elements for name in attributes} <= {
        name for _, attributes in plain.elements for name in attributes
    }
    assert any("<script>alert(1)</script>" in text for text in page.texts("p"))


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_where_they_are_off_they_are_paths_that_lead_nowhere(service: InProcess, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        found = check_problem(await service.client.request(method, path), 404)
        nowhere = check_problem(await service.client.request(method, "/nowhere"), 404)
        assert found == {**nowhere, "detail": nowhere["detail"].replace("/nowhere", path)}
    for accept in ("*/*", CHROMIUM):
        reply = await service.client.get("/", headers={"accept": accept})
        assert reply.status_code == 200
        assert path not in reply.text.replace("docs/", "")


async def test_where_they_are_asked_for_beside_callers_they_need_none_and_are_the_same_for_all(tmp_path: Path) -> None:
    async with in_process(tokens_file=tmp_path / "klamm.tokens") as replica:
        around = AppOptions(callers=replica.callers, document=build_openapi)
        app = create_rest_app(replica.authorizer, replica.metrics, replica.audit, around)
        transport = httpx.ASGITransport(app)
        shown = [{}, *({"authorization": f"Bearer {token}"} for token in ("nonsense", *replica.tokens.values()))]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get("/metrics")).status_code == 401
            for path in ("/", "/docs", "/openapi.json"):
                replies = [await client.get(path, headers=headers) for headers in shown]
                assert {reply.status_code for reply in replies} == {200}
                assert len({reply.content for reply in replies}) == 1


async def test_pages_are_counted_by_their_names(documented: InProcess) -> None:
    for path in ("/", "/docs", "/openapi.json"):
        await got(documented, path)
    page = (await documented.client.get("/metrics")).text
    for name in ("index", "docs", "openapi"):
        assert f'klamm_http_requests_total{{operation="{name}",status="2xx"}} 1.0\n' in page
