"""Every published fault that Klamm has a regression test for, by its id; `test_ids` finds the tests."""

KAFKA = (
    "CVE-2024-27309",
    "CVE-2018-17196",
    "CVE-2018-1288",
    "CVE-2017-12610",
    "CVE-2021-38153",
    "CVE-2019-12399",
    "CVE-2022-34917",
    "CVE-2023-34455",
    "CVE-2022-23302",
    "CVE-2022-23305",
    "CVE-2022-23307",
    "CVE-2021-4104",
    "KAFKA-14265",
    "KAFKA-7702",
    "KAFKA-13697",
    "KAFKA-13698",
    "KAFKA-14435",
    "KAFKA-14733",
    "KAFKA-13889",
    "KAFKA-14214",
    "KAFKA-13649",
    "KAFKA-10619",
    "PR 13151",
)
OPENFGA = (
    "CVE-2026-34972",
    "CVE-2026-33729",
    "CVE-2026-41131",
    "CVE-2026-48096",
    "CVE-2024-56323",
    "CVE-2025-46331",
    "OpenFGA PR 3155",
    "CVE-2026-55170",
    "CVE-2026-55689",
    "CVE-2026-40293",
    "GHSA-68m9",
    "CVE-2026-24851",
    "CVE-2025-25196",
    "CVE-2025-64751",
    "CVE-2022-39342",
    "CVE-2023-40579",
    "CVE-2025-48371",
    "CVE-2022-23542",
    "CVE-2023-45810",
    "CVE-2023-43645",
    "CVE-2023-35933",
    "OpenFGA PR 2425",
)
SPICEDB = (
    "CVE-2026-55866",
    "CVE-2026-46668",
    "GHSA-vhvq",
    "CVE-2025-65111",
    "CVE-2025-49011",
)
OPA = ("CVE-2025-46569",)

IDS = (*KAFKA, *OPENFGA, *SPICEDB, *OPA)


def slug(fault: str) -> str:
    """How the id stands in a test's name."""
    return fault.lower().replace("-", "_").replace(" ", "_")
