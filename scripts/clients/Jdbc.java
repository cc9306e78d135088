// Jdbc.java - the JDBC driver on sharded tables: server-side prepared statements, batches, generated keys, cursors, metadata, COPY
//
// One source file, started with "java -cp postgresql.jar Jdbc.java host:port database user".

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PSQLException;

public class Jdbc {
    static int failures = 0;
    static String url;
    static Properties user = new Properties();

    interface Part {
        void run() throws Exception;
    }

    static void ok(boolean good, String name, Object detail) {
        if (!good) failures++;
        System.out.println((good ? "ok - " : "not ok - ") + name + (good ? "" : ": " + String.valueOf(detail).replace('\n', ' ')));
    }

    static void equal(Object got, Object wanted, String name) {
        ok(Objects.equals(got, wanted), name, "got " + got + ", not " + wanted);
    }

    static void attempt(String name, Part part) {
        try {
            part.run();
        } catch (Throwable error) {
            StackTraceElement where = Arrays.stream(error.getStackTrace()).filter(frame -> frame.getFileName() != null && frame.getFileName().equals("Jdbc.java")).findFirst().orElse(null);
            ok(false, name, error + " (" + where + ")");
        }
    }

    static Connection connect(String... settings) throws SQLException {
        Properties all = new Properties();
        all.putAll(user);
        for (int i = 0; i < settings.length; i += 2) all.setProperty(settings[i], settings[i + 1]);
        return DriverManager.getConnection(url, all);
    }

    static void execute(Connection conn, String... statements) throws SQLException {
        try (Statement statement = conn.createStatement()) {
            for (String sql : statements) statement.execute(sql);
        }
    }

    static List<Object> column(Connection conn, String sql) throws SQLException {
        List<Object> values = new ArrayList<>();
        try (Statement statement = conn.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            while (rows.next()) values.add(rows.getObject(1));
        }
        return values;
    }

    // Driver settings change how statements are sent: each is tried with all parts.
    static void prepared(String mode, Connection conn) throws SQLException {
        try (PreparedStatement insert = conn.prepareStatement("INSERT INTO item (id, name, amount, at, tags) VALUES (?, ?, ?, ?, ?)");
                PreparedStatement select = conn.prepareStatement("SELECT name, amount, at, tags FROM item WHERE id = ?");
                PreparedStatement update = conn.prepareStatement("UPDATE item SET amount = amount + ? WHERE id = ?");
                PreparedStatement upsert = conn.prepareStatement("INSERT INTO item AS i (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = i.name || EXCLUDED.name");
                PreparedStatement delete = conn.prepareStatement("DELETE FROM item WHERE id = ?")) {
            Timestamp at = Timestamp.valueOf("2024-03-31 02:30:00.123456");
            boolean good = true;
            // The driver prepares on the server from the fifth execution on, the server plans generically five later.
            for (int i = 1; i <= 15; i++) {
                insert.setLong(1, i);
                insert.setString(2, "n" + i);
                insert.setBigDecimal(3, new BigDecimal(i));
                insert.setTimestamp(4, at);
                insert.setArray(5, conn.createArrayOf("text", new String[] {"a", null, "b,\"c"}));
                good &= insert.executeUpdate() == 1;
                update.setInt(1, 1);
                update.setLong(2, i);
                good &= update.executeUpdate() == 1;
                upsert.setLong(1, i);
                upsert.setString(2, "!");
                good &= upsert.executeUpdate() == 1;
                select.setLong(1, i);
                try (ResultSet rows = select.executeQuery()) {
                    good &= rows.next() && rows.getString(1).equals("n" + i + "!") && rows.getBigDecimal(2).intValue() == i + 1 && rows.getTimestamp(3).equals(at)
                            && ((String[]) rows.getArray(4).getArray())[2].equals("b,\"c") && !rows.next();
                }
            }
            ok(good, mode + ": prepared statements", "a row or a count was wrong");
            for (int i = 1; i <= 15; i++) {
                delete.setLong(1, i);
                good &= delete.executeUpdate() == 1;
            }
            ok(good, mode + ": prepared DELETE", "a count was wrong");
            select.setNull(1, Types.BIGINT);
            try (ResultSet rows = select.executeQuery()) {
                ok(!rows.next(), mode + ": a NULL key", "there was a row");
            }
        }
    }

