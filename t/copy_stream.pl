# Tests the streams that carry the rows of a load. The right node's error must be raised, with the
# right line. Also tests rows that nodes refuse, rows that exist already, the data that is sent, and
# the memory used while a node does not read.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $c = ShardCluster->new(nodes => 2, host => 'tcp');
my $dir = PostgreSQL::Test::Utils::tempdir();
my $file = "$dir/rows";
chmod 0777, $dir;

sub write_rows
{
	my ($rows) = @_;
	open my $fh, '>', $file or die;
	print $fh join '', @$rows;
	close $fh;
	return;
}

sub read_file
{
	my ($name) = @_;
	return -e $name ? slurp_file($name) : '';
}

# Like psql, with SQLSTATEs in the errors.
sub failure
{
	my ($sql) = @_;
	my ($rc, undef, $err) = $c->psql("\\set VERBOSITY verbose\n$sql", on_error_stop => 1);
	return $rc == 0 ? 'no error' : $err;
}

$c->safe_psql('CREATE TABLE t (id int PRIMARY KEY, v int CONSTRAINT v_positive CHECK (v > 0), w text NOT NULL)');
$c->shard_table('t', 'id', shards => 8);

# --- the error of the first bad line wins, wherever the bad lines are

# The bad lines of a file. The file is much larger than the buffers, or fits into them.
my $n = 30_000;
my $ncases = 0;
for my $case ([ 11_111, 11_112, 11_113, 11_114, 20_000 ], [ 29_999, 30_000, 15_000 ], [ map { 17 * $_ + 5000 } 1 .. 300 ])
{
	my %bad = map { $_ => 1 } @$case;
	my ($first) = sort { $a <=> $b } @$case;

	write_rows([ map { $bad{$_} ? "$_\t-1\tx\n" : "$_\t1\tx\n" } 1 .. $n ]);
	for my $buffer ('64kB', '16MB')
	{
		for my $max (1, 4)
		{
			next unless ShardCluster::in_half($ncases++);
			like(failure("SET shardfdw.copy_buffer_size = '$buffer'; SET shardfdw.max_connections_per_node = $max; COPY t FROM '$file'"),
				qr/23514.*^CONTEXT:  COPY t, line $first: "$first\t-1\tx"$/ms,
				"of @{[ scalar @$case ]} bad lines the first is named (buffer $buffer, $max connections)");
		}
	}
}
like(failure("BEGIN; INSERT INTO t VALUES (0, 1, 'x'); SAVEPOINT a; COPY t FROM '$file'"), qr/COPY t, line 5017: /, 'also in a subtransaction');
is($c->safe_psql(
		"BEGIN; INSERT INTO t VALUES (0, 1, 'x'); SAVEPOINT a;\n\\set ON_ERROR_STOP 0\nCOPY t FROM '$file';\n\\set ON_ERROR_STOP 1\nROLLBACK TO a; INSERT INTO t VALUES (1, 1, 'x'); COMMIT; SELECT count(*), sum(id) FROM t; TRUNCATE t",
		on_error_stop => 0, on_error_die => 0),
	'2|1', 'what was done before stays, and the transaction goes on');

# A bad line that only the coordinator detects, after one that only a node detects; and the opposite
# order.
write_rows([ map { $_ == 900 ? "$_\t-1\tx\n" : $_ == 1000 ? "zzz\t1\tx\n" : "$_\t1\tx\n" } 1 .. 2000 ]);
like(failure("COPY t FROM '$file'"), qr/23514.*COPY t, line 900: /s, 'the coordinator waits for errors of earlier lines');
write_rows([ map { $_ == 1000 ? "$_\t-1\tx\n" : $_ == 900 ? "zzz\t1\tx\n" : "$_\t1\tx\n" } 1 .. 2000 ]);
like(failure("COPY t FROM '$file'"), qr/22P02.*COPY t, line 900, column id: "zzz"/s, 'and does not, of later lines');

# --- the error has the position in the user's input, once (R25)
write_rows([ map { $_ == 1500 ? "$_\tabc\tx\n" : "$_\t1\tx\n" } 1 .. 2000 ]);
my $err = failure("COPY t FROM '$file'");
like($err, qr/22P02.*^CONTEXT:  COPY t, line 1500, column v: "abc"$/ms, 'line and column');
unlike($err, qr/COPY t_\d+/, 'nothing of the shard in the context');
is(scalar(() = $err =~ /column v/g), 1, 'the column is named once');
write_rows([ map { $_ == 1500 ? "$_\t-1\tx\n" : "$_\t1\tx\n" } 1 .. 2000 ]);
like(failure("COPY t (w, v, id) FROM PROGRAM \$\$awk -v OFS='\\t' '{ print \$3, \$2, \$1 }' $file\$\$ WHERE v < 5"), qr/^CONTEXT:  COPY t, line 1500$/m, 'a parsed load has the line');

