# NestedRandom.pm - random statements that read, by functions and sub-selects, the tables that they write
#
#   my $maker = NestedRandom->new(seed => $n, major => 15);
#   $maker->setup($sharded)    SQL that makes the tables and functions in the first schema of search_path
#   NestedRandom->reset         statements that fill the tables
#
#   $maker->next               the next case: { sql => [ statements ], compare, kind, fresh }
#   NestedRandom::contents      a query for the contents of all tables
#
# A case begins with the tables as reset() fills them. It is one statement, or a transaction with earlier writes, a
# savepoint or a cursor around it. compare says what is the same on plain tables whatever the order of rows:
#
#   rows      each row
#   columns   the values of each column: rows get values one after the other, which of them gets which is open
#   count     the number of rows
#
# CONTENTS among the statements stands for: the tables have the same contents now.
#
# Tables: x and y are colocated; o has one shard; d has defaults, b and t have row triggers that call functions; l is local.

package NestedRandom;

use strict;
use warnings;

our @tables = qw(x y o d b t l);
my @written = qw(x x x x y o o d b t);

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }

sub new
{
	my ($class, %opt) = @_;
	my $self = bless { %opt, id => 1000 }, $class;
	srand $self->{seed};
	return $self;
}

# ---- tables and functions ------------------------------------------------------------------------

# Each function exists in three volatilities and two languages. It reads table T.
my %bodies = (
	cnt => [ '', 'SELECT count(*)::int FROM T' ],
	mx  => [ '', 'SELECT coalesce(max(a), 0)::int FROM T' ],
	at  => [ 'int', 'SELECT coalesce((SELECT a FROM T WHERE k = $1), -1)' ],
	oth => [ 'int', 'SELECT count(*)::int FROM T WHERE k <> $1 AND a > 4' ],
	jn  => [ '', 'SELECT count(*)::int FROM T JOIN y AS w USING (k) WHERE T.a <> w.a' ]);
my @volatilities = qw(volatile stable immutable);

sub setup
{
	my ($self, $sharded) = @_;
	my $sql = '';

	for my $table (@tables)
	{
		$sql .= "CREATE TABLE $table (k int" . ($table eq 'l' ? '' : ' PRIMARY KEY') . ", a int, n int);\n";
		next if !$sharded || $table eq 'l';
		$sql .= "SELECT shardfdw.shard_table('$table', 'k', " . ($table eq 'y' ? "colocate_with => 'x'" : $table eq 'o' ? 'shards => 1' : 'shards => 4') . ");\n";
	}
	for my $name (sort keys %bodies)
	{
		my ($arguments, $body) = @{ $bodies{$name} };
		for my $table (@tables)
		{
			next if $table eq 'l' || $name eq 'jn' && $table eq 'y';
			my $text = $body =~ s/\bT\b/$table/gr;
			for my $volatility (@volatilities)
			{
				my $full = "${name}_${table}_" . substr $volatility, 0, 1;
				$sql .= "CREATE FUNCTION ${full}_sql($arguments) RETURNS int LANGUAGE sql $volatility AS 'SELECT ($text)';\n";
				$sql .= "CREATE FUNCTION ${full}_pl($arguments) RETURNS int LANGUAGE plpgsql $volatility AS 'BEGIN RETURN ($text); END';\n";
			}
		}
	}
	for my $volatility (qw(volatile stable))
	{
		my $v = substr $volatility, 0, 1;
		# The order of the rows decides the result of statements that write.
		for my $table (qw(x y o d b t))
		{
			my $query = "SELECT * FROM $table ORDER BY 1";
			my $head = "CREATE FUNCTION all_${table}_${v}";
			my $returns = "RETURNS SETOF $table LANGUAGE";
			$sql .= "${head}_sql() $returns sql $volatility AS '$query';\n";
			$sql .= "${head}_pl() $returns plpgsql $volatility AS 'BEGIN RETURN QUERY $query; END';\n";
		}
	}
	# writes to another table or to y, and returns the sum or count after that
	$sql .= "CREATE FUNCTION adds_y_v(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN UPDATE y SET a = a + 1 WHERE k = \$1 % 8 + 1; RETURN (SELECT sum(a) FROM y); END';\n";
	$sql .= "CREATE FUNCTION adds_l_v(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO l VALUES (\$1, 1); RETURN (SELECT count(*) FROM l); END';\n";
	$sql .= "CREATE FUNCTION news_y_v(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN INSERT INTO y SELECT least(min(k), 0) - 1, 1, 0 FROM y; RETURN (SELECT count(*) FROM y); END';\n";
	$sql .= "ALTER TABLE d ALTER a SET DEFAULT cnt_d_s_pl(), ALTER n SET DEFAULT " . pick(qw(cnt_d_v_sql() mx_d_s_pl() cnt_x_s_sql() cnt_d_v_pl())) . ";\n";
	my ($before, $after) = (pick(qw(cnt_b_v_pl() cnt_b_s_pl() cnt_x_v_pl())), pick(qw(cnt_t_v_pl() cnt_t_s_pl() cnt_y_s_sql())));
	my ($bv, $tv) = (pick('VOLATILE', 'VOLATILE', 'STABLE'), 'VOLATILE');
	$sql .= "CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql $bv AS 'BEGIN NEW.n := $before; RETURN NEW; END';\n" .
	  "CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql $tv AS 'BEGIN INSERT INTO l VALUES (0, $after); RETURN NULL; END';\n" .
	  "CREATE TRIGGER r BEFORE INSERT OR UPDATE ON b FOR EACH ROW EXECUTE FUNCTION before_row();\n" .
	  "CREATE TRIGGER r AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION after_row();\n";
	return $sql;
}

