"""What the routes of one replica work with."""

from dataclasses import dataclass

from app.ops.metrics import Metrics
from app.ops.metrics_page import MetricsPage
from app.ops.workers.siblings import Siblings
from app.rest.admission import Admission
from app.rest.callers.authentication import Callers
from app.rest.deciding import Decider
from app.runtime.authorizer import Authorizer


@dataclass(frozen=True, slots=True)
class Services:
    """One set for each application; the edge puts it before every endpoint that asks for it."""

    authorizer: Authorizer
    callers: Callers
    admission: Admission
    metrics: Metrics
    metrics_page: MetricsPage
    decider: Decider
    siblings: Siblings | None = None
    """The other workers of the service; None: this process is all of it."""
