"""Bodies become structs: nothing that came twice gets through, and the first field that is wrong is named."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, Never

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.kafka.errors import InvalidRequestException
from app.rest.bodies import reading
from app.rest.bodies.acls import DeleteAclsRequest
from app.rest.bodies.decisions import AuthorizeRequest
from app.rest.bodies.fields import OPERATION_CODES, RESOURCE_TYPE_CODES, Request
from app.rest.bodies.reading import read_struct, strict_decoder
from app.rest.errors import InvalidFieldsException
from app.rest.openapi import build_openapi

DECODE = strict_decoder(AuthorizeRequest)


def decoded(body: bytes) -> AuthorizeRequest:
    """The request in a body, with the words for what is wrong with it."""
    return asyncio.run(read_struct(DECODE, body))


def request_structs() -> Iterator[type[msgspec.Struct]]:
    """Every struct that bodies are decoded into."""
    waiting = [Request]
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each is not Request:
            yield each


def test_the_proof_can_be_made_of_every_request() -> None:
    structs = list(request_structs())
    assert len(structs) > 15
    for struct in structs:
        config = struct.__struct_config__
        # INVARIANT: what is written again must hold nothing that did not come.
        assert config.omit_defaults, struct
        assert config.forbid_unknown_fields, struct


def test_what_is_absent_means_the_documented_default() -> None:
    # `app.rest.deciding` and `app.rest.routes.acls` read UNSET as these.
    schemas = build_openapi()["components"]["schemas"]
    for name, expected in (
        (
            "Action",
            {"pattern_type": "LITERAL", "resource_reference_count": 1, "log_if_allowed": True, "log_if_denied": True},
        ),
        ("AclBinding", {"pattern_type": "LITERAL", "host": "*"}),
        ("AuthorizeRequest", {"with_rules": False}),
        ("AclsRequest", {"limit": 100}),
        ("StartRequest", {"wait_ms": 5_000}),
    ):
        fields = schemas[name]["properties"]
        assert {field: each["default"] for field, each in fields.items() if "default" in each} == expected


TEXT = st.text(
    st.sampled_from('ab:,{}[]"\\/ \n\té😀') | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    max_size=8,
)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
Pairs = list[tuple[str, Any]]


def objects(required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]) -> Any:  # noqa: ANN401 - a strategy of pairs
    """Objects as lists of pairs in any order."""
    return st.fixed_dictionaries(required, optional=optional).flatmap(lambda each: st.permutations(list(each.items())))


CONTEXTS = objects(
    {"principal": TEXT, "client_address": TEXT},
    {
        "listener_name": TEXT | st.none(),
        "security_protocol": TEXT | st.none(),
        "request_type": INT16 | st.none(),
        "request_version": INT16 | st.none(),
        "client_id": TEXT | st.none(),
        "correlation_id": INT32 | st.none(),
    },
)
ACTIONS = objects(
    {
        "operation": st.sampled_from(sorted(OPERATION_CODES)) | TEXT,
        "resource_type": st.sampled_from(sorted(RESOURCE_TYPE_CODES)) | TEXT,
        "resource_name": TEXT,
    },
    {
        "pattern_type": st.just("LITERAL") | TEXT,
        "resource_reference_count": INT32,
        "log_if_allowed": st.booleans(),
        "log_if_denied": st.booleans(),
    },
)
REQUESTS = objects({"context": CONTEXTS, "actions": st.lists(ACTIONS, max_size=4)}, {"at_least": TEXT | st.none()})


def is_object(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple)


def to_json(value: Any, *, as_ascii: bool, space: str) -> str:  # noqa: ANN401 - pairs, lists and scalars
    def write(each: Any) -> str:  # noqa: ANN401 - the same
        if is_object(each):
            return "{" + f"{space},".join(f"{space}{json.dumps(k)}{space}:{space}{write(v)}" for k, v in each) + "}"
        if isinstance(each, list):
            return "[" + ",".join(map(write, each)) + space + "]"
        return json.dumps(each, ensure_ascii=as_ascii)

    return write(value)


def to_value(value: Any) -> Any:  # noqa: ANN401 - the same
    if is_object(value):
        return {key: to_value(each) for key, each in value}
    return [to_value(each) for each in value] if isinstance(value, list) else value


STYLES = st.fixed_dictionaries({"as_ascii": st.booleans(), "space": st.sampled_from(["", " ", "\n\t"])})


def kept(request: AuthorizeRequest) -> Any:  # noqa: ANN401 - JSON
    return msgspec.to_builtins(request)


@given(REQUESTS, STYLES)
def test_clean_bodies_are_never_refused(pairs: Pairs, style: dict[str, Any]) -> None:
    body = to_json(pairs, **style).encode()
    assert kept(decoded(body)) == to_value(pairs)


@given(REQUESTS, STYLES, st.data())
def test_bodies_with_anything_twice_are_always_refused(
    pairs: Pairs, style: dict[str, Any], data: st.DataObject
) -> None:
    actions = dict(pairs)["actions"]
    context = dict(pairs)["context"]
    target = data.draw(st.sampled_from([pairs, context, *actions]))
    key, value = data.draw(st.sampled_from(target))
    again = data.draw(st.just(value) | (TEXT if isinstance(value, str) else st.just(value)))
    doubled = list(target)
    doubled.insert(data.draw(st.integers(0, len(target))), (key, again))

    def replaced(each: Any) -> Any:  # noqa: ANN401 - JSON
        if each is target:
            return doubled if each is not pairs else [(k, v if v is target else replaced(v)) for k, v in doubled]
        if is_object(each):
            return [(k, replaced(v)) for k, v in each]
        return [replaced(v) for v in each] if isinstance(each, list) else each

    with pytest.raises(InvalidRequestException):
        decoded(to_json(replaced(pairs), **style).encode())


@given(
    REQUESTS,
    st.data(),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.lists(st.integers(), max_size=2)
    | st.just({"x": 1}),
)
def test_a_body_is_taken_as_it_is_or_refused_by_the_field(pairs: Pairs, data: st.DataObject, odd: object) -> None:
    value = to_value(pairs)
    places = {"": value, "/context": value["context"]}
    places |= {f"/actions/{at}": each for at, each in enumerate(value["actions"])}
    place = data.draw(st.sampled_from(sorted(places)))
    key = data.draw(st.sampled_from([*places[place], "extra", "client_id", "log_if_denied"]))
    if data.draw(st.booleans()):
        places[place][key] = odd
    else:
        places[place].pop(key, None)
    try:
        request = decoded(json.dumps(value).encode())
    except InvalidFieldsException as refusal:
        [error] = refusal.errors
        assert error.pointer == f"{place}/{key}" or error.pointer.startswith(f"{place}/{key}/")
        assert "; " in error.detail
    else:
        assert kept(request) == value


def body_of(action: dict[str, Any], **context: Any) -> bytes:  # noqa: ANN401 - JSON
    base = {"principal": "User:alice", "client_address": "::1", **context}
    return json.dumps({"context": base, "actions": [action], "at_least": "a:1"}).encode()


FULL = {
    "operation": "READ",
    "resource_type": "TOPIC",
    "resource_name": "a:b:c",
    "pattern_type": "LITERAL",
    "resource_reference_count": 1,
    "log_if_allowed": True,
    "log_if_denied": False,
}


@pytest.mark.parametrize("size", range(3, 8))
def test_clean_bodies_without_a_backslash_are_read_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: bytes) -> object:
        raise AssertionError("the slow reader was asked")

    monkeypatch.setattr(reading, "parse", slow)
    action = dict(list(FULL.items())[:size])
    for name in ("a", "a:b:c"):
        decoded(body_of({**action, "resource_name": name}, client_id="x:y", request_type=1))


def test_what_a_body_lacks_does_not_hide_what_it_has_twice() -> None:
    # One action without log_if_denied, one with log_if_allowed twice: as many keys as two whole actions have.
    lacking = {key: value for key, value in FULL.items() if key != "log_if_denied"}
    whole = json.dumps(FULL)
    doubled = f'{{"log_if_allowed": true, {whole[1:]}'
    body = body_of(FULL).replace(whole.encode(), f"{json.dumps(lacking)}, {doubled}".encode())
    assert body.count(b":") == body_of(FULL).replace(whole.encode(), f"{whole}, {whole}".encode()).count(b":")
    with pytest.raises(InvalidFieldsException) as refusal:
        decoded(body)
    assert [each.pointer for each in refusal.value.errors] == ["/actions/1/log_if_allowed"]


def test_an_escaped_colon_does_not_make_up_for_a_key_that_comes_twice() -> None:
    # The text that is kept has a colon which the body has not; the doubled key has one too many: the sums are equal.
    clean = body_of(FULL)
    doubled = clean.replace(b'"User:alice"', b'"User\\u003aalice"').replace(
        b'"operation": "READ"', b'"operation": "READ", "operation": "READ"'
    )
    assert doubled.count(b":") == clean.count(b":")
    with pytest.raises(InvalidFieldsException) as refusal:
        decoded(doubled)
    assert [each.pointer for each in refusal.value.errors] == ["/actions/0/operation"]


def test_escapes_that_stand_for_no_text_are_refused() -> None:
    for escape in (b"\\u0000", b"\\ud800", b"\\udc00x"):
        with pytest.raises(InvalidFieldsException):
            decoded(body_of(FULL).replace(b"User:alice", b"User:" + escape))


def test_a_thousand_actions_pass_and_one_more_does_not() -> None:
    def body(count: int) -> bytes:
        return body_of(FULL).replace(json.dumps(FULL).encode(), ", ".join([json.dumps(FULL)] * count).encode())

    assert len(decoded(body(1000)).actions) == 1000
    with pytest.raises(InvalidFieldsException, match="too many entries; send at most 1000"):
        decoded(body(1001))


def test_the_first_wrong_field_is_named(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[dict[str, object], str, str]] = [
        ({"operation": 1}, "/actions/0/operation", "the value is not text; send a string"),
        ({"extra": 1}, "/actions/0/extra", "there is no such field; remove it"),
        ({"a` - at `$.b": 1}, "/actions/0/a` - at `$.b", "there is no such field; remove it"),
        ({"x" * 1_000: 1}, "/actions/0/" + "x" * 100, "there is no such field; remove it"),
        ({"/~\n": 1}, "/actions/0/~1~0\n", "there is no such field; remove it"),
        ({"log_if_allowed": 1}, "/actions/0/log_if_allowed", "the value is not a boolean; send true or false"),
        (
            {"resource_reference_count": 2**31},
            "/actions/0/resource_reference_count",
            "the number is too large; send at most 2147483647",
        ),
        (
            {"resource_reference_count": -(10**30)},
            "/actions/0/resource_reference_count",
            "the number is too small; send at least -2147483648",
        ),
        (
            {"resource_reference_count": 1.0},
            "/actions/0/resource_reference_count",
            "the value is not a whole number; send an integer",
        ),
    ]
    for change, pointer, detail in cases:
        with subtests.test(change=change, pointer=pointer, detail=detail):
            with pytest.raises(InvalidFieldsException) as refusal:
                decoded(body_of({**FULL, **change}))
            assert [(each.pointer, each.detail) for each in refusal.value.errors] == [(pointer, detail)]


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"context": None}, "/context", "the value is not an object; send a JSON object"),
        ({"actions": {}}, "/actions", "the value is not a list; send an array"),
        ({"actions": [[]]}, "/actions/0", "the value is not an object; send a JSON object"),
        ({"with_rules": None}, "/with_rules", "the value is not a boolean; send true or false"),
        ({"at_least": 10**500}, "/at_least", "the number is out of range; send one that fits"),
    ],
)
def test_what_stands_in_no_list_is_named_too(change: dict[str, object], pointer: str, detail: str) -> None:
    value = json.loads(body_of(FULL))
    with pytest.raises(InvalidFieldsException) as refusal:
        decoded(json.dumps({**value, **change}).encode())
    assert [(each.pointer, each.detail) for each in refusal.value.errors] == [(pointer, detail)]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidFieldsException) as refusal:
        decoded(b'{"context":{"principal":"User:a","client_address":"::1"}}')
    assert refusal.value.message == "`/actions`: the field is missing; send it"


@pytest.mark.parametrize("length", [19, 20, 400, 4_000])
def test_a_number_of_any_length_is_refused_with_a_way_out(length: int) -> None:
    for sign in ("", "-"):
        body = body_of({**FULL, "log_if_denied": True}).replace(
            b'"resource_reference_count": 1', f'"resource_reference_count": {sign}{"9" * length}'.encode()
        )
        with pytest.raises(InvalidFieldsException) as refusal:
            decoded(body)
        [error] = refusal.value.errors
        assert error.pointer == "/actions/0/resource_reference_count"
        assert "; send" in error.detail


def test_a_fault_that_has_no_words_of_ours_keeps_those_of_msgspec() -> None:
    def refuse(_: bytes) -> Never:
        raise msgspec.ValidationError("why")

    with pytest.raises(InvalidRequestException, match=r"^why$"):
        asyncio.run(read_struct(refuse, body_of(FULL)))


@pytest.mark.parametrize("entry", ["{}", '{"host":null}'])
def test_no_more_entries_are_read_than_any_body_may_hold(entry: str) -> None:
    decode = strict_decoder(DeleteAclsRequest)
    head = '{"context":{"principal":"User:a","client_address":"::1"},"filters":['
    assert len(decode(f"{head}{','.join([entry] * 19_000)}]}}".encode()).filters) == 19_000
    with pytest.raises(InvalidRequestException, match="too many values"):
        decode(f"{head}{','.join([entry] * 20_000)}]}}".encode())
