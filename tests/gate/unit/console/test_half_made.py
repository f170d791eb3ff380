"""A change in two steps that stops between them says what it has done."""

import pytest

from app.console.api import Api
from app.console.difference import Change
from app.core.kafka.bindings import NewAcl
from tests.browser import Browser
from tests.klamm import InProcess, acl
from tests.updates import binding


async def test_what_was_created_is_told_where_the_removal_is_refused(
    service: InProcess, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (binding(acl(name, "User:bob")) for name in ("old", "new"))
    await service.create(acl("old", "User:bob"))
    ask = Api.ask

    async def ask_late(self: Api, method: str, path: str, **asked: object) -> object:
        if path == "/v1/acls/delete":
            await service.create(acl("another's"))
        return await ask(self, method, path, **asked)  # type: ignore[arg-type]  # as it came

    plan = await browser.go(f"/console/plan?change={Change((NewAcl(new),), (old,)).packed()}")
    monkeypatch.setattr(Api, "ask", ask_late)
    page = await browser.send(plan.form("Create 1 and remove 1"), 409)
    assert service.authorizer.image.acl_count == 3
    assert "nothing was done" not in page.text.lower()
    assert "were created, but removing the others failed" in page.text