# In this order: rows of b and t get the results of their triggers.
sub reset
{
	return map { ("TRUNCATE $_", $_ eq 'l' ? () : "INSERT INTO $_ SELECT g, g % 5 + " . length($_) . ", 0 FROM generate_series(1, " . ($_ eq 'y' ? 9 : 8) . ') AS g') } qw(x y o d b t l);
}

sub contents { return join ' UNION ALL ', map { "SELECT '$_' AS name, k, a, n FROM $_" } @tables; }

# ---- expressions ---------------------------------------------------------------------------------

# An expression that reads tables. alias has columns k and a, or is undef. kinds: the volatilities.
# Volatile parts are recorded.
sub read
{
	my ($self, $alias) = @_;
	my $table = chance(0.7) ? $self->{table} : pick(qw(x y o));
	my $key = defined $alias ? pick("$alias.k", "$alias.k", "$alias.a") : int 1 + rand 8;
	my $roll = rand;

	if ($roll < 0.25)
	{
		$self->{selects}++;
		# Only the row itself: whether others have been changed depends on the order. For MERGE,
		# that is also true for a fixed row, and for an upsert for the row with the key of its source.
		return "(SELECT z.a FROM $table AS z WHERE z.k = " . (defined $alias ? "$alias.k" : 4) . ' FOR ' . pick('UPDATE', 'SHARE', 'NO KEY UPDATE') . ')'
			if $table ne 'y' && chance(0.15) && (defined $alias ? !$self->{shifts} : !$self->{merge});
		return pick("(SELECT max(z.a) FROM $table AS z)", "(SELECT count(*)::int FROM $table AS z WHERE z.a >= " . (defined $alias ? "$alias.a" : 3) . ')',
			"(SELECT z.a FROM $table AS z WHERE z.k = $key)", "(SELECT count(*)::int FROM $table AS z JOIN y AS w USING (k) WHERE z.a < w.a)", "(CASE WHEN EXISTS (SELECT 1 FROM $table AS z WHERE z.a > $key) THEN 5 ELSE 2 END)");
	}
	my $volatility = $self->{steady} ? pick(qw(s s i)) : pick(qw(v v s s i));
	# MERGE also calls functions for rows that it does not change (docs/limits_sql.md)
	if ($volatility eq 'v' && !$self->{merge} && chance(0.12))
	{
		$self->{volatile}++;
		$self->{choosing}++;
		return pick('adds_y_v', 'adds_l_v', 'news_y_v') . "($key)";
	}
	my $name = pick(sort keys %bodies);
	$name = 'cnt' if $name eq 'jn' && $table eq 'y' || $volatility eq 'v' && chance(0.5);
	$key = $name =~ /^(at|oth)$/ ? $key : '';
	$self->{volatile}++ if $volatility eq 'v';
	# its result depends on the rows that were changed before
	$self->{choosing}++ if $volatility eq 'v' && $name ne 'cnt';
	$self->{functions}++;
	return "${name}_${table}_${volatility}_" . pick(qw(sql pl)) . "($key)";
}

sub term
{
	my ($self, $alias) = @_;
	my $made = $self->read($alias);
	$made = "$made + " . pick(10, $made =~ /_v_/ ? 7 : "$alias.a", 1) if defined $alias && chance(0.4);
	$made = "mod($made, 50)" if chance(0.1);
	return $made;
}

