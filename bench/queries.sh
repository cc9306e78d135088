# shellcheck shell=bash
# queries.sh - what tpch and star share: a suite's options, its servers, the call of queries.py
#
# Sourced after lib.sh, never run.

# queries_main suite layouts queries option...: layouts and queries are the defaults of these options.
queries_main() {
	SCALE=1 LAYOUT=$2 RUNS=3 QUERIES=$3 SLICE=1/1 SHARDS=16 TIMEOUT=300 DATA='' JSON='' PG_CONFIG='' PORT=18432 DIR='' SUITE=$1
	OPTIONS=()
	shift 3
	while [ $# -gt 0 ]; do
		case $1 in
		--explain | --no-limits) OPTIONS+=("$1") ;;
		--scale) SCALE=${2:?--scale needs a number} && shift ;;
		--layout) LAYOUT=${2:?--layout needs a list} && shift ;;
		--runs) RUNS=${2:?--runs needs a number} && shift ;;
		--queries) QUERIES=${2:?--queries needs a list} && shift ;;
		--slice) SLICE=${2:?--slice needs I/N} && shift ;;
		--shards) SHARDS=${2:?--shards needs a number} && shift ;;
		--planning) OPTIONS+=(--planning "${2:?--planning needs a number}") && shift ;;
		--timeout) TIMEOUT=${2:?--timeout needs a number of seconds} && shift ;;
		--set) OPTIONS+=(--set "${2:?--set needs a setting}") && shift ;;
		--data) DATA=$(realpath "${2:?--data needs a folder}") && shift ;;
		--json) JSON=$(realpath "${2:?--json needs a file}") && shift ;;
		--pg-config) PG_CONFIG=${2:?--pg-config needs a path} && shift ;;
		--port) PORT=${2:?--port needs a number} && shift ;;
		--dir) DIR=${2:?--dir needs a folder} && shift ;;
		--remove)
			DIR=$(realpath "${2:?--remove needs a folder}")
			[ -e "$DIR/$SUITE.folder" ] || die "\"$DIR\" is no folder of bench/$SUITE"
			stop_servers_below "$DIR"
			remove_folder "$DIR"
			exit 0
			;;
		-h | --help) bench_usage && exit 0 ;;
		*) bench_usage >&2 && exit 2 ;;
		esac
		shift
	done
	[[ $SCALE =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--scale needs a number, not \"$SCALE\""
	[[ $LAYOUT =~ ^[12](,[12])?$ ]] || die "--layout needs 1, 2 or 1,2, not \"$LAYOUT\""
	[[ $QUERIES =~ ^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$ ]] || die "--queries needs numbers and ranges, not \"$QUERIES\""
	[[ $SLICE =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] || die "--slice needs I/N, not \"$SLICE\""
	for number in "$RUNS" "$SHARDS" "$TIMEOUT" "$PORT"; do
		[[ $number =~ ^[1-9][0-9]*$ ]] || die "\"$number\" is not a whole number above 0"
	done

	say "installing what is missing"
	if [ -z "$PG_CONFIG" ]; then
		env_prepare 15
		PG_CONFIG=$(env_pg_config 15)
	fi
	need_packages python3
	if [ -n "$DIR" ]; then
		[ ! -e "$DIR" ] || [ -e "$DIR/$SUITE.folder" ] || [ -z "$(ls -A "$DIR")" ] || die "\"$DIR\" is not empty, and no folder of bench/$SUITE"
		bench_begin yes "$DIR"
		touch "$WORK/$SUITE.folder"
		bench_stop
	else
		bench_begin no
	fi
	[ -n "$DATA" ] || "${SUITE}_data" DATA "$SCALE"
	as_server_user test -x "$DATA" || die "the server's user $(server_user) cannot read \"$DATA\""
	bench_install "$PG_CONFIG" yes
	say "starting one coordinator and 4 nodes"
	bench_server coordinator "$PORT" "${BENCH_SETTINGS[@]}"
	NODE_PORTS=''
	for i in 1 2 3 4; do
		bench_server "node$i" "$((PORT + i))" "${BENCH_SETTINGS[@]}"
		NODE_PORTS=${NODE_PORTS:+$NODE_PORTS,}$(bench_port "node$i")
	done
	if [ -z "$JSON" ]; then
		mkdir -p "$HERE/results"
		JSON=$HERE/results/$SUITE-$(date +%Y%m%d-%H%M%S).json
	fi
	SQL_VERSION=$(cat "$WORK"/src/sql/shardfdw--*.sql | sha256sum | cut -c 1-16)
	run_child /usr/bin/python3 "$HERE/queries.py" --suite "$SUITE" --bin "$PRIVATE_BIN" --work "$WORK" --coordinator "$(bench_port coordinator)" \
		--nodes "$NODE_PORTS" --shards "$SHARDS" --layouts "$LAYOUT" --runs "$RUNS" --queries "$QUERIES" --slice "$SLICE" \
		--scale "$SCALE" --timeout "$TIMEOUT" --data "$DATA" --sql-version "$SQL_VERSION" --json "$JSON" ${OPTIONS[@]+"${OPTIONS[@]}"}
}
