// prisma7.js - Prisma 7 with its adapter for node-postgres: the client's statements on the models of prisma7.prisma

const { PrismaClient, Prisma } = require("@prisma/client");
const { PrismaPg } = require("@prisma/adapter-pg");
const { errorOf, refused, sharded, step, url } = require("./tap");

const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }), log: process.env.TRACE ? ["query"] : [] });
const range = (n) => [...Array(n).keys()];
BigInt.prototype.toJSON = function () {
  return Number(this);
};

// The migration is as "prisma migrate" writes it. The lines after it are a migration that the user writes.
const migration = [
  `CREATE TABLE "country" ("code" VARCHAR(2) NOT NULL, "name" TEXT NOT NULL, CONSTRAINT "country_pkey" PRIMARY KEY ("code"))`,
  `CREATE TABLE "account" ("id" BIGSERIAL NOT NULL, "name" TEXT NOT NULL, "doc" JSONB, "country_code" VARCHAR(2), CONSTRAINT "account_pkey" PRIMARY KEY ("id"))`,
  `CREATE TABLE "orders" ("account_id" BIGINT NOT NULL, "id" BIGSERIAL NOT NULL, "total" DECIMAL(12,2) NOT NULL DEFAULT 0, "state" TEXT NOT NULL DEFAULT 'new', CONSTRAINT "orders_pkey" PRIMARY KEY ("account_id","id"))`,
  `CREATE INDEX "orders_state_idx" ON "orders"("state")`,
  `ALTER TABLE "account" ADD CONSTRAINT "account_country_code_fkey" FOREIGN KEY ("country_code") REFERENCES "country"("code") ON DELETE SET NULL ON UPDATE CASCADE`,
  `ALTER TABLE "orders" ADD CONSTRAINT "orders_account_id_fkey" FOREIGN KEY ("account_id") REFERENCES "account"("id") ON DELETE CASCADE ON UPDATE CASCADE`,
];
const shard = [`SELECT shardfdw.create_reference_table('country')`, `SELECT shardfdw.shard_tables('{account,orders}', 'account_id', shards => 4)`];

async function migrations() {
  await step("the first migration", async () => {
    for (const sql of migration) await db.$executeRawUnsafe(sql);
    return true;
  });
  if (sharded) for (const sql of shard) await db.$executeRawUnsafe(sql);
  await step("later migrations", async () => {
    await db.$executeRawUnsafe(`ALTER TABLE "orders" ADD COLUMN "note" TEXT, ADD COLUMN "a" INTEGER NOT NULL DEFAULT 0`);
    await db.$executeRawUnsafe(`ALTER TABLE "orders" DROP COLUMN "a", ALTER COLUMN "state" SET DATA TYPE VARCHAR(20)`);
    await db.$executeRawUnsafe(`CREATE UNIQUE INDEX "orders_account_id_note_key" ON "orders"("account_id", "note")`);
    return true;
  });
  await refused("a unique index without the shard key", "P2010", () => db.$executeRawUnsafe(`CREATE UNIQUE INDEX "orders_note_key" ON "orders"("note")`));
}

