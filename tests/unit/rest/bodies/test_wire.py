"""authorize's body: the structs are the documented models, and nothing that came twice gets through."""

import asyncio
import json
from typing import Any, Never, get_args, get_origin

import annotated_types
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from app.core.kafka.errors import InvalidRequestException
from app.formats.acl_json import JsonBinding
from app.rest.bodies import acl_schemas, acl_wire, explain_schemas, explain_wire, schemas, wire
from app.rest.bodies.reading import BodyReader
from app.rest.bodies.words import OPERATION_CODES, RESOURCE_TYPE_CODES
from app.rest.errors import InvalidFieldsException

PAIRS: list[tuple[type[msgspec.Struct], type[BaseModel]]] = [
    (wire.Context, schemas.AuthorizableRequestContext),
    (wire.Action, schemas.Action),
    (wire.AuthorizeRequest, schemas.AuthorizeRequest),
    (JsonBinding, acl_schemas.AclBinding),
    (acl_wire.AclBindingFilter, acl_schemas.AclBindingFilter),
    (acl_wire.CreateAclsRequest, acl_schemas.CreateAclsRequest),
    (acl_wire.DeleteAclsRequest, acl_schemas.DeleteAclsRequest),
    (acl_wire.AclsRequest, acl_schemas.AclsRequest),
    (explain_wire.ExplainedCaller, explain_schemas.ExplainedCaller),
    (explain_wire.ExplainRequest, explain_schemas.ExplainRequest),
]

Shape = tuple[str, bool, int | None, int | None]


def struct_shape(node: msgspec.inspect.Type) -> Shape:
    """The kind of a struct's field, whether null is taken, and its bounds."""
    nullable, low, high, kind = False, None, None, ""
    for each in node.types if isinstance(node, msgspec.inspect.UnionType) else (node,):
        if isinstance(each, msgspec.inspect.NoneType):
            nullable = True
        elif isinstance(each, msgspec.inspect.IntType):
            kind, low, high = "int", each.ge, each.le
        elif isinstance(each, msgspec.inspect.StrType):
            kind = "str"
        elif isinstance(each, msgspec.inspect.BoolType):
            kind = "bool"
        elif isinstance(each, msgspec.inspect.ListType):
            kind = "list of " + struct_shape(each.item_type)[0]
        elif isinstance(each, msgspec.inspect.StructType):
            kind = each.cls.__name__
    return kind, nullable, low, high


READER = BodyReader(wire.decode_authorize, schemas.AuthorizeRequest)


def decoded(body: bytes) -> wire.AuthorizeRequest:
    """The request in a body, with the words for what is wrong with it."""
    request: wire.AuthorizeRequest = asyncio.run(READER.read(body))
    return request


NAMES = {schema.__name__: struct.__name__ for struct, schema in PAIRS}


def model_shape(field: FieldInfo) -> Shape:
    """The same of a model's field."""
    annotations = get_args(field.annotation) if type(None) in get_args(field.annotation) else (field.annotation,)
    nullable, kind, low, high = False, "", None, None
    metadata = list(field.metadata)
    for annotation in annotations:
        if annotation is type(None):
            nullable = True
            continue
        if get_origin(annotation) is list:
            kind = "list of " + NAMES[get_args(annotation)[0].__name__]
            continue
        bare = annotation
        if hasattr(annotation, "__metadata__"):
            bare = get_args(annotation)[0]
            metadata += [part for each in annotation.__metadata__ for part in getattr(each, "metadata", [each])]
        kind = NAMES.get(bare.__name__, bare.__name__)
    for each in metadata:
        if isinstance(each, annotated_types.Ge):
            low = int(str(each.ge))
        if isinstance(each, annotated_types.Le):
            high = int(str(each.le))
    return kind, nullable, low, high


@pytest.mark.parametrize(("struct", "model"), PAIRS)
def test_struct_and_documented_model_agree_field_by_field(struct: type[msgspec.Struct], model: type[BaseModel]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert list(fields) == list(model.model_fields)
    inspected = msgspec.inspect.type_info(struct)
    assert isinstance(inspected, msgspec.inspect.StructType)
    assert inspected.forbid_unknown_fields
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["strict"]
    for field in inspected.fields:
        documented = model.model_fields[field.name]
        assert field.required == documented.is_required(), field.name
        assert struct_shape(field.type) == model_shape(documented), field.name


def test_defaults_are_the_documented_ones() -> None:
    # The structs leave them UNSET, so as to count keys; `app.rest.authorize` reads UNSET as these.
    defaults = {name: field.default for name, field in schemas.Action.model_fields.items() if not field.is_required()}
    assert defaults == {
        "pattern_type": "LITERAL",
        "resource_reference_count": 1,
        "log_if_allowed": True,
        "log_if_denied": True,
    }
    # Read by `app.rest.routes.acls`.
    defaults = {
        name: field.default for name, field in acl_schemas.AclBinding.model_fields.items() if not field.is_required()
    }
    assert defaults == {"pattern_type": "LITERAL", "host": "*"}


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


def kept(request: wire.AuthorizeRequest) -> Any:  # noqa: ANN401 - JSON
    return msgspec.to_builtins(request)


@given(REQUESTS, STYLES)
def test_clean_bodies_are_never_refused(pairs: Pairs, style: dict[str, Any]) -> None:
    body = to_json(pairs, **style).encode()
    assert kept(decoded(body)) == to_value(pairs)


@pytest.mark.slow
@given(REQUESTS, STYLES, st.data())
@settings(max_examples=400)
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
def test_msgspec_and_pydantic_take_and_refuse_the_same(pairs: Pairs, data: st.DataObject, odd: object) -> None:
    value = to_value(pairs)
    target = data.draw(st.sampled_from([value, value["context"], *value["actions"]]))
    key = data.draw(st.sampled_from([*target, "extra", "client_id", "log_if_denied"]))
    if data.draw(st.booleans()):
        target[key] = odd
    else:
        target.pop(key, None)
    try:
        schemas.AuthorizeRequest.model_validate(value)
    except ValidationError:
        with pytest.raises(InvalidFieldsException):
            decoded(json.dumps(value).encode())
    else:
        assert kept(decoded(json.dumps(value).encode())) == value


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

    monkeypatch.setattr(wire, "parse", slow)
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
    with pytest.raises(InvalidFieldsException, match="1001 entries; send at most 1000"):
        decoded(body(1001))


def test_msgspecs_own_words_are_the_last_resort() -> None:
    def refuse(_: bytes) -> Never:
        raise wire.UndecodedException("why")

    with pytest.raises(wire.UndecodedException, match=r"^why$"):
        asyncio.run(BodyReader(refuse, schemas.AuthorizeRequest).read(body_of(FULL)))
