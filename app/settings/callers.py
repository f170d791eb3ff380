"""The callers in `klamm.toml`: who may ask, how they prove it, what they may ask for, and what is wrong there."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    model_validator,
)
from pydantic_core import ErrorDetails

from app.core.groups import MAX_GROUP_NAME
from app.core.kafka.hosts import is_loopback
from app.core.spelling import nearest

# INVARIANT: none of these is symmetric: whoever can check a token can't make one.
SIGNATURE_ALGORITHMS = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    "EdDSA",
)

_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?")
_MAX_PRINCIPALS = 1_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=False)


def _principal(text: str) -> str:
    if ":" not in text.rstrip("*"):
        raise ValueError(f"`{text[:100]}` has no colon between type and name; write for example `User:alice`")
    return text


def _pattern(text: str) -> str:
    if "*" in text[:-1]:
        raise ValueError(
            f"`{text[:100]}` has a `*` before its end; `*` is allowed only at the end, where it stands for anything"
        )
    return text


def _group(text: str) -> str:
    if not 0 < len(text) <= MAX_GROUP_NAME + 1:
        raise ValueError(f"a group's name has 1 to {MAX_GROUP_NAME} characters, such as `eng-data`")
    return text


def _matching(pattern: str, refusal: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(refusal)
        return text

    return AfterValidator(check)


_CertificateName = Annotated[
    str,
    _matching(
        r"(DNS|URI):[!-~]{1,2000}",
        "expected a name as in the certificate, such as `DNS:orders.example.com` or `URI:spiffe://...`",
    ),
]
_ServiceAccount = Annotated[str, _matching(r"[a-z0-9.-]{1,253}/[a-z0-9.-]{1,253}", "expected `namespace/name`")]


class CallerSettings(_Table):
    role: Annotated[Literal["decide", "admin", "observe", "follow"], Field(examples=["decide"])]
    principals: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern), AfterValidator(_principal)], ...],
        Field(max_length=_MAX_PRINCIPALS, examples=[["User:*"]]),
    ] = ()
    """Whom a decide caller may speak for, or a follower hand on updates of: principals, or prefixes with `*` behind."""
    principal: Annotated[Annotated[str, AfterValidator(_principal)] | None, Field(examples=["User:platform"])] = None
    groups: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern), AfterValidator(_group)], ...],
        Field(max_length=_MAX_PRINCIPALS, examples=[["eng-*"]]),
    ] = ()
    """Groups that it may assert of those for whom it speaks: names, or beginnings with `*` behind."""
    groups_claim: Annotated[str | None, Field(min_length=1, max_length=1_000, examples=["groups"])] = None
    """The claim of its JWTs that names more of them."""
    may_assert_super: StrictBool = False
    may_assert_address: StrictBool = False
    """Whether an admin caller's context may name the address that it acts from, which else is its socket's."""
    certificate: Annotated[_CertificateName | None, Field(examples=["DNS:orders.example.com"])] = None
    issuer: str | None = None
    """An `[issuers.NAME]` table; goes with `subject` or `service_account`."""
    subject: Annotated[str | None, Field(min_length=1, max_length=1_000)] = None
    service_account: _ServiceAccount | None = None
    requests_per_second: Annotated[StrictInt | None, Field(ge=1, le=1_000_000)] = None

    @property
    def token_subject(self) -> str | None:
        if self.service_account is not None:
            return "system:serviceaccount:" + self.service_account.replace("/", ":")
        return self.subject

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.role == "decide" and not self.principals:
            raise ValueError('a decide caller needs `principals`, those that it may speak for, such as ["User:*"]')
        if self.role not in ("decide", "follow") and (self.principals or self.may_assert_super):
            raise ValueError(
                f"`principals` and `may_assert_super` are for decide and follow callers, not for {self.role}"
            )
        if self.role != "admin" and self.may_assert_address:
            raise ValueError(
                f"`may_assert_address` is for admin callers, not for {self.role}: the requests of a decide caller "
                "name the address anyway"
            )
        if self.role == "admin" and self.principal is None:
            raise ValueError("an admin caller needs `principal`, its own principal, such as `User:platform`")
        if self.role != "admin" and self.principal is not None:
            raise ValueError(f"`principal` is for admin callers, not for {self.role}")
        if self.subject is not None and self.service_account is not None:
            raise ValueError("`subject` and `service_account` mean the same; give only one of them")
        if self.role == "observe" and (self.groups or self.groups_claim is not None):
            raise ValueError("`groups` and `groups_claim` are for callers that speak for principals, not for observe")
        if self.groups_claim is not None and self.issuer is None:
            raise ValueError("`groups_claim` is for callers with JWTs; give this caller an `issuer`, or leave it out")
        if (self.issuer is None) != (self.token_subject is None):
            raise ValueError("`issuer` goes with `subject` or `service_account`; give both or neither")
        return self


def _where_keys_are(text: str) -> str:
    parts = urlsplit(text)
    host = parts.hostname or ""
    is_url = "://" in text
    if is_url and not (host and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))):
        raise ValueError("expected an https URL, or a file; http is for loopback only")
    return text


class IssuerSettings(_Table):
    issuer: Annotated[str, Field(min_length=1, examples=["https://login.example.com/"])]
    audience: Annotated[str, Field(min_length=1, examples=["klamm"])]
    jwks: Annotated[
        str,
        Field(min_length=1, examples=["https://login.example.com/.well-known/jwks.json"]),
        AfterValidator(_where_keys_are),
    ]
    algorithms: Annotated[
        tuple[Literal[SIGNATURE_ALGORITHMS], ...],  # type: ignore[valid-type]  # the words stand once, above
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1, examples=[["RS256", "ES256"]]),
    ] = ("RS256", "ES256")
    leeway_s: Annotated[StrictInt, Field(ge=0, le=60)] = 30
    ca_file: Path | None = None
    """Authorities to trust for the URL instead of the system's."""
    bearer_file: Path | None = None
    """The token to send to the URL."""

    @model_validator(mode="after")
    def _files_go_with_a_url(self) -> Self:
        for name, path in (("ca_file", self.ca_file), ("bearer_file", self.bearer_file)):
            if path is not None and "://" not in self.jwks:
                raise ValueError(f"`{name}` is for keys at a URL, but `jwks` is a file; leave `{name}` out")
        return self


