# shellcheck shell=bash
# scenes.sh - what the demo shows after its queries: a crash, a shard that moves, the way back, shares of a core
#
# Sourced, never run, by scripts/demo, whose functions and variables it uses. Every scene ends the demo with an error
# if what it shows is not so.

ACCOUNTS=1000

# demo_value sql: the one value that a statement returns on the coordinator.
demo_value() { demo_psql coordinator -A -t -c "$1"; }

# demo_await what sql: waits until a statement returns t on the coordinator.
demo_await() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(demo_value "$2")" != t ] || return 0
		sleep 0.1
	done
	die "$1 does not happen"
}

# The sum of all accounts, which transfers do not change.
demo_check_sum() {
	local sum
	sum=$(demo_value 'SELECT count(*), sum(balance) FROM account')
	[ "$sum" = "$ACCOUNTS|$((ACCOUNTS * 100))" ] || die "count and sum of the accounts are $sum"
	note "SELECT count(*), sum(balance) FROM account: $ACCOUNTS accounts, ${sum#*|}, as before"
}

demo_accounts() {
	say "a second table: $ACCOUNTS accounts with 100 each"
	demo_sql 'CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL)'
	demo_sql "SELECT shardfdw.shard_table('account', 'id', shards => 8)"
	demo_sql "INSERT INTO account SELECT id, 100 FROM generate_series(1, $ACCOUNTS) id"
}

# demo_account_on node: an account whose shard is there.
demo_account_on() {
	demo_value "SELECT min(id) FROM account WHERE shardfdw.shard_for('account', id) IN
		(SELECT shard FROM shardfdw.shards WHERE relation = 'account'::regclass AND node = '$1')"
}

demo_crash() {
	local from to transfer

	say "a node crashes in the middle of a commit"
	from=$(demo_account_on node1) to=$(demo_account_on node2)
	transfer=("UPDATE account SET balance = balance - 10 WHERE id = $from" "UPDATE account SET balance = balance + 10 WHERE id = $to")
	note "BEGIN;"
	note "${transfer[0]};        -- on node1"
	note "${transfer[1]};        -- on node2"
	note "COMMIT;"
	# The coordinator tells nodes to commit when its own commit is safe. It waits here for a standby that is not there,
	# so that there is time for the crash.
	demo_psql coordinator -c "ALTER SYSTEM SET synchronous_standby_names = 'none'" -c 'SELECT pg_reload_conf()' >/dev/null
	demo_await "a reload of the configuration" "SELECT current_setting('synchronous_standby_names') = 'none'"
	start_child demo_psql coordinator -c BEGIN -c "${transfer[0]}" -c "${transfer[1]}" -c COMMIT >"$DEMO/transfer.log" 2>&1
	demo_await "a commit that waits" "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	note "both nodes have prepared the transaction, the coordinator has committed it: node2 crashes now"
	stop_servers_below "$DEMO/clusters/node2"
	demo_psql coordinator -c 'ALTER SYSTEM RESET synchronous_standby_names' -c 'SELECT pg_reload_conf()' >/dev/null
	if ! wait "$CHILD"; then
		cat "$DEMO/transfer.log" >&2
		die "the transfer has failed"
	fi
	forget_child "$CHILD"
	note "the client is told: committed. node1 has committed, node2 is down"
	server_start "$PRIVATE_BIN" "$DEMO/clusters/node2" || die "node2 does not start"
	note "node2 is back. Its part is still prepared. The coordinator's commit log has the decision:"
	demo_psql coordinator -P pager=off -c "SELECT node, state FROM shardfdw.prepared_transactions WHERE node = 'node2'"
	[ "$(demo_value "SELECT count(*) FROM shardfdw.prepared_transactions WHERE node = 'node2' AND state = 'committed'")" = 1 ] ||
		die "node2 does not have the transaction"
	note "SELECT node, action FROM shardfdw.recover_prepared_transactions();"
	demo_psql coordinator -P pager=off -c 'SELECT node, action FROM shardfdw.recover_prepared_transactions()'
	[ "$(demo_value "SELECT string_agg(balance::text, ' ' ORDER BY balance) FROM account WHERE id IN ($from, $to)")" = '90 110' ] ||
		die "the transfer is there in part"
	note "both accounts have their new balance: 90 and 110"
	demo_check_sum
}

