"""`klamm pipeline` without the extra, and with a part that can't be loaded."""

import subprocess
import sys


def test_without_the_extra_it_is_said_which_one() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from app.cli.entry_point import main; "
        "sys.exit(main(['pipeline', 'export']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "klamm pipeline: the extra `spark` is not installed; in a clone run `make setup`, or .venv/bin/pip install "
        "-e '.[spark]'\n"
    )


def test_what_can_not_be_loaded_is_no_find_of_a_job() -> None:
    program = (
        "import sys; sys.modules['app.pipeline.spark.storage'] = None; "
        "from app.cli.entry_point import main; sys.exit(main(['pipeline']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert ended.stderr.startswith("klamm pipeline: can't load it (")
    assert len(ended.stderr.splitlines()) == 1
