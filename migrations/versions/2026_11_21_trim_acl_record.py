"""The one way by which a role that may delete no record trims the feed: a function with its owner's rights."""

from collections.abc import Sequence

from alembic import op

revision: str = "2026_11_21_trim_acl_record"
down_revision: str | None = "2026_11_21_first_schema"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# INVARIANT: what a caller may do here he may do whoever he is; all that retention promises is checked again, under the
# head's lock. 10,000 is _MOST_TRIMMED of app.store.reading.change_feed.
_TRIM = """
CREATE FUNCTION trim_acl_record(through bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    head record;
    first_end bigint;
    first_kept bigint := through + 1;
BEGIN
    SELECT last_offset, log_start_offset INTO STRICT head FROM acl_head FOR UPDATE;
    IF through IS NULL OR through < head.log_start_offset OR through >= head.last_offset THEN
        RAISE EXCEPTION 'only a beginning of the feed can be trimmed, and never its last transaction'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM acl_record WHERE "offset" = through AND tx_last = through) THEN
        RAISE EXCEPTION 'the feed can be trimmed up to the end of a transaction only'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT tx_last INTO first_end FROM acl_record WHERE "offset" = head.log_start_offset;
    IF first_kept - head.log_start_offset > 10000 AND first_end IS DISTINCT FROM through THEN
        RAISE EXCEPTION 'at most 10000 records, or one transaction, are trimmed at once'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    DELETE FROM acl_record WHERE "offset" <= through;
    UPDATE acl_head SET log_start_offset = first_kept;
    RETURN first_kept - head.log_start_offset;
END
$function$
"""

# Unqualified names in the function mean this schema, whatever its caller's search_path says.
_PIN = """
DO $pin$
BEGIN
    EXECUTE format(
        'ALTER FUNCTION trim_acl_record(bigint) SET search_path = pg_catalog, %I, pg_temp', current_schema()
    );
END
$pin$
"""

_CLOSE = "REVOKE ALL ON FUNCTION trim_acl_record(bigint) FROM PUBLIC"

_COMMENT = """COMMENT ON FUNCTION trim_acl_record(bigint) IS
'Klamm: removes the records of the feed up to this offset, the end of a transaction before the last one'"""


def upgrade() -> None:
    """Adds the function; who trims as the owner of the tables goes on as before."""
    for statement in (_TRIM, _PIN, _CLOSE, _COMMENT):
        op.execute(statement)


def downgrade() -> None:
    """Back to trimming as the owner."""
    op.execute("DROP FUNCTION trim_acl_record(bigint)")