# demo_longest from to: the milliseconds of the longest transfer that was under way between two moments, and how many there were.
demo_longest() {
	cat "$DEMO"/transfers.[0-9]* | awk -v from="$1" -v to="$2" '
		{ end = $5 + $6 / 1e6; if (end >= from && end - $3 / 1e6 <= to) { n++; if ($3 > longest) longest = $3 } }
		END { printf "longest transfer %.0f ms, %d transfers", longest / 1000, n }'
}

# Waits until the log of transfers has one that began after a moment.
demo_await_transfers() {
	local i
	for ((i = 0; i < 600; i++)); do
		kill -0 "$1" 2>/dev/null || break
		! cat "$DEMO"/transfers.[0-9]* 2>/dev/null | awk -v at="$2" '$5 + $6 / 1e6 - $3 / 1e6 > at { found = 1 } END { exit !found }' || return 0
		sleep 0.1
	done
	cat "$DEMO/transfers.out" >&2
	die "the clients do nothing any more"
}

demo_move() {
	local shard clients pause start moving unsharding ended

	say "a shard moves, and then the table becomes a plain one, while four clients transfer money"
	cat >"$DEMO/transfer.sql" <<-SQL
		\set a random(1, $ACCOUNTS)
		\set b random(1, $ACCOUNTS)
		\set first least(:a, :b)
		\set second greatest(:a, :b)
		\set amount random(-10, 10)
		BEGIN;
		UPDATE account SET balance = balance - :amount WHERE id = :first;
		UPDATE account SET balance = balance + :amount WHERE id = :second;
		COMMIT;
	SQL
	start_child "$PRIVATE_BIN/pgbench" -n -h "$DEMO/sockets" -p "$(demo_port coordinator)" -U postgres -c 4 -T 3600 \
		--log --log-prefix="$DEMO/transfers" -f "$DEMO/transfer.sql" "$DEMO_DATABASE" >"$DEMO/transfers.out" 2>&1
	clients=$CHILD
	# The first transfers open connections to nodes.
	demo_await_transfers "$clients" "$(date +%s)"
	sleep 1
	start=$(date +%s.%N)
	sleep 2
	shard=$(demo_value "SELECT min(shard::text) FROM shardfdw.shards WHERE relation = 'account'::regclass AND node = 'node1'")
	moving=$(date +%s.%N)
	demo_sql "SELECT shardfdw.move_shard('$shard', 'node3')"
	pause=$(demo_value "SELECT round(extract(epoch FROM write_pause) * 1000) FROM shardfdw.jobs WHERE kind = 'move' ORDER BY id DESC LIMIT 1")
	unsharding=$(date +%s.%N)
	demo_sql "SELECT shardfdw.unshard_table('account', mode => 'online')"
	ended=$(date +%s.%N)
	demo_await_transfers "$clients" "$ended"
	kill "$clients"
	wait "$clients" || true
	forget_child "$clients"
	if grep -i 'aborted\|error' "$DEMO/transfers.out" >&2; then
		die "a transfer has failed"
	fi
	note "two seconds before    $(demo_longest "$start" "$moving")"
	note "during the move       $(demo_longest "$moving" "$unsharding")"
	note "during the way back   $(demo_longest "$unsharding" "$ended")"
	note "the move held back writers of its shard for $pause ms; no transfer has failed"
	[ "$(demo_value "SELECT relkind FROM pg_class WHERE oid = 'account'::regclass")" = r ] || die "account is no plain table"
	[ "$(demo_value "SELECT count(*) FROM shardfdw.run_on_nodes('SELECT count(*) FROM pg_class WHERE relname ~ ''^account''') WHERE result = '0'")" = "$NODES" ] ||
		die "nodes still have a table of the accounts"
	note "account is a plain table on the coordinator, and the nodes have nothing of it"
	demo_check_sum
}

