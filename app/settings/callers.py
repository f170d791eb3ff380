"""The callers in `klamm.toml`: who may ask, how they prove who they are, and what they may ask for."""

import re
from collections.abc import Mapping
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

from app.core.kafka.hosts import is_loopback

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


def _principal_pattern(text: str) -> str:
    if "*" in text[:-1]:
        raise ValueError(f"`{text[:100]}` has a `*` before its end; only the end may be one, for any rest")
    return _principal(text)


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
        "expected a name as it stands in the certificate, `DNS:orders.example.com` or `URI:spiffe://...`",
    ),
]
_ServiceAccount = Annotated[str, _matching(r"[a-z0-9.-]{1,253}/[a-z0-9.-]{1,253}", "expected `namespace/name`")]


class CallerSettings(_Table):
    role: Annotated[Literal["decide", "admin", "observe"], Field(examples=["decide"])]
    principals: Annotated[
        tuple[Annotated[str, AfterValidator(_principal_pattern)], ...],
        Field(max_length=_MAX_PRINCIPALS, examples=[["User:*"]]),
    ] = ()
    """Whom a decide caller may speak for: principals, or prefixes of principals that end with `*`."""
    principal: Annotated[Annotated[str, AfterValidator(_principal)] | None, Field(examples=["User:platform"])] = None
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
        """The `sub` of its tokens."""
        if self.service_account is not None:
            return "system:serviceaccount:" + self.service_account.replace("/", ":")
        return self.subject

    @model_validator(mode="after")
    def _fits_its_role(self) -> Self:
        if self.role == "decide" and not self.principals:
            raise ValueError('a decide caller needs `principals`, whom it may speak for, such as ["User:*"]')
        if self.role != "decide" and (self.principals or self.may_assert_super):
            raise ValueError(f"`principals` and `may_assert_super` are for decide callers, not for {self.role}")
        if self.role != "admin" and self.may_assert_address:
            raise ValueError(
                f"`may_assert_address` is for admin callers, not for {self.role}: what a decide caller sends names the "
                "address anyway"
            )
        if self.role == "admin" and self.principal is None:
            raise ValueError("an admin caller needs `principal`, who it is, such as `User:platform`")
        if self.role != "admin" and self.principal is not None:
            raise ValueError(f"`principal` is for admin callers, not for {self.role}")
        if self.subject is not None and self.service_account is not None:
            raise ValueError("`subject` and `service_account` say the same; give one of them")
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
    """Callers that nothing but a static token could prove."""
    return [name for name, caller in callers.items() if caller.issuer is None and caller.certificate is None]


def check_callers(callers: Mapping[str, CallerSettings], issuers: Mapping[str, IssuerSettings]) -> None:
    """Raises ValueError for a bad name, an issuer that does not exist, and a proof that would mean two callers."""
    for kind, names in (("callers", callers), ("issuers", issuers)):
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"`{kind}.{name[:70]}`: a name has up to 64 of a-z, 0-9, - and _")
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
                raise ValueError(f"`callers.{name}` proves itself by the same as `callers.{taken[proof]}`")
