"""Findings of the pipeline's last night: shown as they are, mended by a plan, and harmless whatever is in the files."""

import json
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from app.console import findings
from app.console.routes import console_routes
from app.rest.app import AppOptions
from tests.browser import KEY, Browser, browsing
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless
from tests.klamm import InProcess, acl, in_process
from tests.updates import binding

ADMIN = {"principal": "User:admin", "client_address": "127.0.0.1"}
FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
BROAD_ACL = acl("*", "User:bob")
BROAD = binding(BROAD_ACL)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with in_process(around=AppOptions(console=console_routes(KEY, str(tmp_path)))) as ready:
        yield ready


async def found(service: InProcess, home: Path, kind: str, acl: Any, offset: int = 9, **more: Any) -> None:  # noqa: ANN401 - JSON
    """Write what a run leaves that has found this of an ACL of the store."""
    reply = await service.send("/v1/acls/search", {"context": ADMIN, "filter": {"principal": acl.principal}})
    one = next(iter(reply.json()["acls"]), {"id": str(uuid4())})
    words = [*acl.words]
    finding = {"kind": kind, "acl_id": one["id"], "acl": words, "why": "nobody asked", "is_mended": True, **more}
    write(home, offset, "listed", {"findings": [finding]})
    manifest = {"offset": offset, "as_of": "2026-11-22T02:00:00+00:00", "complete": True, "counts": {kind: 1}}
    write(home, offset, "manifest", manifest)


def write(home: Path, offset: int, name: str, document: Mapping[str, Any]) -> Path:
    folder = home / "hygiene" / f"offset={offset:020}" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_SUCCESS").touch()
    path = folder / "part-00000-x-c000.txt"
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")
    return path


async def test_without_a_home_or_a_run_the_page_says_how(service: InProcess, browser: Browser) -> None:
    assert "klamm pipeline nightly --home" in (await browser.go("/console/hygiene")).text
    for home, says in (
        (None, "KLAMM_PIPELINE_HOME"),
        ("s3a://bucket/home", "a folder on this machine only"),
        ("/no/such home; x", "--home '/no/such home; x' --decisions"),
    ):
        async with (
            in_process(around=AppOptions(console=console_routes(KEY, home))) as other,
            browsing(other.app) as seen,
        ):
            assert says in (await seen.go("/console/hygiene")).text
    assert service.authorizer.image.acl_count == 0


