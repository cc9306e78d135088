# Comments in the statements on nodes must tell the client's query id. By it, pg_stat_statements of
# the nodes is joined with that of the coordinator. They must also tell the traceparent that the
# client has put into a comment.

use strict;
use warnings;

use DocBlocks;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 2);

plan skip_all => 'there is no pg_stat_statements'
  if $c->safe_psql(q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_stat_statements'}) eq '0';

for my $server ($c->coordinator, $c->nodes)
{
	# loaded after shardfdw it sees COPY, too
	$server->append_conf('postgresql.conf', 'shared_preload_libraries = '
		  . ($server == $c->coordinator ? "'shardfdw, pg_stat_statements'\nshardfdw.recovery_interval = 0\n" : "'pg_stat_statements'\n"));
	$server->restart;
	$server->safe_psql('postgres', 'CREATE EXTENSION pg_stat_statements');
}
$_->append_conf('postgresql.conf', "log_statement = all\n") for $c->nodes;
$_->reload for $c->nodes;
$c->safe_psql(q{
	CREATE TABLE t (id int PRIMARY KEY, grp int, v text);
	SELECT shardfdw.shard_table('t', 'id', shards => 4)});

# ---------- query ids ----------

# Returns what the nodes have recorded for a statement of the coordinator: kinds of statements, and
# the number of nodes.
sub on_nodes
{
	my ($query) = @_;
	return $c->safe_psql(qq{
		WITH theirs AS (
			SELECT node, fields[2] AS query FROM shardfdw.query_nodes(
				ARRAY(SELECT node FROM shardfdw.nodes), ARRAY(SELECT \$\$
					SELECT substring(query from 'shardfdw_query_id=''(-?\\d+)'''), query FROM public.pg_stat_statements\$\$ FROM shardfdw.nodes))
			WHERE fields[1] = (SELECT queryid::text FROM pg_stat_statements WHERE query LIKE '$query' AND toplevel))
		SELECT string_agg(DISTINCT split_part(query, ' ', 1), ' '), count(DISTINCT node) FROM theirs});
}

my $client = WireClient->new($c->coordinator, 'postgres');

# Runs a statement, which must succeed.
sub run
{
	my ($sql) = @_;
	my $result = $client->query($sql);
	die "$sql: $result->{error}{M}" if $result->{error};
	return $result;
}

run("INSERT INTO t SELECT i, i % 7, 'v' FROM generate_series(1, 1000) i");
run('SELECT v FROM t WHERE id = 5') for 1 .. 5;
run('UPDATE t SET v = v WHERE grp = 3');
run('BEGIN');
run('SELECT grp, count(*) FROM t GROUP BY grp');
run('COMMIT');
run('SET shardfdw.query_per_node = off');
run('SELECT id, v FROM t ORDER BY v');
run('RESET shardfdw.query_per_node');
run('DELETE FROM t WHERE id = 6');
run("COPY t FROM PROGRAM 'for i in `seq 2001 2100`; do echo \$i,1,x; done' (FORMAT csv)");
like(on_nodes('INSERT INTO t%'), qr/^COPY.*\|2$/, 'query id of rows');
is(on_nodes('SELECT v FROM t WHERE id%'), 'SELECT|1', 'of a statement of one shard, which is prepared there');
is(on_nodes('UPDATE t SET v = v WHERE grp%'), 'UPDATE|2', 'of a change of all shards');
like(on_nodes('SELECT grp, count%'), qr/^(COPY|SELECT)\|2$/, 'of a query in a transaction');
is(on_nodes('SELECT id, v FROM t%'), 'COPY|2', 'of a query read as COPY');
is(on_nodes('DELETE FROM t%'), 'DELETE|1', 'of a change of one row');
like(on_nodes('COPY t FROM%'), qr/^COPY.*\|2$/, 'of a load');

# The page's query sums up the statements of the nodes.
my ($block) = grep { $_->{text} =~ /pg_stat_statements/ } doc_blocks('docs/watching.md');
my @rows = split /\n/, $c->safe_psql($block->{text});
is(scalar(grep { /SELECT grp, count/ && /^node[12]\|/ } @rows), 2, 'the query of docs/watching.md') or diag join "\n", @rows;

# Nothing is sent if it is switched off, or if no ids are computed.
my $mark = $c->log_position(1);
run($_) for 'SET shardfdw.remote_comments = none', 'SELECT min(id) FROM t', 'RESET shardfdw.remote_comments',
  'SET compute_query_id = off', 'SELECT max(id) FROM t', 'RESET compute_query_id', 'SELECT sum(id) FROM t';
my $log = $c->log_since($mark, 1);
my @sent = map { /(shardfdw_query_id)/ ? 1 : 0 } grep { /\b(?:min|max|sum)\(id\).*t_00/ } split /\n/, $log;
is("@sent", '0 0 1', 'no id where it is not asked for, or not computed') or diag $log;

# ---------- traces ----------

my $trace = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331';

# Returns what node 1 gets for a statement that reads or changes shards: the traceparent of its
# messages, and whether they are texts or prepared statements.
sub got
{
	my ($sql) = @_;
	my $mark = $c->log_position(1);
	run($sql);
	my (%traces, %kinds);
	for my $line (grep { / LOG:  (?:statement|execute).*\bt_0\d\b/ } split /\n/, $c->log_since($mark, 1))
	{
		$traces{ $line =~ /: \/\*traceparent='([^']*)'\*\/; / ? $1 : 'none' } = 1;
		$kinds{ $line =~ /execute shardfdw_/ ? 'prepared' : 'text' } = 1;
	}
	return (join(' ', sort keys %traces), join(' ', sort keys %kinds));
}
sub traced { return (got(@_))[0]; }
sub how { return join ', ', got(@_); }

