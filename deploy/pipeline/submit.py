"""What spark-submit runs: `spark-submit ... submit.py JOB [OPTION ...]`. See docs/pipeline.md, On a cluster."""

import signal
import sys

try:
    from app.pipeline.job import main
except ImportError as fault:
    # Not 1, with which Python would end: that means that a job has found something.
    sys.stderr.write(
        f"submit.py: {fault}; give Klamm to the driver: spark-submit --py-files klamm.zip, which "
        "`klamm pipeline --package klamm.zip` writes\n"
    )
    sys.exit(3)

signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(main(prog="submit.py"))
