"""`klamm test` on files: what can be said, what a typo is told, and what is printed for people and for CI."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from app.client.assertions import command
from app.client.assertions.sentences import parse_sentence
from app.core.access import assertions
from app.core.kafka.codes import ResourceType
from app.formats.command_errors import UsageError
from tests.client_runs import Run, run

ACLS = """\
{"resource_type": "TOPIC", "resource_name": "pii.", "pattern_type": "PREFIXED", "principal": "User:pii", \
"host": "*", "operation": "READ", "permission_type": "ALLOW"}
{"resource_type": "TOPIC", "resource_name": "pii.cards", "pattern_type": "LITERAL", "principal": "User:bob", \
"host": "10.0.0.0/8", "operation": "READ", "permission_type": "ALLOW"}
{"resource_type": "TOPIC", "resource_name": "pii.cards", "pattern_type": "LITERAL", "principal": "User:*", \
"host": "10.66.0.0/16", "operation": "ALL", "permission_type": "DENY"}
{"resource_type": "TOPIC", "resource_name": "orders", "pattern_type": "LITERAL", "principal": "User:orders-svc", \
"host": "*", "operation": "WRITE", "permission_type": "ALLOW"}
"""
TOPIC = ResourceType.TOPIC


def checked(folder: Path, text: str, *words: str, acls: str = ACLS) -> Run:
    """`klamm test access.yaml --acls acls.jsonl`."""
    (folder / "access.yaml").write_text(text, encoding="utf-8")
    (folder / "acls.jsonl").write_text(acls, encoding="utf-8")
    return run(command, [str(folder / "access.yaml"), "--acls", str(folder / "acls.jsonl"), *words])


def refused(folder: Path, text: str, *words: str) -> list[str]:
    """The lines of the refusal, without the folder."""
    with pytest.raises(UsageError) as caught:
        checked(folder, text, *words)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def said(text: str) -> str:
    """What the one assertion of a sentence says, in short."""
    (one,) = parse_sentence(text)
    return " ".join(
        (
            "+" if one.allowed else "-",
            ("!" if one.others else "") + "|".join(one.principals),
            ",".join(each.name for each in one.operations),
            f"{one.resource_type.name} {one.pattern_type.name} {one.resource_name} {one.host}",
        )
    )


def test_a_sentence_says_one_thing(subtests: pytest.Subtests) -> None:
    for sentence, expected in [
        ("User:svc may WRITE topic:orders", "+ User:svc WRITE TOPIC LITERAL orders *"),
        (
            "User:a, User:b may not read,Write topic:pii.* from 10.1.2.3",
            "- User:a|User:b READ,WRITE TOPIC PREFIXED pii. 10.1.2.3",
        ),
        ("nobody but Group:pii may READ topic:*", "- !Group:pii READ TOPIC LITERAL * *"),
        ("everybody may DescribeTokens user:User:bob", "+ ! DESCRIBE_TOKENS USER LITERAL User:bob *"),
        ("nobody may DescribeTokens user:User:b*", "- ! DESCRIBE_TOKENS USER PREFIXED User:b *"),
        ("nobody may DescribeTokens user:*", "- ! DESCRIBE_TOKENS USER LITERAL * *"),
        ("nobody may ALTER cluster:kafka-cluster", "- ! ALTER CLUSTER LITERAL kafka-cluster *"),
        (
            'User:CN=a,OU=b,C=c may READ group:"g *" from 10.0.0.0/8',
            "+ User:CN=a,OU=b,C=c READ GROUP LITERAL g * 10.0.0.0/8",
        ),
        (
            r'"User:CN=a, \"b\"", "nobody:x" may not ALL transactional-id:t from ::1',
            '- User:CN=a, "b"|nobody:x WRITE,DESCRIBE,TWO_PHASE_COMMIT TRANSACTIONAL_ID LITERAL t 0:0:0:0:0:0:0:1',
        ),
    ]:
        with subtests.test(sentence=sentence, expected=expected):
            assert said(sentence) == expected


def test_several_resources_and_hosts_are_said_one_by_one() -> None:
    found = parse_sentence("User:a may READ topic:x, group:y from 10.0.0.1, 10.0.0.2")
    assert [(each.resource_type, each.resource_name, each.host) for each in found] == [
        (TOPIC, "x", "10.0.0.1"),
        (TOPIC, "x", "10.0.0.2"),
        (ResourceType.GROUP, "y", "10.0.0.1"),
        (ResourceType.GROUP, "y", "10.0.0.2"),
    ]


def test_what_is_not_understood_is_told_with_the_way_out(subtests: pytest.Subtests) -> None:
    for sentence, told in [
        ("", "the sentence is empty"),
        ("nobdy may READ topic:x", "did you mean nobody?"),
        ("User:a mya READ topic:x", "did you mean may?"),
        ("User:a may REED topic:x", "did you mean READ?"),
        ("User:a may READ topc:x", "did you mean TOPIC?"),
        ("User:a may READ", "after `READ` a resource, such as topic:orders is missing"),
        ("User:a may READ topic:x form 10.0.0.1", "did you mean from?"),
        ("User:a may READ topic:x from 10.0.0", "`10.0.0` is not a client address"),
        ("User:a may READ topic:x from", "a host, such as 10.1.2.3 or 10.0.0.0/8 is missing"),
        ("User:a may READ and WRITE topic:x", "`and` is ambiguous"),
        ("User:a may READ on topic:x", "unexpected word `on`"),
        ("User:a,User:b may READ topic:x", "put a space after the comma"),
        ("User:a, may READ topic:x", "after `User:a` a principal, such as User:alice is missing"),
        ("User:* may READ topic:x", "write everybody, or nobody"),
        ("User:a with gruops eng may READ topic:x", "did you mean groups?"),
        ("User:a with groups Group:eng may READ topic:x", "leave out `Group:`"),
        ("nobody but User:a with groups eng may READ topic:x", "for a whole group write Group:NAME"),
        ("nobody may not READ topic:x", "write `everybody may ...`"),
        ("everybody may not READ topic:x", "write `nobody may ...`"),
        ("User:a may READ topic:a*b", "* is only allowed at the end"),
        ('User:a may READ topic:"x', "unclosed quote"),
        ('User:a may READ topic:"*"', "no ACL can be on the single name *"),
        ("User:a may READ cluster", "READ is not an operation of CLUSTER; it has CREATE"),
        ("User:a may READ topic:x topic:y", "the sentence should end before it"),
        ("User:a may not ALTER cluster:prod", "the cluster is always called kafka-cluster; write cluster"),
        ("User:a may not ALTER cluster:*", "the cluster is always called kafka-cluster; write cluster"),
        ("User:a may not CREATE_TOKENS user:bob", "`bob` is a principal without a type; write one such as user:User:"),
        ("User:a may not CREATE_TOKENS user::bob", "`:bob` is a principal without a type"),
        ("nobody may CREATE_TOKENS user:b*", "or user:* for all"),
        (":a may not READ topic:x", "`:a` is a principal without a type; write one such as User:alice"),
    ]:
        with subtests.test(sentence=sentence, told=told):
            with pytest.raises(UsageError) as caught:
                parse_sentence(sentence)
            assert told in str(caught.value)


def test_what_holds_ends_with_0(tmp_path: Path) -> None:
    ended = checked(
        tmp_path,
        "# a comment\n"
        "- User:orders-svc may WRITE topic:orders\n"
        "- User:orders-svc may not READ topic:pii.*\n"
        "- nobody but User:pii may READ topic:pii.* from 10.66.0.0/16\n",
    )
    assert ended.code == 0
    assert "\nAll 3 tests passed (4 ACLs of" in ended.text


def test_what_does_not_hold_is_shown_by_a_request(tmp_path: Path) -> None:
    ended = checked(
        tmp_path,
        "configs:\n  super.users: User:admin\ntests:\n- name: cards\n  comment: SEC-142\n"
        "  assert: nobody but User:pii may READ topic:pii.*\n- User:orders-svc may WRITE topic:orders\n",
    )
    assert ended.code == 1
    assert " ".join(ended.text.replace(f"{tmp_path}/", "").split()) == (
        "FAILED access.yaml:4 cards nobody but User:pii may READ topic:pii.* User:bob may READ topic:pii.cards from "
        "10.0.0.0: by ALLOW READ to User:bob from 10.0.0.0/8 on topic:pii.cards 1 of 2 tests failed (4 ACLs of "
        "acls.jsonl)."
    )


def test_fields_say_the_same_as_a_sentence(tmp_path: Path) -> None:
    ended = checked(
        tmp_path,
        "tests:\n"
        "- {nobody_but: [User:pii, User:bob], may: READ, resources: 'topic:pii.*'}\n"
        "- {principals: User:bob, may: [READ, DESCRIBE], resources: topic:pii.cards, from: [10.1.2.3, 10.2.0.0/16]}\n"
        "- {principals: [User:bob], may_not: ALL, resources: ['topic:\"pii.card\"', 'group:*']}\n"
        "- {everybody_but: [], may: READ, resources: topic:orders}\n",
        "--output",
        "json",
    )
    results = ended.json["results"]
    assert [each["holds"] for each in results] == [True, True, True, False]
    assert [each["name"] for each in results] == [
        "nobody but User:pii, User:bob may READ topic:pii.*",
        "User:bob may READ, DESCRIBE topic:pii.cards from 10.1.2.3, 10.2.0.0/16",
        'User:bob may not ALL topic:"pii.card", group:*',
        "everybody may READ topic:orders",
    ]
    assert results[3]["witnesses"][0] == {
        "principal": "User:somebody-else",
        "client_address": "0.0.0.0",  # noqa: S104 - a client
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "result": "DENIED",
        "rule": "DefaultDeny",
    }


def test_groups_speak_of_whoever_is_in_them(tmp_path: Path) -> None:
    row = json.loads(ACLS.splitlines()[0])
    acls = "".join(
        json.dumps({**row, "principal": f"Group:{name}", "permission_type": permission}) + "\n"
        for name, permission in (("pii", "ALLOW"), ("temps", "DENY"))
    )
    ended = checked(
        tmp_path,
        "- User:bob may not READ topic:pii.*\n"
        "- User:bob with groups pii, eng may READ topic:pii.*\n"
        "- User:bob with groups pii, temps may not READ topic:pii.*\n"
        "- Group:pii may READ topic:pii.*\n"
        "- nobody but Group:pii may READ topic:*\n"
        "- {principals: User:bob, groups: [pii], may_not: READ, resources: topic:pii.x}\n",
        "--output",
        "json",
        acls=acls,
    )
    results = ended.json["results"]
    assert [each["holds"] for each in results] == [True, True, True, True, True, False]
    assert results[5]["name"] == "User:bob with groups pii may not READ topic:pii.x"
    assert results[5]["witnesses"][0]["groups"] == ["pii"]
    assert results[5]["reasons"][0].startswith("User:bob (in pii) may READ topic:pii.x from")
    owner = json.dumps({**row, "principal": "User:eve"}) + "\n"
    ended = checked(tmp_path, "- nobody but Group:pii may READ topic:pii.*\n", acls=acls + owner)
    assert "User:eve may READ topic:pii. from" in ended.text


def test_every_typo_is_told_with_its_line(tmp_path: Path) -> None:
    assert refused(
        tmp_path,
        "config:\n  super.users: User:a\ntests:\n- User:a may READ topic:x\n- User:a may REED topic:x\n"
        "- name: x\n  asert: User:a may READ topic:x\n- nobody_but: [User:a]\n  may_not: READ\n  resources: topic:x\n"
        "- principals: User:a\n  resources: topic:x\n- 5\n- assert:\n  - User:a may READ topic:x\n  - User:a READ\n",
    ) == [
        "fix this first:",
        "access.yaml:1: `config`: unknown field; did you mean configs?",
        (
            "access.yaml:5: `REED` is not a Kafka operation; use one of ALL, READ, WRITE, CREATE, DELETE, ALTER, "
            "DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, "
            "DESCRIBE_TOKENS, TWO_PHASE_COMMIT; did you mean READ?"
        ),
        "access.yaml:7: `asert`: unknown field; did you mean assert?",
        "access.yaml:8: `nobody_but` with `may_not` is ambiguous; write `everybody_but` with `may`",
        (
            "access.yaml:11: none of `may`, `may_not`; write one of them, or a sentence: assert: SUBJECT "
            "[with groups NAME] may [not] OPERATION TYPE:NAME [from HOST]"
        ),
        "access.yaml:13: `5` is not a text in YAML; put it in quotes",
        (
            "access.yaml:16: `assert`: `READ`: expected `may` here; write SUBJECT [with groups NAME] may [not] "
            "OPERATION TYPE:NAME [from HOST]"
        ),
    ]


@pytest.mark.parametrize("text", ["", "[]", "tests: []", "configs: {}", "# nothing\n"])
def test_a_file_without_a_test_is_no_pass(tmp_path: Path, text: str) -> None:
    assert "the file has no tests" in refused(tmp_path, text)[1]


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ("super.user: User:a", "did you mean super.users?"),
        ("super.users: alice", "expected a string in format principalType:principalName"),
        ("allow.everyone.if.no.acl.found: yes please", "neither true nor false"),
    ],
)
def test_a_property_that_is_none_is_told_with_its_line(tmp_path: Path, configs: str, told: str) -> None:
    line = refused(tmp_path, f"configs:\n  {configs}\ntests: [User:a may READ topic:x]\n")[1]
    assert line.startswith("access.yaml:2: ")
    assert told in line


def test_properties_decide_and_the_command_line_has_the_last_word(tmp_path: Path) -> None:
    tests = "- nobody but User:orders-svc may WRITE topic:other\n- User:admin may DELETE topic:pii.cards\n"
    flags = ("--config", "super.users=User:admin", "--config", "allow.everyone.if.no.acl.found=true")
    assert checked(tmp_path, tests).code == 1
    report = checked(tmp_path, tests, *flags, "--output", "json").json
    assert [each["holds"] for each in report["results"]] == [False, True]
    assert report["results"][0]["witnesses"][0]["rule"] == "DefaultAllow"
    filed = f"configs:\n  super.users: [User:root, User:admin]\ntests:\n{tests}"
    assert [each["holds"] for each in checked(tmp_path, filed, "--output", "json").json["results"]] == [True, True]
    assert checked(tmp_path, filed, "--config", "super.users=").code == 1


def test_ci_reads_junit(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    text = '- "User:bob may not READ topic:pii.*"\n- User:pii may READ topic:pii.a\n- name: "a <b> & \\"c\\" \\u0001"\n'
    ended = checked(tmp_path, f"{text}  assert: User:pii may READ topic:x\n", "--output", "junit", "--junit", str(path))
    assert path.read_text() == ended.text
    root = ET.fromstring(ended.text)  # noqa: S314 - our own
    (suite,) = root
    assert (root.get("tests"), root.get("failures"), suite.get("failures")) == ("3", "2", "2")
    cases = suite.findall("testcase")
    assert [each.get("line") for each in cases] == ["1", "2", "3"]
    assert cases[2].get("name") == 'a <b> & "c" \\x01'
    failure = cases[0].find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("User:bob may READ topic:pii.cards from 10.0.0.0: by ALLOW READ to")
    assert cases[1].find("failure") is None


def test_lines_fit_80_columns(tmp_path: Path) -> None:
    ended = checked(tmp_path, "- nobody may READ, WRITE topic:*\n- User:pii may READ topic:pii.*\n", "--all")
    assert max(map(len, ended.text.replace(str(tmp_path), "").splitlines())) <= 80


def test_what_is_too_much_to_be_looked_at_never_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assertions, "MAX_STEPS", 0)
    ended = checked(tmp_path, "- nobody but User:pii, User:bob may READ topic:pii.*\n- nobody may READ topic:x\n")
    assert ended.code == 1
    assert "narrow it down" in ended.text
    assert "1 of 2 tests failed" in ended.text


def test_a_principal_that_no_acl_speaks_of_is_told(tmp_path: Path) -> None:
    ended = checked(tmp_path, "- User:ordrs-svc may not WRITE topic:orders\n")
    assert ended.code == 0
    assert "no ACL mentions User:ordrs-svc" in " ".join(ended.text.split())


def test_a_command_that_can_not_be_meant_is_refused(subtests: pytest.Subtests) -> None:
    for words, told in [
        ([], "give the ACLs as --acls FILE"),
        (["--acls", "a", "--as", "User:a"], "give the ACLs as --acls FILE"),
        (["--as", "User:a", "--config", "super.users=User:b"], "--config only works with --acls"),
        (["--acls", "a", "--config", "super.user=User:b"], "did you mean super.users?"),
        (["--acls", "a", "--config", "super.users=b"], "expected a string in format"),
        (["--acls", "/nowhere/a"], "`access.yaml` can't be read"),
    ]:
        with subtests.test(words=words, told=told):
            with pytest.raises(UsageError) as caught:
                run(command, ["access.yaml", *words])
            assert told in str(caught.value)


def test_a_name_that_is_long_or_hostile_moves_no_cursor(tmp_path: Path) -> None:
    name = "x\x1b[2J\u202e" + "y" * 300
    row = json.loads(ACLS.splitlines()[0]) | {"resource_name": name, "principal": "User:\x1b[31m"}
    ended = checked(tmp_path, "- nobody may READ topic:x*\n", "--all", acls=json.dumps(row) + "\n")
    assert ended.code == 1
    assert all(line.isprintable() for line in ended.text.splitlines())


def test_a_name_is_as_long_as_kafkas_at_most(tmp_path: Path) -> None:
    longest = "n" * 32_767
    wide = "\u00fc" * 16_383
    for names in (f"User:{longest[5:]} may READ topic:{longest}", f"User:a may READ topic:{wide}"):
        assert len(parse_sentence(names)) == 1
    for sentence in (
        f"User:{longest[4:]} may READ topic:a",
        f"nobody but User:{longest} may READ topic:a",
        f"User:a may READ topic:{longest}n",
        f"User:a may READ topic:{wide}\u00fc",
        f'User:a may READ topic:"{longest}n"',
        f"User:a may READ topic:a, topic:{longest}n*",
        f"User:a may DESCRIBE_TOKENS user:User:{longest}",
    ):
        (_, line) = refused(tmp_path, f"- User:a may READ topic:a\n- {json.dumps(sentence)}\n")
        assert line.startswith("access.yaml:2: `"), line
        assert "Kafka's have 32,767 at most" in line
        assert len(line) < 400
    fields = f"- principals: User:a\n  may: READ\n  resources:\n    - topic:a\n    - topic:{longest}n\n"
    assert "Kafka's have 32,767 at most" in refused(tmp_path, fields)[1]


MIB = 1024 * 1024


@pytest.mark.parametrize(
    "text",
    [
        f"- {'a ' * MIB}",
        f"- assert: {'a ' * MIB}",
        f"- assert: [{'a' * (MIB + 1)}]",
        f"- principals: {'a' * (MIB + 1)}\n  may: READ\n  resources: topic:a",
        f"- name: {'a' * (MIB + 1)}\n  assert: User:a may READ topic:a",
        f"- comment: {'a' * (MIB + 1)}\n  assert: User:a may READ topic:a",
        f"configs:\n  super.users: {'a;' * MIB}\ntests:\n- User:a may READ topic:a",
    ],
)
def test_a_text_is_bounded_before_it_is_read(tmp_path: Path, text: str) -> None:
    line = refused(tmp_path, text)[1]
    assert line.startswith(("access.yaml:1: ", "access.yaml:2: ")), line
    assert "characters; it may have 1,048,576 at most, so split it" in line
    assert len(line) < 500
