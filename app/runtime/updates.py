"""Updates by callers that may make them: validate, write, wait until this process' image shows them (KIP-140)."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from app.core.context import RequestContext
from app.core.kafka.bindings import NewAcl, StandardAcl
from app.core.kafka.codes import AclOperation
from app.core.kafka.configs import validate_config
from app.core.kafka.errors import (
    ApiException,
    AuthorizerNotReadyException,
    InvalidRequestException,
    RequestTimedOutException,
    UnknownServerException,
)
from app.core.kafka.filters import AclBindingFilter
from app.core.kafka.validation import check_comment, validate_filter, validate_new_acl, validate_terms
from app.core.mutations import (
    AlterConfigs,
    AlterConfigsOutcome,
    CreateAcls,
    CreateAclsOutcome,
    CreatedAcl,
    DeleteAcls,
    DeleteAclsOutcome,
    Mutation,
)
from app.core.token import Token
from app.metrics.declared import Metrics
from app.runtime.loader import Loader
from app.runtime.mutator import Mutator
from app.runtime.options import RuntimeOptions
from app.runtime.pace import each_paced
from app.runtime.purgatory import Purgatory
from app.runtime.rights import Rights

T = TypeVar("T")
R = TypeVar("R")

ConfigChange = tuple[str, str | None]  # a property and its new value; None returns it to the start-up value


class Updates:
    """Answers come in request order; an entry that is refused does not hinder its neighbours. ApiExceptions among the
    entries pass through.

    Before any look-up every method raises SecurityDisabledException (not for configs), AuthorizerNotReadyException,
    ClusterAuthorizationException, in this order, and InvalidRequestException for a malformed token or comment. It
    raises StoreUnavailableException or OverloadedException if nothing was written, RequestTimedOutException if that is
    unknown or the update is not visible here in time.
    """

    def __init__(
        self,
        rights: Rights,
        mutator: Mutator,
        loader: Loader,
        purgatory: Purgatory,
        metrics: Metrics,
        options: RuntimeOptions,
    ) -> None:
        self._rights = rights
        self._mutator = mutator
        self._loader = loader
        self._purgatory = purgatory
        self._metrics = metrics
        self._options = options

    async def create_acls(
        self,
        context: RequestContext,
        acls: Sequence[NewAcl | ApiException],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[CreatedAcl | ApiException], Token]:
        """Raises PolicyViolationException for more than 10,000 ACLs that are new or change in one call (KIP-140).

        With `if_unchanged_since` nothing is written unless the store is at that token: raises
        InvalidUpdateVersionException, or TokenEpochMismatchException. The token returned is then the state right after
        this call.
        """
        self._rights.check_cluster_right(context, AclOperation.ALTER)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        checked = await _checked(acls, _acl_refusal)
        valid = _valid(checked)
        if not valid and guard is None:
            return _merged(checked, ()), self._token()
        mutation = CreateAcls(
            valid, context.principal, guard, comment, context.client_address, timeout_s, context.groups
        )
        outcome, token = await self._write(mutation, CreateAclsOutcome, timeout_s, "createAcls")
        return _merged(checked, outcome.results), token

    async def delete_acls(
        self,
        context: RequestContext,
        filters: Sequence[AclBindingFilter | ApiException],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[list[StandardAcl] | ApiException], Token]:
        """Raises InvalidRequestException for more than 10,000 removals in one call."""
        self._rights.check_cluster_right(context, AclOperation.ALTER)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        checked = await _checked(filters, validate_filter)
        valid = _valid(checked)
        if not valid and guard is None:
            return _merged(checked, ()), self._token()
        mutation = DeleteAcls(
            valid, context.principal, guard, comment, context.client_address, timeout_s, context.groups
        )
        outcome, token = await self._write(mutation, DeleteAclsOutcome, timeout_s, "deleteAcls")
        found = (each if isinstance(each, ApiException) else list(each) for each in outcome.matches)
        return _merged(checked, found), token

    async def alter_configs(
        self,
        context: RequestContext,
        changes: Sequence[ConfigChange],
        timeout_s: float | None,
        if_unchanged_since: str | None = None,
        comment: str | None = None,
    ) -> tuple[list[ApiException | None], Token]:
        self._rights.check_loaded()
        self._rights.check_right(context, AclOperation.ALTER_CONFIGS)
        timeout_s, guard = self._timeout(timeout_s), _guard(if_unchanged_since)
        check_comment(comment)
        checked = await _checked(changes, _config_refusal)
        valid = _valid(checked)
        if not valid and guard is None:
            return _merged(checked, ()), self._token()
        mutation = AlterConfigs(
            valid, context.principal, guard, comment, context.client_address, timeout_s, context.groups
        )
        outcome, token = await self._write(mutation, AlterConfigsOutcome, timeout_s)
        return _merged(checked, outcome.refusals or [None] * len(valid)), token

    async def _write(
        self, mutation: Mutation, kind: type[T], timeout_s: float, request: str | None = None
    ) -> tuple[T, Token]:
        """The mutation's outcome once it is visible here; its times are counted under `request`."""
        began_at = self._options.clock.monotonic()
        committed = await self._mutator.submit(mutation, timeout_s)
        committed_at = self._options.clock.monotonic()
        self._loader.nudge()
        try:
            await self._purgatory.wait_for_own(committed.token, max(0.0, began_at + timeout_s - committed_at))
        except TimeoutError:
            raise RequestTimedOutException(
                f"the update was written, as of `{committed.token}`, but is not yet visible here; ask again with "
                "`at_least`"
            ) from None
        if request is not None:
            self._metrics.request_local_time_seconds[request].observe(committed_at - began_at)
            self._metrics.request_remote_time_seconds[request].observe(self._options.clock.monotonic() - committed_at)
        if not isinstance(committed.outcome, kind):
            raise UnknownServerException("the store's answer is for something else; the update was written")
        return committed.outcome, committed.token

    def _timeout(self, timeout_s: float | None) -> float:
        return self._options.request_timeout_s if timeout_s is None else self._options.within(timeout_s)

    def _token(self) -> Token:
        token = self._loader.image.token
        if token is None:
            raise AuthorizerNotReadyException("the ACLs are not loaded yet; try again shortly")
        return token


async def _checked(
    entries: Sequence[T | ApiException], refusal_of: Callable[[T], ApiException | None]
) -> list[T | ApiException]:
    def check(entry: T | ApiException) -> T | ApiException:
        return entry if isinstance(entry, ApiException) else refusal_of(entry) or entry

    return await each_paced(entries, check)


def _acl_refusal(acl: NewAcl) -> ApiException | None:
    return validate_new_acl(acl.binding) or validate_terms(acl)


def _config_refusal(change: ConfigChange) -> ApiException | None:
    try:
        validate_config(*change)
    except InvalidRequestException as refusal:
        return refusal
    return None


def _valid(checked: Sequence[T | ApiException]) -> list[T]:
    return [entry for entry in checked if not isinstance(entry, ApiException)]


def _merged(checked: Sequence[T | ApiException], results: Iterable[R]) -> list[R | ApiException]:
    each = iter(results)
    return [entry if isinstance(entry, ApiException) else next(each) for entry in checked]


def _guard(token: str | None) -> Token | None:
    return None if token is None else Token.parse(token, "if_unchanged_since")
