from random import Random

import pytest
from pyspark.sql import Row, SparkSession

from app.core.kafka.configs import AuthorizerConfig
from app.core.readable import backticked
from app.pipeline.history.schemas import FINDINGS
from app.pipeline.hygiene.findings import mended
from app.pipeline.hygiene.mending import KLAMM
from app.pipeline.hygiene.shadowed import shadowed, with_reading
from tests.images import image_of
from tests.proof.pipeline.covering import makes
from tests.proof.pipeline.random_stores import ENDS, acl_frame, alive, decisions, fields_of, random_acls, with_ends


class Store:
    """A random store, in which half of the ACLs end if the seed is even, and what was found in it."""

    def __init__(self, spark: SparkSession, seed: int) -> None:
        self.acls = random_acls(seed, per_type=10 + 30 * (seed % 3))
        if seed % 2 == 0:
            self.acls = with_ends(seed, self.acls)
        read = with_reading(acl_frame(spark, self.acls)).persist()
        found = mended(shadowed(read), KLAMM)
        assert found.columns == FINDINGS.fieldNames()
        self.findings: list[Row] = found.collect()
        read.unpersist()

    def found(self, kind: str) -> dict[str, str]:
        """The ids of superfluous ACLs, with those of the ACLs that make them so."""
        return {row["acl_id"]: row["by_acl_id"] for row in self.findings if row["kind"] == kind}


@pytest.fixture(scope="module", params=[1, 2])
def store(request: pytest.FixtureRequest, spark: SparkSession) -> Store:
    return Store(spark, request.param)


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_all_of_them_can_go_one_after_the_other_without_a_decision_changing(
    store: Store, *, allow_everyone: bool
) -> None:
    config = AuthorizerConfig(allow_everyone_if_no_acl_found=allow_everyone)
    superfluous = sorted({*store.found("REDUNDANT"), *store.found("VOID")})
    assert len(superfluous) > 20
    by_id = {str(acl.id): acl.binding for acl in store.acls}
    image = image_of(store.acls, config)
    before = decisions(image)
    for seed in (1, 2):
        image = image_of(store.acls, config)
        order = Random(seed).sample(superfluous, len(superfluous))
        for number, acl_id in enumerate(order, 1):
            image.index.remove(by_id[acl_id])
            if number % (len(order) // 4) == 0 or number == len(order):
                assert decisions(image) == before


def test_none_of_them_is_missed_when_others_have_ended(store: Store) -> None:
    superfluous = {*store.found("REDUNDANT"), *store.found("VOID")}
    left = [acl for acl in store.acls if str(acl.id) not in superfluous]
    for at in (*ENDS, None) if any(acl.expires_at for acl in store.acls) else ():
        there, others = (image_of(alive(acls, at), AuthorizerConfig()) for acls in (left, store.acls))
        assert decisions(there) == decisions(others), at


def test_exactly_those_are_found_that_a_comparison_of_each_with_each_finds(store: Store) -> None:
    expected = {
        kind: {str(acl.id) for acl in store.acls if any(makes(kind, by, acl) for by in store.acls)}
        for kind in ("REDUNDANT", "VOID")
    }
    assert set(store.found("VOID")) == expected["VOID"]
    assert set(store.found("REDUNDANT")) == expected["REDUNDANT"] - expected["VOID"]
    assert len(store.findings) == len(expected["REDUNDANT"] | expected["VOID"])


def test_the_acl_that_is_named_covers_the_other_and_stays_itself(store: Store) -> None:
    acls = {str(acl.id): acl for acl in store.acls}
    for kind in ("REDUNDANT", "VOID"):
        for acl_id, by in store.found(kind).items():
            assert makes(kind, acls[by], acls[acl_id])
            assert by not in store.found("REDUNDANT")


def test_a_finding_says_the_acl_the_reason_and_the_command(store: Store) -> None:
    acls = {str(acl.id): acl for acl in store.acls}
    for row in store.findings:
        fields = fields_of(acls[row["acl_id"]])
        assert {name: row[name] for name in fields if name != "id"} == {k: v for k, v in fields.items() if k != "id"}
        by = acls[row["by_acl_id"]].binding
        assert (
            f"{by.permission_type.name} {by.operation.name} on {by.resource_type.name} {by.pattern_type.name}"
            f" {backticked(by.resource_name)} for {backticked(by.principal)} from {backticked(by.host)}"
        ) in row["why"]
        assert len(row["mend"]) == 1
        assert row["mend"][0].startswith(("klamm acls --klamm ", "# not for klamm acls"))
