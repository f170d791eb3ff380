"""A replica's ports for a service that is followed instead of a database."""

from app.runtime.options import RuntimeOptions
from app.settings.model import Settings
from app.upstream.acl_store import UpstreamAclStore
from app.upstream.change_feed import UpstreamChangeFeed
from app.upstream.connection import Connection, UpstreamOptions
from app.upstream.past import UpstreamPast

_LEAST_BOOKMARK_S = 0.2
_MOST_BOOKMARK_S = 5.0


def followed(settings: Settings, options: RuntimeOptions) -> tuple[UpstreamChangeFeed, UpstreamAclStore, UpstreamPast]:
    connection = Connection(
        UpstreamOptions(
            urls=settings.upstream_urls,
            follower=settings.follower,
            clock=options.clock,
            token_file=settings.upstream_token_file,
            ca_file=settings.upstream_ca_file,
            certificate=settings.upstream_certificate,
            key=settings.upstream_key,
            bookmark_s=min(max(options.poll_s, _LEAST_BOOKMARK_S), _MOST_BOOKMARK_S),
            request_timeout_s=options.request_timeout_s,
        )
    )
    feed = UpstreamChangeFeed(connection)
    return feed, UpstreamAclStore(connection, feed), UpstreamPast(connection)
