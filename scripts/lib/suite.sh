# shellcheck shell=bash
# suite.sh - the whole test suite against one installation of PostgreSQL
#
#   tree -> copy -> build (-Werror) -> private installation -> check_layers, tests without a server
#                                          |-> one server: pg_regress, isolation specs
#                                          '-> t/*.pl, which start their own servers, some at a time
#
# Every test counts as passed or failed: a rule of check_layers, a regression test, a spec, an
# assertion of a TAP file. A part that breaks off counts as one failure more. A failure is named when
# it happens; what it looks like comes at the end, below "== what failed".
#
# Needs common.sh and server.sh.

NPASSED=0
NFAILED=0

# Seconds that a TAP file may take, lines of its output that are shown when it fails, environment variables for it.
SUITE_LIMIT=900
SUITE_LINES=40
SUITE_VARIABLES=()

# The first of the 3,000 ports of a major version. Suites of two majors may run at the same time: a port
# that is free when one of them chooses it, or while its server starts again, must not go to the other.
SUITE_PORTS=0

# TAP files that may run at the same time; those that do, and since when: by their processes. CPU time of all, in
# tenths of a second.
SUITE_JOBS=1
SUITE_RUNNING=()
SUITE_STARTED=()
SUITE_CPU=0

passed() { NPASSED=$((NPASSED + ${1:-1})); }
failed() {
	NFAILED=$((NFAILED + 1))
	printf 'FAILED: %s\n' "$*"
}

# Prints the end of a file, marked as such.
show_tail() {
	[ -s "$1" ] || return 0
	printf -- '--- the last %s lines of %s\n' "$2" "$1"
	tail -n "$2" "$1"
	printf -- '---\n'
}

# suite_wants part file...: prints the names of those files that are to run.
suite_wants() {
	local part=$1 file
	shift
	for file in "$@"; do
		[ -e "$file" ] || continue
		case ",$SUITE_WITHOUT," in
		*",$part,"* | *",$file,"*) continue ;;
		esac
		case ",$SUITE_ONLY," in
		,, | *",$part,"* | *",$file,"*) echo "$file" ;;
		esac
	done
}

# suite_run tree tmp pg_config only without
suite_run() {
	local tree=$1 pg_config=$3 major
	SUITE_TMP=$2 SUITE_PG_CONFIG=$3 SUITE_ONLY=$4 SUITE_WITHOUT=$5

	SUITE_SRC=$SUITE_TMP/src
	SUITE_PGXS=$(dirname "$("$pg_config" --pgxs)")/../..
	SUITE_PERL=$SUITE_PGXS/src/test/perl
	# An installation without the Perl modules takes those of 15, which is there always.
	[ -d "$SUITE_PERL/PostgreSQL" ] || SUITE_PERL=/usr/lib/postgresql/15/lib/pgxs/src/test/perl

	major=$("$pg_config" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
	SUITE_PORTS=$((11000 + (major - 15) * 3000))

	say "build ($("$pg_config" --version))"
	copy_tree "$tree" "$SUITE_SRC"
	cd "$SUITE_SRC" || exit
	if ! make -C "$SUITE_SRC" -j"$(nproc)" PG_CONFIG="$pg_config" COPT=-Werror FAULT_POINTS=1 >"$SUITE_TMP/build.log" 2>&1; then
		grep -v -E '^[^ ]*gcc ' "$SUITE_TMP/build.log" | grep -E '(error|warning|undefined reference)' -A 4 | head -n 80 ||
			show_tail "$SUITE_TMP/build.log" 15
		failed "build"
		suite_finish
	fi
	passed
	if ! install_private "$pg_config" "$SUITE_SRC" "$SUITE_TMP/inst"; then
		failed "make install"
		suite_finish
	fi
	passed
	suite_place_data
	suite_copy_clusters
	[ -z "$(suite_wants layers scripts/check_layers)" ] || suite_layers "$pg_config"
	[ -z "$(suite_wants unit t/fuzz)" ] || suite_units
	# Tests write next to their sources.
	[ "$(id -u)" -ne 0 ] || chown -R "$(server_user)" "$SUITE_SRC"
	suite_server
	suite_tap
	suite_finish
}

# Servers write many small files that are not needed afterwards. If there is enough memory (kB), the
# files are in memory.
suite_place_data() {
	local room memory

	SUITE_DATA=$SUITE_TMP
	room=$(df -P -k /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }' || true)
	memory=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo || true)
	if [ "${room:-0}" -lt $((16 << 20)) ] || [ "${memory:-0}" -lt $((16 << 20)) ] || [ ! -w /dev/shm ]; then
		return 0
	fi
	SUITE_DATA=$(mktemp -d /dev/shm/shardfdw-check.XXXXXX)
	chmod 755 "$SUITE_DATA"
	if [ "$KEEP" = yes ]; then
		on_exit "note 'kept: $SUITE_DATA'"
	else
		on_exit "remove_folder '$SUITE_DATA'"
	fi
}

