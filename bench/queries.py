#!/usr/bin/python3
"""queries.py - a suite's queries on a plain and a sharded database in turn; prints a table, writes JSON

Started by tpch and star, which have made the servers. Databases, all on the coordinator's server: "plain"
has ordinary tables, "layout1" and "layout2" have sharded ones with shards in databases of the same names
on the nodes. Tables, indexes and queries are those of the suite's folder (tpch_sql, star_sql), the same for all;
their texts name no database, so that each query is one text. A database's comment says what it was made
from; one that fits is used again.

Each query runs once on every database to warm up: this gives the answers that are compared, and the
plan. Then it is measured --runs times, the databases taking turns, each in its own session. Answers
are compared as text, in order where the query's order is total (its first line says so), else as
sorted lines; numbers that are written differently are equal when they differ by less than 1 in 10^9.

With --planning N nothing is executed: each query is planned N times on every database, in turns of
twenty: processes that take turns with every statement are slower, plain ones too (docs/benchmarks.md).
"""

import argparse
import dataclasses
import json
import os
import re
import statistics
import sys

from measure import Session, SqlError

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tables, what each layout shards as (table, key, the table that it is colocated with), and layout 1's limits."""

    folder: str
    tables: tuple           # in an order in which they can be loaded; what no layout shards is a reference table
    layouts: dict
    total_ratio: float      # of the sum of plain's medians
    query_ratio: float      # of plain's median of a query, but for query_ms more
    query_ms: int

    def limit(self, plain_ms):
        return self.query_ratio * plain_ms + self.query_ms

    def read(self, name):
        with open(os.path.join(HERE, self.folder, name), encoding="utf-8") as file:
            return file.read()

    def statements(self, name):
        """The statements of a file, without comments; none of them has a semicolon inside."""
        text = re.sub(r"^--.*\n", "", self.read(name), flags=re.MULTILINE)
        return [statement.strip() for statement in text.split(";") if statement.strip()]


SUITES = {
    "tpch": Suite("tpch_sql", ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"), {
        "layout1": (("orders", "o_orderkey", None), ("lineitem", "l_orderkey", "orders")),
        "layout2": (("orders", "o_orderkey", None), ("lineitem", "l_orderkey", "orders"), ("part", "p_partkey", None),
                    ("partsupp", "ps_partkey", "part"), ("customer", "c_custkey", None))}, 1.3, 2, 50),
    "star": Suite("star_sql", ("country", "city", "store", "channel", "promotion", "department", "category", "maker", "brand", "product",
                               "segment", "customer", "clerk", "day", "sale"), {
        "layout1": (("sale", "sale_id", None),)}, 1.2, 2.5, 50),
}

PLANS_PER_TURN = 20

class Query:
    """One query: its text with the scale filled in, and whether its order is total."""

    def __init__(self, suite, number, scale):
        self.name = f"q{number}"
        self.ordered = suite.read(f"q{number:02}.sql").splitlines()[0].endswith("order: total")
        self.text = suite.statements(f"q{number:02}.sql")[0].replace(":scale", scale)


def same_field(one, other):
    if one == other:
        return True
    try:
        one, other = float(one), float(other)
    except ValueError:
        return False
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def same_answer(one, other, ordered):
    """Whether two answers, lists of lines, are equal."""
    if not ordered:
        one, other = sorted(one), sorted(other)
    return len(one) == len(other) and all(
        len(a.split("|")) == len(b.split("|")) and all(map(same_field, a.split("|"), b.split("|")))
        for a, b in zip(one, other))


