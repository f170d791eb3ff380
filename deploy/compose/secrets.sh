#!/bin/bash
# Makes what deploy/compose.yaml reads from deploy/compose/secrets/: passwords, URLs, tokens. What is there already stays.
# The files can be read by all who can come into the folder, and that is you alone: containers see single files, as a user
# of their own.
set -euo pipefail
umask 022
folder="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

for name in postgres migrate serve; do
    [[ -s $name.password ]] || random > "$name.password"
done
for name in migrate serve; do
    printf 'postgresql://klamm_%s:%s@postgres:5432/klamm?sslmode=disable\n' "$name" "$(cat "$name.password")" > "$name.url"
done

# As `klamm token` makes them (docs/callers.md): the service sees hashes only.
touch klamm.tokens
for caller in gateway platform prometheus; do
    [[ -s $caller.token ]] && continue
    token="klamm_$(random)"
    printf '%s' "$token" > "$caller.token"
    printf '%s sha256:%s\n' "$caller" "$(printf '%s' "$token" | sha256sum | cut -d ' ' -f 1)" >> klamm.tokens
done
echo "$folder"