# Rows of several lines: the node counts the lines of the stream that it reads.
$c->safe_psql('CREATE TABLE t_plain (LIKE t INCLUDING ALL)');
write_rows([ map { my $i = $_; "$i," . ($i == 700 ? -1 : 1) . ',"' . join("\n", ('x') x (1 + $i % 3)) . "\"\n" } 1 .. 1000 ]);
my ($line) = failure("COPY t_plain FROM '$file' (FORMAT csv)") =~ /COPY t_plain, line (\d+): "700,-1/;
cmp_ok($line, '>', 1300, 'lines, not rows, are counted');
like(failure("COPY t FROM '$file' (FORMAT csv)"), qr/COPY t, line $line: "700,-1/, 'rows of several lines');

# A name that looks like a position, and a name that has to be quoted.
$c->safe_psql('CREATE TABLE "COPY a, line 7" (id int PRIMARY KEY, "b, column c" int)');
$c->shard_table('"COPY a, line 7"', 'id', shards => 2);
write_rows([ map { $_ == 40 ? "$_\tx\n" : "$_\t1\n" } 1 .. 100 ]);
like(failure("COPY \"COPY a, line 7\" FROM '$file'"), qr/^CONTEXT:  COPY COPY a, line 7, line 40, column b, column c: "x"$/m, 'odd names');

# --- rows that nodes refuse are set aside, all others arrive

$c->safe_psql('CREATE TABLE g (id int PRIMARY KEY, v int CHECK (v > 0), w text NOT NULL, u int, x varchar(5))');
$c->shard_table('g', 'id', shards => 8);
my %node_of = map { @$_ } $c->shards_of('g');
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{
		CREATE TABLE public.parent (p int PRIMARY KEY);
		INSERT INTO public.parent SELECT generate_series(1, 100);
		CREATE FUNCTION public.after_g() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN IF new.u = 66 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN new; END$$;
		CREATE FUNCTION public.before_g() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN IF new.u = 67 THEN RAISE EXCEPTION USING ERRCODE = 'AB123', MESSAGE = 'nor this one'; END IF; RETURN new; END$$});
	for my $shard (grep { $node_of{$_} == $i } keys %node_of)
	{
		$c->node_safe_psql($i, qq{
			ALTER TABLE public.$shard ADD FOREIGN KEY (u) REFERENCES public.parent;
			CREATE TRIGGER after_g AFTER INSERT ON public.$shard FOR EACH ROW EXECUTE FUNCTION public.after_g()});
	}
}

my %state_of = (
	type => '22P02', check => '23514', null => '23502', duplicate => '23505', fk => '23503',
	trigger => 'P0001', long => '22001', few => '22P04', own => 'AB123');

# Rows of which about one in $gap is bad; the expected figures.
sub mixed_rows
{
	my ($rows, $gap, @kinds) = @_;
	my (@rows, %bad, @good);

	srand(42);
	for my $i (1 .. $rows)
	{
		my @row = ($i, 5, "w$i", 1 + $i % 60, 'abc');
		if (rand($gap) < 1)
		{
			my $kind = $kinds[ int rand @kinds ];
			$kind = 'type' if $kind eq 'duplicate' && !@good;
			$row[1] = 'zz' if $kind eq 'type';
			$row[1] = -3 if $kind eq 'check';
			$row[2] = '\N' if $kind eq 'null';
			$row[0] = $good[ int rand @good ] if $kind eq 'duplicate';
			$row[3] = 1000 + $i if $kind eq 'fk';
			$row[3] = 66 if $kind eq 'trigger';
			$row[3] = 67 if $kind eq 'own';
			$row[4] = 'abcdefgh' if $kind eq 'long';
			pop @row if $kind eq 'few';
			$bad{$i} = [ $state_of{$kind}, join("\t", @row) ];
		}
		else
		{
			push @good, $i;
		}
		push @rows, join("\t", @row) . "\n";
	}
	my $sum = 0;
	$sum += $_ for @good;
	return (\@rows, \%bad, scalar(@good) . "|$sum");
}

