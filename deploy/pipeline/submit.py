"""What spark-submit runs: `spark-submit ... submit.py JOB [OPTION ...]`. See docs/pipeline.md, On a cluster."""

import signal
import sys

from app.pipeline.job import main

signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(main(prog="submit.py"))
