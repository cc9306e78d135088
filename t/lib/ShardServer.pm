# ShardServer.pm - a server of a TAP test that may be down when psql asks it
#
# PostgreSQL::Test::Cluster writes a statement into psql's standard input. A psql that could not connect has
# ended before it reads, and the test with it ("Broken pipe"). Here psql gets a file, where it is needed at all.
#
# Backups with an archive of WAL (ARCHIVE_CONF are the settings), and servers that are restored from them:
#
#   $server->backup('base'); ...; $server->archive_wal;
#   my $restored = ShardServer->restored('restored1', $server, 'base', $target);
#
# Standbys of a server whose settings allow it:
#
#   my $standby = ShardServer->standby_of('standby1', $server);

package ShardServer;

use strict;
use warnings;

use parent 'PostgreSQL::Test::Cluster';

use PostgreSQL::Test::Utils ();    # what it exports would be methods of the class
use QuickPsql               ();
use Test::More              ();
use Time::HiRes qw(usleep);

my $dir;    # of the files, one for each process

# scripts/check names the first of 2,500 ports that no suite of another major version uses. The parent looks for a free port from
# here on. Its own INIT block comes first.
INIT
{
	$PostgreSQL::Test::Cluster::last_port_assigned = $ENV{FIRST_PORT} + int rand 2000 if $ENV{FIRST_PORT};
}

# Each server's archive is next to its data directory.
use constant ARCHIVE_CONF => q{
wal_level = replica
max_wal_senders = 6
archive_mode = on
archive_command = 'mkdir -p ../archives && cp "%p" "../archives/%f"'
};

# psql(dbname, SQL, %options): as the parent's.
sub psql
{
	my ($self, $dbname, $sql, %opt) = @_;
	my @params = @{ $opt{extra_params} // [] };
	my $user = @params == 2 && $params[0] eq '-U' ? $params[1] : undef;
	my $only_psql = grep { !/^(?:stdout|stderr|on_error_stop|on_error_die|extra_params)$/ } keys %opt;

	$dir //= PostgreSQL::Test::Utils::tempdir();
	if (!$only_psql && (!@params || defined $user) && (wantarray || (ref $opt{stdout} && ref $opt{stderr})))
	{
		my ($rc, @texts) = QuickPsql::quick_psql($self, $dbname, $sql, "$dir/$$.sql", on_error_stop => $opt{on_error_stop} // 1, user => $user);
		if (defined $rc)
		{
			chomp @texts;
			die(($rc == 2 ? 'connection error' : 'error running SQL') . ": '$texts[1]'\nwhile running '" . $self->connstr($dbname) . "' with sql '$sql'")
			  if $rc && $opt{on_error_die};
			${ $opt{stdout} } = $texts[0] if ref $opt{stdout};
			${ $opt{stderr} } = $texts[1] if ref $opt{stderr};
			return wantarray ? ($rc, @texts) : $rc;
		}
	}
	open my $file, '>', "$dir/$$.sql" or die "$dir/$$.sql: $!";
	print $file $sql // '';
	close $file or die "$dir/$$.sql: $!";
	$opt{extra_params} = [ @params, '-f', "$dir/$$.sql" ];
	return $self->SUPER::psql($dbname, '', %opt);
}

# poll_query_until(dbname, SQL[, expected output]): as the parent's, but polls more often at first,
# and in one session. Only a new session gets a setting last: the postmaster informs the running
# sessions before it starts a new one.
sub poll_query_until
{
	my ($self, $dbname, $sql, $expected) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $pause = 10_000;
	my $anew = $sql =~ /\b(?:current_setting|pg_settings|show)\b/i;
	my ($session, $out, $err);

	local $SIG{PIPE} = 'IGNORE';
	do
	{
		$session //= QuickPsql::psql_session($self, $dbname);
		my $result = $session && eval { $session->query($sql) };
		$out = $result ? join "\n", map { join '|', map { $_ // '' } @$_ } @{ $result->{rows} } : '';
		$err = !$result ? $@ || 'no session' : $result->{error} ? $result->{error}{M} : join '', map { $_->{M} } @{ $result->{notices} };
		my $found = $out eq ($expected // 't') && $err eq '';
		if ($session && ($found || $anew || $err ne ''))
		{
			eval { $session->close };
			undef $session;
		}
		return 1 if $found;
		usleep($pause);
		$pause *= 2 if $pause < 80_000;
	} while (time < $end);
	Test::More::diag("waited in vain for: $sql\nlast output:\n$out\n$err");
	return 0;
}

# Waits until the last WAL has been archived.
sub archive_wal
{
	my ($self) = @_;
	my $file = $self->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_insert_lsn())');

	$self->safe_psql('postgres', 'SELECT pg_switch_wal()');
	$self->poll_query_until('postgres', "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver") or die "$file is not archived";
	return;
}

# Creates a server with a name from the base backup and the archive of another one, promoted at
# restore point $target.
sub restored
{
	my ($class, $name, $server, $backup, $target) = @_;
	my $restored = $class->new($name);

	$restored->init_from_backup($server, $backup, has_restoring => 1, standby => 0);
	$restored->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_name = '$target'\nrecovery_target_action = 'promote'\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
	return $restored;
}

# A standby of that name, which follows another server by streaming and has caught up.
sub standby_of
{
	my ($class, $name, $server) = @_;
	my $standby = $class->new($name);

	$server->backup($name);
	$standby->init_from_backup($server, $name, has_streaming => 1);
	$standby->start;
	# by default, waits for the position up to which the primary has written
	$server->wait_for_catchup($name, 'replay', $server->lsn($server->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't' ? 'replay' : 'write'));
	return $standby;
}

1;
