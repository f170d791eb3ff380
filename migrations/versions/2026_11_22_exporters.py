"""Who copies the feed elsewhere, and how far each has come: retention keeps what they have not taken yet."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_11_22_exporters"
down_revision: str | None = "2026_11_22_head_and_config_views"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# INVARIANT: whoever may call this can hold up trimming, and nothing else: not even for long, as replicas wait only for
# exporters that were heard of lately.
_TELL = """
CREATE FUNCTION tell_exported(exporter_id uuid, of_epoch uuid, through bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF exporter_id IS NULL OR through IS NULL OR through < 0
        OR NOT EXISTS (SELECT FROM acl_head WHERE epoch = of_epoch AND last_offset >= through) THEN
        RAISE EXCEPTION 'only offsets of the present epoch, up to the head, can have been exported'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    DELETE FROM exporter WHERE told_at < clock_timestamp() - interval '1 year';
    IF (SELECT count(*) FROM exporter WHERE id <> exporter_id) >= 1000 THEN
        RAISE EXCEPTION '1000 exporters are known already; delete those that are no more from the table exporter'
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    INSERT INTO exporter AS known (id, epoch, last_offset, told_at)
    VALUES (exporter_id, of_epoch, through, clock_timestamp())
    ON CONFLICT (id) DO UPDATE
        SET epoch = excluded.epoch, last_offset = excluded.last_offset, told_at = excluded.told_at;
    RETURN true;
END
$function$
"""

# Unqualified names in the function mean this schema, whatever its caller's search_path says.
_PIN = """
DO $pin$
BEGIN
    EXECUTE format(
        'ALTER FUNCTION tell_exported(uuid, uuid, bigint) SET search_path = pg_catalog, %I, pg_temp', current_schema()
    );
END
$pin$
"""

_CLOSE = "REVOKE ALL ON FUNCTION tell_exported(uuid, uuid, bigint) FROM PUBLIC"

_COMMENTS = (
    "COMMENT ON TABLE exporter IS 'Klamm: up to where each export of the feed has come, by the id of its home'",
    """COMMENT ON FUNCTION tell_exported(uuid, uuid, bigint) IS
'Klamm: notes that this exporter has taken the records of this epoch up to this offset'""",
)


def upgrade() -> None:
    """Adds the table and the function; the code before them runs on."""
    op.create_table(
        "exporter",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("epoch", sa.Uuid, nullable=False),
        sa.Column("last_offset", sa.BigInteger, nullable=False),
        sa.Column("told_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exporter")),
    )
    for statement in (_TELL, _PIN, _CLOSE, *_COMMENTS):
        op.execute(statement)


def downgrade() -> None:
    """Back to a feed that waits for nobody."""
    op.execute("DROP FUNCTION tell_exported(uuid, uuid, bigint)")
    op.drop_table("exporter")
