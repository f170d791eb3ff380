"""What `GET /` says."""

from collections.abc import Mapping
from typing import TypedDict

_SUMMARY = "Apache Kafka's Authorizer as a REST service: ACLs in PostgreSQL, decisions from memory."
_LINKS = {
    "/docs": "the reference of the API, to read",
    "/openapi.json": "the same for generators of clients",
    "/readyz": "whether it should get requests; `?verbose` says why",
    "/livez": "whether the process answers",
    "/metrics": "its metrics, for Prometheus; for callers with the role observe or admin, where callers are configured",
}
_REFERENCE = ("/docs", "/openapi.json")
_GUIDES = {
    "README.md": "a first hour",
    "docs/operations.md": "how to run it, every setting",
    "docs/clients.md": "clients in Python, Java, Go and TypeScript",
    "docs/callers.md": "who may ask, and how that is proved",
    "docs/acls.md": "klamm acls, for hands that know kafka-acls",
    "docs/why.md": "why a decision is as it is",
    "docs/plan.md": "ACLs as a file: plan and apply",
    "docs/formats.md": "ACLs in the formats of others",
    "docs/kafka-broker.md": "a Kafka broker that asks Klamm",
    "docs/kubernetes.md": "Klamm on Kubernetes",
    "docs/database.md": "the database and its roles",
    "docs/decision-log.md": "the decision log",
    "docs/pipeline.md": "the Spark pipeline",
}


class FirstPage(TypedDict):
    name: str
    version: str
    summary: str
    links: Mapping[str, str]
    guides: Mapping[str, str]


def first_page_fields(version: str, *, has_reference: bool) -> FirstPage:
    """`has_reference`: whether `/docs` and `/openapi.json` are served."""
    links = {path: about for path, about in _LINKS.items() if has_reference or path not in _REFERENCE}
    return {"name": "Klamm", "version": version, "summary": _SUMMARY, "links": links, "guides": _GUIDES}
