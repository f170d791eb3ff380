"""authorize (KIP-504): a batch decided at one offset, counted and logged.

Both the route and the answer straight from the socket decide here. A long batch is decided in slices, and begun
again if the image has changed meanwhile.
"""

from collections.abc import Generator
from uuid import UUID

import msgspec
from msgspec import UNSET

from app.core.authorize import Authorization
from app.core.context import RequestContext
from app.core.image import AuthorizerImage
from app.core.kafka.bindings import StandardAcl
from app.core.verdicts import Verdict
from app.logs.audit import DEBUG, INFO, LEVELS, AuditEntry, AuditLog, AuditSource, level_of
from app.logs.decision_log import Asker, DecisionLog, Position
from app.logs.decision_log import Decided as DecisionBatch
from app.logs.service import RequestMark
from app.metrics.declared import Metrics
from app.rest.bodies.decisions import Action, AppliedRule, AuthorizeRequest
from app.rest.bodies.fields import LITERAL, OPERATION_CODES, RESOURCE_TYPE_CODES, unknown_word
from app.rest.errors import InvalidFieldsException, ProblemField
from app.runtime.authorizer import Authorizer
from app.runtime.deciding import at_once, at_one_offset

_SLICE = 64
_AT_ONCE_S = 0.005

NO_MARK = RequestMark("-")
_ALLOWED, _DENIED = b'"ALLOWED"', b'"DENIED"'
_TO_JSON = msgspec.json.Encoder().encode


class _Frame:
    __slots__ = ("audit_level", "image", "position", "tail")

    def __init__(self, image: AuthorizerImage) -> None:
        self.image = image
        self.tail = b'],"token":null}' if image.token is None else b'],"token":"%b"}' % str(image.token).encode()
        self.audit_level = LEVELS[image.config.audit_level]
        self.position = Position.of(image)


class Decided(msgspec.Struct, gc=False):
    """A decided batch, not yet counted or logged."""

    request: AuthorizeRequest
    authorization: Authorization
    verdicts: list[Verdict]
    results: list[bytes]
    """As JSON."""
    rows: list[int | None] | None = None
    """The rows of the deciding ACLs, if they will be needed; None: not looked up yet."""


class Decider:
    """Decides on batches. Call `decide*`, then `reply` in the same step of the event loop: rows of the
    index are valid until the next await.
    """

    def __init__(
        self, authorizer: Authorizer, metrics: Metrics, audit: AuditLog, decision_log: DecisionLog | None = None
    ) -> None:
        self._authorizer = authorizer
        self._rights = authorizer.rights
        self._metrics = metrics
        self._audit = audit
        self._decision_log = decision_log
        self._frame = _Frame(authorizer.image)

    def decide(self, request: AuthorizeRequest, context: RequestContext) -> Decided:
        """Raises what `Rights.authorization` does, and InvalidFieldsException."""
        authorization = self._rights.authorization(context)
        verdicts = _decide(authorization, request.actions, request)
        return Decided(request, authorization, verdicts, [_ALLOWED if each.allowed else _DENIED for each in verdicts])

    def decide_at_once(self, request: AuthorizeRequest, context: RequestContext) -> Decided | None:
        """None if it takes longer than a few milliseconds, whatever the ACLs are, or has to wait for an offset."""
        if request.at_least is not UNSET:
            return None
        if len(request.actions) <= _SLICE:
            return self.decide(request, context)
        return at_once(self._in_slices(request, context), most_s=_AT_ONCE_S)

    async def decide_paced(self, request: AuthorizeRequest, context: RequestContext) -> Decided:
        """In short steps; in a single one if the store keeps changing."""
        if len(request.actions) <= _SLICE:
            return self.decide(request, context)
        decided = await at_one_offset(lambda: self._authorizer.image, lambda: self._in_slices(request, context))
        return self.decide(request, context) if decided is None else decided

    def _in_slices(self, request: AuthorizeRequest, context: RequestContext) -> Generator[None, None, Decided]:
        authorization, actions = self._rights.authorization(context), request.actions
        audit_level = self._frame_of(authorization.image).audit_level
        verdicts: list[Verdict] = []
        results: list[bytes] = []
        rows: list[int | None] = []
        wants_all = self._decision_log is not None or request.with_rules is True or audit_level <= DEBUG
        wants_denied = wants_all or audit_level <= INFO
        for start in range(0, len(actions), _SLICE):
            if start:
                yield
            some = actions[start : start + _SLICE]
            found = _decide(authorization, some, request)
            verdicts += found
            results += [_ALLOWED if each.allowed else _DENIED for each in found]
            rows += [
                _deciding_row(authorization, action, verdict)
                if (wants_all if verdict.allowed else wants_denied)
                else None
                for action, verdict in zip(some, found, strict=True)
            ]
        return Decided(request, authorization, verdicts, results, rows)

    def _frame_of(self, image: AuthorizerImage) -> _Frame:
        # INVARIANT: a reply's token is that of the image that decided.
        if self._frame.image is not image:
            self._frame = _Frame(image)
        return self._frame

    def reply(self, decided: Decided, mark: RequestMark) -> bytes:
        """Counts and logs the decisions. Returns the body of the 200."""
        rows = self._record(decided, mark)
        reply = b'{"results":[' + b",".join(decided.results)
        if decided.request.with_rules is True:
            reply += b'],"rules":[' + b",".join(_rules(decided, rows))
        return reply + self._frame.tail

    def _record(self, decided: Decided, mark: RequestMark) -> list[int | None] | None:
        """Count and log the decisions. Returns the rows of the deciding ACLs if they had to be looked up."""
        request, authorization, verdicts = decided.request, decided.authorization, decided.verdicts
        self._metrics.count_verdicts(verdicts)
        rows = decided.rows
        decision_log, frame = self._decision_log, self._frame_of(authorization.image)
        if decision_log is not None and decision_log.wants_next():
            # INVARIANT: the index is still that of the verdicts.
            if rows is None:
                rows = _deciding_rows(authorization, request.actions, verdicts)
            acl_ids = [None if row is None else authorization.acl_id_at(row) for row in rows]
            asker = _asker(request, authorization, mark)
            decision_log.take(DecisionBatch(frame.position, asker, request.actions, verdicts, acl_ids))
        if frame.audit_level <= DEBUG or (frame.audit_level <= INFO and _DENIED in decided.results):
            self._log(decided, rows, mark)
        return rows

    def _log(self, decided: Decided, rows: list[int | None] | None, mark: RequestMark) -> None:
        request, authorization, verdicts = decided.request, decided.authorization, decided.verdicts
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
                context.principal,
                authorization.host,
                request_type,
                mark.request_id,
                mark.trace_id,
                mark.caller,
                context.groups or (),
            )
            self._audit.log(source, entries)


