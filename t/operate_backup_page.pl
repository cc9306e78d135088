# Runs the commands of docs/backup.md unchanged, except for addresses and folders. All servers are
# backed up, lost, and restored to a restore point. All data must be there.

use strict;
use warnings;

use DocBlocks;
use PostgreSQL::Test::Utils;
use ShardCluster;
use ShardPeers;
use Test::More;

# PostgreSQL's defaults, which the servers of tests do not have. Base backups do not wait for a slow
# checkpoint.
my $defaults = "max_wal_senders = 10\nwal_level = replica\ncheckpoint_completion_target = 0\n";

# The blocks of a section: [ language, commands ].
sub blocks
{
	my ($section) = @_;
	my @blocks = map { [ $_->{language}, $_->{text} ] } grep { $_->{section} eq $section } doc_blocks('docs/backup.md');

	die "no section $section" if !@blocks;
	return @blocks;
}

my ($c, $peers, %server, $backups, $pgbackrest);

# The page's servers have other names and addresses.
sub here
{
	my ($commands) = @_;
	my $first = $peers ? 'c1' : 'coordinator';
	my %at = map {; "10.0.1.$_->[0]" => $_->[1], "10.0.0.$_->[0]" => $_->[1] } [ 10, $first ], [ 20, 'c2' ], [ 11, 'n1' ], [ 12, 'n2' ];

	$commands =~ s{-h (10\.0\.\d\.\d+)}{ my $server = $server{ $at{$1} }; '-h ' . $server->host . ' -p ' . $server->port }ge;
	$commands =~ s{'(10\.0\.\d\.\d+)'}{ "'" . $server{ $at{$1} }->host . "'" }ge;
	$commands =~ s{/backup/}{$backups/}g;
	$commands =~ s{/var/lib/postgresql/(\w+)\.log}{ $server{$1}->logfile }ge;
	$commands =~ s{/var/lib/postgresql/(\w+)}{ $server{$1}->data_dir }ge;
	$commands =~ s{-d app}{-d postgres}g;
	$commands =~ s{ALTER SERVER n}{ALTER SERVER node}g;
	$commands =~ s{SELECT \* FROM shardfdw\.(check_cluster\(.*?\)) WHERE status <> 'ok'}{ ShardCluster::problems($1) }ge;
	$commands =~ s{pgbackrest --stanza}{$pgbackrest --stanza}g;
	return $commands;
}

sub shell
{
	my ($commands) = @_;
	is(system('bash', '-e', '-c', here($commands)), 0, 'runs: ' . (split /\n/, $commands)[-1]);
	return;
}

# On each coordinator.
sub sql { return join '', map { $_->safe_psql(here($_[0])) } $peers ? $peers->all : $c; }

# A block for n1, for a server.
sub for_server
{
	my ($commands, $name) = @_;
	return $commands =~ s{(/|=)n1\b}{$1$name}gr;
}

my ($conf) = blocks('Settings of all servers');
my ($base, $point, $switch) = blocks('Backing up');
my ($restore, $addresses, $take_over) = blocks('Restoring all servers to a restore point');
my ($peer_base, @peer_steps) = blocks('With several coordinators');
my ($tool_conf, $tool_settings, $tool_backup, $tool_restore) = blocks('With pgBackRest');
my ($documented) = $restore->[1] =~ /recovery_target_name = '([^']+)'/;

