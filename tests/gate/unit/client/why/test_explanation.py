"""What `klamm why` prints, from what the service answers."""

import argparse
import io
from typing import Any
from uuid import UUID

import pytest

from app.client import why
from app.client.explanations import Asked, explained
from app.client.http.access import access_flags
from app.client.http.replies import ServiceError
from app.client.why import _access_options, print_explanation
from app.core.kafka.codes import AclOperation, ResourceType
from app.formats.command_errors import UsageError
from tests.client_runs import run
from tests.scripted_server import ScriptedServer, reply

ASKED = Asked("User:bob", AclOperation.READ, ResourceType.TOPIC, "orders", "10.1.2.3")
NOTHING: dict[str, Any] = {
    "result": "DENIED",
    "rule": "DefaultDeny",
    "acl": None,
    "matching_acls": [],
    "matching_acl_count": 0,
    "near_misses": [],
    "smallest_acl": None,
    "denying_acls": [],
    "denying_acl_count": 0,
    "acl_needed_besides": None,
    "note": None,
}


def proposed(**changes: str) -> dict[str, str]:
    return {
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "pattern_type": "LITERAL",
        "principal": "User:bob",
        "host": "10.1.2.3",
        "operation": "READ",
        "permission_type": "ALLOW",
        **changes,
    }


def acl(**changes: str) -> dict[str, str]:
    return {"id": str(UUID(int=1)), **proposed(**changes)}


def printed(
    *,
    access: tuple[str, ...] = (),
    token: str | None = "e:7",  # noqa: S107 - a token of consistency, no secret
    asked: Asked = ASKED,
    allow_for: str | None = None,
    **fields: object,
) -> str:
    out = io.StringIO()
    print_explanation(asked, explained({**NOTHING, **fields}, token), access, out, allow_for)
    return out.getvalue()


def test_what_is_allowed_shows_no_acl_that_nearly_denies_it() -> None:
    miss = {"acl": acl(permission_type="DENY", host="10.9.9.9"), "missed": ["host"], "detail": "would match if"}
    shown = printed(result="ALLOWED", rule="MatchingAcl", acl=acl(), matching_acl_count=1, near_misses=[miss])
    assert shown == (
        "ALLOWED User:bob READ topic:orders from 10.1.2.3\n"
        "  this ACL decides (MatchingAcl):\n"
        "    ALLOW READ to User:bob from 10.1.2.3 on topic:orders\n"
        "\n"
        "As of e:7\n"
    )


def test_what_is_to_be_allowed_for_a_while_is_printed_with_its_end() -> None:
    shown = printed(smallest_acl=proposed(), denying_acls=[acl(permission_type="DENY")], allow_for="8h")
    assert "klamm acls --remove --deny-principal User:bob" in shown
    assert shown.count("--expires 8h") == 1
    assert "--operation Read --topic orders --expires 8h\n" in shown
    # What no command line can say goes to createAcls with its end.
    wide = printed(smallest_acl=proposed(resource_name="a\nb"), allow_for="2099-12-01T18:00:00Z")
    assert '"expires_at": "2099-12-01T18:00:00Z"}' in wide


def test_what_nobody_allows_shows_what_to_type() -> None:
    miss = {"acl": acl(host="10.9.9.9"), "missed": ["host"], "detail": "would match if pigs could fly"}
    assert printed(near_misses=[miss], smallest_acl=proposed(), note="one; two", access=("--as", "User:admin")) == (
        "DENIED User:bob READ topic:orders from 10.1.2.3\n"
        "  no ACL allows it (DefaultDeny)\n"
        "\n"
        "ACLs that nearly match\n"
        "  ALLOW READ to User:bob from 10.9.9.9 on topic:orders\n"
        "    would match if pigs could fly\n"
        "\n"
        "To allow it, add the smallest ACL that does\n"
        "  klamm acls --as User:admin --add --allow-principal User:bob --allow-host 10.1.2.3 --operation Read "
        "--topic orders\n"
        "\n"
        "Note\n"
        "  one\n"
        "  two\n"
        "\n"
        "As of e:7\n"
    )


def test_what_an_acl_allows_names_it_once() -> None:
    deciding = acl(principal="User:*", host="*", resource_name="ord", pattern_type="PREFIXED")
    assert printed(
        result="ALLOWED", rule="MatchingAcl", acl=deciding, matching_acls=[deciding], matching_acl_count=1
    ) == (
        "ALLOWED User:bob READ topic:orders from 10.1.2.3\n"
        "  this ACL decides (MatchingAcl):\n"
        "    ALLOW READ to User:* from any host on topic:ord (PREFIXED: all names with this prefix)\n"
        "\n"
        "As of e:7\n"
    )


def test_denies_are_to_be_removed_one_by_one_before_anything_else_helps() -> None:
    star = acl(permission_type="DENY", resource_name="*", operation="ALL", host="*")
    own = acl(permission_type="DENY")
    text = printed(
        rule="MatchingAcl",
        acl=own,
        matching_acls=[own, star],
        matching_acl_count=2,
        denying_acls=[own, star],
        denying_acl_count=2,
        acl_needed_besides=proposed(),
    )
    assert text.splitlines()[2:] == [
        "    DENY READ for User:bob from 10.1.2.3 on topic:orders",
        "",
        "Every ACL that matches (2)",
        "  DENY READ for User:bob from 10.1.2.3 on topic:orders",
        "  DENY ALL for User:bob from any host on topic:* (all names)",
        "",
        "To allow it, remove every ACL that denies it (2)",
        "  klamm acls --remove --deny-principal User:bob --deny-host 10.1.2.3 --operation Read --topic orders",
        "  klamm acls --remove --deny-principal User:bob --operation All --topic '*'",
        "",
        "and then add the smallest ACL that allows it",
        "  klamm acls --add --allow-principal User:bob --allow-host 10.1.2.3 --operation Read --topic orders",
        "",
        "As of e:7",
    ]


