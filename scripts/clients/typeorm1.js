// typeorm1.js - TypeORM 1: entities and migrations, the repository's statements, query builder, transactions, streams

require("reflect-metadata");
const { DataSource, EntitySchema, Table, TableCheck, TableColumn, TableIndex, TableUnique, In, MoreThan } = require("typeorm");
const { address, errorOf, refused, sharded, step } = require("./tap");

const Country = new EntitySchema({ name: "Country", tableName: "country", columns: { code: { type: "varchar", length: 2, primary: true }, name: { type: "text" } } });
const Account = new EntitySchema({
  name: "Account",
  tableName: "account",
  columns: { id: { type: "bigint", primary: true, generated: "increment" }, name: { type: "text" }, doc: { type: "jsonb", nullable: true }, created: { type: "timestamptz", createDate: true } },
  relations: {
    country: { type: "many-to-one", target: "Country", joinColumn: { name: "country_code" }, nullable: true },
    orders: { type: "one-to-many", target: "Order", inverseSide: "account" },
  },
});
const Order = new EntitySchema({
  name: "Order",
  tableName: "orders",
  columns: {
    account_id: { type: "bigint", primary: true },
    id: { type: "bigint", primary: true, generated: "increment" },
    total: { type: "numeric", precision: 12, scale: 2, default: 0 },
    state: { type: "varchar", length: 10, default: "new" },
    note: { type: "text", nullable: true },
    version: { type: "int", version: true },
  },
  relations: { account: { type: "many-to-one", target: "Account", joinColumn: { name: "account_id" }, inverseSide: "orders", onDelete: "CASCADE" } },
  indices: [{ name: "orders_state", columns: ["state"] }],
});
const Setting = new EntitySchema({ name: "Setting", tableName: "setting", columns: { account_id: { type: "bigint", primary: true }, key: { type: "text", primary: true }, value: { type: "text" } } });
const db = new DataSource({ type: "postgres", ...address, username: address.user, entities: [Country, Account, Order, Setting], logging: Boolean(process.env.TRACE) });
const [countries, accounts, orders, settings] = [Country, Account, Order, Setting].map((entity) => db.getRepository(entity));
const range = (n) => [...Array(n).keys()];

async function migrations() {
  await step("synchronize() makes tables with foreign keys", async () => (await db.synchronize(), (await db.driver.createSchemaBuilder().log()).upQueries.length));
  if (sharded) {
    await db.query("SELECT shardfdw.create_reference_table('country')");
    await db.query("SELECT shardfdw.shard_tables('{account,orders,setting}', 'account_id', shards => 4)");
  }
  // TypeORM does not see the foreign keys of shards.
  if (sharded) {
    const queries = (await db.driver.createSchemaBuilder().log()).upQueries.map((q) => q.query);
    const onlyKeys = queries.length === 2 && queries.every((q) => / ADD CONSTRAINT .* FOREIGN KEY /.test(q));
    console.log(onlyKeys ? "ok - only foreign keys differ from the entities" : `not ok - differences from the entities: ${queries.join("; ")}`);
  }
  await refused("synchronize() again", "42710", () => db.synchronize());
  const q = db.createQueryRunner();
  const table = async () => await q.getTable("orders");
  await step("addColumn with a default", async () => (await q.addColumn("orders", new TableColumn({ name: "origin", type: "text", default: "'none'" })), (await table()).findColumnByName("origin").default));
  await step("changeColumn", async () => {
    await q.changeColumn("orders", "origin", new TableColumn({ name: "source", type: "text", default: "'web'", isNullable: true }));
    return (await table()).columns.map((c) => [c.name, c.type, c.isNullable, c.isPrimary]);
  });
  await step("dropColumn", async () => (await q.dropColumn("orders", "source"), (await table()).columns.length));
  await step("createIndex", async () => (await q.createIndex("orders", new TableIndex({ name: "orders_note", columnNames: ["note"] })), true));
  await step("createIndex of an expression", async () => (await q.query("CREATE INDEX orders_upper ON orders (upper(note)) WHERE state = 'new'"), true));
  await step("CREATE INDEX CONCURRENTLY", async () => (await q.query("CREATE INDEX CONCURRENTLY orders_total ON orders (total)"), true));
  await step("createCheckConstraint", async () => (await q.createCheckConstraint("orders", new TableCheck({ name: "orders_check", expression: "total >= 0" })), (await table()).checks.map((c) => c.expression)));
  await step("createUniqueConstraint with the shard key", async () => (await q.createUniqueConstraint("orders", new TableUnique({ name: "orders_unique", columnNames: ["account_id", "id", "state"] })), (await table()).uniques.map((u) => u.name)));
  await refused("createUniqueConstraint without the shard key", "0A000", () => q.createUniqueConstraint("orders", new TableUnique({ name: "u", columnNames: ["note"] })));
  await step("getTable: indexes", async () => (await table()).indices.map((i) => [i.name, i.columnNames]).sort());
  await step("createTable, dropTable", async () => {
    await q.createTable(new Table({ name: "later", columns: [{ name: "id", type: "int", isPrimary: true }, { name: "v", type: "text" }] }));
    if (sharded) await q.query("SELECT shardfdw.shard_table('later', shards => 4)");
    await q.query("INSERT INTO later VALUES (1, 'a'), (2, 'b')");
    await q.dropTable("later");
    return q.hasTable("later");
  });
  await q.release();
}