# Keys of a shard on node 1.
my @keys = split /\n/, $c->safe_psql(q{SELECT id FROM t WHERE shardfdw.shard_for('t', id)::text = 't_00' ORDER BY id LIMIT 2});

is(traced("SELECT count(*) FROM t WHERE v > 'a' /*traceparent='00-$trace-01'*/"), 'none', 'not handed on unless asked');
run(q{SET shardfdw.remote_comments = 'all'});
my $many = q{SELECT count(*) FROM t WHERE v > 'b'};
is(traced("$many /*traceparent='00-$trace-01'*/"), "00-$trace-01", 'handed on');
is(traced("$many /*application='shop',traceparent='00-$trace-01',tracestate='a%3D1'*/;\n"), "00-$trace-01", 'beside other keys');
is(traced(" /*traceparent='00-$trace-01'*/ $many"), "00-$trace-01", 'at the beginning');
is(traced("$many /* x */ /*traceparent='00-$trace-01'*/ ; "), "00-$trace-01", 'behind another comment');
is(traced($many), 'none', 'the next statement has none');
is(traced(qq{SELECT count(*) FROM t WHERE v > \$\$/*traceparent='00-$trace-01'*/\$\$}), 'none', 'not of a literal');
is(traced("$many /*traceparent='00-$trace-0'*/"), 'none', 'not when it is too short');
is(traced("$many /*traceparent='00-${trace}x01'*/"), 'none', 'not when it has another form');
is(traced("$many /*xtraceparent='00-$trace-01'*/"), 'none', 'not under another key');
run('SET shardfdw.remote_comments = traceparent');
$mark = $c->log_position(1);
is(traced("$many /*traceparent='00-$trace-01'*/"), "00-$trace-01", 'without the query id');
unlike($c->log_since($mark, 1), qr/shardfdw_query_id/, 'which is not there');

# One statement is prepared once, whatever its comments are. A statement whose trace is recorded is
# sent as text.
my $one = "SELECT v FROM t WHERE id = $keys[0]";
run("$one /*traceparent='00-$trace-00'*/") for 1 .. 5;
is(how("$one /*traceparent='00-$trace-00'*/"), 'none, prepared', 'prepared, with a trace that is not recorded');
is(how("$one /*traceparent='00-$trace-01'*/"), "00-$trace-01, text", 'one that is recorded is handed on');
is(how("SELECT v FROM t WHERE id = $keys[1] /*traceparent='01-$trace-02'*/"), 'none, prepared', 'still prepared');
my $change = "UPDATE t SET v = 'w' WHERE id = $keys[0]";
run("$change /*traceparent='00-$trace-00'*/") for 1 .. 5;
is(how("$change /*traceparent='00-$trace-00'*/"), 'none, prepared', 'a change is prepared');
is(how("$change /*traceparent='00-$trace-0f'*/"), "00-$trace-0f, text", 'and handed on');
is($c->safe_psql("SELECT v FROM t WHERE id = $keys[0]"), 'w', 'it was done');

# Nodes count a statement once, whatever its traces are; a COPY too, which 15 knows by its text.
run('SET shardfdw.query_per_node = off');
run("SELECT id, v FROM t ORDER BY grp, v, id /*traceparent='00-0af7651916cd43dd8448eb211c80319$_-b7ad6b7169203331-01'*/") for 1 .. 3;
is($c->node_safe_psql(1, q{SELECT count(*) FILTER (WHERE calls < 3), count(*) FROM pg_stat_statements WHERE query ~ 'ORDER BY .*grp'}), '0|2',
	'one entry for each shard, whatever the traces are');
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_stat_statements WHERE query ~ 'traceparent=''\d'}), 0, 'and no trace in any of them');
$client->close;

done_testing();
