"""Measures plain table, postgres_fdw and shardfdw on servers that bench/run has started.

Every figure is taken by one session of psql per measurement, or by pgbench. Targets take turns within
each run; the first run of a query on each target is to warm up and does not count. Answers are compared
between targets: a figure of a wrong answer would be worth nothing.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

SHARDS = 16
COLUMNS = """l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, l_linenumber bigint NOT NULL,
	l_shipdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL"""
TABLES = {"plain": "lineitem_plain", "postgres_fdw": "lineitem_pgfdw", "shardfdw": "lineitem"}
QUERIES = {
    "count(*)": "SELECT count(*) FROM {t}",
    "4 groups: count, sum, avg":
        "SELECT l_shipinstruct, count(*), sum(l_linenumber), avg(l_partkey) FROM {t} GROUP BY l_shipinstruct ORDER BY 1",
    "2.5k groups: count, avg, top 3":
        "SELECT l_shipdate, count(*), avg(l_partkey) FROM {t} GROUP BY l_shipdate ORDER BY 2 DESC, 1 LIMIT 3",
    "10k groups: count, stddev":
        "SELECT l_suppkey, count(*), round(stddev(l_partkey), 6) FROM {t} GROUP BY l_suppkey ORDER BY 1",
    "count(DISTINCT 10k values)": "SELECT count(DISTINCT l_suppkey) FROM {t}",
    "COPY (SELECT *) TO '/dev/null'": "COPY (SELECT * FROM {t}) TO '/dev/null'",
}
# postgres_fdw at its best.
SETTINGS = {
    "plain": "",
    "shardfdw": "",
    "postgres_fdw": "SET enable_partitionwise_aggregate = on; SET enable_partitionwise_join = on;",
}


class Session:
    """One psql, statements one after the other."""

    def __init__(self, bench, port):
        self.psql = subprocess.Popen(
            [bench.bin + "/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", bench.host, "-p", str(port), "-U", "postgres", "-d", "bench"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def run(self, sql):
        """Runs SQL; returns its output as a list of lines. Raises RuntimeError when it fails."""
        self.psql.stdin.write(sql.rstrip().rstrip(";") + ";\n\\echo @@@done\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line == "@@@done\n":
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("failed: " + sql[:200])

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def cpu_s(pid):
    """CPU seconds, user and system, that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, args):
        self.bin, self.host, self.data = args.bin, args.host, args.data
        self.ports = [int(p) for p in args.ports.split()]
        self.figures = {}

    def sql(self, sql, port=None):
        with Session(self, port or self.ports[0]) as session:
            return session.run(sql)

    def on_nodes(self, sql):
        for port in self.ports[1:]:
            self.sql(sql, port)

    def add(self, what, target, value):
        self.figures.setdefault(what, {}).setdefault(target, []).append(value)

    def setup(self):
        self.sql(f"CREATE TABLE lineitem_plain ({COLUMNS}); CREATE TABLE lineitem ({COLUMNS}); CREATE EXTENSION shardfdw; CREATE EXTENSION postgres_fdw")
        for i, port in enumerate(self.ports[1:], 1):
            self.sql(f"SET client_min_messages = warning; SELECT shardfdw.add_node('node{i}', '127.0.0.1', {port})")
            self.sql(f"""CREATE SERVER pgfdw{i} FOREIGN DATA WRAPPER postgres_fdw
                    OPTIONS (host '127.0.0.1', port '{port}', dbname 'bench', async_capable 'true', fetch_size '10000');
                CREATE USER MAPPING FOR CURRENT_USER SERVER pgfdw{i} OPTIONS (user 'postgres')""")
        self.sql(f"SELECT shardfdw.shard_table('lineitem', 'l_orderkey', shards => {SHARDS})")
        self.pgfdw_twin("lineitem", "lineitem_pgfdw", COLUMNS, "l_orderkey")

    def pgfdw_twin(self, table, twin, columns, key):
        """A hash-partitioned table of postgres_fdw over the very shards of a table of shardfdw."""
        self.sql(f"CREATE TABLE {twin} ({columns}) PARTITION BY HASH ({key})")
        shards = self.sql(f"""SELECT c.relname, substr(srvname, 5), pg_get_expr(c.relpartbound, c.oid)
            FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_foreign_table ON ftrelid = c.oid JOIN pg_foreign_server s ON s.oid = ftserver
            WHERE inhparent = '{table}'::regclass""")
        ddl = []
        for row in shards:
            name, node, bound = row.split("|")
            ddl.append(f"CREATE FOREIGN TABLE {twin}_{name} PARTITION OF {twin} {bound} SERVER pgfdw{node} OPTIONS (table_name '{name}')")
        self.sql(";".join(ddl))

    def copy(self, target):
        table = TABLES[target]
        self.sql(f"TRUNCATE {table}")
        for port in self.ports:
            self.sql("CHECKPOINT", port)
        with Session(self, self.ports[0]) as session:
            pid = session.run("SELECT pg_backend_pid()")[0]
            cpu, start = cpu_s(pid), time.perf_counter()
            session.run(f"COPY {table} FROM '{self.data}' (FORMAT csv)")
            elapsed = time.perf_counter() - start
            cpu = cpu_s(pid) - cpu
        return elapsed, cpu

    def measure_copy(self, runs):
        for n in range(runs):
            for target in ("plain", "shardfdw"):
                elapsed, cpu = self.copy(target)
                self.add("COPY, elapsed", target, elapsed)
                self.add("COPY, CPU of the backend", target, cpu)
                print(f"   COPY {n + 1}/{runs} {target}: {elapsed:.2f} s, CPU {cpu:.2f} s", flush=True)

    def fill(self):
        for target in ("plain", "shardfdw"):
            if self.sql(f"SELECT count(*) FROM (SELECT FROM {TABLES[target]} LIMIT 1) x") == ["0"]:
                self.sql(f"COPY {TABLES[target]} FROM '{self.data}' (FORMAT csv)")
        self.sql("VACUUM (ANALYZE) lineitem_plain")
        self.on_nodes("VACUUM (ANALYZE)")
        self.sql("ANALYZE lineitem; ANALYZE lineitem_pgfdw")
        for port in self.ports:
            self.sql("CHECKPOINT", port)

    def measure_queries(self, runs):
        for name, query in QUERIES.items():
            answers = {}
            for n in range(runs + 1):
                for target, table in TABLES.items():
                    with Session(self, self.ports[0]) as session:
                        # Connections to the nodes are open before the clock starts: sessions live long.
                        session.run(f"{SETTINGS[target]} SELECT count(*) FROM {table} WHERE l_orderkey < 0")
                        start = time.perf_counter()
                        lines = session.run(query.format(t=table))
                        elapsed = time.perf_counter() - start
                    answers[target] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
                    if n > 0:
                        self.add(name, target, elapsed)
            if len(set(answers.values())) != 1:
                sys.exit(f"error: the answers of \"{name}\" differ: {answers}")
            print(f"   {name}: " + ", ".join(f"{t} {statistics.median(self.figures[name][t]):.3f} s" for t in TABLES), flush=True)

    def measure_point(self, runs, seconds=5):
        if self.sql("SELECT to_regclass('lineitem_plain_key') IS NULL") == ["t"]:
            self.sql("CREATE INDEX lineitem_plain_key ON lineitem_plain (l_orderkey)")
            self.sql("SELECT * FROM shardfdw.run_on_shards('lineitem', 'CREATE INDEX ON %s (l_orderkey)')")
            self.sql("VACUUM (ANALYZE) lineitem_plain")
            self.on_nodes("VACUUM (ANALYZE)")
        last = self.sql("SELECT max(l_orderkey) FROM lineitem_plain")[0]
        for target, table in TABLES.items():
            with open(f"{self.host}/../point-{target}.sql", "w", encoding="ascii") as f:
                f.write(f"\\set id random(1, {last})\nSELECT * FROM {table} WHERE l_orderkey = :id;\n")
        for n in range(runs + 1):
            for protocol in ("simple", "prepared"):
                for target in TABLES:
                    out = subprocess.run(
                        [self.bin + "/pgbench", "-n", "-c", "4", "-j", "2", "-T", str(seconds if n else 1), "-M", protocol,
                         "-f", f"{self.host}/../point-{target}.sql", "-h", self.host, "-p", str(self.ports[0]), "-U", "postgres", "bench"],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                    tps = re.search(r"tps = ([0-9.]+)", out.stdout)
                    if out.returncode != 0 or not tps:
                        sys.exit("error: pgbench failed: " + out.stderr[-500:])
                    if n > 0:
                        self.add(f"point SELECT, 4 clients, {protocol}, tps", target, float(tps.group(1)))

    def measure_plan(self, runs):
        """Milliseconds to plan a GROUP BY, of one session after the caches are warm."""
        if self.sql("SELECT to_regclass('many') IS NULL") == ["t"]:
            self.sql("CREATE TABLE many (id bigint, g int, v int); SELECT shardfdw.shard_table('many', 'id', shards => 1024)")
            self.sql("CREATE TABLE some (id bigint, g int, v int); SELECT shardfdw.shard_table('some', 'id', shards => 256)")
            self.pgfdw_twin("some", "some_pgfdw", "id bigint, g int, v int", "id")
            self.sql("CREATE TABLE many_plain (id bigint, g int, v int)")
        for target, table, setting in (("plain", "many_plain", ""), ("postgres_fdw", "some_pgfdw", SETTINGS["postgres_fdw"]), ("shardfdw", "many", "")):
            for name, query in (("GROUP BY", "SELECT g, count(*), sum(v) FROM {t} GROUP BY g"),
                                ("self-join", "SELECT count(*) FROM {t} a JOIN {t} b USING (id)")):
                explain = "EXPLAIN (SUMMARY, COSTS OFF) " + query.format(t=table)
                with Session(self, self.ports[0]) as session:
                    session.run(setting + explain)
                    for _ in range(max(runs, 10)):
                        for line in session.run(explain):
                            ms = re.search(r"Planning Time: ([0-9.]+) ms", line)
                            if ms:
                                self.add(f"planning a {name}, ms", target, float(ms.group(1)))

    def environment(self):
        names = ("shared_buffers", "work_mem", "max_wal_size", "max_parallel_workers_per_gather", "fsync", "synchronous_commit", "jit", "autovacuum",
                 "shardfdw.max_connections_per_node", "shardfdw.copy_buffer_size", "shardfdw.commit_protocol")
        with Session(self, self.ports[0]) as session:
            session.run("SELECT count(*) FROM lineitem WHERE false")
            settings = {n: (session.run(f"SELECT current_setting('{n}', true)") or [""])[0] for n in names}
            version = session.run("SELECT version()")[0]
            extension = session.run("SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'")[0]
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            cpu = re.search(r"model name\s*: (.*)", f.read())
        return {"postgresql": version, "shardfdw": extension, "settings": settings, "cpus": os.cpu_count(),
                "cpu": cpu.group(1) if cpu else platform.machine(), "nodes": len(self.ports) - 1, "shards": SHARDS,
                "postgres_fdw": "async_capable, fetch_size 10000; " + SETTINGS["postgres_fdw"]}


def print_report(bench, environment):
    print("\n== settings")
    print(f"   {environment['postgresql']}\n   shardfdw {environment['shardfdw']}; {environment['cpus']} CPUs ({environment['cpu']})")
    print("   " + ", ".join(f"{k} = {v}" for k, v in environment["settings"].items() if v))
    print(f"   {environment['shards']} shards on {environment['nodes']} nodes; postgres_fdw: {environment['postgres_fdw']}")
    print("\n== medians (in brackets: smallest and largest); ratio to the plain table, for tps plain to it")
    print(f"   {'':38}" + "".join(f"{t:>26}" for t in TABLES) + f"{'pgfdw/plain':>14}{'shardfdw/plain':>16}")
    for what, targets in bench.figures.items():
        line = f"   {what:38}"
        median = {t: statistics.median(v) for t, v in targets.items()}
        digits = 0 if what.endswith("tps") else 3
        for target in TABLES:
            values = targets.get(target)
            line += f"{'-':>26}" if not values else f"{f'{median[target]:.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})':>26}"
        for target, width in (("postgres_fdw", 14), ("shardfdw", 16)):
            if target in median and median.get("plain"):
                ratio = median["plain"] / median[target] if what.endswith("tps") else median[target] / median["plain"]
                line += f"{ratio:>{width}.2f}"
            else:
                line += f"{'-':>{width}}"
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "host", "ports", "data", "scale", "only", "json"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--runs", type=int, required=True)
    args = parser.parse_args()
    parts = args.only.split(",")
    bench = Bench(args)

    print("== measuring", flush=True)
    bench.setup()
    if "copy" in parts:
        bench.measure_copy(args.runs)
    if "queries" in parts or "point" in parts:
        bench.fill()
    if "queries" in parts:
        bench.measure_queries(args.runs)
    if "point" in parts:
        bench.measure_point(args.runs)
    if "plan" in parts:
        bench.measure_plan(args.runs)
    environment = bench.environment()
    print_report(bench, environment)
    with open(args.json, "w", encoding="utf-8") as f:
        json.dump({"scale": args.scale, "runs": args.runs, "environment": environment, "figures": bench.figures}, f, indent=1)
    print(f"\n   every figure: {args.json}")


if __name__ == "__main__":
    main()
