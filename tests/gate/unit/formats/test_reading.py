"""Files that are read as one are of one Kafka cluster, whatever their order; what is left out is counted."""

from itertools import permutations

import pytest

from app.formats.acl_entries import Problem
from app.formats.reading import Cluster, FileSet, cluster_named


def results(clusters: list[Cluster], of_cluster: str | None = None) -> tuple[list[bool | Problem], FileSet]:
    """What each of them is told, as the clusters of a file each, in their order."""
    files = FileSet(of_cluster=of_cluster)
    return [files.reading(f"f{at}").takes(each, 7) for at, each in enumerate(clusters)], files


def is_refused(clusters: list[Cluster], of_cluster: str | None = None) -> bool:
    return any(isinstance(each, Problem) for each in results(clusters, of_cluster)[0])


NONE = Cluster()
LIVE, TRY = Cluster("live"), Cluster("try")
NS1, NS2 = Cluster(None, "ns1"), Cluster(None, "ns2")
NS1_LIVE, NS2_LIVE, NS1_TRY = Cluster("live", "ns1"), Cluster("live", "ns2"), Cluster("try", "ns1")


def test_the_order_of_files_does_not_decide_whether_they_are_refused(subtests: pytest.Subtests) -> None:
    for clusters, refused in [
        ([LIVE, NONE, TRY], True),
        ([LIVE, NONE, LIVE], False),
        ([NS1, LIVE, NS2_LIVE], True),
        ([NS1, LIVE, NS1_TRY], True),
        ([NS1, LIVE, NS1_LIVE], False),
        ([NS1, NONE, NS2], True),
        ([NS1_LIVE, NONE, NS2_LIVE], True),
        ([NONE, NS1, LIVE], False),
        ([NONE, NONE], False),
    ]:
        for some in permutations(clusters):
            with subtests.test(clusters=list(map(str, some))):
                assert is_refused(list(some)) is refused


def test_a_second_cluster_is_told_with_both_names_and_the_place_of_the_first() -> None:
    told, files = results([NS1, LIVE, NS2_LIVE])
    assert told[:2] == [True, True]
    assert told[2] == (
        "it is of the cluster `ns2/live`, but f0:7 is of `ns1/`; read those of one cluster: --of-cluster ns1/"
    )
    assert not files.other_clusters()


def test_one_cluster_is_read_and_what_is_of_others_is_counted() -> None:
    told, files = results([NS1_LIVE, TRY, NS2_LIVE, NS1_TRY, NS1_LIVE], "ns1/live")
    assert told == [True, False, False, False, True]
    assert files.other_clusters() == {"try": 1, "ns2/live": 1, "ns1/try": 1}


def test_what_may_be_of_another_cluster_than_the_wanted_one_is_refused(subtests: pytest.Subtests) -> None:
    for of_cluster, cluster, said in [
        ("live", NONE, "cluster"),
        ("live", NS1, "cluster"),
        ("ns1/live", NONE, "cluster"),
        ("ns1/live", NS1, "cluster"),
        ("ns1/live", LIVE, "namespace"),
        ("ns1/", LIVE, "namespace"),
    ]:
        with subtests.test(of_cluster=of_cluster, cluster=str(cluster)):
            (told,), _ = results([cluster], of_cluster)
            assert told == f"it does not say its {said}, so it may not be of `{of_cluster}`; leave out --of-cluster"


def test_what_is_surely_of_another_cluster_is_left_out_though_it_does_not_say_all(subtests: pytest.Subtests) -> None:
    for cluster in [NS2, TRY]:
        with subtests.test(cluster=str(cluster)):
            assert results([cluster], "ns1/live")[0] == [False]


def test_a_wanted_name_that_two_clusters_have_is_refused() -> None:
    for some in permutations([NS1_LIVE, LIVE, NS2_LIVE]):
        assert is_refused(list(some), "live")
    assert is_refused([NS1_LIVE, NS1_TRY], "ns1/")
    assert not is_refused([NS1_LIVE, LIVE, NS1_TRY], "live")


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("live", LIVE),
        ("ns1/live", NS1_LIVE),
        ("ns1/", NS1),
        ("a/b/c", Cluster("c", "a/b")),
    ],
)
def test_a_cluster_is_named_by_its_name_with_or_without_a_namespace(text: str, cluster: Cluster) -> None:
    assert cluster_named(text) == cluster


@pytest.mark.parametrize("text", ["", "/", " ", "/live", " /live", "li\x1bve"])
def test_a_cluster_without_name_and_namespace_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="it names no cluster"):
        cluster_named(text)


def test_a_name_with_a_slash_can_be_wanted() -> None:
    told, files = results([Cluster("mongey/kafka"), Cluster("mongey/other")], "mongey/kafka")
    assert told == [True, False]
    assert files.other_clusters() == {"mongey/other": 1}


def test_a_file_that_is_read_again_is_counted_once() -> None:
    files = FileSet(frozenset({"spec.x", "spec.y"}), "live")
    for _ in range(3):
        reading = files.reading("f")
        assert reading.takes(LIVE, 1) is True
        assert reading.takes(TRY, 2) is False
        assert reading.passes_over(("spec", "x"))
        assert not reading.passes_over(("spec", "z"))
        reading.passed_over["KafkaTopic"] += 2
    assert files.passed_over() == {"spec.x": 1, "KafkaTopic": 2}
    assert files.other_clusters() == {"try": 1}
    assert files.unmet() == ["spec.y"]


def test_a_flag_that_is_suggested_does_nothing_else_in_a_shell() -> None:
    reading = FileSet().reading("a.yaml")
    assert reading.takes(Cluster("$(touch x)"), 1) is True
    problem = reading.takes(Cluster("live"), 2)
    assert str(problem).endswith("read those of one cluster: --of-cluster '$(touch x)'")


def test_one_configuration_in_two_ways_is_told_wherever_it_stands() -> None:
    files = FileSet()
    assert files.other_configuration("kafka", "live", "a:1") is None
    assert files.other_configuration("kafka", "live", "a:1") is None
    assert files.other_configuration("kafka", "live", "b:1") is None
    assert files.other_configuration("kafka", "try", "a:1") == "a:1"
    assert files.other_configuration("kafka.x", None, "a:1") is None
    assert files.other_configuration("kafka.x", None, "a:1") is None
    assert files.other_configuration("kafka.x", None, "b:1") == "a:1"
