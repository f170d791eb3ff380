"""Exports go on across epochs: an exporter may be at any offset that is part of the history."""

from collections.abc import Sequence

from alembic import op

revision: str = "2026_11_27_exporters_epochs"
down_revision: str | None = "2026_11_27_epochs"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# INVARIANT: whoever may call this can hold up trimming, and nothing else: not even for long, as replicas wait only for
# exporters that were heard of lately.
_TELL = """
CREATE OR REPLACE FUNCTION tell_exported(exporter_id uuid, of_epoch uuid, through bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    IF exporter_id IS NULL OR through IS NULL OR through < 0
        OR NOT EXISTS (
            SELECT FROM acl_head AS head
            WHERE (head.epoch = of_epoch AND through <= head.last_offset) OR through <= (
                SELECT min(later.first_offset)
                FROM acl_epoch AS own JOIN acl_epoch AS later ON later.number > own.number
                WHERE own.epoch = of_epoch
            )
        ) THEN
        RAISE EXCEPTION 'only offsets of this history can have been exported'
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

_TELL_OF_ONE_EPOCH = """
CREATE OR REPLACE FUNCTION tell_exported(exporter_id uuid, of_epoch uuid, through bigint) RETURNS boolean
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


def upgrade() -> None:
    """Takes more than before: the pipeline of the version before tells what is part of the history as well."""
    op.execute(_TELL)
    op.execute(_PIN)


def downgrade() -> None:
    """Back to offsets of the epoch in force."""
    op.execute(_TELL_OF_ONE_EPOCH)
    op.execute(_PIN)
