# The demo, with few rows: it must end well, say what README says that it does, and leave nothing behind.

use strict;
use warnings;

use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir_short() . '/demo';
chomp(my $bindir = `pg_config --bindir`);
$ENV{SHARDFDW_DEMO} = $folder;

# The demo sets what it needs by itself.
delete @ENV{ grep { /^PG/ } keys %ENV };

sub demo
{
	my ($out, $err) = ('', '');
	my $ok = IPC::Run::run([ 'bash', 'scripts/demo', @_ ], '<', \undef, '>', \$out, '2>', \$err);
	return ($ok, $out, $err);
}

my ($ok, $out, $err) = demo('--scale', '0.01', '--bin', $bindir);
ok($ok, 'the demo ends well') or diag "$out\n$err";
like($out, qr/all 4 answers are the same as the plain table's/, 'queries');
like($out, qr/node2\W+committed.*both accounts have their new balance: 90 and 110/s, 'recovery completes the commit');
is(() = $out =~ /1000 accounts, 100000, as before/g, 2, 'no money is lost');
like($out, qr/during the move +longest transfer \d+ ms, [1-9]\d* transfers/, 'transfers during the move');
like($out, qr/no transfer has failed/, 'none of which has failed');
like($out, qr/account is a plain table on the coordinator/, 'the way back');
like($out, qr/== (?:what nodes add.*TPC-H query 1 .*times as fast|nodes with shares of a core: not shown)/s, 'shares of a core');
ok(!-e "$folder/limited", 'whose servers are gone');
ok(!(demo())[0], 'one demo at a time');

($ok, $out, $err) = demo('--stop');
ok($ok, 'it stops') or diag $err;
ok(!-e $folder, 'and leaves nothing behind');
($ok, $out) = demo('--stop');
like($out, qr/there is no demo/, 'twice');

done_testing();
