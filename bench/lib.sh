# shellcheck shell=bash
# lib.sh - what the benchmarks share: the work folder, the build, the servers
#
# Sourced, never run. Everything is in the folder $WORK: a private copy of PostgreSQL with the
# extension, the clusters, their sockets; it goes away at the end. The server of name N listens on
# 127.0.0.1 and on a socket in $WORK/sockets; its port is in the file $WORK/N.port.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TREE=$(dirname "$HERE")
# shellcheck source=scripts/lib/common.sh
. "$TREE/scripts/lib/common.sh"
# shellcheck source=scripts/lib/packages.sh
. "$TREE/scripts/lib/packages.sh"
# shellcheck source=scripts/lib/environment.sh
. "$TREE/scripts/lib/environment.sh"
# shellcheck source=scripts/lib/server.sh
. "$TREE/scripts/lib/server.sh"

bench_usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

# bench_begin keep [folder]: makes the work folder, or takes the one named. With keep = yes servers and
# folder stay at the end.
bench_begin() {
	WORK=${2:-}
	if [ -n "$WORK" ]; then
		mkdir -p "$WORK"
		WORK=$(realpath "$WORK")
	else
		WORK=$(mktemp -d "${TMPDIR:-/tmp}/shardfdw-bench.XXXXXX")
	fi
	chmod 755 "$WORK"
	if [ -n "${2:-}" ]; then
		on_exit "note 'kept: $WORK'"
	elif [ "$1" = yes ]; then
		on_exit "note 'kept: $WORK; remove it with: bench/run --remove $WORK'"
	else
		on_exit "bench_remove '$WORK'"
	fi
	mkdir -p "$WORK/sockets" "$WORK/clusters"
	[ "$(id -u)" -ne 0 ] || chown "$(server_user)" "$WORK/sockets" "$WORK/clusters"
}

# bench_remove folder: stops the servers below a work folder, and removes it.
bench_remove() {
	[[ $(basename "$1") == shardfdw-bench.* ]] || die "\"$1\" is no folder of a benchmark"
	stop_servers_below "$1"
	remove_folder "$1"
}

# bench_install pg_config extension: sets PRIVATE_BIN to the folder of the programs; with
# extension = yes they are a copy that has the extension.
bench_install() {
	local pg_config=$1

	if [ "$2" = no ]; then
		PRIVATE_BIN=$("$pg_config" --bindir)
		return 0
	fi
	say "building and installing into $WORK/inst ($("$pg_config" --version))"
	# In a folder that is used again only what a build makes stays.
	[ ! -d "$WORK/src" ] || find "$WORK/src" -type f ! -name '*.[od]' -delete
	copy_tree "$TREE" "$WORK/src"
	if ! run_child make -C "$WORK/src" -j"$(nproc)" PG_CONFIG="$pg_config" >"$WORK/build.log" 2>&1; then
		tail -n 30 "$WORK/build.log" >&2
		die "the build failed"
	fi
	install_private "$pg_config" "$WORK/src" "$WORK/inst" || die "make install failed"
}

# bench_server name first_port setting...: makes and starts a server with a database "bench"; one that
# a folder used again has already is started only, with the programs that are installed now.
bench_server() {
	local name=$1 port

	if [ -e "$WORK/$name.port" ]; then
		server_start "$PRIVATE_BIN" "$WORK/clusters/$name" || die "$name does not start"
		return 0
	fi
	port=$(free_port "$2")
	shift 2

	server_init "$PRIVATE_BIN" "$WORK/clusters/$name" "$port" "$WORK/sockets" "cluster_name = '$name'" "$@" ||
		die "initdb of $name failed"
	server_start "$PRIVATE_BIN" "$WORK/clusters/$name" || die "$name does not start"
	as_server_user "$PRIVATE_BIN/createdb" -h "$WORK/sockets" -p "$port" -U postgres bench
	echo "$port" >"$WORK/$name.port"
}

# bench_stop: ends the servers of the work folder in order.
bench_stop() {
	local pid i

	for pid in $(servers_below "$WORK"); do
		kill_as_root -INT "$pid" || true
	done
	for ((i = 0; i < 300; i++)); do
		[ -n "$(servers_below "$WORK")" ] || return 0
		sleep 0.1
	done
	stop_servers_below "$WORK"
}

bench_port() { cat "$WORK/$1.port"; }

# bench_psql server option...: psql without the user's settings; stops at the first error.
bench_psql() {
	local server=$1
	shift
	"$PRIVATE_BIN/psql" -X -q -v ON_ERROR_STOP=1 -h "$WORK/sockets" -p "$(bench_port "$server")" -U postgres -d bench "$@"
}

# bench_add_coordinator name: declares server "coordinator" as c1, if that has not been done, and the server of that name, which has
# an empty database, as one more coordinator of the same nodes. Both have the library preloaded.
bench_add_coordinator() {
	[ "$(bench_psql coordinator -A -t -c 'SELECT count(*) FROM shardfdw.coordinators')" != 0 ] ||
		bench_psql coordinator -o /dev/null -c "SELECT shardfdw.add_coordinator('c1', '127.0.0.1', $(bench_port coordinator))"
	"$PRIVATE_BIN/pg_dump" -h "$WORK/sockets" -p "$(bench_port coordinator)" -U postgres bench >"$WORK/$1.dump"
	PGOPTIONS='-c shardfdw.enable_ddl_propagation=off' bench_psql "$1" -o /dev/null -f "$WORK/$1.dump"
	bench_psql coordinator -o /dev/null -c "SELECT shardfdw.add_coordinator('$1', '127.0.0.1', $(bench_port "$1"))"
}

