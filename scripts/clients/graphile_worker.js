// graphile_worker.js - graphile-worker 0.17: jobs are on the coordinator, and write to a sharded table; each is done once

const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Pool } = require("pg");
const { refused, sharded, step, url } = require("./tap");

const JOBS = 1000;
const pool = new Pool({ connectionString: url, max: 40 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const query = async (sql) => (await pool.query(sql)).rows;
const count = async (from) => Number((await query(`SELECT count(*) FROM ${from}`))[0].count);

async function until(condition) {
  for (let i = 0; i < 3000 && !(await condition()); i++) await new Promise((resolve) => setTimeout(resolve, 50));
}

// A job of a hundred fails the first time.
async function work({ n }, { job, withPgClient }) {
  if (n % 100 === 0 && job.attempts === 1) throw new Error("the first time");
  await withPgClient((client) => client.query("INSERT INTO done VALUES ($1, $2)", [n, job.attempts]));
}

(async () => {
  await query("CREATE TABLE done (job int, attempt int, PRIMARY KEY (job, attempt))");
  if (sharded) await query("SELECT shardfdw.shard_table('done', shards => 4)");
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await step("migrate", async () => (await utils.migrate(), await utils.migrate(), true));
  await refused("shard_schema() of a schema whose functions return rows of its tables", "2BP01", () => query("SELECT shardfdw.shard_schema('graphile_worker')"));
  await step("addJob, addJobs", async () => {
    await utils.addJob("work", { n: 0 });
    await utils.addJobs([...Array(JOBS - 1).keys()].map((n) => ({ identifier: "work", payload: { n: n + 1 } })));
    return count("graphile_worker.jobs");
  });
  await step("a job key replaces a job", async () => {
    const runAt = new Date(Date.now() + 3600000);
    for (const v of [1, 2]) await utils.addJob("later", { v }, { jobKey: "k", runAt });
    return count("graphile_worker.jobs WHERE key = 'k'");
  });
  await step("a job and a row of one transaction, rolled back", async () => {
    const client = await pool.connect();
    await client.query("BEGIN; INSERT INTO done VALUES (-1, 1)");
    await client.query("SELECT graphile_worker.add_job('work', '{\"n\": -2}')");
    await client.query("ROLLBACK");
    client.release();
    return [await count("done"), await count("graphile_worker.jobs")];
  });
  const runners = await Promise.all([...Array(4)].map(() => run({ pgPool: pool, logger, concurrency: 4, noHandleSignals: true, pollInterval: 200, taskList: { work } })));
  await until(async () => (await count("done")) >= JOBS - 10);
  await query("SELECT graphile_worker.reschedule_jobs(ARRAY[id], now()) FROM graphile_worker.jobs WHERE task_identifier = 'work'");
  await until(async () => (await count("graphile_worker.jobs")) <= 1);
  await step("each job is done once, some the second time", () => query("SELECT attempt, count(*), count(DISTINCT job) FROM done GROUP BY attempt ORDER BY attempt"));
  await Promise.all(runners.map((runner) => runner.stop()));
  await step("what is left", () => query("SELECT task_identifier FROM graphile_worker.jobs"));
  await utils.release();
  await pool.end();
})();
