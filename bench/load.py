#!/usr/bin/python3
"""load.py - COPY into and out of a plain and a sharded table in turn; prints a table, writes JSON

Started by load, which has made the servers. Each work is measured --runs times after one that is not
counted, the targets taking turns; before each COPY FROM the table is truncated, all servers make a
checkpoint, and a new session begins. Elapsed time is psql's, CPU is user and system time of
/proc/<pid>/stat, memory the high-water mark of /proc/<pid>/status less what the session had before.
After each COPY the rows are counted. Exit code 1: something failed, or row counts differ.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import struct
import sys
import threading
import time

import measure
from measure import CPU, Session, SqlError, cpu_ms

WIDE_COLUMNS = """l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, l_linenumber int NOT NULL,
    l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL,
    l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL,
    l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL,
    l_comment varchar(44) NOT NULL"""

TARGETS = ("plain", "shardfdw")


def private_kb(pid, field):
    """KiB of a process by VmRSS or VmHWM, less those of shared memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return int(sizes[field].split()[0]) - int(sizes["RssShmem"].split()[0])


class LoadBench(measure.Bench):
    """The tables and the works."""

    def __init__(self, config):
        config.targets = ["plain"]
        super().__init__(config)
        self.targets = [type("Target", (), {"name": name, "settings": ()})() for name in TARGETS]
        self.coordinator.run("CREATE EXTENSION shardfdw")
        self.reconnect()
        for i, port in enumerate(config.nodes):
            self.coordinator.run(f"SELECT shardfdw.add_node('node{i + 1}', '127.0.0.1', {port})")

    def create(self, table, columns, key="", by="l_orderkey"):
        """The plain table "table" and the sharded "table_s"; returns their names by target."""
        names = {"plain": table, "shardfdw": table + "_s"}
        for name in names.values():
            self.coordinator.run(f"CREATE TABLE {name} ({columns}{key})")
        self.coordinator.run(f"SELECT shardfdw.shard_table('{names['shardfdw']}', '{by}', shards => {self.config.shards})")
        return names

    def fresh(self, table, keep=False):
        if not keep:
            self.coordinator.run(f"TRUNCATE {table}")
        self.everywhere("CHECKPOINT")

    def check_count(self, table, expected):
        nrows = int(self.coordinator.value(f"SELECT count(*) FROM {table}"))
        if nrows != expected:
            raise SqlError(f"{table} has {nrows} rows, not {expected}")

    def copies(self, table, paths, options="", layout="FORMAT csv", keep=False):
        """Runs a COPY per path at the same time; ms elapsed, and of one's backend: ms of CPU, KiB of memory.  keep: rows that are there stay."""
        self.fresh(table, keep)
        sessions = [Session(self.config, self.config.coordinator) for _ in paths]
        pids = [session.value("SELECT pg_backend_pid()") for session in sessions]
        cpu, memory = sum(cpu_ms(pid) for pid in pids), private_kb(pids[0], "VmRSS")
        servers = measure.servers_cpu_ms(self.postmasters)
        errors = []

        def copy(session, path):
            try:
                session.run(f"COPY {table} FROM '{path}' ({layout}{options})")
            except SqlError as error:
                errors.append(error)

        threads = [threading.Thread(target=copy, args=pair) for pair in zip(sessions, paths)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = (time.monotonic() - begin) * 1000
        if errors:
            raise errors[0]
        servers = measure.servers_cpu_ms(self.postmasters) - servers
        cpu = sum(cpu_ms(pid) for pid in pids) - cpu
        grown = private_kb(pids[0], "VmHWM") - memory
        for session in sessions:
            session.close()
        return elapsed, cpu, servers, grown

    def repeat(self, work, tables, paths, nrows, options=None, before=None):
        """options: of COPY, by target; before: a file that is loaded ahead of the time that counts."""
        for run in range(self.config.runs + 1):
            for target in self.targets:
                table = tables[target.name]
                try:
                    more = (options or {}).get(target.name, "")
                    if before:
                        self.copies(table, [before], more)
                    elapsed, cpu, servers, grown = self.copies(table, paths, more, keep=before is not None)
                    self.check_count(table, nrows)
                except SqlError as error:
                    self.reconnect()
                    self.failed(work, target, error)
                    continue
                print(f"   {work}, {target.name}: {elapsed:.0f} ms, CPU {cpu:.0f} ms, of all servers {servers:.0f} ms, "
                      f"memory {grown / 1024:.1f} MB" + ("" if run else " (warm-up)"), flush=True)
                if run > 0:
                    self.record(work, "ms", target, elapsed)
                    self.record(work + ", CPU of the backend", "ms", target, cpu)
                    self.record(work + ", memory", "KiB", target, grown)
                    self.record(CPU + work, "ms", target, servers)

    # The works

    def copy_work(self):
        self.repeat("COPY", self.tables, [self.config.data], self.nrows)

    def parts(self, nparts):
        """The file in parts of about the same size; their paths."""
        paths = []
        with open(self.config.data, "rb") as data:
            for part in range(nparts):
                paths.append(os.path.join(self.config.work, f"part{part}of{nparts}.csv"))
                with open(paths[-1], "wb") as file:
                    while file.tell() < os.path.getsize(self.config.data) / nparts:
                        lines = data.readlines(1 << 20)
                        if not lines:
                            break
                        file.writelines(lines)
        return paths

    def four_work(self):
        self.repeat("4 COPYs at once", self.tables, self.parts(4), self.nrows)

    def many_work(self):
        self.repeat("24 COPYs at once", self.tables, self.parts(24), self.nrows)

    def key_work(self):
        tables = self.create("lineitem_key", measure.COLUMNS, ", PRIMARY KEY (l_orderkey, l_linenumber)")
        self.repeat("COPY, primary key", tables, [self.config.data], self.nrows)
        self.coordinator.run(*[f"DROP TABLE {table}" for table in tables.values()])

    def indexes_work(self):
        """A primary key and an index on a random integer: 4 million rows at once, and their last quarter."""
        nrows = 4_000_000
        paths = [os.path.join(self.config.work, name) for name in ("indexed_first.csv", "indexed_last.csv")]
        pick = random.Random(1)
        for path, numbers in zip(paths, (range(nrows * 3 // 4), range(nrows * 3 // 4, nrows))):
            with open(path, "w", encoding="ascii") as file:
                for n in numbers:
                    bits = pick.getrandbits(64)
                    numbers4 = ",".join(str((bits >> shift) % 100_000) for shift in range(6))
                    texts = ",".join(f"text {(bits >> shift) % 10_000}" for shift in range(6, 11))
                    file.write(f"{n},{bits >> 33},{numbers4},{bits >> 1},{bits >> 2},{bits >> 3},{texts},"
                               f"{bits % 10_000}.25,{bits % 777}.5,2024-{1 + bits % 12:02}-01,2024-01-{1 + bits % 28:02}\n")
        columns = ", ".join(["id int, value int"] + [f"i{i} int" for i in range(6)] + [f"b{i} bigint" for i in range(3)] +
                            [f"t{i} text" for i in range(5)] + ["n1 numeric(10,2), n2 numeric(10,2), d1 date, d2 date"])
        tables = self.create("indexed", columns, ", PRIMARY KEY (id)", by="id")
        self.coordinator.run(*[f"CREATE INDEX ON {table} (value)" for table in tables.values()])
        whole = os.path.join(self.config.work, "indexed.csv")
        with open(whole, "wb") as file:
            for path in paths:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, file)
        options = {self.targets[1].name: ", INDEXES deferred"}
        self.repeat("COPY, indexes", tables, [whole], nrows, options)
        self.repeat("COPY, indexes, last quarter", tables, paths[1:], nrows, options, before=paths[0])
        self.coordinator.run(*[f"DROP TABLE {table}" for table in tables.values()])

    def replicas_work(self):
        """Each shard on one node and on two, by turns: with a primary key alone, and with an index on a random integer."""
        target = self.targets[1]
        key = measure.COLUMNS + ", PRIMARY KEY (l_orderkey, l_linenumber)"
        for index, title in ((None, "key"), ("l_partkey", "key and index")):
            tables = {"1 node": "lineitem_once", "2 nodes": "lineitem_twice"}
            for number, table in enumerate(tables.values(), 1):
                self.coordinator.run(f"CREATE TABLE {table} ({key})", f"CREATE INDEX ON {table} ({index})" if index else "",
                                     f"SELECT shardfdw.shard_table('{table}', 'l_orderkey', shards => {self.config.shards}, replication_factor => {number})")
            for run in range(self.config.runs + 1):
                for placed, table in tables.items():
                    work = f"COPY, {title}, {placed}"
                    try:
                        elapsed, cpu, servers, _ = self.copies(table, [self.config.data])
                        self.check_count(table, self.nrows)
                    except SqlError as error:
                        self.reconnect()
                        self.failed(work, target, error)
                        continue
                    print(f"   {work}: {elapsed:.0f} ms, CPU {cpu:.0f} ms, of all servers {servers:.0f} ms" + ("" if run else " (warm-up)"), flush=True)
                    if run > 0:
                        self.record(work, "ms", target, elapsed)
                        self.record(work + ", CPU of the backend", "ms", target, cpu)
                        self.record(CPU + work, "ms", target, servers)
            if int(self.coordinator.value("SELECT count(*) FROM shardfdw.compare_replicas('lineitem_twice') WHERE NOT is_equal")) > 0:
                raise SqlError("replicas differ from their primaries")
            self.coordinator.run(*[f"DROP TABLE {table}" for table in tables.values()])

    def wide_work(self):
        tables = self.create("lineitem_wide", WIDE_COLUMNS)
        self.repeat("COPY, 16 columns", tables, [self.config.wide_data], self.nrows)
        self.coordinator.run(*[f"TRUNCATE {table}" for table in tables.values()])

    def fixed_work(self):
        """2 million measured values as CSV, as text at fixed positions, and with binary numbers."""
        paths = [os.path.join(self.config.work, name) for name in ("values.csv", "values.txt", "values.dat")]
        nrows = 2_000_000
        pick = random.Random(1)
        with open(paths[0], "wb") as csv, open(paths[1], "wb") as text, open(paths[2], "wb") as binary:
            for n in range(nrows):
                sensor, moment = pick.randrange(10_000_000), 1_700_000_000_000_000 + n * 997
                value, mean, quality = pick.uniform(-100, 100), pick.uniform(-1, 1), pick.randrange(1000)
                unit = (b"kPa", b"degC", b"m3/h", b"%")[n & 3]
                csv.write(b"%d,%d,%a,%a,%d,%s\n" % (sensor, moment, value, mean, quality, unit))
                text.write(b"%8d%16d%-24a%-24a%4d%-6s\n" % (sensor, moment, value, mean, quality, unit))
                binary.write(struct.pack("<iqddh6s", sensor, moment, value, mean, quality, unit.ljust(6)))
        self.coordinator.run("CREATE TABLE measured (sensor int, moment bigint, value float8, mean float8, quality smallint, unit text)",
                             "SELECT shardfdw.shard_table('measured', 'sensor', shards => 16)")
        layouts = ("FORMAT csv", "FIXED_WIDTH '1-8, 9-24, 25-48, 49-72, 73-76, 77-82'",
                   "FIXED_WIDTH '1-4 int_le, 5-12 int_le, 13-20 float_le, 21-28 float_le, 29-30 int_le, 31-36', RECORD_LENGTH 36")
        target = self.targets[1]
        for run in range(self.config.runs + 1):
            for work, path, layout in zip(("numbers by CSV", "numbers, fixed width", "numbers, fixed width, binary"), paths, layouts):
                try:
                    elapsed, cpu, servers, _ = self.copies("measured", [path], layout=layout)
                    self.check_count("measured", nrows)
                except SqlError as error:
                    self.reconnect()
                    self.failed(work, target, error)
                    continue
                print(f"   COPY, {work}: {elapsed:.0f} ms, CPU {cpu:.0f} ms, of all servers {servers:.0f} ms" + ("" if run else " (warm-up)"), flush=True)
                if run > 0:
                    self.record(f"COPY, {work}", "ms", target, elapsed)
                    self.record(f"COPY, {work}, CPU of the backend", "ms", target, cpu)
                    self.record(f"{CPU}COPY, {work}", "ms", target, servers)
        self.coordinator.run("DROP TABLE measured")

    def rejects_work(self):
        """1 million rows without and with 1,000 bad ones, of 5 kinds; the sharded table alone."""
        clean, bad = (os.path.join(self.config.work, name) for name in ("clean.csv", "bad.csv"))
        nrows = min(1_000_000, self.nrows)
        kinds = (lambda f: f[:-1], lambda f: [*f, b"more"], lambda f: [f[0], b"x1", *f[2:]],
                 lambda f: [b"key", *f[1:]], lambda f: [*f[:4], b"1998-02-30", *f[5:]])
        with open(self.config.data, "rb") as data, open(clean, "wb") as good_file, open(bad, "wb") as bad_file:
            for n in range(nrows):
                line = data.readline()
                good_file.write(line)
                if n % 1000 == 500:
                    line = b",".join(kinds[n // 1000 % len(kinds)](line.rstrip(b"\n").split(b","))) + b"\n"
                bad_file.write(line)
        target = self.targets[1]
        table = self.tables["shardfdw"]
        for run in range(self.config.runs + 1):
            for work, path, nbad in (("COPY, ON_ERROR ignore, clean", clean, 0), ("COPY, ON_ERROR ignore, 1 of 1,000 bad", bad, nrows // 1000)):
                try:
                    elapsed, cpu, _, _ = self.copies(table, [path], ", ON_ERROR ignore, LOG_VERBOSITY silent")
                    self.check_count(table, nrows - nbad)
                except SqlError as error:
                    self.reconnect()
                    self.failed(work, target, error)
                    continue
                print(f"   {work}: {elapsed:.0f} ms, CPU {cpu:.0f} ms" + ("" if run else " (warm-up)"), flush=True)
                if run > 0:
                    self.record(work, "ms", target, elapsed)

    def out_work(self):
        work = "COPY TO '/dev/null'"
        for target in self.targets:
            self.copies(self.tables[target.name], [self.config.data])
        for session in [self.coordinator, *self.nodes]:
            session.run("VACUUM")
        for run in range(self.config.runs + 1):
            for target in self.targets:
                try:
                    elapsed, servers = self.time(self.coordinator, f"COPY {self.tables[target.name]} TO '/dev/null'")
                except SqlError as error:
                    self.reconnect()
                    self.failed(work, target, error)
                    continue
                print(f"   {work}, {target.name}: {elapsed:.0f} ms" + ("" if run else " (warm-up)"), flush=True)
                if run > 0:
                    self.record(work, "ms", target, elapsed)
                    self.record(CPU + work, "ms", target, servers)

    def stopped_work(self):
        """All processes of node 1 stand still for 10 seconds, one second after COPY has begun."""
        table = self.tables["shardfdw"]
        self.fresh(table)
        with open(os.path.join(self.config.work, "clusters", "node1", "postmaster.pid"), encoding="utf-8") as file:
            postmaster = int(file.readline())
        with Session(self.config, self.config.coordinator) as session:
            pid = session.value("SELECT pg_backend_pid()")
            memory = private_kb(pid, "VmRSS")
            thread = threading.Thread(target=session.run, args=(f"COPY {table} FROM '{self.config.data}' (FORMAT csv)",))
            thread.start()
            time.sleep(1)
            stopped = [postmaster, *[int(name) for name in os.listdir("/proc") if name.isdigit()
                                     and self.parent(int(name)) == postmaster]]
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
            time.sleep(10)
            for process in stopped:
                os.kill(process, signal.SIGCONT)
            thread.join()
            grown = private_kb(pid, "VmHWM") - memory
        self.check_count(table, self.nrows)
        print(f"   COPY with a node stopped for 10 s: completed, memory {grown / 1024:.1f} MB", flush=True)
        self.record("COPY, a node stopped: memory", "KiB", self.targets[1], grown)

    @staticmethod
    def parent(pid):
        try:
            return measure.read_stat(pid)[0]
        except (FileNotFoundError, ProcessLookupError):
            return None

    def run(self):
        self.tables = self.create("lineitem", measure.COLUMNS)
        for work in self.config.works:
            getattr(self, work + "_work")()


def main():
    parser = argparse.ArgumentParser(description="Measures COPY; started by bench/load.")
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--coordinator", type=int, required=True)
    parser.add_argument("--nodes", type=lambda text: [int(port) for port in text.split(",")], required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--wide-data", required=True)
    parser.add_argument("--works", type=lambda text: text.split(","), required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--sockets", action="store_true")
    load_average = os.getloadavg()[0]
    bench = LoadBench(parser.parse_args())
    bench.run()
    results = bench.results()
    environment = {**bench.environment(), "load_average": load_average}
    print(f"\nPostgreSQL {environment['postgresql']}, {environment['cores']} cores, {len(bench.nodes)} nodes on this machine, "
          f"{environment['shards']} shards; {environment['rows']:,} rows, {environment['bytes'] / 1e6:.0f} MB; "
          f"load average at start {load_average:.2f}; median of {bench.config.runs} (ratio to plain) smallest-largest\n")
    cells = {(record["work"], record["target"]): record for record in results}
    for work, unit in sorted(bench.works.items(), key=lambda item: item[0].startswith(CPU)):
        line = f"{work:<44}"
        for target in TARGETS:
            cell = cells.get((work, target))
            if cell:
                ratio = f"({cell['ratio_to_plain']:.3f})" if cell["ratio_to_plain"] is not None else ""
                line += f"{cell['median']:>11,.0f} {unit:<3} {ratio:>8} {cell['min']:>8,.0f}-{cell['max']:<8,.0f}"
            else:
                line += " " * 41
        print(line.rstrip())
    print(f"\n{len(results)} figures, {len(bench.failures)} failures")
    with open(bench.config.json, "w", encoding="utf-8") as file:
        json.dump({"environment": environment, "results": results, "failures": bench.failures}, file, indent=1)
        file.write("\n")
    print(f"numbers and settings: {bench.config.json}")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
