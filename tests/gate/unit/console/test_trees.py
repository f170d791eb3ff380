"""A principal's tree of names, and a resource's states of the past, one after the other."""

import random

import pytest

from app.console.trees import Node, trees
from tests.browser import Browser
from tests.gate.unit.console.test_guards import HOSTILE, check_harmless
from tests.klamm import InProcess, acl


def row(name: str, pattern_type: str = "LITERAL", resource_type: str = "TOPIC") -> dict[str, str]:
    return {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type}


def drawn(nodes: list[Node]) -> list[str]:
    return [f"{'.' * each.depth}{each.name}{'' if each.rows else '…'}" for each in nodes]


def test_wider_patterns_stand_above_what_they_cover_and_names_that_begin_alike_together() -> None:
    rows = [row("*"), row("a.b.x"), row("a.b.y"), row("a.b.", "PREFIXED"), row("a.c"), row("ord", "PREFIXED")]
    rows += [row("order-s"), row("order-t"), row("ord"), row("zz"), row("g", resource_type="GROUP")]
    found = trees(rows)
    assert list(found) == ["GROUP", "TOPIC"]
    assert drawn(list(found["TOPIC"])) == [
        "",
        ".a.…",
        "..a.b.",
        "...a.b.x",
        "...a.b.y",
        "..a.c",
        ".ord",
        "..ord",
        "..order-…",
        "...order-s",
        "...order-t",
        ".zz",
    ]


def test_every_pattern_stands_in_the_tree_once_however_deep() -> None:
    draw = random.Random(5)
    names = {"".join(draw.choices("ab.-", k=draw.randrange(1, 9))) for _ in range(300)} | {"x" * n for n in range(60)}
    rows = [row(name, kind) for name in sorted(names - {""}) for kind in ("LITERAL", "PREFIXED")]
    lines = trees(rows)["TOPIC"]
    assert sorted(str(each) for node in lines for each in node.rows) == sorted(map(str, rows))
    assert max(node.depth for node in lines) == 8


async def test_a_principal_is_shown_as_a_tree(service: InProcess, browser: Browser) -> None:
    await service.create(
        acl("orders.", "User:bob", pattern_type="PREFIXED"),
        acl("orders.eu", "User:bob", "WRITE", host="10.0.0.0/8"),
        acl("orders.eu", "User:bob", "WRITE", permission_type="DENY"),
    )
    page = await browser.go("/console/principal?principal=User:bob")
    (link,) = [each["href"] for _, each in page.elements if "view=tree" in each.get("href", "")]
    page = await browser.go(link)
    assert [each["class"] for tag, each in page.elements if tag == "li" and each.get("class", "").startswith("d")] == [
        "d0",
        "d1",
    ]
    assert "WRITE denied" in " ".join(page.text.split())


@pytest.mark.parametrize("odd", HOSTILE)
async def test_hostile_names_are_text_in_trees_and_histories(service: InProcess, browser: Browser, odd: str) -> None:
    for principal in (f"User:{odd}"[:32_767], "User:bob"):
        await service.create(acl(odd, principal), acl(odd, pattern_type="PREFIXED"))
    check_harmless((await browser.go("/console/principal?principal=User:bob&view=tree")).reply.text)
    if len(odd) < 4_000:
        reply = await browser.client.get("/console/resource", params={"type": "TOPIC", "name": odd})
        assert "Go there" in reply.text
        check_harmless(reply.text)
