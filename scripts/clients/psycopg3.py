"""psycopg3.py - psycopg 3 on sharded tables: parameters, prepared statements, pipeline mode, COPY, transactions"""

import datetime
import decimal
import threading
import uuid

import psycopg
from psycopg import errors, sql
from psycopg.rows import class_row, dict_row, namedtuple_row
from psycopg.types.json import Jsonb

from tap import DSN, attempt, equal, finish, ok, psql

COLUMNS = """id bigint PRIMARY KEY, name text NOT NULL, amount numeric(12,2), at timestamptz, tags text[], doc jsonb, raw bytea, uid uuid, day date, flag boolean"""
ROW = (1, "Zoë's", decimal.Decimal("12.50"), datetime.datetime(2024, 3, 31, 1, 30, tzinfo=datetime.timezone.utc), ["a", "b,c", '"'], {"k": [1, None]}, b"\x00\xff\n\\",
       uuid.UUID("12345678-1234-5678-1234-567812345678"), datetime.date(2024, 2, 29), True)


def values(row):
    return [Jsonb(value) if isinstance(value, dict) else value for value in row]


def parameters(conn):
    for binary in (False, True):
        conn.execute("DELETE FROM item")
        cursor = conn.cursor(binary=binary)
        cursor.execute("INSERT INTO item VALUES (" + ", ".join(["%s"] * 10) + ") RETURNING *", values(ROW))
        equal(cursor.fetchone(), ROW, f"all types go in and come out (binary: {binary})")
        cursor.execute("SELECT * FROM item WHERE id = %s", (1,))
        equal(cursor.fetchone(), ROW, f"by key (binary: {binary})")
        cursor.execute("SELECT * FROM item WHERE id = ANY (%s) AND tags @> %s", ([1, 2, 3], ["a"]))
        equal(cursor.fetchall(), [ROW], f"array parameters (binary: {binary})")
        cursor.execute("UPDATE item SET name = %(n)s, day = %(d)s WHERE id = %(i)s RETURNING name, day", {"n": "x", "d": None, "i": 1})
        equal(cursor.fetchall(), [("x", None)], f"named parameters (binary: {binary})")
    equal(conn.execute("SELECT * FROM item", binary=True).rowcount, 1, "rowcount of SELECT")
    cursor = conn.execute("UPDATE item SET flag = false")
    equal((cursor.rowcount, cursor.statusmessage), (1, "UPDATE 1"), "rowcount of UPDATE")
    cursor = conn.execute(sql.SQL("SELECT {} FROM {} WHERE {} = %s").format(sql.Identifier("name"), sql.Identifier("public", "item"), sql.Identifier("id")), (1,))
    equal([column.name for column in cursor.description], ["name"], "description")


def rows(conn):
    conn.execute("DELETE FROM item")
    cursor = conn.cursor()
    cursor.executemany("INSERT INTO item (id, name) VALUES (%s, %s)", [(i, f"n{i}") for i in range(500)])
    equal(cursor.rowcount, 500, "executemany")
    cursor.executemany("INSERT INTO item (id, name) VALUES (%s, %s) RETURNING id", [(i, f"n{i}") for i in range(500, 510)], returning=True)
    got = []
    while True:
        got.append(cursor.fetchone()[0])
        if not cursor.nextset():
            break
    equal(got, list(range(500, 510)), "executemany with RETURNING")
    cursor.executemany("INSERT INTO item AS i (id, name) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET name = i.name || EXCLUDED.name", [(i, "!") for i in range(495, 515)])
    equal(conn.execute("SELECT count(*), count(*) FILTER (WHERE name LIKE 'n%!') FROM item").fetchone(), (515, 15), "executemany with ON CONFLICT")
    with conn.cursor(row_factory=dict_row) as dicts:
        equal(dicts.execute("SELECT id, name FROM item WHERE id = 3").fetchone(), {"id": 3, "name": "n3"}, "dict_row")
    with conn.cursor(row_factory=namedtuple_row) as tuples:
        equal(tuples.execute("SELECT id, name FROM item WHERE id = 3").fetchone().name, "n3", "namedtuple_row")
    with conn.transaction(), conn.cursor(name="server_side") as named:
        named.itersize = 50
        named.execute("SELECT id FROM item ORDER BY id")
        equal([row[0] for row in named], list(range(515)), "server-side cursor")
    with conn.transaction(), conn.cursor(name="scroll", scrollable=True) as named:
        named.execute("SELECT id FROM item ORDER BY id")
        named.scroll(100)
        one = named.fetchone()
        named.scroll(-50)
        equal((one, named.fetchone()), ((100,), (51,)), "scrollable cursor")
    equal([row[0] for row in conn.cursor().stream("SELECT id FROM item ORDER BY id")], list(range(515)), "single-row mode")