async function statements() {
  await countries.insert([{ code: "DE", name: "Germany" }, { code: "NZ", name: "New Zealand" }]);
  await step("save of a new entity", async () => (({ id, doc }) => [id, doc])(await accounts.save({ name: "one", country: { code: "DE" }, doc: { a: [1] } })));
  await step("save of many", async () => (await accounts.save(range(100).map((i) => ({ name: `n${i}`, country: { code: i % 2 ? "DE" : "NZ" } })))).map((a) => a.id));
  await step("insert of many", async () => (await orders.insert(range(300).map((i) => ({ account_id: 1 + (i % 100), total: i })))).identifiers.length);
  await step("save with cascaded order", async () => {
    const account = await accounts.findOneByOrFail({ id: 7 });
    account.name = "seven";
    await accounts.save(account);
    return (await accounts.findOneBy({ id: 7 })).name;
  });
  const setting = (n, value) => ({ account_id: n, key: "k", value });
  await step("upsert", async () => {
    await settings.insert(range(10).map((i) => setting(i, "old")));
    await settings.upsert([setting(7, "new"), setting(11, "new")], ["account_id", "key"]);
    return (await settings.find({ order: { account_id: "ASC" } })).map((s) => [s.account_id, s.value]);
  });
  await step("orIgnore, orUpdate", async () => {
    await settings.createQueryBuilder().insert().values([setting(7, "x"), setting(12, "y")]).orIgnore().execute();
    await settings.createQueryBuilder().insert().values([setting(1, "z"), setting(13, "z")]).orUpdate(["value"], ["account_id", "key"]).execute();
    return [await settings.count(), await settings.countBy({ value: "z" })];
  });
  await step("update", async () => (await orders.update({ total: MoreThan(250) }, { state: "big" })).affected);
  await step("update with returning", async () => (await accounts.createQueryBuilder().update().set({ name: () => "upper(name)" }).where("id <= 3").returning("id, name").execute()).raw.sort((a, b) => a.id - b.id));
  await step("increment", async () => (await orders.increment({ account_id: 3 }, "total", 5), orders.sum("total", { account_id: 3 })));
  await step("version column", async () => {
    const order = await orders.findOneByOrFail({ account_id: 4, id: 4 });
    order.note = "changed";
    return (await orders.save(order)).version;
  });
  await step("delete", async () => (await orders.delete({ account_id: In([90, 91]) })).affected);
  await step("remove with ON DELETE CASCADE", async () => (await accounts.remove(await accounts.findOneByOrFail({ id: 89 })), orders.countBy({ account_id: 89 })));
  await step("relations", async () => (await accounts.find({ where: { id: In([1, 2, 3]) }, relations: { country: true, orders: true }, order: { id: "ASC", orders: { id: "ASC" } } })).map((a) => [a.name, a.country.name, a.orders.map((o) => o.total)]));
  await step("relations with take and skip", async () => (await accounts.find({ relations: { orders: true }, order: { id: "ASC" }, take: 3, skip: 2 })).map((a) => [a.id, a.orders.length]));
  await step("findAndCount", async () => (([rows, n]) => [n, rows.map((o) => o.id)])(await orders.findAndCount({ where: { state: "new" }, order: { total: "DESC", id: "ASC" }, take: 5, skip: 10 })));
  await step("aggregates", async () => [await orders.maximum("total"), await orders.createQueryBuilder("o").select("state").addSelect("count(*)", "n").addSelect("sum(total)", "s").groupBy("state").having("count(*) > 1").orderBy("state").getRawMany()]);
  await step("sub-query and join", () =>
    accounts.createQueryBuilder("a").innerJoin("a.country", "c").where((qb) => `a.id IN ${qb.subQuery().select("o.account_id").from(Order, "o").where("o.total > 290").getQuery()}`).andWhere("c.code = :code", { code: "DE" }).orderBy("a.id").select("a.id", "id").getRawMany());
}

async function transactions() {
  await step("a transaction, rolled back", async () => {
    await db.transaction(async (m) => (await m.update(Order, { state: "new" }, { note: "gone" }), Promise.reject(new Error("stop")))).catch(() => 0);
    return orders.countBy({ note: "gone" });
  });
  await step("savepoints", () =>
    db.transaction(async (m) => {
      const row = (n) => ({ account_id: n, key: "savepoint", value: "v" });
      await m.insert(Setting, row(1));
      const error = await errorOf(() => m.transaction((nested) => nested.insert(Setting, row(1))));
      await m.insert(Setting, row(2));
      return [error, await m.countBy(Setting, { key: "savepoint" })];
    }),
  );
  await step("errors of constraints", async () => {
    const of = (action) => action.catch((e) => [e.name, e.driverError.code, e.driverError.table, e.driverError.constraint]);
    return [(await of(settings.insert({ account_id: 1, key: "k", value: "x" }))).slice(0, 3), await of(orders.insert({ account_id: 1, total: -1 })), (await of(accounts.insert({ name: "x", country: { code: "??" } }))).slice(0, 3)];
  });
  const free = (m) => m.find(Order, { select: { account_id: true, id: true }, where: { state: "new" }, order: { account_id: "ASC", id: "ASC" }, take: 3, lock: { mode: "pessimistic_write", onLocked: "skip_locked" } });
  await step("pessimistic_write, skip_locked", () => db.transaction(async (one) => [await free(one), await db.transaction(free)].map((rows) => rows.map((o) => o.id))));
  await step("pessimistic_read", () => db.transaction(async (m) => (await m.findOne(Account, { where: { id: 5 }, lock: { mode: "pessimistic_read" } })).id));
  await step("SERIALIZABLE", () => db.transaction("SERIALIZABLE", (m) => m.count(Order)));
  await step("clear, drop", async () => (await orders.clear(), await orders.count(), await db.query("DROP TABLE orders"), true));
}

(async () => {
  await db.initialize();
  await migrations();
  await statements();
  await transactions();
  await db.destroy();
})();
