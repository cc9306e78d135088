# A statement with a password fails on the other coordinator. Neither the client nor the logs of the
# coordinators get the password, if logging of statements is off as docs/security.md advises.

use strict;
use warnings;

use ShardPeers;
use Test::More;

my $p = ShardPeers->new(coordinators => 2, nodes => 1);
$p->add_all;
my ($c1, $c2) = $p->all;
$c1->safe_psql('CREATE ROLE erin');
$c2->safe_psql('CREATE ROLE erin');
my $quiet = "SET log_statement = 'none'; SET log_min_error_statement = 'panic';"
  . 'SET log_min_duration_statement = -1;';

# The mapping is missing on the second coordinator only, and then exists there only.
my @cases = (
	[ "CREATE USER MAPPING FOR erin SERVER node1 OPTIONS (user 'erin')",
		"ALTER USER MAPPING FOR erin SERVER node1 OPTIONS (ADD password 'TOPSECRET1')" ],
	[ 'DROP USER MAPPING IF EXISTS FOR erin SERVER node1',
		"CREATE USER MAPPING FOR erin SERVER node1 OPTIONS (password 'TOPSECRET2')" ]);
my $alone = 'SET shardfdw.enable_coordinator_propagation = off;';
for my $i (0, 1)
{
	my ($before, $sql) = @{ $cases[$i] };
	$c1->safe_psql("$alone $before");
	$c2->safe_psql("$alone CREATE USER MAPPING FOR erin SERVER node1") if $i == 1;
	my @at = map { $_->log_position } $c1, $c2;
	my ($rc, $out, $err) = $c1->psql("$quiet $sql", on_error_stop => 1);
	isnt($rc, 0, 'the other coordinator refuses the statement');
	like($err, qr/user mapping for "erin"/, 'the error is that of the other coordinator');
	unlike($err, qr/TOPSECRET/, 'the client gets no password');
	unlike($c1->log_since($at[0]), qr/TOPSECRET/, 'nor does the log of this coordinator');
	unlike($c2->log_since($at[1]), qr/TOPSECRET/, 'nor does the log of the other one');
}

done_testing();
