// sequelize6.js - Sequelize 6: models and migrations, bulk statements, upserts, transactions, eager loading

const { Sequelize, DataTypes, Op, Transaction } = require("sequelize");
const { address, errorOf, refused, sharded, step } = require("./tap");

const db = new Sequelize({ dialect: "postgres", ...address, username: address.user, logging: process.env.TRACE ? console.error : false, define: { timestamps: false, underscored: true } });

const Country = db.define("country", { code: { type: DataTypes.STRING(2), primaryKey: true }, name: DataTypes.TEXT }, { tableName: "country" });
const Account = db.define("account", { id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true }, name: DataTypes.TEXT, doc: DataTypes.JSONB }, { tableName: "account" });
const Order = db.define(
  "order",
  {
    accountId: { type: DataTypes.BIGINT, primaryKey: true },
    id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
    total: { type: DataTypes.DECIMAL(12, 2), defaultValue: 0 },
    state: { type: DataTypes.STRING(10), defaultValue: "new" },
    note: DataTypes.TEXT,
  },
  { tableName: "orders", indexes: [{ fields: ["state"] }], version: true },
);
Account.belongsTo(Country, { foreignKey: "countryCode", onDelete: "NO ACTION" });
Account.hasMany(Order, { foreignKey: "accountId", onDelete: "CASCADE" });
Order.belongsTo(Account, { foreignKey: "accountId" });

async function migrations() {
  const q = db.getQueryInterface();
  await step("sync() makes tables with foreign keys", async () => (await db.sync(), (await q.showAllTables()).filter((t) => !String(t).includes("shardfdw")).length));
  if (sharded) {
    await db.query("SELECT shardfdw.create_reference_table('country')");
    await db.query("SELECT shardfdw.shard_tables('{account,orders}', 'account_id', shards => 4)");
  }
  // Sequelize does not see the indexes of a partitioned table, and the foreign keys of shards.
  await refused("sync() again", "42P07", () => db.sync());
  await refused("sync() with alter", "42710", () => db.sync({ alter: true }));
  await step("addColumn with a default", async () => (await q.addColumn("orders", "origin", { type: DataTypes.TEXT, defaultValue: "none", allowNull: false }), true));
  await step("changeColumn", async () => (await q.changeColumn("orders", "state", { type: DataTypes.STRING(20), allowNull: false, defaultValue: "new" }), true));
  await step("renameColumn, removeColumn", async () => {
    await q.addColumn("orders", "a", { type: DataTypes.INTEGER });
    await q.renameColumn("orders", "a", "b");
    await q.removeColumn("orders", "b");
    return Object.keys(await q.describeTable("orders"));
  });
  await step("addIndex", async () => (await q.addIndex("orders", ["note"], { name: "orders_note" }), true));
  await step("addIndex concurrently", async () => (await q.addIndex("orders", ["total"], { name: "orders_total", concurrently: true }), true));
  await step("addConstraint CHECK", async () => (await q.addConstraint("orders", { type: "check", fields: ["total"], name: "total_check", where: { total: { [Op.gte]: 0 } } }), true));
  await step("addConstraint UNIQUE with the shard key", async () => (await q.addConstraint("orders", { type: "unique", fields: ["account_id", "id", "state"], name: "orders_unique" }), true));
  await refused("addConstraint UNIQUE without the shard key", "0A000", () => q.addConstraint("orders", { type: "unique", fields: ["note"], name: "note_unique" }));
  await step("describeTable", async () => Object.entries(await q.describeTable("orders")).map(([name, c]) => [name, c.type, c.allowNull, c.primaryKey]));
  await step("createTable, dropTable", async () => {
    await q.createTable("later", { id: { type: DataTypes.INTEGER, primaryKey: true }, v: DataTypes.TEXT });
    if (sharded) await db.query("SELECT shardfdw.shard_table('later', shards => 4)");
    await q.bulkInsert("later", [{ id: 1, v: "a" }, { id: 2, v: "b" }]);
    await q.dropTable("later");
    return q.tableExists("later");
  });
}

