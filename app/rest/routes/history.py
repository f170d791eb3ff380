"""history: who changed what, and when."""

from app.core.kafka.filters import AclBindingFilter
from app.core.past import Change, ChangesQuestion, Moment, moment_of
from app.core.records import AccessControlEntryRecord, ConfigRecord
from app.rest.bodies import history as bodies
from app.rest.bodies.fields import Text, given
from app.rest.bodies.writing import to_json, with_list
from app.rest.callers.roles import FOLLOWERS
from app.rest.http.arguments import Body, CurrentContext, CurrentPast
from app.rest.http.edge import Routes
from app.rest.routes.acls import acl_reply, search_filter
from app.runtime.pace import each_paced
from app.runtime.past import HistoryPage

routes = Routes("acls")


@routes.post(
    "/v1/history",
    name="history",
    open_to=FOLLOWERS,
    pool="past",
    reply=bodies.HistoryResponse,
    may_refuse=(409,),
    example=bodies.HISTORY_EXAMPLE,
)
async def history(body: Body[bodies.HistoryRequest], context: CurrentContext, past: CurrentPast) -> bytes:
    """List changes, newest first, in pages; needs DESCRIBE on the cluster.

    Changes of properties are listed only with DESCRIBE_CONFIGS on the cluster.
    """
    wanted = given(body.filter)
    question = ChangesQuestion(
        acl_filter=AclBindingFilter() if wanted is None else search_filter(wanted),
        actor=given(body.actor),
        comment=given(body.comment),
        since=_moment(body.since, "since"),
        until=_moment(body.until, "until"),
        limit=body.limit,
    )
    found = await past.changes(context, question, given(body.cursor))
    changes = await each_paced(found.page.changes, lambda each: to_json(_change(found, each)))
    rest = {
        "shows_configs": found.shows_configs,
        "known_since": {"token": str(found.page.known_since.token), "recorded_at": found.page.known_since.recorded_at},
        "next_cursor": found.next_cursor,
        "token": str(found.page.head),
    }
    return with_list("changes", changes, rest)


def _moment(text: Text, name: str) -> Moment | None:
    said = given(text)
    return None if said is None else moment_of(said, name)


def _change(found: HistoryPage, change: Change) -> bodies.Change:
    record, prior = change.record, change.prior
    word, config, acl, terms = "DELETED", None, None, None
    if isinstance(record, ConfigRecord):
        word = "CONFIGURED"
        config = bodies.AlteredConfig(record.name, record.value, None if prior is None else prior.value)
    else:
        acl = acl_reply(record.acl)
    if isinstance(record, AccessControlEntryRecord):
        word = "CREATED" if prior is None else "CHANGED"
        terms = None if prior is None else bodies.AclTerms(*prior.terms)
    return bodies.Change(
        token=found.token_of(record.offset),
        transaction=found.token_of(record.tx_last),
        recorded_at=record.recorded_at,
        change=word,
        actor=record.actor,
        comment=record.comment,
        acl=acl,
        prior=terms,
        config=config,
    )
