"""What was there before each record, and indexes by which the past of a principal or a resource is found."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_11_23_the_past"
down_revision: str | None = "2026_11_23_ends"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TEXT = sa.Text(collation="C")

# A writer of the release before leaves `was_there` null: it makes ACLs and never changes one, but it may change a
# property. 200 is HEAD_LENGTH of app.store.tables.
_FILL = (
    """UPDATE acl_record AS r SET was_there = true, prior_expires_at = b.expires_at, prior_owner = b.owner
FROM (
    SELECT "offset", kind, lag(kind) OVER past AS before, lag(expires_at) OVER past AS expires_at,
        lag(owner) OVER past AS owner
    FROM acl_record
    WHERE acl_id IN (SELECT acl_id FROM acl_record WHERE hash_version = 2 AND acl_id IS NOT NULL)
    WINDOW past AS (PARTITION BY acl_id ORDER BY "offset")
) AS b
WHERE b."offset" = r."offset" AND b.kind = 'AccessControlEntryRecord' AND b.before = 'AccessControlEntryRecord'""",
    """UPDATE acl_record AS r SET was_there = b.value IS NOT NULL, prior_value = b.value
FROM (
    SELECT "offset", lag(config_value) OVER past AS value, row_number() OVER past AS at
    FROM acl_record WHERE config_name IS NOT NULL WINDOW past AS (PARTITION BY config_name ORDER BY "offset")
) AS b
WHERE b."offset" = r."offset" AND (b.at > 1 OR (SELECT log_start_offset = 1 FROM acl_head))""",
)


def upgrade() -> None:
    """Adds columns that the code before leaves null, and indexes, which take some seconds a million records."""
    op.add_column("acl_record", sa.Column("was_there", sa.Boolean))
    op.add_column("acl_record", sa.Column("prior_expires_at", sa.DateTime(timezone=True)))
    op.add_column("acl_record", sa.Column("prior_owner", _TEXT))
    op.add_column("acl_record", sa.Column("prior_value", _TEXT))
    for statement in _FILL:
        op.execute(statement)
    head = sa.text("left(resource_name, 200)")
    op.create_index("ix_acl_record_resource", "acl_record", ["resource_type", head, "offset"])
    op.create_index("ix_acl_record_principal", "acl_record", [sa.text("left(principal, 200)"), "offset"])
    op.create_index(
        "ix_acl_record_config",
        "acl_record",
        ["config_name", "offset"],
        postgresql_where=sa.text("config_name IS NOT NULL"),
    )


def downgrade() -> None:
    """Back to records that say only what came, not what was there before."""
    for name in ("config", "principal", "resource"):
        op.drop_index(f"ix_acl_record_{name}", "acl_record")
    for column in ("prior_value", "prior_owner", "prior_expires_at", "was_there"):
        op.drop_column("acl_record", column)
