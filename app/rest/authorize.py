"""POST /v1/authorize (KIP-504): the hot path, in front of the web framework and without it.

No await between the body and the answer, unless the caller asks for `at_least`: so a batch is decided at one offset.
"""

from collections.abc import Iterable
from time import perf_counter

from msgspec import UNSET
from starlette.types import Receive, Scope, Send

from app.core.authorize import Authorization, Verdict
from app.core.image import AuthorizerImage
from app.ops.audit import DEBUG, INFO, LEVELS, AuditEntry, AuditLog, AuditSource, level_of
from app.ops.metrics import Metrics
from app.rest.context import check_principal, client_address
from app.rest.endpoint import BodyReader, respond
from app.rest.errors import FieldError, InvalidFieldsException
from app.rest.schemas import AuthorizeRequest as AuthorizeRequestModel
from app.rest.strict_json import MAX_BODY_BYTES, OFF_LOOP_BYTES, check_headers, read_body
from app.rest.wire import Action, AuthorizeRequest, decode_authorize
from app.rest.words import LITERAL, OPERATION_CODES, RESOURCE_TYPE_CODES, unknown_word
from app.runtime.authorizer import Authorizer

_READER = BodyReader(decode_authorize, AuthorizeRequestModel)


class _Frame:
    """What all answers from one image share: the end of the body, and what its configuration wants logged."""

    __slots__ = ("audit_level", "image", "tail")

    def __init__(self, image: AuthorizerImage) -> None:
        self.image = image
        self.tail = b'],"token":null}' if image.token is None else b'],"token":"%b"}' % str(image.token).encode()
        self.audit_level = LEVELS[image.config.audit_level]


class AuthorizeEndpoint:
    """The route as an ASGI application."""

    def __init__(self, authorizer: Authorizer, metrics: Metrics, audit: AuditLog) -> None:
        self._authorizer = authorizer
        self._metrics = metrics
        self._audit = audit
        self._frame = _Frame(authorizer.image)
        self._answers = ("authorize", self._reply, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await respond(self._answers, scope, receive, send)

    def answer(self, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes | None:
        """The reply's body to a request that can be answered at once; None for `at_least` and for every refusal.

        What it has no answer to has left no trace: the request can be put to the ASGI application as it came.
        """
        began = perf_counter()
        try:
            check_headers(headers, MAX_BODY_BYTES)
            request = decode_authorize(body) if len(body) <= OFF_LOOP_BYTES else None
            if request is None or request.at_least is not UNSET:
                return None
            check_principal(request.context.principal)
            reply = self._answer(request)
        except Exception:  # noqa: BLE001 - the ASGI application meets it again, answers and logs it
            return None
        self._metrics.count_request("authorize", 200, perf_counter() - began)
        return reply

    async def _reply(self, scope: Scope, receive: Receive) -> bytes:
        check_headers(scope["headers"], MAX_BODY_BYTES)
        body = await read_body(receive, MAX_BODY_BYTES)
        request = await _READER.read(body)
        check_principal(request.context.principal)
        if request.at_least is not UNSET:
            await self._authorizer.wait_for(request.at_least)
        # INVARIANT: no await from here on; image, index and configuration stay as they are until the answer stands.
        return self._answer(request)

    def _answer(self, request: AuthorizeRequest) -> bytes:
        address = client_address(request.context.client_address)
        authorization = self._authorizer.authorization(request.context.principal, address)
        frame = self._frame
        if frame.image is not self._authorizer.image:
            frame = self._frame = _Frame(self._authorizer.image)
        verdicts = _decide(authorization, request.actions)
        self._metrics.count_verdicts(verdicts)
        results = [b'"ALLOWED"' if verdict.allowed else b'"DENIED"' for verdict in verdicts]
        if frame.audit_level <= DEBUG or (frame.audit_level <= INFO and b'"DENIED"' in results):
            self._log(request, authorization, verdicts, frame.audit_level)
        return b'{"results":[' + b",".join(results) + frame.tail

    def _log(
        self, request: AuthorizeRequest, authorization: Authorization, verdicts: list[Verdict], audit_level: int
    ) -> None:
        entries = []
        for action, verdict in zip(request.actions, verdicts, strict=True):
            level = level_of(verdict, action.log_if_allowed, action.log_if_denied)
            if level >= audit_level:
                entries.append(_audit_entry(level, action, verdict, authorization))
        if entries:
            context = request.context
            api_key = context.request_type
            source = AuditSource(context.principal, authorization.host, None if api_key is UNSET else api_key)
            self._audit.log(source, entries)


def _decide(authorization: Authorization, actions: list[Action]) -> list[Verdict]:
    decide = authorization.decide
    verdicts = []
    for action in actions:
        operation = OPERATION_CODES.get(action.operation)
        resource_type = RESOURCE_TYPE_CODES.get(action.resource_type)
        pattern_type = action.pattern_type
        if operation is None or resource_type is None or not (pattern_type is UNSET or pattern_type == LITERAL):
            raise _refusal(actions)
        verdicts.append(decide(operation, resource_type, action.resource_name))
    return verdicts


def _refusal(actions: list[Action]) -> InvalidFieldsException:
    errors = []
    for at, action in enumerate(actions):
        if action.operation not in OPERATION_CODES:
            errors.append(FieldError(f"/actions/{at}/operation", unknown_word(action.operation, OPERATION_CODES)))
        if action.resource_type not in RESOURCE_TYPE_CODES:
            text = unknown_word(action.resource_type, RESOURCE_TYPE_CODES)
            errors.append(FieldError(f"/actions/{at}/resource_type", text))
        if action.pattern_type not in (UNSET, LITERAL):
            text = f"only LITERAL resources can be authorized, not `{str(action.pattern_type)[:100]}`; send LITERAL"
            errors.append(FieldError(f"/actions/{at}/pattern_type", text))
    return InvalidFieldsException(errors)


def _audit_entry(level: int, action: Action, verdict: Verdict, authorization: Authorization) -> AuditEntry:
    operation, resource_type = OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[action.resource_type]
    name, count = action.resource_name, action.resource_reference_count
    acl = authorization.deciding_acl(verdict, operation, resource_type, name)
    return AuditEntry(level, operation, resource_type, name, 1 if count is UNSET else count, verdict, acl)
