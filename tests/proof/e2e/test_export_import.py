"""ACLs out of a service and into it again, in every format, by the commands themselves."""

import io
import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.core.kafka.bindings import AclBinding, NewAcl
from app.formats.acl_entries import FormatLimitError
from app.formats.registry import FORMATS, format_named
from tests.acl_sets import bindings_of, plain_binding, random_binding, written
from tests.klamm import LIMIT_S, ROOT, SUPER_USER, Process, acl, context, wait_until
from tests.proof.e2e.history import seven_of
from tests.surroundings import without_ours

NAMES = [each.name for each in FORMATS]


@pytest.fixture(autouse=True)
def _no_acls(service: Process) -> None:
    """Each test begins with an empty store."""
    service.delete({})


def command(*words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """`klamm import` or `klamm export` as an operator runs it, without any of our variables."""
    klamm = str(Path(sys.executable).with_name("klamm"))
    return subprocess.run(
        [klamm, *words], input=given, capture_output=True, cwd=ROOT, env=_clean(), timeout=LIMIT_S, check=False
    )


def _clean() -> dict[str, str]:
    return without_ours()


def access(service: Process, principal: str = SUPER_USER) -> list[str]:
    return ["--klamm", service.url, "--as", principal]


def in_store(service: Process) -> set[AclBinding]:
    return {AclBinding.from_words(seven_of(each)) for each in service.acls()}


def acls_for(name: str) -> list[AclBinding]:
    """ACLs as hard as the format can say."""
    draw = random.Random(name)
    if format_named(name).limits:
        some = [plain_binding(draw) for _ in range(200)]
        return list(dict.fromkeys(each for each in some if can_be_said(each, name)))
    return list(dict.fromkeys(random_binding(draw) for _ in range(150)))


def can_be_said(acl: AclBinding, name: str) -> bool:
    try:
        format_named(name).write([NewAcl(acl)], io.StringIO())
    except FormatLimitError:
        return False
    return True


def create(service: Process, acls: list[AclBinding]) -> str:
    """Puts them into the store; its token."""
    body = json.loads(written(format_named("klamm"), acls))
    token: str = service.create(*body["bindings"])["token"]
    return token


@pytest.mark.parametrize("name", NAMES)
def test_what_is_exported_is_imported_again(name: str, service: Process, tmp_path: Path) -> None:
    acls = acls_for(name)
    token = create(service, acls)
    target = tmp_path / "target"
    done = command("export", *access(service), "--format", name, "--output", str(target))
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.decode() == f"{len(acls)} ACLs as of token {token}\n"

    plan = command("plan", str(target), *access(service), "--prune", "--detailed-exitcode")
    assert (plan.returncode, plan.stderr) == (0, b""), "the store is what its export wants"

    service.delete({})
    done = command("import", "-", *access(service), "--quiet", given=target.read_bytes())
    # Drawn names are odd, and what is probably meant otherwise is said.
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, [line for line in lines if not line.startswith("klamm import: warning: ")]) == (0, [])
    said = dict(re.findall(r"^([a-z ]+): (\S+)$", done.stdout.decode(), re.MULTILINE))
    assert (said["created"], said["already there"]) == (str(len(acls)), "0")
    assert in_store(service) == set(acls)


def test_done_again_both_do_the_same(service: Process, tmp_path: Path) -> None:
    acls = acls_for("csv")
    create(service, acls)
    target = tmp_path / "target"
    assert command("export", *access(service), "--format", "csv", "--output", str(target)).returncode == 0
    assert command("export", *access(service), "--format", "csv").stdout == target.read_bytes()
    again = command("import", str(target), "--format", "csv", *access(service))
    assert again.stdout.startswith(f"created: 0\nalready there: {len(acls)}\n".encode())


def test_denials_are_there_before_what_they_deny(service: Process, tmp_path: Path) -> None:
    """The last binding of the file is the only one that denies, and it is the first in the store."""
    source = tmp_path / "acls.jsonl"
    lines = [acl(f"t{at}", permission_type="DENY" if at == 99 else "ALLOW") for at in range(100)]
    source.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    slow = ["--batch", "1", "--rate", "5"]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "import", str(source), *access(service), *slow],
        cwd=ROOT, env=_clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(lambda: service.acls() != [], "the first is there")
        assert service.acls(resource_name="t99")[0]["permission_type"] == "DENY"
        assert len(service.acls()) < 100
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def test_a_principal_without_the_right_is_told_so(service: Process, tmp_path: Path) -> None:
    source = tmp_path / "acls.jsonl"
    source.write_text(json.dumps(acl("orders")), encoding="utf-8")
    done = command("import", str(source), *access(service, "User:nobody"))
    assert done.returncode == 1
    assert done.stdout == b""
    told = done.stderr.decode().splitlines()[-1]
    assert told.startswith("klamm import: CLUSTER_AUTHORIZATION_FAILED")
    assert "; 0 of the 1 ACLs in " in told
    done = command("export", *access(service, "User:nobody"))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"CLUSTER_AUTHORIZATION_FAILED" in done.stderr
    assert service.acls() == []


