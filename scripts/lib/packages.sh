# shellcheck shell=bash
# packages.sh - installs Debian packages that are missing or outdated
#
# Needs common.sh.

APT_UPDATED=no

apt_run() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=600 "$@"
}

# Downloads the package lists, once a run. A third-party source that fails is no reason to stop.
apt_update() {
	[ "$APT_UPDATED" = no ] || return 0
	apt_run update >/dev/null || warn "apt-get update failed; going on with the package lists that are here"
	APT_UPDATED=yes
}

package_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages package...: installs those that are missing.
need_packages() {
	local package missing=()

	command -v apt-get >/dev/null || die "this needs Debian's apt-get to install: $*"
	for package in "$@"; do
		package_installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	apt_update
	note "installing ${missing[*]}"
	install_packages "${missing[@]}"
}

# need_latest_packages package...: installs those that are missing, upgrades those that are old.
need_latest_packages() {
	command -v apt-get >/dev/null || die "this needs Debian's apt-get to install: $*"
	apt_update
	if apt_run -s install "$@" 2>/dev/null | grep -q '^Inst '; then
		note "installing or upgrading $*"
		install_packages "$@"
	fi
}

# When packages of servers are installed, they make and start a cluster "main", which is not needed
# here.
install_packages() {
	local log

	if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
		as_root mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
	fi
	log=$(mktemp)
	if ! apt_run -o Dpkg::Options::=--force-confold install --no-install-recommends "$@" >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		rm -f "$log"
		die "could not install $*"
	fi
	rm -f "$log"
}
