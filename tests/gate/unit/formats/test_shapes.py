"""How a value is read by its shape: what is refused, with which line, place and way out, once for a mistake."""

import io
from typing import Annotated, Literal

import pytest
from msgspec import UNSET, UnsetType

from app.core.kafka.bindings import NewAcl
from app.formats import yaml_documents
from app.formats.lines import TextFault
from app.formats.reading import FileSet
from app.formats.shape_faults import Refused
from app.formats.shape_reader import read_each, read_shape
from app.formats.shapes import Each, Filled, OperationWord, PassedOver, Prose, Raw, Shape, Single, as_text, as_word
from app.formats.yaml_documents import Fields, Value, fields_of, read_documents


def _short(text: str) -> str:
    if len(text) > 5:
        raise ValueError("too long; write less")
    return text.upper()


class Inner(Shape, rename="camel"):
    kind: Literal["one", "another"]
    word: Annotated[str, as_word({"read": "READ", "write": "WRITE"})] | None = None
    short_text: Annotated[str, as_text(_short)] | None = None


class Spec(Shape, rename="camel"):
    inner: Inner | None = None
    names: dict[str, str] | None = None
    some: list[Inner] | None = None
    filled: Filled[str] | None = None
    truth: bool | None = None
    number: int | None = None
    single: Single = None
    whatever: PassedOver = None
    raw: Raw = None
    operation: OperationWord | UnsetType = UNSET


class Whole(Shape, rename="camel"):
    name: str
    spec: Spec


def value(text: str) -> Value:
    (found,) = read_documents(io.BytesIO(text.encode()))
    return found


def read(text: str, *pass_over: str) -> Whole:
    return read_shape(Whole, value(text), FileSet(frozenset(pass_over)).reading("f"))


def told(text: str, *pass_over: str) -> list[str]:
    with pytest.raises(Refused) as refused:
        read(text, *pass_over)
    return [f"{line} {'.'.join(problem.place)}: {problem}" for line, problem in refused.value.faults]


def test_a_value_of_the_shape_is_read_with_its_lines() -> None:
    found = read(
        "name: a\nspec:\n  inner: {kind: one, word: read, shortText: abc}\n  names: {x: y, 1: z}\n"
        "  some:\n    - kind: another\n    - {kind: one}\n  filled: [p, 'q']\n  truth: yes\n  number: -12\n"
        "  single: 2026-01-01\n  whatever: [{x: {y: [z]}}]\n  raw: [1]\n"
    )
    assert (found.line, found.spec.line, found.name) == (1, 3, "a")
    spec = found.spec
    assert spec.inner is not None
    assert (spec.inner.kind, spec.inner.word, spec.inner.short_text, spec.inner.line) == ("one", "READ", "ABC", 3)
    assert spec.names == {"x": "y", "1": "z"}
    assert [each.line for each in spec.some or ()] == [6, 7]
    assert (spec.filled, spec.truth, spec.number, spec.single) == (["p", "q"], True, -12, None)
    assert isinstance(spec.raw, yaml_documents.Items)
    assert spec.operation is UNSET


def test_a_text_may_go_on_in_the_next_line_in_quotes_or_if_it_is_prose() -> None:
    class Told(Shape):
        name: str
        message: Prose

    text = "name: 'a\n  b' # c\nmessage: a\n  - b\n\n# d\n"
    found = read_shape(Told, value(text), FileSet().reading("f"))
    assert (found.name, found.message) == ("a b", "a - b")
    assert read("name: a # b\n\n# c\n\nspec: {}\n").name == "a"
    assert read("name: >-\n  a\n  b\nspec: {}\n").name == "a b"


def test_null_is_as_good_as_missing(subtests: pytest.Subtests) -> None:
    for field in ["inner", "names", "some", "filled", "truth", "number", "single", "whatever"]:
        for null in ["~", "null", ""]:
            with subtests.test(field=field, null=null):
                assert getattr(read(f"name: a\nspec:\n  {field}: {null}\n").spec, field) is None
    assert told("name:\nspec: {}\n") == ["1 name: `name`: the field is missing"]
    assert told("name: a\nspec: ~\n") == ["2 spec: `spec`: the field is missing"]
    assert told("name: a\nspec: {operation: ~}") == [
        "2 spec.operation: `operation`: the value is not text; write it in quotes"
    ]


