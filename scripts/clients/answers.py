"""answers.py - what the Python programs share that both.py runs: each prints answers, to be compared between databases"""

import json
import os

SHARDED = os.environ["SHARDED"] == "yes"
URL = f"{os.environ['PGUSER']}@127.0.0.1:{os.environ['PGPORT']}/{os.environ['PGDATABASE']}"


def error_of(action):
    """Returns the SQLSTATE with which a function fails, or "no error"."""
    try:
        action()
    except Exception as error:  # pylint: disable=broad-except
        return getattr(getattr(error, "orig", error), "sqlstate", None) or f"{type(error).__name__}: {error}"
    return "no error"


def step(name, action):
    """Prints the answer of a function, or its error."""
    try:
        print(f"= {name}: {json.dumps(action(), default=str)}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        print(f"= {name}: ERROR {type(error).__name__} {' '.join(str(error).split())}", flush=True)


def refused(name, wanted, action):
    """On sharded tables only: the function must fail with the SQLSTATE."""
    if SHARDED:
        got = error_of(action)
        print(f"ok - refused: {name}" if got == wanted else f"not ok - refused: {name}: {got}, not {wanted}", flush=True)
