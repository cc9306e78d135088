# shellcheck shell=bash
# common.sh - messages, privileges, temporary folders and clean-up for the other scripts
#
# Sourced, never run. The sourcing script has "set -euo pipefail".

say() { printf '== %s\n' "$*"; }
note() { printf '   %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# Runs a command as root: directly, or with sudo.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo -- "$@"
	else
		die "\"$1\" needs root: run this as root, or install sudo"
	fi
}

# kill, as root where that is needed and possible. Returns 1 if there is no such process. The shell's own kill, since a
# small system has no program of this name.
kill_as_root() {
	if kill "$@" 2>/dev/null; then
		return 0
	fi
	# Servers of the demo may belong to another user.
	if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then
		return 1
	fi
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root /bin/bash -c 'kill "$@"' kill "$@" 2>/dev/null
}

# The unprivileged user that servers and tests run as. Servers refuse to run as root, and
# packages make the user postgres; anyone else runs them as himself.
server_user() {
	if [ "$(id -u)" -eq 0 ]; then
		echo postgres
	else
		id -un
	fi
}

# Runs a command as server_user. HOME must not be root's: it is not readable there.
as_server_user() {
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u postgres -- env HOME=/nonexistent "$@"
	else
		"$@"
	fi
}

# Clean-up: on_exit 'command' adds a command that runs when the script ends, the last one added
# first, however it ends. Each runs even when an earlier one failed.
EXIT_COMMANDS=()
EXIT_OWNER=$BASHPID
on_exit() { EXIT_COMMANDS+=("$1"); }
run_exit_commands() {
	local rc=$? i
	trap - EXIT
	# A subshell inherits the trap, but what is registered belongs to its parent.
	[ "$BASHPID" = "$EXIT_OWNER" ] || exit "$rc"
	trap '' INT TERM HUP
	set +e
	for ((i = ${#EXIT_COMMANDS[@]} - 1; i >= 0; i--)); do
		eval "${EXIT_COMMANDS[i]}"
	done
	exit "$rc"
}
trap run_exit_commands EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Commands in the background: the end of the script ends them, too. Each has a separate process
# group, because a function's commands would outlive the subshell that runs it.
CHILDREN=()

# Starts a command; CHILD is its process. After waiting for it, the caller calls forget_child.
CHILD=''
start_child() {
	set -m
	"$@" &
	CHILD=$!
	set +m
	CHILDREN[CHILD]=$CHILD
}
forget_child() { unset "CHILDREN[$1]"; }

# Runs a command in the background and waits for it. So the script acts on a signal immediately, and
# not when the command ends.
run_child() {
	local rc=0 child
	start_child "$@"
	child=$CHILD
	wait "$child" || rc=$?
	forget_child "$child"
	return "$rc"
}
end_children() {
	local child i
	for child in "${CHILDREN[@]}"; do
		kill_as_root -TERM -- "-$child" || forget_child "$child"
	done
	for child in "${CHILDREN[@]}"; do
		for ((i = 0; i < 600; i++)); do
			kill_as_root -0 -- "-$child" || continue 2
			sleep 0.1
		done
		kill_as_root -KILL -- "-$child"
	done
}
on_exit end_children

# start_limited seconds command...: start_child as the unprivileged user, for so long at most; the
# command ends with 124 when the time was over. timeout is outermost, as it ends all of its process group.
start_limited() {
	local seconds=$1
	shift
	if [ "$(id -u)" -eq 0 ]; then
		start_child timeout -k 20 "$seconds" runuser -u postgres -- env HOME=/nonexistent "$@"
	else
		start_child timeout -k 20 "$seconds" "$@"
	fi
}

# The same, and waits for it.
run_limited() {
	local rc=0 child
	start_limited "$@"
	child=$CHILD
	wait "$child" || rc=$?
	forget_child "$child"
	return "$rc"
}

# Prints a port from $1 on that no process listens on.
free_port() {
	local port=$1
	while ((port < 65000)); do
		if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return 0
		fi
		port=$((port + 1))
	done
	die "no free TCP port above $1"
}

# Prints the version of the source tree $1.
tree_version() {
	sed -n "s/^default_version *= *'\(.*\)' *$/\1/p" "$1/shardfdw.control"
}

# Copies the source tree $1 to $2, without what a build or a test run leaves behind.
copy_tree() {
	local version

	version=$(tree_version "$1")
	mkdir -p "$2"
	tar -C "$1" -cf - --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude='*.so' --exclude='*.bc' \
		--exclude="./sql/shardfdw--$version.sql" --exclude=./results --exclude=./output_iso --exclude=./tmp_check \
		--exclude=./tmp_check_iso --exclude=./log --exclude=./regression.diffs --exclude=./regression.out . |
		tar -C "$2" -xf - --no-same-owner
}