# The tests make hundreds of clusters: initdb runs for the first of each kind only.
suite_copy_clusters() {
	mv "$PRIVATE_BIN/initdb" "$PRIVATE_BIN/initdb.real"
	cp "$SUITE_SRC/scripts/lib/initdb_copy" "$PRIVATE_BIN/initdb"
	export INITDB_COPIES=$SUITE_DATA/clusters
	mkdir "$INITDB_COPIES"
	[ "$(id -u)" -ne 0 ] || chown "$(server_user)" "$INITDB_COPIES"
}

# Prints what failures look like, the time it took and the count; ends the script.
suite_finish() {
	if [ -s "$SUITE_TMP/details" ]; then
		say "what failed"
		cat "$SUITE_TMP/details"
	fi
	if [ -s "$SUITE_TMP/short" ]; then
		say "in short"
		cat "$SUITE_TMP/short"
	fi
	[ "$SUITE_CPU" -eq 0 ] || note "$((SUITE_CPU / 10)) s of CPU in TAP files"
	note "$((SECONDS / 60)) min $((SECONDS % 60)) s in all"
	printf '%s passed, %s failed\n' "$NPASSED" "$NFAILED"
	[ "$NFAILED" -eq 0 ] || exit 1
	exit 0
}

suite_layers() {
	local line

	say "include rules"
	while IFS= read -r line; do
		case $line in
		"ok "*) passed ;;
		"not ok "*) failed "check_layers: ${line#not ok }" ;;
		*) printf '%s\n' "$line" ;;
		esac
	done < <(PG_CONFIG=$1 "$SUITE_SRC/scripts/check_layers" 2>&1 || true)
}

# Programs that test C without a server, and print TAP. scripts/fuzz looks at the same code harder.
suite_units() {
	say "readers of lines and records"
	suite_unit line_scan 200
	suite_unit fixed_record 2000
}

# suite_unit name cases: runs t/fuzz/<name>_corpus.c on src/load/raw/<name>.c.
suite_unit() {
	local out=$SUITE_TMP/$1_corpus rc=0 line

	if ! gcc -g -O2 -Wall -Wextra -Werror -I"$SUITE_SRC/src" -I"$SUITE_SRC/t/fuzz" -o "$out" \
		"$SUITE_SRC/t/fuzz/$1_corpus.c" "$SUITE_SRC/src/load/raw/$1.c" >"$out.log" 2>&1; then
		show_tail "$out.log" 20
		failed "build of $1_corpus"
		return 0
	fi
	run_child timeout 300 "$out" "$2" >"$out.log" 2>&1 </dev/null || rc=$?
	while IFS= read -r line; do
		case $line in
		"ok "*) passed ;;
		"not ok "*) failed "${line#not ok }" ;;
		esac
	done <"$out.log"
	if [ "$rc" -ne 0 ]; then
		show_tail "$out.log" 40
		grep -q '^not ok ' "$out.log" || failed "$1_corpus ended with $rc"
	fi
}