def test_each_mistake_is_told_once(subtests: pytest.Subtests) -> None:
    for text, fault in [
        ("spec: {}\n", "1 name: `name`: the field is missing"),
        ("nam: a\nspec: {}\n", "1 nam: `nam`: there is no such field; did you mean `name`?"),
        ("Name: a\nspec: {}\n", "1 Name: `Name`: there is no such field; did you mean `name`?"),
        (
            "name: a\nspec:\n  name: b\n",
            "3 spec.name: `name`: there is no such field here; it belongs to the outermost",
        ),
        ("spec:\n  name: b\n", "2 spec.name: `name`: there is no such field here; it belongs to the outermost level"),
        ("name: a\ninner: {kind: one}\n", "2 inner: `inner`: there is no such field here; it belongs to `spec`"),
        (
            "name: a\nspec: ~\ninner: {kind: one}\n",
            "3 inner: `inner`: there is no such field here; it belongs to `spec`",
        ),
        (
            "name: a\nspec: {kind: one, inner: {}}\n",
            "2 spec.kind: `kind`: there is no such field here; it belongs to `spec.inner` or `spec.some`",
        ),
        (
            "name: a\nspec:\n  some:\n    - kind: one\n    - xyz: 1\n      kind: one\n",
            "5 spec.some.xyz: `xyz`: there is no such field; remove it, or read the file without it: --pass-over",
        ),
        ("name: a\nspec: {inner: {kind: oen}}\n", "2 spec.inner.kind: `kind`: `oen` is not one of its values; did you"),
        (
            "name: a\nspec: {inner: {kind: zzz}}\n",
            "2 spec.inner.kind: `kind`: `zzz` is not one of its values; write one",
        ),
        (
            "name: a\nspec: {inner: {kind: one, word: Read}}\n",
            "2 spec.inner.word: `word`: `Read` is not one of its val",
        ),
        ("name: a\nspec: {inner: {kind: one, shortText: abcdef}}\n", "2 spec.inner.shortText: `shortText`: too long; "),
        ("name: a\nspec: {operation: ANY}\n", "2 spec.operation: `operation`: `ANY` is not a value that Kafka knows; "),
        ("name: 1\nspec: {}\n", "1 name: `name`: the value is not text; write it in quotes"),
        ("name: on\nspec: {}\n", "1 name: `name`: the value is not text; write it in quotes"),
        ("name: a\n  - b\nspec: {}\n", "1 name: `name`: the text goes on in the next line; write it in quotes"),
        ("name: a\nspec: {single: 7\n  - b}\n", "2 spec.single: `single`: the text goes on in the next line"),
        ("name: a\nspec:\n  operation: READ\n\n    READ\n", "3 spec.operation: `operation`: the text goes on in the"),
        ("name: {a: b}\nspec: {}\n", "1 name: `name`: the value is not text; write one"),
        ("name: a\nspec: {inner: [x]}\n", "2 spec.inner: `inner`: not a mapping; write its fields"),
        ("name: a\nspec: {names: [x]}\n", "2 spec.names: `names`: not a mapping; write names"),
        ("name: a\nspec: {names: {x: ~}}\n", "2 spec.names.x: `x`: the value is not text"),
        ("name: a\nspec: {some: {kind: one}}\n", "2 spec.some: `some`: not a list; write one"),
        ("name: a\nspec: {some: [~]}\n", "2 spec.some: `some`: not a mapping; write its fields"),
        ("name: a\nspec: {filled: []}\n", "2 spec.filled: `filled`: the list is empty"),
        ("name: a\nspec: {truth: 'true'}\n", "2 spec.truth: `truth`: neither true nor false"),
        ("name: a\nspec: {number: 1.5}\n", "2 spec.number: `number`: not a whole number"),
        ("name: a\nspec: {single: {x: y}}\n", "2 spec.single: `single`: not a single value"),
        ("name: a\nspec: {}\n1: x\n", "3 1: `1`: there is no such field"),
        ("name: a\nspec: {}\non: x\n", "3 on: `on`: there is no such field"),
        ("name: a\nspec: {}\n~: x\n", "3 ~: `~`: there is no such field"),
    ]:
        with subtests.test(text=text):
            (found,) = told(text)
            assert found.startswith(fault), found


def test_all_mistakes_are_told() -> None:
    text = "nam: a\nspec:\n  inner: {kid: one, word: x}\n  truth: 7\n"
    assert [each.split(":")[0] for each in told(text)] == [
        "1 nam", "3 spec.inner.kid", "3 spec.inner.word", "4 spec.truth",
    ]  # fmt: skip


def test_a_mistake_that_is_repeated_without_end_is_not_told_without_end() -> None:
    bad = "\n".join(f"  x{at}: 1" for at in range(5_000))
    assert len(told(f"name: a\nspec:\n{bad}\n")) == 100
    assert len(told("name: a\nspec:\n  some:\n    - &a {kid: one, word: x}\n" + "    - *a\n" * 5_000)) == 100


def test_what_a_person_passes_over_is_counted_by_its_place() -> None:
    files = FileSet(frozenset({"spec.quota.x", "spec.some.xyz", "nowhere"}))
    text = value("name: a\nspec:\n  some: [{kind: one, xyz: 1}, {kind: one, xyz: [2]}]\n")
    read_shape(Whole, text, files.reading("f"))
    assert files.passed_over() == {"spec.some.xyz": 2}
    assert files.unmet() == ["nowhere", "spec.quota.x"]