sub condition
{
	my ($self, $alias) = @_;
	my $compared = pick(' > ', ' >= ', ' <> ', ' = ', ' < ');

	# how many rows a volatile function lets through must not depend on their order
	if (!$self->{steady} && chance(0.4))
	{
		$self->{$_}++ for qw(volatile choosing);
		return 'cnt_' . (chance(0.7) ? $self->{table} : pick(qw(x y o))) . '_v_' . pick(qw(sql pl)) . "()$compared" . pick(2, 4, 6, 8);
	}
	my $steady = $self->{steady};
	$self->{steady} = 1;
	my $made = $self->read($alias) . $compared . pick(0, 2, 4, 6, 8, defined $alias ? "$alias.a" : 3, defined $alias ? "$alias.k" : 5);
	$self->{steady} = $steady;
	return $made;
}

sub where
{
	my ($self, $alias) = @_;
	my @parts;
	push @parts, pick("$alias.k <= 4", "$alias.k = " . int(1 + rand 8), "$alias.a > 3", "$alias.k IN (2, 3, 7)", "$alias.k % 2 = 0") if chance(0.4);
	push @parts, $self->condition($alias) if chance(0.4);
	return @parts ? ' WHERE ' . join ' AND ', @parts : '';
}

sub returning
{
	my ($self, $alias) = @_;
	return '' if chance(0.55);
	return ' RETURNING ' . join ', ', map { chance(0.6) ? $self->term($alias) : pick("$alias.k", "$alias.a") } 1 .. 1 + int rand 2;
}

# ---- statements ----------------------------------------------------------------------------------

sub make_update
{
	my ($self) = @_;
	my $table = $self->{table};
	my @set = ('a = ' . (chance(0.8) ? $self->term('q') : 'q.a + 1'));
	push @set, 'n = ' . $self->term('q') if chance(0.2);
	unshift @set, 'k = q.k + 20' if chance(0.1) && $table =~ /[xyo]/;
	my $from = chance(0.15) ? ' FROM y AS w' : '';
	my $where = $self->where('q');
	$where .= ($where ? ' AND' : ' WHERE') . ' w.k = q.k' if $from;
	return "UPDATE $table AS q SET " . join(', ', @set) . $from . $where . $self->returning('q');
}

sub make_delete
{
	my ($self) = @_;
	my $from = chance(0.15) ? ' USING y AS w' : '';
	my $where = chance(0.7) ? ' WHERE ' . $self->condition('q') : $self->where('q');
	$where .= ($where ? ' AND' : ' WHERE') . ' w.k = q.k' if $from;
	return "DELETE FROM $self->{table} AS q$from$where" . $self->returning('q');
}

sub rows
{
	my ($self, $dup) = @_;
	return 'VALUES ' . join ', ', map { '(' . join(', ', $dup && chance(0.5) ? 2 * $_ : $self->{id}++, $self->term(undef)) . ')' } 1 .. pick(1, 1, 2, 3, 4);
}

sub source
{
	my ($self, $dup) = @_;
	my $table = chance(0.5) ? $self->{table} : pick(qw(x y o));
	my $base = $dup ? 4 : ($self->{id} += 50);
	return 'SELECT g + ' . $base . ', ' . $self->term(undef) . ' FROM generate_series(1, ' . pick(1, 3, 6) . ') AS g' . (chance(0.2) ? ' WHERE ' . $self->condition(undef) : '') if chance(0.4);
	if (chance(0.25))
	{
		my $v = pick($self->{steady} ? 's' : 'v', 's');
		return "SELECT w.k + $base, " . (chance(0.5) ? 'w.a' : $self->term('w')) . " FROM all_${table}_${v}_" . pick(qw(sql pl)) . '() AS w';
	}
	return "SELECT w.k + $base, " . $self->term('w') . " FROM $table AS w" . $self->where('w');
}

sub make_insert
{
	my ($self) = @_;
	my $target = "INSERT INTO $self->{table} AS q (k" . ($self->{table} eq 'd' && chance(0.7) ? '' : ', a') . ')';
	return "$target SELECT g + " . ($self->{id} += 50) . ' FROM generate_series(1, ' . pick(1, 3, 6) . ') AS g' . $self->returning('q') if $target !~ /, a\)/;
	return "$target " . (chance(0.4) ? $self->rows : $self->source) . $self->returning('q');
}

