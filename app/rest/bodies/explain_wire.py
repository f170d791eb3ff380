"""The body of explain as msgspec structs: the models of `explain_schemas`, field by field (`app.rest.bodies.wire`)."""

import msgspec
from msgspec import UNSET, UnsetType

from app.rest.bodies.wire import Action, Context, check_lengths


class ExplainedCaller(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`explain_schemas.ExplainedCaller`, field by field (a test holds them together)."""

    principal: str
    client_address: str

    def __post_init__(self) -> None:
        check_lengths((("/about/principal", self.principal), ("/about/client_address", self.client_address)))


class ExplainRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """`explain_schemas.ExplainRequest`, field by field."""

    context: Context
    actions: list[Action]
    about: ExplainedCaller | UnsetType | None = UNSET
    at_least: str | UnsetType | None = UNSET