def test_a_known_field_can_not_be_passed_over(subtests: pytest.Subtests) -> None:
    for place in ["name", "spec", "spec.inner", "spec.inner.kind", "spec.whatever"]:
        with subtests.test(place=place):
            (found,) = told("name: a\nspec: {inner: {kind: one}, whatever: 1}\n", place)
            assert f"{place}: " in found
            assert "Klamm reads this field; take it out of --pass-over" in found


def test_an_anchor_at_two_places_is_read_by_the_shape_of_each() -> None:
    spec = read("name: a\nspec:\n  whatever: &a {kind: one}\n  inner: *a\n  some: [*a, *a]\n").spec
    assert spec.inner is not None
    assert [each.kind for each in (spec.inner, *(spec.some or ()))] == ["one"] * 3
    assert told("name: a\nspec:\n  names: &a {kind: x}\n  inner: *a\n") == [
        "3 spec.inner.kind: `kind`: `x` is not one of its values; write one of another, one"
    ]


def test_long_names_and_texts_are_cut() -> None:
    key, text = "k" * 900, "t" * 1_000_000
    faults = told(f"name: a\nspec: {{}}\n{key}: 1\n") + told(f"name: a\nspec: {{inner: {{kind: {text}}}}}\n")
    assert all(len(each.partition(": ")[2]) < 700 for each in faults)


def test_items_of_a_long_list_are_read_one_at_a_time() -> None:
    class Listed(Shape):
        items: Each[Inner]

    reading = FileSet().reading("f")
    document = value("items:\n- {kind: one}\n- {kind: x}\n- {kid: one}\n- {kind: another}\n")
    assert read_shape(Listed, document, reading).items == []
    good: list[str] = []

    def entry_of(item: Value) -> None:
        good.append(read_shape(Inner, item, reading, ("items",), Listed).kind)

    assert isinstance(document, Fields)
    told = [found for _, found in read_each(fields_of(document)["items"], entry_of) if not isinstance(found, NewAcl)]
    assert good == ["one", "another"]
    assert [problem.place for found in told for problem in found] == [("items", "kind"), ("items", "kid")]
    with pytest.raises(Refused):
        read_shape(Listed, value("items: {}"), reading)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\na: 2\n", "`a`: the key comes more than once"),
        ("1: x\n'1': y\n", "`1`: the key comes more than once"),
        ("<<: {a: b}\n", "merge keys"),
        ("a: !!set {x}\n", "the tag `tag:yaml.org,2002:set`"),
        ("a: &x [*x]\n", "an alias stands within what it stands for"),
        ("a: " + "[" * 70 + "]" * 70, "it is nested deeper than 64 levels"),
        ("name: {{ .Values.x }}\n", "a key is not text; this looks like a template"),
        ("name: {{ .Values.x }}-y\n", "not YAML: did not find expected key; this looks like a template"),
        ("a: b\n{{- if .Values.x }}\nc: d\n{{- end }}\n", "this looks like a template"),
        ("a: b\n{% if x %}\nc: d\n", "this looks like a template"),
        ("? [a]\n: b\n", "a key is not text; write a name"),
        ("a: b: c\n", "not YAML: mapping values are not allowed in this context"),
    ],
)
def test_what_no_shape_can_have_is_told(text: str, problem: str) -> None:
    with pytest.raises(TextFault) as fault:
        value(text)
    assert problem in str(fault.value)
    assert ("template" in problem) is ("template" in str(fault.value))


def test_a_document_of_a_million_values_is_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_documents, "MAX_DOCUMENT_VALUES", 1_000)
    assert isinstance(value("a: [" + "x, " * 990 + "x]\n"), Fields)
    for text in ["a: [" + "x, " * 1_000 + "x]\n", "a: &a [" + "x, " * 99 + "x]\nb: [" + "*a, " * 10 + "*a]\n"]:
        with pytest.raises(TextFault, match="a document of more than 1000 values"):
            value(text)


@pytest.mark.parametrize("text", ["a", "1", "- a", "''"])
def test_a_document_that_is_no_mapping_is_no_block(text: str) -> None:
    (fault,) = told(text)
    assert fault == "1 : not a mapping; write its fields"


def test_a_flag_that_is_suggested_does_nothing_else_in_a_shell() -> None:
    (fault,) = told("name: a\nspec: {$(touch x): 1}\n")
    assert fault.endswith("or read the file without it: --pass-over 'spec.$(touch x)'")
    (unseen,) = told('name: a\nspec: {"zz\\u200b": 1}\n')
    assert unseen.endswith("there is no such field; remove it")