    static void batches(String mode, Connection conn) throws SQLException {
        try (PreparedStatement insert = conn.prepareStatement("INSERT INTO item (id, name) VALUES (?, ?)");
                PreparedStatement upsert = conn.prepareStatement("INSERT INTO item (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name");
                PreparedStatement update = conn.prepareStatement("UPDATE item SET name = ? WHERE id = ?")) {
            for (int i = 0; i < 300; i++) {
                insert.setLong(1, i);
                insert.setString(2, "b" + i);
                insert.addBatch();
            }
            // SUCCESS_NO_INFO (-2) for statements that the driver has made one of
            ok(Arrays.stream(insert.executeBatch()).allMatch(n -> n == 1 || n == Statement.SUCCESS_NO_INFO), mode + ": a batch of INSERTs", "counts");
            for (int i = 290; i < 310; i++) {
                upsert.setLong(1, i);
                upsert.setString(2, "u" + i);
                upsert.addBatch();
                update.setString(1, "x" + i);
                update.setLong(2, i - 290);
                update.addBatch();
            }
            ok(Arrays.stream(upsert.executeBatch()).allMatch(n -> n == 1 || n == Statement.SUCCESS_NO_INFO), mode + ": a batch of upserts", "counts");
            equal(Arrays.stream(update.executeBatch()).sum(), 20, mode + ": a batch of UPDATEs");
            equal(column(conn, "SELECT count(*) || ' ' || count(*) FILTER (WHERE name LIKE 'u%') || ' ' || count(*) FILTER (WHERE name LIKE 'x%') FROM item"), List.of("310 20 20"), mode + ": the rows of the batches");
            conn.setAutoCommit(false);
            for (int i = 308; i < 312; i++) {
                insert.setLong(1, i);
                insert.setString(2, "twice");
                insert.addBatch();
            }
            try {
                insert.executeBatch();
                ok(false, mode + ": a batch with an error", "it did not fail");
            } catch (BatchUpdateException error) {
                equal(error.getSQLState(), "23505", mode + ": a batch with an error");
            }
            conn.rollback();
            conn.setAutoCommit(true);
            equal(column(conn, "SELECT count(*) FROM item"), List.of(310L), mode + ": nothing of it stays");
        }
    }

    static void cursors(String mode, Connection conn) throws SQLException {
        conn.setAutoCommit(false);
        try (PreparedStatement select = conn.prepareStatement("SELECT id, name FROM item ORDER BY id")) {
            select.setFetchSize(17);
            int n = 0;
            boolean inOrder = true;
            try (ResultSet rows = select.executeQuery()) {
                while (rows.next()) {
                    inOrder &= rows.getLong(1) == n++;
                    // other statements while the portal is open
                    if (n % 50 == 0) execute(conn, "UPDATE item SET amount = " + n + " WHERE id = " + n);
                }
            }
            ok(inOrder && n == 310, mode + ": fetch size", n + " rows");
        }
        Savepoint savepoint = conn.setSavepoint("one");
        try {
            execute(conn, "INSERT INTO item (id, name) VALUES (1, 'twice')");
            ok(false, mode + ": an error behind a savepoint", "it did not fail");
        } catch (PSQLException error) {
            equal(error.getSQLState(), "23505", mode + ": an error behind a savepoint");
            ok(error.getServerErrorMessage().getConstraint() != null && error.getServerErrorMessage().getTable() != null, mode + ": the error's fields", error.getServerErrorMessage());
        }
        conn.rollback(savepoint);
        execute(conn, "UPDATE item SET name = 'saved' WHERE id = 2");
        conn.commit();
        conn.setAutoCommit(true);
        equal(column(conn, "SELECT name FROM item WHERE id = 2"), List.of("saved"), mode + ": and on");
        try (Statement updatable = conn.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet rows = updatable.executeQuery("SELECT id, name, amount FROM item WHERE id < 3 ORDER BY id")) {
            rows.absolute(2);
            rows.updateString("name", "through the result set");
            rows.updateRow();
            rows.absolute(3);
            rows.deleteRow();
            rows.moveToInsertRow();
            rows.updateLong("id", 4000);
            rows.updateString("name", "inserted");
            rows.insertRow();
        }
        equal(column(conn, "SELECT string_agg(name, ', ' ORDER BY id) FROM item WHERE id IN (1, 2, 4000)"), List.of("through the result set, inserted"), mode + ": an updatable result set, by the primary key");
        execute(conn, "DELETE FROM item");
    }

