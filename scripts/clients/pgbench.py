"""pgbench.py - pgbench with its tables sharded: made and loaded by pgbench -i before and after, run, made again"""

import os
import subprocess

from tap import attempt, equal, finish, ok, psql

TABLES = {"pgbench_accounts": "aid", "pgbench_branches": "bid", "pgbench_tellers": "tid", "pgbench_history": "aid"}
SUMS = """SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches)
    AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM pgbench_tellers)
    AND (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history)"""


def pgbench(name, *options):
    result = subprocess.run([os.path.join(os.environ["BIN"], "pgbench"), *options], capture_output=True, text=True, check=False)
    ok(result.returncode == 0 and "ERROR" not in result.stderr and "aborted" not in result.stderr, name, " ".join(result.stderr.split())[-400:])
    return result.stdout


def shard():
    for table, key in TABLES.items():
        psql(f"SELECT shardfdw.shard_table('{table}', '{key}', shards => 4)")
    equal(psql("SELECT count(*) FROM shardfdw.tables WHERE relation::text LIKE 'pgbench%'"), "4", "the four tables are sharded")


def run(name):
    for options in (["-M", "simple"], ["-M", "extended"], ["-M", "prepared"], ["-N", "-M", "prepared"], ["-S", "-M", "simple"], ["-S", "-M", "prepared"]):
        pgbench(f"{name}: pgbench {' '.join(options)}", "-n", "-c", "4", "-j", "2", "-t", "25", *options)
    equal(psql("SELECT count(*) FROM pgbench_history"), "400", f"{name}: history")
    # -N leaves branches and tellers alone.
    equal(psql("SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers)"), "t|t", f"{name}: sums")


def after():
    """Tables loaded by pgbench become sharded ones."""
    pgbench("pgbench -i", "-i", "-s", "2", "-q")
    shard()
    equal(psql("SELECT count(*), sum(aid) FROM pgbench_accounts"), "200000|20000100000", "rows after shard_table")
    run("sharded after loading")


def again():
    """pgbench -i over sharded tables drops them and makes new ones."""
    pgbench("pgbench -i over sharded tables", "-i", "-s", "1", "-q")
    equal(psql("SELECT count(*) FROM shardfdw.tables WHERE relation::text LIKE 'pgbench%'"), "0", "its tables are plain ones again")
    equal(psql("SELECT count(*) FROM pgbench_accounts"), "100000", "and loaded")
    equal(psql("SELECT DISTINCT result FROM shardfdw.run_on_nodes($$SELECT count(*) FROM pg_class WHERE relname LIKE 'pgbench%'$$)"), "0", "nothing of them is left on nodes")


def before():
    """Empty tables made by pgbench become sharded ones, which pgbench then fills."""
    pgbench("pgbench -i -I dt", "-i", "-I", "dt")
    shard()
    pgbench("pgbench -i -I gvp on sharded tables", "-i", "-I", "gvp", "-s", "2", "-q", "--partitions=0")
    equal(psql("SELECT count(*), sum(aid) FROM pgbench_accounts"), "200000|20000100000", "rows that pgbench has loaded")
    equal(psql("SELECT string_agg(conname, ' ' ORDER BY conname) FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text IN ('pgbench_accounts', 'pgbench_branches', 'pgbench_tellers')"),
          "pgbench_accounts_pkey pgbench_branches_pkey pgbench_tellers_pkey", "primary keys that pgbench has added")
    run("loaded after sharding")
    pgbench("pgbench -i -I G (made on the server)", "-i", "-I", "Gv", "-s", "1", "-q")
    equal(psql("SELECT count(*), sum(abalance) FROM pgbench_accounts"), "100000|0", "rows that the server has made")
    equal(psql("SELECT count(*) FROM pgbench_history"), "0", "history is truncated")
    equal(psql(SUMS), "t", "sums of new tables")


def partitioned():
    """pgbench --partitions: its accounts are partitioned already."""
    pgbench("pgbench -i --partitions", "-i", "-s", "1", "-q", "--partitions=3", "--partition-method=hash")
    text = psql("SELECT shardfdw.shard_table('pgbench_accounts', shards => 3)", check=False)
    ok("ERROR" in text and "partition" in text, "shard_table of a table with partitions says what it wants", text)
    psql("DROP TABLE pgbench_accounts_1, pgbench_accounts_2, pgbench_accounts_3; SELECT shardfdw.shard_table('pgbench_accounts', shards => 3)")
    pgbench("pgbench -i -I g into its shards", "-i", "-I", "g", "-s", "1", "-q", "--partitions=3", "--partition-method=hash")
    equal(psql("SELECT count(*), sum(aid) FROM pgbench_accounts"), "100000|5000050000", "rows of the partitioned variant")
    pgbench("pgbench on the partitioned variant", "-n", "-c", "2", "-t", "25")
    equal(psql(SUMS), "t", "sums of the partitioned variant")


for part in (after, again, before, partitioned):
    attempt("pgbench: " + part.__name__, part)
attempt("drop", lambda: psql("DROP TABLE pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"))
finish()
