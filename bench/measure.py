#!/usr/bin/python3
"""measure.py - loads and reads lineitem through each target in turn; prints a table, writes JSON

Started by run, which has made the servers: one coordinator, some nodes, empty databases "bench".

Targets, all reached through the coordinator:
  plain         a table of the coordinator's own server; what the others are compared with
  postgres_fdw  a table partitioned by hash over foreign tables of postgres_fdw
  shardfdw      the same by shardfdw.shard_table
  more_shards   as shardfdw, with four times as many shards; for the queries only

Works, each measured --runs times, the targets taking turns (A B C A B C ...):
  COPY          of the file, read by the server, into the truncated table without indexes, after a
                checkpoint of all servers, in a new session; elapsed, and CPU of the backend that
                runs it. postgres_fdw loads a slice only; its figures are multiplied.
  seven queries after VACUUM (ANALYZE), in one session, after a run that is not counted, whose answer
                is compared between the targets.
  single rows, whole tables written by one statement: see oltp.py
For COPY and queries also the CPU of all servers together, which says how much work was done where
elapsed time depends on how many cores were idle. CPU is user and system time of /proc/<pid>/stat.

A work that fails is reported as such, and the rest goes on. Exit code 1: something failed, or
answers differ.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys

import oltp

COLUMNS = """l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL,
    l_linenumber bigint NOT NULL, l_shipdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL"""

# Title and text; {t} is the target's table. All results are exact whatever the order of the rows.
QUERIES = [
    ("count(*)", "SELECT count(*) FROM {t}"),
    ("4 groups: count, sum, avg",
     "SELECT l_shipinstruct, count(*), sum(l_partkey), avg(l_linenumber) FROM {t} GROUP BY l_shipinstruct"),
    ("2.5k groups: count, avg, top 3",
     "SELECT l_shipdate, count(*), avg(l_partkey) FROM {t} GROUP BY l_shipdate ORDER BY count(*) DESC, l_shipdate LIMIT 3"),
    ("10k groups: count, stddev",
     "SELECT l_suppkey, count(*), stddev(l_partkey) FROM {t} GROUP BY l_suppkey"),
    ("count(DISTINCT 10k values)", "SELECT count(DISTINCT l_suppkey) FROM {t}"),
    ("ORDER BY ... LIMIT 10",
     "SELECT l_receiptdate, l_orderkey, l_linenumber, l_shipinstruct FROM {t} ORDER BY l_receiptdate DESC, l_orderkey, l_linenumber LIMIT 10"),
    ("COPY (SELECT *) TO '/dev/null'", "COPY (SELECT * FROM {t}) TO '/dev/null'"),
]

# What shardfdw may take at most, as a multiple of the plain table's time; and with four times as many
# shards, of its own with the fewer ones.
LIMITS = {
    "count(*)": 0.7, "4 groups: count, sum, avg": 1.05, "2.5k groups: count, avg, top 3": 1.05, "10k groups: count, stddev": 1.45,
    "count(DISTINCT 10k values)": 0.5, "ORDER BY ... LIMIT 10": 1.0, "COPY (SELECT *) TO '/dev/null'": 1.4,
}
MORE_SHARDS_LIMIT = 1.3

# The name of a work's CPU of all servers begins with this.
CPU = "CPU of all: "

# Compared like an answer, once: it stands for the rows that go to /dev/null.
CHECKSUM = """SELECT count(*), sum(hashtextextended(concat_ws('|', l_orderkey, l_partkey, l_suppkey, l_linenumber,
    l_shipdate, l_receiptdate, l_shipinstruct), 0)::numeric) FROM {t}"""


class SqlError(Exception):
    """A statement failed; the text is what psql said."""


class Session:
    """A psql that stays connected, so that consecutive statements run in one backend."""

    END = "=== end of statement ==="

    def __init__(self, config, port, settings=(), database="bench"):
        self.errors = open(os.path.join(config.work, f"psql.errors.{id(self)}"), "w+", encoding="utf-8")
        self.psql = subprocess.Popen([*psql_command(config, port, database), "-A", "-t"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=self.errors, text=True, encoding="utf-8")
        self.run("SET statement_timeout = '10min'", *settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.psql.stdin.close()
        except BrokenPipeError:
            pass
        self.psql.stdout.close()
        self.psql.wait()
        self.errors.close()

    def run(self, *statements):
        """Runs statements, or psql's own commands; returns the lines of their results."""
        lines = []
        try:
            for statement in statements:
                self.psql.stdin.write(statement + ("\n" if statement.startswith("\\") else "\n;\n"))
            self.psql.stdin.write("\\echo " + self.END + "\n")
            self.psql.stdin.flush()
            for line in self.psql.stdout:
                if line.rstrip("\n") == self.END:
                    return lines
                lines.append(line.rstrip("\n"))
        except BrokenPipeError:
            pass
        self.psql.wait()
        self.errors.seek(0)
        raise SqlError(" ".join(self.errors.read().split()) or "psql ended")

    def value(self, statement):
        return self.run(statement)[0]

    def time(self, statement):
        """Runs one statement; returns milliseconds as psql takes them, and the lines of the result."""
        lines = self.run("\\timing on", statement, "\\timing off")
        times = [line for line in lines if line.startswith("Time: ")]
        if len(times) != 1:
            raise SqlError("psql printed no time")
        return float(times[0].split()[1]), [line for line in lines if line != times[0] and line]