def test_what_is_left_out_of_a_list_is_counted() -> None:
    text = printed(matching_acls=[acl()], matching_acl_count=500, denying_acls=[acl()], denying_acl_count=300)
    assert "Every ACL that matches (the first 1 of 500)" in text
    assert "To allow it, remove every ACL that denies it (the first 1 of 300)" in text


def test_what_no_flag_can_say_is_said_in_json() -> None:
    text = printed(smallest_acl=proposed(operation="CLUSTER_ACTION"), denying_acls=[acl(resource_name=" x\u202e")])
    assert 'no command line can express it; send it to createAcls: {"resource_type": "TOPIC"' in text
    assert 'send it to deleteAcls: {"resource_type": "TOPIC", "resource_name": " x\\u202e"' in text


def test_nothing_in_a_name_reaches_the_terminal_as_a_command_and_nothing_is_cut() -> None:
    evil, long = "x\x1b[2J\n[red]y[/]", "User:CN=" + "long " * 2_000
    asked = Asked(long, AclOperation.READ, ResourceType.TOPIC, evil, "10.1.2.3")
    miss = {"acl": acl(resource_name=evil, principal=long), "missed": [], "detail": f"would match if `{evil}`"}
    text = printed(asked=asked, near_misses=[miss], smallest_acl=proposed(principal=long.strip(), resource_name=evil))
    assert "\x1b" not in text
    assert 'topic:"x\\u001b[2J\\n[red]y[/]"' in text
    assert text.count("long " * 1_999 + "long") == 3


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("SuperUser", "ACLs are not checked (SuperUser)"),
        ("DefaultAllow", "this resource has no ACL (DefaultAllow)"),
        ("FromTheFuture", "FromTheFuture"),
    ],
)
def test_the_rule_is_said(rule: str, words: str) -> None:
    assert printed(result="ALLOWED", rule=rule, token=None).splitlines()[1:] == [
        f"  {words}",
        "",
        "The service has not loaded its ACLs yet",
    ]


@pytest.mark.parametrize("body", [None, [], {}, {**NOTHING, "near_misses": [{}]}, {**NOTHING, "acl": 1}])
def test_what_is_no_explanation_is_told_in_one_line(body: object) -> None:
    with pytest.raises(ServiceError, match="the answer is not from Klamm"):
        explained(body, "e:7")


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    why.add_arguments(parser)
    return parser.parse_args(words)


def test_what_is_asked_wrongly_is_refused_before_anything_is_sent(subtests: pytest.Subtests) -> None:
    for words, complaint in [
        (("bob", "READ", "topic:orders", "--host", "10.1.2.3"), "`bob` is not a principal"),
        (("User:bob", "REED", "topic:orders", "--host", "10.1.2.3"), "`REED` is not a Kafka operation"),
        (("User:bob", "READ", "orders", "--host", "10.1.2.3"), "`orders` is not a resource"),
        (("User:bob", "READ", "queue:orders", "--host", "10.1.2.3"), "`queue` is not a Kafka resource type"),
        (
            ("User:bob", "READ", "topic:orders", "--host", "web-1"),
            "--host: `web-1` is not an IP address; use one such as",
        ),
        (("User:bob", "READ", "topic:orders", "--host", "10.1.2.3"), "--as"),
    ]:
        with subtests.test(words=words, complaint=complaint), pytest.raises(UsageError, match=complaint):
            why.run(arguments(*words), io.StringIO())


def test_commands_reach_the_service_that_was_asked() -> None:
    question = ("User:bob", "READ", "topic:orders", "--host", "::1")
    assert _access_options(access_flags(arguments(*question))) == []
    given = ("--klamm", "unix:/k", "--as", "User:a", "--command-config", "f", "--token-file", "t", "--ca", "c")
    assert _access_options(access_flags(arguments(*question, *given, "--timeout", "3"))) == list(given)


def test_ends_and_owners_are_shown() -> None:
    ending = {**acl(), "expires_at": "2999-12-01T18:00:00Z", "owner": "orders \u202eteam"}
    miss = {"acl": {**acl(host="10.9.9.9"), "expires_at": "2000-01-01T00:00:00Z"}, "missed": ["host"], "detail": "x"}
    shown = printed(acl=ending, matching_acls=[ending, acl()], matching_acl_count=2, near_misses=[miss])
    assert shown.count('on topic:orders until 2999-12-01T18:00:00Z, owner "orders \\u202eteam"\n') == 2
    assert "from 10.9.9.9 on topic:orders until 2000-01-01T00:00:00Z\n" in shown


def test_a_question_is_asked_of_the_service_and_its_answer_is_shown() -> None:
    words = ("User:bob", "READ", "topic:orders", "--host", "10.1.2.3", "--as", "User:admin")
    with ScriptedServer(reply(results=[NOTHING], token="e:7")) as server:
        told = run(why, [*words, "--klamm", server.url])
        judged = run(why, [*words, "--klamm", server.url, "--exit-code", "--output", "json"])
    assert (told.code, judged.code) == (0, 4)
    assert "DENIED" in told.text
    assert (judged.json["principal"], judged.json["result"], judged.json["token"]) == ("User:bob", "DENIED", "e:7")
    for asked in server.seen:
        assert asked.path == "/v1/explain"
        assert asked.body["about"] == {"principal": "User:bob", "client_address": "10.1.2.3"}
        action = {"operation": "READ", "resource_type": "TOPIC", "resource_name": "orders"}
        assert asked.body["actions"] == [action]
