"""What the commands of a finding would do."""

import json
import shlex

from app.client.acls.meaning import acls_to_add
from app.client.acls.options import parse_options
from app.core.kafka.bindings import AclBinding
from tests.images import binding_of


def created_by(line: str) -> AclBinding:
    """What a line of `klamm acls` creates, as `klamm acls` reads it."""
    if line.startswith("#"):
        # What `klamm acls` can't say comes as the entry of createAcls.
        return binding_of(json.loads(line[line.index("{") :]))
    ((pattern, (entry,)),) = acls_to_add(parse_options(shlex.split(line)[2:])).items()
    return pattern.with_entry(entry)
