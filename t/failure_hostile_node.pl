# A node violates the protocol: it sends any answer in place of any message. The result must be an
# error, or a wait that a cancel ends. It must never be a crash of the server process, memory
# without bound or another result.
#
# (The coordinator cannot detect a row that a node leaves out, or invents in the right form.)
#
# HOSTILE=all puts every answer in place of every message. By default some answers replace one
# message of each statement, chosen by HOSTILE_SEED.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ProtocolProxy;
use ShardCluster;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

my $all = ($ENV{HOSTILE} // '') eq 'all';
my $c = ShardCluster->new(nodes => 2, add_nodes => 0);
my $proxy = ProtocolProxy->new(port => $c->node(1)->port);
$c->safe_psql("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ", 'postgres')");
$c->add_node(2);
$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, w text)');
$c->shard_table('t', 'id', shards => 4);
$c->safe_psql(q{INSERT INTO t SELECT g, g, 'row ' || g FROM generate_series(1, 20) g});
my ($here, $new) = map {
	(split /\n/, $c->safe_psql("SELECT id FROM generate_series($_, $_ + 99) id, shardfdw.shard_for('t', id) s JOIN pg_foreign_table ON ftrelid = s JOIN pg_foreign_server v ON v.oid = ftserver WHERE srvname = 'node1' AND id NOT BETWEEN 21 AND 100 ORDER BY id"))[0]
} 1, 101;

# ---- the messages of the hostile node ------------------------------------------------------------

sub message { my ($type, $payload) = @_; return $type . pack('N', 4 + length $payload) . $payload; }
sub fields  { my (%f) = @_; return join('', map { "$_$f{$_}\0" } sort keys %f) . "\0"; }
sub row     { return message('D', pack('n', scalar @_) . join '', map { defined ? pack('N', length) . $_ : pack('N', 0xffffffff) } @_); }
sub columns { my ($type, $len, @names) = @_; return message('T', pack('n', scalar @names) . join '', map { "$_\0" . pack('NnNnNn', 0, 0, $type, $len, 0xffffffff, 1) } @names); }

