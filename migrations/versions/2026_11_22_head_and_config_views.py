"""Where the feed ends and what is configured, published: an exporter asks for the head through a view."""

from collections.abc import Sequence

from alembic import op

revision: str = "2026_11_22_head_and_config_views"
down_revision: str | None = "2026_11_21_trim_acl_record"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_VIEWS = (
    "CREATE VIEW acl_head_v1 AS SELECT cluster_id, epoch, last_offset, hash, log_start_offset FROM acl_head",
    "CREATE VIEW config_v1 AS SELECT name, value, changed_offset FROM config",
)

_COMMENTS = (
    "COMMENT ON VIEW acl_head_v1 IS 'Klamm: which store this is and how far it has come. Columns of v1 never change.'",
    "COMMENT ON COLUMN acl_head_v1.cluster_id IS 'Cluster that the ACLs belong to, fixed at the birth of the store'",
    "COMMENT ON COLUMN acl_head_v1.epoch IS 'UUID of this history; new after a failover or a restored backup'",
    "COMMENT ON COLUMN acl_head_v1.last_offset IS 'Offset of the last record in acl_record_v1; 0 before the first'",
    "COMMENT ON COLUMN acl_head_v1.hash IS 'Hash of the last record; 32 zero bytes before the first'",
    "COMMENT ON COLUMN acl_head_v1.log_start_offset IS 'Offset of the first record that is still kept'",
    "COMMENT ON VIEW config_v1 IS 'Klamm: the stored configuration as of now. Columns of v1 never change.'",
    "COMMENT ON COLUMN config_v1.name IS 'Name of the property'",
    "COMMENT ON COLUMN config_v1.value IS 'What stands over the start-up value'",
    "COMMENT ON COLUMN config_v1.changed_offset IS 'Offset of the record in acl_record_v1 that set the value'",
)


def upgrade() -> None:
    """Adds the views; the code before them runs on."""
    for statement in (*_VIEWS, *_COMMENTS):
        op.execute(statement)


def downgrade() -> None:
    """Back to the views of ACLs and records."""
    op.execute("DROP VIEW config_v1")
    op.execute("DROP VIEW acl_head_v1")
