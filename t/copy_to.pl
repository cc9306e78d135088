# COPY TO of a sharded table must give the client what COPY TO of a plain table gives. Covers
# messages, encodings, failing programs, full disks, slow readers, cancel, and nodes that fail or
# die during the transfer. Also covers snapshots, the transaction's own writes, concurrent writers
# and row security.

use strict;
use warnings;

use Encode ();
use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use WireClient;

my $c = ShardCluster->new(nodes => 2);
my $dir = PostgreSQL::Test::Utils::tempdir();
my $me = $c->safe_psql('SELECT current_user');

# Time limits leave room for a busy machine: without the tested feature, nothing would end.
my $soon = 15;

sub sorted { return join '', sort { $a cmp $b } @{ $_[0] }; }

# ---------- messages ----------

$c->safe_psql(q{
	CREATE TABLE small_plain (id int, a text, "ü,x" text);
	INSERT INTO small_plain SELECT g, CASE g % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE repeat(chr(9 + g), g) END, E'ä\n"' || g FROM generate_series(1, 300) g;
	CREATE TABLE small (LIKE small_plain); CREATE TABLE nothing_plain (LIKE small_plain); CREATE TABLE nothing (LIKE small_plain)});
$c->shard_table($_, 'id', shards => 5) for qw(small nothing);
$c->safe_psql('INSERT INTO small SELECT * FROM small_plain');

# The messages of a COPY TO STDOUT: the answer that starts it, the messages with data, and the
# command tag.
sub ask
{
	my ($client, $sql) = @_;
	$client->_write('Q' . pack('N', length($sql) + 5) . "$sql\0");
	return;
}

sub answer
{
	my ($client) = @_;
	my %seen = (data => [], order => '');

	while (1)
	{
		my ($type, $payload) = $client->_read_message;
		last if $type eq 'Z';
		$seen{order} .= $type unless $type eq 'd' && $seen{order} =~ /d$/;
		push @{ $seen{data} }, $payload if $type eq 'd';
		$seen{start} = $payload if $type eq 'H';
		$seen{tag} = $payload if $type eq 'C';
		$seen{error} = WireClient::_fields($payload) if $type eq 'E';
	}
	return \%seen;
}

sub messages
{
	my ($client, $sql) = @_;
	ask($client, $sql);
	return answer($client);
}

my $client = WireClient->new($c->coordinator, 'postgres');
for my $table ('small', 'nothing')
{
	for my $rest ('TO STDOUT', 'TO STDOUT (HEADER)', '(a, id) TO STDOUT (FORMAT csv, HEADER)', 'TO STDOUT (FORMAT csv, FORCE_QUOTE *)',
		'TO STDOUT (FORMAT binary)', '(id) TO STDOUT (FORMAT binary)')
	{
		my $want = messages($client, "COPY ${table}_plain $rest");
		my $got = messages($client, "COPY $table $rest");
		my $name = "$table $rest";

		is($got->{start}, $want->{start}, "$name: how it begins");
		is($got->{order}, $want->{order}, "$name: order of messages");
		is($got->{tag}, $want->{tag}, "$name: command tag");
		is(scalar @{ $got->{data} }, scalar @{ $want->{data} }, "$name: number of messages");
		is($got->{data}[0], $want->{data}[0], "$name: header line") if $rest =~ /HEADER/;
		if ($rest =~ /binary/)
		{
			# the header is in one message with the first row
			for my $seen ($want, $got)
			{
				is(substr($seen->{data}[0], 0, 19, ''), "PGCOPY\n\377\r\n\0" . "\0" x 8, "$name: header");
				is($seen->{data}[-1], "\377\377", "$name: trailer");
			}
		}
		is(sorted($got->{data}), sorted($want->{data}), "$name: messages");
	}
}

# ---------- encodings ----------

