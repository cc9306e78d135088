# ShardServer.pm - a server of a TAP test that may be down when psql asks it
#
# PostgreSQL::Test::Cluster writes a statement into psql's standard input. A psql that could not connect has
# ended before it reads, and the test with it ("Broken pipe"). Here psql gets a file.
#
# Backups with an archive of WAL (ARCHIVE_CONF are the settings), and servers that are restored from them:
#
#   $server->backup('base'); ...; $server->archive_wal;
#   my $restored = ShardServer->restored('restored1', $server, 'base', $target);

package ShardServer;

use strict;
use warnings;

use parent 'PostgreSQL::Test::Cluster';

use PostgreSQL::Test::Utils ();    # what it exports would be methods of the class
use Test::More ();
use Time::HiRes qw(usleep);

my $dir;    # of the files, one for each process

# Each server's archive lies beside its data directory.
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

	$dir //= PostgreSQL::Test::Utils::tempdir();
	open my $file, '>', "$dir/$$.sql" or die "$dir/$$.sql: $!";
	print $file $sql // '';
	close $file or die "$dir/$$.sql: $!";
	$opt{extra_params} = [ @{ $opt{extra_params} // [] }, '-f', "$dir/$$.sql" ];
	return $self->SUPER::psql($dbname, '', %opt);
}

# poll_query_until(dbname, SQL[, expected output]): as the parent's, but looks again soon at first.
sub poll_query_until
{
	my ($self, $dbname, $sql, $expected) = @_;
	my ($rc, $out, $err);
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $pause = 10_000;

	do
	{
		($rc, $out, $err) = $self->psql($dbname, $sql, on_error_stop => 0);
		return 1 if $out eq ($expected // 't') && $err eq '';
		usleep($pause);
		$pause *= 2 if $pause < 80_000;
	} while (time < $end);
	Test::More::diag("waited in vain for: $sql\nlast output:\n$out\n$err");
	return 0;
}

# Waits until what has been written last is in the archive.
sub archive_wal
{
	my ($self) = @_;
	my $file = $self->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_insert_lsn())');

	$self->safe_psql('postgres', 'SELECT pg_switch_wal()');
	$self->poll_query_until('postgres', "SELECT last_archived_wal >= '$file' FROM pg_stat_archiver") or die "$file is not archived";
	return;
}

# A server of that name from the base backup and the archive of another one, promoted at restore point $target.
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

1;
