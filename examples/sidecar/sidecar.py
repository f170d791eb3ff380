# ruff: noqa: INP001 - a program of its own
"""May this principal do that? Asked of the Klamm beside this process: sidecar.py URL PRINCIPAL OPERATION TYPE NAME."""

import random
import sys
import time

import httpx
from klamm_client import Client
from klamm_client.api.decisions import authorize
from klamm_client.models import Action, AuthorizableRequestContext, AuthorizeRequest, AuthorizeResponse, Problem
from klamm_client.models.acl_operation import check_acl_operation
from klamm_client.models.resource_type import check_resource_type


class Klamm:
    """Decisions of one Klamm, none from an older state of the ACLs than one that it has answered from before."""

    def __init__(self, url: str, deadline_s: float = 60.0) -> None:
        self._client = Client(base_url=url, timeout=httpx.Timeout(10.0))
        self._deadline_s = deadline_s
        self._token: str | None = None

    def allowed(self, context: AuthorizableRequestContext, *actions: Action) -> list[bool]:
        """One answer an action. Raises PermissionError if there is no decision in time, ValueError if it is none."""
        deadline = time.monotonic() + self._deadline_s
        pause_s = 0.05
        while True:
            answer = self._asked(AuthorizeRequest(context, list(actions), at_least=self._token))
            if isinstance(answer, AuthorizeResponse):
                self._token = answer.token or self._token
                return [result == "ALLOWED" for result in answer.results]
            if isinstance(answer, Problem) and answer.code == "TOKEN_EPOCH_MISMATCH" and self._token is not None:
                self._token = None  # another store serves now, perhaps a restored one: its offsets begin anew
                continue
            is_unavailable = isinstance(answer, Problem) and answer.retriable  # AUTHORIZER_NOT_READY is
            is_passing = is_unavailable or isinstance(answer, httpx.TransportError)
            if not is_passing or time.monotonic() + pause_s > deadline:
                raise PermissionError(f"no decision: {answer or 'a status that is not one of Klamm'}")
            time.sleep(random.uniform(0.5, 1.0) * pause_s)  # noqa: S311 - spreads load, is no secret
            pause_s = min(2 * pause_s, 2.0)

    def _asked(self, request: AuthorizeRequest) -> AuthorizeResponse | Problem | httpx.TransportError | None:
        try:
            return authorize.sync(client=self._client, body=request)
        except httpx.TransportError as error:  # it is not there yet, or just restarts; to ask twice does no harm
            return error


if __name__ == "__main__":
    try:
        url, principal, operation, resource_type, resource_name = sys.argv[1:]
        action = Action(check_acl_operation(operation), check_resource_type(resource_type), resource_name)
        (is_allowed,) = Klamm(url).allowed(AuthorizableRequestContext(principal, "127.0.0.1"), action)
    except (ValueError, PermissionError) as error:
        sys.stderr.write(f"{error}\nusage: sidecar.py URL PRINCIPAL OPERATION TYPE NAME\n")
        sys.exit(2)
    sys.stdout.write("ALLOWED\n" if is_allowed else "DENIED\n")
    sys.exit(0 if is_allowed else 1)