def test_a_bad_file_is_told_before_the_service_is_asked(tmp_path: Path) -> None:
    source = tmp_path / "users.yaml"
    source.write_text("apiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata: {name: A}\nspec: {}\n", "utf-8")
    done = command("import", str(source), "--klamm", "http://127.0.0.1:1", "--as", SUPER_USER)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-2:] == [
        "klamm import: nothing was written; fix this first:",
        f"{source}:3: `name`: `A` is not a Kubernetes name",
    ]


def test_nobody_there_is_told_with_how_far_it_came(tmp_path: Path) -> None:
    source = tmp_path / "acls.jsonl"
    source.write_text(json.dumps(acl("orders")), encoding="utf-8")
    done = command("import", str(source), "--klamm", "http://127.0.0.1:1", "--as", SUPER_USER, "--timeout", "2")
    assert done.returncode == 1
    told = done.stderr.decode().splitlines()[-1]
    assert told.startswith("klamm import: can't reach Klamm at `http://127.0.0.1:1`")
    assert told.endswith("once that is fixed, run the same command again to resume")


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_import_that_was_cut_off_is_carried_on(sig: signal.Signals, service: Process, tmp_path: Path) -> None:
    source = tmp_path / "acls.jsonl"
    source.write_text("\n".join(json.dumps(acl(f"t{at:04d}")) for at in range(2_000)), encoding="utf-8")
    slow = ["--batch", "20", "--rate", "400"]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("klamm")), "import", str(source), *access(service), *slow],
        cwd=ROOT, env=_clean(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_until(lambda: service.http.get("/v1/acls/count").json()["acl_count"] >= 40, "some are there")
    process.send_signal(sig)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    found = re.search(rb"klamm import: interrupted; at least ([0-9,]+) of the 2,000 ACLs in ", err)
    assert found is not None, err
    there = len(service.acls())
    assert int(found[1].replace(b",", b"")) <= there < 2_000
    done = command("import", str(source), *access(service))
    assert done.stdout.startswith(f"created: {2_000 - there}\nalready there: {there}\n".encode()), done.stderr
    assert len(service.acls()) == 2_000


def test_filters_choose_what_is_exported(service: Process) -> None:
    service.create(acl("orders", "User:a"), acl("orders-", "User:a", pattern_type="PREFIXED"), acl("orders", "User:b"))

    def exported(*words: str) -> list[tuple[str, str]]:
        done = command("export", *access(service), *words)
        assert done.returncode == 0, done.stderr
        return [(each.resource_name, each.principal) for each in bindings_of(done.stdout)] if done.stdout else []

    assert exported("--principal", "User:b") == [("orders", "User:b")]
    assert exported("--topic", "orders") == [("orders", "User:a"), ("orders", "User:b")]
    assert exported("--topic", "orders-eu", "--resource-pattern-type", "MATCH") == [("orders-", "User:a")]
    assert exported("--group", "orders") == []


def test_exports_are_of_one_offset_while_others_write(service: Process) -> None:
    """A writer always has an even number of ACLs in one step; no export sees an odd one."""
    pairs = [acl(f"p{at:03d}", principal) for at in range(600) for principal in ("User:a", "User:b")]
    service.create(*pairs)
    code = (
        "import sys, time, httpx\n"
        "url, end = sys.argv[1], time.monotonic() + 20\n"
        f"context = {context()!r}\n"
        "at = 0\n"
        "while time.monotonic() < end:\n"
        "    pair = [{'resource_type': 'TOPIC', 'resource_name': f'q{at % 7}', 'principal': each,\n"
        "             'operation': 'READ', 'permission_type': 'ALLOW'} for each in ('User:a', 'User:b')]\n"
        "    httpx.post(url + '/v1/acls', json={'context': context, 'bindings': pair}, timeout=30)\n"
        "    time.sleep(0.2)\n"
        "    httpx.post(url + '/v1/acls/delete', json={'context': context, 'filters': [\n"
        "        {'resource_type': 'TOPIC', 'resource_name': f'q{at % 7}'}]}, timeout=30)\n"
        "    at += 1\n"
        "    time.sleep(0.4)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, service.url], cwd=ROOT, env=_clean())
    try:
        whole = 0
        deadline = time.monotonic() + LIMIT_S
        while whole < 5 and time.monotonic() < deadline:
            done = command("export", *access(service))
            if done.returncode == 1:
                assert b"change faster than they can be listed" in done.stderr
                continue
            assert done.returncode == 0, done.stderr
            assert len(bindings_of(done.stdout)) % 2 == 0
            whole += 1
        assert whole == 5
    finally:
        writer.terminate()
        writer.wait(LIMIT_S)