async def test_a_finding_is_shown_and_mended_by_a_plan(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(BROAD_ACL)
    narrower = [["TOPIC", "orders", "LITERAL", "User:bob", "*", "READ", "ALLOW"]]
    await found(service, tmp_path, "OVER_BROAD", BROAD, narrower=narrower)
    page = await browser.go("/console/hygiene")
    assert "Nobody asked." in page.text
    (show,) = [each["href"] for _, each in page.elements if "/console/acls?" in each.get("href", "")]
    assert "User:bob" in (await browser.go(show)).text
    plan = await browser.send(page.form("Mend"))
    assert "Lost" in plan.text
    page = await browser.send(plan.form("Create 1 and remove 1"), comment="OPS-9")
    assert page.reply.url.path == "/console/hygiene"
    assert "It has been removed since" in page.text
    assert "Mend" not in page.buttons
    acls = (await service.send("/v1/acls/search", {"context": ADMIN, "filter": {}})).json()["acls"]
    assert [each["resource_name"] for each in acls] == ["orders"]


async def test_a_mend_is_not_made_on_acls_that_have_changed(
    service: InProcess, browser: Browser, tmp_path: Path
) -> None:
    await service.create(BROAD_ACL)
    await found(service, tmp_path, "UNUSED", BROAD)
    plan = await browser.send((await browser.go("/console/hygiene?kind=UNUSED")).form("Mend"))
    await service.create(acl("orders", "User:late"))
    assert "have changed since" in (await browser.send(plan.form("Remove 1 ACL"), 409)).text
    assert service.authorizer.image.acl_count == 2


async def test_what_is_not_proposed_has_no_button(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(BROAD_ACL)
    await found(service, tmp_path, "REDUNDANT", BROAD, is_mended=False)
    page = await browser.go("/console/hygiene")
    assert "Mend" not in page.buttons
    assert "review it yourself" in page.text
    assert "Nothing of this kind" in (await browser.go("/console/hygiene?kind=<b>&after=99999999999")).text


async def test_only_whole_runs_count_and_the_newest(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(BROAD_ACL)
    await found(service, tmp_path, "UNUSED", BROAD, offset=9)
    await found(service, tmp_path, "VOID", BROAD, offset=10)
    assert "VOID" in (await browser.go("/console/hygiene")).text
    write(tmp_path, 10, "manifest", {"offset": 10, "as_of": "2026-11-23T02:00:00+00:00", "complete": False})
    assert "UNUSED" in (await browser.go("/console/hygiene")).text


async def test_a_run_has_an_address(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(BROAD_ACL)
    await found(service, tmp_path, "UNUSED", BROAD, offset=9)
    (link,) = [each["href"] for _, each in (await browser.go("/console/hygiene")).elements if "run=" in str(each)]
    assert "not the last run" not in (await browser.go(link)).text
    await found(service, tmp_path, "VOID", BROAD, offset=10)
    page = await browser.go(f"{link}&kind=UNUSED")
    assert page.reply.url.params["run"] == "9"
    assert "a single DENY forbids" not in page.text
    assert "not the last run" in page.text
    assert {each["href"].partition("?")[2] for _, each in page.elements if "kind=" in each.get("href", "")} == {
        "run=9&kind=UNUSED",
        "kind=UNUSED",
    }
    assert "VOID" in (await browser.go("/console/hygiene")).text
    plan = await browser.send(page.form("Mend"))
    assert (await browser.send(plan.form("Remove 1 ACL"))).reply.url.params["run"] == "9"


@pytest.mark.parametrize("run", ["8", "x", "-1", "9" * 5_000, "²", "../9", "\u202e", "<script>alert(1)</script>"])
async def test_a_run_that_is_not_there_is_said(service: InProcess, browser: Browser, tmp_path: Path, run: str) -> None:
    await service.create(BROAD_ACL)
    await found(service, tmp_path, "UNUSED", BROAD, offset=9)
    page = await browser.go(f"/console/hygiene?{urlencode({'run': run})}", 404)
    check_harmless(page.reply.text)
    assert "There is no complete run" in page.text
    assert "Nobody asked" not in page.text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"findings": [{"kind": 1}]}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"findings": []}' + b" " * 5_000_000,
        b'{"offset": 9, "as_of": "tonight", "complete": true}',
    ],
    ids=["empty", "half", "list", "other", "deep", "bytes", "huge", "time"],
)
async def test_damaged_files_are_said_and_no_page_fails(
    service: InProcess, browser: Browser, tmp_path: Path, content: bytes
) -> None:
    await found(service, tmp_path, "UNUSED", BROAD)
    for name in ("listed", "manifest"):
        (tmp_path / "hygiene" / f"offset={9:020}" / name / "part-00000-x-c000.txt").write_bytes(content)
        text = (await browser.go("/console/hygiene")).text
        assert "klamm pipeline nightly" in text or "the pipeline did not write it" in text


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_in_findings(
    service: InProcess, browser: Browser, tmp_path: Path, odd: str
) -> None:
    said = acl(odd, f"User:{odd}"[:32_767])
    await service.create(said)
    await found(service, tmp_path, "UNUSED", binding(said), why=f"`{odd}` was never asked for")
    page = await browser.go("/console/hygiene")
    check_harmless(page.reply.text)
    check_harmless((await browser.send(page.form("Mend"))).reply.text)


async def test_a_disk_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(findings, "_PATIENCE_S", 0.01)
    goes_on = threading.Event()
    for _ in range(3):
        with pytest.raises(findings.FindingsError, match="could not be read within"):
            await findings.in_time(str(tmp_path), lambda: goes_on.wait(60))
    goes_on.set()
    monkeypatch.setattr(findings, "_PATIENCE_S", 60.0)
    assert await findings.in_time(str(tmp_path), lambda: findings.last_found(str(tmp_path))) is None