async function statements() {
  await Country.bulkCreate([{ code: "DE", name: "Germany" }, { code: "NZ", name: "New Zealand" }]);
  let one;
  await step("create", async () => ((one = await Account.create({ name: "one", countryCode: "DE", doc: { a: [1] } })), [one.id, one.doc]));
  await step("bulkCreate with returning", async () => (await Account.bulkCreate([...Array(100).keys()].map((i) => ({ name: `n${i}`, countryCode: i % 2 ? "DE" : "NZ" })), { returning: true })).map((a) => a.id));
  await step("bulkCreate of orders", async () => (await Order.bulkCreate([...Array(300).keys()].map((i) => ({ accountId: 1 + (i % 100), total: i })))).length);
  await step("findByPk, save, reload", async () => {
    const account = await Account.findByPk(7);
    account.name = "seven";
    await account.save();
    return (await account.reload()).name;
  });
  await step("upsert", async () => {
    const [a] = await Account.upsert({ id: 7, name: "upserted" });
    const [b] = await Account.upsert({ id: 5000, name: "inserted" });
    return [a.name, b.name, await Account.count()];
  });
  await step("bulkCreate with updateOnDuplicate", async () => {
    await Account.bulkCreate([7, 8, 6000].map((id) => ({ id, name: `bulk ${id}` })), { updateOnDuplicate: ["name"] });
    return (await Account.findAll({ where: { id: [7, 8, 6000] }, order: ["id"] })).map((a) => a.name);
  });
  await step("bulkCreate with ignoreDuplicates", async () => (await Account.bulkCreate([{ id: 7, name: "x" }, { id: 6001, name: "y" }], { ignoreDuplicates: true }), Account.count()));
  await step("findOrCreate", async () => {
    const made = await Account.findOrCreate({ where: { id: 7001 }, defaults: { name: "made" } });
    const found = await Account.findOrCreate({ where: { id: 7001 }, defaults: { name: "again" } });
    return [made[1], found[1], found[0].name];
  });
  await step("update of many", () => Order.update({ state: "old" }, { where: { total: { [Op.lt]: 50 } } }));
  await step("update with returning", async () => (await Account.update({ name: "r" }, { where: { id: [1, 2] }, returning: true }))[1].map((a) => a.id).sort());
  await step("increment", async () => (await Order.increment({ total: 5 }, { where: { accountId: 3 } }), Order.sum("total", { where: { accountId: 3 } })));
  await step("optimistic locking", async () => {
    const [a, b] = [await Order.findOne({ where: { accountId: 4 }, order: ["id"] }), await Order.findOne({ where: { accountId: 4 }, order: ["id"] })];
    await a.update({ note: "first" });
    return errorOf(() => b.update({ note: "second" }));
  });
  await step("destroy", () => Order.destroy({ where: { accountId: [90, 91] } }));
  await step("destroy with ON DELETE CASCADE", async () => (await Account.destroy({ where: { id: 89 } }), Order.count({ where: { accountId: 89 } })));
  await step("include", async () => (await Account.findAll({ include: [Country, Order], where: { id: [1, 2, 3] }, order: ["id", [Order, "id", "ASC"]] })).map((a) => [a.name, a.country.name, a.orders.map((o) => o.total)]));
  await step("include with limit", async () => (await Account.findAll({ include: [{ model: Order, where: { total: { [Op.gt]: 100 } } }], order: ["id"], limit: 3, offset: 2 })).map((a) => [a.id, a.orders.length]));
  await step("findAndCountAll", async () => {
    const page = await Order.findAndCountAll({ where: { state: "new" }, order: [["total", "DESC"], ["id", "ASC"]], limit: 5, offset: 10 });
    return [page.count, page.rows.map((o) => o.id)];
  });
  await step("aggregates", async () => [await Order.max("total"), await Order.count({ distinct: true, col: "state" }), await Order.findAll({ attributes: ["state", [db.fn("count", "*"), "n"], [db.fn("sum", db.col("total")), "s"]], group: "state", order: ["state"], raw: true })]);
}

async function transactions() {
  await step("a transaction, rolled back", async () => {
    await db.transaction(async (transaction) => (await Order.update({ note: "gone" }, { where: {}, transaction }), Promise.reject(new Error("stop")))).catch(() => 0);
    return Order.count({ where: { note: "gone" } });
  });
  await step("savepoints", () =>
    db.transaction(async (transaction) => {
      await Account.create({ id: 8001, name: "a" }, { transaction });
      const error = await errorOf(() => db.transaction({ transaction }, (nested) => Account.create({ id: 8001, name: "b" }, { transaction: nested })));
      await Account.create({ id: 8002, name: "c" }, { transaction });
      return [error, await Account.count({ where: { id: [8001, 8002] }, transaction })];
    }),
  );
  await step("UniqueConstraintError", () => Account.create({ id: 1, name: "x" }).catch((e) => [e.name, e.errors.map((i) => i.path)]));
  await step("ForeignKeyConstraintError", () => Account.create({ name: "x", countryCode: "??" }).catch((e) => [e.name, e.table]));
  await step("lock, skipLocked", () =>
    db.transaction(async (transaction) => {
      const taken = await Order.findAll({ where: { state: "new" }, order: ["accountId", "id"], limit: 3, lock: Transaction.LOCK.UPDATE, skipLocked: true, transaction });
      const rest = await db.transaction((other) => Order.findAll({ where: { state: "new" }, order: ["accountId", "id"], limit: 3, lock: true, skipLocked: true, transaction: other }));
      return [taken, rest].map((rows) => rows.map((o) => o.id));
    }),
  );
  await step("isolation level", () => db.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, (transaction) => Order.count({ transaction })));
  await step("truncate, drop", async () => (await Order.truncate(), await Order.count(), await Order.drop(), true));
}

(async () => {
  await migrations();
  await statements();
  await transactions();
  await db.close();
})();
