// River: jobs are on the coordinator, and write to a sharded table; 1,000 jobs, three clients, each job is done once
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"tryclients/tap"
)

const jobs = 1000

var ctx = context.Background()

type work struct {
	N int `json:"n"`
}

func (work) Kind() string { return "work" }

type worker struct {
	river.WorkerDefaults[work]
	pool *pgxpool.Pool
}

// Work writes a row. A job of a hundred fails the first time.
func (w *worker) Work(ctx context.Context, job *river.Job[work]) error {
	if job.Args.N%100 == 0 && job.Attempt == 1 {
		return errors.New("the first time")
	}
	_, err := w.pool.Exec(ctx, "INSERT INTO done VALUES ($1, $2)", job.Args.N, job.Attempt)
	return err
}

func (w *worker) NextRetry(*river.Job[work]) time.Time { return time.Now() }

func main() {
	pool, err := pgxpool.New(ctx, tap.URL+"?pool_max_conns=20")
	tap.Must(err)
	defer pool.Close()
	count := func(from string) (n int64) {
		tap.Must(pool.QueryRow(ctx, "SELECT count(*) FROM "+from).Scan(&n))
		return n
	}
	_, err = pool.Exec(ctx, "CREATE SCHEMA river; CREATE TABLE done (job int, attempt int, PRIMARY KEY (job, attempt))")
	tap.Must(err)
	driver := riverpgxv5.New(pool)
	migrate := func() (any, error) {
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: "river"})
		if err != nil {
			return nil, err
		}
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return nil, err
	}
	tap.Step("migrate", migrate)
	if tap.Sharded {
		_, err = pool.Exec(ctx, "SELECT shardfdw.shard_table('done', 'job', shards => 4)")
		tap.Must(err)
	}
	tap.Step("migrate again", migrate)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{pool: pool})
	var clients []*river.Client[pgx.Tx]
	for i := range 3 {
		client, err := river.NewClient(driver, &river.Config{
			ID: fmt.Sprintf("client%d", i), Schema: "river", Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5}},
			FetchPollInterval: 200 * time.Millisecond, FetchCooldown: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		tap.Must(err)
		clients = append(clients, client)
	}
	tap.Step("Insert, InsertMany", func() (any, error) {
		if _, err := clients[0].Insert(ctx, work{0}, nil); err != nil {
			return nil, err
		}
		var many []river.InsertManyParams
		for i := 1; i < jobs; i++ {
			many = append(many, river.InsertManyParams{Args: work{i}})
		}
		_, err := clients[0].InsertMany(ctx, many)
		return count("river.river_job"), err
	})
	tap.Step("a unique job is inserted once", func() (any, error) {
		once := &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour), UniqueOpts: river.UniqueOpts{ByArgs: true}}
		first, err := clients[0].Insert(ctx, work{-1}, once)
		if err != nil {
			return nil, err
		}
		second, err := clients[0].Insert(ctx, work{-1}, once)
		if err != nil {
			return nil, err
		}
		return []bool{first.UniqueSkippedAsDuplicate, second.UniqueSkippedAsDuplicate}, nil
	})
	tap.Step("a job and a row of one transaction, rolled back", func() (any, error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO done VALUES (-2, 1)"); err != nil {
			return nil, err
		}
		if _, err := clients[0].InsertTx(ctx, tx, work{-2}, nil); err != nil {
			return nil, err
		}
		err = tx.Rollback(ctx)
		return []int64{count("done"), count("river.river_job")}, err
	})
	for _, client := range clients {
		tap.Must(client.Start(ctx))
	}
	for i := 0; i < 3000 && count("river.river_job WHERE state = 'completed'") < jobs; i++ {
		time.Sleep(100 * time.Millisecond)
	}
	tap.Step("each job is done once, some the second time", func() (any, error) {
		rows, err := pool.Query(ctx, "SELECT attempt, count(*), count(DISTINCT job) FROM done GROUP BY attempt ORDER BY attempt")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (any, error) { return row.Values() })
	})
	tap.Step("states", func() (any, error) {
		rows, err := pool.Query(ctx, "SELECT state::text, count(*) FROM river.river_job GROUP BY 1 ORDER BY 1")
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (any, error) { return row.Values() })
	})
	for _, client := range clients {
		tap.Must(client.Stop(ctx))
	}
	tap.Refused("inserting jobs after shard_schema(), because a unique index has a condition with a function", "0A000", func() error {
		if _, err := pool.Exec(ctx, "SELECT shardfdw.shard_schema('river')"); err != nil {
			return err
		}
		_, err := clients[0].Insert(ctx, work{-3}, nil)
		return err
	})
}