def prepared(conn):
    for threshold in (0, 5):
        conn.prepare_threshold = threshold
        for i in range(12):
            row = conn.execute("SELECT name FROM item WHERE id = %s", (i,)).fetchone()
            if row != (f"n{i}",):
                ok(False, f"prepared SELECT, threshold {threshold}", f"{i}: {row}")
                break
            updated = conn.execute("UPDATE item SET amount = %s WHERE id = %s RETURNING id, amount", (i, i)).fetchone()
            if updated != (i, decimal.Decimal(i)):
                ok(False, f"prepared UPDATE, threshold {threshold}", f"{i}: {updated}")
                break
            conn.execute("INSERT INTO item AS t (id, name) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET amount = t.amount + 1", (i, "never"))
        else:
            equal(conn.execute("SELECT sum(amount) FROM item WHERE id < 12").fetchone()[0], decimal.Decimal(66 + 12), f"prepared statements, threshold {threshold}")
    conn.prepare_threshold = 5


def pipeline(conn):
    with conn.pipeline() as pipe, conn.transaction():
        cursors = [conn.execute("UPDATE item SET amount = 100 + id WHERE id = %s RETURNING id, amount", (i,)) for i in range(40)]
        pipe.sync()
        equal([cursor.fetchone() for cursor in cursors], [(i, decimal.Decimal(100 + i)) for i in range(40)], "pipeline in a transaction")
    with conn.pipeline():
        cursors = [conn.execute("SELECT name FROM item WHERE id = %s", (i,)) for i in range(40)]
        equal([cursor.fetchone()[0] for cursor in cursors], [f"n{i}" for i in range(40)], "pipeline of SELECTs")
    try:
        with conn.pipeline():
            conn.execute("INSERT INTO item (id, name) VALUES (9001, 'first')")
            conn.execute("INSERT INTO item (id, name) VALUES (1, 'twice')")
            conn.execute("INSERT INTO item (id, name) VALUES (9002, 'third')")
        ok(False, "an error in a pipeline", "it did not fail")
    except errors.UniqueViolation as error:
        ok(True, "an error in a pipeline")
        equal(error.diag.sqlstate, "23505", "SQLSTATE")
    equal(conn.execute("SELECT count(*) FROM item WHERE id > 9000").fetchone()[0], 0, "a pipeline is one implicit transaction")
    with conn.pipeline():
        conn.execute("INSERT INTO item (id, name) VALUES (9003, 'x')")
        conn.execute("DELETE FROM item WHERE id = 9003")
    equal(conn.execute("SELECT count(*) FROM item WHERE id > 9000").fetchone()[0], 0, "writes in a pipeline see each other")