# bench_cpu server: milliseconds of processor time that its processes have used so far, ended ones among them.
bench_cpu() {
	local postmaster pid

	postmaster=$(as_root head -n 1 "$WORK/clusters/$1/postmaster.pid")
	for pid in "$postmaster" $(cat "/proc/$postmaster/task/$postmaster/children"); do
		cat "/proc/$pid/stat" 2>/dev/null || true
	done | sed 's/^.*) //' | awk -v ticks="$(getconf CLK_TCK)" 'NR == 1 { sum = $14 + $15 } { sum += $12 + $13 } END { printf "%.0f\n", sum * 1000 / ticks }'
}

# bench_median: of numbers, one a line; of an even number of them the lower one of the two in the middle.
bench_median() { sort -n | sed '/^$/d' | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : 0 }'; }

# bench_data variable columns scale: sets the variable to TPC-H's lineitem of that scale as CSV without
# header, with 16 or 7 columns (l_orderkey, l_partkey, l_suppkey, l_linenumber, l_shipdate, l_receiptdate,
# l_shipinstruct); generated when it is missing, and kept in $ENV_CACHE.
bench_data() {
	local name=lineitem$2-$3.csv

	printf -v "$1" '%s' "$ENV_CACHE/$name"
	[ ! -e "$ENV_CACHE/$name" ] || return 0
	say "generating lineitem at scale $3 into $ENV_CACHE/$name"
	bench_generator
	run_child "$WORK/venv/bin/tpchgen-cli" csv --scale-factor "$3" --tables lineitem --output-dir "$WORK" >"$WORK/generate.log" 2>&1 || {
		cat "$WORK/generate.log" >&2
		die "tpchgen-cli failed"
	}
	[ "$(head -n 1 "$WORK/lineitem.csv" | cut -d , -f 1-4,11,13,14)" = \
		l_orderkey,l_partkey,l_suppkey,l_linenumber,l_shipdate,l_receiptdate,l_shipinstruct ] ||
		die "tpchgen-cli has written other columns than expected"
	# Only the last column, a comment, can have commas in it.
	tail -n +2 "$WORK/lineitem.csv" | if [ "$2" = 16 ]; then cat; else cut -d , -f 1-4,11,13,14; fi >"$WORK/$name"
	as_root mkdir -p "$ENV_CACHE"
	as_root cp "$WORK/$name" "$ENV_CACHE/$name.new"
	as_root mv "$ENV_CACHE/$name.new" "$ENV_CACHE/$name"
	rm -rf "$WORK/venv" "${WORK:?}/lineitem.csv" "${WORK:?}/$name"
}

# tpch_data variable scale: sets the variable to a folder with the eight tables of TPC-H at that scale as CSV
# with headers; generated when it is missing, and kept in $ENV_CACHE.
tpch_data() {
	local name=tpch-$2

	printf -v "$1" '%s' "$ENV_CACHE/$name"
	[ ! -e "$ENV_CACHE/$name" ] || return 0
	say "generating TPC-H at scale $2 into $ENV_CACHE/$name"
	bench_generator
	run_child "$WORK/venv/bin/tpchgen-cli" csv --scale-factor "$2" --output-dir "$WORK/$name" >"$WORK/generate.log" 2>&1 || {
		cat "$WORK/generate.log" >&2
		die "tpchgen-cli failed"
	}
	bench_keep_data "$name"
	rm -rf "${WORK:?}/venv"
}

# bench_keep_data name: moves this folder of $WORK to $ENV_CACHE, whole or not at all.
bench_keep_data() {
	as_root mkdir -p "$ENV_CACHE"
	as_root rm -rf "$ENV_CACHE/$1.new"
	as_root cp -r "$WORK/$1" "$ENV_CACHE/$1.new"
	as_root chmod -R a+rX "$ENV_CACHE/$1.new"
	as_root mv "$ENV_CACHE/$1.new" "$ENV_CACHE/$1"
	rm -rf "${WORK:?}/$1"
}

# bench_generator: installs tpchgen-cli into $WORK/venv.
bench_generator() {
	need_packages python3-venv ca-certificates
	/usr/bin/python3 -m venv "$WORK/venv"
	"$WORK/venv/bin/pip" install -q --disable-pip-version-check tpchgen-cli==4.0.0 ||
		die "pip could not install tpchgen-cli, which makes the data; give ready data with --data"
}

# The same settings everywhere. No checkpoint and no autovacuum falls into a measurement; fsync stays
# on.
# shellcheck disable=SC2034
BENCH_SETTINGS=(
	'shared_buffers = 512MB' 'work_mem = 64MB' 'maintenance_work_mem = 256MB' 'max_wal_size = 16GB' 'min_wal_size = 2GB'
	'checkpoint_timeout = 1h' 'autovacuum = off' 'jit = off' 'max_connections = 200'
	'max_prepared_transactions = 50' 'max_worker_processes = 16'
)