sub set_aside
{
	my ($name, $sql, $rows, $bad, $expected) = @_;
	my $rejected = "$dir/rejected";
	my @lines = sort { $a <=> $b } keys %$bad;

	write_rows($rows);
	unlink $rejected;
	my ($rc, $out, $err) = $c->psql("DROP TABLE IF EXISTS r; SELECT shardfdw.create_reject_table('r'); $sql", on_error_stop => 1);
	is($rc, 0, "$name: loads") || diag $err;
	is($c->safe_psql('SELECT count(*), sum(id) FROM g'), $expected, "$name: all good rows, and no other");
	is(join("\n", sort split /\n/, read_file($rejected)), join("\n", sort map { $_->[1] } values %$bad), "$name: the file has the bad rows");
	is($c->safe_psql('SELECT line, sqlstate FROM r ORDER BY line'), join("\n", map { "$_|$bad->{$_}[0]" } @lines), "$name: the table has lines and reasons");
	return;
}

my $columns = $c->safe_psql("DROP TABLE IF EXISTS r; SELECT shardfdw.create_reject_table('r'); SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'r'::regclass AND attnum > 0");
like($columns, qr/line.*sqlstate/, 'the reject table has lines and states');

for my $case (
	[ 'few bad rows', 30_000, 500, qw(type check null duplicate fk trigger long few) ],
	[ 'many bad rows', 5000, 4, qw(type check null duplicate fk trigger long few) ],
	[ 'half of them', 3000, 2, qw(check fk) ],
	[ 'foreign keys alone', 20_000, 300, 'fk' ],
	[ 'AFTER triggers alone', 20_000, 300, 'trigger' ])
{
	my ($name, $nrows, $gap, @kinds) = @$case;
	my ($rows, $bad, $expected) = mixed_rows($nrows, $gap, @kinds);

	for my $buffer ('64kB', '16MB')
	{
		next unless ShardCluster::in_half($ncases++);
		set_aside("$name, $buffer",
			"SET shardfdw.copy_buffer_size = '$buffer'; TRUNCATE g; COPY g FROM '$file' (ON_ERROR 'ignore', REJECT_FILE '$dir/rejected', REJECT_TABLE 'r')",
			$rows, $bad, $expected);
	}
}
{
	my ($rows, $bad, $expected) = mixed_rows(4000, 50, qw(check null duplicate fk trigger));
	set_aside('in a transaction',
		"TRUNCATE g; BEGIN; COPY g FROM '$file' (ON_ERROR 'ignore', REJECT_FILE '$dir/rejected', REJECT_TABLE 'r'); SAVEPOINT a; DELETE FROM g; ROLLBACK TO a; UPDATE g SET v = v + 1; COMMIT",
		$rows, $bad, $expected);
}

# BEFORE triggers make COPY insert row by row.
for my $shard (keys %node_of)
{
	$c->node_safe_psql($node_of{$shard}, "CREATE TRIGGER before_g BEFORE INSERT ON public.$shard FOR EACH ROW EXECUTE FUNCTION public.before_g()");
}
{
	my ($rows, $bad, $expected) = mixed_rows(10_000, 100, qw(type check null duplicate fk trigger long own));
	set_aside('with BEFORE triggers',
		"TRUNCATE g; COPY g FROM '$file' (ON_ERROR 'ignore', REJECT_FILE '$dir/rejected', REJECT_TABLE 'r')",
		$rows, $bad, $expected);
}

# Earlier rows remain, and so do earlier changes of the transaction. Rows that are in the table
# already are refused.
$c->safe_psql('TRUNCATE g');
write_rows([ map { "$_\t1\tx\t1\tx\n" } 1 .. 1000 ]);
is( $c->safe_psql("BEGIN; INSERT INTO g VALUES (500, 7, 'mine', 1, 'x'); COPY g FROM '$file' (ON_ERROR 'ignore', LOG_VERBOSITY 'silent'); SELECT count(*), sum(v) FROM g; COMMIT; SELECT count(*), sum(v) FROM g"),
	"1000|1006\n1000|1006", 'rows of the transaction itself stay');

# Errors that are not about rows end the load.
$c->safe_psql('TRUNCATE g');
my ($shard) = sort keys %node_of;
$c->node_safe_psql($node_of{$shard}, "ALTER TABLE public.$shard RENAME TO hidden");
like(failure("COPY g FROM '$file' (ON_ERROR 'ignore')"), qr/42P01.*$shard/s, 'a table that is not there');
$c->node_safe_psql($node_of{$shard}, "ALTER TABLE public.hidden RENAME TO $shard");
is($c->safe_psql('SELECT count(*) FROM g'), '0', 'nothing of that load stays');

