"""The front page: a question in a line, its answer, and the way from a refusal to an ACL that ends by itself."""

from urllib.parse import quote

import pytest

from app.client.explanations import Asked
from app.console.questions import asked, line_of
from app.core.kafka.codes import AclOperation, ResourceType
from app.formats.command_errors import UsageError
from tests.browser import Browser
from tests.klamm import InProcess, acl

BOB = "/console?q=" + quote("User:bob WRITE topic:orders from 10.1.2.3")


@pytest.mark.parametrize(
    ("line", "principal", "operation", "resource", "host"),
    [
        ("User:bob WRITE topic:orders from 10.1.2.3", "User:bob", "WRITE", "TOPIC orders", "10.1.2.3"),
        ("  User:bob   write   topic:orders  ", "User:bob", "WRITE", "TOPIC orders", "127.0.0.1"),
        (
            "User:CN=bob, O=my org Read group:my group from ::1",
            "User:CN=bob, O=my org",
            "READ",
            "GROUP my group",
            "::1",
        ),
        ("User:bob describe-configs cluster", "User:bob", "DESCRIBE_CONFIGS", "CLUSTER kafka-cluster", "127.0.0.1"),
        ("User:a READ topic:from 1 FROM 10.1.2.3", "User:a", "READ", "TOPIC from 1", "10.1.2.3"),
        ("User:(groups READ topic:t", "User:(groups", "READ", "TOPIC t", "127.0.0.1"),
        ("User:a READ topic:of (groups x)", "User:a", "READ", "TOPIC of (groups x)", "127.0.0.1"),
        ("User:a CreateTokens user:User:bob", "User:a", "CREATE_TOKENS", "USER User:bob", "127.0.0.1"),
    ],
)
def test_a_line_is_a_question(line: str, principal: str, operation: str, resource: str, host: str) -> None:
    type_, _, name = resource.partition(" ")
    question, has_host = asked(line)
    assert question == Asked(principal, AclOperation[operation], ResourceType[type_], name, host)
    assert has_host is ("from" in line.lower().rpartition(" f")[0] or " from " in line.lower())
    assert asked(line_of(question))[0] == question


@pytest.mark.parametrize(
    ("line", "principal", "groups"),
    [
        ("User:bob (groups pii, eng) READ topic:t", "User:bob", ("eng", "pii")),
        ("User:CN=b, O=c (Group a (b)) READ topic:t from ::1", "User:CN=b, O=c", ("a (b)",)),
        ("User:bob (groups a READ topic:x, b) READ topic:t", "User:bob", ("a READ topic:x", "b")),
    ],
)
def test_groups_stand_behind_the_principal(line: str, principal: str, groups: tuple[str, ...]) -> None:
    question, _ = asked(line)
    assert (question.principal, question.groups, question.resource_name) == (principal, groups, "t")
    assert asked(line_of(question))[0] == question


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("bob WRITE topic:orders", "User:bob"),
        ("User:bob WRITES topic:orders", "`WRITES` is not a Kafka operation"),
        ("User:bob WRITE orders", "`orders` is not a resource"),
        ("User:bob WRITE topic:orders from example.com", "from"),
        ("User:bob (groups a, b READ topic:t", "closing bracket"),
        ("User:bob (groups , ) READ topic:t", "at least one group"),
        ("User:bob (groups Group:a) READ topic:t", "leave out `Group:`"),
        (f"User:bob (groups {'g' * 256}) READ topic:t", "1 to 255"),
        ("User:bob (groups a) WRITES topic:t", "`WRITES` is not a Kafka operation"),
        ("User:bob", "who, what"),
        ("\x00", "is not a principal"),
    ],
)
def test_what_is_no_question_says_what_is_missing(line: str, says: str) -> None:
    with pytest.raises(UsageError) as fault:
        asked(line)
    assert says in str(fault.value)


async def test_the_empty_page_teaches_by_questions_about_this_store(service: InProcess, browser: Browser) -> None:
    assert "User:bob WRITE topic:orders" in (await browser.go("/console")).text
    await service.create(acl("payments", "User:carol"))
    page = await browser.go("/console")
    assert "User:carol READ topic:payments from 10.1.2.3" in page.text
    assert "Allowed" in (await browser.go("/console?q=" + quote("User:carol READ topic:payments from 10.1.2.3"))).text


async def test_a_refusal_leads_to_an_acl_that_ends(service: InProcess, browser: Browser) -> None:
    page = await browser.go(BOB)
    assert "Denied" in page.text
    plan = await browser.send(page.form("Allow for 8 hours"))
    assert "User:bob" in plan.text
    assert "WRITE, DESCRIBE" in plan.text
    assert service.authorizer.image.acl_count == 0, "a plan changes nothing"
    page = await browser.send(plan.form("Create 1 ACL"), comment="OPS-1")
    assert "Allowed" in page.text
    (acl,) = (await service.send("/v1/acls/search", {"context": _ADMIN, "filter": {}})).json()["acls"]
    assert (acl["principal"], acl["host"]) == ("User:bob", "10.1.2.3")
    assert acl["expires_at"] is not None


async def test_groups_are_asked_with_and_said(service: InProcess, browser: Browser) -> None:
    await service.create(acl("orders", "Group:eng", "WRITE"))
    page = await browser.go("/console?q=" + quote("User:bob (groups eng, pii) WRITE topic:orders from 10.1.2.3"))
    assert "User:bob in Group:eng, Group:pii may WRITE" in " ".join(page.text.split())
    assert "--group eng --group pii" in page.text
    assert "Denied" in (await browser.go(BOB)).text


async def test_a_change_is_not_made_on_acls_that_have_changed_since(service: InProcess, browser: Browser) -> None:
    plan = await browser.send((await browser.go(BOB)).form("Allow for good"))
    await service.create(acl("orders", "User:bob", "ALL", permission_type="DENY"))
    again = await browser.send(plan.form("Create 1 ACL"), 409, comment="OPS-2")
    assert "have changed since" in again.text
    assert again.form("Create 1 ACL").fields["comment"] == "OPS-2", "nothing that was typed is lost"
    assert service.authorizer.image.acl_count == 1
    assert "Nobody gains" in again.text, "the DENY stands above it"
    page = await browser.send(again.form("Create 1 ACL"))
    assert "Denied" in page.text


async def test_what_denies_is_removed_in_one_plan_with_what_is_needed_besides(
    service: InProcess, browser: Browser
) -> None:
    await service.create(acl("orders", "User:bob", "ALL", permission_type="DENY"))
    plan = await browser.send((await browser.go(BOB)).form("Remove what denies it"))
    page = await browser.send(plan.form("Create 1 and remove 1"))
    assert "Allowed" in page.text


async def test_a_question_that_is_none_keeps_what_was_typed(browser: Browser) -> None:
    page = await browser.go("/console?q=" + quote('bob "> WRITE <script>'), 400)
    assert 'value="bob &#34;&gt; WRITE &lt;script&gt;"' in page.reply.text
    assert "User:bob" in page.text


async def test_a_form_that_is_tampered_with_says_so(browser: Browser) -> None:
    form = (await browser.go(BOB)).form("Allow for good")
    for change in ("", "{}", "[]", '{"create": [{}], "delete": []}', "[" * 100_000, '{"create": 1, "delete": 2}'):
        assert "go back and start again" in (await browser.send(form, 400, change=change)).text
    plan = await browser.send(form)
    again = await browser.send(plan.form("Create 1 ACL"), 409, token="")
    assert "does not say which state it was planned on" in again.text


_ADMIN = {"principal": "User:admin", "client_address": "127.0.0.1"}