def psql_command(config, port, database="bench"):
    return [os.path.join(config.bin, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1",
            "-h", os.path.join(config.work, "sockets"), "-p", str(port), "-U", "postgres", "-d", database]


def read_stat(pid):
    """The pid of a process's parent; ms of CPU of the process; ms of CPU of its children that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rpartition(")")[2].split()
    tick_ms = 1000 / os.sysconf("SC_CLK_TCK")
    return int(fields[1]), (int(fields[11]) + int(fields[12])) * tick_ms, (int(fields[13]) + int(fields[14])) * tick_ms


def cpu_ms(pid):
    return read_stat(pid)[1]


def servers_cpu_ms(postmasters):
    """CPU of servers and all of their backends and workers, ended ones too, in ms."""
    total = 0
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        try:
            parent, own, ended = read_stat(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if pid in postmasters:
            total += own + ended
        elif parent in postmasters:
            total += own
    return total


class Plain:
    """A table of the coordinator's own server."""

    name = "plain"
    table = load_table = "lineitem_plain"
    settings = ()
    queries_only = False

    def create(self, bench):
        bench.coordinator.run(f"CREATE TABLE {self.table} ({COLUMNS})")


class PostgresFdw:
    """Hash partitions by postgres_fdw; COPY takes a slice, into another table of the same kind."""

    name = "postgres_fdw"
    table, load_table = "lineitem_pf", "lineitem_pf_slice"
    queries_only = False
    settings = ("SET enable_partitionwise_aggregate = on", "SET enable_partitionwise_join = on")
    options = "async_capable 'true', fetch_size '10000', batch_size '1000'"

    def create(self, bench):
        bench.coordinator.run("CREATE EXTENSION postgres_fdw")
        for i, port in enumerate(bench.config.nodes):
            bench.coordinator.run(
                f"""CREATE SERVER pf{i} FOREIGN DATA WRAPPER postgres_fdw
                    OPTIONS (host '{bench.node_host}', port '{port}', dbname 'bench', {self.options})""",
                f"CREATE USER MAPPING FOR CURRENT_USER SERVER pf{i} OPTIONS (user 'postgres')")
        for table in (self.table, self.load_table):
            bench.coordinator.run(f"CREATE TABLE {table} ({COLUMNS}) PARTITION BY HASH (l_orderkey)")
            for shard in range(bench.config.shards):
                node = shard % len(bench.nodes)
                bench.nodes[node].run(f"CREATE TABLE {table}_{shard} ({COLUMNS})")
                bench.coordinator.run(
                    f"""CREATE FOREIGN TABLE {table}_{shard} PARTITION OF {table}
                        FOR VALUES WITH (MODULUS {bench.config.shards}, REMAINDER {shard}) SERVER pf{node}""")

    def fill(self, bench):
        """Puts each shard's rows into its table on the node, past the coordinator's foreign tables."""
        for shard in range(bench.config.shards):
            rows = f"""SELECT * FROM lineitem_plain
                WHERE satisfies_hash_partition('{self.table}'::regclass, {bench.config.shards}, {shard}, l_orderkey)"""
            sender = [*psql_command(bench.config, bench.config.coordinator), "-c", f"COPY ({rows}) TO STDOUT"]
            receiver = [*psql_command(bench.config, bench.config.nodes[shard % len(bench.nodes)]),
                        "-c", f"COPY {self.table}_{shard} FROM STDIN"]
            with subprocess.Popen(sender, stdout=subprocess.PIPE) as process:
                subprocess.run(receiver, stdin=process.stdout, check=True)
            if process.returncode != 0:
                raise SqlError("could not read the rows of a shard")


class Shardfdw:
    """Hash partitions by shardfdw."""

    name = "shardfdw"
    table = load_table = "lineitem"
    settings = ()
    queries_only = False
    shards_factor = 1

    def create(self, bench):
        if not bench.coordinator.run("SELECT extname FROM pg_extension WHERE extname = 'shardfdw'"):
            bench.coordinator.run("CREATE EXTENSION shardfdw")
            # The extension's settings for the database begin with the next session.
            bench.reconnect()
            for i, port in enumerate(bench.config.nodes):
                bench.coordinator.run(f"SELECT shardfdw.add_node('node{i + 1}', '{bench.node_host}', {port})")
        shards = bench.config.shards * self.shards_factor
        bench.coordinator.run(f"CREATE TABLE {self.table} ({COLUMNS})",
                              f"SELECT shardfdw.shard_table('{self.table}', 'l_orderkey', shards => {shards})")


class MoreShards(Shardfdw):
    """The same in four times as many shards."""

    name = "more_shards"
    table = load_table = "lineitem_more"
    queries_only = True
    shards_factor = 4

    def fill(self, bench):
        bench.coordinator.run(f"COPY {self.table} FROM '{bench.config.data}' (FORMAT csv)")


class Bench:
    """The sessions, and what has been measured in them."""

    def __init__(self, config):
        self.config = config
        self.node_host = os.path.join(config.work, "sockets") if config.sockets else "127.0.0.1"
        self.coordinator = Session(config, config.coordinator)
        self.nodes = [Session(config, port) for port in config.nodes]
        self.postmasters = set()
        for server in os.listdir(os.path.join(config.work, "clusters")):
            path = os.path.join(config.work, "clusters", server, "postmaster.pid")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    self.postmasters.add(int(file.readline()))
        with open(config.data, "rb") as data:
            self.nrows = sum(block.count(b"\n") for block in iter(lambda: data.read(1 << 20), b""))
        self.targets = [target for target in (Plain(), PostgresFdw(), Shardfdw(), MoreShards())
                        if target.name == "plain" or target.name in config.targets]
        self.works = {}         # work -> unit, in the order of the report
        self.samples = {}       # (work, target's name) -> list of numbers
        self.extrapolated = set()
        self.answers = {}       # query -> {target's name: digest}
        self.plans = {}         # query -> {target's name: lines}
        self.failures = []
        self.failed_works = set()
        self.oltp = oltp.Oltp(self, SqlError)

    def reconnect(self):
        self.coordinator.close()
        self.coordinator = Session(self.config, self.config.coordinator)

    def session(self, target):
        return Session(self.config, self.config.coordinator, target.settings)

    def everywhere(self, statement):
        for session in [self.coordinator, *self.nodes]:
            session.run(statement)

    def time(self, session, statement):
        """Runs a statement; returns ms elapsed, and ms of CPU of all servers."""
        before = servers_cpu_ms(self.postmasters)
        elapsed, _ = session.time(statement)
        return elapsed, servers_cpu_ms(self.postmasters) - before

    def record(self, work, unit, target, number):
        self.works.setdefault(work, unit)
        self.samples.setdefault((work, target.name), []).append(number)

    def failed(self, work, target, error):
        message = f"{work}, {target.name}: {error}"
        print(f"   FAILED {message}", flush=True)
        self.failures.append(message)
        self.failed_works.add((work, target.name))

    # What is measured

    def slice(self):
        """Writes the first rows of the data into a file; returns its path, and how many times the data is larger."""
        path = os.path.join(self.config.work, "slice.csv")
        nrows = min(self.config.slice, self.nrows)
        with open(self.config.data, "rb") as data, open(path, "wb") as part:
            for _ in range(nrows):
                part.write(data.readline())
        return path, self.nrows / nrows

    def copy_once(self, target, path):
        """Runs one COPY; returns ms elapsed, ms of CPU of its backend and of all servers."""
        self.coordinator.run(f"TRUNCATE {target.load_table}")
        self.everywhere("CHECKPOINT")
        with self.session(target) as session:
            pid = session.value("SELECT pg_backend_pid()")
            before = cpu_ms(pid)
            elapsed, servers = self.time(session, f"COPY {target.load_table} FROM '{path}' (FORMAT csv)")
            return elapsed, cpu_ms(pid) - before, servers

    def copy(self):
        """COPY, in turn; the first round warms up the file's pages and WAL segments, and is not counted."""
        part = self.slice()
        works = ("COPY", "COPY, CPU of the backend", CPU + "COPY")
        for work in works:
            self.works[work] = "ms"
            self.extrapolated.add((work, "postgres_fdw"))
        for run in range(self.config.runs + 1 if "copy" in self.config.parts else 1):
            for target in [target for target in self.targets if not target.queries_only]:
                path, factor = part if target.name == "postgres_fdw" else (self.config.data, 1)
                try:
                    figures = self.copy_once(target, path)
                except SqlError as error:
                    self.reconnect()
                    self.failed("COPY", target, error)
                    continue
                print("   COPY, {}: {:.0f} ms, CPU {:.0f} ms, of all servers {:.0f} ms".format(target.name, *figures)
                      + (f" for 1/{factor:.0f} of the rows" if factor != 1 else "") + ("" if run else " (warm-up)"), flush=True)
                if run > 0:
                    for work, figure in zip(works, figures):
                        self.record(work, "ms", target, figure * factor)

    def prepare_reads(self):
        for target in self.targets:
            if hasattr(target, "fill"):
                target.fill(self)
        for session in self.nodes:
            session.run("VACUUM (ANALYZE)")
        for target in self.targets:
            self.coordinator.run(("VACUUM (ANALYZE) " if target.name == "plain" else "ANALYZE ") + target.table)
        self.everywhere("CHECKPOINT")

    def warm_up(self, title, text, target):
        """Runs a query for the first time, keeps its answer and plan; returns the session, or None when it failed."""
        session = None
        try:
            session = self.session(target)
            query = text.format(t=target.table)
            # COPY itself cannot be explained.
            explained = re.sub(r"^COPY \((.*)\) TO .*", r"\1", query)
            self.plans.setdefault(title, {})[target.name] = session.run("EXPLAIN (VERBOSE, COSTS OFF) " + explained)
            _, lines = session.time(query)
        except SqlError as error:
            self.failed(title, target, error)
            if session:
                session.close()
            return None
        digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        answers = self.answers.setdefault(title, {})
        answers[target.name] = digest
        if digest != answers.get("plain"):
            self.failed(title, target, "the answer differs from the plain table's")
        return session

    def queries(self):
        for title, text in [*QUERIES, ("all rows (checksum)", CHECKSUM)]:
            sessions = [(target, self.warm_up(title, text, target)) for target in self.targets]
            for _ in range(self.config.runs if text is not CHECKSUM else 0):
                for target, session in sessions:
                    if session and session.psql.poll() is None:
                        try:
                            elapsed, servers = self.time(session, text.format(t=target.table))
                            self.record(title, "ms", target, elapsed)
                            self.record(CPU + title, "ms", target, servers)
                        except SqlError as error:
                            self.failed(title, target, error)
            for _, session in sessions:
                if session:
                    session.close()
            if text is not CHECKSUM:
                print(f"   {title}: " + ", ".join(
                    f"{target.name} {statistics.median(self.samples[title, target.name]):.0f} ms"
                    for target in self.targets if (title, target.name) in self.samples), flush=True)

    # The report

    def results(self):
        """One record for each work and target."""
        records = []
        for work, unit in self.works.items():
            plain = self.samples.get((work, "plain"))
            for target in self.targets:
                numbers = self.samples.get((work, target.name))
                if numbers:
                    median = statistics.median(numbers)
                    records.append({"work": work, "target": target.name, "unit": unit, "median": median,
                                    "min": min(numbers), "max": max(numbers),
                                    "ratio_to_plain": median / statistics.median(plain) if plain and statistics.median(plain) else None,
                                    "extrapolated": (work, target.name) in self.extrapolated, "samples": numbers})
        return records

    def limits(self):
        """One line for each query and limit: what was measured, and whether it is within the limit."""
        def ratio(title, target, other):
            samples = self.samples.get((title, target)), self.samples.get((title, other))
            return statistics.median(samples[0]) / statistics.median(samples[1]) if all(samples) else None

        lines = []
        for title, limit in LIMITS.items():
            for target, other, most in (("shardfdw", "plain", limit), ("more_shards", "shardfdw", MORE_SHARDS_LIMIT)):
                found = ratio(title, target, other)
                if found is not None:
                    lines.append(f"{'ok   ' if found <= most else 'ABOVE'} {title}: {target} / {other} {found:.2f}, limit {most}")
        return lines + self.oltp.limits(lambda work: ratio(work, "shardfdw", "plain"))

    def environment(self):
        def read(path, pattern):
            with open(path, encoding="utf-8") as file:
                found = re.search(pattern, file.read(), re.MULTILINE)
            return found.group(1).strip() if found else "unknown"

        def settings(session):
            return json.loads(session.value("""SELECT json_object_agg(name, current_setting(name) ORDER BY name) FROM pg_settings
                WHERE name IN ('autovacuum', 'checkpoint_timeout', 'fsync', 'jit', 'max_parallel_workers', 'max_parallel_workers_per_gather',
                    'max_wal_size', 'shared_buffers', 'synchronous_commit', 'wal_level', 'work_mem')"""))

        version = self.coordinator.run("SELECT extversion FROM pg_extension WHERE extname = 'shardfdw'")
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "postgresql": self.coordinator.value("SHOW server_version"), "shardfdw": version[0] if version else None,
            "processor": read("/proc/cpuinfo", r"^model name\s*: (.*)$"), "cores": len(os.sched_getaffinity(0)),
            "memory": read("/proc/meminfo", r"^MemTotal: *(.*)$"), "kernel": platform.release(),
            "rows": self.nrows, "bytes": os.path.getsize(self.config.data), "shards": self.config.shards,
            "nodes": len(self.nodes), "runs": self.config.runs,
            "settings": {"coordinator": settings(self.coordinator), "nodes": settings(self.nodes[0])},
            "session_settings": {target.name: list(target.settings) for target in self.targets},
            "postgres_fdw_options": PostgresFdw.options,
        }

    def report(self, environment, results):
        print(f"\nPostgreSQL {environment['postgresql']}, shardfdw {environment['shardfdw']}; {environment['cores']} cores "
              f"({environment['processor']}), {environment['memory']}\n"
              f"coordinator and {environment['nodes']} nodes on this machine, {environment['shards']} shards; "
              f"{environment['rows']:,} rows, {environment['bytes'] / 1e6:.0f} MB; load average at start {environment['load_average']:.2f}")
        for name, settings in environment["settings"].items():
            print(f"{name}: " + ", ".join(f"{key} = {value}" for key, value in settings.items()))
        print(f"postgres_fdw: {PostgresFdw.options}; " + "; ".join(PostgresFdw.settings))
        print(f"\nmedian of {self.config.runs} (ratio to plain) smallest-largest; * = extrapolated\n")
        print(f"{'':<42}" + "".join(f"{target.name:>42}" for target in self.targets))
        cells = {(record["work"], record["target"]): record for record in results}
        for work, unit in sorted(self.works.items(), key=lambda item: item[0].startswith(CPU)):
            line = f"{work:<42}"
            for target in self.targets:
                cell = cells.get((work, target.name))
                if cell is None:
                    line += f"{'failed' if (work, target.name) in self.failed_works else '-':>42}"
                    continue
                median = f"{cell['median']:,.0f} {unit}" + ("*" if cell["extrapolated"] else "")
                ratio = f"({cell['ratio_to_plain']:.2f})" if cell["ratio_to_plain"] is not None else ""
                line += f"{median:>15} {ratio:>8} {cell['min']:>8,.0f}-{cell['max']:<8,.0f}"
            print(line.rstrip())
        print()
        for line in self.limits():
            print(line)
        print(f"\n{len(self.answers)} answers compared, {len(self.failures)} failures")
        for failure in self.failures:
            print(f"FAILED {failure}")