sub make_upsert
{
	my ($self) = @_;
	$self->{shifts} = 1;
	my $source = chance(0.5) ? $self->rows(1) : $self->source(1);
	my $what = 'DO NOTHING';
	$self->{shifts} = 0;
	$source .= ' WHERE true' if $source =~ / FROM / && $source !~ /WHERE/;
	if (chance(0.75))
	{
		$what = 'DO UPDATE SET a = ' . (chance(0.7) ? $self->term('q') : 'EXCLUDED.a + 1');
		my $where = chance(0.3) ? $self->condition('q') : '';
		$what .= " WHERE $where" if $where;
		# A new row changes the result of such a condition for the next conflicting row. So the rows
		# have an order.
		$source .= ' ORDER BY w.k' if $where =~ /_v_/ && $source =~ / AS w\b/;
	}
	return "INSERT INTO $self->{table} AS q (k, a) $source ON CONFLICT (k) $what" . $self->returning('q');
}

sub make_merge
{
	my ($self) = @_;
	my $source = pick('y AS w', 'generate_series(3, 12) AS w(k)', '(VALUES (2), (30)) AS w(k)', '(SELECT v.k, ' . $self->term('v') . " AS a FROM $self->{table} AS v) AS w");
	my $sql = "MERGE INTO $self->{table} AS q USING $source ON q.k = w.k";
	$sql .= ' WHEN MATCHED' . (chance(0.3) ? ' AND ' . $self->condition('q') : '') . ' THEN ' . pick('UPDATE SET a = ' . $self->term('q'), 'UPDATE SET a = q.a + ' . $self->term(undef), 'DELETE', 'UPDATE SET a = 3');
	$sql .= ' WHEN NOT MATCHED' . (chance(0.3) ? ' AND ' . $self->condition(undef) : '') . ' THEN INSERT (k, a) VALUES (w.k, ' . $self->term(undef) . ')' if chance(0.6);
	$sql =~ s/w\.a\b/w.k/g if $source =~ /w\(k\)/;
	return $sql;
}

sub make_with
{
	my ($self) = @_;
	my $table = $self->{table};
	my $write = pick("DELETE FROM $table AS q" . $self->where('q') . ' RETURNING q.k, q.a', "UPDATE $table AS q SET a = " . $self->term('q') . $self->where('q') . ' RETURNING q.k, q.a',
		"INSERT INTO $table AS q (k, a) " . $self->source . ' RETURNING q.k, q.a');
	my $from = pick("FROM w", "FROM w", "FROM (SELECT count(*) AS k, 1 AS a FROM w) AS w", "FROM $table AS w", "FROM w JOIN $table AS v USING (k)");
	my $list = $from =~ /JOIN/ ? 'count(*), sum(v.a)' : $self->term('w') . (chance(0.5) ? ', ' . $self->term('w') : '');
	return "WITH w AS ($write) SELECT $list $from";
}

sub make_select
{
	my ($self) = @_;
	return 'SELECT adds_y_v(g), ' . $self->term(undef) . ' FROM generate_series(1, 3) AS g' if !$self->{steady} && chance(0.3) && ++$self->{volatile};
	my $made = 'SELECT ' . $self->term('q') . " FROM $self->{table} AS q" . $self->where('q');

	# when a row is locked, the order decides which rows adds_y_v() has changed
	$made .= ' FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'UPDATE SKIP LOCKED') if chance(0.6) && !($self->{table} eq 'y' && $made =~ /adds_y_v/);
	return $made;
}

# A loop over rows that it locks, and changes in the loop. Then l contains the rows that it got.
sub make_loop
{
	my ($self) = @_;
	my $table = $self->{table};
	my $steady = $self->{steady};
	$self->{steady} = 1;
	my $query = "SELECT q.k, q.a FROM $table AS q" . $self->where('q') . ' ORDER BY q.k'
	  . pick('', '', '', ' LIMIT 5')
	  . ' FOR ' . pick('UPDATE', 'UPDATE', 'NO KEY UPDATE', 'UPDATE SKIP LOCKED', 'SHARE');
	$self->{steady} = $steady;
	my $change = pick(
		"UPDATE $table AS q SET a = " . $self->term('q')
		  . ' WHERE q.k = r.k ' . pick('% 8 + 1', '', '+ 2'),
		"UPDATE $table SET a = a + 1 WHERE k > r.k",
		"DELETE FROM $table WHERE k = r.k + " . pick(0, 1, 2),
		"INSERT INTO $table (k, a) VALUES (r.k + 2000, " . $self->term(undef) . ')',
		$table =~ /[xyo]/ ? "UPDATE $table SET k = k + 40 WHERE k = r.k + 2"
		  : 'UPDATE y SET a = a + 1 WHERE k = r.k');
	my $body = "INSERT INTO l VALUES (r.k, r.a); $change;";
	$body = "BEGIN $body " . pick('', 'RAISE EXCEPTION USING ERRCODE = \'XX123\';')
	  . " EXCEPTION WHEN SQLSTATE 'XX123' THEN INSERT INTO l VALUES (r.k, -1); END;" if chance(0.3);
	return "DO \$z\$ DECLARE r record; BEGIN FOR r IN $query LOOP $body END LOOP; END \$z\$"
		if chance(0.3);
	# a loop fetches 10 rows first; a cursor fetches one
	return "DO \$z\$ DECLARE c CURSOR FOR $query; r record; BEGIN OPEN c;"
	  . " LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; $body END LOOP; END \$z\$";
}

