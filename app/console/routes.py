"""All routes of the console."""

from starlette.responses import Response

from app.console import ask, changes, creation, past, state, table, timeline
from app.console.access import access_pages
from app.console.hygiene import hygiene_pages
from app.console.pages import GUARDS, HOME, PageRoute, Pages, assets, refused_page
from app.console.sessions import Seal
from app.console.signing import signing_pages
from app.console.visits import Visit
from app.core.kafka.errors import ResourceNotFoundException
from app.rest.http.edge import Reply, Routes


def console_routes(key: bytes, pipeline_home: str | None = None, *, is_behind_tls: bool = False) -> Routes:
    """`key` is 32 bytes, the same for all workers of a service; `is_behind_tls` as for `Seal`."""
    # Compiled now, as the first refusal is made in the event loop.
    refused_page(None, 500, "")
    seal = Seal(key, is_behind_tls=is_behind_tls)
    routes = Routes("console")
    for pages in (
        _files,
        ask.pages,
        access_pages(pipeline_home),
        table.pages,
        past.pages,
        timeline.pages,
        hygiene_pages(pipeline_home),
        changes.pages,
        creation.pages,
        state.pages,
        signing_pages(seal),
    ):
        routes += [PageRoute(each, seal) for each in pages.declared]
    return routes


_files = Pages()


@_files.get("/static/{digest}/{name}", is_public=True)
async def static(visit: Visit) -> Reply:
    """A file of the package; no other is ever opened."""
    asset = assets().get(visit.scope["path_params"]["name"])
    if asset is None:
        raise ResourceNotFoundException(f"there is no such file under {HOME}/static")
    headers = {**GUARDS, "cache-control": "public, max-age=31536000, immutable"}
    return Response(asset.content, media_type=asset.media_type, headers=headers)
