"""oltp.py - single rows through pgbench, whole tables through one statement; used by measure.py

Works, each measured --runs times, the targets taking turns:
  point SELECT     lineitem by key through an index; 4 clients, protocols simple and prepared
  point INSERT, UPDATE, upsert (INSERT ... ON CONFLICT DO UPDATE), three (a transaction of an UPDATE, a SELECT
                   and an INSERT with one key): a table "point" with a primary key; 8 clients, each statement its own commit
                   with fsync on; a checkpoint before each run
  INSERT ... SELECT, UPDATE of every row: lineitem's rows into an empty table that is colocated with it, then all of them
                   changed; a checkpoint before each
postgres_fdw has no upsert on partitioned tables, and would send the rows of INSERT ... SELECT in small batches: it is left out there.

Round trips are counted once, by a relay between coordinator and one node: how often the direction of what is sent changes.
"""

import os
import re
import socket
import subprocess
import threading

READ_CLIENTS = 4
WRITE_CLIENTS = 8
POINT_ROWS = 100000
POINT_COLUMNS = "id bigint NOT NULL, counter int NOT NULL, changed timestamptz, filler char(84) NOT NULL"

# TPC-H uses the first 8 of every 32 order keys.
SELECT_SCRIPT = """\\set n random(1, {orders})
\\set key :n / 8 * 32 + :n % 8
SELECT l_partkey, l_suppkey, l_shipdate, l_shipinstruct FROM {lineitem} WHERE l_orderkey = :key;
"""
NEW_ID = "\\set id random(1000000000, 1000000000000000)\n"
OLD_ID = f"\\set id random(1, {POINT_ROWS})\n"
FILLER = "'abcdefghijklmnopqrstuvwxyz'"
WRITE_SCRIPTS = {
    "point INSERT": NEW_ID + "INSERT INTO {point} (id, counter, changed, filler) VALUES (:id, 1, now(), " + FILLER + ");\n",
    "point UPDATE": OLD_ID + "UPDATE {point} SET counter = counter + 1, changed = now() WHERE id = :id;\n",
    "point upsert": OLD_ID + "INSERT INTO {point} AS p (id, counter, filler) VALUES (:id, 1, " + FILLER + ")\n"
                    "    ON CONFLICT (id) DO UPDATE SET counter = p.counter + 1, changed = now();\n",
    "three on one shard": OLD_ID + "BEGIN;\nUPDATE {point} SET counter = counter + 1 WHERE id = :id;\nSELECT counter FROM {point} WHERE id = :id;\n"
                          "UPDATE {point} SET changed = now() WHERE id = :id;\nEND;\n",
}

# What shardfdw has to reach: of plain's rate at least; of plain's time at most.
RATE_LIMITS = {f"point SELECT, {READ_CLIENTS} clients, simple": 0.45, f"point SELECT, {READ_CLIENTS} clients, prepared": 0.30,
               **{f"{title}, {WRITE_CLIENTS} clients, simple": 0.80 for title in ("point INSERT", "point UPDATE", "point upsert")}}
TIME_LIMITS = {"INSERT ... SELECT, colocated": 0.75, "UPDATE of every row": 0.75}

# Statements, and the round trips that they may take on a connection that is there.
ROUND_TRIPS = [
    ("SELECT by key", 1, ["SELECT counter FROM {point} WHERE id = {id}"]),
    ("INSERT of a row", 1, ["INSERT INTO {point} (id, counter, filler) VALUES ({new}, 1, 'x')"]),
    ("UPDATE by key", 1, ["UPDATE {point} SET counter = counter + 1 WHERE id = {id}"]),
    ("upsert", 1, ["INSERT INTO {point} AS p (id, counter, filler) VALUES ({id}, 1, 'x') ON CONFLICT (id) DO UPDATE SET counter = p.counter + 1"]),
    ("transaction of three", 5, ["BEGIN", "UPDATE {point} SET counter = counter + 1 WHERE id = {id}", "SELECT counter FROM {point} WHERE id = {id}",
                                 "UPDATE {point} SET counter = counter + 1 WHERE id = {id}", "COMMIT"]),
]


