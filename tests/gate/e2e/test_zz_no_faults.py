"""The last test of the folder: the services answer on after all that they were asked, and have logged no fault."""

from tests.bodies import BODIES
from tests.gate.e2e.conftest import Services
from tests.klamm import Process


def test_the_services_of_this_folder_have_logged_no_fault(service: Process, services: Services) -> None:
    for path, body in BODIES.items():
        service.post(path, body)
    services.note_faults()
    assert services.noted.read_text(encoding="utf-8") == ""
