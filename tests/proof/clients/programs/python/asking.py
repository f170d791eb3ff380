"""A service with the sidecar of examples/sidecar in it: asking.py URL TOPIC..., a line for each topic."""

import sys

from klamm_client.models import Action, AuthorizableRequestContext
from sidecar import Klamm

url, *topics = sys.argv[1:]
klamm = Klamm(url)
alice = AuthorizableRequestContext("User:alice", "127.0.0.1")
for topic in topics:
    try:
        (is_allowed,) = klamm.allowed(alice, Action("READ", "TOPIC", topic))
        sys.stdout.write("ALLOWED\n" if is_allowed else "DENIED\n")
    except PermissionError:
        sys.stdout.write("no decision\n")
