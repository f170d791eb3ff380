"""What `klamm acls --help` says."""

import textwrap

from app.client.acls.options import OPTIONS, Takes
from app.core.kafka.acl_command import operation_word
from app.core.kafka.codes import AclOperation

DESCRIPTION = (
    "Lists, adds and removes ACLs with the options of Kafka's kafka-acls, its rules, its texts and its exit codes; "
    "--klamm names the service in place of --bootstrap-server."
)

_WIDTH = 79
_INDENT = 32
_OPERATIONS = ", ".join(operation_word(each) for each in AclOperation if each.name not in ("UNKNOWN", "ANY"))

_GROUPS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Exactly one of",
        (
            ("list", "", "list the ACLs on the resources; without any resource, all ACLs"),
            ("add", "", "add ACLs"),
            ("remove", "", "remove ACLs; with no principal, every ACL on the resources, whatever else is said"),
        ),
    ),
    (
        "Resources, each as often as needed; a name of '*' stands for all of its kind",
        (
            ("topic", "NAME", "a topic"),
            ("group", "NAME", "a consumer group"),
            ("cluster", "", "the cluster"),
            ("transactional-id", "NAME", "a transactional id"),
            ("delegation-token", "ID", "a delegation token"),
            ("user-principal", "PRINCIPAL", "a user as a resource, for CreateTokens and DescribeTokens"),
            (
                "resource-pattern-type",
                "TYPE",
                (
                    "LITERAL, or PREFIXED for all names that begin so; to list and remove also ANY, for patterns of "
                    "this name of both types, and MATCH, for all patterns that cover this name (LITERAL)"
                ),
            ),
        ),
    ),
    (
        "Entries, each as often as needed",
        (
            ("operation", "OPERATION", f"what is allowed or denied (All); one of {_OPERATIONS}"),
            ("allow-principal", "PRINCIPAL", "who is allowed, such as User:alice; 'User:*' is everybody"),
            ("deny-principal", "PRINCIPAL", "who is denied; a denial goes before all that is allowed"),
            ("allow-host", "HOST", "the address or CIDR range from which it is allowed ('*')"),
            ("deny-host", "HOST", "the address or CIDR range from which it is denied ('*')"),
        ),
    ),
    (
        "For what is usual",
        (
            ("producer", "", "Write, Describe and Create on the topics, Write and Describe on the transactional ids"),
            ("idempotent", "", "with --producer: IdempotentWrite on the cluster"),
            ("consumer", "", "Read and Describe on the topics, Read on the groups"),
        ),
    ),
    (
        "Listing and asking",
        (
            ("principal", "PRINCIPAL", "with --list: of this principal only; as often as needed"),
            ("force", "", "with --remove: do not ask"),
            ("output", "FORM", "json, yaml or csv: the ACLs listed, added or removed, for programs"),
        ),
    ),
    (
        "Service",
        (
            ("klamm", "URL", "http://host:port, https://host:port or unix:/path/to/socket (http://127.0.0.1:8080)"),
            ("as", "PRINCIPAL", "the principal that asks, such as User:admin; its ACLs decide whether it may"),
            (
                "command-config",
                "FILE",
                (
                    "file of key=value lines: principal, token, token.file, ssl.ca.location, "
                    "ssl.certificate.location, ssl.key.location, request.timeout.ms"
                ),
            ),
            ("token-file", "FILE", "file that holds the caller's token and nothing else"),
            ("ca", "FILE", "PEM file of the authorities to trust, instead of the system's"),
            ("timeout", "SECONDS", "how long one call to the service may take in all, repeats included (30)"),
        ),
    ),
    ("Other", (("help", "", "show this"), ("version", "", "show the version"))),
)

_EXAMPLES = """\
Examples:
  klamm acls --as User:admin --list --topic orders
  klamm acls --as User:admin --add --allow-principal User:alice \\
      --producer --topic orders
  klamm acls --as User:admin --remove --allow-principal User:alice \\
      --operation Read --topic orders

Exit codes: 0 done, or the answer was no; 1 refused or failed; 130 Ctrl-C;
141 the reader of a pipe has gone.
"""


def help_text() -> str:
    """All of it; a constant width, so that it can be compared and searched."""
    parts = ["usage: klamm acls (--list | --add | --remove) [OPTIONS]\n", textwrap.fill(DESCRIPTION, _WIDTH) + "\n"]
    for title, options in _GROUPS:
        lines = [_option(name, argument, meaning) for name, argument, meaning in options]
        parts.append("\n".join([f"{title}:", *lines]) + "\n")
    return "\n".join([*parts, _EXAMPLES])


def _option(name: str, argument: str, meaning: str) -> str:
    shown = f"[{argument}]" if OPTIONS[name] is Takes.MAYBE_ARGUMENT else argument
    left = f"  --{name} {shown}".rstrip()
    lines = textwrap.wrap(meaning, _WIDTH - _INDENT)
    begin = f"{left:<{_INDENT}}{lines[0]}" if len(left) < _INDENT - 1 else f"{left}\n{' ' * _INDENT}{lines[0]}"
    return "\n".join([begin, *(f"{' ' * _INDENT}{line}" for line in lines[1:])])
