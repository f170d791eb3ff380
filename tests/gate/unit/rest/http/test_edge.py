"""What no route can be declared as."""

import pytest

from app.core.context import Reader, RequestContext
from app.rest.http.arguments import CurrentContext, CurrentReader
from app.rest.http.edge import Routes


async def _speaks(context: CurrentContext) -> bytes:
    assert isinstance(context, RequestContext)
    return b"{}"


async def _reads(reader: CurrentReader) -> bytes:
    assert isinstance(reader, Reader)
    return b"{}"


@pytest.mark.parametrize("endpoint", [_speaks, _reads])
def test_a_route_that_asks_nobody_who_calls_speaks_for_nobody(endpoint: object) -> None:
    with pytest.raises(TypeError, match="needs a caller"):
        Routes("odd").get("/odd", name="odd", needs_caller=False)(endpoint)  # type: ignore[type-var]
    assert Routes("odd").get("/odd", name="odd")(endpoint) is endpoint  # type: ignore[type-var]
