import csv
import io
import json

import pytest

from app.core.kafka.hosts import parse_address
from app.pipeline.access.lookup import Access, parse_resource, who_can
from app.pipeline.history.schemas import BINDING_FIELDS
from app.pipeline.spark.errors import PipelineError
from app.pipeline.spark.row_output import lines_of
from tests.cases import each_case


def acl(
    principal: str, operation: str, permission: str = "ALLOW", host: str = "*", name: str = "orders"
) -> dict[str, str]:
    fields = ("TOPIC", name, "LITERAL" if name == "orders" else "PREFIXED", principal, host, operation, permission)
    whole = dict(zip(BINDING_FIELDS, fields, strict=True))
    return {"id": f"id-{principal}-{operation}-{host}", **whole, "until": ""}


@each_case(
    ("text", "resource"),
    [
        ("topic:orders", ("TOPIC", "orders")),
        ("TOPIC:a:b", ("TOPIC", "a:b")),
        ("transactional-id:t", ("TRANSACTIONAL_ID", "t")),
        ("transactional_id: ", ("TRANSACTIONAL_ID", " ")),
        ("user:User:bob", ("USER", "User:bob")),
        ("cluster", ("CLUSTER", "kafka-cluster")),
        ("group:*", ("GROUP", "*")),
    ],
)
def test_a_resource_is_its_type_and_whatever_follows_the_first_colon(text: str, resource: tuple[str, str]) -> None:
    assert parse_resource(text) == resource


@each_case("text", ["orders", "topic:", ":orders", "", "any:x", "topics:x", "unknown:x"])
def test_a_text_that_names_no_resource_is_told_how_to_be_written(text: str) -> None:
    with pytest.raises(PipelineError, match="write it as `topic:orders`"):
        parse_resource(text)


def test_everyone_and_wider_hosts_are_folded_into_each_row_with_their_acls() -> None:
    acls = [
        acl("User:*", "DESCRIBE"),
        acl("User:a", "WRITE", "DENY", "10.0.0.0/8"),
        acl("User:a", "WRITE"),
        acl("User:a", "READ", host="10.1.1.1", name="ord"),
    ]
    star, a_anywhere, a_range, a_exact = who_can(acls, "TOPIC")
    assert star == Access("User:*", "*", ["DESCRIBE"], [], [], star.shared)
    assert (a_anywhere.host, a_anywhere.operations) == ("*", ["WRITE", "DESCRIBE"])
    assert (a_range.host, a_range.operations, a_range.denied) == ("10.0.0.0/8", ["DESCRIBE"], ["WRITE"])
    assert (a_exact.host, a_exact.operations) == ("10.1.1.1", ["READ", "DESCRIBE"])
    assert [len(each.own) for each in (star, a_anywhere, a_range, a_exact)] == [0, 1, 2, 3]
    assert "ALLOW READ on PREFIXED ord from 10.1.1.1 (id-User:a-READ-10.1.1.1)" in a_exact.own
    everyone = ["ALLOW DESCRIBE on LITERAL orders for User:* from * (id-User:*-DESCRIBE-*)"]
    assert star.shared == a_anywhere.shared == a_exact.shared == everyone


def test_a_client_gets_the_one_row_that_answers_for_it() -> None:
    acls = [acl("User:a", "READ"), acl("User:a", "READ", "DENY", "10.0.0.0/8"), acl("User:a", "WRITE", host="10.0.0.1")]
    hosts = {
        text: [access.host for access in who_can(acls, "TOPIC", parse_address(text))]
        for text in ("10.0.0.1", "10.0.0.2", "192.0.2.1", "::1")
    }
    assert hosts == {"10.0.0.1": ["10.0.0.1"], "10.0.0.2": ["10.0.0.0/8"], "192.0.2.1": ["*"], "::1": ["*"]}


def test_an_operation_keeps_those_who_are_allowed_or_denied_it() -> None:
    acls = [acl("User:a", "READ"), acl("User:b", "WRITE"), acl("User:c", "READ", "DENY")]
    assert [each.principal for each in who_can(acls, "TOPIC", operation="READ")] == ["User:a", "User:c"]
    assert [each.principal for each in who_can(acls, "TOPIC", operation="DESCRIBE")] == ["User:a", "User:b"]


def test_rows_come_as_a_table_as_json_lines_and_as_csv() -> None:
    columns, rows = ("name", "operations"), [("a\nb", ["READ", "WRITE"]), ('"x",😀', [])]
    assert list(lines_of(columns, rows, "table")) == ["name   operations", "a\\nb   READ WRITE", '"x",😀']
    assert [json.loads(line) for line in lines_of(columns, rows, "json")] == [
        {"name": "a\nb", "operations": ["READ", "WRITE"]},
        {"name": '"x",😀', "operations": []},
    ]
    text = "\n".join(lines_of(columns, rows, "csv"))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [list(columns), ["a\nb", "READ WRITE"], ['"x",😀', ""]]
