# Ends a load with RESUME again and again. The client, the coordinator or a node dies, at chosen
# moments of a commit or between two commits. At the end, the rows and the rejects must be those of
# one load without interruption.
#
# KILLS=200 KILL_ROWS=1000000 KILL_SEED=1: 200 random interruptions of a load of 1000000 rows.

use strict;
use warnings;

use POSIX ();
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $long = $ENV{KILLS};
my $total = $ENV{KILL_ROWS} // 20_000;
my $commit_rows = 1000; # of two lines
srand($ENV{KILL_SEED} // 1);

my $c = ShardCluster->new(
	nodes            => 2,
	node_conf        => "max_prepared_transactions = 50\n",
	coordinator_conf => "restart_after_crash = on\n");
my $dir = PostgreSQL::Test::Utils::tempdir();

# Rows of two lines. Some are bad: wrong type, a constraint of the shards, too few columns, a
# repeated key. The rows are long, because a session may read half a megabyte from a client before
# it processes it.
my $pad = 'x' x 250;
my $file = "$dir/data";
open my $out, '>', $file or die;
print $out "id,v,w\n";
for my $i (1 .. $total)
{
	print $out $i % 997 == 5 ? "$i,x,type\n" : $i % 1009 == 6 ? "$i,-1,check\n" : $i % 1511 == 7 ? "$i\n"
	  : $i % 1999 == 8 ? ($i - 8) . ",1,twice\n" : "$i," . $i * 7 % 1000 . ",\"$pad\n$i\"\n";
}
close $out;

# Prints the file up to a line, and the rest when another file exists. It ends when the reader has
# ended.
open $out, '>', "$dir/feed.pl" or die;
print $out <<'PERL';
my ($file, $until, $go) = @ARGV;
my $parent = getppid;
open my $in, '<', $file or die;
$| = 1;
while (<$in>)
{
	select undef, undef, undef, 0.005 while $. == $until && !-e $go && getppid == $parent;
	print or exit;
}
PERL
close $out;

$c->safe_psql("CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT positive CHECK (v >= 0), w text)");
$c->shard_table('t', 'id', shards => 8);
$c->safe_psql("SELECT shardfdw.create_reject_table('rejects')");

my $options = "FORMAT csv, HEADER, ON_ERROR ignore, ON_DUPLICATE keep_old, LOG_VERBOSITY silent, REJECT_TABLE 'rejects'";
my $sums = q{SELECT (SELECT count(*) || ' ' || sum(v) || ' ' || sum(hashtext(t::text)) FROM t),
	(SELECT count(*) || ' ' || count(DISTINCT load) || ' ' || string_agg(md5(ROW(line, column_name, shard, sqlstate, message, raw)::text), '' ORDER BY line) FROM rejects)};

my $expected_tag = $c->safe_psql("\\set QUIET off\nCOPY t FROM '$file' ($options)");
my $expected = $c->safe_psql($sums);
my $expected_rejects = $c->safe_psql('SELECT count(*) FROM rejects');
$c->safe_psql('TRUNCATE t; TRUNCATE rejects');

# A run of the load, which stops to read at a line. Returns a handle; its application_name is run<n>.
my $nruns = 0;

sub start_run
{
	my ($source, $until, $faults) = @_;
	my $name = 'run' . ++$nruns;
	my $run = { name => $name, go => "$dir/go$nruns", out => "$dir/$name.out", err => "$dir/$name.err" };
	my @feed = ('perl', "$dir/feed.pl", $file, $until, $run->{go});
	my $from = $source eq 'FILE' ? "'$file'" : $source eq 'PROGRAM' ? "PROGRAM \$\$@feed\$\$" : 'STDIN';

	$run->{pid} = fork // die;
	if ($run->{pid} == 0)
	{
		if ($source eq 'STDIN')
		{
			open STDIN, '-|', @feed or POSIX::_exit(1);
		}
		else
		{
			open STDIN, '<', '/dev/null' or POSIX::_exit(1);
		}
		open STDOUT, '>', $run->{out} or POSIX::_exit(1);
		open STDERR, '>', $run->{err} or POSIX::_exit(1);
		exec('psql', '-XAt', '-v', 'ON_ERROR_STOP=1', '-c', "SET shardfdw.fault_points = '$faults'",
			'-c', "COPY t FROM $from ($options, RESUME 'nightly', COMMIT_ROWS $commit_rows)",
			'-d', $c->coordinator->connstr('postgres') . " application_name='$name'")
		  or POSIX::_exit(1);
	}
	return $run;
}

# Waits for its end. Returns (true if it went well, stdout, stderr).
sub finish_run
{
	my ($run) = @_;
	append_to_file($run->{go}, '');
	waitpid($run->{pid}, 0);
	my $status = $?;
	return ($status == 0, slurp_file($run->{out}), slurp_file($run->{err}));
}

# Lines that are committed, and the process, without one if it has ended.
sub position
{
	my ($rc, $row) = $c->psql("SELECT lines, pid FROM shardfdw.resumable_loads WHERE name = 'nightly'");
	return $rc == 0 && $row ne '' ? split(/\|/, "$row ") : (0, '');
}

sub backend
{
	my ($run) = @_;
	return $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = '$run->{name}'");
}

sub wait_for_coordinator
{
	$c->coordinator->poll_query_until('postgres', 'SELECT true');
	return;
}

# Ends of a run that waits for input.
my %ends = (
	'kill -9 of the client' => sub { kill 'KILL', $_[0]->{pid} },
	'pg_terminate_backend' => sub { $c->safe_psql('SELECT pg_terminate_backend(' . backend($_[0]) . ')') },
	'pg_cancel_backend' => sub { $c->safe_psql('SELECT pg_cancel_backend(' . backend($_[0]) . ')') },
	"kill -9 of the coordinator's backend" => sub { kill 'KILL', backend($_[0]) },
	'kill -9 of the coordinator' => sub { $c->kill9_coordinator; $c->coordinator->start; },
	'kill -9 of a node' => sub { my $i = 1 + int rand 2; $c->kill9_node($i); $c->start_node($i); });

# Checks what must be true while no load runs: position and rows come from the same transaction.
sub check_invariant
{
	my ($what) = @_;
	my $prepared;

	for (1 .. 600)
	{
		$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()');
		$prepared = join '', map { $c->node_safe_psql($_, 'SELECT gid FROM pg_prepared_xacts') } 1 .. 2;
		last if $prepared eq '';
		usleep(20_000);
	}
	my $state = $c->safe_psql(q{SELECT coalesce(sum(rows), 0), coalesce(sum(rejected + duplicates), 0) FROM shardfdw.resumable_loads});
	my $there = $c->safe_psql('SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM rejects)');
	is($there, $state, "$what: the rows are those before the position") if !$long || $there ne $state;
	return;
}

# Runs a load up to line $until, and ends it in the given way after it has committed a part.
sub end_run
{
	my ($source, $end, $until) = @_;
	my $run = start_run($source, $until, $end =~ /^at (\w+)/ ? "$1=abort" . ($long ? '@0.3' : '') : '');

	if ($ends{$end})
	{
		my ($before) = position();
		for (1 .. 6000)
		{
			my ($lines) = position();
			last if $lines > $before || kill(0, $run->{pid}) == 0;
			usleep(10_000);
		}
		usleep(int rand 100_000) if $long;
		$ends{$end}->($run);
	}
	# psql would send all of its input before it checks for an error
	if ($source eq 'STDIN' && $ends{$end})
	{
		append_to_file($run->{go}, '');
		wait_for_coordinator();
		$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$run->{name}' AND state = 'active'");
		kill 'KILL', $run->{pid};
	}
	my ($ok) = finish_run($run);
	wait_for_coordinator();
	# until the session has ended, or has noticed that its client has ended
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$run->{name}'");
	check_invariant("$source, $end");
	return $ok;
}

my $nkills = 0;
if ($long)
{
	my @ends = (sort(keys %ends), map { "at $_" } qw(prepare prepared commit commit_sent committed));
	my @sources = qw(STDIN PROGRAM FILE);
	my %nended;

	while ($nkills < $long)
	{
		my ($lines) = position();
		my $end = $ends[ $nkills % @ends ];
		my $source = $end =~ /client/ ? 'STDIN' : $end =~ /^at/ ? $sources[ rand 3 ] : $sources[ rand 2 ];
		my $left = 2 * $total - $lines;
		last if $left < 6 * $commit_rows;
		# in the middle of a part: between two parts, no statement may notice that a node was restarted
		my $until = $lines + 4 * $commit_rows + 500 + int rand 1000;
		$until += 2 * $commit_rows * int rand($left / ($long - $nkills + 10) / 2 / $commit_rows);
		my $ok = end_run($source, $end, $until);
		if ($ok)
		{
			note "ended by itself: $source, $end";
			last if $c->safe_psql("SELECT ended_at IS NOT NULL FROM shardfdw.resumable_loads") eq 't';
		}
		$nkills++;
		$nended{$end}++;
	}
	note "$nkills kills: ", join ', ', map { "$_ $nended{$_}" } sort keys %nended;
}
else
{
	my $step = 0;

	for my $what (
		[ 'PROGRAM', 'kill -9 of a node' ],
		[ 'STDIN', 'kill -9 of the client' ],
		[ 'FILE', 'at prepared' ],
		[ 'PROGRAM', 'kill -9 of the coordinator' ],
		[ 'FILE', 'at commit' ],
		[ 'STDIN', 'pg_terminate_backend' ],
		[ 'STDIN', 'at committed' ],
		[ 'PROGRAM', 'pg_cancel_backend' ])
	{
		my ($before) = position();
		ok(!end_run(@$what, $before + 4500), "@$what: ended");
		my ($after) = position();
		cmp_ok($after, '>', $before, "@$what: some of it stays") unless $what->[1] eq 'at prepared';
		$nkills++;
	}
	like($c->safe_psql('SELECT error FROM shardfdw.resumable_loads'), qr/^canceling statement due to user request(?: \((?:COPY t, line \d+|waiting for nodes? .*)\))?$/,
		'the view shows the error');
}

# The last run. While it waits for input, no other session can run the load, forget it, or change
# the table.
my ($before) = position();
my $last = start_run('STDIN', $before + 100, '');
$c->wait_for("SELECT state = 'running' FROM shardfdw.resumable_loads");
is((position())[1], backend($last) . ' ', 'the view shows the process that runs it');
my ($rc, undef, $refused) = $c->psql("COPY t FROM '$file' ($options, RESUME 'nightly')");
like($refused, qr/ERROR:  load "nightly" is running/, 'another session cannot run it');
($rc, undef, $refused) = $c->psql("SELECT shardfdw.forget_load('nightly')");
like($refused, qr/ERROR:  load "nightly" is running/, 'nor have it forgotten');
($rc, undef, $refused) = $c->psql("SET lock_timeout = '10ms'; ALTER TABLE t ADD COLUMN x int");
like($refused, qr/lock timeout/, 'nor change the table');
my ($ok, $tag, $err) = finish_run($last);
ok($ok, "the load comes to its end after $nkills ends") || diag $err;
like($err, qr/NOTICE:  load "nightly" goes on after line \d+, byte \d+/, 'it says where it goes on');
is((split /\n/, $tag)[-1], $expected_tag, 'it counts the rows of all runs');
check_invariant('after the end');
is($c->safe_psql($sums), $expected, 'rows and rejects are those of one load');
is($c->safe_psql("SELECT state, pid IS NULL, bytes, lines, rejected + duplicates, error IS NULL FROM shardfdw.resumable_loads"),
	join('|', 'finished', 't', -s $file, $c->safe_psql('SELECT count(*) * 2 + 1 FROM t') =~ s/.*//r . (split ' ', `wc -l < $file`)[0], $expected_rejects, 't'),
	'what the view shows');

done_testing();
