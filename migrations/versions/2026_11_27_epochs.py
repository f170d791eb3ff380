"""The epochs of the store's history, in order; a trigger notes each one, whichever version of Klamm begins it."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "2026_11_27_epochs"
down_revision: str | None = "2026_11_23_the_past"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TEXT = sa.Text(collation="C")

# `written_by` is the transaction that wrote the head's row, as its xmin is: they differ once the row was put back.
# Where it is put back to an epoch that is noted already, those after it are no part of its history.
_NOTE = """
CREATE FUNCTION note_acl_head() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    noted integer := (SELECT number FROM acl_epoch WHERE epoch = NEW.epoch);
BEGIN
    IF TG_OP = 'INSERT' OR (NEW.epoch <> OLD.epoch AND noted IS NOT NULL) THEN
        DELETE FROM acl_epoch WHERE number > noted;
        RETURN NEW;
    END IF;
    NEW.written_by := pg_current_xact_id()::xid::text::bigint;
    IF NEW.epoch <> OLD.epoch THEN
        INSERT INTO acl_epoch (number, epoch, first_offset, began_at, why)
        SELECT coalesce(max(number), 0) + 1, NEW.epoch,
            CASE current_setting('klamm.epoch_diverged', true) WHEN 'true' THEN coalesce(max(first_offset), 0)
                ELSE OLD.last_offset END,
            clock_timestamp(),
            coalesce(nullif(current_setting('klamm.epoch_why', true), ''), 'a writer of an older version began it')
        FROM acl_epoch;
        IF NEW.refused_epoch < NEW.epoch THEN
            NEW.refused_epoch := NULL;
        END IF;
    END IF;
    RETURN NEW;
END
$function$
"""

# Unqualified names in the function mean this schema, whatever its caller's search_path says.
_PIN = """
DO $pin$
BEGIN
    EXECUTE format('ALTER FUNCTION note_acl_head() SET search_path = pg_catalog, %I, pg_temp', current_schema());
END
$pin$
"""

_TRIGGER = """CREATE TRIGGER note_acl_head BEFORE INSERT OR UPDATE ON acl_head
FOR EACH ROW EXECUTE FUNCTION note_acl_head()"""

_FIRST = """INSERT INTO acl_epoch (number, epoch, first_offset, began_at, why)
SELECT 1, epoch, 0, clock_timestamp(), CASE last_offset WHEN 0 THEN 'the store was created'
    ELSE 'the first epoch that was noted; earlier ones are not known' END FROM acl_head"""

_VIEW = "CREATE VIEW acl_epoch_v1 AS SELECT number, epoch, first_offset, began_at, why FROM acl_epoch"

_COMMENTS = (
    "COMMENT ON VIEW acl_epoch_v1 IS 'Klamm: the epochs of this history, in order. Columns of v1 never change.'",
    "COMMENT ON COLUMN acl_epoch_v1.number IS 'Rises from each epoch to the next'",
    "COMMENT ON COLUMN acl_epoch_v1.epoch IS 'As in acl_head_v2; the last one is in force'",
    """COMMENT ON COLUMN acl_epoch_v1.first_offset IS
'The last offset of the epoch before: tokens of that epoch are part of the history up to here'""",
    "COMMENT ON COLUMN acl_epoch_v1.began_at IS 'By the clock of the database'",
    "COMMENT ON COLUMN acl_epoch_v1.why IS 'Why it began, for people'",
    "COMMENT ON FUNCTION note_acl_head() IS 'Klamm: notes each epoch, and who wrote the row of the head'",
)


def upgrade() -> None:
    """Adds the table and the trigger; code of the version before goes on, and its epochs are noted as well."""
    op.create_table(
        "acl_epoch",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Uuid, nullable=False),
        sa.Column("first_offset", sa.BigInteger, nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("why", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_acl_epoch"),
        sa.UniqueConstraint("epoch", name="uq_acl_epoch_epoch"),
    )
    op.add_column("acl_head", sa.Column("written_by", sa.BigInteger))
    op.add_column("acl_head", sa.Column("refused_epoch", sa.Uuid))
    for statement in (_FIRST, _NOTE, _PIN, _TRIGGER, _VIEW, *_COMMENTS):
        op.execute(statement)
    op.execute("REVOKE ALL ON FUNCTION note_acl_head() FROM PUBLIC")


def downgrade() -> None:
    """Back to one epoch: tokens of all earlier ones are refused."""
    op.execute("DROP VIEW acl_epoch_v1")
    op.execute("DROP TRIGGER note_acl_head ON acl_head")
    op.execute("DROP FUNCTION note_acl_head()")
    op.drop_column("acl_head", "refused_epoch")
    op.drop_column("acl_head", "written_by")
    op.drop_table("acl_epoch")
