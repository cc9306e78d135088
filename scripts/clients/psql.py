"""psql.py - psql in a terminal, on sharded tables: descriptions, completion by tab, \\copy, Ctrl-C"""

import fcntl
import os
import pty
import re
import select
import struct
import tempfile
import termios
import time

from tap import attempt, equal, finish, ok, psql


class Terminal:
    """A psql that believes that somebody types."""

    PROMPT = "READY> "

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", PAGER="cat", INPUTRC="/dev/null", HISTFILE="/dev/null", COLUMNS="400", LINES="1000", PSQL_HISTORY="/dev/null")
            os.execv(os.path.join(os.environ["BIN"], "psql"), ["psql", "-X", "-v", f"PROMPT1={self.PROMPT}", "-v", f"PROMPT2={self.PROMPT}", "-P", "pager=off"])
        # Wide enough that the terminal wraps nothing.
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 1000, 400, 0, 0))
        self.read_until(self.PROMPT)

    def read(self, seconds):
        """What comes until nothing has come for so long."""
        text = b""
        while select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            text += data
        return self.plain(text)

    def read_until(self, wanted, behind="", seconds=60):
        """What comes until the wanted text has come, behind another one."""
        text, end = b"", time.monotonic() + seconds
        while wanted not in self.plain(text).partition(behind)[2] if behind else wanted not in self.plain(text):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise RuntimeError(f"psql did not print {wanted!r}, but {self.plain(text)[-300:]!r}")
            text += os.read(self.fd, 65536)
        return self.plain(text)

    @staticmethod
    def plain(text):
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\x07", "", text.decode(errors="replace")).replace("\r", "")

    def run(self, line):
        """Types a line; what psql prints for it."""
        os.write(self.fd, line.encode() + b"\n")
        return self.read_until(self.PROMPT, "\n")

    def complete(self, line):
        """Types a line and the tab key, twice; the line as it is then, and what is offered."""
        os.write(self.fd, line.encode() + b"\t")
        shown = self.read(0.7)
        os.write(self.fd, b"\t\t")
        offered = self.read(0.7)
        os.write(self.fd, b"\x15\n")    # the line is given up
        self.read(0.3)
        return shown, offered

    def close(self):
        os.write(self.fd, b"\n\\q\n")
        os.waitpid(self.pid, 0)


def descriptions(term):
    text = term.run("\\d+ orders")
    ok("Partition key: HASH (id)" in text, "\\d+: the partition key", text)
    ok(text.count("FOREIGN") == 6 or len(re.findall(r"orders_0[0-5] FOR VALUES", text)) == 6, "\\d+: six shards", text)
    ok('"orders_pkey"' in text, "\\d+: the primary key", text)
    ok("'new'::text" in text and "not null" in text, "\\d+: defaults and NOT NULL", text)
    text = term.run("\\d+ orders_00")
    ok("Server: node" in text, "\\d+ of a shard: its server", text)
    text = term.run("\\dt+ orders")
    ok("partitioned table" in text, "\\dt+", text)
    text = term.run("\\det *.orders*")
    ok("(6 rows)" in text, "\\det", text)
    text = term.run("\\dP+")
    ok("orders" in text, "\\dP+", text)
    text = term.run("\\d+ country")
    ok("country_pkey" in text, "\\d+ of a reference table", text)
    text = term.run("SELECT id, customer FROM orders \\gdesc")
    ok("bigint" in text and "text" in text, "\\gdesc", text)


def completion(term):
    for typed, wanted in (("SELECT * FROM ord", "orders"), ("INSERT INTO ord", "orders"), ("UPDATE ord", "orders"), ("DELETE FROM ord", "orders"), ("TRUNCATE ord", "orders"), ("ALTER TABLE ord", "orders"),
                          ("COPY ord", "orders"), ("CREATE INDEX ON ord", "orders"), ("MERGE INTO ord", "orders")):
        shown, offered = term.complete(typed)
        ok(wanted in shown or wanted in offered, f"tab: {typed}", repr(shown + offered))
    for typed, wanted in (("UPDATE orders SET cus", "customer"), ("INSERT INTO orders (cus", "customer"), ("ALTER TABLE orders RENAME COLUMN cus", "customer"), ("TABLE ord", "orders"),
                          ("SET shardfdw.enable_sh", "shardfdw.enable_shard_scan"), ("ALTER TABLE orders DROP CONSTRAINT orders_p", "orders_pkey")):
        shown, offered = term.complete(typed)
        ok(wanted in shown or wanted in offered, f"tab: {typed}", repr(shown + offered))


