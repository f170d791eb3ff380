"""Issue 5, point 6: names that a screen, a log or Unicode would change are stored and matched as they are, and logged
on one line each, escaped; or refused clearly.
"""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bodies import refusal
from tests.klamm import Process, acl, context, over_socket, replica, wait_until
from tests.postgres import Postgres
from tests.proof.e2e.questions import answers

LONGEST = 32_767
NFC, NFD = unicodedata.normalize("NFC", "caf\xe9-\u1e69"), unicodedata.normalize("NFD", "caf\xe9-\u1e69")
NAMES = {
    "newline": "a\nb",
    "carriage return": "a\r[2026-01-01 00:00:00,000] INFO forged",
    "both": 'a\r\n{"event":"forged"}',
    "ansi": "a\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "c1": "a\x85\x9b31m",
    "line separator": "a\u2028b\u2029c",
    "nfc": NFC,
    "nfd": NFD,
    "zero-width": "or\u200bd\u200cers\u2060\ufeff",
    "plain": "orders",
    "bidi": "\u202eadmin\u202c\u2066x\u2069\u200f\u061c",
    "tag": "a\U000e0041\U000e007f",
    "json": '","level":"ERROR","x":"\\',
    "longest": "n" * LONGEST,
    "longest of two bytes": "\xe9" * (LONGEST // 2),
    "longest of line ends": "\n" * LONGEST,
}  # fmt: skip
TOO_LONG = {"one more": "n" * (LONGEST + 1), "one byte more": "\xe9" * (LONGEST // 2 + 1)}
FORMS = ["JSON", "TEXT"]


@pytest.fixture(scope="module", params=FORMS)
def logging_in(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[tuple[str, Process]]:
    """A service for each form of the log."""
    form = str(request.param)
    with replica(postgres.new_store(), KLAMM_LOG_FORMAT=form, KLAMM_AUDIT_LEVEL="DEBUG") as service:
        yield form, service.ready()


def principal_of(kind: str) -> str:
    """A principal with the name in it, which is as long as a name may be."""
    return f"User:{NAMES[kind]}"[:LONGEST] if not kind.startswith("longest of two") else f"User:{kind}"


def sentences(form: str, service: Process) -> list[str]:
    """The sentences of the audit log; nothing of any line would move a screen, and lines of JSON are JSON."""
    lines = [*service.lines]
    assert [line for line in lines if not line.isprintable() and form == "JSON"] == []
    assert [line for line in lines if {"\r", "\x1b", "\x85", "\x9b", "\u2028", "\u202e", "\x07"} & set(line)] == []
    if form == "TEXT":
        return [line[line.index("Principal = ") :] for line in lines if line.endswith("(kafka.authorizer.logger)")]
    read: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [str(each["message"]) for each in read if each["event"] == "decision"]


def as_text(name: str) -> str:
    """A name as Kafka's layout shows it here: what would move a screen, or reorder it, as its code."""
    hidden = {*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, 0x2028, 0x2029}
    hidden |= {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}
    return "".join(f"\\u{ord(each):04x}" if ord(each) in hidden else each for each in name)


@pytest.mark.parametrize("kind", NAMES)
def test_a_strange_name_is_kept_matched_listed_and_logged_as_itself(logging_in: tuple[str, Process], kind: str) -> None:
    form, service = logging_in
    name, principal = NAMES[kind], principal_of(kind)
    [made] = service.create(acl(name, principal))["results"]
    assert (made["code"], made["created"]) == ("NONE", True)
    # Its own line comes first: a long principal is in full in the first of a request's lines.
    others = [each for each in NAMES.values() if each != name]
    assert answers(service, principal, [name, *others]) == ["ALLOWED", *["DENIED"] * len(others)]
    [found] = service.acls(resource_name=name, principal=principal)
    assert (found["id"], found["resource_name"], found["principal"]) == (made["id"], name, principal)
    shown_name, shown_principal = (name, principal) if form == "JSON" else (as_text(name), as_text(principal))
    begins = f"Principal = {shown_principal} is Allowed operation = READ from host = 127.0.0.1 on resource = "
    begins += f"Topic:LITERAL:{shown_name} for request = null with resourceRefCount = 1 based on rule MatchingAcl(acl="
    wait_until(lambda: any(each.startswith(begins) for each in sentences(form, service)), "the decision is logged")
    assert sum(each.startswith(begins) for each in sentences(form, service)) == 1
    service.delete({"resource_name": name, "principal": principal})
    assert answers(service, principal, [name]) == ["DENIED"]


@pytest.mark.parametrize("field", ["resource_name", "principal", "host"])
@pytest.mark.parametrize("kind", TOO_LONG)
def test_a_name_too_long_for_kafka_is_refused_for_itself_alone(
    logging_in: tuple[str, Process], field: str, kind: str
) -> None:
    _, service = logging_in
    good = acl("neighbour", "User:neighbour")
    value = f"User:{TOO_LONG[kind]}" if field == "principal" else TOO_LONG[kind]
    answer = service.http.post("/v1/acls", json={"context": context(), "bindings": [{**good, field: value}, good]})
    if answer.status_code == 200:
        refused, made = answer.json()["results"]
        assert (refused["code"], refused["created"], made["code"]) == ("INVALID_REQUEST", False, "NONE")
        assert len(refused["error_message"]) < 1_000
    else:
        problem = refusal(answer, 400, "INVALID_REQUEST")
        assert f"/bindings/0/{field}" in json.dumps(problem)
        assert len(answer.content) < 2_000


@pytest.mark.parametrize("kind", TOO_LONG)
def test_a_question_about_a_name_too_long_for_kafka_is_answered_as_any_other(
    logging_in: tuple[str, Process], kind: str
) -> None:
    """No ACL can have it; those on prefixes of it and on all names count."""
    form, service = logging_in
    name, other = TOO_LONG[kind], NAMES["longest" if kind == "one more" else "longest of two bytes"]
    principal = f"User:asks {form} {kind}"
    service.create(acl(other, principal))
    assert answers(service, principal, [name, other]) == ["DENIED", "ALLOWED"]
    service.create(acl(other, principal, pattern_type="PREFIXED"))
    assert answers(service, principal, [name, other, other[:-1]]) == ["ALLOWED", "ALLOWED", "DENIED"]
    logged = f"Principal = {principal} is Denied operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:"
    logged += f"{name} for request = null with resourceRefCount = 1 based on rule DefaultDeny"
    wait_until(lambda: any(each.startswith(logged) for each in sentences(form, service)), "the decision is logged")


def test_names_reach_the_services_own_log_on_one_line_each(tmp_path: Path) -> None:
    """What a caller names goes into the service's log only with what PostgreSQL says; a refused start is told too."""
    for form in FORMS:
        strange = {"KLAMM_LOG_FORMAT": form, "KLAMM_SUPER_USERS": "User:admin;User:a\r\x1b[2J\u2028\u202eb\nforged"}
        with over_socket("--data-dir", str(tmp_path / form), settings=strange) as service:
            service.ready()
        assert [line for line in service.lines if line.startswith("forged")] == []
        assert [line for line in service.lines if not line.isprintable()] == []
        if form == "JSON":
            [settings] = [each for each in map(json.loads, service.lines) if each["event"] == "settings"]
            assert "User:a\r\x1b[2J\u2028\u202eb\nforged" in settings["super.users"]
