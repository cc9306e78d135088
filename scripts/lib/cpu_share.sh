# shellcheck shell=bash
# cpu_share.sh - control groups that give servers a fixed share of a core
#
# Works with the old and the new kind of control groups. Needs root or sudo, and a machine whose control groups
# can be written; many containers do not allow that.
#
# Sourced, never run: by scripts/demo and bench/scale_out. Needs common.sh.

# A period in which a query is not stopped for long: the server waits for its end when it has used up its share.
CPU_SHARE_PERIOD_US=20000
CPU_SHARE_GROUPS=()

# cpu_share_limit name share [postmaster]: makes a control group with that share of a core, and puts a server and its
# processes into it; processes that they start later follow. Returns 1 where control groups cannot be written.
cpu_share_limit() {
	local name=$1 quota group pid
	quota=$(awk -v share="$2" -v period="$CPU_SHARE_PERIOD_US" 'BEGIN { printf "%d", share * period }')

	# A subshell, because as_root ends the script where there is no sudo.
	if [ -d /sys/fs/cgroup/cpu ]; then
		group=/sys/fs/cgroup/cpu/shardfdw-$name
		(as_root mkdir "$group") 2>/dev/null || return 1
		CPU_SHARE_GROUPS+=("$group")
		{
			echo "$CPU_SHARE_PERIOD_US" | as_root tee "$group/cpu.cfs_period_us" &&
				echo "$quota" | as_root tee "$group/cpu.cfs_quota_us"
		} >/dev/null 2>&1 || return 1
	else
		group=/sys/fs/cgroup/shardfdw-$name
		(as_root mkdir "$group") 2>/dev/null || return 1
		CPU_SHARE_GROUPS+=("$group")
		echo "$quota $CPU_SHARE_PERIOD_US" | as_root tee "$group/cpu.max" >/dev/null 2>&1 || return 1
	fi
	[ -n "${3-}" ] || return 0
	# The postmaster first: what it starts from now on is in the group.
	echo "$3" | as_root tee "$group/cgroup.procs" >/dev/null 2>&1 || return 1
	for pid in $(grep -ls "^PPid:[[:space:]]*$3\$" /proc/[0-9]*/status | sed 's/[^0-9]//g'); do
		echo "$pid" | as_root tee "$group/cgroup.procs" >/dev/null 2>&1 || true
	done
}

# Removes the groups. Their servers have ended.
cpu_share_free() {
	local group i
	for group in "${CPU_SHARE_GROUPS[@]}"; do
		for ((i = 0; i < 50; i++)); do
			as_root rmdir "$group" 2>/dev/null && continue 2
			sleep 0.1
		done
		warn "control group $group is left"
	done
	CPU_SHARE_GROUPS=()
}
