"""${message}."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision: str = ${repr(up_revision)}
down_revision: str | None = ${repr(down_revision)}
branch_labels: str | Sequence[str] | None = ${repr(branch_labels)}
depends_on: str | Sequence[str] | None = ${repr(depends_on)}


def upgrade() -> None:
    """To this schema. Locks are waited for 4 s and a statement runs 5 s at most, so cut long work in pieces."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Back to the schema before."""
    ${downgrades if downgrades else "pass"}
