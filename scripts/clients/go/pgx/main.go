// pgx 5: parameters in all modes, batches, COPY, transactions with savepoints, errors, pools
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"tryclients/tap"
)

var ctx = context.Background()

type order struct {
	AccountID int64
	ID        int64
	Total     float64
	State     string
	Tags      []string
	Doc       map[string]int
	At        time.Time
}

const columns = "account_id, id, total, state, tags, doc, at"

func rows(n int) [][]any {
	var all [][]any
	for i := range n {
		all = append(all, []any{int64(i % 50), int64(i), float64(i) / 4, "new", []string{"a", fmt.Sprint(i)}, map[string]int{"i": i}, time.Unix(int64(i), 0).UTC()})
	}
	return all
}

func main() {
	pool, err := pgxpool.New(ctx, tap.URL)
	tap.Must(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, "CREATE TABLE orders (account_id bigint, id bigint, total float8, state text DEFAULT 'new', tags text[], doc jsonb, at timestamptz, PRIMARY KEY (account_id, id))")
	tap.Must(err)
	if tap.Sharded {
		_, err = pool.Exec(ctx, "SELECT shardfdw.shard_table('orders', 'account_id', shards => 4)")
		tap.Must(err)
	}
	tap.Step("CopyFrom", func() (any, error) {
		return pool.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"account_id", "id", "total", "state", "tags", "doc", "at"}, pgx.CopyFromRows(rows(1000)))
	})
	read := func(args ...any) (any, error) {
		found, err := pool.Query(ctx, "SELECT "+columns+" FROM orders WHERE account_id = $1 AND id < $2 ORDER BY id", args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(found, pgx.RowToStructByPos[order])
	}
	tap.Step("rows as structs", func() (any, error) { return read(7, 200) })
	for name, mode := range map[string]pgx.QueryExecMode{"cache statement": pgx.QueryExecModeCacheStatement, "cache describe": pgx.QueryExecModeCacheDescribe, "describe exec": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol} {
		tap.Step("mode "+name, func() (any, error) {
			var n, id int64
			err := pool.QueryRow(ctx, "SELECT count(*) FROM orders WHERE tags @> $1 AND at >= $2", mode, []string{"a"}, time.Unix(500, 0)).Scan(&n)
			if err == nil {
				err = pool.QueryRow(ctx, "INSERT INTO orders VALUES ($1, $2, 1) ON CONFLICT (account_id, id) DO UPDATE SET total = excluded.total RETURNING id", mode, 7, 5000).Scan(&id)
			}
			return []int64{n, id}, err
		})
	}
	tap.Step("a prepared statement, executed ten times", func() (any, error) {
		var sum float64
		for i := range 10 {
			var total float64
			if err := pool.QueryRow(ctx, "SELECT sum(total) FROM orders WHERE account_id = $1", i).Scan(&total); err != nil {
				return nil, err
			}
			sum += total
		}
		return sum, nil
	})
	tap.Step("SendBatch", func() (any, error) {
		batch := &pgx.Batch{}
		for i := range 100 {
			batch.Queue("INSERT INTO orders (account_id, id, total) VALUES ($1, $2, $3)", 100+i%10, i, i)
		}
		batch.Queue("UPDATE orders SET state = 'batch' WHERE account_id = $1", 101)
		batch.Queue("SELECT count(*), sum(total) FROM orders WHERE account_id >= 100")
		results := pool.SendBatch(ctx, batch)
		defer results.Close()
		var inserted, n int64
		for range 100 {
			tag, err := results.Exec()
			if err != nil {
				return nil, err
			}
			inserted += tag.RowsAffected()
		}
		tag, err := results.Exec()
		if err != nil {
			return nil, err
		}
		var total float64
		err = results.QueryRow().Scan(&n, &total)
		return []any{inserted, tag.RowsAffected(), n, total}, err
	})
	tap.Step("a batch with an error changes nothing", func() (any, error) {
		batch := &pgx.Batch{}
		batch.Queue("UPDATE orders SET state = 'lost'")
		batch.Queue("INSERT INTO orders (account_id, id) VALUES (7, 7)")
		failed := pool.SendBatch(ctx, batch).Close()
		var n int64
		err := pool.QueryRow(ctx, "SELECT count(*) FROM orders WHERE state = 'lost'").Scan(&n)
		return []any{tap.State(failed), n}, err
	})
	tap.Step("transaction, savepoints", func() (any, error) {
		var n int64
		var failed error
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'tx' WHERE account_id IN (1, 2, 3)"); err != nil {
				return err
			}
			failed = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO orders (account_id, id) VALUES (7, 7)")
				return err
			})
			return tx.QueryRow(ctx, "SELECT count(*) FROM orders WHERE state = 'tx'").Scan(&n)
		})
		return []any{tap.State(failed), n}, err
	})
	tap.Step("FOR UPDATE SKIP LOCKED in two transactions", func() (any, error) {
		var taken []any
		for range 2 {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return nil, err
			}
			defer tx.Rollback(ctx)
			found, err := tx.Query(ctx, "SELECT id FROM orders WHERE state = 'new' ORDER BY id LIMIT 4 FOR UPDATE SKIP LOCKED")
			if err != nil {
				return nil, err
			}
			ids, err := pgx.CollectRows(found, pgx.RowTo[int64])
			if err != nil {
				return nil, err
			}
			taken = append(taken, ids)
		}
		return taken, nil
	})
	tap.Step("cancel by a deadline", func() (any, error) {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := pool.Exec(short, "SELECT count(*) FROM orders a, orders b, orders c, orders d WHERE a.total + b.total + c.total + d.total < 0")
		var n int64
		again := pool.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&n)
		return []any{err != nil, n}, again
	})
	tap.Step("DDL while statements are cached", func() (any, error) {
		if _, err := pool.Exec(ctx, "ALTER TABLE orders ADD COLUMN note text DEFAULT 'x'"); err != nil {
			return nil, err
		}
		return read(7, 100)
	})
}