# backup: makes base backups. restore_block: is run for each server when all are lost. steps: blocks that follow.
sub lose_and_restore
{
	my ($settings, $backup, $restore_block, @steps) = @_;

	for my $name (sort keys %server)
	{
		$server{$name}->append_conf('postgresql.conf', here(for_server($settings, $name)));
		$server{$name}->restart;
	}
	$c->safe_psql('CREATE TABLE t (k int PRIMARY KEY, v int); CREATE TABLE r (k int PRIMARY KEY)');
	$c->safe_psql(q{SELECT shardfdw.shard_table('t', 'k', shards => 4), shardfdw.create_reference_table('r'); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i});
	$peers->add_all if $peers;
	$backup->();
	$c->safe_psql('INSERT INTO t SELECT i, i FROM generate_series(101, 200) i; INSERT INTO r VALUES (1)');
	shell($point->[1]);
	my $target = $c->safe_psql('SELECT DISTINCT target FROM shardfdw.restore_points');
	like($target, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ-[0-9a-f]{16}$/, 'a restore point has its target');
	is(slurp_file("$backups/restore_points"), "$target\n", 'which is kept');
	$c->safe_psql('DELETE FROM t; DELETE FROM r');
	my %last = map { $_ => $server{$_}->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_insert_lsn())') } keys %server;
	sql($switch->[1]);
	for (keys %server)
	{
		$server{$_}->poll_query_until('postgres', "SELECT last_archived_wal >= '$last{$_}' FROM pg_stat_archiver") or die "$last{$_} of $_ is not archived";
	}

	# All servers are lost.
	for (values %server)
	{
		$_->stop('immediate');
		rename $_->data_dir, $_->data_dir . '.lost' or die $!;
	}
	for (sort keys %server)
	{
		mkdir $server{$_}->data_dir, 0700 if $restore_block =~ /pgbackrest/;
		shell(for_server($restore_block, $_) =~ s/\Q$documented\E/$target/r);
		$server{$_}->_update_pid(1);
	}
	for (values %server)
	{
		$_->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
	}
	my $says = join '', map { sql($_->[1] =~ s/\Q$documented\E/$target/gr) } @steps;
	like($says, $peers ? qr/^[0-9a-f]{32}$/ : qr/^[0-9a-f]{16}$/, 'each restored coordinator takes over, recovery and checks have nothing to say');
	is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '200|20100', 'rows are as of the point');
	is($c->safe_psql('SELECT count(*) FROM r'), '1', 'those of a reference table, too');
	$c->safe_psql('INSERT INTO t SELECT i, i FROM generate_series(201, 300) i');
	is($c->safe_psql('SELECT count(*) FROM t'), '300', 'the cluster works');
	if ($peers)
	{
		$peers->coordinator(2)->safe_psql('INSERT INTO r VALUES (2); ALTER TABLE t ADD COLUMN note text');
		$peers->same(q{SELECT count(note) + (SELECT count(*) FROM r) FROM t}, '2', 'and its coordinators together');
	}
	return;
}

sub start_cluster
{
	my ($ncoordinators) = @_;

	$_->stop('immediate') for values %server;
	$peers = $ncoordinators > 1 ? ShardPeers->new(coordinators => 2, nodes => 2, conf => $defaults, node_conf => $defaults) : undef;
	$c = $peers ? $peers->coordinator(1) : ShardCluster->new(nodes => 2, coordinator_conf => $defaults, node_conf => $defaults);
	%server = (n1 => $c->node(1), n2 => $c->node(2), $peers ? (c1 => $c->coordinator, c2 => $peers->coordinator(2)->coordinator) : (coordinator => $c->coordinator));
	$backups = $c->coordinator->basedir . '/backup';
	$pgbackrest = 'pgbackrest';
	return;
}

start_cluster(1);
lose_and_restore($conf->[1], sub { shell($base->[1]) }, $restore->[1], $addresses, $take_over);

start_cluster(2);
lose_and_restore($conf->[1], sub { shell($peer_base->[1]) }, $restore->[1], @peer_steps);

SKIP:
{
	skip 'pgbackrest is not installed', 12 if system('pgbackrest version >/dev/null 2>&1') != 0;
	start_cluster(1);
	append_to_file("$backups/pgbackrest.conf", here($tool_conf->[1] =~ s{^(pg1-path=/var/lib/postgresql/(\w+))$}{
		"$1\npg1-port=" . $server{$2}->port . "\npg1-socket-path=" . $server{$2}->host . "\npg1-database=postgres"}gemr));
	$pgbackrest = "pgbackrest --config=$backups/pgbackrest.conf --log-path=$backups --lock-path=$backups/lock --log-level-console=warn";
	lose_and_restore($tool_settings->[1], sub { shell(for_server($tool_backup->[1], $_)) for sort keys %server }, $tool_restore->[1], $addresses, $take_over);
}

done_testing();
