# Tests contrib/monitoring. Its queries must run with the rights that it grants. Alerts and the
# dashboard must use metrics that the queries make. Each alert must fire in its scene and in no
# other. contrib/monitoring/try tests with the exporter and Prometheus.

use strict;
use warnings;

use JSON::PP ();
use Monitoring;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

my $dir = 'contrib/monitoring';
my $m = Monitoring->new($dir);
my $c = ShardCluster->new(nodes => 3, preload => 1, coordinator_conf => "shardfdw.recovery_interval = 0\n", node_conf => "max_connections = 30\n");

# Nodes ask the role for its password, because the role is not a superuser.
for my $i (1 .. 3)
{
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $rest = slurp_file($hba);
	open my $file, '>', $hba or die "$hba: $!";
	print $file "local all shardfdw_monitor scram-sha-256\n$rest";
	close $file;
	$c->node($i)->reload;
	local $ENV{SHARDFDW_PASSWORD} = 'secret';
	is(($c->node_psql($i, '', extra_params => [ '-f', "$dir/role_node.sql" ]))[2], '', "role on node $i");
}
like(($c->psql('', extra_params => [ '-f', "$dir/role.sql" ]))[2], qr/set the password/, 'not without a password');
for my $time ('once', 'twice')
{
	local $ENV{SHARDFDW_PASSWORD} = 'secret';
	my ($rc, undef, $err) = $c->psql('SET client_min_messages = warning', extra_params => [ '-f', "$dir/role.sql" ]);
	is($rc, 0, "role on the coordinator, $time") or diag $err;
}
# nodes that are at work are waited for, however slow this machine is
$c->safe_psql(q{ALTER ROLE shardfdw_monitor SET shardfdw.watch_timeout = '100s'; ALTER ROLE shardfdw_monitor RESET statement_timeout});
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v text)');
$c->shard_table('t', 'id', shards => 6);
$c->safe_psql(q{INSERT INTO t SELECT g, 'x' FROM generate_series(1, 600) g});
my @shards = $c->shards_of('t');
my ($shard) = map { $_->[0] } grep { $_->[1] == 1 } @shards;
my $key = $c->safe_psql("SELECT min(id) FROM generate_series(1, 600) id WHERE shardfdw.shard_for('t', id) = '$shard'::regclass");

# The exporter's session, which it keeps as long as possible. Returns rows of a query as hashes.
my $session;
sub ask
{
	my ($sql) = @_;
	my $result = eval {
		$session //= WireClient->new($c->coordinator, 'postgres', user => 'shardfdw_monitor');
		$session->query("SELECT to_jsonb(q) FROM ($sql) q");
	};
	unless ($result)
	{
		undef $session;
		die $@;
	}
	die "$result->{error}{M}\n" if $result->{error};
	return [ map { JSON::PP::decode_json($_->[0]) } @{ $result->{rows} } ];
}

# ---------- the contents of the files ----------

my @queries = $m->queries;
my %collected = $m->collected;
my %metric;
ask($_->{sql}) for @queries;    # connects to the nodes, so that there is something to count
for my $query (@queries)
{
	my $rows = eval { ask($query->{sql}) } // [];
	my %expected = map { $_ => 1 } @{ $query->{labels} }, keys %{ $query->{values} };
	my %seen;

	cmp_ok(scalar @$rows, '>', 0, "$query->{name}: rows") or diag $@;
	is_deeply([ sort keys %{ $rows->[0] } ], [ sort keys %expected ], "$query->{name}: columns as declared");
	is(scalar(grep { !defined || !/^-?(\d+(\.\d+)?(e[-+]?\d+)?|Infinity)$/i } map { my $row = $_; map { $row->{$_} } keys %{ $query->{values} } } @$rows), 0, "$query->{name}: all values are numbers");
	$seen{ join '|', @$_{ @{ $query->{labels} } } }++ for @$rows;
	is(scalar(keys %seen), scalar(@$rows), "$query->{name}: labels tell rows apart");
	for my $column (sort keys %{ $query->{values} })
	{
		my ($name, $type) = ("$query->{name}_$column", lc $query->{values}{$column}{usage});
		my $other = delete $collected{$name};

		$metric{$name} = $type;
		is_deeply([ map { $other->{$_} } qw(type help key_labels values sql) ], [ $type, $query->{values}{$column}{description}, join(', ', @{ $query->{labels} }), $column, $query->{sql} ], "$name: both exporters make it");
		is($type eq 'counter' ? $name =~ /_total$/ : $name !~ /_total$/, 1, "$name: counters end in _total");
	}
}
is(join(' ', sort keys %collected), '', 'sql_exporter makes no others');