class Relay:
    """Passes bytes between clients and a server on 127.0.0.1, and counts round trips."""

    def __init__(self, port):
        self.server_port = port
        self.round_trips = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.server_port))
            asked = [False]
            for end, other, to_server in ((client, server, True), (server, client, False)):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.pump, args=(end, other, to_server, asked), daemon=True).start()

    def pump(self, source, target, to_server, asked):
        try:
            while data := source.recv(1 << 16):
                with self.lock:
                    # An answer to what has been sent since the last one.
                    if not to_server and asked[0]:
                        self.round_trips += 1
                    asked[0] = to_server
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class Oltp:
    """What is measured; bench is measure.py's Bench."""

    def __init__(self, bench, sql_error):
        self.bench = bench
        self.sql_error = sql_error
        self.targets = [target for target in bench.targets if not target.queries_only]
        self.point = {target.name: "point_" + target.name for target in self.targets}
        self.round_trips = []       # (title, counted, limit)

    # Tables

    def make_point(self, target):
        table, coordinator, config = self.point[target.name], self.bench.coordinator, self.bench.config
        if target.name == "postgres_fdw":
            coordinator.run(f"CREATE TABLE {table} ({POINT_COLUMNS}) PARTITION BY HASH (id)")
            for shard in range(config.shards):
                node = shard % len(self.bench.nodes)
                self.bench.nodes[node].run(f"CREATE TABLE {table}_{shard} ({POINT_COLUMNS}, PRIMARY KEY (id))")
                coordinator.run(f"""CREATE FOREIGN TABLE {table}_{shard} PARTITION OF {table}
                    FOR VALUES WITH (MODULUS {config.shards}, REMAINDER {shard}) SERVER pf{node}""")
        else:
            coordinator.run(f"CREATE TABLE {table} ({POINT_COLUMNS}, PRIMARY KEY (id))")
            if target.name != "plain":
                coordinator.run(f"SELECT shardfdw.shard_table('{table}', 'id', shards => {config.shards})")
        coordinator.run(f"INSERT INTO {table} SELECT g, 0, NULL, {FILLER} FROM generate_series(1, {POINT_ROWS}) AS g", f"ANALYZE {table}")
        self.bench.everywhere("VACUUM")

    def index_lineitem(self):
        self.bench.coordinator.run("CREATE INDEX ON lineitem_plain (l_orderkey)")
        for session in self.bench.nodes:
            tables = session.run("""SELECT oid::regclass FROM pg_class
                WHERE relkind = 'r' AND relname LIKE 'lineitem%' AND relname NOT LIKE '%slice%'""")
            session.run(*[f"CREATE INDEX ON {table} (l_orderkey)" for table in tables])

    # Single rows

    def points(self):
        orders = int(self.bench.coordinator.value("SELECT max(l_orderkey) / 32 * 8 + 7 FROM lineitem_plain"))
        self.index_lineitem()
        for target in self.targets:
            self.make_point(target)
        self.bench.everywhere("CHECKPOINT")
        for _ in range(self.bench.config.runs):
            for protocol in ("simple", "prepared"):
                for target in self.targets:
                    self.pgbench("point SELECT", SELECT_SCRIPT.format(lineitem=target.table, orders=orders), target, protocol, READ_CLIENTS)
        for _ in range(self.bench.config.runs):
            for title, script in WRITE_SCRIPTS.items():
                for target in self.targets:
                    if title != "point upsert" or target.name != "postgres_fdw":
                        self.bench.everywhere("CHECKPOINT")
                        self.pgbench(title, script.format(point=self.point[target.name]), target, "simple", WRITE_CLIENTS)

    def pgbench(self, title, text, target, protocol, nclients):
        bench, config = self.bench, self.bench.config
        work = f"{title}, {nclients} clients, {protocol}"
        script = os.path.join(config.work, "pgbench.sql")
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        command = [os.path.join(config.bin, "pgbench"), "-n", "-M", protocol, "-c", str(nclients), "-j", "2", "-T", str(config.pgbench_seconds), "-f", script,
                   "-h", os.path.join(config.work, "sockets"), "-p", str(config.coordinator), "-U", "postgres", "bench"]
        # A statement that does not end is a failure, and must not hold up the rest.
        result = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PGOPTIONS": "-c statement_timeout=30s"})
        tps = re.search(r"^tps = ([0-9.]+)", result.stdout, re.MULTILINE)
        if result.returncode != 0 or not tps:
            bench.failed(work, target, " ".join(result.stderr.split())[-300:])
            return
        print(f"   {work}, {target.name}: {float(tps.group(1)):.0f} tps", flush=True)
        bench.record(work, "tps", target, float(tps.group(1)))

    def count_round_trips(self):
        """Counts the round trips to one node of statements that have run before."""
        target = next((target for target in self.targets if target.name == "shardfdw"), None)
        if not target:
            return
        coordinator, table = self.bench.coordinator, self.point[target.name]
        relay = Relay(self.bench.config.nodes[0])
        key = """(SELECT s.srvname FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = shardfdw.shard_for('{table}', {id}))"""
        ids = [int(line) for line in coordinator.run(f"SELECT g FROM generate_series(1, 400) AS g WHERE {key.format(table=table, id='g::bigint')} = 'node1' LIMIT 20")]
        new_ids = iter([int(line) for line in coordinator.run(
            f"SELECT g FROM generate_series({POINT_ROWS + 1}, {POINT_ROWS} + 400) AS g WHERE {key.format(table=table, id='g::bigint')} = 'node1' LIMIT 20")])
        coordinator.run(f"ALTER SERVER node1 OPTIONS (SET host '127.0.0.1', SET port '{relay.port}')")
        try:
            for title, limit, statements in ROUND_TRIPS:
                with self.bench.session(target) as session:
                    try:
                        for _ in range(6):
                            before = relay.round_trips
                            session.run(*[text.format(point=table, id=ids[0], new=next(new_ids) if "{new}" in text else 0) for text in statements])
                    except self.sql_error as error:
                        self.bench.failed("round trips: " + title, target, error)
                        continue
                    self.round_trips.append((title, relay.round_trips - before, limit))
        finally:
            coordinator.run(f"ALTER SERVER node1 OPTIONS (SET host '{self.bench.node_host}', SET port '{self.bench.config.nodes[0]}')")
            relay.close()

    # Whole tables

    def tables(self):
        bench = self.bench
        targets = [target for target in self.targets if target.name in ("plain", "shardfdw")]
        for target in targets:
            bench.coordinator.run(f"CREATE TABLE {target.table}_copy (LIKE {target.table})")
            if target.name != "plain":
                bench.coordinator.run(f"SELECT shardfdw.shard_table('{target.table}_copy', 'l_orderkey', colocate_with => '{target.table}')")
        works = {"INSERT ... SELECT, colocated": "INSERT INTO {t}_copy SELECT * FROM {t}", "UPDATE of every row": "UPDATE {t}_copy SET l_linenumber = l_linenumber + 1"}
        for run in range(bench.config.runs):
            for target in targets:
                bench.coordinator.run(f"TRUNCATE {target.table}_copy")
                with bench.session(target) as session:
                    for work, text in works.items():
                        bench.everywhere("CHECKPOINT")
                        try:
                            elapsed, servers = bench.time(session, text.format(t=target.table))
                        except self.sql_error as error:
                            bench.failed(work, target, error)
                            break
                        bench.record(work, "ms", target, elapsed)
                        bench.record("CPU of all: " + work, "ms", target, servers)
                        print(f"   {work}, {target.name}: {elapsed:.0f} ms", flush=True)
                if run == 0:
                    self.compare_replicas(target)
        for target in targets:
            bench.coordinator.run(f"DROP TABLE {target.table}_copy")

    def compare_replicas(self, target):
        answer = self.bench.coordinator.value(f"SELECT count(*) || ' ' || sum(l_orderkey) || ' ' || sum(l_linenumber) || ' ' || sum(l_partkey) FROM {target.table}_copy")
        answers = self.bench.answers.setdefault("INSERT ... SELECT, UPDATE of every row", {})
        answers[target.name] = answer
        if answer != answers["plain"]:
            self.bench.failed("INSERT ... SELECT, UPDATE of every row", target, "the rows differ from the plain table's")

    def limits(self, ratio):
        """Lines of what was measured beside its limit; ratio(work) is shardfdw's median by plain's, or None."""
        lines = []
        for limits, least in ((RATE_LIMITS, True), (TIME_LIMITS, False)):
            for work, limit in limits.items():
                found = ratio(work)
                if found is not None:
                    within = found >= limit if least else found <= limit
                    lines.append(f"{'ok   ' if within else 'BELOW' if least else 'ABOVE'} {work}: shardfdw / plain {found:.2f}, limit {limit}")
        for title, counted, limit in self.round_trips:
            lines.append(f"{'ok   ' if counted <= limit else 'ABOVE'} {title}: {counted} round trips to the node, limit {limit}")
        return lines
