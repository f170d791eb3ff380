"""Files that were damaged: no reader crashes, and none makes an ACL of what does not stand in the file."""

import random
import re
import time
import unicodedata
from contextlib import suppress

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.core.kafka.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from app.core.kafka.validation import validate_new_acl
from app.formats.lines import TextFault
from app.formats.registry import FORMATS, AclFormat
from tests.acl_files.file import LETTERS, word
from tests.acl_sets import entries, plain_binding, recognised, written
from tests.laws.test_round_trips import random_set, what_can_be_said

TRIES = 400
BITS = (
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"=", b"\n", b"\r", b"\t", b" ", b"$", b"%", b"&", b"*",
    b"#", b"\x00", b"\xff", b"\xc3", b"---\n", b"- ", b"<<EOT\n", b"${", b'""', b"/*", b"!!str ", b"\\u",
    b"\xef\xbb\xbf", b"|",
)  # fmt: skip


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """The file with a few bytes changed, gone, doubled or put elsewhere."""
    for _ in range(draw.randrange(1, 4)):
        start = draw.randrange(len(raw) + 1)
        end = min(len(raw), start + draw.choice((0, 1, 1, 2, 10, 100)))
        other = draw.randrange(len(raw) + 1)
        part = draw.choice((b"", draw.choice(BITS), bytes([draw.randrange(256)]), raw[other : other + 30]))
        raw = raw[:start] + part + raw[end:] if draw.random() < 0.9 else raw[:start]
    return raw


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_no_damage_makes_a_reader_crash_or_give_what_is_no_acl(acl_format: AclFormat) -> None:
    faults = 0
    for seed in range(TRIES):
        draw = random.Random(seed)
        raw, _ = what_can_be_said(acl_format, random_set(seed))
        raw = damaged(raw, draw)
        with suppress(TextFault):
            recognised(raw)
        for line, found in entries(raw, acl_format):
            # YAML has more ends of lines than one.
            assert 1 <= line <= len(raw.decode(errors="replace").splitlines()) + 1
            if isinstance(found, NewAcl):
                assert validate_new_acl(found.binding) is None, (seed, found)
            else:
                assert found
                assert all(isinstance(each, str) and each for each in found)
                faults += 1
    assert faults > TRIES / 10


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_no_reader_crashes_on_the_files_of_others(acl_format: AclFormat) -> None:
    for seed in range(60):
        for other in FORMATS:
            raw, _ = what_can_be_said(other, random_set(seed))
            for _, found in entries(raw, acl_format):
                assert isinstance(found, NewAcl) or found


def set_of_words(draw: random.Random) -> list[AclBinding]:
    """ACLs of plain words, each of which stands nowhere else."""
    return [
        AclBinding(
            draw.choice((ResourceType.TOPIC, ResourceType.GROUP)),
            word(draw),
            draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            f"User:{word(draw)}",
            word(draw),
            draw.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS)),
            draw.choice((AclPermissionType.ALLOW, AclPermissionType.DENY)),
        )
        for _ in range(4)
    ]


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_a_cut_file_gives_no_acl_that_was_not_there_and_says_what_is_missing(acl_format: AclFormat) -> None:
    """Cut at any byte, each ACL is whole, or told as a fault; unless the cut is where the next ACL would begin."""
    draw = random.Random(11)
    bindings = set_of_words(draw)
    raw = written(acl_format, bindings)
    silent = 0
    for end in range(1, len(raw)):
        found = entries(raw[:end], acl_format)
        good = [each.binding for _, each in found if isinstance(each, NewAcl)]
        whole = [each for each in good if each in bindings]
        cut_text = [each for each in good if each not in bindings]
        # A host that stands at the very end of a line may be cut in its midst, where the format has no end mark.
        assert all(acl_format.name == "csv" and good[-1] is each for each in cut_text), (end, cut_text)
        silent += len(whole) < len(bindings) and len(good) == len(found)
    most = {"csv": len(raw), "kafka-acls": 600, "strimzi": 600, "jsonl": 20, "terraform": 40, "jikkou": 40}.get(
        acl_format.name, 0
    )
    assert silent <= most, silent


@pytest.mark.parametrize("acl_format", FORMATS, ids=lambda each: each.name)
def test_the_texts_of_each_acl_stand_in_the_file(acl_format: AclFormat) -> None:
    """Whatever is changed in a file of plain words, an ACL that is read of it is made of words that stand in it."""
    read = 0
    for seed in range(TRIES):
        draw = random.Random(seed)
        raw = damaged(written(acl_format, set_of_words(draw)), draw)
        text = unicodedata.normalize("NFC", raw.decode(errors="replace"))
        loose = re.sub("[_ ]", "", text).lower()
        for _, entry in entries(raw, acl_format):
            if not isinstance(entry, NewAcl):
                continue
            read += 1
            found = entry.binding
            user, principal = found.principal.split(":", 1)
            for each in (found.resource_name, user, principal.removeprefix("CN="), found.host):
                assert each in text or found.host == "*" or set(each) - set(LETTERS), (seed, found)
            for code in (found.resource_type, found.operation, found.permission_type):
                assert code.name.replace("_", "").lower() in loose or code.name == "ALLOW", (seed, found)
    # JSON that is broken anywhere gives none at all.
    assert read > TRIES / 4


@pytest.mark.parametrize(
    "raw",
    [
        b'{"data": [' * 50_000,
        b'{"bindings": ' + b"[" * 200_000,
        b'{"resource": ' + b'{"kafka_acl": ' * 100_000,
        b"kind: a\n" + b"- " * 100_000,
        b"kind: " + b"[" * 200_000,
        b"kind: a\n" + b"? " * 100_000,
        b"kind: &a [" + b"*a, " * 100_000,
        b'resource "a" ' + b"{a " * 100_000,
        b"locals { a = " + b"(" * 200_000,
        b'locals { a = "' + b"${" * 200_000,
        b'locals { a = "${' + b"/* " * 300_000,
        b"principal,resourcetype,\n" + b'"' * 500_001,
        b"principal,resourcetype,patterntype,resourcename,operation,permissiontype,host\n" + b",TOPIC,READ" * 50_000,
        b"Current ACLs for resource `" + b", name=, patternType=" * 40_000,
        b"Current ACLs for resource `Topic:a`:\n\t(principal="
        + b", host=, operation=x, permissionType=y" * 20_000
        + b")",
        b"Current ACLs for resource `Topic:a`:\n\t" + b" has Allow permission for operations: x from hosts:" * 15_000,
        b"Acl (pattern=" + b", entry=(principal=" * 40_000 + b") already exists.",
    ],
    ids=range(17),
)
def test_files_made_to_be_slow_or_deep_are_read_in_short_time(raw: bytes) -> None:
    for acl_format in FORMATS:
        began_at = time.process_time()
        entries(raw, acl_format)
        # A reader that goes over a megabyte again and again takes minutes; one that does so once, about a second.
        assert time.process_time() - began_at < 60, acl_format.name


def test_plain_bindings_are_valid() -> None:
    draw = random.Random(3)
    assert all(validate_new_acl(plain_binding(draw)) is None for _ in range(200))
