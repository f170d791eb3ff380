"""Klamm's own JSON, and the same as YAML: a body of createAcls, an array, one binding, JSON Lines."""

import json
import random

import pytest
import yaml

from app.core.kafka.bindings import KEEP, NewAcl
from app.formats.acl_json import JsonBinding
from app.formats.reading import FileSet
from app.formats.registry import format_named
from tests.acl_sets import acls_of, entries, problems_of, random_binding, random_text, recognised
from tests.updates import topic

KLAMM, JSON_LINES = format_named("klamm"), format_named("jsonl")
GOOD = {
    "resource_type": "TOPIC",
    "resource_name": "a",
    "principal": "User:alice",
    "operation": "READ",
    "permission_type": "ALLOW",
}
WHOLE = {**GOOD, "pattern_type": "LITERAL", "host": "*", "expires_at": None, "owner": "the team"}
ACL = NewAcl(topic("a"))
OWNED = NewAcl(topic("a"), None, "the team")


def raw(value: object, indentation: int | None = None) -> bytes:
    return json.dumps(value, indent=indentation).encode()


def in_yaml(value: object) -> bytes:
    return yaml.safe_dump(value, sort_keys=False).encode()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf", b"\n\n"])
def test_each_shape_is_recognised_and_read(subtests: pytest.Subtests, begin: bytes, end: bytes) -> None:
    line = raw(GOOD)
    turned = dict(reversed(WHOLE.items()))
    for content, acl_format, acls in [
        (line, JSON_LINES, [ACL]),
        (line + b"\n\n" + raw(turned) + b"\n", JSON_LINES, [ACL, OWNED]),
        (raw(GOOD, 2), KLAMM, [ACL]),
        (raw([]), KLAMM, []),
        (raw([GOOD, turned]), KLAMM, [ACL, OWNED]),
        (raw([GOOD, turned], 2), KLAMM, [ACL, OWNED]),
        (b"[\n" + line + b",\n" + line + b"\n]", KLAMM, [ACL, ACL]),
        (b"[" + line + b",\n" + line + b"]", KLAMM, [ACL, ACL]),
        (raw({"bindings": []}), KLAMM, []),
        (raw({"bindings": [GOOD]}), KLAMM, [ACL]),
        (raw({"context": {"principal": "User:a"}, "comment": "x", "bindings": [WHOLE]}, 1), KLAMM, [OWNED]),
        (b'{"bindings": [\n' + line + b"\n]}", KLAMM, [ACL]),
        (in_yaml([GOOD, turned]), KLAMM, [ACL, OWNED]),
        (in_yaml({"context": None, "bindings": [WHOLE]}), KLAMM, [OWNED]),
        (in_yaml(WHOLE), KLAMM, [OWNED]),
        (b"# ours\n---\n" + in_yaml([GOOD]) + b"---\n" + in_yaml([WHOLE]), KLAMM, [ACL, OWNED]),
        (b"- &a " + line + b"\n- *a\n", KLAMM, [ACL, ACL]),
        (in_yaml([GOOD]).replace(b"operation:", b"'operation':  # all of it\n   "), KLAMM, [ACL]),
    ]:
        whole = begin + content.replace(b"\n", end)
        with subtests.test(content=whole):
            assert recognised(whole) is acl_format
            assert acls_of(whole) == acls


def test_an_empty_object_is_in_no_format() -> None:
    assert recognised(b"{}") is None


@pytest.mark.parametrize(
    "first",
    [
        raw(GOOD)[:-1],
        raw(GOOD) + b",",
        raw(GOOD).replace(b":", b"", 1),
        raw(GOOD).replace(b'"resource_type"', b"resource_type"),
        b'{ "resource_type": "TOPIC',
        b"{",
    ],
)
def test_lines_are_lines_although_the_first_one_is_broken(first: bytes) -> None:
    raw_lines = first + b"\n" + raw(GOOD) + b"\n" + raw({**GOOD, "hots": "*"})
    assert recognised(raw_lines) is JSON_LINES
    (broken, why), second, (last, problem) = entries(raw_lines)
    assert (broken, second, last) == (1, (2, ACL), 3)
    assert "not JSON: " in str(why)
    assert "`hots`: there is no such field; did you mean `host`?" in str(problem)


def test_what_is_broken_is_told_once(subtests: pytest.Subtests) -> None:
    for content, problem in [
        (b'{"bindings": [' + raw(GOOD), "1: not JSON: Expecting ']' (column 139)"),
        (b'{"bindings": [\n' + raw(GOOD) + b"]}\n[]", "3: not JSON: Extra data (column 1)"),
        (b'["a"', "1: not JSON: Expecting ']' (column 5)"),
        (b'{"bindings": [{"a": ' + b"9" * 5000 + b"}]}", "1: a number is too long, or the nesting is too deep"),
    ]:
        with subtests.test(content=content):
            assert problems_of(content) == [problem]


