"""The REST application on a real authorizer whose store is in memory."""

from tests.gate.unit.rest.conftest import clock, metrics, patience, service, shared, unloaded

__all__ = ["clock", "metrics", "patience", "service", "shared", "unloaded"]
