"""django5.py - a Django project on sharded tables, and on a plain database beside it: migrations before and after sharding, manage.py test, in parallel, and again"""

import os
import re
import subprocess
import sys
import time

from tap import attempt, equal, finish, ok, psql

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "django")


def manage(*arguments, sharded=True):
    """Runs a command of manage.py; returns its exit code, what it prints, and its seconds."""
    began = time.monotonic()
    environment = {**os.environ, "SHARDED": "yes" if sharded else "no"}
    result = subprocess.run([sys.executable, "manage.py", *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr, time.monotonic() - began


def psql_of(database, sql):
    return psql(sql, env={**os.environ, "PGDATABASE": database})


def runs(name, *arguments, sharded=True):
    code, output, seconds = manage(*arguments, sharded=sharded)
    ok(code == 0, f"{name} ({seconds:.1f} s)", output[-1500:])
    return output


def migrations():
    for database in "shop", "shop_plain":
        psql(f"CREATE DATABASE {database}")
    runs("migrate, plain", "migrate", "-v", "0", sharded=False)
    runs("migrate: some tables are there when they are sharded, some columns come later", "migrate", "-v", "0")
    runs("the models are what the migrations have made", "makemigrations", "--check", "-v", "0")
    equal(psql_of("shop", "SELECT string_agg(relation::text || ' ' || strategy, ', ' ORDER BY relation::text) FROM shardfdw.tables"),
          "shop_ad hash, shop_campaign hash, shop_company hash, shop_companytag hash, shop_tag reference", "tables are sharded")


def tests():
    counts = set()
    for round_ in "the first time", "again":
        for arguments in [], ["--parallel", "2"]:
            for sharded in False, True:
                output = runs(f"manage.py test {' '.join(arguments)} {round_}{'' if sharded else ', plain'}", "test", *arguments, sharded=sharded)
                counts.update(re.findall(r"^Ran (\d+) tests", output, re.MULTILINE))
    equal(len(counts), 1, "as many tests on both")
    equal(psql("SELECT count(*) FROM pg_database WHERE datname ~ '^test_shop(_[12])?$'"), "0", "no test database is left")


def remove():
    psql_of("shop", "SELECT shardfdw.drop_node_databases()")
    for database in "shop", "shop_plain":
        psql(f"DROP DATABASE {database}")


attempt("migrations", migrations)
attempt("tests", tests)
attempt("removal", remove)
finish()