def main():
    parser = argparse.ArgumentParser(description="Measures lineitem through each target; started by bench/run.")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--coordinator", type=int, required=True)
    parser.add_argument("--nodes", type=lambda text: [int(port) for port in text.split(",")], required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--targets", type=lambda text: text.split(","), required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--slice", type=int, required=True)
    parser.add_argument("--pgbench-seconds", type=int, required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--sockets", action="store_true")
    parser.add_argument("--parts", type=lambda text: text.split(","), required=True)
    load_average = os.getloadavg()[0]
    bench = Bench(parser.parse_args())
    for target in bench.targets:
        target.create(bench)
    bench.copy()
    bench.prepare_reads()
    if "queries" in bench.config.parts:
        bench.queries()
    if "points" in bench.config.parts:
        bench.oltp.points()
        bench.oltp.count_round_trips()
    if "tables" in bench.config.parts:
        bench.oltp.tables()
    results = bench.results()
    environment = {**bench.environment(), "load_average": load_average}
    bench.report(environment, results)
    with open(bench.config.json, "w", encoding="utf-8") as file:
        json.dump({"environment": environment, "results": results, "answers": bench.answers, "failures": bench.failures, "round_trips": bench.oltp.round_trips,
                   "queries": dict(QUERIES), "plans": bench.plans}, file, indent=1)
        file.write("\n")
    print(f"numbers, settings and plans: {bench.config.json}")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