my %makers = (update => 6, delete => 4, insert => 5, upsert => 4, merge => 2, with => 3, select => 3,
	loop => 4);
our @kinds = sort keys %makers;

# ---- cases ---------------------------------------------------------------------------------------

sub statement
{
	my ($self, @kinds) = @_;
	my $kind = pick(@kinds);
	my $method = "make_$kind";

	$self->{table} = pick(@written);
	$self->{merge} = $kind eq 'merge';
	return ($self->$method, $kind);
}

sub next
{
	my ($self) = @_;
	my @all = map { ($_) x $makers{$_} } @kinds;
	my @sql;

	@$self{qw(volatile choosing functions selects)} = (0) x 4;
	$self->{steady} = chance(0.5);
	my ($made, $kind) = $self->statement(@all);
	my $table = $self->{table};
	$self->{volatile}++ if $table =~ /[dbt]/;
	# the order also decides which rows are new when a row is computed
	$self->{choosing}++ if $kind eq 'upsert' && $self->{volatile};
	my $compare = $self->{choosing} ? 'count' : $self->{volatile} ? 'columns' : 'rows';
	my $around = rand;
	my @earlier = ("UPDATE $table SET a = a + 1 WHERE k = 3", "INSERT INTO $table (k, a) VALUES (900, 9), (901, 5)", "DELETE FROM $table WHERE k = 5", "INSERT INTO y (k, a) VALUES (900, 7)", "UPDATE o SET a = a + 2");

	if ($around < 0.15) { @sql = ($made); }
	elsif ($around < 0.45) { @sql = ('BEGIN', $made, 'CONTENTS', 'ROLLBACK'); }
	elsif ($around < 0.75) { @sql = ('BEGIN', pick(@earlier), $made, 'CONTENTS', 'ROLLBACK'); }
	elsif ($around < 0.83) { @sql = ('BEGIN ISOLATION LEVEL REPEATABLE READ', (map { pick(@earlier) } 1 .. int rand 2), $made, 'CONTENTS', 'ROLLBACK'); }
	elsif ($around < 0.91) { @sql = ('BEGIN', pick(@earlier), 'SAVEPOINT s', $made, pick('RELEASE s', 'ROLLBACK TO s'), 'CONTENTS', pick('COMMIT', 'ROLLBACK', 'ROLLBACK')); }
	elsif ($around < 0.95)
	{
		my $query = 'SELECT ' . $self->read('q') . " FROM $table AS q ORDER BY q.k";
		$query .= ' FOR ' . pick('UPDATE', 'SHARE') if chance(0.5) && $query !~ /_y_v/;
		@sql = ('BEGIN', (chance(0.5) ? pick(@earlier) : ()), "DECLARE c CURSOR FOR $query", (chance(0.5) ? 'FETCH 1 FROM c' : ()), $made, 'FETCH ALL FROM c', 'ROLLBACK');
		$compare = $self->{volatile} ? 'count' : 'rows';
	}
	else { @sql = ('BEGIN', (chance(0.5) ? pick(@earlier) : ()), 'DO $x$ BEGIN ' . ($kind =~ /^(select|with)$/ || $made =~ /RETURNING/ ? "PERFORM 1; EXECUTE \$y\$$made\$y\$" : $made) . '; END $x$', 'CONTENTS', 'ROLLBACK'); }
	# no other statement of the transaction can have written to nodes before the end of this one
	my $fresh = ($around < 0.45 || $around >= 0.95 && @sql == 4) && "@sql" !~ /adds_|news_|FOR (?:NO KEY )?(?:UPDATE|SHARE)|^BEGIN ISO/;
	return { sql => \@sql, compare => $compare, kind => $kind, fresh => $fresh };
}

1;