# The bytes in a file that the server writes.
sub file_lines
{
	my ($sql, $settings) = @_;
	my $file = "$dir/lines";

	$sql =~ s/FILE/'$file'/;
	$c->safe_psql(($settings // '') . $sql);
	open my $fh, '<:raw', $file or die;
	my @lines = <$fh>;
	close $fh;
	unlink $file;
	return \@lines;
}

$c->safe_psql(q{
	CREATE TABLE words_plain (id int, "naïve" text, z text); INSERT INTO words_plain SELECT g, 'äöü\|' || g, E'é\t' FROM generate_series(1, 40) g;
	CREATE TABLE words (LIKE words_plain);
	CREATE TABLE kanji_plain (id int, "表,ソ" text); INSERT INTO kanji_plain SELECT g, '表示ソ|\' || g FROM generate_series(1, 40) g;
	CREATE TABLE kanji (LIKE kanji_plain)});
$c->shard_table($_, 'id', shards => 4) for qw(words kanji);
$c->safe_psql('INSERT INTO words SELECT * FROM words_plain; INSERT INTO kanji SELECT * FROM kanji_plain');
my @encodings = (
	[ words => q{ENCODING 'LATIN1', HEADER}, '' ],
	[ words => q{ENCODING 'LATIN1', HEADER, FORMAT csv, FORCE_QUOTE *}, '' ],
	[ words => q{ENCODING 'UTF8', HEADER, NULL 'ß'}, 'SET client_encoding = LATIN1;' ],
	[ words => 'HEADER', 'SET client_encoding = WIN1252;' ],
	[ words => q{FORMAT csv, NULL 'é	'}, 'SET client_encoding = LATIN1;' ],
	[ words => 'FORMAT binary', 'SET client_encoding = LATIN1;' ],
	[ words => q{FORMAT binary, ENCODING 'LATIN1'}, '' ],
	[ kanji => q{ENCODING 'SJIS', HEADER, DELIMITER '|'}, '' ],
	[ kanji => q{ENCODING 'SJIS', HEADER, FORMAT csv, QUOTE '|', ESCAPE '\\'}, '' ],
	[ kanji => q{ENCODING 'EUC_JP', HEADER, FORMAT csv}, '' ],
	[ kanji => 'HEADER', 'SET client_encoding = BIG5;' ],
	[ kanji => q{ENCODING 'SQL_ASCII', HEADER}, '' ]);
sub compare_encoding
{
	my ($table, $options, $settings, $name) = @_;
	my $want = file_lines("COPY ${table}_plain TO FILE ($options)", $settings);
	my $got = file_lines("COPY $table TO FILE ($options)", $settings);

	$name .= "$table, $options $settings";
	is(length(join '', @$got), length(join '', @$want), "$name: bytes");
	is($got->[0], $want->[0], "$name: header") if $options =~ /HEADER/;
	is(sorted($got), sorted($want), "$name: lines") unless $options =~ /binary/;
}
compare_encoding(@$_, '') for @encodings;
# A character that the encoding does not have.
my @errors = map { my ($rc, $out, $err) = $c->psql("COPY $_ TO '$dir/x' (ENCODING 'LATIN1')"); $err =~ /(ERROR:.*)/; $1 } qw(kanji kanji_plain);
like($errors[1], qr/has no equivalent in encoding "LATIN1"/, 'core refuses it');
is($errors[0], $errors[1], 'so does a node');

# A node whose database has another encoding. add_node() would refuse it.
$c->node_safe_psql(1, q{CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'});
my ($host, $port) = $c->node_address(1);
$c->safe_psql("CREATE SERVER latin FOREIGN DATA WRAPPER shardfdw OPTIONS (host '$host', port '$port', dbname 'latin'); CREATE USER MAPPING FOR CURRENT_USER SERVER latin; CREATE TABLE mixed_plain (LIKE words_plain); INSERT INTO mixed_plain SELECT * FROM words_plain; CREATE TABLE mixed (LIKE words_plain)");
$c->shard_table('mixed', 'id', shards => 4, nodes => [ 'node1', 'latin' ]);
$c->safe_psql('INSERT INTO mixed SELECT * FROM mixed_plain');
for (@encodings)
{
	my ($table, @rest) = @$_;
	compare_encoding('mixed', @rest, 'another encoding on a node: ') if $table eq 'words';
}
my (undef, undef, $debug) = $c->psql("SET client_min_messages = debug1; COPY mixed TO '$dir/x' (ENCODING 'LATIN1')");
like($debug, qr/COPY "mixed" TO runs as a query: a node would convert/, 'the node is not left to convert');
(undef, undef, $debug) = $c->psql("SET client_min_messages = debug1; COPY mixed TO '$dir/x'; COPY words TO '$dir/x' (ENCODING 'LATIN1')");
unlike($debug, qr/runs as a query/, 'where it need not, nodes write');

# ---------- files and programs ----------

# 60 MB
$c->safe_psql('CREATE TABLE big (id int, v text)');
$c->shard_table('big', 'id', shards => 6);
$c->safe_psql('INSERT INTO big SELECT g, repeat(md5(g::text), 30) FROM generate_series(1, 60000) g');

$c->psql_fails_like("COPY big TO '/dev/full'", qr/ERROR:  53100: could not write to COPY file: No space left on device/, 'disk full');
$c->psql_fails_like("COPY small (id) TO '/dev/full'", qr/ERROR:  53100: could not close file "\/dev\/full": No space left on device/, 'disk full at the end');
$c->psql_fails_like("COPY big TO PROGRAM 'head -c 1000 > /dev/null; exit 7'", qr/ERROR:  38000: program .* failed\n.*exit code 7/, 'a program that fails early');
$c->psql_fails_like("COPY big TO PROGRAM 'cat > /dev/null; exit 7'", qr/ERROR:  38000: program .* failed\n.*exit code 7/, 'a program that fails late');
$c->psql_fails_like("COPY big TO PROGRAM 'head -c 1000 > /dev/null'", qr/could not write to COPY program: Broken pipe/, 'a program that closes its pipe early');
$c->psql_fails_like("COPY big TO PROGRAM 'kill -9 \$\$'", qr/program .* failed\n.*signal 9/, 'a program that is killed');
$c->psql_fails_like("COPY big TO PROGRAM '/nonexistent/program'", qr/program .* failed\n.*command not found/, 'no program');
is( $c->safe_psql(qq{
		COPY big TO PROGRAM 'cat > $dir/program';
		COPY small TO '$dir/small' (FORMAT csv);
		CREATE TABLE again (LIKE big);
		COPY again FROM '$dir/program';
		SELECT count(*), count(DISTINCT a.id), bool_and(a.v = b.v) FROM again a JOIN big b USING (id)}),
	'60000|60000|t', 'all rows went through a program');
is((stat "$dir/small")[2] & 07777, 0644, 'others can read the file, and not write it');
is($c->safe_psql("SELECT count(*) FROM pg_ls_dir('/proc/self/fd')") < 60, 1, 'no descriptors are left');

# Errors in one session, one after the other, leave no traces.
my ($rc, $out, $err) = $c->psql(
	join("\n", ("COPY big TO PROGRAM 'head -c 1000 > /dev/null';", "COPY big TO '/dev/full';", 'SELECT count(*) FROM big;') x 15)
	  . "\nSELECT count(*) < 60 FROM pg_ls_dir('/proc/' || pg_backend_pid() || '/fd');",
	on_error_stop => 0);
is($out, "60000\n" x 15 . 't', 'a session goes on after failures');
$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state <> 'idle'", $_) for 1 .. 2;

# ---------- slow readers ----------

sub peak_mb
{
	my ($pid) = @_;
	return (slurp_file("/proc/$pid/status") =~ /VmHWM:\s+(\d+)/ ? $1 : die 'no VmHWM') / 1024;
}

# A client that asks for COPY big TO STDOUT and does not read; returns it and its backend's pid.
sub slow_reader
{
	my $client = WireClient->new($c->coordinator, 'postgres', application_name => 'reader');

	ask($client, 'COPY big TO STDOUT');
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'reader' AND wait_event = 'ClientWrite'");
	return ($client, $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'reader'"));
}

{
	my ($reader, $backend) = slow_reader();
	usleep(1_000_000);
	cmp_ok(peak_mb($backend), '<', 60, 'a client that does not read: memory of the backend');
	my $progress = $c->safe_psql("SELECT relid::regclass, command, type, bytes_processed > 0 AND bytes_processed < 60000000, tuples_processed > 0 AND tuples_processed < 60000 FROM pg_stat_progress_copy");
	is($progress, 'big|COPY TO|PIPE|t|t', 'pg_stat_progress_copy');
	my $got = answer($reader);
	is($got->{tag}, "COPY 60000\0", 'it gets its rows');
	is(scalar @{ $got->{data} }, 60_000, 'all of them');
	$reader->close;
}
{
	# a program that reads a pipe's fill each second
	my $program = q{perl -e "while (sysread STDIN, \\$x, 65536) { select undef, undef, undef, 1 }"};
	my $session = $c->start_sql("COPY big TO PROGRAM '$program';", name => 'slow_program');
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_progress_copy WHERE type = 'PROGRAM' AND bytes_processed > 100000");
	my ($backend) = $c->safe_psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'slow_program'");
	cmp_ok(peak_mb($backend), '<', 60, 'a program that reads slowly: memory of the backend');
	my $start = time;
	$c->safe_psql("SELECT pg_cancel_backend($backend)");
	my ($status, undef, $errors) = $c->wait_sql($session);
	like($errors, qr/canceling statement due to user request/, 'a cancel is answered while the program does not read');
	cmp_ok(time - $start, '<', $soon, 'soon');
}
{
	my (undef, $backend) = slow_reader();
	$c->safe_psql("SELECT pg_terminate_backend($backend)");
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $backend");
	pass('a backend whose client does not read can be terminated');
}

# ---------- nodes that fail ----------

my ($shard, $node) = @{ ($c->shards_of('big'))[2] };
$c->node_safe_psql($node, "ALTER TABLE $shard RENAME TO real_rows; CREATE VIEW $shard AS SELECT id, v || (1 / (id - max(id) OVER ()))::text AS v FROM real_rows");
for my $to ("'$dir/x'", 'STDOUT')
{
	$c->psql_fails_like("COPY big TO $to", qr/ERROR:  22012: division by zero\n(.*\n)*DETAIL: .*node$node.*$shard/i, "an error of a node in mid-way, to $to");
}
$c->node_safe_psql($node, "CREATE OR REPLACE VIEW $shard AS SELECT r.* FROM real_rows r, pg_sleep(600)");
{
	my $start = time;
	($rc, $out, $err) = $c->psql("SET statement_timeout = '700ms'; COPY big TO '$dir/x';\nSET statement_timeout = 0; SELECT count(*) FROM small", on_error_stop => 0);
	like($err, qr/statement timeout/, 'a node that takes long: timeout');
	cmp_ok(time - $start, '<', $soon, 'soon');
	is($out, '300', 'the session goes on');
	$c->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
}
{
	# (psql reads the rows: a session that waits for its client does not start to connect)
	my $session = $c->start_sql("\\set VERBOSITY verbose\n\\o /dev/null\nCOPY big TO STDOUT;");
	$c->wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'", $node);
	$c->kill9_node($node);
	my (undef, undef, $errors) = $c->wait_sql($session);
	like($errors, qr/ERROR:  58000: lost connection to node "node$node"/, 'a node that dies in mid-way fails the COPY, and is named');
	like($errors, qr/DETAIL: .*shard public\.big_\d+/s, 'so is the shard');
	$c->start_node($node);
	$c->node_safe_psql($node, "DROP VIEW $shard; ALTER TABLE real_rows RENAME TO " . ($shard =~ s/.*\.//r));
	is($c->safe_psql("COPY big TO '$dir/x'; SELECT count(*) FROM big"), '60000', 'the node is used again');
	open my $fh, '<', "$dir/x" or die;
	my $lines = 0;
	$lines++ while <$fh>;
	is($lines, 60_000, 'all rows');
}

# ---------- transactions ----------

$c->safe_psql('CREATE TABLE acc (id int, v int)');
$c->shard_table('acc', 'id', shards => 8);
$c->safe_psql('INSERT INTO acc SELECT g, 1000 FROM generate_series(1, 400) g');
sub sum_of
{
	my ($file) = @_;
	my ($sum, $n) = (0, 0);
	open my $fh, '<', $file or die;
	while (<$fh>) { my (undef, $v) = split /\t/; $sum += $v; $n++; }
	return "$n $sum";
}
# REPEATABLE READ must not see commits that come during the transaction. READ COMMITTED must see
# them.
for my $level ('REPEATABLE READ', 'SERIALIZABLE', 'READ COMMITTED')
{
	my $session = $c->coordinator->background_psql('postgres');
	$session->query_safe("BEGIN ISOLATION LEVEL $level; SELECT count(*) FROM acc");
	$c->safe_psql('UPDATE acc SET v = v + 1');
	$session->query_safe("COPY acc TO '$dir/acc'");
	my $seen = sum_of("$dir/acc");
	$session->query_safe("UPDATE acc SET v = v + 1000 WHERE id = 1") if $level eq 'READ COMMITTED';
	$session->query_safe("INSERT INTO acc VALUES (1000, 5), (1001, 6), (1002, 7), (1003, 8); COPY acc TO '$dir/acc'");
	my $own = sum_of("$dir/acc");
	$session->query_safe('ROLLBACK');
	$session->quit;
	my $old = $level eq 'REPEATABLE READ' ? 400_000 : $level eq 'SERIALIZABLE' ? 400_400 : 401_200;
	is($seen, "400 $old", "$level: what is committed meanwhile");
	is($own, '404 ' . ($old + 26 + ($level eq 'READ COMMITTED' ? 1000 : 0)), "$level: own writes");
}
# One moment per node: values move between the shards of a node.
my @shards = map { $_->[0] } grep { $_->[1] == 1 } $c->shards_of('acc');
$c->node_safe_psql(1, 'CREATE TABLE stop (x int)');
my $moves = join "\n", map {
	my ($from, $to) = ($shards[$_], $shards[ ($_ + 1) % @shards ]);
	"UPDATE $from SET v = v - 1 WHERE id = (SELECT min(id) FROM $from); UPDATE $to SET v = v + 1 WHERE id = (SELECT max(id) FROM $to); COMMIT;"
} 0 .. $#shards;
my $writer = $c->node(1)->background_psql('postgres');
$writer->query_until(qr/started/, "\\echo started\nDO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM stop) LOOP $moves END LOOP; END \$\$;\n\\echo stopped\n");
for my $connections (1, 3, 8)
{
	my %sums;
	$c->safe_psql("SET shardfdw.max_connections_per_node = $connections;\n" . join "\n", map { "COPY acc TO '$dir/acc$_';" } 1 .. 40);
	$sums{ sum_of("$dir/acc$_") }++ for 1 .. 40;
	is(join(',', keys %sums), '400 401200', "one moment of each node, with $connections connections");
}
$c->node_safe_psql(1, 'INSERT INTO stop VALUES (1)');
$writer->quit;

# A WITH query has the name of a table: no session may wait for the table.
{
	my $session = $c->coordinator->background_psql('postgres');
	$session->query_safe('BEGIN; LOCK TABLE small_plain IN ACCESS EXCLUSIVE MODE');
	is($c->safe_psql("SET lock_timeout = '5s'; COPY (WITH small_plain AS (SELECT 5 AS id) SELECT id FROM small_plain) TO STDOUT"), '5', 'a WITH query with the name of a locked table');
	$session->query_safe('ROLLBACK');
	$session->quit;
}

# ---------- who writes ----------

# Returns for each COPY statement the reason why the coordinator writes the result itself, or '' if
# nodes write it. Core's messages at this level depend on its caches, so they are ignored.
sub reasons
{
	my @copies = @_;
	my (undef, undef, $err) = $c->psql(join("\n", 'SET jit = off; SET client_min_messages = debug1;', map { ("\\warn ---", "$_;") } @copies), on_error_stop => 1);
	my (undef, @parts) = split /^---\n/m, $err;

	is(scalar @parts, scalar @copies, 'every COPY has run');
	return map { /^(?:psql:[^\n]*?)?DEBUG:  COPY (?:"\w+" TO runs as a query|of a query is written by the coordinator): ([^\n]*)/m ? $1 : '' } @parts;
}

# The nodes write types that they surely write in the same way.
sub types_left_here
{
	my ($table, $format, @types) = @_;
	my @reasons = reasons(map { "COPY $table (c$_) TO '/dev/null' (FORMAT $format)" } 0 .. $#types);
	my @left = grep { $reasons[$_] ne '' } 0 .. $#types;

	like($reasons[$_], qr/^(?:nodes might write type .* of column "c$_" in another way|a column has another type on a node)$/, "$table, $format, $types[$_]: the reason") for @left;
	return join ' ', map { $types[$_] } @left;
}
my @core_types = qw(bool int2 int4 int8 float4 float8 numeric timestamp timestamptz date time timetz interval bytea char(5) varchar(9) name json jsonb uuid inet macaddr
  bit(3) varbit point polygon int4range tstzmultirange tsvector tsquery int4[] text[] interval[] timestamptz[] oid tid regclass money "char" pg_lsn jsonpath);
my @own_types = qw(mood moods mood[] pair pair[]);
my $make_types = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN moods AS mood[] CHECK (VALUE IS NOT NULL); CREATE TYPE pair AS (a int, b timestamptz)";
$c->node_safe_psql($_, $make_types) for 1 .. 2;
$c->safe_psql("$make_types; CREATE TABLE core_types (id int, " . join(', ', map { "c$_ $core_types[$_]" } 0 .. $#core_types) . ');
	CREATE TABLE own_types (id int, ' . join(', ', map { "c$_ $own_types[$_]" } 0 .. $#own_types) . ')');
$c->shard_table($_, 'id', shards => 3) for qw(core_types own_types);
is(types_left_here('core_types', 'text', @core_types), 'regclass money "char" pg_lsn jsonpath', 'types of core that the coordinator writes by itself');
is(types_left_here('core_types', 'binary', @core_types), 'tsvector tsquery regclass jsonpath', 'the same in binary');
is(types_left_here('own_types', 'text', @own_types), 'pair pair[]', 'types of users that the coordinator writes by itself');
is(types_left_here('own_types', 'binary', @own_types), join(' ', @own_types), 'the same in binary');

# Queries.
$c->safe_psql(q{CREATE TABLE odd (value text); INSERT INTO odd VALUES ('x'), (NULL);
	CREATE TABLE asked (id int, a text, "b,""B" text, c text)});
$c->shard_table('asked', 'id', shards => 7);
$c->safe_psql("INSERT INTO asked SELECT g, 'a' || g, 'b', 'c' FROM generate_series(1, 600) g; ANALYZE odd, asked");
my $more = 'its plan is more than a scan';
my $takes = 'its result takes more than what shards give';
my @queries = (
	[ q{SELECT "b,""B", length(c) + 1, upper(a) AS a FROM asked WHERE a IS NOT NULL}, '' ],
	[ q{SELECT * FROM asked}, '' ],
	[ q{SELECT DISTINCT id, a FROM asked}, '' ],
	[ q{SELECT a, id, a AS again, id FROM asked AS x WHERE c > a}, '' ],
	[ q{SELECT c FROM asked WHERE id IN (1, 2, 30, NULL)}, '' ],
	[ q{SELECT id FROM asked WHERE a = 'it''s' OR a = E'\\\\' OR a = '"'}, '' ],
	[ q{SELECT id FROM asked WHERE id = (SELECT max(id) FROM asked)}, '' ],
	[ q{SELECT id FROM asked WHERE id > (SELECT avg(id) FROM asked)}, '' ],
	[ q{SELECT id FROM asked WHERE now() > '2000-01-01'::timestamptz + id * interval '1 day'}, '' ],
	[ q{SELECT id FROM asked x WHERE NOT EXISTS (SELECT FROM asked y WHERE y.id = x.id AND y.a IS NULL)}, '' ],
	[ q{SELECT id, NULLIF(a, '') AS "NULLIF" FROM asked}, '' ],
	[ q{SELECT id, a FROM asked WHERE a = current_setting('search_path') OR id < 9}, '' ],
	[ q{SELECT id, a FROM asked WHERE id % 3 = 0}, '' ],
	[ q{SELECT id, count(*), max(c) FROM asked GROUP BY id}, '' ],
	[ q{SELECT x.id, y.c, y.a FROM asked AS x JOIN asked AS y USING (id) WHERE x.a <> y.a OR x.id > 100}, '' ],
	[ q{TABLE asked}, '' ],
	[ q{WITH w AS (SELECT id AS k, c FROM asked) SELECT c, k FROM w WHERE k < 50}, '' ],
	[ q{SELECT * FROM asked WHERE id = 17}, $more ],
	[ q{SELECT FROM asked}, 'no columns' ],
	[ q{SELECT a, count(*) FROM asked GROUP BY a}, $more ],
	[ q{SELECT count(*) FROM asked}, $more ],
	[ q{SELECT id FROM asked FOR UPDATE}, $more ],
	[ q{SELECT id FROM asked ORDER BY a, id LIMIT 5}, $more ],
	[ q{SELECT id FROM asked ORDER BY id}, $takes ],
	[ q{SELECT id FROM asked UNION ALL SELECT -id FROM asked}, $more ],
	[ q{SELECT id FROM asked WHERE false}, $more ],
	[ q{SELECT id FROM asked WHERE random() < 2}, $takes ],
	[ q{SELECT id, (SELECT count(*) FROM odd) FROM asked}, $takes ],
	[ q{SELECT id, 1 FROM asked}, $takes ],
	[ q{SELECT id, ctid IS NULL FROM asked}, $more ],
	[ q{SELECT id, id::oid::regclass FROM asked}, $takes ],
	[ q{SELECT id, random() < 2 FROM asked}, $takes ],
	[ q{SELECT id, row_number() OVER (PARTITION BY id ORDER BY a) FROM asked}, $takes ],
	[ q{SELECT t FROM asked AS t}, 'nodes might write type asked of column "t" in another way' ],
	[ q{SELECT x.id FROM asked AS x JOIN odd ON odd.value = x.a}, $more ],
	[ q{SELECT x.id FROM asked AS x JOIN asked AS y ON x.id = y.id + 1}, $more ],
);
my @reasons = reasons(map { "COPY ($_->[0]) TO '/dev/null'" } @queries);
is($reasons[$_], $queries[$_][1], $queries[$_][0]) for 0 .. $#queries;
is((reasons("COPY (SELECT id FROM asked) TO '/dev/null' (FORMAT binary)"))[0], 'a column of the query may have another type on a node', 'a query in binary');

# ---------- rights ----------

$c->safe_psql("CREATE ROLE reader; GRANT SELECT (id) ON small TO reader; GRANT SELECT ON acc TO reader");
$c->safe_psql("CREATE USER MAPPING FOR reader SERVER node$_ OPTIONS (user '$me', password_required 'false')") for 1 .. 2;
$c->psql_fails_like('SET ROLE reader; COPY small TO STDOUT', qr/42501: permission denied for table small/, 'no right on all columns');
$c->psql_fails_like("SET ROLE reader; COPY small (id) TO '$dir/x'", qr/42501:/, 'no right to write files');
$c->psql_fails_like("SET ROLE reader; COPY small (id) TO PROGRAM 'true'", qr/42501:/, 'no right to run programs');
is(join(',', sort { $a <=> $b } split /\n/, $c->safe_psql('SET ROLE reader; COPY small (id) TO STDOUT')), join(',', 1 .. 300), 'a right on columns is enough');
# Row security turns COPY into a query. Generated columns are left out.
$c->safe_psql(q{
	CREATE TABLE guarded (id int, v text, g int GENERATED ALWAYS AS (id + 1) STORED) PARTITION BY HASH (id);
	SELECT shardfdw.shard_table('guarded', shards => 4, nodes => '{node1,node2}');
	INSERT INTO guarded SELECT g, 'v' || g FROM generate_series(1, 100) g;
	ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; GRANT SELECT ON guarded TO reader;
	CREATE POLICY p ON guarded TO reader USING (id % 10 = 0)});
is(join(',', sort split /\n/, $c->safe_psql('SET ROLE reader; COPY guarded TO STDOUT (FORMAT csv)')), join(',', sort map { "${_}0,v${_}0" } 1 .. 10), 'row security');
is(join(',', sort split /\n/, $c->safe_psql('SET ROLE reader; COPY guarded (v) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (v))')), join(',', sort 'v', map { "\"v${_}0\"" } 1 .. 10), 'row security, some columns');
is(scalar(split /\n/, $c->safe_psql('COPY guarded TO STDOUT')), 100, 'not for its owner');
$c->psql_fails_like('SET ROLE reader; SET row_security = off; COPY guarded TO STDOUT', qr/42501: query would be affected by row-level security policy/, 'row_security = off');

done_testing();