my @answers = (
	[ 'row without columns',     row() ],
	[ 'row of 50 columns',       row(('x') x 50) ],
	[ 'row that is cut',         message('D', pack('nN', 1, 100) . 'abc') ],
	[ 'row, negative length',    message('D', pack('nN', 2, 0x80000000) . 'abc') ],
	[ 'other columns',           columns(25, 0xffff, map { "c$_" } 1 .. 3) ],
	[ 'columns twice',           columns(23, 4, 'a') . columns(23, 4, 'a') ],
	[ '1600 columns and rows',   columns(25, 0xffff, ('c') x 1600) . row(('y') x 1600) x 3 ],
	[ 'columns, no names',       message('T', pack('n', 5)) ],
	[ 'COPY to us, text',        message('H', pack('Cnn', 0, 1, 0)) ],
	[ 'COPY to us and data',     message('H', pack('Cnnn', 1, 2, 1, 1)) . message('d', 'garbage') . message('c', '') . message('C', "COPY 1\0") ],
	[ 'COPY from us',            message('G', pack('Cnn', 0, 1, 0)) ],
	[ 'COPY both ways',          message('W', pack('Cnn', 0, 1, 0)) ],
	[ 'copy data, empty',        message('d', '') ],
	[ 'copy data, garbage',      message('d', "PGCOPY\n\377\r\n\0" . pack('NN', 0, 0x7fffffff)) ],
	[ 'copy data, negative',     message('d', "PGCOPY\n\377\r\n\0" . pack('NNnN', 0, 0, 1, 0xfffffff0)) ],
	[ 'end of copy',             message('c', '') ],
	[ 'tag of another command',  message('C', "DELETE 99\0") ],
	[ 'tag with a huge number',  message('C', "INSERT 0 99999999999999999999999\0") ],
	[ 'tag without an end',      message('C', 'SELECT 1') ],
	[ 'no tag',                  message('C', "\0") ],
	[ 'ready in the middle',     message('Z', 'I') ],
	[ 'ready, unknown state',    message('Z', 'Q') ],
	[ 'ready ten times',         message('Z', 'I') x 10 ],
	[ 'nothing',                 '' ],
	[ 'unknown type',            message('?', 'what') ],
	[ 'length 0',                "D\0\0\0\0" ],
	[ 'length of 2 GB',          'D' . pack('N', 0x7fffffff) . 'x' x 100 ],
	[ 'negative length',         'D' . pack('N', 0xffffffff) . 'x' x 100 ],
	[ 'error, bad encoding',     message('E', fields(S => 'ERROR', V => 'ERROR', C => '22012', M => "\xff\xfe\xc3 \xe2\x82", D => "\x80" x 50)) ],
	[ 'error, no fields',        message('E', "\0") ],
	[ 'error, no end',           message('E', 'SERROR') ],
	[ 'error, odd SQLSTATE',     message('E', fields(S => 'ERROR', V => 'ERROR', C => '00000', M => 'all is well')) ],
	[ 'error, SQLSTATE too long', message('E', fields(S => 'ERROR', V => 'ERROR', C => '12345678', M => '%s%n%d')) ],
	[ 'error of a megabyte',     message('E', fields(S => 'ERROR', V => 'ERROR', C => 'XX000', M => 'x' x (1 << 20), H => '%s' x 100_000)) ],
	[ 'error, then all ready',   message('E', fields(S => 'ERROR', V => 'ERROR', C => '40001', M => 'no')) . message('Z', 'I') ],
	[ 'error PANIC',             message('E', fields(S => 'PANIC', V => 'PANIC', C => 'XX000', M => 'panic')) ],
	[ 'notice, bad encoding',    message('N', fields(S => 'WARNING', V => 'WARNING', C => '01000', M => "\xff\xfe%s")) ],
	[ 'other client encoding',   message('S', "client_encoding\0SJIS\0") ],
	[ 'strings not conforming',  message('S', "standard_conforming_strings\0off\0") ],
	[ 'setting without an end',  message('S', 'x') ],
	[ 'notification',            message('A', pack('N', 1) . "a\0b\0") ],
	[ 'asks for a password',     message('R', pack('N', 3)) ],
	[ 'asks for MD5, cut',       message('R', pack('N', 5)) ],
	[ 'asks for SASL, endless',  message('R', pack('N', 10) . 'SCRAM-SHA-256') ],
	[ 'key of a megabyte',       message('K', 'k' x (1 << 20)) ],
	[ 'function result',         message('V', pack('N', 4) . 'abcd') ],
	[ 'other protocol version',  message('v', pack('NN', 3, 1) . "_pq_.x\0") ],
	[ 'portal suspended',        message('s', '') ],
	[ 'empty query',             message('I', '') ]);

