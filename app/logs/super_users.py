"""Warnings of super users that no client can be: Kafka accepts them, and the operator is left without rights."""

import logging
from collections.abc import Iterable

from app.core.doubts import doubts_of_principal

_LOG = logging.getLogger(__name__)


def warn_of_super_users(principals: Iterable[str]) -> None:
    for name in sorted(principals):
        for doubt in doubts_of_principal(name):
            _LOG.warning(
                "super_user_in_doubt", extra={"why": f"{doubt}; separate the principals of super.users with `;`"}
            )