def copy(term):
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "orders.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,customer,total\n" + "".join(f'{i},"c, {i}",{i}.5\n' for i in range(1001, 2001)))
    text = term.run(f"\\copy orders (id, customer, total) FROM '{path}' (FORMAT csv, HEADER)")
    ok("COPY 1000" in text, "\\copy FROM", text)
    text = term.run(f"\\copy (SELECT id, customer, total FROM orders WHERE id > 1000 ORDER BY id) TO '{path}.2' (FORMAT csv, HEADER)")
    ok("COPY 1000" in text, "\\copy (query) TO", text)
    with open(path, encoding="utf-8") as one, open(path + ".2", encoding="utf-8") as two:
        first, second = one.read(), two.read()
    equal(second.replace(".50", ".5"), first, "\\copy: the file that went in comes out")
    text = term.run(f"\\copy orders TO '{path}.3'")
    ok("COPY 2000" in text, "\\copy table TO", text)
    text = term.run("\\copy orders (id) FROM PROGRAM 'echo 5; echo 5'")
    ok('duplicate key value violates unique constraint' in text, "\\copy: an error of a shard", text)


def session(term):
    term.run("\\set ON_ERROR_ROLLBACK interactive")
    term.run("BEGIN;")
    text = term.run("INSERT INTO orders (id, customer) VALUES (7, 'twice');")
    ok("duplicate key" in text, "ON_ERROR_ROLLBACK: the error", text)
    text = term.run("UPDATE orders SET customer = 'after the error' WHERE id = 7;")
    ok("UPDATE 1" in text, "ON_ERROR_ROLLBACK: the transaction goes on", text)
    term.run("COMMIT;")
    equal(psql("SELECT customer FROM orders WHERE id = 7"), "after the error", "ON_ERROR_ROLLBACK: and commits")
    term.run("\\set FETCH_COUNT 100")
    text = term.run("SELECT id FROM orders WHERE id <= 1000 ORDER BY id;")
    ok(len(re.findall(r"^ +\d+$", text, re.MULTILINE)) == 1000, "FETCH_COUNT", text[-200:])
    term.run("\\unset FETCH_COUNT")
    os.write(term.fd, b"SELECT count(*) FROM orders a, orders b, orders c, orders d WHERE a.total + b.total + c.total < d.total;\n")
    time.sleep(1.5)
    os.write(term.fd, b"\x03")
    text = term.read_until(Terminal.PROMPT, "canceling")
    ok("canceling statement due to user request" in text, "Ctrl-C", text)
    text = term.run("SELECT count(*) FROM orders;")
    ok("2000" in text, "the session after Ctrl-C", text)
    text = term.run("SELECT 'ANALYZE ' || relname FROM pg_class WHERE relname = 'orders' \\gexec")
    ok("ANALYZE" in text, "\\gexec", text)
    text = term.run("INSERT INTO orders (id, customer) VALUES (-1, 'x') RETURNING id \\gset")
    text = term.run("DELETE FROM orders WHERE id = :id;")
    ok("DELETE 1" in text, "RETURNING with \\gset", text)


psql("""CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL DEFAULT 'new', total numeric(10,2));
    INSERT INTO orders SELECT g, 'c' || g, g FROM generate_series(1, 1000) AS g;
    SELECT shardfdw.shard_table('orders', 'id', shards => 6);
    CREATE TABLE country (code char(2) PRIMARY KEY, name text);
    SELECT shardfdw.create_reference_table('country');""")
terminal = Terminal()
for part in (descriptions, completion, copy, session):
    attempt("psql: " + part.__name__, lambda: part(terminal))
terminal.close()
psql("SELECT shardfdw.unshard_table('orders'); SELECT shardfdw.unshard_table('country'); DROP TABLE orders, country")
finish()
