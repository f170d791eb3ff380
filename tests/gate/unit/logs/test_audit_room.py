"""What the audit log takes: a long principal once a request, and never more room than was counted for it."""

import hashlib
import json
from typing import Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.bindings import AclBinding, StandardAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.verdicts import Verdict
from app.logs.audit import API_KEY_NAMES, DEBUG, AuditEntry, AuditLog, AuditSource
from app.metrics.declared import Metrics

Form = Literal["JSON", "TEXT"]
FORMS: list[Form] = ["JSON", "TEXT"]
LONGEST = "User:" + "x" * 32_762
ACL = StandardAcl(
    UUID(int=1),
    AclBinding(
        ResourceType.TRANSACTIONAL_ID, "t", PatternType.PREFIXED, LONGEST, "*",
        AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW,
    ),
)  # fmt: skip


def entry(name: str = "orders", acl: StandardAcl | None = None) -> AuditEntry:
    verdict = Verdict.DEFAULT_ALLOW if acl is None else Verdict.DENIED_BY_ACL
    return AuditEntry(DEBUG, AclOperation.DESCRIBE_CONFIGS, ResourceType.TRANSACTIONAL_ID, name, -(2**31), verdict, acl)


def lines(form: Form, source: AuditSource, *entries: AuditEntry) -> list[str]:
    written: list[str] = []
    log = AuditLog(written.append, Metrics(), form=form)
    log.log(source, entries)
    log.start()
    log.close()
    return "".join(written).removesuffix("\n").split("\n")


def message(form: Form, line: str) -> str:
    return str(json.loads(line)["message"]) if form == "JSON" else line


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("acl", [None, ACL])
def test_a_thousand_denials_of_the_longest_principal_name_it_in_full_once(form: Form, acl: StandardAcl | None) -> None:
    first, *rest = lines(form, AuditSource(LONGEST, "10.1.2.3", 1), *[entry("t", acl) for _ in range(1_000)])
    assert f"Principal = {LONGEST} is " in message(form, first)
    assert (f"principal={LONGEST}, " in message(form, first)) == (acl is not None)
    assert len(rest) == 999
    assert sum(len(each.encode()) for each in [first, *rest]) < 1024 * 1024
    digest = hashlib.sha256(LONGEST.encode()).hexdigest()[:16]
    short = f"{LONGEST[:64]}... [32767 bytes, SHA-256 {digest}, in full in the first line]"
    for line in rest:
        assert f"Principal = {short} is " in message(form, line)
        assert (f"principal={short}, " in message(form, line)) == (acl is not None)


@pytest.mark.parametrize("form", FORMS)
def test_a_principal_of_ordinary_length_is_in_full_in_every_line(form: Form) -> None:
    principal = "User:" + "x" * 1_019
    for line in lines(form, AuditSource(principal, "10.1.2.3", 1), entry(), entry()):
        assert f"Principal = {principal} is " in message(form, line)


@pytest.mark.parametrize("form", FORMS)
def test_a_long_principal_that_would_forge_lines_stays_on_its_own(form: Form) -> None:
    principal = "User:a\n[2026-01-01 00:00:00,000] INFO Principal = User:b is Allowed" + "\r\x1b[2J\u2028" * 999
    told = lines(form, AuditSource(principal, "10.1.2.3", 1), entry(), entry(acl=ACL), entry())
    assert len(told) == 3
    assert all(each.isprintable() for each in told)


NAMES = st.one_of(
    st.text(max_size=40),
    st.text(alphabet='\x7f"\\\n\u2028\U000e0001\u200b', max_size=3_000),
    st.builds(
        lambda letter, count: letter * count, st.sampled_from('x\xe9\x7f"\u65e5\U0001f600\x00'), st.integers(0, 9_000)
    ),
).map(lambda text: text.encode("utf-8", "ignore").decode())


@given(
    form=st.sampled_from(FORMS), principal=NAMES, names=st.lists(NAMES, min_size=1, max_size=4),
    own=st.booleans(), api_key=st.sampled_from([None, -32_768, *range(len(API_KEY_NAMES))]),
    groups=st.lists(NAMES, max_size=5),
)  # fmt: skip
def test_no_lines_take_more_room_than_was_counted(
    form: Form,
    principal: str,
    names: list[str],
    own: bool,  # noqa: FBT001 - drawn
    api_key: int | None,
    groups: list[str],
) -> None:
    ids = names[0]
    source = AuditSource(principal, "f" * 39, api_key, ids, ids, ids, groups)
    binding = ACL.binding._replace(principal=principal if own else "User:*")
    entries = []
    for at, name in enumerate(names):
        acl = StandardAcl(ACL.id, binding._replace(resource_name=name)) if at % 2 == own else None
        entries.append(entry(name, acl))
    written = sum(len(each.encode()) + 1 for each in lines(form, source, *entries))
    log = AuditLog(lambda _: None, Metrics(), form=form)
    log.log(source, entries)
    assert written <= log._size_in


@pytest.mark.parametrize(("groups", "told"), [((), 0), (("a", 'b"\n'), 3), (("x" * 255,) * 200, 1)])
def test_groups_stand_in_every_line_unless_they_are_long(groups: tuple[str, ...], told: int) -> None:
    source = AuditSource("User:a", "10.1.2.3", 1, groups=groups)
    read = [json.loads(each) for each in lines("JSON", source, entry(), entry(), entry())]
    assert [each["groups"] for each in read if "groups" in each] == [list(groups)] * told
    assert ("groups" in read[0]) is bool(groups)
    assert not any("x" * 255 in each for each in lines("TEXT", source, entry()))


@pytest.mark.parametrize("form", FORMS)
def test_the_room_of_ordinary_lines_is_nearly_what_they_take(form: Form) -> None:
    source = AuditSource("User:alice", "10.1.2.3", 1, "a" * 16, "b" * 32, "sidecar")
    log = AuditLog(lambda _: None, Metrics(), form=form)
    log.log(source, [entry()] * 100)
    written = sum(len(each.encode()) + 1 for each in lines(form, source, *[entry()] * 100))
    # In Kafka's layout nobody sees the ids that are counted.
    assert written <= log._size_in < 1.4 * written


def test_much_that_waits_is_written_in_pieces() -> None:
    written: list[str] = []
    metrics = Metrics()
    log = AuditLog(written.append, metrics)
    for _ in range(20):
        log.log(AuditSource(LONGEST, "10.1.2.3", 1), [entry()] * 500)
    log.start()
    log.close(60)
    assert max(map(len, written)) < 64 * 1024 + 2 * 32_767
    assert (metrics.audit_lines_written, metrics.audit_lines_dropped) == (10_000, 0)
    assert all(each.endswith("\n") for each in written)
