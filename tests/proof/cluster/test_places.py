"""What executors can't read is said to be that."""

import re
import shutil

import pytest

from tests.proof.cluster.nights import Company, ended, started, steps_of
from tests.proof.cluster.standalone import Cluster, driver_environment


def test_a_folder_that_only_the_driver_can_read_is_named_and_nothing_of_it_is_marked_as_read(
    cluster: Cluster, company: Company
) -> None:
    if not cluster.hides_the_driver:
        pytest.skip("executors with fewer rights than the driver need root, and setpriv")
    home, closed = cluster.shared / "closed", company.own / "log"
    shutil.copytree(company.inputs / "log", closed)
    ingests = [["ingest", "--decisions", str(folder)] for folder in (closed, company.inputs / "log", closed)]
    driver = started(company, home, ingests, cluster.arguments, driver_environment(cluster))
    _, refused, taken, again = ended(driver)
    assert (refused["status"], taken["status"], again["status"]) == (2, 0, 2)
    assert refused["said"] == again["said"] == ""
    assert taken["said"].startswith("1,500 decisions taken in 1 batch")
    steps = steps_of(company, home).read_text()
    # Java does not tell a file in a closed folder from none.
    found = rf"the driver finds `file:(//)?{re.escape(str(closed))}/decisions-\d.jsonl`, but Spark's executors"
    assert len(re.findall(found, steps)) == 2
    assert "Nothing of it was marked as read" in steps
