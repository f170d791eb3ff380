"""An index on the ends of ACLs, by which writers find what has ended."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_11_23_ends"
down_revision: str | None = "2026_11_23_records_version_2"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Adds an index over the ACLs that end, which are few or none; the code before runs on."""
    op.create_index("ix_acl_expires_at", "acl", ["expires_at"], postgresql_where=sa.text("expires_at IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ix_acl_expires_at", "acl")
