"""store: how are ACLs kept in PostgreSQL, and how does their change feed leave it?

SQL and nothing but SQL. May import: core. Called by: cli, which hands `PostgresAclStore`, `PostgresChangeFeed`
and `PostgresBulkStore` to runtime as its Protocols `AclStore`, `ChangeFeed` and `BulkStore`, and call `migrate` before.
"""
