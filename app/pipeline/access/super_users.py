"""Who is a super user: by the store, or by what the service is started with, which no store knows."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.kafka.configs import SUPER_USERS, parse_configs
from app.core.kafka.errors import InvalidRequestException
from app.pipeline.spark.errors import PipelineError


@dataclass(frozen=True, slots=True)
class SuperUsers:
    """Them, where they are from, and what is to be said of it (empty: nothing)."""

    names: frozenset[str]
    named_by: str
    note: str


def super_users(configs: Mapping[str, str], given: frozenset[str] | None) -> SuperUsers:
    """The super users by a store's configuration, which stands over the start-up settings, else those `given`."""
    stored = configs.get(SUPER_USERS)
    if stored is not None:
        ignored = "super.users is stored, which stands over what the service is started with: --super-users is not used"
        return SuperUsers(parse_super_users(stored), SUPER_USERS, ignored if given is not None else "")
    if given is not None:
        return SuperUsers(given, "--super-users", "")
    missing = (
        "no super users are stored; those that the service is started with are in no store and are not shown: name "
        "them by --super-users"
    )
    return SuperUsers(frozenset(), SUPER_USERS, missing)


def parse_super_users(text: str) -> frozenset[str]:
    """The principals of `User:a;User:b`. Raises PipelineError for what is no list of principals."""
    try:
        return parse_configs({SUPER_USERS: text}).super_users
    except InvalidRequestException as fault:
        raise PipelineError(f"{fault.message}; write them as User:alice;User:bob") from None