def _decide(authorization: Authorization, actions: list[Action], request: AuthorizeRequest) -> list[Verdict]:
    """An unknown word is refused with all others of the request."""
    decide = authorization.decide
    verdicts = []
    for action in actions:
        operation = OPERATION_CODES.get(action.operation)
        resource_type = RESOURCE_TYPE_CODES.get(action.resource_type)
        pattern_type = action.pattern_type
        if operation is None or resource_type is None or not (pattern_type is UNSET or pattern_type == LITERAL):
            raise refusal_of_actions(request.actions)
        verdicts.append(decide(operation, resource_type, action.resource_name))
    return verdicts


def refusal_of_actions(actions: list[Action]) -> InvalidFieldsException:
    errors = []
    for at, action in enumerate(actions):
        if action.operation not in OPERATION_CODES:
            errors.append(ProblemField(f"/actions/{at}/operation", unknown_word(action.operation, OPERATION_CODES)))
        if action.resource_type not in RESOURCE_TYPE_CODES:
            text = unknown_word(action.resource_type, RESOURCE_TYPE_CODES)
            errors.append(ProblemField(f"/actions/{at}/resource_type", text))
        if action.pattern_type not in (UNSET, LITERAL):
            text = f"only LITERAL resources can be authorized, not `{str(action.pattern_type)[:100]}`; send LITERAL"
            errors.append(ProblemField(f"/actions/{at}/pattern_type", text))
    return InvalidFieldsException(errors)


def _deciding_row(authorization: Authorization, action: Action, verdict: Verdict) -> int | None:
    operation, resource_type = OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[action.resource_type]
    return authorization.deciding_row(verdict, operation, resource_type, action.resource_name)


def _deciding_rows(authorization: Authorization, actions: list[Action], verdicts: list[Verdict]) -> list[int | None]:
    return [_deciding_row(authorization, action, verdict) for action, verdict in zip(actions, verdicts, strict=True)]


def _rules(decided: Decided, rows: list[int | None] | None) -> list[bytes]:
    authorization, verdicts = decided.authorization, decided.verdicts
    if rows is None:
        rows = _deciding_rows(authorization, decided.request.actions, verdicts)
    return [
        _TO_JSON(AppliedRule(verdict.rule_word, None if row is None else UUID(bytes=authorization.acl_id_at(row))))
        for verdict, row in zip(verdicts, rows, strict=True)
    ]


def _asker(request: AuthorizeRequest, authorization: Authorization, mark: RequestMark) -> Asker:
    context = request.context
    return Asker(
        context.principal,
        authorization.host,
        context.listener_name,
        context.security_protocol,
        context.request_type,
        context.request_version,
        context.client_id,
        context.correlation_id,
        mark.caller,
        context.groups or (),
    )


def _audit_entry(level: int, action: Action, verdict: Verdict, acl: StandardAcl | None) -> AuditEntry:
    operation, resource_type = OPERATION_CODES[action.operation], RESOURCE_TYPE_CODES[action.resource_type]
    count = action.resource_reference_count
    return AuditEntry(
        level, operation, resource_type, action.resource_name, 1 if count is UNSET else count, verdict, acl
    )
