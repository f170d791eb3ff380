"""Strange names, which mean themselves everywhere: in decisions, lists, COPY and logs."""

from tests.klamm import Process, acl, action, context, replica, wait_until
from tests.proof.e2e.questions import answers

STRANGE = [
    "\n", "a\nb", "\r\n", "\t", "a\tb", "\\", "\\.", "\\N", "\\n", "\\\\", "a\\", "\\t\t\\", "'", "''", '"', "`", "$$",
    "%s", "%", "{0}", "${x}", "; DROP TABLE acl; --", "' OR '1'='1", "<b>", "&amp;", "../..", "a/b", "?", "#", ":",
    "::", "a:b:c", ",", "|", " ", " a", "a ", "  ", "\x01", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u200b", "\u2028",
    "\u202e", "\ufeff", "\ufffd", "\uffff", "\U0001f600", "\U0001f469\u200d\U0001f467", "\U0010ffff", "\xe9",
    "e\u0301", "\xdf", "SS", "ss", "\u017f", "\u0130", "i", "\u0131", "K", "\u212a", "\ufb00", "\u65e5\u672c",
    "\u0627\u0628", "null", "NULL", "true", "0", "-1", "1e999", "[]", "{}", "None", "**", "*a", "a*", "?*", "User:*",
    "x" * 200, "x" * 201, "x" * 1_000, "\xe9" * 200, "\U0001f600" * 300, "\\" * 5_000, "\n\t\\" * 10_000,
]  # fmt: skip
"""Line ends, quotes, what COPY escapes, look-alikes, what Unicode would fold or reorder, what indexes cut off."""

NAMES = list(dict.fromkeys(STRANGE))


def one_allowed(n: int) -> list[str]:
    return ["ALLOWED" if m == n else "DENIED" for m in range(len(NAMES))]


def check_strange_names(service: Process) -> None:
    """Each name's reader may read that name and no other; each is found, and nothing is changed in it."""
    for n, name in enumerate(NAMES):
        assert answers(service, f"User:reader of {name}", NAMES) == one_allowed(n), repr(name)
        [found] = service.acls(resource_name=name, principal=f"User:reader of {name}")
        assert (found["resource_name"], found["principal"], found["host"]) == (name, f"User:reader of {name}", "*")
    listed = [acl["resource_name"] for acl in service.acls(operation="READ", resource_type="TOPIC", host="*")]
    ours = [name for name in listed if name in NAMES]
    assert ours == sorted(NAMES)


def test_strange_names_mean_themselves_also_after_a_restart(migrated_database_url: str) -> None:
    """The one replica follows the feed, the other reads them by COPY at its start."""
    with replica(migrated_database_url) as service:
        results = service.ready().create(*[acl(name, f"User:reader of {name}") for name in NAMES])["results"]
        assert [result["created"] for result in results] == [True] * len(NAMES)
        check_strange_names(service)
    with replica(migrated_database_url) as restarted:
        check_strange_names(restarted.ready())
        again = restarted.create(*[acl(name, f"User:reader of {name}") for name in NAMES])["results"]
        assert [(result["id"], result["created"]) for result in again] == [(each["id"], False) for each in results]
        removed = restarted.delete(*[{"resource_name": name} for name in NAMES])["results"]
        assert [[acl["resource_name"] for acl in result["matches"]] for result in removed] == [[name] for name in NAMES]
        assert restarted.acls() == []


def test_strange_hosts_are_kept_and_never_match(service: Process) -> None:
    hosts = [name for name in NAMES if "/" not in name and name != "*"]
    created = service.create(*[acl("host", "User:host", host=host) for host in hosts])["results"]
    assert [result["code"] for result in created] == ["NONE"] * len(hosts)
    assert [acl["host"] for acl in service.acls(principal="User:host")] == sorted(hosts)
    assert answers(service, "User:host", ["host"]) == ["DENIED"]


def test_strange_prefixes_cover_what_begins_with_them(service: Process) -> None:
    prefixes = [name for name in NAMES if len(name) <= 1_000]
    service.create(*[acl(name, f"User:p{n}", pattern_type="PREFIXED") for n, name in enumerate(prefixes)])
    for n, prefix in enumerate(prefixes):
        asked = [prefix, f"{prefix}.more", f"{prefix}\n", prefix[:-1], f".{prefix}"]
        expected = ["ALLOWED" if each.startswith(prefix) else "DENIED" for each in asked]
        assert answers(service, f"User:p{n}", asked) == expected, repr(prefix)


def test_no_name_can_write_a_line_of_its_own_into_a_log(service: Process) -> None:
    forged = "[2026-01-01 00:00:00,000] INFO Principal = User:forged is Allowed"
    for separator in ("\n", "\r", "\r\n", "\x85", "\u2028", "\x0b", "\x0c", "\x1b[2K\r"):
        name = f"x{separator}{forged}"
        asked = context(f"User:x{separator}{forged}", client_id=name, listener_name=name)
        service.post("/v1/authorize", {"context": asked, "actions": [action(name, "WRITE")]})
        service.create(acl(name, f"User:x{separator}{forged}", "", host=name))
        service.http.get("/readyz/" + name.encode().hex("%", 1))
    wait_until(lambda: sum("User:forged" in line for line in service.lines) >= 8, "the audit log is written")
    assert [line for line in service.lines if line.startswith(forged)] == []
    told = "\n".join(service.lines)
    assert "User:forged" in told
    assert not {"\x85", "\u2028", "\x0b", "\x0c", "\x1b"} & set(told)