    static void keys(String mode, Connection conn) throws SQLException {
        try (PreparedStatement insert = conn.prepareStatement("INSERT INTO auto (note) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
            Set<Long> seen = new HashSet<>();
            for (int i = 0; i < 8; i++) {
                insert.setString(1, "k" + i);
                insert.executeUpdate();
                try (ResultSet rows = insert.getGeneratedKeys()) {
                    if (rows.next()) seen.add(rows.getLong("id"));
                }
            }
            equal(seen.size(), 8, mode + ": getGeneratedKeys");
            for (int i = 0; i < 20; i++) {
                insert.setString(1, "b" + i);
                insert.addBatch();
            }
            insert.executeBatch();
            try (ResultSet rows = insert.getGeneratedKeys()) {
                while (rows.next()) seen.add(rows.getLong("id"));
            }
            equal(seen.size(), 28, mode + ": getGeneratedKeys of a batch");
        }
        try (PreparedStatement insert = conn.prepareStatement("INSERT INTO auto (note) VALUES (?)", new String[] {"id", "note"})) {
            insert.setString(1, "named");
            insert.executeUpdate();
            try (ResultSet rows = insert.getGeneratedKeys()) {
                ok(rows.next() && rows.getString("note").equals("named"), mode + ": generated columns by name", "no row");
            }
        }
        execute(conn, "DELETE FROM auto");
    }

    static List<String> names(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(column));
        return found;
    }

