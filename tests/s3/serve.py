"""moto's S3 server, one request at a time, so that its conditional puts are atomic as S3's are. Prints its port."""

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_APP = DomainDispatcherApplication(create_backend_app)
_AT_ONCE = threading.Lock()


def _one_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    with _AT_ONCE:
        return list(_APP(environ, start_response))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, _one_at_a_time, threaded=True)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()