class Databases:
    """The databases, their sessions, and what has been measured in them."""

    def __init__(self, config):
        self.config = config
        self.suite = SUITES[config.suite]
        self.layouts = [f"layout{number}" for number in sorted(config.layouts)]
        self.databases = ["plain", *self.layouts]
        self.sessions = {}
        self.samples = {}       # (query, database) -> ms
        self.plans = {}         # query -> {database: lines}
        self.failures = {}      # (query, database) -> message
        self.slow = []          # what is above its limit

    # Making the databases

    def admin(self, port):
        return Session(self.config, port)

    def fit(self, database):
        """What a database that can be used has as its comment."""
        parts = f"scale {self.config.scale}, data {self.config.data}"
        return parts if database == "plain" else f"{parts}, {self.config.shards} shards, reference tables, extension {self.config.sql_version}"

    def make(self, database):
        with self.admin(self.config.coordinator) as admin:
            comment = admin.run(f"""SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '{database}'""")
            if comment == [self.fit(database)]:
                print(f"   database {database}: as it is", flush=True)
                return
        print(f"   database {database}: loading", flush=True)
        ports = [self.config.coordinator] + (self.config.nodes if database != "plain" else [])
        for port in ports:
            with self.admin(port) as admin:
                admin.run(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", f"CREATE DATABASE {database}")
        if database != "plain":
            with Session(self.config, self.config.coordinator, database=database) as session:
                session.run("CREATE EXTENSION shardfdw")
        # The extension's settings for the database begin with the next session.
        with Session(self.config, self.config.coordinator, ["SET statement_timeout = 0"], database) as session:
            self.fill(session, database)
            session.run(f"COMMENT ON DATABASE {database} IS '{self.fit(database)}'")

    def fill(self, session, database):
        session.run(*self.suite.statements("tables.sql"), *self.suite.statements("indexes.sql"))
        sharded = self.suite.layouts.get(database, ())
        if sharded:
            for i, port in enumerate(self.config.nodes):
                session.run(f"SELECT shardfdw.add_node('node{i + 1}', '127.0.0.1', {port})")
        for table, key, colocate_with in sharded:
            session.run(f"SELECT shardfdw.shard_table('{table}', '{key}', " +
                        (f"colocate_with => '{colocate_with}')" if colocate_with else f"shards => {self.config.shards})"))
        for table in self.suite.tables:
            session.run(f"COPY {table} FROM '{os.path.join(self.config.data, table)}.csv' (FORMAT csv, HEADER)")
        if sharded:
            # Without reference tables the others stay local ones.
            for table in self.suite.tables if session.run("SELECT proname FROM pg_proc WHERE proname = 'create_reference_table'") else ():
                if table not in [name for name, _, _ in sharded]:
                    session.run(f"SELECT shardfdw.create_reference_table('{table}')")
            for port in self.config.nodes:
                with Session(self.config, port, ["SET statement_timeout = 0"], database) as node:
                    node.run("VACUUM (ANALYZE)")
        for table in self.suite.tables:
            is_sharded = table in [name for name, _, _ in sharded]
            session.run(f"{'ANALYZE' if is_sharded else 'VACUUM (ANALYZE)'} {table}")
        session.run("CHECKPOINT")

    # Measuring

    def session(self, database):
        if database not in self.sessions:
            settings = [f"SET statement_timeout = '{self.config.timeout}s'"]
            if database != "plain":
                settings += [f"SET {setting}" for setting in self.config.set]
            self.sessions[database] = Session(self.config, self.config.coordinator, settings, database)
        return self.sessions[database]

    def failed(self, query, database, message):
        self.failures[query.name, database] = message
        print(f"   FAILED {query.name}, {database}: {message}", flush=True)
        if database in self.sessions:
            self.sessions.pop(database).close()

    def explain(self, query, database):
        plan = self.session(database).run(f"EXPLAIN (VERBOSE) {query.text}")
        self.plans.setdefault(query.name, {})[database] = plan

    def measure(self, query):
        answers = {}
        for database in self.databases:
            try:
                self.explain(query, database)
                answers[database] = self.session(database).time(query.text)[1]
            except SqlError as error:
                self.failed(query, database, str(error))
                continue
            if database != "plain" and "plain" in answers and \
                    not same_answer(answers["plain"], answers[database], query.ordered):
                self.failures[query.name, database] = "the answer differs from the plain database's"
                self.differences(query, answers["plain"], answers[database])
        for _ in range(self.config.runs):
            for database in answers:
                try:
                    elapsed, _ = self.session(database).time(query.text)
                    self.samples.setdefault((query.name, database), []).append(elapsed)
                except SqlError as error:
                    self.failed(query, database, str(error))

    def measure_planning(self, query):
        """Planning as EXPLAIN (SUMMARY) reports it; the first three of each turn are not counted."""
        for first in range(0, self.config.planning, PLANS_PER_TURN):
            for database in self.databases:
                for number in range(first - 3, min(first + PLANS_PER_TURN, self.config.planning)):
                    try:
                        lines = self.session(database).run(f"EXPLAIN (SUMMARY) {query.text}")
                    except SqlError as error:
                        self.failed(query, database, str(error))
                        return
                    if number >= first:
                        self.samples.setdefault((query.name, database), []).append(planning_ms(lines))

    def report_planning(self, queries):
        print(f"\nplanning: median of {self.config.planning} in ms (range)\n")
        print(f"{'':<8}" + "".join(f"{database:>26}" for database in self.databases))
        for query in queries:
            samples = [self.samples.get((query.name, database)) for database in self.databases]
            cells = [f"{statistics.median(one):.2f} ({min(one):.2f}-{max(one):.2f})" if one else "failed" for one in samples]
            print(f"{query.name:<8}" + "".join(f"{cell:>26}" for cell in cells))

    @staticmethod
    def differences(query, plain, sharded):
        print(f"   DIFFERENT {query.name}: {len(plain)} rows, {len(sharded)} rows")
        for mark, lines in (("plain", sorted(set(plain) - set(sharded))), ("sharded", sorted(set(sharded) - set(plain)))):
            for line in lines[:3]:
                print(f"      {mark}: {line}")

    def median(self, query, database):
        samples = self.samples.get((query.name, database))
        return statistics.median(samples) if samples else None

    def report(self, queries):
        """Prints one line per query, and the totals of those that every database has answered."""
        print("\nmedian of {} in ms (ratio to plain)\n".format(self.config.runs))
        print(f"{'':<8}{'plain':>12}" + "".join(f"{layout:>22}   equal" for layout in self.layouts))
        totals = {}
        for query in queries:
            line = f"{query.name:<8}" + (f"{self.median(query, 'plain'):>12,.0f}" if self.median(query, "plain") else f"{'failed':>12}")
            for layout in self.layouts:
                line += self.cell(query, layout, totals)
            print(line.rstrip())
        for layout in self.layouts:
            equal = sum((query.name, layout) not in self.failures for query in queries)
            line = f"\n{layout}: {equal} of {len(queries)} answers equal"
            if layout in totals:
                plain, sharded = totals[layout]
                line += f"; total {sharded:,.0f} ms, plain {plain:,.0f} ms, ratio {sharded / plain:.2f}"
                if layout == "layout1" and sharded > self.suite.total_ratio * plain:
                    self.slow.append(f"total of {layout}: {sharded / plain:.2f} times plain, limit {self.suite.total_ratio}")
            print(line)
        for (query, database), message in self.failures.items():
            print(f"FAILED {query}, {database}: {message}")
        for message in self.slow:
            print(f"SLOW {message}")

    def cell(self, query, layout, totals):
        plain, sharded = self.median(query, "plain"), self.median(query, layout)
        if not sharded or not plain:
            return f"{'failed':>22}   no   "
        total = totals.setdefault(layout, [0, 0])
        total[0] += plain
        total[1] += sharded
        above = layout == "layout1" and sharded > self.suite.limit(plain)
        if above:
            self.slow.append(f"{query.name}, {layout}: {sharded:,.0f} ms, plain {plain:,.0f} ms, limit {self.suite.limit(plain):,.0f} ms")
        equal = "no" if (query.name, layout) in self.failures else "yes"
        return f"{sharded:>11,.0f} ms ({sharded / plain:>4.2f}){'*' if above else ' '}  {equal:<5}"

    def print_plans(self, queries):
        """The plans of what failed, and of what took more than a query may of layout 1."""
        for query in queries:
            for layout in self.layouts:
                plain, sharded = self.median(query, "plain"), self.median(query, layout)
                if (query.name, layout) in self.failures or plain and sharded and sharded > self.suite.limit(plain):
                    print(f"\n{query.name}, {layout}:")
                    print("\n".join(self.plans.get(query.name, {}).get(layout, ["no plan"])))


def planning_ms(lines):
    """The planning time among the lines of EXPLAIN (SUMMARY)."""
    for line in lines:
        if line.startswith("Planning Time: "):
            return float(line.split()[2])
    raise SqlError("EXPLAIN printed no planning time")


def numbers(text):
    """1-3,5 -> [1, 2, 3, 5]"""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main():
    parser = argparse.ArgumentParser(description="Measures a suite's queries; started by bench/tpch and bench/star.")
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--coordinator", type=int, required=True)
    parser.add_argument("--nodes", type=numbers, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--layouts", type=numbers, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--queries", type=numbers, required=True)
    parser.add_argument("--slice", type=lambda text: [int(part) for part in text.split("/")], required=True)
    parser.add_argument("--scale", required=True)
    parser.add_argument("--timeout", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--sql-version", required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--planning", type=int, default=0)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--no-limits", action="store_true")
    config = parser.parse_args()
    load_average = os.getloadavg()[0]
    databases = Databases(config)
    print("== making the databases", flush=True)
    for database in databases.databases:
        databases.make(database)
    part, parts = config.slice
    queries = [Query(databases.suite, number, config.scale) for number in config.queries]
    queries = queries[len(queries) * (part - 1) // parts:len(queries) * part // parts]
    print(f"== measuring ({config.planning or config.runs} times each, in turn; load average at start {load_average:.2f})", flush=True)
    for query in queries:
        if config.planning:
            databases.measure_planning(query)
            continue
        databases.measure(query)
        print(f"   {query.name}: " + ", ".join(
            f"{database} {databases.median(query, database):,.0f} ms" for database in databases.databases if databases.median(query, database)), flush=True)
    version = databases.session("plain").value("SHOW server_version")
    print(f"\nPostgreSQL {version}, scale {config.scale}, {config.shards} shards on {len(config.nodes)} nodes, "
          f"coordinator and nodes on this machine with {len(os.sched_getaffinity(0))} cores")
    if config.planning:
        databases.report_planning(queries)
    else:
        databases.report(queries)
    if config.explain:
        databases.print_plans(queries)
    with open(config.json, "w", encoding="utf-8") as file:
        json.dump({"environment": {"postgresql": version, "scale": config.scale, "shards": config.shards, "nodes": len(config.nodes),
                                   "runs": config.runs, "planning": config.planning, "cores": len(os.sched_getaffinity(0)), "load_average": load_average,
                                   "settings": config.set},
                   "samples": {query.name: {database: databases.samples.get((query.name, database), []) for database in databases.databases}
                               for query in queries},
                   "failures": [list(key) + [message] for key, message in databases.failures.items()],
                   "slow": databases.slow, "plans": databases.plans}, file, indent=1)
        file.write("\n")
    print(f"numbers and plans: {config.json}")
    return 1 if databases.failures or databases.slow and not config.no_limits else 0


if __name__ == "__main__":
    sys.exit(main())
