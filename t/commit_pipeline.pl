# Sends statements by the extended protocol, in every arrangement of messages and packets. If one
# statement on one node is the whole transaction, the node itself commits it. The coordinator
# decides this while the client's next messages are still arriving. Answers and rows must be those
# of a plain table, however the bytes arrive.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient qw(message parse_message bind_message execute_message describe_message close_message flush_message sync_message);

my $c = ShardCluster->new(nodes => 2, node_conf => "log_statement = all\n");

for my $schema (qw(plain sharded))
{
	$c->safe_psql("CREATE SCHEMA $schema; CREATE TABLE $schema.t (k int PRIMARY KEY, v int CHECK (v < 1000)); INSERT INTO $schema.t VALUES (1, 1), (2, 2), (3, 3)");
}
$c->safe_psql(q{CREATE TABLE local (k int PRIMARY KEY); SELECT shardfdw.shard_table('sharded.t', 'k', shards => 4)});

# ---------- parts of a conversation ----------

my $next_key = 100;

# A statement without Sync. It uses the unnamed statement and portal, as drivers do.
sub statement { my ($sql, @values) = @_; return parse_message('', $sql) . bind_message('', '', @values) . execute_message(''); }
sub insert { return statement('INSERT INTO t VALUES ($1, $2)', $_[0], $_[1] // 0); }
sub query { my ($sql) = @_; return message('Q', "$sql\0"); }
my $sync = sync_message();

# The messages of a client, with keys from 100 on: a list of packets. Between two packets the server
# gets time to read. "read": the client reads up to ReadyForQuery. "break": the client closes the
# connection.
my %conversations = (
	'one statement' => sub { return insert(100) . $sync, 'read' },
	'one statement with Describe' => sub { return parse_message('', 'INSERT INTO t VALUES ($1, $2) RETURNING k, v') . bind_message('', '', 100, 1) . describe_message('') . execute_message('') . $sync, 'read' },
	'Sync comes later' => sub { return insert(100), $sync, 'read' },
	'Flush, and Sync comes later' => sub { return insert(100) . flush_message(), $sync, 'read' },
	'Flush before Sync' => sub { return insert(100) . flush_message() . $sync, 'read' },
	'Close before Sync' => sub { return insert(100) . close_message('') . $sync, 'read' },
	'two statements, one Sync' => sub { return insert(100) . insert(101) . $sync, 'read' },
	'two statements, two Syncs' => sub { return insert(100) . $sync . insert(101) . $sync, 'read', 'read' },
	'the second one fails' => sub { return insert(100) . insert(100) . $sync, 'read' },
	'the first one fails' => sub { return insert(1) . insert(100) . $sync, 'read' },
	'the first one fails, each with a Sync' => sub { return insert(1) . $sync . insert(100) . $sync, 'read', 'read' },
	'the second one fails, each with a Sync' => sub { return insert(100) . $sync . insert(1) . $sync, 'read', 'read' },
	'a CHECK fails' => sub { return insert(100, 5000) . $sync, 'read' },
	'a syntax error after it' => sub { return insert(100) . statement('INSERT t') . $sync, 'read' },
	'a SELECT before it' => sub { return statement('SELECT count(*) FROM t') . insert(100) . $sync, 'read' },
	'a SELECT after it' => sub { return insert(100) . statement('SELECT count(*) FROM t') . $sync, 'read' },
	'a SELECT that fails after it' => sub { return insert(100) . statement('SELECT 1 / (k - k) FROM t') . $sync, 'read' },
	'a local table before it' => sub { return statement('INSERT INTO public.local VALUES (1)') . insert(1) . $sync, 'read' },
	'a local table after it, which fails' => sub { return insert(100) . statement('INSERT INTO public.local VALUES (NULL)') . $sync, 'read' },
	'a local setting before it' => sub { return statement(q{SELECT set_config('work_mem', '1MB', true)}) . insert(100) . $sync . statement('SHOW work_mem') . $sync, 'read', 'read' },
	'BEGIN before it' => sub { return statement('BEGIN') . $sync . insert(100) . $sync . statement('ROLLBACK') . $sync, 'read', 'read', 'read' },
	'BEGIN in the same pipeline' => sub { return statement('BEGIN') . insert(100) . $sync . statement('ROLLBACK') . $sync, 'read', 'read' },
	'BEGIN after it' => sub { return insert(100) . statement('BEGIN') . insert(101) . $sync . statement('ROLLBACK') . $sync, 'read', 'read' },
	'COMMIT after it, then one that fails' => sub { return insert(100) . statement('COMMIT') . insert(100) . $sync, 'read' },
	'ROLLBACK after it' => sub { return insert(100) . statement('ROLLBACK') . insert(101) . $sync, 'read' },
	'a savepoint after it' => sub { return insert(100) . statement('SAVEPOINT a') . $sync, 'read' },
	'a simple query after it, without Sync' => sub { return insert(100) . query('INSERT INTO t VALUES (101, 0)'), 'read' },
	'a simple query that fails after it' => sub { return insert(100) . query('INSERT INTO t VALUES (1, 0)'), 'read' },
	'a simple query after it, with Sync' => sub { return insert(100) . $sync . query('INSERT INTO t VALUES (1, 0)'), 'read', 'read' },
	'a simple query' => sub { return query('INSERT INTO t VALUES (100, 0)'), 'read' },
	'a simple query of two statements' => sub { return query('INSERT INTO t VALUES (100, 0); INSERT INTO t VALUES (1, 0)'), 'read' },
	'a simple query of three statements' => sub { return query('INSERT INTO t VALUES (100, 0); SELECT 1; UPDATE t SET v = 7 WHERE k = 100'), 'read' },
	'a simple query with COMMIT inside' => sub { return query('INSERT INTO t VALUES (100, 0); COMMIT; INSERT INTO t VALUES (1, 0)'), 'read' },
	'two simple queries' => sub { return query('INSERT INTO t VALUES (100, 0)') . query('INSERT INTO t VALUES (1, 0)'), 'read', 'read' },
	'a named statement' => sub { return parse_message('s', 'UPDATE t SET v = v + $2 WHERE k = $1') . bind_message('', 's', 1, 5) . execute_message('') . $sync . bind_message('', 's', 2, 5) . execute_message('') . $sync, 'read', 'read' },
	'a named statement, one Sync' => sub { return parse_message('s', 'UPDATE t SET v = v + $2 WHERE k = $1') . bind_message('', 's', 1, 5) . execute_message('') . bind_message('', 's', 2, 2000) . execute_message('') . $sync, 'read' },
	'a named portal' => sub { return parse_message('', 'INSERT INTO t VALUES ($1, $2)') . bind_message('p', '', 100, 0) . execute_message('p') . $sync, 'read' },
	'executed twice' => sub { return insert(100) . execute_message('') . $sync, 'read' },
	'bound twice' => sub { return parse_message('', 'INSERT INTO t VALUES ($1, $2)') . bind_message('', '', 100, 0) . bind_message('', '', 101, 0) . execute_message('') . $sync, 'read' },
	'rows in parts' => sub { return parse_message('', 'UPDATE t SET v = v + 1 WHERE k = 2 RETURNING k, v') . bind_message('', '') . execute_message('', 1) . $sync, 'read' },
	'rows in parts, then one that fails' => sub { return parse_message('', 'INSERT INTO t VALUES (100, 1) RETURNING k') . bind_message('', '') . execute_message('', 1) . execute_message('', 1) . insert(1) . $sync, 'read' },
	'two Syncs' => sub { return insert(100) . $sync . $sync, 'read', 'read' },
	'only read' => sub { return statement('SELECT v FROM t WHERE k = 1') . $sync, 'read' },
	'the client dies before Sync' => sub { return insert(100), 'break' },
	'the client says goodbye before Sync' => sub { return insert(100) . message('X', ''), 'break' },
	'the client says goodbye after Sync' => sub { return insert(100) . $sync . message('X', ''), 'break' },
	'an unknown message after it' => sub { return insert(100) . message('!', ''), 'read' },
	'CopyFail after it' => sub { return insert(100) . message('f', "no\0") . $sync, 'read' });

sub connect_to
{
	my ($schema) = @_;
	return WireClient->new($c->coordinator, 'postgres', options => "-c search_path=$schema -c client_min_messages=error");
}

# An answer without the parts that differ between servers: the text of errors.
sub said
{
	my ($type, $payload) = @{ $_[0] };
	return $type eq 'E' ? 'error ' . ($payload =~ /\0C([^\0]*)/)[0] : $type eq 'T' ? 'columns ' . unpack 'n', $payload : "$type " . $payload =~ s/[^ -~]/./gr;
}

# Runs a conversation with its packets split by cut(packet). Returns all answers, the rows at the
# end, and the nodes' log.
sub hold
{
	my ($schema, $cut, @steps) = @_;
	my $client = connect_to($schema);
	my @position = map { $c->log_position($_) } 1, 2;
	my $gone;
	my $text = '';

	local $SIG{PIPE} = 'IGNORE';

	for my $step (@steps)
	{
		if ($step eq 'read') { $text .= join("\n", map { said($_) } $client->read_messages) . "\n"; }
		elsif ($step eq 'break')
		{
			$client->wait_until_taken;
			$client->break_off;
			$gone = 1;
		}
		else
		{
			for my $packet ($cut->($step))
			{
				$client->send_bytes($packet);
				$client->wait_until_taken;
			}
		}
	}
	eval { $client->close } unless $gone;
	# the session of the lost client ends when its statements have ended
	$c->ask_until(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'});
	my $log = join '', map { $c->log_since($position[ $_ - 1 ], $_) } 1, 2;
	$text .= $c->ask("SELECT string_agg(k || ':' || v, ' ' ORDER BY k) FROM $schema.t");
	$c->ask("DELETE FROM $schema.t; DELETE FROM public.local; INSERT INTO $schema.t VALUES (1, 1), (2, 2), (3, 3)");
	return ($text, $log);
}

# ---------- every conversation ----------

# Conversations in which a node commits a statement by itself, without a transaction around it.
my %by_itself;
for my $name (sort keys %conversations)
{
	my @steps = $conversations{$name}->();
	my ($sharded, $log) = hold('sharded', sub { return @_ }, @steps);
	my ($plain) = hold('plain', sub { return @_ }, @steps);

	$by_itself{$name} = 1 if $log =~ /(?:INSERT|UPDATE)/ && $log !~ /START TRANSACTION/;
	is($sharded, $plain, $name);
}
note join "\n", sort keys %by_itself;

# ---------- cut at every byte ----------

for my $name ('one statement', 'two statements, one Sync', 'the second one fails', 'the second one fails, each with a Sync')
{
	my @steps = $conversations{$name}->();
	my ($plain) = hold('plain', sub { return @_ }, @steps);
	my @differ;

	for my $i (1 .. -1 + length $steps[0])
	{
		next unless ShardCluster::in_half($i);
		my ($sharded) = hold('sharded', sub { return (substr($_[0], 0, $i), substr $_[0], $i) }, @steps);
		push @differ, $i if $sharded ne $plain;
	}
	is("@differ", '', "$name, in two packets, cut at each of " . length($steps[0]) . ' bytes');
	is((hold('sharded', sub { return split //, $_[0] }, @steps))[0], $plain, "$name, byte by byte");
}

done_testing();
