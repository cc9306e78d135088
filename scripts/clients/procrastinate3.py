"""procrastinate3.py - Procrastinate 3: jobs are on the coordinator, and write to a sharded table; each is done once"""

import asyncio

import procrastinate
import psycopg

from answers import SHARDED, URL, refused, step

JOBS = 1000
connection = psycopg.connect(f"postgresql://{URL}", autocommit=True)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=f"postgresql://{URL}", min_size=2, max_size=15))


def rows(sql):
    return connection.execute(sql).fetchall()


@app.task(name="work", retry=procrastinate.RetryStrategy(max_attempts=2, wait=0), pass_context=True)
async def work(context, n):
    """Writes a row. A job of a hundred fails the first time."""
    if n % 100 == 0 and context.job.attempts == 0:
        raise ValueError("the first time")
    async with app.connector.pool.connection() as own:
        await own.execute("INSERT INTO done VALUES (%s, %s)", [n, context.job.attempts])


async def defer():
    await work.defer_async(n=0)
    await work.batch_defer_async(*[{"n": n} for n in range(1, JOBS)])


async def defer_twice():
    later = work.configure(queueing_lock="once", schedule_in={"hours": 1})
    await later.defer_async(n=-1)
    try:
        await later.defer_async(n=-1)
    except procrastinate.exceptions.AlreadyEnqueued:
        return "AlreadyEnqueued"
    return "twice"


async def work_all():
    await asyncio.gather(*[app.run_worker_async(concurrency=4, wait=False, install_signal_handlers=False, listen_notify=True, name=f"worker {i}") for i in range(3)])


async def main():
    connection.execute("CREATE TABLE done (job int, attempt int, PRIMARY KEY (job, attempt))")
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        if SHARDED:
            connection.execute("SELECT shardfdw.shard_table('done', shards => 4)")
        refused("shard_table() of the table of jobs", "0A000", lambda: connection.execute("SELECT shardfdw.shard_table('procrastinate_jobs')"))
        await defer()
        step("jobs", lambda: rows("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY status"))
        twice = await defer_twice()
        step("a queueing lock", lambda: twice)
        await work_all()
        step("each job is done once, some the second time", lambda: rows("SELECT attempt, count(*), count(DISTINCT job) FROM done GROUP BY attempt ORDER BY attempt"))
        step("states", lambda: rows("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY status ORDER BY status::text"))


asyncio.run(main())