my @statements = (
	{ name => 'one row',   sql => "SELECT v, w FROM t WHERE id = $here" },
	{ name => 'all rows',  sql => 'SELECT id, v, w FROM t ORDER BY id' },
	{ name => 'rows, extended', set => 'shardfdw.enable_copy_fetch = off', sql => 'SELECT id, v, w FROM t ORDER BY id' },
	{ name => 'rows, one by one', set => 'shardfdw.enable_shard_scan = off', sql => 'SELECT id, v FROM t ORDER BY id', last => 6 },
	{ name => 'groups',    sql => 'SELECT v % 3, count(*), avg(v), sum(v::numeric), stddev(v) FROM t GROUP BY 1 ORDER BY 1' },
	{ name => 'INSERT',    sql => "INSERT INTO t VALUES ($new, 1, 'x')", writes => 1 },
	{ name => 'INSERT RETURNING', sql => "INSERT INTO t VALUES ($new, 1, 'x') RETURNING id, v, w", writes => 1 },
	{ name => 'UPDATE',    sql => 'UPDATE t SET v = v', writes => 1 },
	{ name => 'DELETE row by row', set => 'shardfdw.enable_statement_push = off', sql => 'DELETE FROM t WHERE v > 1000 + random()', writes => 1 },
	{ name => 'COPY FROM', sql => 'COPY t FROM STDIN', data => [ map { "$_\t1\tx\n" } 200 .. 220 ], writes => 1 },
	{ name => 'COPY TO',   sql => 'COPY t TO STDOUT', unordered => 1 },
	{ name => 'two nodes', sql => "BEGIN; INSERT INTO t SELECT g, 1 FROM generate_series(300, 310) g; COMMIT", writes => 1 },
	{ name => 'savepoint', sql => "BEGIN; SAVEPOINT a; UPDATE t SET v = v + 1; ROLLBACK TO a; SELECT sum(v) FROM t; COMMIT" },
	{ name => 'TRUNCATE and back', sql => "BEGIN; TRUNCATE t; ROLLBACK", writes => 1 },
	{ name => 'ANALYZE',   sql => 'ANALYZE t', writes => 1 },
	{ name => 'DDL',       sql => 'ALTER TABLE t ALTER v SET DEFAULT 1', writes => 1 },
	{ name => 'recover',   sql => 'SELECT count(*) FROM shardfdw.recover_prepared_transactions()', writes => 1 },
	{ name => 'check_cluster', sql => 'SELECT count(*) > 0 FROM shardfdw.check_cluster()', writes => 1 },
	{ name => 'run_on_nodes', sql => q{SELECT result FROM shardfdw.run_on_nodes('SELECT 42') ORDER BY 1}, writes => 1 },
	{ name => 'connect',   sql => "SELECT v FROM t WHERE id = $here", cold => 1 });

# ---- one case ------------------------------------------------------------------------------------

my $session;
my %got;        # outcome -> count
my ($ncells, $slowest) = (0, 0);

sub connect_session
{
	$session = WireClient->new($c->coordinator, 'postgres');
	$session->query('SET client_min_messages = error');
	return;
}

# A query that may have to wait for leftovers of a wrong answer. A cancel ends the wait.
sub ask
{
	my ($sql) = @_;
	$session->start_query($sql);
	my $result = $session->finish_query(1);
	if (!$result)
	{
		$session->cancel;
		$result = $session->finish_query(20) // die "$sql: hangs\n";
	}
	return $result;
}

sub prepare_session
{
	my ($statement) = @_;
	if (!$session || $statement->{cold} || $session->{used}++ > 50)
	{
		$session->close if $session;
		connect_session();
	}
	ask('RESET ALL; SET client_min_messages = error');
	ask("SET $statement->{set}") if $statement->{set};
	ask('SELECT count(*) FROM t') unless $statement->{cold};
	return;
}

