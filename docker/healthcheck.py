"""The web container's health: the site answers and has its database, broker and sandbox.

A missing worker is the worker's own trouble: it must not take the site out of service.
"""

from __future__ import annotations

import http.client
import json
import os
import sys

NEEDED = ("postgres", "broker", "sandbox")


def main() -> int:
    """0 when the site can serve, 1 otherwise."""
    host = os.environ.get("ENVARIUM_ALLOWED_HOSTS", "localhost").split(",")[0].strip().lstrip(".")
    connection = http.client.HTTPConnection("127.0.0.1", 8000, timeout=4)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost" if host == "*" else host})
        found = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"no answer: {error}")
        return 1
    failing = [name for name in NEEDED if not found[name]["ok"]]
    print(", ".join(failing) or "ok")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
