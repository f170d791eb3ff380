"""What the commands of a finding would do."""

import json
import shlex

from app.core.bindings import AclBinding
from app.core.codes import AclOperation, AclPermissionType, PatternType, ResourceType
from tests.images import binding_of

_FLAGS = {"--topic": "TOPIC", "--group": "GROUP", "--transactional-id": "TRANSACTIONAL_ID"}
_FLAGS |= {"--delegation-token": "DELEGATION_TOKEN", "--user-principal": "USER"}


def created_by(line: str) -> AclBinding:
    """What a line of kafka-acls creates."""
    if line.startswith("#"):
        # What kafka-acls can't say comes as the entry of createAcls.
        return binding_of(json.loads(line[line.index("{") :]))
    words = shlex.split(line)
    given = dict(zip(words[4::2], words[5::2], strict=True)) if "--cluster" not in words else {}
    flag = next(each for each in _FLAGS if each in given)
    operation = given["--operation"]
    spelled = "".join(f"_{each}" if each.isupper() else each.upper() for each in operation).lstrip("_")
    return AclBinding(
        ResourceType[_FLAGS[flag]],
        given[flag],
        PatternType[given["--resource-pattern-type"]],
        given["--allow-principal"],
        given["--allow-host"],
        AclOperation[spelled],
        AclPermissionType.ALLOW,
    )
