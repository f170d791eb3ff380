"""What the group roles may do with the store (docs/database.md); granted by `klamm migrate` where they exist.

A database administrator makes the roles (deploy/postgres/roles.sql). Without them only the owner can use the store.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

_log = logging.getLogger(__name__)

# INVARIANT: no UPDATE and no DELETE on acl_record, TRUNCATE on nothing, and the start of the feed moves by
# trim_acl_record alone. UPDATE on a column of acl_head is what lets a writer lock it.
_GRANTS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        (
            "klamm_app",
            "acl_head",
        ): """GRANT SELECT,
            UPDATE (epoch, last_offset, hash, system_identifier, timeline, digest, digest_offset, refused_epoch)
            ON acl_head TO klamm_app""",
        ("klamm_app", "acl_epoch"): "GRANT SELECT ON acl_epoch TO klamm_app",
        ("klamm_app", "acl"): "GRANT SELECT, INSERT, DELETE, UPDATE (expires_at, owner) ON acl TO klamm_app",
        ("klamm_app", "acl_record"): "GRANT SELECT, INSERT ON acl_record TO klamm_app",
        ("klamm_app", "config"): "GRANT SELECT, INSERT, UPDATE, DELETE ON config TO klamm_app",
        ("klamm_app", "code_name"): "GRANT SELECT ON code_name TO klamm_app",
        ("klamm_app", "exporter"): "GRANT SELECT ON exporter TO klamm_app",
        ("klamm_app", "schema"): """DO $$ BEGIN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO klamm_app', current_schema());
        END $$""",
        ("klamm_app", "trim_acl_record"): "GRANT EXECUTE ON FUNCTION trim_acl_record(bigint) TO klamm_app",
        ("klamm_spark", "schema"): """DO $$ BEGIN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO klamm_spark', current_schema());
        END $$""",
        ("klamm_spark", "acl_v1"): "GRANT SELECT ON acl_v1 TO klamm_spark",
        ("klamm_spark", "acl_record_v1"): "GRANT SELECT ON acl_record_v1 TO klamm_spark",
        ("klamm_spark", "acl_head_v1"): "GRANT SELECT ON acl_head_v1 TO klamm_spark",
        ("klamm_spark", "acl_v2"): "GRANT SELECT ON acl_v2 TO klamm_spark",
        ("klamm_spark", "acl_record_v2"): "GRANT SELECT ON acl_record_v2 TO klamm_spark",
        ("klamm_spark", "acl_head_v2"): "GRANT SELECT ON acl_head_v2 TO klamm_spark",
        ("klamm_spark", "acl_epoch_v1"): "GRANT SELECT ON acl_epoch_v1 TO klamm_spark",
        ("klamm_spark", "config_v1"): "GRANT SELECT ON config_v1 TO klamm_spark",
        ("klamm_spark", "tell_exported"): "GRANT EXECUTE ON FUNCTION tell_exported(uuid, uuid, bigint) TO klamm_spark",
    }
)

# Asked before, so that a run with nothing to grant writes nothing (a standby could not), and after.
_LACKING = text(
    """SELECT DISTINCT role, object FROM (
    SELECT role, object, has_table_privilege(role, object, privilege) AS is_held
    FROM (VALUES
        ('klamm_app', 'acl_head', 'SELECT'), ('klamm_app', 'acl_epoch', 'SELECT'),
        ('klamm_app', 'acl', 'SELECT'), ('klamm_app', 'acl', 'INSERT'), ('klamm_app', 'acl', 'DELETE'),
        ('klamm_app', 'acl_record', 'SELECT'), ('klamm_app', 'acl_record', 'INSERT'),
        ('klamm_app', 'config', 'SELECT'), ('klamm_app', 'config', 'INSERT'), ('klamm_app', 'config', 'UPDATE'),
        ('klamm_app', 'config', 'DELETE'), ('klamm_app', 'code_name', 'SELECT'),
        ('klamm_app', 'exporter', 'SELECT'),
        ('klamm_spark', 'acl_v1', 'SELECT'), ('klamm_spark', 'acl_record_v1', 'SELECT'),
        ('klamm_spark', 'acl_head_v1', 'SELECT'), ('klamm_spark', 'config_v1', 'SELECT'),
        ('klamm_spark', 'acl_v2', 'SELECT'), ('klamm_spark', 'acl_record_v2', 'SELECT'),
        ('klamm_spark', 'acl_head_v2', 'SELECT'), ('klamm_spark', 'acl_epoch_v1', 'SELECT')
    ) AS wanted(role, object, privilege) WHERE to_regrole(role) IS NOT NULL
    UNION ALL
    SELECT role, 'acl_head', has_column_privilege(role, 'acl_head', name, 'UPDATE')
    FROM (VALUES ('klamm_app')) AS roles(role),
        unnest(ARRAY[
            'epoch', 'last_offset', 'hash', 'system_identifier', 'timeline', 'digest', 'digest_offset', 'refused_epoch'
        ]) AS name
    WHERE to_regrole(role) IS NOT NULL
    UNION ALL
    SELECT role, 'acl', has_column_privilege(role, 'acl', name, 'UPDATE')
    FROM (VALUES ('klamm_app')) AS roles(role), unnest(ARRAY['expires_at', 'owner']) AS name
    WHERE to_regrole(role) IS NOT NULL
    UNION ALL
    SELECT role, 'schema', has_schema_privilege(role, current_schema(), 'USAGE')
    FROM (VALUES ('klamm_app'), ('klamm_spark')) AS roles(role) WHERE to_regrole(role) IS NOT NULL
    UNION ALL
    SELECT role, 'trim_acl_record', has_function_privilege(role, 'trim_acl_record(bigint)', 'EXECUTE')
    FROM (VALUES ('klamm_app')) AS roles(role) WHERE to_regrole(role) IS NOT NULL
    UNION ALL
    SELECT role, 'tell_exported', has_function_privilege(role, 'tell_exported(uuid, uuid, bigint)', 'EXECUTE')
    FROM (VALUES ('klamm_spark')) AS roles(role) WHERE to_regrole(role) IS NOT NULL
) AS privileges WHERE NOT is_held ORDER BY role, object"""
)

_NOT_OURS_TO_GRANT = ("25006", "42501")  # on a standby; by a role that does not own the object


def grant(connection: Connection) -> None:
    """Gives klamm_app and klamm_spark, if they exist, what they lack. What can't be granted is only logged."""
    for role, name in _lacking(connection):
        try:
            with connection.begin_nested():
                connection.exec_driver_sql(_GRANTS[role, name])
        except DBAPIError as fault:
            if getattr(fault.orig, "sqlstate", None) not in _NOT_OURS_TO_GRANT:
                raise
    # PostgreSQL only warns of a grant that had no effect.
    for role, name in _lacking(connection):
        _log.warning("privileges_not_granted", extra={"role": role, "object": name})


def _lacking(connection: Connection) -> list[tuple[str, str]]:
    return [(row.role, row.object) for row in connection.execute(_LACKING)]
