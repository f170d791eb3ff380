"""Every job on a cluster whose executors lack Klamm and the driver's folders makes what a local run makes."""

import re
from pathlib import Path

from tests.proof.cluster.nights import ENDS, FILES, Company, Undisturbed, all_in_turn, assert_equal
from tests.proof.cluster.standalone import Cluster, driver_environment


def test_all_jobs_on_the_cluster_make_what_they_make_on_one_machine(
    cluster: Cluster, company: Company, undisturbed: Undisturbed
) -> None:
    home = cluster.shared / "there"
    there, *on_cluster = all_in_turn(company, home, cluster.arguments, driver_environment(cluster))

    here, *on_one_machine = undisturbed.said
    assert there == {"klamm": False, "driver_only": not cluster.hides_the_driver}
    assert here == {"klamm": True, "driver_only": True}
    assert [each["status"] for each in on_cluster] == ENDS
    for each, expected in zip(on_cluster, on_one_machine, strict=True):
        assert _without_name(each["said"], "there") == _without_name(expected["said"], "here")
    assert_equal(home, undisturbed.home)
    for kind in FILES:
        file, expected_file = (company.own / f"{name}.{kind}" for name in ("there", "here"))
        assert _without_name(file.read_text(), "there") == _without_name(expected_file.read_text(), "here"), kind


def test_settings_for_small_queries_change_nothing_that_a_job_writes(unharmed: Path, undisturbed: Undisturbed) -> None:
    assert_equal(unharmed, undisturbed.home)


def _without_name(text: str, name: str) -> str:
    """Nor with the time of the export."""
    return re.sub(r"<strong>[\d :-]+ UTC</strong> \(offset", "(offset", text.replace(f"/{name}", "/HOME"))
