# ShardServer.pm - a server of a TAP test that may be down when psql asks it
#
# PostgreSQL::Test::Cluster writes a statement into psql's standard input. A psql that could not connect has
# ended before it reads, and the test with it ("Broken pipe"). Here psql gets a file.

package ShardServer;

use strict;
use warnings;

use parent 'PostgreSQL::Test::Cluster';

use PostgreSQL::Test::Utils ();    # what it exports would be methods of the class
use Test::More ();
use Time::HiRes qw(usleep);

my $dir;    # of the files, one for each process

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

1;
