-- Klamm on a PostgreSQL of your own: database, roles, limits. For psql 15 or newer; see docs/database.md.
--
--     psql -X -v ON_ERROR_STOP=1 -d postgres -f roles.sql
--
-- To be run by a superuser, or by a role with CREATEROLE and CREATEDB (managed services); again at any time, it changes
-- only what is missing. Then give the login roles their passwords (\password klamm_serve) and run `klamm migrate` as
-- klamm_migrate: it makes the tables and grants what the group roles need, also where the tables are there already.
--
-- Other names: psql -v database=acls -v migrate_login=acls_migrate -v serve_login=acls_serve -v spark_login=acls_spark

\if :{?database} \else \set database klamm \endif
\if :{?migrate_login} \else \set migrate_login klamm_migrate \endif
\if :{?serve_login} \else \set serve_login klamm_serve \endif
\if :{?spark_login} \else \set spark_login klamm_report \endif

-- Group roles, the same for every Klamm database of this server: klamm_migrator owns the tables, klamm_app serves,
-- imports and trims, klamm_spark reads the published views and tells how far it has copied the feed.
SELECT format('CREATE ROLE %I NOLOGIN', name)
FROM unnest(ARRAY['klamm_migrator', 'klamm_app', 'klamm_spark']) AS name WHERE to_regrole(name) IS NULL \gexec

-- Login roles. For a second one (to change passwords without an outage) run this again with its name.
SELECT format('CREATE ROLE %I LOGIN', name)
FROM unnest(ARRAY[:'migrate_login', :'serve_login', :'spark_login']) AS name
WHERE to_regrole(quote_ident(name)) IS NULL \gexec

GRANT klamm_migrator TO :"migrate_login";
GRANT klamm_app TO :"serve_login";
GRANT klamm_spark TO :"spark_login";

-- Who is no superuser must be a member of the owner to hand things over to it.
SELECT 'GRANT klamm_migrator TO CURRENT_USER' FROM pg_roles
WHERE rolname = current_user AND NOT rolsuper AND NOT pg_has_role('klamm_migrator', 'USAGE') \gexec

-- Names of ACLs may hold any character, so UTF8 it must be.
SELECT format('CREATE DATABASE %I OWNER klamm_migrator ENCODING ''UTF8'' TEMPLATE template0', :'database')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'database') \gexec

-- To the login roles and not to the groups, so that the login of one Klamm database does not open another.
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database" TO :"migrate_login", :"serve_login", :"spark_login";

-- Whatever a login of the migrator makes belongs to the group.
ALTER ROLE :"migrate_login" IN DATABASE :"database" SET role = 'klamm_migrator';
ALTER ROLE :"migrate_login" IN DATABASE :"database" SET search_path = 'public';
ALTER ROLE :"serve_login" IN DATABASE :"database" SET search_path = 'public';
ALTER ROLE :"spark_login" IN DATABASE :"database" SET search_path = 'public';

-- Klamm sets its own, shorter limits in each of its sessions; these are for whoever else uses the roles.
ALTER ROLE :"migrate_login" SET lock_timeout = '4s';
ALTER ROLE :"migrate_login" SET idle_in_transaction_session_timeout = '1min';
ALTER ROLE :"serve_login" SET statement_timeout = '30s';
ALTER ROLE :"serve_login" SET lock_timeout = '2s';
ALTER ROLE :"serve_login" SET idle_in_transaction_session_timeout = '5s';
ALTER ROLE :"serve_login" SET idle_session_timeout = '10min';
ALTER ROLE :"spark_login" SET default_transaction_read_only = on;
ALTER ROLE :"spark_login" SET statement_timeout = '1h';
ALTER ROLE :"spark_login" SET lock_timeout = '5s';
ALTER ROLE :"spark_login" SET idle_in_transaction_session_timeout = '10min';
ALTER ROLE :"spark_login" SET idle_session_timeout = '1h';

\connect :"database"

-- A store that was served by one role until now: the migrator takes it over.
SELECT format('ALTER DATABASE %I OWNER TO klamm_migrator', datname) FROM pg_database
WHERE datname = current_database() AND datdba <> 'klamm_migrator'::regrole \gexec

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO klamm_app, klamm_spark;
GRANT USAGE, CREATE ON SCHEMA public TO klamm_migrator;

SELECT format('ALTER %s %s OWNER TO klamm_migrator', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'v') AND relowner <> 'klamm_migrator'::regrole
    AND relname IN ('acl_head', 'acl', 'acl_record', 'config', 'code_name', 'alembic_version', 'acl_v1', 'acl_record_v1',
        'acl_head_v1', 'config_v1', 'exporter', 'acl_v2', 'acl_record_v2', 'acl_head_v2',
        'acl_epoch', 'acl_epoch_v1')
\gexec
SELECT format('ALTER FUNCTION %s OWNER TO klamm_migrator', oid::regprocedure) FROM pg_proc
WHERE pronamespace = 'public'::regnamespace AND proname IN ('trim_acl_record', 'tell_exported', 'note_acl_head')
    AND proowner <> 'klamm_migrator'::regrole
\gexec

-- PostgreSQL lets everybody execute a new function.
ALTER DEFAULT PRIVILEGES FOR ROLE klamm_migrator REVOKE ALL ON FUNCTIONS FROM PUBLIC;