sub rows_text { my ($result, $unordered) = @_; my @rows = map { join '|', map { $_ // 'NULL' } @$_ } @{ $result->{rows} }; return join("\n", @rows) . join "\n", $unordered ? sort split /\n/, $result->{copied} : $result->{copied}; }

# Restores the rows, and checks that all statements succeed.
sub is_well
{
	my $wrong = '';
	for (1 .. 20)    # what is on its way on the node may hold locks still
	{
		ask('ROLLBACK') if $session->{status} ne 'I';
		my $error = ask('DELETE FROM t WHERE id > 20')->{error};
		my $sum = ask('SELECT count(*), sum(v), sum(length(w)) FROM t');
		$wrong = $error ? "$error->{C} $error->{M}" : $sum->{error} ? "$sum->{error}{C} $sum->{error}{M}" : join ' ', @{ $sum->{rows}[0] };
		return '' if $wrong eq '20 210 111';
		ask('SELECT shardfdw.recover_prepared_transactions()');
		usleep(50_000);
	}
	return $wrong;
}

sub run_cell
{
	my ($statement, $n, $answer, $bytes) = @_;
	my @wrong;
	my $outcome;

	eval { prepare_session($statement); 1 } or push @wrong, "before: $@";
	$proxy->arm(from => 'node', n => $n, action => 'replace', bytes => $bytes);
	my $start = time;
	my $result = eval {
		$session->start_query($statement->{sql}, @{ $statement->{data} // [] });
		my $r = $session->finish_query(0.3);
		if (!$r)
		{
			$session->cancel;
			$outcome = 'waits';
			$r = $session->finish_query(20);
		}
		$r // die 'it hangs';
	};
	my $elapsed = time - $start;
	my $at = $proxy->fired_at // '';
	$slowest = $elapsed if $elapsed > $slowest;
	$proxy->clear;
	if (!$result)
	{
		push @wrong, $@;
		connect_session();
	}
	else
	{
		my $error = $result->{error};
		$outcome //= $error ? 'error' : 'done';
		push @wrong, 'another result: ' . rows_text($result, $statement->{unordered}) if !$error && !$statement->{writes} && $at !~ /d/i && rows_text($result, $statement->{unordered}) ne $statement->{expected};
		push @wrong, "internal error: $error->{M}" if $error && $error->{C} eq 'XX000' && $answer !~ /XX000|megabyte|PANIC/ && $error->{M} !~ /^(x|panic)/;
		push @wrong, sprintf 'it took %.1f s', $elapsed if $elapsed > 8;    # an abort waits up to three seconds
		connect_session() if $at eq '';                                         # what came when all was over is not judged
		my $after = eval { is_well() } // $@;
		push @wrong, "afterwards: $after" if $after ne '';
	}
	$got{ $outcome // 'broken' }++;
	$ncells++;
	if (@wrong)
	{
		fail("$statement->{name}, message $n ($at): $answer");
		diag join "\n", @wrong;
		eval { connect_session() };
	}
	return !@wrong;
}

srand($ENV{HOSTILE_SEED} // 1);
my $nanswers = 0;
my $turn = 0;    # of answers: a short run comes by each of them a few times
my $started = time;
for my $statement (@statements)
{
	next if $ENV{HOSTILE_ONLY} && $statement->{name} ne $ENV{HOSTILE_ONLY};

	# a transaction that is still prepared holds its locks until it is committed or rolled back
	$c->safe_psql('SELECT shardfdw.recover_prepared_transactions()') for 1 .. 2;
	prepare_session($statement);
	$proxy->arm(from => 'none', action => '');
	$session->start_query($statement->{sql}, @{ $statement->{data} // [] });
	my $result = $session->finish_query(60) // die "$statement->{name} hangs";
	is($result->{error}, undef, "$statement->{name}: works") || diag $result->{error}{M};
	$statement->{expected} = rows_text($result, $statement->{unordered});
	usleep(20_000);
	my @types = map { $_->[1] } grep { $_->[0] eq 'node' } $proxy->messages;
	note "$statement->{name}: @types";
	is(is_well(), '', "$statement->{name}: rows are restored");

	# the numbers differ by answer, so that a short run covers most messages
	my @turn = map { ($turn + $_) % @answers } 0 .. 7;
	$turn += 8;
	my $good = 0;
	my $bad  = 0;
	for my $answer ($all ? @answers : @answers[@turn])
	{
		next unless ShardCluster::in_half($nanswers++);
		my @numbers = $all ? 1 .. @types : 1 + int rand @types;
		run_cell($statement, $_, @$answer) ? $good++ : $bad++ for @numbers;
	}

	# a COMMIT whose end never comes: only the next statement detects that
	for my $n (@types - ($statement->{last} // 0) + 1 .. @types)
	{
		run_cell($statement, $n, 'nothing', '') ? $good++ : $bad++;
	}
	is($bad, 0, "$statement->{name}: " . ($good + $bad) . ' wrong answers');
}
note sprintf '%d cells in %d s, the slowest %.1f s: %s', $ncells, time - $started, $slowest, join ', ', map { "$got{$_} $_" } sort keys %got;

# ---- rows of nulls -----------------------------------------------------------------------------

# Answers to queries of catalogs in which no null is possible. The first row of each statement has
# nulls, then the second, and so on. Many rows begin with the number of a shard, which may stay.
$c->safe_psql(q{CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (id int PRIMARY KEY, p int DEFAULT 1, w text);
	CREATE UNIQUE INDEX ON child (id, w); CREATE TABLE ref (id int PRIMARY KEY); CREATE SEQUENCE s});
$c->shard_table($_, 'id', shards => 2) for 'parent', 'child';
$c->safe_psql(q{SELECT shardfdw.create_reference_table('ref'); INSERT INTO ref VALUES (1);
	INSERT INTO child SELECT g, 1, g FROM generate_series(1, 9) g;
	ALTER TABLE child ADD CONSTRAINT refers FOREIGN KEY (id) REFERENCES parent (id) NOT VALID});
my ($shard) = grep { $_->[1] == 1 } $c->shards_of('child');
my $nrows = 0;
my $nquestions = 0;
my @questions = (map({ [ $_->{sql}, 0 ] } grep { !$_->{data} } @statements), map { [ $_, 0 ], [ $_, 1 ] }
	'BEGIN; ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES ref ON DELETE SET DEFAULT; ROLLBACK',
	'BEGIN; TRUNCATE parent CASCADE; ROLLBACK', 'BEGIN; ALTER TABLE child DROP CONSTRAINT refers; ROLLBACK',
	"BEGIN; COPY child FROM PROGRAM 'echo 5' WITH (ON_DUPLICATE 'keep_new', FORMAT csv); ROLLBACK",
	"BEGIN; COPY child (id, p, w) FROM PROGRAM 'echo 5,5,5' WITH (ON_DUPLICATE 'keep_new', FORMAT csv); ROLLBACK",
	"BEGIN; COPY child (id, p, w) FROM PROGRAM 'echo 50,5,5' WITH (INDEXES 'deferred', FORMAT csv); ROLLBACK",
	q{BEGIN; ALTER TABLE child ADD COLUMN n bigint DEFAULT nextval('s'); ROLLBACK},
	'BEGIN; CREATE INDEX i ON child (w); ALTER INDEX i RENAME TO j; DROP INDEX j; ROLLBACK',
	'CREATE INDEX CONCURRENTLY i ON child (w)', 'DROP INDEX CONCURRENTLY IF EXISTS i', 'REINDEX TABLE CONCURRENTLY child',
	'BEGIN; IMPORT FOREIGN SCHEMA public LIMIT TO (child_00) FROM SERVER node1 INTO pg_temp; ROLLBACK',
	'BEGIN; DELETE FROM ref WHERE id = 1; INSERT INTO ref VALUES (1); ROLLBACK',
	q{SELECT shardfdw.check_table('child')}, 'SELECT * FROM shardfdw.stat_shards', 'SELECT * FROM shardfdw.activity',
	'SELECT * FROM shardfdw.node_status', 'ANALYZE child', 'EXPLAIN (ANALYZE, VERBOSE) SELECT count(*) FROM child',
	"BEGIN; SELECT shardfdw.move_shard('$shard->[0]', 'node2', mode => 'block'); ROLLBACK",
	q{BEGIN; SELECT shardfdw.unshard_table('child'); ROLLBACK}, q{SELECT shardfdw.refresh_node('node1')});
for (@questions)
{
	my ($sql, $keep) = @$_;
	my ($bad, $nfired) = ('', 0);
	next unless ShardCluster::in_half($nquestions++);

	for my $n (1 .. 12)
	{
		unless (eval { connect_session(); $session->query('SELECT count(*) FROM t') })
		{
			$bad .= " row $n: no connection";
			last;
		}
		$proxy->arm(from => 'node', type => 'D', n => $n, action => 'nulls', keep => $keep);
		$session->start_query($sql);
		my $result = eval { $session->finish_query(15) };
		my $fired = $proxy->fired;
		my $error = $result->{error};
		$proxy->clear;
		note sprintf 'row %d: %s', $n, !$result ? 'no answer' : $error ? "$error->{C} $error->{M}" : 'done';
		$bad .= " row $n: no answer" unless $result;
		$bad .= " row $n: $error->{C} $error->{M}" if $error && $error->{C} eq 'XX000';
		last unless $fired;
		$nfired++;
	}
	$nrows += $nfired;
	is($bad, '', "rows of nulls from field $keep on: $sql");
}
cmp_ok($nrows, '>', ShardCluster::halved() ? 25 : 50, 'rows of nulls were sent');
connect_session();
is(eval { is_well() } // $@, '', 'rows of nulls: all is well again');

# ---- without end ---------------------------------------------------------------------------------

sub rss_kb { my ($pid) = @_; return slurp_file("/proc/$pid/status") =~ /VmHWM:\s+(\d+)/ ? $1 : 0; }

for my $case (
	[ 'rows',             'SELECT sum(v), sum(length(w)) FROM (SELECT id, v, w FROM t OFFSET 0) x', 'd', 'shardfdw.query_per_node = off' ],
	[ 'rows, extended',   'SELECT sum(v), sum(length(w)) FROM (SELECT id, v, w FROM t OFFSET 0) x', 'D', 'shardfdw.enable_copy_fetch = off' ],
	[ 'one row',          "SELECT v, w FROM t WHERE id = $here", 'D' ],
	[ 'tags',             'UPDATE t SET v = v', 'C' ],
	[ 'parse complete',   "SELECT v, w FROM t WHERE id = $here", '1' ],
	[ 'COPY TO',          "COPY (SELECT * FROM t) TO '/dev/null'", 'd' ])
{
	my ($name, $sql, $type, $set) = @$case;
	connect_session();
	$session->query("SET $set") if $set;
	$session->query('SELECT count(*) FROM t');
	my $pid = $session->query('SELECT pg_backend_pid()')->{rows}[0][0];
	my $before = rss_kb($pid);
	$proxy->arm(from => 'node', type => $type, action => 'repeat');
	$session->start_query($sql);
	my $result = $session->finish_query($ENV{HOSTILE_SECONDS} // 1.5);
	my $grown = (rss_kb($pid) - $before) / 1024;
	my $start = time;
	$session->cancel unless $result;
	$result //= eval { $session->finish_query(10) };
	my $elapsed = time - $start;
	$proxy->clear;
	# (the first tag may be the statement's own)
	ok($result && ($result->{error} || $type eq 'C'), "$name without end: an error at the end") || diag explain $result;
	cmp_ok($elapsed, '<', 8, "$name without end: a cancel ends it");
	cmp_ok($grown, '<', 128, "$name without end: memory stays") || diag "$grown MB";
	is(eval { is_well() } // $@, '', "$name without end: all is well again");
}

# Answers with rows that never end, to commands that expect no rows.
{
	my $name = 'answer to a command';
	connect_session();
	$session->query('SELECT count(*) FROM t');
	$session->query(q{SET TimeZone = 'Asia/Tokyo'});
	my $pid = $session->query('SELECT pg_backend_pid()')->{rows}[0][0];
	my $before = rss_kb($pid);
	$proxy->arm(from => 'node', type => 'C', action => 'replace', bytes => columns(25, 0xffff, 'c') . row('x' x 60_000) x 5_000);
	$session->start_query('UPDATE t SET v = v');
	my $result = $session->finish_query(20);
	$proxy->clear;
	ok($result, "300 MB of rows as $name: an end");
	cmp_ok((rss_kb($pid) - $before) / 1024, '<', 100, "300 MB of rows as $name: memory stays");
	is(eval { is_well() } // $@, '', "300 MB of rows as $name: all is well again");
}

$session->close if $session;
my $log = $c->log_since(0);
unlike($log, qr/terminated by signal|TRAP: |PANIC: /, 'no server process died');
$proxy->stop;
done_testing();
