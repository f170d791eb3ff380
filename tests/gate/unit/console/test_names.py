"""Two principals that differ by a blank at their ends, one allowed and one denied, are told apart on each page."""

from urllib.parse import urlencode

import pytest

from tests.browser import Browser, Seen
from tests.klamm import InProcess, acl

SHOP, LIKE_IT = "User:shop", "User:shop "
SPELLED = '"User:shop "'


@pytest.fixture
async def shops(service: InProcess) -> InProcess:
    await service.create(acl("orders", SHOP, operation="WRITE"))
    await service.create(acl("orders", LIKE_IT, operation="WRITE", permission_type="DENY"))
    return service


def words(page: Seen) -> str:
    """As a browser shows it, which puts blanks together."""
    return " ".join(page.text.split())


def page_of(principal: str) -> str:
    return f"/console/principal?{urlencode({'principal': principal})}"


@pytest.mark.usefixtures("shops")
@pytest.mark.parametrize(
    "path", ["acls", "principal", "resource?type=TOPIC&name=orders", "history", "acls?resource_name=orders"]
)
async def test_each_page_shows_the_blank_and_links_to_the_exact_name(browser: Browser, path: str) -> None:
    page = await browser.go(f"/console/{path}")
    shown = words(page)
    assert SPELLED in shown
    assert SHOP in shown.replace(SPELLED, "")
    links = {found.get("href") for tag, found in page.elements if tag == "a"}
    assert path == "history" or {page_of(SHOP), page_of(LIKE_IT)} <= links


@pytest.mark.usefixtures("shops")
async def test_the_page_of_a_principal_is_of_that_one(browser: Browser) -> None:
    for principal, title, permission in ((SHOP, SHOP, "ALLOW"), (LIKE_IT, SPELLED, "DENY")):
        page = await browser.go(page_of(principal))
        shown = words(page)
        assert f"{title} · Klamm" in shown
        assert f"{permission} WRITE {'to' if permission == 'ALLOW' else 'for'} {title} on topic orders" in shown
        assert (SPELLED in shown) is (principal == LIKE_IT)
        filtered = words(await browser.go(f"/console/acls?{urlencode({'principal': principal})}"))
        assert f"{permission}WRITE{title}topic orders" in filtered
        assert words(await browser.go(f"/console/history?{urlencode({'principal': principal})}")).count(title) == 1


async def test_a_change_and_its_plan_are_about_the_exact_name(shops: InProcess, browser: Browser) -> None:
    page = await browser.go(f"/console/acls?{urlencode({'principal': LIKE_IT})}")
    (change,) = [found["href"] for tag, found in page.elements if tag == "a" and "instead=" in found.get("href", "")]
    form = (await browser.go(change)).form("Review")
    assert form.fields["principal"] == LIKE_IT
    chosen = {"permission_type": "DENY", "operation": "WRITE", "resource_type": "TOPIC", "pattern_type": "LITERAL"}
    plan = await browser.send(form, fields={**chosen, "owner": "team", "ends": "never"})
    assert f"DENY WRITE for {SPELLED} on topic orders" in words(plan)
    await browser.send(plan.form("Change 1 ACL"))
    assert {each["principal"]: each["owner"] for each in await shops.acls()} == {SHOP: None, LIKE_IT: "team"}
    removal = await browser.send((await browser.go(page_of(LIKE_IT))).form("Remove all its ACLs"))
    done = await browser.send(removal.form("Remove 1 ACL"))
    assert f"DENY WRITE for {SPELLED}" in words(done)
    assert [each["principal"] for each in await shops.acls()] == [SHOP]


@pytest.mark.usefixtures("shops")
async def test_an_acl_for_it_is_created_for_it(browser: Browser) -> None:
    form = (await browser.go(f"/console/create?{urlencode({'principal': LIKE_IT})}")).form("Review")
    plan = await browser.send(form, resource_name="bills", operation="READ", resource_type="TOPIC")
    assert f"ALLOW READ to {SPELLED} on topic bills" in words(plan)
    preset = (await browser.go(f"/console/create?{urlencode({'principal': LIKE_IT, 'preset': 'producer'})}")).form(
        "Review"
    )
    assert f"ALLOW WRITE to {SPELLED} on topic bills" in words(await browser.send(preset, topics="bills"))


@pytest.mark.usefixtures("shops")
async def test_an_answer_names_the_near_miss_by_its_blank(browser: Browser) -> None:
    page = await browser.go(f"/console?{urlencode({'q': 'User:shop  WRITE topic:orders from 10.1.2.3'})}")
    shown = words(page)
    assert f"{SHOP} may WRITE topic orders" in shown
    examples = words(await browser.go("/console"))
    assert "User:shop WRITE topic:orders from" in examples
    denied = words(await browser.go(f"/console?{urlencode({'q': 'User:shops WRITE topic:orders from 10.1.2.3'})}"))
    assert SPELLED not in denied.partition("Near misses")[0]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a  b", r'"a\x20\x20b"'),
        ("orders\u200b", r'"orders\u200b"'),
        ("\u043erders", r'"\u043erders"'),
        ("or\u00adders", r'"or\xadders"'),
        ("cafe\u0301", r'"cafe\u0301"'),
        ("café", "café"),
    ],
)
async def test_names_that_look_like_others_are_spelled_out(
    service: InProcess, browser: Browser, name: str, shown: str
) -> None:
    await service.create(acl(name, f"User:{name}", resource_type="GROUP"))
    resource = f"/console/resource?{urlencode({'type': 'GROUP', 'name': name})}"
    for path in ("/console/acls", "/console/principal", resource, page_of(f"User:{name}")):
        assert shown.replace('"', "") in words(await browser.go(path)), path
    (link,) = {
        found["href"]
        for tag, found in (await browser.go("/console/principal")).elements
        if tag == "a" and "principal?principal=" in found.get("href", "")
    }
    assert link == page_of(f"User:{name}")
