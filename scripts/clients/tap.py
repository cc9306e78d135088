"""tap.py - what the Python programs of scripts/clients share: counting, psql, sharded tables"""

import os
import subprocess
import sys
import traceback

DSN = f"host={os.environ['PGHOST']} port={os.environ['PGPORT']} user={os.environ['PGUSER']} dbname={os.environ['PGDATABASE']}"
failures = 0


def ok(condition, name, detail=""):
    """Prints the result of one test."""
    global failures
    if condition:
        print(f"ok - {name}", flush=True)
    else:
        failures += 1
        print(f"not ok - {name}: {detail}", flush=True)


def equal(got, wanted, name):
    ok(got == wanted, name, f"got {got!r}, not {wanted!r}")


def attempt(name, function):
    """Runs a function that makes tests; an exception is a failure and the rest goes on."""
    try:
        function()
    except Exception as error:  # pylint: disable=broad-except
        where = [f"line {frame.lineno}" for frame in traceback.extract_tb(error.__traceback__) if "scripts/clients" in frame.filename or "/clients/" in frame.filename]
        ok(False, name, f"{type(error).__name__}: {' '.join(str(error).split())[:600]} ({', '.join(where)})")


def psql(sql, check=True, **options):
    """Runs SQL in a psql of its own; returns what it prints without the last line end."""
    command = [os.path.join(os.environ["BIN"], "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
    result = subprocess.run(command, input=sql, capture_output=True, text=True, check=False, **options)
    if check and result.returncode != 0:
        raise RuntimeError(" ".join(result.stderr.split()))
    return (result.stdout if check else result.stdout + result.stderr).rstrip("\n")


def finish():
    sys.exit(1 if failures else 0)