# Few bad rows do not make many statements: slices become large again.
{
	my ($rows) = mixed_rows(60_000, 1_000_000, 'check');
	$rows->[99] = "100\t-1\tx\t1\tx\n";
	write_rows($rows);
	my @position = map { $c->log_position($_) } 1 .. 2;
	for my $i (1 .. 2)
	{
		$c->node_safe_psql($i, "ALTER SYSTEM SET log_statement = 'all'");
		$c->node_safe_psql($i, 'SELECT pg_reload_conf()');
	}
	$c->safe_psql("TRUNCATE g; COPY g FROM '$file' (ON_ERROR 'ignore', LOG_VERBOSITY 'silent')");
	my $ncopies = 0;
	for my $i (1 .. 2)
	{
		$c->node_safe_psql($i, 'ALTER SYSTEM RESET log_statement');
		$c->node_safe_psql($i, 'SELECT pg_reload_conf()');
		$ncopies += () = $c->log_since($position[ $i - 1 ], $i) =~ /COPY public\.\w+ \(.*?\) FROM STDIN/g;
	}
	is($c->safe_psql('SELECT count(*) FROM g'), '59999', 'one bad row is left out');
	cmp_ok($ncopies, '<', 500, "60,000 rows with one bad one take $ncopies COPY statements");
}

# --- rows that are in the table already: ON_DUPLICATE, in the order of the input

sub duplicates
{
	my ($how, $nrows, $nkeys, $before) = @_;
	my (%table, @rows, $nduplicates, $nreplaced);

	srand(7);
	$table{$_} = -$_ for 1 .. $before;
	for my $i (1 .. $nrows)
	{
		my $key = 1 + int rand $nkeys;
		push @rows, "$key\t$i\n";
		if (!exists $table{$key})
		{
			$table{$key} = $i;
		}
		elsif ($how eq 'keep_new')
		{
			$table{$key} = $i;
			$nreplaced++;
		}
		else
		{
			$nduplicates++;
		}
	}
	my ($count, $sum) = (0, 0);
	while (my ($key, $value) = each %table)
	{
		$count++;
		$sum += $key * $value;
	}
	return (\@rows, "$count|$sum", $nduplicates // 0, $nreplaced // 0);
}

$c->safe_psql('CREATE TABLE d (id int PRIMARY KEY, v int)');
$c->shard_table('d', 'id', shards => 8);
for my $how ('keep_old', 'keep_new')
{
	for my $case ([ 20_000, 1_000_000, 0 ], [ 20_000, 20_000, 5000 ], [ 5000, 10, 10 ], [ 20_000, 15_000, 15_000 ])
	{
		my ($nrows, $nkeys, $before) = @$case;
		my ($rows, $expected, $nduplicates, $nreplaced) = duplicates($how, $nrows, $nkeys, $before);
		my $name = "$how, $nrows rows with $nkeys keys";

		write_rows($rows);
		for my $buffer ('64kB', '16MB')
		{
			next unless ShardCluster::in_half($ncases++);
			my ($rc, undef, $err) = $c->psql(
				"TRUNCATE d; INSERT INTO d SELECT g, -g FROM generate_series(1, $before) g; SET shardfdw.copy_buffer_size = '$buffer'; COPY d FROM '$file' (ON_DUPLICATE '$how', REJECT_FILE '$dir/rejected')",
				on_error_stop => 1);
			is($rc, 0, "$name, $buffer: loads") || diag $err;
			is($c->safe_psql('SELECT count(*), sum(id::numeric * v) FROM d'), $expected, "$name, $buffer: the rows are those of the input's order");
			is(scalar(() = read_file("$dir/rejected") =~ /\n/g), $nduplicates, "$name, $buffer: duplicates") if $how eq 'keep_old';
		}
	}
}
for my $i (1 .. 2)
{
	is($c->node_safe_psql($i, "SELECT count(*) FROM pg_class WHERE relname LIKE 'shardfdw_stage%'"), '0', "no staging table is left on node $i");
}

# Errors of a merge have the line; with ON_ERROR they are set aside.
$c->safe_psql('CREATE TABLE m (id int PRIMARY KEY, v int CHECK (v > 0), w int)');
$c->shard_table('m', 'id', shards => 4);
write_rows([ map { my $id = $_ % 100 == 0 ? 5 : $_; my $v = $_ == 1777 ? -1 : 1; my $w = $_ == 1800 ? 'x' : $_; "$id\t$v\t$w\n" } 1 .. 3000 ]);
like(failure("COPY m FROM '$file' (ON_DUPLICATE 'keep_new')"), qr/23514.*COPY m, line 1777\b/s, 'a CHECK behind duplicates: the first bad line');
is( $c->safe_psql("COPY m FROM '$file' (ON_DUPLICATE 'keep_new', ON_ERROR 'ignore', LOG_VERBOSITY 'silent'); SELECT count(*), count(*) FILTER (WHERE id IN (1777, 1800)), max(w) FILTER (WHERE id = 5) FROM m"),
	'2969|0|3000', 'bad rows among duplicates are left out');

# --- memory is limited while a node hangs, and no row is lost (R16)

# --- rows of one key that follow each other

$c->safe_psql('CREATE TABLE run_rows (k text, n int CHECK (n >= 0), w text); CREATE TABLE run_plain (LIKE run_rows)');
$c->shard_table('run_rows', 'k', shards => 5);
for my $case ([ "\n", 'text', '\N' ], [ "\n", 'csv', '' ], [ "\r\n", 'csv', '' ], [ "\r", 'text', '\N' ])
{
	my ($eol, $format, $null) = @$case;
	next unless ShardCluster::in_half($ncases++);
	my $name = "$format, " . ($eol =~ s/\r/CR/r =~ s/\n/NL/r);
	my $delim = $format eq 'csv' ? ',' : "\t";
	my ($key, @rows) = (0);

	# Runs of rows with many lengths, one of them longer than a message. One key is written in two
	# ways, one is missing, and one is the beginning of the next key.
	while (@rows < 40_000)
	{
		my $length = $key == 3000 ? 700 : 1 + $key * 7 % 9;
		my @names = (("$key") x 3, $null, $format eq 'csv' ? qq{"$key"} : "\\x" . sprintf('%x', ord $key) . substr($key, 1), $key . '0');
		my $text = $names[ $key % @names ];
		push @rows, join($delim, $_ % 5 == 4 ? $names[4] : $text, scalar @rows, 'x' x ($key % 60)) . $eol for 1 .. $length;
		$key++;
	}
	write_rows(\@rows);
	$c->safe_psql("TRUNCATE run_rows, run_plain; COPY run_rows FROM '$file' (FORMAT $format); COPY run_plain FROM '$file' (FORMAT $format)");
	is($c->safe_psql('(SELECT * FROM run_rows EXCEPT ALL SELECT * FROM run_plain) UNION ALL (SELECT * FROM run_plain EXCEPT ALL SELECT * FROM run_rows)'),
		'', "rows of one key, $name");
	is($c->safe_psql(q{SELECT count(*) FROM run_rows r WHERE k IS NOT NULL AND r.tableoid <> shardfdw.shard_for('run_rows', k)}), 0, "each in its shard, $name");

	# line numbers within runs and after runs
	for my $line (10, 2_000, 20_000, 39_990)
	{
		my @bad = @rows;
		$bad[ $line - 1 ] =~ s/^([^$delim]*$delim)/$1-/;
		write_rows(\@bad);
		like(failure("COPY run_rows FROM '$file' (FORMAT $format);"), qr/23514.*COPY run_rows, line $line: /s, "line $line, $name");
	}
}

sub peak_kb
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/status") =~ /VmHWM:\s+(\d+)/ ? $1 : die 'no VmHWM';
}

