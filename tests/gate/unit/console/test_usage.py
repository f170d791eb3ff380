"""When ACLs and principals were last used: as the pipeline's files say, and plainly where they don't."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.console.usage import read_uses
from tests.browser import Browser
from tests.gate.unit.console.test_hygiene import ADMIN, service, write
from tests.klamm import InProcess, acl

__all__ = ["service"]

ORDERS = "/console/resource?type=TOPIC&name=orders"
BOB = "/console/principal?principal=User:bob"
USED = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


def leave(home: Path, times: Mapping[str, datetime], **more: Any) -> Path:  # noqa: ANN401 - JSON
    """What a run leaves that found these uses."""
    manifest = {"offset": 9, "as_of": "2026-11-22T02:00:00Z", "complete": True, "covered_hours": 72.0, **more}
    write(home, 9, "manifest", manifest)
    path = write(home, 9, "last-used", {})
    keys = {sha256(name.encode()).hexdigest()[:20]: f"{int(time.timestamp()):08X}" for name, time in times.items()}
    path.write_text("".join(f"{key}{keys[key]}\n" for key in sorted(keys)), encoding="ascii")
    return path


async def test_each_acl_and_principal_shows_its_last_use(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(acl("orders", "User:bob"), acl("orders", "User:eve", "WRITE"))
    reply = await service.send("/v1/acls/search", {"context": ADMIN, "filter": {"principal": "User:bob"}})
    (of_bob,) = reply.json()["acls"]
    leave(tmp_path, {of_bob["id"]: USED, "User:bob": USED.replace(hour=4), "User:carol": USED})
    text = " ".join((await browser.go(ORDERS)).text.split())
    assert "ALLOW READ to User:bob on topic orders last used 2026-11-20 03:00 UTC" in text
    assert "ALLOW WRITE to User:eve on topic orders no known use" in text
    assert "Last uses as of 2026-11-22 02:00 UTC, in a decision log that covers 3 d." in text
    assert "Its last known request was 2026-11-20 04:00 UTC." in (await browser.go(BOB)).text
    assert "It has no known requests" in (await browser.go("/console/principal?principal=User:eve")).text
    then = f"{ORDERS}&at={service.authorizer.image.token}"
    assert "last used" not in (await browser.go(then)).text, "the past knows of no use"


async def test_what_it_takes_to_know_is_said(service: InProcess, browser: Browser, tmp_path: Path) -> None:
    await service.create(acl("orders", "User:bob"))

    async def why() -> str:
        for path in (BOB, ORDERS):
            text = " ".join((await browser.go(path)).text.split())
            assert "no known use" not in text
        return text.partition("It is not known when they were last used: ")[2]

    assert "run klamm pipeline nightly with --decisions" in await why()
    leave(tmp_path, {}, covered_hours=None)
    assert "had no decision log" in await why()
    path = leave(tmp_path, {"User:bob": USED, "User:eve": USED})
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-2] + b"\nx", b"\0" * len(whole), whole.replace(b"\n", b"z")):
        path.write_bytes(damaged)
        assert "is damaged" in await why()
    path.unlink()
    assert "has no record of it" in await why()
    path.parent.joinpath("_SUCCESS").unlink()
    path.parent.rmdir()
    assert "an older release wrote" in await why()


@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_each_is_found_and_nothing_else(tmp_path: Path, count: int) -> None:
    times = {f"User:{number}": datetime.fromtimestamp(1_700_000_000 + number, UTC) for number in range(count)}
    leave(tmp_path, times)
    found = read_uses(str(tmp_path), [*times, "User:none", "User:other", "User:-1"])
    assert found.times == times