# pg_regress and the isolation tester share one server.
suite_server() {
	local tests specs data=$SUITE_DATA/server/data port name

	tests=$(suite_wants regress sql/setup.sql
		suite_wants regress sql/*.sql | grep -v -e '^sql/setup.sql$' -e '^sql/shardfdw--' || true)
	specs=$(suite_wants isolation specs/*.spec)
	[ -n "$tests$specs" ] || return 0
	# A single test needs the nodes that setup makes.
	case "$tests" in
	'' | sql/setup.sql*) ;;
	*) [ ! -e sql/setup.sql ] || tests=$(printf 'sql/setup.sql\n%s' "$tests") ;;
	esac

	port=$(free_port $((SUITE_PORTS + RANDOM % 500)))
	# no jit: plans with a part disabled look expensive enough to be compiled, which takes longer than they do
	mkdir -p "$SUITE_DATA/server"
	[ "$(id -u)" -ne 0 ] || chown "$(server_user)" "$SUITE_DATA/server"
	if ! server_init "$PRIVATE_BIN" "$data" "$port" "$SUITE_DATA/server" \
		'max_connections = 300' 'max_prepared_transactions = 100' 'shared_buffers = 128MB' \
		'max_worker_processes = 32' 'fsync = off' 'full_page_writes = off' 'autovacuum = off' 'jit = off' "log_line_prefix = '%m [%p] %q%a '"; then
		failed "initdb"
		return 0
	fi
	on_exit "stop_servers_below '$data'"
	if ! server_start "$PRIVATE_BIN" "$data"; then
		failed "start of a server"
		return 0
	fi
	if [ -n "$tests" ]; then
		say "regression tests"
		suite_pg_regress regress/pg_regress sql/ .sql contrib_regression . "$port" "$tests"
	fi
	if [ -n "$specs" ]; then
		say "isolation tests"
		suite_pg_regress isolation/pg_isolation_regress specs/ .spec isolation_regression output_iso "$port" "$specs"
	fi
	if ! as_server_user "$PRIVATE_BIN/pg_ctl" -D "$data" -m fast -w -t 60 stop >/dev/null 2>&1; then
		failed "the server does not stop"
		show_tail "$data.log" 20
	fi
	# A crash is a failure, even when a test was content with what it saw.
	if grep -E 'was terminated by signal|TRAP: |PANIC: ' "$data.log"; then
		failed "the server crashed"
		grep -E -B 3 -A 12 'was terminated by signal|TRAP: |PANIC: ' "$data.log" | head -n 60
	fi
	name=$(find "$data" -name 'core*' -type f -size +1M 2>/dev/null | head -n 1)
	[ -z "$name" ] || note "core file: $name"
}

# suite_pg_regress program prefix suffix database outputdir port tests: runs them in one go, and
# reads the results from the program's report: "test name ... ok" up to 15, "ok 1 - name" after it.
suite_pg_regress() {
	local program=$SUITE_PGXS/src/test/$1 prefix=$2 suffix=$3 dbname=$4 outdir=$5 port=$6
	local log=$SUITE_TMP/${5//[.\/]/}$4.log names=() name rc=0 seen verdict took

	while IFS= read -r name; do
		name=${name#"$prefix"}
		names+=("${name%"$suffix"}")
	done <<<"$7"
	as_server_user mkdir -p "$outdir"
	run_limited 1500 env PGOPTIONS='' PATH="$PRIVATE_BIN:$PATH" "$program" --inputdir=. --outputdir="$outdir" \
		--bindir="$PRIVATE_BIN" --host="$SUITE_DATA/server" --port="$port" --user=postgres --dbname="$dbname" \
		"${names[@]}" >"$log" 2>&1 </dev/null || rc=$?

	seen=0
	for name in "${names[@]}"; do
		verdict=$(sed -E -n "s/^ *(test +)?$name +\.\.\. +(ok|FAILED).*/\2/p; s/^(not )?ok +[0-9]+ +[-+] +$name( .*)?\$/\1ok/p" "$log" | head -n 1)
		took=$(sed -E -n "s/^.*[ ]$name .* ([0-9]+) ms\$/\1/p" "$log" | head -n 1)
		printf '   %-28s %5s s\n' "$prefix$name$suffix" "$(((${took:-0} + 999) / 1000))"
		case $verdict in
		ok) passed && seen=$((seen + 1)) ;;
		"FAILED" | "not ok") failed "$prefix$name$suffix" && seen=$((seen + 1)) ;;
		*) failed "$prefix$name$suffix (no result)" ;;
		esac
	done
	if [ "$rc" -ne 0 ]; then
		[ ! -s "$outdir/regression.diffs" ] || head -n 1000 "$outdir/regression.diffs" >>"$SUITE_TMP/details"
		if [ "$seen" -lt ${#names[@]} ]; then
			show_tail "$log" 10 >>"$SUITE_TMP/details"
		elif [ ! -s "$outdir/regression.diffs" ]; then
			failed "$(basename "$program") ended with $rc"
		fi
	fi
}

# Every TAP file by itself, some at the same time: its assertions count, and one more failure when it
# breaks off.
suite_tap() {
	local file files

	files=$(suite_wants tap t/*.pl)
	[ -n "$files" ] || return 0
	say "TAP tests"
	mkdir "$SUITE_DATA/tap"
	on_exit "stop_servers_below '$SUITE_DATA/tap'"
	while IFS= read -r file; do
		[ "${#SUITE_RUNNING[@]}" -lt "$SUITE_JOBS" ] || suite_tap_end
		suite_tap_start "$file"
	done <<<"$files"
	while [ "${#SUITE_RUNNING[@]}" -gt 0 ]; do
		suite_tap_end
	done
}

# The sockets of the servers are in TMPDIR; the path of a socket must be short.
suite_tap_start() {
	local dir
	dir=$SUITE_DATA/tap/$(basename "$1" .pl)

	mkdir -p "$dir/tmp_check" "$dir/tmp"
	[ "$(id -u)" -ne 0 ] || chown -R "$(server_user)" "$dir"
	start_limited "$SUITE_LIMIT" env "${SUITE_VARIABLES[@]}" PATH="$PRIVATE_BIN:$PATH:$ENV_CACHE/pgbouncer/usr/sbin" PG_CONFIG="$SUITE_PG_CONFIG" \
		TESTDIR="$dir" TMPDIR="$dir/tmp" FIRST_PORT="$((SUITE_PORTS + 500))" \
		TESTDATADIR="$dir/tmp_check" TESTLOGDIR="$dir/tmp_check/log" top_builddir="$SUITE_SRC" \
		PG_REGRESS="$SUITE_PGXS/src/test/regress/pg_regress" PG_TEST_TIMEOUT_DEFAULT=180 LC_ALL=C \
		scripts/lib/cpu_time "$dir/cpu" perl -I "$SUITE_PERL" -I t/lib "$1" >"$dir.out" 2>&1 </dev/null
	SUITE_RUNNING[CHILD]=$1
	SUITE_STARTED[CHILD]=$SECONDS
}

# Waits for one of those that run, and counts.
suite_tap_end() {
	local pid rc=0 file name dir n

	wait -n -p pid "${!SUITE_RUNNING[@]}" || rc=$?
	if [ -z "${pid-}" ]; then
		# A signal has ended a job before this wait. The shell has reported the job and has its
		# status, but no longer lists it.
		for pid in "${!SUITE_RUNNING[@]}"; do
			kill_as_root -0 "$pid" || break
		done
		rc=0
		wait "$pid" || rc=$?
	fi
	forget_child "$pid"
	file=${SUITE_RUNNING[pid]}
	unset "SUITE_RUNNING[$pid]"
	name=$(basename "$file" .pl)
	dir=$SUITE_DATA/tap/$name
	n=$(grep -c '^ok ' "$dir.out" || true)
	passed "$n"
	n=$(cat "$dir/cpu" 2>/dev/null || echo 0.0)
	SUITE_CPU=$((SUITE_CPU + 10#${n/./}))
	printf '   %-28s %5s s %7s s of CPU\n' "$file" "$((SECONDS - SUITE_STARTED[pid]))" "$n"
	while IFS= read -r n; do
		[ -z "$n" ] || failed "$file: ${n#not ok }"
	done < <(grep '^not ok ' "$dir.out" | grep -v '# TODO' || true)
	if [ "$rc" -ne 0 ]; then
		grep -q '^not ok ' "$dir.out" || failed "$file ended with $rc$([ "$rc" -ne 124 ] || echo ' (timed out)')"
		{
			printf '%s: ' "$file"
			suite_first_failure "$dir.out"
		} >>"$SUITE_TMP/short"
		{
			printf -- '--- %s\n' "$file"
			grep -v '^ok ' "$dir.out" | tail -n "$SUITE_LINES" || true
			show_tail "$dir/tmp_check/log/regress_log_$name" 30
			suite_show_servers "$dir/tmp_check/log/$name"
		} >>"$SUITE_TMP/details"
	elif ! grep -q -E '^1\.\.[0-9]+' "$dir.out"; then
		failed "$file printed no plan"
	fi
	stop_servers_below "$dir"
}

# The first assertion that failed, with what was said around it: a test may say why before it or after it.
suite_first_failure() {
	local line

	line=$(grep -n -m 1 '^not ok ' "$1" | cut -d : -f 1 || true)
	if [ -n "$line" ]; then
		echo "line $line of its output"
		sed -n "$((line > 15 ? line - 15 : 1)),$((line + 10))p" "$1" | grep -v '^ok ' | cut -c 1-500
	else
		echo 'it ends with'
		tail -n 5 "$1" | cut -c 1-500
	fi
}

# What the servers of a TAP file complained of last; their logs' names begin with $1.
suite_show_servers() {
	local log
	for log in "$1"_*.log; do
		[ -s "$log" ] || continue
		grep -E -A 2 '(ERROR|FATAL|PANIC|WARNING|TRAP): |terminated by signal' "$log" >"$log.short" || true
		show_tail "$log.short" 15
	done
}