for my $panel ($m->panels)
{
	my @names = $panel->[1] =~ /\b(shardfdw_\w+)/g;
	is(join(' ', grep { !$metric{$_} } @names), '', "panel $panel->[0]: its metrics are there") if @names;
	is(scalar(grep { $metric{$_} eq 'counter' } @names) > 0, $panel->[1] =~ /\brate\(/, "panel $panel->[0]: rates are those of counters");
}
my $dashboard = JSON::PP::decode_json($m->text('dashboard.json'));
is_deeply([ map { $_->{title} } grep { $_->{type} eq 'row' } @{ $dashboard->{panels} } ], [ 'Nodes', 'Traffic', 'Commits', 'Jobs and locks', 'Shards' ], 'groups of the dashboard');
is_deeply([ map { $_->{type} } @{ $dashboard->{templating}{list} } ], ['datasource'], 'its one variable');
is(scalar(grep { ($_->{datasource}{uid} // '') ne '${datasource}' } grep { $_->{type} ne 'row' } @{ $dashboard->{panels} }), 0, 'which all panels use');
my %id = map { $_->{id} => 1 } @{ $dashboard->{panels} };
is(scalar(keys %id), scalar(@{ $dashboard->{panels} }), 'panels have numbers of their own');

my @alerts = $m->alerts;
for my $alert (@alerts)
{
	is(join(' ', grep { !$metric{$_} } $alert->{expr} =~ /\b(shardfdw_\w+)/g), '', "$alert->{alert}: its metrics are there");
	is(join(' ', grep { !defined $alert->{$_} } qw(severity summary description docs)), '', "$alert->{alert}: says what it is and what to do");
	my ($page, $heading) = split /#/, $alert->{docs};
	my @headings = map { lc(s/[^\w\s-]//gr) =~ tr/ /-/r } (-e $page ? slurp_file($page) : '') =~ /^#+ (.*)$/mg;
	ok(!defined $heading ? -e $page : grep({ $_ eq $heading } @headings), "$alert->{alert}: $alert->{docs} is there");
}

# ---------- rights ----------

$c->safe_psql('REVOKE pg_monitor FROM shardfdw_monitor');
undef $session;
ask($_->{sql}) for @queries;
is(scalar(grep { my $sql = $_->{sql}; eval { @{ ask($sql) } } ? 0 : 1 } @queries), 0, 'the queries need no rights but those on nodes');
$c->safe_psql('GRANT pg_monitor TO shardfdw_monitor');
undef $session;
like($_->[1], $_->[2], "it may not $_->[0]")
  for map { [ $_->[0], eval { ask($_->[1]); '' } // $@, $_->[2] ] } (
	[ 'read tables', 'SELECT * FROM public.t', qr/permission denied for table t/ ],
	[ 'run commands on nodes', q{SELECT * FROM shardfdw.run_on_nodes('SELECT 1')}, qr/permission denied for function run_on_nodes/ ],
	[ 'read tables of nodes', qq{SELECT * FROM shardfdw.query_nodes(ARRAY['node1']::name[], ARRAY['SELECT * FROM public.$shard'])}, qr/permission denied for table $shard/ ]);

# ---------- scenes ----------

# Returns the alerts that fire. By default times and sizes count from the start, so that the test
# need not wait for an hour. If $exact is set, they are those of the file.
my $exact = 0;
sub firing
{
	$m->take(\&ask);
	return join ' ', sort map {
		my $alert = $_;
		my $expr = $exact ? $alert->{expr} : $alert->{expr} =~ s/(_(?:seconds|bytes) > )\d+$/${1}0.1/r;
		map { $alert->{alert} . join '', map { "{$_}" } map { s/^host=.*/address/r } values %{ $_->{labels} } } $m->evaluate($expr);
	} @alerts;
}

sub reaches
{
	my ($expected, $name, $also) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	my $firing;

	while (1)
	{
		$firing = firing();
		$firing =~ s/\Q$also\E // if defined $also;
		last if $firing eq $expected || time > $end;
		usleep(50_000);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($firing, $expected, $name);
}

my %fired;
# scene(name, alerts that fire, function that causes them, function that ends them[, an alert that
# may fire, too])
sub scene
{
	my ($name, $expected, $begin, $end, $also) = @_;

	$m->forget;
	reaches('', "before: $name");
	$begin->();
	reaches($expected, $name, $also);
	$fired{ s/\{.*//r } = 1 for split / /, $expected;
	$end->();
	return;
}

$exact = 1;
reaches('', 'nothing fires at rest');
$exact = 0;

scene('a node that is down', 'ShardfdwNodeDown{node3}', sub { $c->stop_node(3) }, sub { $c->start_node(3) });

scene('a node that was disabled', 'ShardfdwReplicasStale{node2}',
	sub { $c->safe_psql(q{CREATE TABLE twice (id int PRIMARY KEY); SELECT shardfdw.shard_table('twice', 'id', shards => 3, replication_factor => 2); SELECT shardfdw.disable_node('node2')}) },
	sub { $c->safe_psql(q{SELECT shardfdw.enable_node('node2'); DROP TABLE twice}) });

sub prepared_scene
{
	my ($name, $expected, $gid) = @_;
	scene($name, $expected, sub { $c->node_safe_psql(2, "BEGIN; CREATE TABLE left_behind (); PREPARE TRANSACTION '$gid'") }, sub { $c->node_safe_psql(2, "ROLLBACK PREPARED '$gid'") });
	return;
}
my $prefix = $c->gid_prefix;
prepared_scene('a prepared transaction of somebody else', 'ShardfdwPreparedTransactionOld{node2}', 'forgotten');
prepared_scene('one that recovery has to settle', 'ShardfdwPreparedTransactionOld{node2} ShardfdwRecoveryNotDone{node2}', "${prefix}3:17");
prepared_scene('one that recovery cannot decide', 'ShardfdwPreparedTransactionOld{node2} ShardfdwRecoveryNeedsDecision{node2}', $prefix =~ s/^(shardfdw:\d+:\d+:)\w+/${1}0123456789abcdef/r . '3:17');

my $no_jobs = sub { $c->safe_psql('DELETE FROM shardfdw_internal.job') };
scene('a job that fails', 'ShardfdwJobFailed{move}',
	sub {
		$c->node_safe_psql(2, "CREATE TABLE public.$shard ()");
		$c->psql_fails_like("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')", qr/exists on node "node2" already/, 'a move fails');
		$c->node_safe_psql(2, "DROP TABLE public.$shard");
	}, $no_jobs);

# A writer of the shard makes the job wait.
my $writer = WireClient->new($c->coordinator, 'postgres');
my $move;
my $begin_move = sub {
	$writer->query("BEGIN; UPDATE t SET v = 'y' WHERE id = $key");
	$move = $c->start_sql("SELECT shardfdw.move_shard('$shard', 'node2', mode => 'block')", name => 'move');
	$c->wait_for('SELECT count(*) = 1 FROM shardfdw.jobs WHERE waits_for IS NOT NULL');
};
# The lag is written into the job's row: it would take long to write so much more on a source than a
# job can apply.
scene('a job that does not follow', 'ShardfdwJobLag{move}',
	sub { $begin_move->(); $c->safe_psql('UPDATE shardfdw_internal.job SET lag_bytes = 2000000000') },
	sub { $writer->query('ROLLBACK'); is(($c->wait_sql($move))[0], 0, 'it goes on'); $no_jobs->(); });
$c->safe_psql("SELECT shardfdw.move_shard('$shard', 'node1', mode => 'block')");
$no_jobs->();
scene('a job whose process ends', 'ShardfdwJobInterrupted{move}',
	sub { $begin_move->(); $c->safe_psql('SELECT pg_terminate_backend(pid) FROM shardfdw.jobs'); $c->wait_sql($move); },
	sub { $writer->query('ROLLBACK'); $no_jobs->(); $c->safe_psql('SELECT shardfdw.recover_prepared_transactions()'); });

my @clients;
scene('nearly all connections of a node', 'ShardfdwConnectionsNearLimit{node3}',
	sub { push @clients, WireClient->new($c->node(3), 'postgres') for 1 .. 25 }, sub { $_->close for @clients; @clients = (); });

my %two = map { $_ => WireClient->new($c->coordinator, 'postgres') } qw(blocker waiter);
scene('a lock that is waited for', 'ShardfdwLockWait{node1}',
	sub { $two{blocker}->query("BEGIN; UPDATE t SET v = 'z' WHERE id = $key"); $two{waiter}->start_query("UPDATE t SET v = 'w' WHERE id = $key"); },
	sub { $two{blocker}->query('COMMIT'); ok(!$two{waiter}->finish_query($PostgreSQL::Test::Utils::timeout_default)->{error}, 'it goes on'); });

scene('shards on one node alone', 'ShardfdwShardsUnbalanced{node1}',
	sub { $c->safe_psql('CREATE TABLE heavy (id int PRIMARY KEY)'); $c->shard_table('heavy', 'id', shards => 12, nodes => ['node1']); },
	sub { $c->safe_psql('DROP TABLE heavy') });

# The exporter's session has returned its connection by then, and may not get another one.
my @writers;
my @keys = split /\n/, $c->safe_psql("SELECT id FROM generate_series(1, 600) id WHERE shardfdw.shard_for('t', id) = '$shard'::regclass LIMIT 6");
scene('sessions that wait for connections', 'ShardfdwSessionsWaitForConnections{address}',
	sub {
		# not by reload: idle sessions would continue with their old values
		$c->safe_psql($_) for q{ALTER ROLE shardfdw_monitor SET statement_timeout = '3s'}, 'ALTER SYSTEM SET shardfdw.max_shared_connections_per_node = 3', 'ALTER SYSTEM SET shardfdw.connection_wait_timeout = 0';
		$c->coordinator->restart;
		push @writers, WireClient->new($c->coordinator, 'postgres') for @keys;
		$writers[$_]->start_query("BEGIN; UPDATE t SET v = 'c' WHERE id = $keys[$_]") for 0 .. $#keys;
	},
	sub {
		$c->safe_psql($_) for map({ "ALTER SYSTEM RESET shardfdw.$_" } qw(max_shared_connections_per_node connection_wait_timeout)), 'ALTER ROLE shardfdw_monitor RESET statement_timeout';
		$c->coordinator->restart;
	}, 'ShardfdwNodeDown{node1}');

$exact = 1;
reaches('', 'nothing fires in the end');
$exact = 0;
scene('a coordinator that is gone', 'ShardfdwNotWatched', sub { $c->coordinator->stop('fast') }, sub { });
is(join(' ', grep { !$fired{$_} } map { $_->{alert} } @alerts), '', 'each has had its scene');

done_testing();
