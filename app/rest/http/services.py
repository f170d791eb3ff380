"""What the routes of one replica work with."""

from dataclasses import dataclass

from app.metrics.declared import Metrics
from app.metrics.page import MetricsPage
from app.process.ended_sessions import EndedSessions
from app.process.siblings import Siblings
from app.rest.callers.authentication import Callers
from app.rest.deciding import Decider
from app.rest.http.admission import Admission
from app.runtime.authorizer import Authorizer
from app.runtime.past import Past

SERVICES = "klamm.services"
"""The key of the replica's services in each scope."""


@dataclass(frozen=True, slots=True)
class Services:
    """One set for each application; the edge gives it to every endpoint that asks for it."""

    authorizer: Authorizer
    callers: Callers
    admission: Admission
    metrics: Metrics
    metrics_page: MetricsPage
    decider: Decider
    past: Past
    ended_sessions: EndedSessions
    """Those of the console's visitors who have signed out."""
    siblings: Siblings | None = None
    """The other workers of the service; None: there are none."""