$c->safe_psql('CREATE TABLE big (id int, w text)');
$c->shard_table('big', 'id', shards => 4);
write_rows([ map { "$_\t" . ('x' x 800) . "\n" } 1 .. 100_000 ]);
for my $options ('', "(ON_ERROR 'ignore')", "(FORMAT csv, DELIMITER E'\\t')")
{
	my $go = "$file.go";
	my $session = $c->start_sql(
		"SET shardfdw.copy_buffer_size = '8MB'; TRUNCATE big;\nCOPY big FROM PROGRAM \$\$awk 'NR == 2000 { system(\"\"); system(\"while [ ! -e $go ]; do sleep 0.05; done\") } { print }' $file\$\$ $options;",
		name => 'big');
	my $active = "FROM pg_stat_activity WHERE application_name = 'big' AND query LIKE 'COPY big%' AND state = 'active'";
	$c->wait_for("SELECT count(*) > 0 $active");
	my $pid = $c->safe_psql("SELECT pid $active");
	my $start = peak_kb($pid);
	$c->sigstop_node(1);
	append_to_file($go, '');
	usleep(2_000_000);
	my $grown = (peak_kb($pid) - $start) / 1024;
	$c->sigcont_node(1);
	my ($rc, undef, $errors) = $c->wait_sql($session);
	unlink $go;
	is($rc, 0, "the load goes on when the node does $options") || diag $errors;
	is($c->safe_psql('SELECT count(*), sum(id), sum(length(w)) FROM big'), '100000|5000050000|80000000', "every row has arrived $options");
	cmp_ok($grown, '<', 48, "memory meanwhile $options");
}

done_testing();
