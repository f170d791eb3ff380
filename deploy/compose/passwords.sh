#!/bin/bash
# Gives the login roles that roles.sql has made their passwords; run by PostgreSQL's image when its volume is new.
set -euo pipefail
for role in migrate serve; do
    # From a file into a variable of psql: a password is no argument that the list of processes would show.
    psql -X --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname klamm <<SQL
\set password \`cat /run/secrets/${role}_password\`
ALTER ROLE klamm_${role} PASSWORD :'password';
SQL
done
