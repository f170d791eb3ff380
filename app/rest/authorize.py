"""POST /v1/authorize (KIP-504): the hot path, in front of the web framework and without it.

No await between the body and the answer, unless the caller asks for `at_least`: so a batch is decided at one offset.
"""

from collections.abc import Sequence
from time import perf_counter

from msgspec import UNSET
from starlette.types import Receive, Scope, Send

from app.core.authorize import Authorization, Verdict
from app.core.bindings import StandardAcl
from app.core.image import AuthorizerImage
from app.ops.audit import DEBUG, INFO, LEVELS, AuditEntry, AuditLog, AuditSource, level_of
from app.ops.decision_log import Asker, Decided, DecisionLog, Stand
from app.ops.logs import REQUEST_MARK, RequestMark
from app.rest.admission import body_bytes_of
from app.rest.at_once import caller_at_once, mark_at_once
from app.rest.callers.roles import Caller
from app.rest.context import check_principal, client_address
from app.rest.correlation import reply_headers
from app.rest.endpoint import BodyReader, respond
from app.rest.errors import FieldError, InvalidFieldsException
from app.rest.routing import Services, caller_of
from app.rest.schemas import AuthorizeRequest as AuthorizeRequestModel
from app.rest.strict_json import MAX_BODY_BYTES, OFF_LOOP_BYTES, check_headers, read_body
from app.rest.wire import Action, AuthorizeRequest, Context, decode_authorize
from app.rest.words import LITERAL, OPERATION_CODES, RESOURCE_TYPE_CODES, unknown_word

ALLOWED, _DENIED = b'"ALLOWED"', b'"DENIED"'
"""Results as JSON."""

NO_MARK = RequestMark("-")
_AUTHORIZE = "authorize"
_READER = BodyReader(decode_authorize, AuthorizeRequestModel)


class _Frame:
    """What all answers from one image share: the end of the body, what its configuration wants logged, its place."""

    __slots__ = ("audit_level", "image", "stand", "tail")

    def __init__(self, image: AuthorizerImage) -> None:
        self.image = image
        self.tail = b'],"token":null}' if image.token is None else b'],"token":"%b"}' % str(image.token).encode()
        self.audit_level = LEVELS[image.config.audit_level]
        self.stand = Stand.of(image)