# Servers of the last scene, and what else is left of it.
demo_end_shares() {
	stop_servers_below "$DEMO/limited"
	cpu_share_free
	remove_folder "$DEMO/limited"
}

# demo_rates what ms ms ms: a line of the table, for 1, 2 and 4 nodes.
demo_rates() {
	awk -v what="$1" -v a="$2" -v b="$3" -v c="$4" \
		'BEGIN { printf "   %-28s %9.1f ms %9.1f ms %9.1f ms   %.1f times as fast\n", what, a, b, c, a / c }'
}

demo_shares() {
	local share=0.2 i port size copy query rows DEMO_DATABASE=shares
	local -a copied=() grouped=()

	if [ "$(nproc)" -lt 2 ]; then
		say "nodes with shares of a core: not shown, since this machine has one core"
		return 0
	fi
	mkdir "$DEMO/limited"
	[ "$(id -u)" -ne 0 ] || chown "$(server_user)" "$DEMO/limited"
	on_exit demo_end_shares
	if ! cpu_share_limit "demo-$$-try" "$share"; then
		say "nodes with shares of a core: not shown, since control groups of this machine cannot be written"
		demo_end_shares
		return 0
	fi
	say "what nodes add: 1, 2 and 4 nodes that have $share of a core each"
	as_server_user "$PRIVATE_BIN/createdb" -h "$DEMO/sockets" -p "$(demo_port coordinator)" -U postgres shares
	demo_psql coordinator -c 'CREATE EXTENSION shardfdw'
	port=$(($(demo_port "node$NODES") + 1))
	for ((i = 1; i <= NODES; i++)); do
		port=$(free_port "$port")
		# A separate address, as on a separate machine: nodes with one address share its cores.
		(cd / && server_init "$PRIVATE_BIN" "$DEMO/limited/node$i" "$port" "$DEMO/sockets" "listen_addresses = '127.0.0.$((i + 1))'" \
			"${DEMO_SETTINGS[@]}" 'max_parallel_workers_per_gather = 0' && server_start "$PRIVATE_BIN" "$DEMO/limited/node$i") || die "a node does not start"
		demo_psql coordinator -o /dev/null -c 'SET client_min_messages = error' \
			-c "SELECT shardfdw.add_node('node$i', host => '127.0.0.$((i + 1))', port => $port, create_database => true)" \
			-c "ALTER SERVER node$i OPTIONS (SET cores '1')"
		cpu_share_limit "demo-$$-node$i" "$share" "$(as_root head -n 1 "$DEMO/limited/node$i/postmaster.pid")" ||
			die "node$i does not get into a control group"
		port=$((port + 1))
	done
	head -n 300001 "$DEMO/lineitem.csv" >"$DEMO/part.csv"
	rows=$(($(wc -l <"$DEMO/part.csv") - 1))
	copy='FROM STDIN (FORMAT csv, HEADER)'
	for size in 1 2 4; do
		demo_psql coordinator -o /dev/null -c "CREATE TABLE lineitem_$size ($LINEITEM_COLUMNS)" \
			-c "SELECT shardfdw.shard_table('lineitem_$size', 'l_orderkey', shards => 8, nodes => (ARRAY['node1', 'node2', 'node3', 'node4'])[:$size])"
		copied+=("$(demo_psql coordinator -c '\timing on' -c "\\copy lineitem_$size $copy" <"$DEMO/part.csv" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p')")
		demo_psql coordinator -c 'SET client_min_messages = error' -c "ANALYZE lineitem_$size"
		query=${QUERIES[0]//FROM lineitem/FROM lineitem_$size}
		grouped+=("$(demo_median coordinator "$query")")
	done
	printf '   %-28s %12s %12s %12s\n' '' '1 node' '2 nodes' '4 nodes'
	demo_rates "COPY of $rows rows" "${copied[@]}"
	demo_rates "TPC-H query 1" "${grouped[@]}"
	rm -f "$DEMO/part.csv"
	demo_end_shares
	demo_psql coordinator -d postgres -c 'DROP DATABASE shares'
}
