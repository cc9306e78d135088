// Hibernate7.java - Hibernate ORM 7 over JDBC: schema export and update, entities, batches, upserts, locks, HQL

import jakarta.persistence.*;
import java.io.Serializable;
import java.math.BigDecimal;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.*;
import org.hibernate.annotations.OnDelete;
import org.hibernate.annotations.OnDeleteAction;
import org.hibernate.annotations.PartitionKey;
import org.hibernate.cfg.Configuration;

public class Hibernate7 {
  @Entity(name = "Country")
  @Table(name = "country")
  static class Country {
    @Id @Column(length = 2) String code;
    String name;

    String getName() {
      return name;
    }
  }

  @Entity(name = "Account")
  @Table(name = "account")
  static class Account {
    @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
    String name;
    @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "country_code") Country country;
    @OneToMany(mappedBy = "account", cascade = CascadeType.PERSIST) @OrderBy("number") List<Purchase> purchases = new ArrayList<>();
  }

  // A key of two columns, of which the first is the shard key
  record PurchaseKey(Long account, Long number) implements Serializable {}

  @Entity(name = "Purchase")
  @Table(name = "purchase", indexes = @Index(name = "purchase_state", columnList = "state"), check = @CheckConstraint(name = "total_check", constraint = "total >= 0"))
  @IdClass(PurchaseKey.class)
  static class Purchase {
    @Id @ManyToOne(fetch = FetchType.LAZY) @JoinColumn(name = "account_id") @OnDelete(action = OnDeleteAction.CASCADE) Account account;
    @Id @Column(name = "number") Long number;
    @Column(precision = 12, scale = 2) BigDecimal total = BigDecimal.ZERO;
    String state = "new";
    @jakarta.persistence.Version int version;
  }

  // A key of one column, and the shard key as partition key
  @Entity(name = "Event")
  @Table(name = "event")
  static class Event {
    @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) @SequenceGenerator(name = "event_id", allocationSize = 50) Long id;
    @PartitionKey @Column(name = "account_id", nullable = false, updatable = false) Long accountId;
    String what;
  }

  static final boolean sharded = "yes".equals(System.getenv("SHARDED"));

  static Configuration configuration(Class<?>... classes) {
    Configuration c = new Configuration();
    String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
    c.setProperty("jakarta.persistence.jdbc.url", url).setProperty("jakarta.persistence.jdbc.user", System.getenv("PGUSER"));
    c.setProperty("hibernate.jdbc.batch_size", "30").setProperty("hibernate.order_inserts", "true").setProperty("hibernate.order_updates", "true");
    c.setProperty("hibernate.show_sql", System.getenv().containsKey("TRACE"));
    for (Class<?> one : classes) c.addAnnotatedClass(one);
    return c;
  }

  static void step(String name, Callable<Object> action) {
    try {
      System.out.println("= " + name + ": " + text(action.call()));
    } catch (Throwable e) {
      System.out.println("= " + name + ": ERROR " + errorOf(e) + " " + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
    }
  }

  // On sharded tables only: the action must fail with the SQLSTATE.
  static void refused(String name, String wanted, Callable<Object> action) {
    if (!sharded) return;
    String got = "no error";
    try {
      action.call();
    } catch (Throwable e) {
      got = errorOf(e);
    }
    System.out.println(got.endsWith(wanted) ? "ok - refused: " + name : "not ok - refused: " + name + ": " + got + ", not " + wanted);
  }

  static String text(Object value) {
    if (value instanceof Object[] array) return Arrays.stream(array).map(Hibernate7::text).toList().toString();
    if (value instanceof Collection<?> all) return all.stream().map(Hibernate7::text).toList().toString();
    return String.valueOf(value);
  }

  static String errorOf(Throwable e) {
    for (Throwable t = e; t != null; t = t.getCause()) if (t instanceof SQLException sql) return e.getClass().getSimpleName() + " " + sql.getSQLState();
    return e.getClass().getSimpleName();
  }

  interface Action<T> {
    T run(Session session) throws Exception;
  }

  static <T> T in(SessionFactory factory, Action<T> action) throws Exception {
    try (Session session = factory.openSession()) {
      Transaction transaction = session.beginTransaction();
      try {
        T result = action.run(session);
        transaction.commit();
        return result;
      } catch (Exception e) {
        if (transaction.isActive()) transaction.rollback();
        throw e;
      }
    }
  }

  static Purchase purchase(Account account, long number, long total) {
    Purchase p = new Purchase();
    p.account = account;
    p.number = number;
    p.total = BigDecimal.valueOf(total);
    return p;
  }

  static Account account(String name, Country country) {
    Account a = new Account();
    a.name = name;
    a.country = country;
    return a;
  }

  public static void main(String[] arguments) throws Exception {
    Logger.getLogger("org.hibernate").setLevel(Level.OFF);
    Class<?>[] classes = {Country.class, Account.class, Purchase.class, Event.class};
    SessionFactory factory = configuration(classes).buildSessionFactory();
    step("schema export", () -> { factory.getSchemaManager().exportMappedObjects(false); return true; });
    if (sharded) {
      in(factory, s -> s.createNativeQuery("SELECT shardfdw.create_reference_table('country')::text", String.class).getResultList());
      in(factory, s -> s.createNativeQuery("SELECT shardfdw.shard_tables('{account,purchase,event}', 'account_id', shards => 4)::text", String.class).getResultList());
    }
    step("validate", () -> { factory.getSchemaManager().validateMappedObjects(); return true; });
    // Hibernate does not see the indexes of a partitioned table.
    refused("hbm2ddl.auto = update", "42P07", () -> { configuration(classes).setProperty("hibernate.hbm2ddl.auto", "update").setProperty("hibernate.hbm2ddl.halt_on_error", "true").buildSessionFactory().close(); return true; });
    step("key of the table with @PartitionKey", () -> in(factory, s -> s.createNativeQuery("SELECT string_agg(attname, ' ' ORDER BY attname) FROM pg_index i JOIN pg_attribute a ON attrelid = indrelid AND attnum = ANY (indkey) WHERE indrelid = 'event'::regclass AND indisprimary", String.class).getSingleResult()));
    refused("a unique constraint without the shard key", "0A000", () -> in(factory, s -> s.createNativeMutationQuery("ALTER TABLE purchase ADD UNIQUE (state)").executeUpdate()));
    step("later migrations", () -> in(factory, s -> {
      for (String sql : List.of("ALTER TABLE purchase ADD note text DEFAULT 'none' NOT NULL", "CREATE INDEX purchase_note ON purchase (note)", "ALTER TABLE purchase ADD UNIQUE (account_id, number, state)")) s.createNativeMutationQuery(sql).executeUpdate();
      return true;
    }));
    statements(factory);
    transactions(factory);
    step("truncate", () -> { factory.getSchemaManager().truncateMappedObjects(); return in(factory, s -> s.createQuery("select count(*) from Account", Long.class).getSingleResult()); });
    factory.close();
  }

  static void statements(SessionFactory factory) throws Exception {
    in(factory, s -> {
      for (String[] row : new String[][] {{"DE", "Germany"}, {"NZ", "New Zealand"}}) {
        Country c = new Country();
        c.code = row[0];
        c.name = row[1];
        s.persist(c);
      }
      return null;
    });
    step("persist with cascade", () -> in(factory, s -> {
      Account a = account("one", s.getReference(Country.class, "DE"));
      s.persist(a);
      for (long n = 1; n <= 3; n++) s.persist(purchase(a, n, n));
      return a.id;
    }));
    step("persist of many, identity", () -> in(factory, s -> {
      Account last = null;
      for (int i = 0; i < 100; i++) s.persist(last = account("n" + i, s.getReference(Country.class, i % 2 == 0 ? "DE" : "NZ")));
      return last.id;
    }));
    step("batches of inserts", () -> in(factory, s -> {
      for (long i = 0; i < 300; i++) s.persist(purchase(s.getReference(Account.class, 2 + i % 100), i, i));
      for (long i = 0; i < 120; i++) {
        Event e = new Event();
        e.accountId = 1 + i % 40;
        e.what = "e" + i;
        s.persist(e);
      }
      return null;
    }));
    step("find, change, flush", () -> in(factory, s -> {
      Purchase p = s.find(Purchase.class, new PurchaseKey(1L, 2L));
      p.state = "changed";
      s.find(Account.class, 7L).name = "seven";
      s.flush();
      return List.of(p.version, s.find(Account.class, 7L).name);
    }));
    step("batches of updates, @PartitionKey in the condition", () -> in(factory, s -> {
      List<Event> events = s.createQuery("from Event order by id", Event.class).setMaxResults(50).getResultList();
      for (Event e : events) e.what = "changed";
      s.flush();
      s.remove(events.get(0));
      s.flush();
      return s.createQuery("select count(*) from Event where what = 'changed'", Long.class).getSingleResult();
    }));
    step("merge of a detached entity", () -> in(factory, s -> { Purchase p = purchase(s.getReference(Account.class, 1L), 2, 22); p.version = 1; return s.merge(p).version; }));
    step("stale version", () -> in(factory, s -> {
      Purchase p = s.find(Purchase.class, new PurchaseKey(1L, 3L));
      in(factory, other -> { other.find(Purchase.class, new PurchaseKey(1L, 3L)).state = "first"; return null; });
      p.state = "second";
      try {
        s.flush();
        return "no error";
      } catch (OptimisticLockException e) {
        return "found";
      } finally {
        s.clear();
      }
    }));
    step("upsert", () -> {
      try (StatelessSession s = factory.openStatelessSession()) {
        Transaction t = s.beginTransaction();
        Country c = new Country();
        c.code = "FR";
        c.name = "France";
        s.upsert(c);
        Account a = account("upserted", c);
        a.id = 5L;
        s.upsert(a);
        a.id = 6000L;
        s.upsert(a);
        t.commit();
      }
      return in(factory, s -> List.of(s.createQuery("select count(*) from Account where name = 'upserted'", Long.class).getSingleResult(), s.createQuery("select count(*) from Country", Long.class).getSingleResult()));
    });
    step("insert ... on conflict in HQL", () -> in(factory, s -> List.of(
        s.createMutationQuery("insert into Account (id, name) values (7, 'conflict'), (5000, 'new') on conflict (id) do update set name = excluded.name").executeUpdate(),
        s.createMutationQuery("insert into Account (id, name) values (7, 'x') on conflict (id) do nothing").executeUpdate())));
    step("update, delete of many", () -> in(factory, s -> List.of(s.createMutationQuery("update Purchase set state = 'old' where total < 50").executeUpdate(), s.createMutationQuery("delete Purchase where account.id in (90, 91)").executeUpdate())));
    step("remove with ON DELETE CASCADE", () -> in(factory, s -> { s.remove(s.find(Account.class, 89L)); s.flush(); return s.createQuery("select count(*) from Purchase where account.id = 89", Long.class).getSingleResult(); }));
    Function<Account, Object> show = a -> List.of(a.name, a.country.getName(), a.purchases.stream().map(p -> p.total.toString()).toList());
    step("join fetch", () -> in(factory, s -> s.createQuery("from Account a join fetch a.country left join fetch a.purchases p where a.id in (1, 2, 3) order by a.id, p.number", Account.class).getResultList().stream().map(show).toList()));
    step("lazy loading", () -> in(factory, s -> show.apply(s.find(Account.class, 4L))));
    step("pages", () -> in(factory, s -> List.of(s.createQuery("select number from Purchase where state = 'new' order by total desc, number", Long.class).setFirstResult(10).setMaxResults(5).getResultList(), s.createQuery("select number from Purchase where state = 'new'", Long.class).getResultCount())));
    step("group by, having", () -> in(factory, s -> s.createQuery("select state, count(*), sum(total) from Purchase group by state having count(*) > 1 order by state", Object[].class).getResultList()));
    step("exists, size", () -> in(factory, s -> List.of(s.createQuery("select count(*) from Account a where exists (select 1 from Purchase p where p.account = a and p.total > 290)", Long.class).getSingleResult(), s.createQuery("select count(*) from Account a where size(a.purchases) = 3", Long.class).getSingleResult())));
    step("window function, union", () -> in(factory, s -> s.createQuery("select max(r.n) from (select row_number() over (partition by p.account.id order by p.number) as n from Purchase p) r", Object[].class).getResultList().size()));
    step("scroll with a fetch size", () -> in(factory, s -> { try (var rows = s.createQuery("select number from Purchase order by number", Long.class).setFetchSize(50).scroll(ScrollMode.FORWARD_ONLY)) { int n = 0; while (rows.next()) n++; return n; } }));
  }

  static void transactions(SessionFactory factory) {
    step("savepoints", () -> in(factory, s -> s.doReturningWork(c -> {
      c.createStatement().executeUpdate("insert into account (id, name) values (8001, 'a')");
      Savepoint savepoint = c.setSavepoint();
      String state = "";
      try {
        c.createStatement().executeUpdate("insert into account (id, name) values (8001, 'b')");
      } catch (SQLException e) {
        state = e.getSQLState();
        c.rollback(savepoint);
      }
      return List.of(state, c.createStatement().executeUpdate("insert into account (id, name) values (8002, 'c')"));
    })));
    step("errors", () -> {
      List<Object> all = new ArrayList<>();
      for (String sql : List.of("insert into account (id, name) values (1, 'x')", "insert into purchase (account_id, number, total, version) values (1, 99, -1, 0)", "insert into account (name, country_code) values ('x', '??')")) {
        try {
          all.add(in(factory, s -> s.createNativeMutationQuery(sql).executeUpdate()));
        } catch (PersistenceException e) {
          all.add(errorOf(e));
        }
      }
      return all;
    });
    Action<Object> free = s -> s.createQuery("from Purchase where state = 'new' order by account.id, number", Purchase.class).setMaxResults(3).setHibernateLockMode(LockMode.UPGRADE_SKIPLOCKED).getResultList().stream().map(p -> p.number).toList();
    step("UPGRADE_SKIPLOCKED", () -> in(factory, s -> List.of(free.run(s), in(factory, free))));
    step("PESSIMISTIC_WRITE, PESSIMISTIC_READ", () -> in(factory, s -> List.of(s.find(Purchase.class, new PurchaseKey(1L, 1L), LockModeType.PESSIMISTIC_WRITE).state, s.find(Account.class, 5L, LockModeType.PESSIMISTIC_READ).name)));
    step("PESSIMISTIC_FORCE_INCREMENT", () -> in(factory, s -> s.find(Purchase.class, new PurchaseKey(1L, 1L), LockModeType.PESSIMISTIC_FORCE_INCREMENT).version));
  }
}