def callers_without_proof(callers: Mapping[str, CallerSettings]) -> list[str]:
    return [name for name, caller in callers.items() if caller.issuer is None and caller.certificate is None]


def check_callers(callers: Mapping[str, CallerSettings], issuers: Mapping[str, IssuerSettings]) -> None:
    for kind, names in (("callers", callers), ("issuers", issuers)):
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"`{kind}.{name[:70]}`: a name has up to 64 characters of a-z, 0-9, - and _")
    tables: dict[str, str] = {}
    for name, issuer in issuers.items():
        if tables.setdefault(issuer.issuer, name) != name:
            # A token says its `iss` only, so it could not say which table it means.
            raise ValueError(
                f"`issuers.{name}` has the same `issuer` as `issuers.{tables[issuer.issuer]}`; keep one of them: "
                "any number of callers may use it"
            )
    taken: dict[object, str] = {}
    for name, caller in callers.items():
        if caller.issuer is not None and caller.issuer not in issuers:
            raise ValueError(f"`callers.{name}`: there is no table `issuers.{caller.issuer}`")
        for proof in (caller.certificate, caller.issuer and (caller.issuer, caller.token_subject)):
            if proof is not None and taken.setdefault(proof, name) != name:
                raise ValueError(
                    f"`callers.{name}` has the same credentials as `callers.{taken[proof]}`; give each its own"
                )


_TABLES: dict[str, tuple[type[BaseModel], str]] = {
    "callers": (CallerSettings, "a caller"),
    "issuers": (IssuerSettings, "an issuer"),
}
_EXPECTED = {
    "bool_type": "expected true or false, without quotes",
    "int_type": "expected a whole number, without quotes",
    "tuple_type": "expected a list",
    "string_type": "expected text, in quotes",
    "path_type": "expected the name of a file, in quotes",
}
_NUMBERS = {
    "int_parsing": "expected a whole number",
    "int_parsing_size": "expected a smaller whole number",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
}
_KEY_DEPTH = 3
"""The length of a key's path: callers, NAME, key."""


def reason_of(fault: ErrorDetails) -> str:
    """What pydantic found: the texts of Klamm and Kafka as they are, its own as a sentence about `it`."""
    own = fault.get("ctx", {}).get("error")
    if own is not None:
        return str(own)
    text = _NUMBERS.get(fault["type"], fault["msg"])
    for kind in ("Input", "String", "Tuple"):
        text = text.replace(f"{kind} should", "it should", 1)
    return text


def table_fault(fault: ErrorDetails, properties: Collection[str]) -> str:
    """Where a fault in one of the tables is, and the way out; `properties` are all that belong above the tables."""
    path = fault["loc"]
    place = ".".join(map(str, path))
    kind = str(path[0])
    if len(path) < _KEY_DEPTH and fault["type"] != "value_error":
        return f"{place}: expected a table; write `[{kind}.{path[1] if path[1:] else 'NAME'}]`"
    model, whose = _TABLES[kind]
    if fault["type"] == "extra_forbidden":
        unknown = _unknown(str(path[-1]), fault["input"], model, whose, properties)
        return f"{path[0]}.{path[1]}: {unknown}"
    if fault["type"] == "missing":
        name = str(path[-1])
        return f"{place}: it is missing; write for example `{name} = {_example(model, name)}`"
    if fault["type"] not in _EXPECTED:
        return f"{place}: {reason_of(fault)}"
    example = _example(model, str(path[-1]))
    return f"{place}: {_EXPECTED[fault['type']]}" + ("" if example is None else f", such as {example}")


def _example(model: type[BaseModel], name: str) -> str | None:
    """A value in TOML, which has the same texts and lists of texts as JSON."""
    field = model.model_fields.get(name)
    return json.dumps(field.examples[0]) if field is not None and field.examples else None


def _unknown(name: str, value: object, model: type[BaseModel], whose: str, properties: Collection[str]) -> str:
    # To TOML everything below a `[table]` is in it, also `tokens.file = ""`.
    for swallowed in _dotted(name, value):
        if swallowed in properties:
            return f"`{swallowed}` is a property of its own, not of {whose}; move it above the first `[table]`"
    meant = nearest(name, model.model_fields)
    way_out = f"did you mean `{meant}`?" if meant else f"the known names are {', '.join(sorted(model.model_fields))}"
    return f"there is no `{name[:100]}`; {way_out}"


def _dotted(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield name
        return
    for key, each in value.items():
        yield from _dotted(f"{name}.{key}", each)
