# COPY sets bad rows aside. Every bad row of a large input must be in REJECT_FILE and REJECT_TABLE
# with its line number. Every good row must be loaded. Loading the corrected file must complete the
# table.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my $dir = PostgreSQL::Test::Utils::tempdir();
my ($in, $bad, $corrected) = ("$dir/rows", "$dir/bad rows", "$dir/corrected");

sub spew
{
	my ($path, $bytes) = @_;
	open my $fh, '>:raw', $path or die "$path: $!";
	print $fh $bytes;
	close $fh;
	return;
}
sub files { return join ' ', sort map { s{.*/}{}r } glob "'$dir'/*"; }

$c->safe_psql(q{CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT v_small CHECK (v < 1000000), k int, w text NOT NULL);
	SELECT shardfdw.create_reject_table('rejects')});
$c->shard_table('t', 'id', shards => 8);
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{CREATE TABLE kinds (k int PRIMARY KEY);
		INSERT INTO kinds SELECT generate_series(0, 9);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.w = 'refused' THEN
				RAISE EXCEPTION 'the trigger says no' USING ERRCODE = 'P0042', COLUMN = 'w';
			END IF;
			RETURN NEW;
		END $$});
}
for my $shard ($c->shards_of('t'))
{
	my ($name, $node) = @$shard;
	$c->node_safe_psql($node, "ALTER TABLE $name ADD FOREIGN KEY (k) REFERENCES kinds;
		CREATE TRIGGER refuse BEFORE INSERT ON $name FOR EACH ROW EXECUTE FUNCTION refuse()");
}

# Kinds of bad lines: SQLSTATE, and the line of row $id (which has the id $other of an earlier one too).
my %kinds = (
	malformed => [ '22P04', sub { my ($id) = @_; "$id,1,1,a\rb" } ],
	extra     => [ '22P04', sub { my ($id) = @_; "$id,1,1,x,y" } ],
	missing   => [ '22P04', sub { my ($id) = @_; "$id,1,1" } ],
	key       => [ '22P02', sub { my ($id) = @_; "x$id,1,1,x" } ],
	type      => [ '22P02', sub { my ($id) = @_; "$id,x,1,x" } ],
	not_null  => [ '23502', sub { my ($id) = @_; "$id,1,1," } ],
	check     => [ '23514', sub { my ($id) = @_; "$id,1000000,1,x" } ],
	unique    => [ '23505', sub { my ($id, $other) = @_; "$other,1,1,x" } ],
	foreign   => [ '23503', sub { my ($id) = @_; "$id,1,10,x" } ],
	trigger   => [ 'P0042', sub { my ($id) = @_; "$id,1,1,refused" } ],
	encoding  => [ '22021', sub { my ($id) = @_; "$id,1,1,a\xffb" } ],
);
my @names = sort keys %kinds;
my $nrows = 100_000;

# Bad lines at several places, alone and next to each other. They include the first and the last
# lines.
my %bad_at;
my $n = 0;
$bad_at{$_} = $names[ $n++ % @names ] for (1, (map { $_ * 997 } 1 .. 100), 50_001 .. 50_011, $nrows - 1, $nrows);
my $text = "id,v,k,w\n";
my (@bad_lines, @good_lines);
my $expected_table = '';
for my $i (1 .. $nrows)
{
	my $good = "$i,$i," . ($i % 10) . ",row $i";
	if (my $kind = $bad_at{$i})
	{
		my $line = $kinds{$kind}[1]->($i, $i - 500);
		# the line whose key a "unique" line repeats must be good
		$line = $kinds{unique}[1]->($i, 2) if $kind eq 'unique';
		push @bad_lines, $line;
		push @good_lines, $good;
		$expected_table .= ($i + 1) . "|$kinds{$kind}[0]\n";
		$good = $line;
	}
	$text .= "$good\n";
}
chomp $text;    # the last line has no end
chomp $expected_table;
spew($in, $text);
my $nbad = @bad_lines;
my $options = "FORMAT csv, HEADER, ON_ERROR ignore";

my ($rc, $out, $err) = $c->psql("COPY t FROM '$in' ($options, REJECT_FILE '$bad', REJECT_TABLE 'rejects')");
is($rc, 0, 'the load ends well') || diag $err;
like($err, qr/NOTICE:  $nbad rows were rejected\nDETAIL:  The rejected lines are in file "\Q$bad\E" and table rejects \(load 1\)\.$/m, 'a NOTICE sums up');
is(slurp_file($bad), join('', map { "$_\n" } 'id,v,k,w', @bad_lines), 'REJECT_FILE has the bad lines as they were, in order, with the header');
is($c->safe_psql('SELECT line, sqlstate FROM rejects ORDER BY line'), $expected_table, 'REJECT_TABLE has each with its line and SQLSTATE');
is($c->safe_psql(q{SELECT count(*), count(DISTINCT id), bool_and(v = id AND k = id % 10 AND w = 'row ' || id) FROM t}),
	($nrows - $nbad) . '|' . ($nrows - $nbad) . '|t', 'every good row is loaded');
is($c->safe_psql(q{SELECT count(*) FROM t WHERE id IN (} . join(',', keys %bad_at) . ')'), '0', 'no bad one is');
is($c->safe_psql(q{SELECT string_agg(DISTINCT sqlstate, ' ' ORDER BY sqlstate) FROM rejects WHERE shard IS NULL OR message IS NULL OR raw IS NULL}),
	$c->safe_psql(q{SELECT string_agg(DISTINCT sqlstate, ' ' ORDER BY sqlstate) FROM rejects WHERE sqlstate IN ('22P04', '22P02', '22021') AND shard IS NULL}),
	'what a shard refused names the shard');
is($c->safe_psql(q{SELECT count(DISTINCT shard) FROM rejects}), '8', 'all shards refused some');
is($c->safe_psql(q{SELECT raw FROM rejects WHERE sqlstate = '22021' ORDER BY line LIMIT 1}) =~ s/^\d+//r, ',1,1,a\xffb', 'bytes that are no characters are shown');

# Corrected, the file loads with the same options.
spew($corrected, join('', map { "$_\n" } 'id,v,k,w', @good_lines));
$c->safe_psql("COPY t FROM '$corrected' ($options, REJECT_FILE '$bad')");
is($c->safe_psql(q{SELECT count(*), sum(id), bool_and(v = id AND k = id % 10 AND w = 'row ' || id) FROM t}),
	"$nrows|" . $nrows * ($nrows + 1) / 2 . '|t', 'the corrected file completes the table');
is(slurp_file($bad), "id,v,k,w\n", 'a load without rejects leaves the header');

# A failed load leaves no file, and does not change an older file.
$c->safe_psql('TRUNCATE t; TRUNCATE rejects');
spew($bad, "older\n");
my $limit = $nbad - 1;
($rc, $out, $err) = $c->psql("\\set VERBOSITY verbose\nCOPY t FROM '$in' ($options, REJECT_LIMIT $limit, REJECT_FILE '$bad', REJECT_TABLE 'rejects')");
like($err, qr/ERROR:  22P02: skipped more than REJECT_LIMIT \($limit\) rows/, 'one more than the limit');
is($c->safe_psql('SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM rejects)'), '0|0', 'no row of that load stays');
is(slurp_file($bad), "older\n", 'nor does it touch the older file');
is(files(), 'bad rows corrected rows', 'or leave another one');

$c->psql("BEGIN; COPY t FROM '$in' ($options, REJECT_LIMIT $nbad, REJECT_FILE '$bad', REJECT_TABLE 'rejects'); ROLLBACK");
is($c->safe_psql('SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM rejects)'), '0|0', 'rolled back: no row');
is(files() . ' ' . slurp_file($bad), "bad rows corrected rows older\n", 'rolled back: no file, the older one is there');

unlink $bad;
$c->safe_psql("BEGIN; COPY t FROM '$in' ($options, MAX_ROWS 1000, REJECT_FILE '$bad'); SAVEPOINT s;
	COPY t FROM '$in' ($options, SKIP 1000, MAX_ROWS 1000, REJECT_FILE '$bad 2'); ROLLBACK TO s; COMMIT");
is(files(), 'bad rows corrected rows', 'rolled back to a savepoint: no file');
is($c->safe_psql('SELECT count(*), max(id) FROM t'), '998|1000', 'the rest is loaded');

# An error that is caught.
$c->safe_psql("DO \$\$
BEGIN
	BEGIN
		EXECUTE 'COPY t FROM ''$in'' ($options, SKIP 1000, REJECT_LIMIT 5, REJECT_FILE ''$bad 2'')';
	EXCEPTION WHEN invalid_text_representation THEN
		RAISE NOTICE '%', SQLERRM;
	END;
	EXECUTE 'COPY t FROM ''$in'' ($options, SKIP 1000, MAX_ROWS 1000, REJECT_LIMIT 5, REJECT_FILE ''$bad 3'')';
END \$\$");
is(files(), 'bad rows bad rows 3 corrected rows', 'a failed load leaves no file when its error is caught');
unlink "$bad 3";

# A session that ends in mid-load.
$c->safe_psql('TRUNCATE t');
unlink $bad;
my $load = $c->start_sql("COPY t FROM PROGRAM \$\$(cat '$in'; sleep 100)\$\$ ($options, REJECT_FILE '$bad')", name => 'load');
$c->wait_for(q{SELECT coalesce(max(tuples_processed), 0) > 50000 FROM pg_stat_progress_copy});
is(files(), 'corrected rows', 'while it loads there is no file');
$c->safe_psql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_progress_copy});
$c->wait_sql($load);
is(files(), 'corrected rows', 'the session has ended: no file');
is($c->safe_psql('SELECT count(*) FROM t'), '0', 'no row');

# Line ends, and an input without one.
for my $case ([ "\r\n", 'CRNL' ], [ "\r", 'CR' ], [ "\n", 'NL' ])
{
	my ($eol, $name) = @$case;
	$c->safe_psql('TRUNCATE t');
	spew($in, join($eol, "1\t1\t1\ta", "x\t1\t1\tb", "2\t1\t1\tc", "3\t1\t1"));
	$c->safe_psql("COPY t FROM '$in' (ON_ERROR ignore, REJECT_FILE '$bad')");
	is(slurp_file($bad), "x\t1\t1\tb${eol}3\t1\t1$eol", "$name: lines keep their ends, the last one gets one");
	spew($in, slurp_file($bad) =~ s/^x/4/r =~ s/1(\R)$/1\td$1/r);
	$c->safe_psql("COPY t FROM '$in' (ON_ERROR ignore)");
	is($c->safe_psql("SELECT string_agg(id || w, ' ' ORDER BY id) FROM t"), '1a 2c 3d 4b', "$name: corrected and loaded");
}

# The file may be a link or a device, but not a directory.
symlink "$dir/corrected", "$dir/link" or die;
$c->safe_psql("COPY t FROM '$in' (ON_ERROR ignore, REJECT_FILE '$dir/link')");
ok(-l "$dir/link" && slurp_file("$dir/corrected") =~ /^4\t/, 'a link is followed');
$c->psql_fails_like("COPY t FROM '$in' (ON_ERROR ignore, REJECT_FILE '$dir')", qr/is a directory/, 'a directory');
$c->psql_fails_like("COPY t FROM '$in' (ON_ERROR ignore, REJECT_FILE '$dir/no/where')", qr/could not open file ".*" for writing/, 'no directory');
$c->safe_psql("COPY t FROM '$in' (ON_ERROR ignore, REJECT_FILE '/dev/null')");
ok(-c '/dev/null', 'a device stays one');

for my $i (1 .. 2)
{
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_prepared_xacts}), '0', "no prepared transaction on node $i");
	is($c->node_safe_psql($i, q{SELECT count(*) FROM pg_class WHERE relname LIKE 'shardfdw%'}), '0', "no table of a load on node $i");
}
done_testing();