async function statements() {
  await db.country.createMany({ data: [{ code: "DE", name: "Germany" }, { code: "NZ", name: "New Zealand" }] });
  await step("create", () => db.account.create({ data: { name: "one", doc: { a: [1] }, countryCode: "DE" } }));
  await step("create with related rows", () => db.account.create({ data: { name: "two", country: { connect: { code: "NZ" } }, orders: { create: [{ total: 1 }, { total: 2 }] } }, include: { orders: { orderBy: { id: "asc" } }, country: true } }));
  await step("createMany, skipDuplicates", async () => [
    await db.account.createMany({ data: range(100).map((i) => ({ id: 100 + i, name: `n${i}`, countryCode: i % 2 ? "DE" : "NZ" })) }),
    await db.account.createMany({ data: range(105).map((i) => ({ id: 100 + i, name: "again" })), skipDuplicates: true }),
  ]);
  await step("createManyAndReturn", async () => (await db.order.createManyAndReturn({ data: range(300).map((i) => ({ accountId: 100 + (i % 100), total: i })) })).map((o) => o.id));
  await step("findUnique by a key of two columns", async () => (await db.order.findUnique({ where: { accountId_id: { accountId: 100, id: 3 } } }))?.total);
  await step("many findUnique, which are one query", async () => (await Promise.all(range(5).map((i) => db.account.findUnique({ where: { id: 100 + i } })))).map((a) => a.name));
  await step("upsert", async () => [await db.account.upsert({ where: { id: 100 }, update: { name: "updated" }, create: { id: 100, name: "made" } }), await db.account.upsert({ where: { id: 900 }, update: { name: "updated" }, create: { id: 900, name: "made" } })]);
  await step("update", () => db.order.update({ where: { accountId_id: { accountId: 100, id: 3 } }, data: { total: { increment: 5 }, note: "x" } }));
  await step("update of a row that is not there", () => errorOf(() => db.account.update({ where: { id: 12345 }, data: { name: "x" } })));
  await step("updateMany, updateManyAndReturn", async () => [await db.order.updateMany({ where: { total: { lt: 50 } }, data: { state: "old" } }), (await db.account.updateManyAndReturn({ where: { id: { lt: 103 } }, data: { name: "many" } })).map((a) => Number(a.id)).sort()]);
  await step("delete, deleteMany", async () => [await db.account.delete({ where: { id: 101 } }), await db.order.count({ where: { accountId: 101 } }), await db.order.deleteMany({ where: { accountId: { in: [102, 103] } } })]);
  await step("include, select", () => db.account.findMany({ where: { id: { in: [100, 104] } }, orderBy: { id: "asc" }, select: { name: true, country: true, orders: { select: { total: true }, orderBy: { total: "desc" }, take: 2 } } }));
  await step("filters on relations", () => db.account.findMany({ where: { orders: { some: { total: { gt: 296 } } }, country: { is: { name: "Germany" } } }, orderBy: { id: "asc" }, select: { id: true } }));
  await step("none, every", async () => [await db.account.count({ where: { orders: { none: {} } } }), await db.account.count({ where: { orders: { every: { state: "new" } } } })]);
  await step("order by a count of related rows", () => db.account.findMany({ orderBy: [{ orders: { _count: "desc" } }, { id: "asc" }], take: 2, select: { id: true, _count: { select: { orders: true } } } }));
  await step("pages, skip and cursor", async () => {
    const order = { orderBy: [{ accountId: "asc" }, { id: "asc" }], take: 5, select: { accountId: true, id: true } };
    const page = await db.order.findMany({ ...order, skip: 10 });
    return [page, await db.order.findMany({ ...order, skip: 1, cursor: { accountId_id: page[4] } })];
  });
  await step("aggregate, groupBy", async () => [await db.order.aggregate({ _sum: { total: true }, _max: { id: true }, _count: true }), await db.order.groupBy({ by: ["state"], _count: true, _avg: { total: true }, having: { total: { _avg: { gt: 1 } } }, orderBy: { state: "asc" } })]);
  await step("distinct, JSON filter", async () => [await db.order.findMany({ distinct: ["state"], select: { state: true }, orderBy: { state: "asc" } }), await db.account.count({ where: { doc: { path: ["a", "0"], equals: 1 } } })]);
  await step("$queryRaw", () => db.$queryRaw`SELECT a.name, sum(total)::text FROM account a JOIN orders o ON o.account_id = a.id WHERE a.id = ${104n} GROUP BY a.id`);
}

async function transactions() {
  await step("$transaction of a list", async () => (await db.$transaction([db.account.create({ data: { id: 1001, name: "a" } }), db.order.create({ data: { accountId: 1001, total: 3 } }), db.order.count()])).length);
  await step("$transaction, rolled back", async () => {
    const error = await errorOf(() => db.$transaction([db.order.updateMany({ data: { note: null } }), db.account.create({ data: { id: 1001, name: "twice" } })]));
    return [error, await db.order.count({ where: { note: "x" } })];
  });
  await step("interactive transaction, SELECT FOR UPDATE", () =>
    db.$transaction(
      async (tx) => {
        const rows = await tx.$queryRaw`SELECT account_id, id FROM orders WHERE state = 'new' ORDER BY account_id, id LIMIT 3 FOR UPDATE SKIP LOCKED`;
        for (const { account_id, id } of rows) await tx.order.update({ where: { accountId_id: { accountId: account_id, id } }, data: { state: "taken" } });
        return [rows, await tx.order.count({ where: { state: "taken" } })];
      },
      { isolationLevel: Prisma.TransactionIsolationLevel.RepeatableRead, timeout: 60000 },
    ),
  );
  await step("errors", async () => {
    const of = (action) => action.then(() => "no error", (e) => [e.code, e.meta?.modelName]);
    return [await of(db.account.create({ data: { id: 1, name: "x" } })), await of(db.order.create({ data: { accountId: 99999, total: 1 } })), await of(db.account.create({ data: { name: "x", countryCode: "??" } }))];
  });
}

(async () => {
  await migrations();
  await statements();
  await transactions();
  await db.$disconnect();
})();