class AuthorizeEndpoint:
    """The route as an ASGI application."""

    def __init__(self, services: Services, audit: AuditLog, decision_log: DecisionLog | None = None) -> None:
        self._services = services
        self._authorizer = services.authorizer
        self._callers = services.callers
        self._metrics = services.metrics
        self._audit = audit
        self._decision_log = decision_log
        self._frame = _Frame(services.authorizer.image)
        self._answers = (_AUTHORIZE, self._reply, services.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await respond(self._answers, scope, receive, send)

    def answer(self, headers: Sequence[tuple[bytes, bytes]], body: bytes, names: Sequence[str] = ()) -> bytes | None:
        """The reply, its own headers first, to a request that can be answered at once.

        None for `at_least` and for every refusal. What it has no answer to has left no trace: the request can be put
        to the ASGI application as it came.
        """
        began = perf_counter()
        try:
            fields = dict(headers)
            caller = caller_at_once(self._callers, _AUTHORIZE, headers, fields, names)
            if caller is None or len(body) > OFF_LOOP_BYTES:
                return None
            request = decode_authorize(body)
            if request.at_least is not UNSET or (caller.limit is not None and not self._is_within(caller, request)):
                return None
            mark = mark_at_once(headers, fields, caller)
            reply = self._answer(request, caller, mark)
        except Exception:  # noqa: BLE001 - the ASGI application meets it again, answers and logs it
            return None
        self._metrics.count_request(_AUTHORIZE, 200, perf_counter() - began)
        return b"%bcontent-length: %d\r\n\r\n%b" % (reply_headers(mark), len(reply), reply)

    async def _reply(self, scope: Scope, receive: Receive) -> bytes:
        headers, admission = scope["headers"], self._services.admission
        caller = await caller_of(self._services, _AUTHORIZE, scope)
        body_bytes = body_bytes_of(headers, MAX_BODY_BYTES)
        async with admission.pool_of(_AUTHORIZE).admitted(body_bytes, scope.get("klamm.began"), caller.share):
            check_headers(headers, MAX_BODY_BYTES)
            body = await read_body(receive, MAX_BODY_BYTES)
            request = await _READER.read(body)
        if request.at_least is not UNSET:
            # What is refused in the end is refused before the wait, too.
            check_principal(request.context.principal)
            caller.check_principal(request.context.principal, self._authorizer.image.config.super_users)
            if self._authorizer.has_reached(request.at_least):
                await self._authorizer.wait_for(request.at_least)
            else:
                async with admission.waiting.admitted(len(body), None, caller.share):
                    await self._authorizer.wait_for(request.at_least)
        # INVARIANT: no await from here on; image, index and configuration stay as they are until the answer stands.
        return self._answer(request, caller, REQUEST_MARK.get() or NO_MARK)

    def _is_within(self, caller: Caller, request: AuthorizeRequest) -> bool:
        """Whether a caller's quota has room for this. What is refused for its principal takes nothing of it here."""
        caller.check_principal(request.context.principal, self._authorizer.image.config.super_users)
        return caller.limit is None or caller.limit.take()

    def _answer(self, request: AuthorizeRequest, caller: Caller, mark: RequestMark) -> bytes:
        return b'{"results":[' + b",".join(self.results(request, caller, mark)) + self._frame.tail

    def authorization(self, context: Context, caller: Caller) -> Authorization:
        """Whom a context speaks of, against the image of this moment.

        Raises what `Authorizer.authorization` does, and refuses what the caller may not say.
        """
        principal = context.principal
        check_principal(principal)
        # INVARIANT: who the super users are is asked of the image that decides.
        caller.check_principal(principal, self._authorizer.image.config.super_users)
        return self._authorizer.authorization(principal, client_address(context.client_address))

    def check(self, request: AuthorizeRequest, caller: Caller) -> None:
        """Raise what `results` would; nothing is counted or logged."""
        _decide(self.authorization(request.context, caller), request.actions)

    def results(self, request: AuthorizeRequest, caller: Caller, mark: RequestMark) -> list[bytes]:
        """ALLOWED or DENIED for each action; decided, counted and logged, all at once."""
        authorization = self.authorization(request.context, caller)
        frame = self._frame
        if frame.image is not self._authorizer.image:
            frame = self._frame = _Frame(self._authorizer.image)
        verdicts = _decide(authorization, request.actions)
        self._metrics.count_verdicts(verdicts)
        rows = None
        decision_log = self._decision_log
        if decision_log is not None and decision_log.wants_next():
            # INVARIANT: the index is still that of the verdicts.
            rows = _deciding_rows(authorization, request.actions, verdicts)
            acl_ids = [None if row is None else authorization.acl_id_at(row) for row in rows]
            asker = _asker(request, authorization, mark)
            decision_log.take(Decided(frame.stand, asker, request.actions, verdicts, acl_ids))
        results = [ALLOWED if verdict.allowed else _DENIED for verdict in verdicts]
        if frame.audit_level <= DEBUG or (frame.audit_level <= INFO and _DENIED in results):
            self._log(request, authorization, verdicts, rows, mark)
        return results

    def _log(
        self,
        request: AuthorizeRequest,
        authorization: Authorization,
        verdicts: list[Verdict],
        rows: list[int | None] | None,
        mark: RequestMark,
    ) -> None:
        audit_level = self._frame.audit_level
        entries = []
        for at, (action, verdict) in enumerate(zip(request.actions, verdicts, strict=True)):
            level = level_of(verdict, action.log_if_allowed, action.log_if_denied)
            if level >= audit_level:
                row = _deciding_row(authorization, action, verdict) if rows is None else rows[at]
                acl = None if row is None else authorization.acl_at(row)
                entries.append(_audit_entry(level, action, verdict, acl))
        if entries:
            context = request.context
            api_key = context.request_type
            request_type = None if api_key is UNSET else api_key
            source = AuditSource(
                context.principal, authorization.host, request_type, mark.request_id, mark.trace_id, mark.caller
            )
            self._audit.log(source, entries)


def _decide(authorization: Authorization, actions: list[Action]) -> list[Verdict]:
    decide = authorization.decide
    verdicts = []
    for action in actions:
        operation = OPERATION_CODES.get(action.operation)
        resource_type = RESOURCE_TYPE_CODES.get(action.resource_type)
        pattern_type = action.pattern_type
        if operation is None or resource_type is None or not (pattern_type is UNSET or pattern_type == LITERAL):
            raise refusal_of_actions(actions)
        verdicts.append(decide(operation, resource_type, action.resource_name))
    return verdicts


def refusal_of_actions(actions: list[Action]) -> InvalidFieldsException:
    """The refusal of a batch some of whose words are none, naming each."""
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


def _deciding_row(authorization: Authorization, action: Action, verdict: Verdict) -> int | None:
    operation, resource_type = OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[action.resource_type]
    return authorization.deciding_row(verdict, operation, resource_type, action.resource_name)


def _deciding_rows(authorization: Authorization, actions: list[Action], verdicts: list[Verdict]) -> list[int | None]:
    return [_deciding_row(authorization, action, verdict) for action, verdict in zip(actions, verdicts, strict=True)]


def _asker(request: AuthorizeRequest, authorization: Authorization, mark: RequestMark) -> Asker:
    context = request.context
    return Asker(
        context.principal,
        authorization.host,
        context.listener_name,
        context.request_type,
        context.client_id,
        mark.caller,
    )


def _audit_entry(level: int, action: Action, verdict: Verdict, acl: StandardAcl | None) -> AuditEntry:
    operation, resource_type = OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[action.resource_type]
    count = action.resource_reference_count
    return AuditEntry(
        level, operation, resource_type, action.resource_name, 1 if count is UNSET else count, verdict, acl
    )