@pytest.mark.parametrize("write", [raw, in_yaml])
def test_all_mistakes_are_told_with_the_names_of_the_file(write: object) -> None:
    assert callable(write)
    (line, found), *others = entries(
        write({"bindings": [{**GOOD, "operation": "reed", "ownr": "x"}, GOOD], "if_unchanged": "x"}), KLAMM
    )
    assert isinstance(found, list)
    problems = [*found, *(each for _, some in others if isinstance(some, list) for each in some)]
    assert problems == [
        "`if_unchanged`: there is no such field; did you mean `if_unchanged_since`?",
        "`operation`: `reed` is not a value that Kafka knows; did you mean READ?",
        "`ownr`: there is no such field; did you mean `owner`?",
    ]
    assert [each.place for each in problems] == [("if_unchanged",), ("bindings", "operation"), ("bindings", "ownr")]
    assert others[-1][1] == ACL
    assert line


@pytest.mark.parametrize("write", [raw, in_yaml])
@pytest.mark.parametrize("left_out", ["context", "comment", "timeout_ms", "if_unchanged_since", "at_least"])
def test_no_acl_is_lost_in_what_is_left_out_of_a_body(write: object, left_out: str) -> None:
    assert callable(write)
    for value in ({"bindings": [GOOD]}, [GOOD], GOOD):
        (problem, *_) = problems_of(write({"bindings": [], left_out: value}), KLAMM)
        assert f"`{left_out}`: " in problem or "there is no such field here" in problem


def test_a_field_may_be_passed_over_by_its_name() -> None:
    files = FileSet(pass_over=frozenset({"ticket", "bindings.ticket"}))
    lines = raw({**GOOD, "ticket": 7}) + b"\n" + raw(GOOD)
    assert entries(lines, JSON_LINES, files) == [(1, ACL), (2, ACL)]
    assert files.passed_over() == {"ticket": 1}
    assert entries(raw({"bindings": [{**GOOD, "ticket": 7}]}), KLAMM, files) == [(1, ACL)]


def test_a_key_that_comes_twice_is_told_at_every_level(subtests: pytest.Subtests) -> None:
    twice = b'{"owner": "a",\n "owner": "a"}'
    for content, problem in [
        (b'{"bindings": [],\n"bindings": []}', "2: `bindings`"),
        (b'{"bindings": [' + twice + b"]}", "2: `owner`"),
        (b"[\n" + twice + b"]", "3: `owner`"),
        (b'{"bindings": [], "context": {"principal": "a",\n"principal": "b"}}', "2: `principal`"),
        (b"bindings: []\nbindings: []\n", "2: `bindings`"),
        (b"- owner: a\n  owner: a\n", "2: `owner`"),
        (b"bindings: []\ncontext:\n  a: {b: 1, b: 1}\n", "3: `b`"),
    ]:
        with subtests.test(content=content):
            assert problems_of(content, KLAMM) == [f"{problem}: the key comes more than once; write it once"]


def test_a_line_of_drawn_keys_and_escapes_means_what_python_reads_or_is_refused() -> None:
    """The quick way and the exact one: keys twice, in any spelling, are never taken for one."""
    taken = refused = 0
    for seed in range(3_000):
        draw = random.Random(seed)
        binding = random_binding(draw)
        pairs: list[tuple[str, str | None]] = [*zip(binding._fields, map(_word, binding), strict=True)]
        pairs += [(name, draw.choice([None, random_text(draw).strip() or "x"])) for name in ("owner",) if seed % 3]
        pairs += [draw.choice(pairs) for _ in range(draw.choice([0, 0, 0, 1, 2]))]
        draw.shuffle(pairs)
        line = "{" + ", ".join(f"{_quoted(draw, k)} : {_quoted(draw, v)}" for k, v in pairs) + "}"
        ((_, found),) = entries(line.encode(), JSON_LINES)
        is_twice = len(dict(pairs)) < len(pairs)
        if isinstance(found, NewAcl):
            assert not is_twice, line
            assert found == NewAcl(binding, KEEP, dict(pairs).get("owner", KEEP)), line
        else:
            told = str(found)
            assert ("the key comes more than once" in told) if is_twice else ("owner" in told), (line, told)
        taken += isinstance(found, NewAcl)
        refused += is_twice
    assert taken > 1_000
    assert refused > 1_000


def _word(value: object) -> str:
    return str(getattr(value, "name", value))


def _quoted(draw: random.Random, text: str | None) -> str:
    if text is None:
        return "null"
    return f'"{"".join(_character(draw, each) for each in text)}"'


def _character(draw: random.Random, each: str) -> str:
    plain = json.dumps(each, ensure_ascii=False)[1:-1]
    return draw.choice([plain] * 5 + [f"\\u{ord(each):04x}"]) if ord(each) <= 0xFFFF else plain


def test_fields_of_files_are_those_of_the_struct() -> None:
    assert {*GOOD} < {*JsonBinding.__struct_fields__} == {*WHOLE}


def test_a_field_that_is_read_is_never_passed_over_whatever_else_is_in_the_file(subtests: pytest.Subtests) -> None:
    one = raw(WHOLE)
    for text, place in [
        (one + b"\n" + one + b"\n", "host"),
        (b"[" + one + b"]", "host"),
        (b'{"bindings": [' + one + b"]}", "bindings.host"),
    ]:
        with subtests.test(text=text):
            found = [each for _, each in entries(text, None, FileSet(pass_over=frozenset({place})))]
            assert found
            assert all(isinstance(each, list) and "Klamm reads this field" in each[0] for each in found)
