"""What all unit tests of a process share."""

from tests.gate.unit.conftest import _collections_are_few

__all__ = ["_collections_are_few"]
