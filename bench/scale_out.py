#!/usr/bin/python3
"""scale_out.py - rates of a cluster of several sizes, and what they cost the coordinator; prints a table, writes JSON

Started by scale_out, which has made the servers and given each node its share of a core. Each size
has a database of its own on the coordinator and on its nodes, with so many rows for each node and
four shards on each.

Works, each measured --runs times, the sizes taking turns (1 2 4 8 1 2 4 8 ...):
  copy    COPY of a file, read by the server, into the truncated table without an index; rows a second
  group   count, sum and avg of 1,000 groups over all rows; rows a second
  point   one row by its key; pgbench, prepared; a second
  range   sum over 100 keys, which asks all shards; pgbench, prepared; a second
The straight line is the smallest size's rate times the number of nodes; of range the rate itself, since each
query asks every node. CPU is that of all processes of the coordinator's server, and of all nodes', user and system time
from /proc. A node core of work for each coordinator core says how many whole nodes of a core
one core of the coordinator keeps busy; beyond it, the coordinator is the limit.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

from measure import Session, SqlError, servers_cpu_ms

SHARDS_OF_NODE = 4
NGROUPS = 1000
QUERY = "SELECT grp, count(*), sum(amount), avg(amount) FROM t GROUP BY grp"
SCRIPTS = {
    "point": "\\set id random(1, {rows})\nSELECT amount, note FROM t WHERE id = :id;\n",
    "range": "\\set id random(1, {rows} - 99)\nSELECT sum(amount) FROM t WHERE id BETWEEN :id AND :id + 99;\n",
}
PER_QUERY = {"point", "range"}
UNITS = {"copy": "rows/s", "group": "rows/s", "point": "1/s", "range": "1/s"}
# At the largest size, of the straight line.
LIMITS = {"copy": 0.9, "group": 0.9, "point": 0.8}


class ScaleOut:
    """The databases, and what has been measured in them."""

    def __init__(self, config):
        self.config = config
        self.samples = {}       # (work, size) -> list of {rate, coordinator_us, nodes_us, nodes_busy}
        self.failures = []

    def session(self, size, port=None):
        return Session(self.config, port or self.config.coordinator, ["SET statement_timeout = 0"], f"of_{size}")

    def rows(self, size):
        return self.config.rows * size

    def file(self, size):
        return os.path.join(self.config.work, f"rows.{size}.csv")

    def postmaster(self, name):
        with open(os.path.join(self.config.work, "clusters", name, "postmaster.pid"), encoding="ascii") as file:
            return int(file.readline())

    def make(self, size):
        with Session(self.config, self.config.coordinator) as admin:
            admin.run(f"CREATE DATABASE of_{size}")
        for port in self.config.nodes[:size]:
            with Session(self.config, port) as admin:
                admin.run(f"CREATE DATABASE of_{size}")
        with open(self.file(size), "w", encoding="ascii") as file:
            file.writelines(f"{i},{i * 7919 % NGROUPS},{i * 104729 % 100000},{i:x} is the note of this row\n" for i in range(1, self.rows(size) + 1))
        os.chmod(self.file(size), 0o644)
        with self.session(size) as session:
            session.run("CREATE EXTENSION shardfdw")
        with self.session(size) as session:
            for i, port in enumerate(self.config.nodes[:size]):
                session.run(f"SELECT shardfdw.add_node('node{i + 1}', '127.0.0.{i + 2}', {port})", f"ALTER SERVER node{i + 1} OPTIONS (SET cores '1')")
            session.run("CREATE TABLE t (id bigint NOT NULL, grp integer NOT NULL, amount integer NOT NULL, note text NOT NULL)", "CREATE TABLE empty (LIKE t)")
            for table in ("t", "empty"):
                session.run(f"SELECT shardfdw.shard_table('{table}', 'id', shards => {SHARDS_OF_NODE * size})")
            session.run(f"COPY t FROM '{self.file(size)}' (FORMAT csv)", "ALTER TABLE t ADD PRIMARY KEY (id)")
        for port in self.config.nodes[:size]:
            with self.session(size, port) as node:
                node.run("VACUUM (ANALYZE)", "CHECKPOINT")
        with self.session(size) as session:
            session.run("ANALYZE t")
            self.check(size, "group", session.run(f"SELECT count(*), sum(count), sum(sum) FROM ({QUERY}) AS x")[0],
                       f"{NGROUPS}|{self.rows(size)}|{sum(i * 104729 % 100000 for i in range(1, self.rows(size) + 1))}")

    def check(self, size, work, found, expected):
        if found != expected:
            self.failures.append(f"{work}, {size} nodes: {found} in place of {expected}")

    def record(self, work, size, run):
        """Measures run(), which returns how many units it has done; seconds of it are those that it took."""
        coordinator, nodes = [self.postmaster("coordinator")], [self.postmaster(f"node{i + 1}") for i in range(size)]
        before, start = (servers_cpu_ms(coordinator), servers_cpu_ms(nodes)), time.monotonic()
        units = run()
        elapsed = time.monotonic() - start
        coordinator_ms, nodes_ms = servers_cpu_ms(coordinator) - before[0], servers_cpu_ms(nodes) - before[1]
        self.samples.setdefault((work, size), []).append({
            "rate": units / elapsed, "coordinator_us": coordinator_ms * 1000 / units, "nodes_us": nodes_ms * 1000 / units,
            "nodes_busy": nodes_ms / 1000 / elapsed / size / self.config.share})

    def copy(self, size):
        with self.session(size) as session:
            session.run("TRUNCATE empty")

            def run():
                session.run(f"COPY empty FROM '{self.file(size)}' (FORMAT csv)")
                return self.rows(size)
            self.record("copy", size, run)
            self.check(size, "copy", session.value("SELECT count(*) FROM empty"), str(self.rows(size)))
            session.run("TRUNCATE empty")
        for port in self.config.nodes[:size]:
            with self.session(size, port) as node:
                node.run("CHECKPOINT")

    def group(self, size):
        with self.session(size) as session:
            def run():
                session.run(QUERY)
                return self.rows(size)
            run()
            self.record("group", size, run)

    def pgbench(self, work, size):
        script = os.path.join(self.config.work, "pgbench.sql")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPTS[work].format(rows=self.rows(size)))
        command = [os.path.join(self.config.bin, "pgbench"), "-n", "-M", "prepared", "-c", str(self.config.clients), "-j", "2", "-f", script, "-P", "1",
                   "-T", str(self.config.warm_up + self.config.seconds), "-h", "127.0.0.1", "-p", str(self.config.coordinator), "-U", "postgres", f"of_{size}"]

        # Sessions are started, which is most of what a node does then, before anything counts.
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as pgbench:
            time.sleep(self.config.warm_up)

            def run():
                rates = [(float(seconds), float(rate)) for seconds, rate in re.findall(r"^progress: ([0-9.]+) s, ([0-9.]+) tps", pgbench.stderr.read(), re.MULTILINE)]
                if pgbench.wait() != 0:
                    raise SqlError(f"pgbench failed: {work}, {size} nodes")
                return sum(rate for seconds, rate in rates if seconds > self.config.warm_up)
            self.record(work, size, run)

    def measure(self):
        for work in self.config.works:
            for _ in range(self.config.runs):
                for size in self.config.sizes:
                    if work in PER_QUERY:
                        self.pgbench(work, size)
                    else:
                        getattr(self, work)(size)
            print(f"   {work}: " + ", ".join(f"{self.median(work, size, 'rate'):,.0f}" for size in self.config.sizes), flush=True)

    def median(self, work, size, figure):
        return statistics.median(sample[figure] for sample in self.samples[work, size])

    def line(self, work, size):
        first = self.config.sizes[0]
        return self.median(work, first, "rate") * (1 if work == "range" else size / first)

    def report(self):
        print(f"\n{'work':<8}{'nodes':>6}{'rate':>14}{'of the line':>14}{'nodes busy':>12}{'coordinator':>16}{'nodes':>16}{'node cores for':>18}")
        print(f"{'':<8}{'':>6}{'':>14}{'':>14}{'of share':>12}{'CPU us':>16}{'CPU us':>16}{'a coordinator core':>20}")
        for work in self.config.works:
            for size in self.config.sizes:
                rate, coordinator, nodes = (self.median(work, size, figure) for figure in ("rate", "coordinator_us", "nodes_us"))
                print(f"{work:<8}{size:>6}{rate:>14,.0f}{rate / self.line(work, size):>14.2f}{self.median(work, size, 'nodes_busy'):>12.2f}"
                      f"{coordinator:>16.2f}{nodes:>16.2f}{nodes / coordinator if coordinator else 0:>18.1f}")
        largest = self.config.sizes[-1]
        for work, limit in LIMITS.items():
            if work in self.config.works:
                found = self.median(work, largest, "rate") / self.line(work, largest)
                print(f"{'ok   ' if found >= limit else 'BELOW'} {work}: {found:.2f} of the line at {largest} nodes, limit {limit}")
        for message in self.failures:
            print(f"FAILED {message}")


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="Measures clusters of several sizes; started by bench/scale_out.")
    for option, kind in {"bin": str, "work": str, "coordinator": int, "nodes": numbers, "share": float, "sizes": numbers, "rows": int, "runs": int,
                         "seconds": int, "warm_up": int, "clients": int, "works": lambda text: text.split(","), "json": str}.items():
        parser.add_argument("--" + option.replace("_", "-"), type=kind, required=True)
    config = parser.parse_args()
    config.sizes.sort()
    scale_out = ScaleOut(config)
    print("== making the tables", flush=True)
    for size in config.sizes:
        scale_out.make(size)
    print(f"== measuring ({config.runs} times each, in turn; load average at start {os.getloadavg()[0]:.2f})", flush=True)
    scale_out.measure()
    with scale_out.session(config.sizes[0]) as session:
        version = session.value("SHOW server_version")
    print(f"\nPostgreSQL {version}, {config.rows:,} rows and {SHARDS_OF_NODE} shards for each node, {config.share} of a core each; "
          f"{len(os.sched_getaffinity(0))} cores for everything")
    scale_out.report()
    with open(config.json, "w", encoding="utf-8") as file:
        json.dump({"benchmark": "scale_out", "postgresql": version, "share": config.share, "sizes": config.sizes, "units": UNITS,
                   "works": {work: {figure: [scale_out.median(work, size, figure) for size in config.sizes] for figure in ("rate", "coordinator_us", "nodes_us", "nodes_busy")}
                             for work in config.works},
                   "lines": {work: [scale_out.line(work, size) for size in config.sizes] for work in config.works},
                   "samples": {f"{work} {size}": samples for (work, size), samples in scale_out.samples.items()}, "failures": scale_out.failures}, file, indent=1)
        file.write("\n")
    print(f"numbers: {config.json}")
    return 1 if scale_out.failures else 0


if __name__ == "__main__":
    sys.exit(main())