def copy(conn):
    conn.execute("TRUNCATE item")
    with conn.cursor().copy("COPY item (id, name, amount, tags) FROM STDIN") as target:
        for i in range(3000):
            target.write_row((i, f"line\t{i}\n", decimal.Decimal(i) / 4, [str(i), None]))
    equal(conn.execute("SELECT count(*), sum(amount), min(name) FROM item").fetchone(), (3000, decimal.Decimal(2999 * 3000 // 2) / 4, "line\t0\n"), "COPY FROM, text")
    conn.execute("TRUNCATE item")
    with conn.cursor().copy("COPY item (id, name, day, uid) FROM STDIN (FORMAT binary)") as target:
        target.set_types(["int8", "text", "date", "uuid"])
        for i in range(1000):
            target.write_row((i, str(i), ROW[8], ROW[7]))
    equal(conn.execute("SELECT count(*), max(day) FROM item WHERE uid = %s", (ROW[7],)).fetchone(), (1000, ROW[8]), "COPY FROM, binary")
    with conn.cursor().copy("COPY item (id, name, day) TO STDOUT (FORMAT binary)") as source:
        source.set_types(["int8", "text", "date"])
        equal(sorted(source.rows()), [(i, str(i), ROW[8]) for i in range(1000)], "COPY TO, binary")
    with conn.cursor().copy("COPY (SELECT id FROM item ORDER BY id DESC LIMIT 3) TO STDOUT") as source:
        equal([row[0] for row in source.rows()], ["999", "998", "997"], "COPY (query) TO, text")
    try:
        with conn.cursor().copy("COPY item (id, name) FROM STDIN") as target:
            for i in range(990, 1100):
                target.write_row((i, "x"))
        ok(False, "COPY with a duplicate", "it did not fail")
    except errors.UniqueViolation as error:
        ok("COPY item, line 1" in (error.diag.context or ""), "COPY with a duplicate: the line", error.diag.context)
    try:
        with conn.cursor().copy("COPY item (id, name) FROM STDIN") as target:
            target.write_row((5000, "x"))
            raise ZeroDivisionError
    except ZeroDivisionError:
        equal(conn.execute("SELECT count(*) FROM item WHERE id >= 1000").fetchone()[0], 0, "COPY that the client gives up")


def transactions(conn):
    with conn.transaction():
        conn.execute("UPDATE item SET name = 'outer' WHERE id = 1")
        try:
            with conn.transaction():
                conn.execute("UPDATE item SET name = 'inner' WHERE id = 2")
                conn.execute("INSERT INTO item (id, name) VALUES (3, 'twice')")
        except errors.UniqueViolation as error:
            equal((error.diag.constraint_name is not None, error.diag.schema_name), (True, "public"), "the error's fields")
        with conn.transaction(force_rollback=True):
            conn.execute("DELETE FROM item")
        conn.execute("UPDATE item SET name = 'last' WHERE id = 4")
    equal(conn.execute("SELECT name FROM item WHERE id IN (1, 2, 4) ORDER BY id").fetchall(), [("outer",), ("2",), ("last",)], "nested transactions")
    for wrong, code, name in (("INSERT INTO item (id) VALUES (70000)", "23502", "NOT NULL"), ("INSERT INTO item (id, name) VALUES ('x', 'y')", "22P02", "a wrong number"), ("SELECT nothing FROM item", "42703", "a wrong column"),
                              ("INSERT INTO item (id, name, amount) VALUES (70000, 'y', 1e15)", "22003", "overflow")):
        try:
            conn.execute(wrong)
            ok(False, name, "it did not fail")
        except psycopg.Error as error:
            equal(error.sqlstate, code, f"SQLSTATE of {name}")
    conn.autocommit = False
    conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    conn.execute("UPDATE item SET name = 'serializable' WHERE id = 5")
    conn.commit()
    conn.execute("UPDATE item SET name = 'nobody sees this'")
    conn.rollback()
    conn.isolation_level = None
    conn.autocommit = True
    equal(conn.execute("SELECT count(*) FROM item WHERE name = 'serializable'").fetchone()[0], 1, "SERIALIZABLE, commit and rollback")
    other = psycopg.connect(DSN)
    try:
        other.tpc_begin(other.xid(1, "global", "branch"))
        other.execute("UPDATE item SET name = 'prepared' WHERE id = 6")
        other.tpc_prepare()
        ok(False, "PREPARE TRANSACTION", "it was not refused")
    except psycopg.Error as error:
        ok(error.sqlstate == "0A000", "PREPARE TRANSACTION is refused clearly", f"{error.sqlstate} {error}")
    finally:
        other.close()


def cancel(conn):
    timer = threading.Timer(1, conn.cancel)
    timer.start()
    try:
        conn.execute("SELECT count(*) FROM item a, item b, item c WHERE a.name || b.name || c.name = 'x'")
        ok(False, "cancel()", "the query ended")
    except errors.QueryCanceled:
        equal(conn.execute("SELECT count(*) FROM item").fetchone()[0], 1000, "cancel(), and on")
    messages = []
    conn.add_notice_handler(lambda diag: messages.append(diag.message_primary))
    conn.execute("DO $$ BEGIN RAISE NOTICE 'rows: %', (SELECT count(*) FROM item); END $$")
    equal(messages, ["rows: 1000"], "a DO block")
    with conn.cursor(row_factory=class_row(dict)) as cursor:
        ok(cursor is not None, "class_row")


psql(f"CREATE TABLE item ({COLUMNS}); SELECT shardfdw.shard_table('item', 'id', shards => 6)")
with psycopg.connect(DSN, autocommit=True) as connection:
    for part in (parameters, rows, prepared, pipeline, copy, transactions, cancel):
        attempt("psycopg: " + part.__name__, lambda: part(connection))
psql("SELECT shardfdw.unshard_table('item'); DROP TABLE item")
finish()