    static void metadata(Connection conn) throws SQLException {
        DatabaseMetaData meta = conn.getMetaData();
        equal(names(meta.getPrimaryKeys(null, "public", "item"), "COLUMN_NAME"), List.of("id"), "getPrimaryKeys");
        equal(names(meta.getTables(null, "public", "item", new String[] {"TABLE", "PARTITIONED TABLE"}), "TABLE_NAME"), List.of("item"), "getTables");
        equal(names(meta.getColumns(null, "public", "item", null), "COLUMN_NAME"), List.of("id", "name", "amount", "at", "tags"), "getColumns");
        ok(names(meta.getIndexInfo(null, "public", "item", true, false), "COLUMN_NAME").contains("id"), "getIndexInfo", "no unique index");
        equal(names(meta.getBestRowIdentifier(null, "public", "item", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME"), List.of("id"), "getBestRowIdentifier");
        try (PreparedStatement select = conn.prepareStatement("SELECT id, name FROM item WHERE id = ? AND amount > ?")) {
            equal(select.getMetaData().getColumnTypeName(1), "int8", "getMetaData before the first execution");
            equal(select.getParameterMetaData().getParameterTypeName(2), "numeric", "getParameterMetaData");
        }
    }

    static void copies(Connection conn) throws Exception {
        CopyManager copy = conn.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < 2000; i++) lines.append(i).append(",\"c, ").append(i).append("\"\n");
        equal(copy.copyIn("COPY item (id, name) FROM STDIN (FORMAT csv)", new StringReader(lines.toString())), 2000L, "CopyManager.copyIn");
        StringWriter out = new StringWriter();
        equal(copy.copyOut("COPY (SELECT id, name FROM item ORDER BY id) TO STDOUT (FORMAT csv)", out), 2000L, "CopyManager.copyOut of a query");
        equal(out.toString(), lines.toString(), "the lines that went in come out");
        equal(copy.copyOut("COPY item TO STDOUT", new StringWriter()), 2000L, "CopyManager.copyOut of a table");
        try {
            copy.copyIn("COPY item (id, name) FROM STDIN (FORMAT csv)", new StringReader("5000,x\n7,y\n"));
            ok(false, "copyIn of a duplicate", "it did not fail");
        } catch (PSQLException error) {
            equal(error.getSQLState(), "23505", "copyIn of a duplicate");
        }
        equal(column(conn, "SELECT count(*) FROM item"), List.of(2000L), "nothing of it stays");
        execute(conn, "TRUNCATE item");
    }

    static void others(Connection conn) throws SQLException {
        execute(conn, "INSERT INTO item (id, name) SELECT g, 'x' FROM generate_series(1, 3000) AS g");
        try (Statement slow = conn.createStatement()) {
            slow.setQueryTimeout(1);
            slow.executeQuery("SELECT count(*) FROM item a, item b, item c WHERE a.name || b.name || c.name = 'y'");
            ok(false, "setQueryTimeout", "the query ended");
        } catch (PSQLException error) {
            equal(error.getSQLState(), "57014", "setQueryTimeout");
        }
        conn.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        conn.setAutoCommit(false);
        execute(conn, "UPDATE item SET name = 'serializable' WHERE id = 3");
        conn.commit();
        conn.setReadOnly(true);
        equal(column(conn, "SELECT name FROM item WHERE id = 3"), List.of("serializable"), "SERIALIZABLE, then a read-only transaction");
        conn.rollback();
        conn.setReadOnly(false);
        conn.setAutoCommit(true);
        conn.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        try (Statement many = conn.createStatement()) {
            boolean rows = many.execute("UPDATE item SET name = 'a' WHERE id = 1; SELECT name FROM item WHERE id = 1; DELETE FROM item WHERE id IN (1, 2)");
            int updated = many.getUpdateCount();
            many.getMoreResults();
            ResultSet set = many.getResultSet();
            boolean right = set.next() && set.getString(1).equals("a");
            many.getMoreResults();
            ok(!rows && updated == 1 && right && many.getUpdateCount() == 2, "several statements in one", "a result is wrong");
        }
        execute(conn, "TRUNCATE item");
    }

    public static void main(String[] args) throws Exception {
        url = "jdbc:postgresql://" + args[0] + "/" + args[1];
        user.setProperty("user", args[2]);
        try (Connection conn = connect()) {
            execute(conn, "CREATE TABLE item (id bigint PRIMARY KEY, name text NOT NULL, amount numeric(12,2) DEFAULT 0, at timestamp, tags text[])", "SELECT shardfdw.shard_table('item', 'id', shards => 6)",
                    "CREATE TABLE auto (id bigserial PRIMARY KEY, note text)", "SELECT shardfdw.shard_table('auto', 'id', shards => 4)");
            attempt("metadata", () -> metadata(conn));
        }
        String[][] modes = {{"as it is"}, {"prepared at once", "prepareThreshold", "1"}, {"binary, prepared at once", "prepareThreshold", "-1"}, {"rewritten batches", "reWriteBatchedInserts", "true"},
            {"simple protocol", "preferQueryMode", "simple"}, {"savepoints around statements", "autosave", "always"}};
        for (String[] mode : modes) {
            try (Connection conn = connect(Arrays.copyOfRange(mode, 1, mode.length))) {
                execute(conn, "TRUNCATE item");
                attempt(mode[0] + ": prepared", () -> prepared(mode[0], conn));
                attempt(mode[0] + ": batches", () -> batches(mode[0], conn));
                attempt(mode[0] + ": cursors", () -> cursors(mode[0], conn));
                attempt(mode[0] + ": keys", () -> keys(mode[0], conn));
            }
        }
        try (Connection conn = connect()) {
            execute(conn, "TRUNCATE item");
            attempt("copies", () -> copies(conn));
            attempt("others", () -> others(conn));
        }
        try (Connection conn = connect()) {
            execute(conn, "SELECT shardfdw.unshard_table('item')", "SELECT shardfdw.unshard_table('auto')", "DROP TABLE item, auto");
        }
        System.exit(failures == 0 ? 0 : 1);
    }
}
