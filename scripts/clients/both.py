"""both.py - runs a program on a plain database and on one with four nodes, and compares its answers

    both.py NAME COMMAND...

The program gets PGDATABASE, and SHARDED, "yes" or "no". A line "= name: value" is an answer, and both databases must
give the same. An error is no answer. Lines "ok - ..." and "not ok - ..." are counted as they are. NODE_PORTS has the
ports of the nodes.
"""

import os
import subprocess
import sys

from tap import attempt, finish, ok, psql

NAME, COMMAND = sys.argv[1], sys.argv[2:]
PORTS = os.environ["NODE_PORTS"].split()


def database(kind):
    """Makes an empty database, for "sharded" with nodes; databases that an earlier run has left are replaced."""
    name = f"{NAME}_{kind}"
    psql(f"DROP DATABASE IF EXISTS {name}", env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})
    psql(f"CREATE DATABASE {name}")
    environment = {**os.environ, "PGDATABASE": name, "PGOPTIONS": "-c client_min_messages=warning"}
    if kind == "sharded":
        psql("CREATE EXTENSION shardfdw", env=environment)
        for i, port in enumerate(PORTS, 1):
            psql(f"SELECT shardfdw.add_node('node{i}', '127.0.0.1', {port}, '{name}_n{i}', create_database => true)", env=environment)
    return name


def answers(kind):
    """Runs the program; returns its answers by their names, and passes the other lines on."""
    environment = {**os.environ, "PGDATABASE": database(kind), "SHARDED": "yes" if kind == "sharded" else "no"}
    result = subprocess.run(COMMAND, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = {}
    for line in result.stdout.splitlines():
        if line.startswith("= "):
            name, _, value = line[2:].partition(": ")
            found[name] = value
        else:
            print(line if line.startswith(("ok - ", "not ok - ")) else f"# {kind}: {line}", flush=True)
    ok(result.returncode == 0, f"the program ends, {kind}", f"code {result.returncode}")
    return found


def compare():
    plain, sharded = answers("plain"), answers("sharded")
    for name in {**plain, **sharded}:
        wanted, got = plain.get(name, "no answer"), sharded.get(name, "no answer")
        ok(got == wanted and not got.startswith("ERROR"), f"{name}: {wanted[:200]}", f"sharded: {got[:600]}")


attempt("the program", compare)
finish()
