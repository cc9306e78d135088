# Puts random identifiers, literals and option values into every class of statements. Each text that
# a node gets must be one statement. No SQL that is hidden in a name or value may run. Rows, tags
# and errors must be those of plain tables.
#
#   FUZZ_STATEMENTS=n  number of statements (600)
#   FUZZ_SECONDS=n     start no round after n seconds
#   FUZZ_SEED=n        seed of the first round (1); each next round adds 1
#   FUZZ_SHOW=1        print every statement
#
# Both sides have the same names, except for the schema. standard_conforming_strings,
# backslash_quote and quote_all_identifiers are on or off in the sessions. In some sessions public
# is before pg_catalog in search_path, and public contains operators and functions that must not be
# used. The nodes' databases always have this search_path. From 19 on standard_conforming_strings is
# always on.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;
use WireClient;

my $nstatements = $ENV{FUZZ_STATEMENTS} || (ShardCluster::halved() ? 300 : 600);
my $seed        = $ENV{FUZZ_SEED} || 1;
my $seconds     = $ENV{FUZZ_SECONDS} || 0;
my $started     = time;
my $per_round   = 60;

my $c = ShardCluster->new(nodes => 2, node_conf => "log_statement = all\nlog_line_prefix = '%m [%p] %q#%a# '\nmax_locks_per_transaction = 256\n",
	coordinator_conf => "max_locks_per_transaction = 256\n");

my $always_conforming = $c->safe_psql('SHOW server_version_num') >= 190000;

# Objects with misleading names in public, on the coordinator and on the nodes, where they are even
# found first.
my $planted = q{
	CREATE FUNCTION public.planted(int, int) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT false';
	CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.planted);
	CREATE FUNCTION public.planted(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'planted'::text $$;
	CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = public.planted);
	CREATE FUNCTION public.lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'planted'::text $$;
	CREATE FUNCTION public.length(text) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT -1 $$;
	CREATE FUNCTION public.planted_state(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -1000';
	CREATE AGGREGATE public.sum(int) (SFUNC = public.planted_state, STYPE = int, INITCOND = '0');
	CREATE AGGREGATE public.max(int) (SFUNC = public.planted_state, STYPE = int, INITCOND = '0');
	CREATE TABLE public.pg_class (oid int); CREATE TABLE public.pg_attribute (attrelid int);};
$c->safe_psql($planted);
for my $i (1 .. 2)
{
	$c->node_safe_psql($i, "$planted; ALTER DATABASE postgres SET search_path = public, pg_catalog; ALTER DATABASE postgres SET standard_conforming_strings = "
		  . ($i == 1 && !$always_conforming ? 'off' : 'on') . '; ALTER DATABASE postgres SET quote_all_identifiers = ' . ($i == 1 ? 'on' : 'off'));
}

# ---- names and values ----------------------------------------------------------------------------

sub pick { return $_[ int rand @_ ]; }
sub chance { return rand() < $_[0]; }

my @pieces = ('"', '""', "'", "''", '\\', '\\\\', "\\'", '$1', '$$', '$q$', '--', '/*', '*/', ';', "\n", "\r\n", "\t", ' ', 'a', 'B', 'x.y', '.', '%', '%s', '%I', '%1$s', '{', '}', '{}',
	'(', ')', '[', ']', ',', '::int', ':a', ':=', '@', '?', '0', '42', '_', "\xc3\xa9", "\xe8\xa1\xa8", "\xf0\x9f\x98\x80", "e\xcc\x81", "\xef\xbc\x87", "\xca\xbc", "\xc2\xa0", "\x02", "\x7f", "E'", "U&'", '\\x41', '\\000', '\\134',
	'select', 'FROM', 'user', 'current_user', 'order', 'null', 'NULL', 'default', 'table', 'values', 'returning', 'r1', 'r2', 't0', 'c1', 's1', 'ctid', 'public', 'pg_catalog', 'excluded', 'src');
my @attacks = (q{'; CREATE TABLE public.pwned (); --}, q{"; CREATE TABLE public.pwned (); --}, q{\\'; CREATE TABLE public.pwned (); --}, q{$$; CREATE TABLE public.pwned (); --},
	q{') ; CREATE TABLE public.pwned (); --}, q{") ; CREATE TABLE public.pwned (); --}, qq{*/; CREATE TABLE public.pwned (); --}, qq{\n; CREATE TABLE public.pwned (); --}, q{\\"; CREATE TABLE public.pwned (); --});
my @keywords = qw(select from user table order group by limit offset union all any array as asc desc case when then else end cast check collate column constraint default distinct do except false for foreign grant having in
	initially intersect into leading not null on only or placing primary references returning some then to trailing true unique using variadic where window with lateral row values between exists time timestamp interval current_date merge matched);

my $nnames = 0;
sub hostile
{
	my $kind = rand;
	return pick(@keywords) if $kind < 0.15;
	return pick(@attacks) if $kind < 0.3;
	return int(rand 1000) . pick('a', ' ', '"', "'") if $kind < 0.35;
	return join '', map { pick(@pieces) } 1 .. 1 + int rand 6;
}

# A name that no other object has: bytes, at most 63 of them, or a little more, which the server cuts.
sub name
{
	my $name = hostile();
	$name = "x$name" if $name =~ /^pg_/;
	my $n    = ++$nnames;
	return $name if chance(0.05) && $name =~ /^[a-z]+$/ && $name ne 'ctid';
	return substr("$n" . ('x' x 80), 0, 59 + int rand 6) if chance(0.05);
	return ("$n" . ("\xc3\xa9" x 40)) if chance(0.03);
	return chance(0.5) ? "$name$n" : "$n$name";
}

sub ident
{
	my ($name) = @_;
	$name =~ s/"/""/g;
	return "\"$name\"";
}

my %session;    # settings that quoting depends on
sub literal
{
	my ($value) = @_;
	return 'NULL' unless defined $value;
	my $kind = int rand 4;
	(my $doubled = $value) =~ s/'/''/g;
	(my $slashed = $doubled) =~ s/\\/\\\\/g;
	return "\$q1\$$value\$q1\$" if $kind == 0 && $value !~ /\$(?:q1)?$|\$q1\$/;
	if ($kind == 1 || !$session{conforming})
	{
		(my $quoted = $value) =~ s/\\/\\\\/g;
		$quoted =~ s/'/$session{backslash_quote} ? "\\'" : "''"/ge;
		return ($kind == 1 || chance(0.2) ? 'E' : '') . "'$quoted'";
	}
	return "'$doubled'";
}
sub lit { return literal(hostile()); }
sub lit_or_null { return chance(0.1) ? 'NULL' : lit(); }

# ---- one round: tables, then statements ----------------------------------------------------------

my %t;          # the tables of the round: {x}{name}, {cols}; and names of what was made
my $nkey;

sub col { return ident($t{x}{ $_[0] }); }
sub tab_x { return "\x01." . ident($t{x}{name}); }
sub tab_y { return "\x01." . ident($t{y}{name}); }
sub tab_r { return "\x01." . ident($t{r}{name}); }
sub key { return 1 + int rand 40; }

sub row { return join ', ', $_[0] // $nkey++, lit_or_null(), chance(0.1) ? 'NULL' : int(rand 100) . '.' . int(rand 100), lit_or_null(), int rand 10; }

sub condition
{
	my ($q) = @_;    # prefix of columns
	$q //= '';
	my ($a, $c) = ($q . col('a'), $q . col('c'));
	return pick(
		sub { "$a = " . lit() }, sub { "$a <> " . lit() }, sub { "$a >= " . lit() . ' COLLATE "C"' }, sub { "$a LIKE " . lit() . " || '%' ESCAPE ''" },
		sub { "$a IN (" . lit() . ', ' . lit() . ", $c)" }, sub { "$a = ANY (ARRAY[" . lit() . ', ' . lit() . '])' }, sub { "$a || " . lit() . " > $c" },
		sub { "position(" . lit() . " IN $a) > 0" }, sub { "$q" . col('k') . ' = ' . key() }, sub { "$q" . col('k') . ' IN (' . key() . ', ' . key() . ')' }, sub { "$q" . col('d') . ' < 5' },
		sub { "length($a) > 3" }, sub { "lower($a) <> " . lit() }, sub { "coalesce($a, " . lit() . ') <> ' . lit() }, sub { "CASE $a WHEN " . lit() . " THEN true ELSE $c IS NOT NULL END" },
		sub { "strpos($a, " . lit() . ') = 0' }, sub { "(ARRAY[$a, " . lit() . '])[1] = ' . lit() }, sub { "$q" . col('e') . ' = ' . literal(pick(@{ $t{labels} })) . '::' . "\x01." . ident($t{enum}) },
		sub { "$q" . col('e') . ' > ' . literal(pick(@{ $t{labels} })) }, sub { "jsonb_build_object(coalesce($a, ''), 1) ? " . lit() }, sub { "quote_literal($a) <> quote_ident(" . lit() . ')' })->();
}

sub select_statement
{
	my $f = $t{x};
	return pick(
		sub { 'SELECT * FROM ' . tab_x() . ' WHERE ' . condition() },
		sub { 'SELECT ' . col('a') . ' AS ' . ident(name()) . ', ' . lit() . ' AS ' . ident(name()) . ' FROM ' . tab_x() . ' WHERE ' . condition() . ' OR ' . condition() },
		sub { my $q = ident(name()); "SELECT $q." . col('a') . ", $q.* FROM " . tab_x() . " AS $q WHERE " . condition("$q.") },
		sub { my ($q, $k, $a) = map { ident(name()) } 1 .. 3; "SELECT $q.$a, count(*) FROM " . tab_x() . " AS $q ($k, $a) WHERE $q.$k < 30 GROUP BY $q.$a" },
		sub { 'SELECT ' . col('a') . ', count(*), sum(' . col('d') . '), max(' . col('c') . ') FROM ' . tab_x() . ' WHERE ' . condition() . ' GROUP BY ' . col('a') },
		sub { 'SELECT ' . col('d') . ', string_agg(' . col('a') . ', ' . lit() . ' ORDER BY ' . col('k') . ') FROM ' . tab_x() . ' GROUP BY 1 HAVING max(' . col('a') . ') > ' . lit() },
		sub { 'SELECT count(*) FILTER (WHERE ' . condition() . '), count(DISTINCT ' . col('a') . ' || ' . lit() . '), avg(' . col('b') . ') FROM ' . tab_x() },
		sub { 'SELECT ' . col('a') . ' || ' . lit() . ' AS ' . ident(name()) . ', count(*) FROM ' . tab_x() . ' GROUP BY 1' },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; "SELECT $q." . col('a') . ", $s." . col('c') . ' FROM ' . tab_x() . " $q JOIN " . tab_y() . " $s ON $q." . col('k') . " = $s." . col('k') . ' WHERE ' . condition("$q.") . ' AND ' . condition("$s.") },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; "SELECT count(*), min($s." . col('c') . ') FROM ' . tab_x() . " $q LEFT JOIN " . tab_y() . " $s ON $q." . col('k') . " = $s." . col('k') . ' AND ' . condition("$s.") },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; "SELECT $q." . col('a') . ', count(*) FROM ' . tab_x() . " $q JOIN " . tab_r() . " $s ON $q." . col('d') . " = $s." . col('k') . ' WHERE ' . condition("$s.") . ' GROUP BY 1' },
		sub { 'SELECT count(*) FROM ' . tab_x() . ' WHERE ' . col('k') . ' IN (SELECT ' . col('k') . ' FROM ' . tab_y() . ' WHERE ' . condition() . ')' },
		sub { my $q = ident(name()); "WITH $q AS (SELECT * FROM " . tab_x() . ' WHERE ' . condition() . ") SELECT count(*), max($q." . col('a') . ") FROM $q" },
		sub { my $w = ident(name()); 'SELECT ' . col('k') . ", row_number() OVER $w FROM " . tab_x() . " WINDOW $w AS (PARTITION BY " . col('k') . ' ORDER BY ' . col('a') . ')' },
		sub { 'SELECT DISTINCT ' . col('a') . ', ' . lit() . ' FROM ' . tab_x() . ' WHERE ' . condition() },
		sub { 'SELECT ' . col('k') . ', ' . col('a') . ' FROM ' . tab_x() . ' ORDER BY ' . col('a') . ' COLLATE "C", 1 LIMIT 5' },
		sub { 'SELECT * FROM ' . tab_x() . ' WHERE ' . col('k') . ' = ' . key() . ' AND ' . condition() },
		sub { my $q = ident(name()); 'SELECT ' . "$q." . col('a') . ', ' . lit() . ' FROM ' . tab_x() . " $q JOIN " . tab_y() . ' USING (' . col('k') . ") WHERE $q." . col('k') . ' = ' . key() . ' AND ' . condition("$q.") },
		sub { 'SELECT ' . col('k') . ' FROM ' . tab_x() . ' WHERE ' . condition() . ' UNION ALL SELECT ' . col('k') . ' FROM ' . tab_y() . ' WHERE ' . condition() },
		sub { 'SELECT ' . col('k') . ', EXTRACT(' . ident(pick('year', 'hour', hostile())) . ' FROM ' . col('ts') . ') FROM ' . tab_x() . ' WHERE ' . col('k') . ' < 5' },
		sub { 'SELECT ' . col('k') . ', EXTRACT(' . literal(pick('year', 'epoch', hostile())) . ' FROM ' . col('ts') . ') FROM ' . tab_x() . ' WHERE ' . col('k') . ' = ' . key() },
		sub { 'SELECT date_trunc(' . literal(pick('month', 'day', hostile())) . ', ' . col('ts') . '), count(*) FROM ' . tab_x() . ' GROUP BY 1' },
		sub { 'SELECT ' . col('ts') . ' AT TIME ZONE ' . literal(pick('UTC', 'Europe/Berlin', hostile())) . ' FROM ' . tab_x() . ' WHERE ' . col('k') . ' < 4' },
		sub { 'SELECT count(*) FROM ' . tab_x() . ' WHERE ' . col('ar') . ' @> ARRAY[' . lit() . ', ' . lit() . ']' },
		sub { 'SELECT ' . col('e') . ', count(*) FROM ' . tab_x() . ' WHERE ' . col('e') . ' <> ' . literal(pick(@{ $t{labels} })) . ' GROUP BY 1' },
		sub { 'SELECT ' . col('j') . ' -> ' . lit() . ', count(*) FROM ' . tab_x() . ' GROUP BY 1' },
		sub { 'SELECT count(*) FROM ' . tab_x() . ' WHERE row(' . col('a') . ', ' . col('c') . ') = row(' . lit() . ', ' . lit() . ')' },
		sub { 'SELECT ' . tab_x() . '.* FROM ' . tab_x() . ', LATERAL (SELECT ' . lit() . ' AS ' . ident(name()) . ') AS ' . ident(name()) . ' WHERE ' . col('d') . ' = 3' },
		sub { 'SELECT ' . col('a') . ' FROM ' . tab_x() . ' FOR UPDATE' },
		sub { 'SELECT (SELECT max(s.' . col('a') . ') FROM ' . tab_y() . ' s WHERE s.' . col('k') . ' = o.' . col('k') . ') FROM ' . tab_x() . ' o WHERE ' . condition('o.') },
		sub { 'SELECT xmlserialize(CONTENT xmlelement(NAME ' . ident(name()) . ', ' . col('k') . ') AS text) FROM ' . tab_x() . ' WHERE ' . col('k') . ' < 3' },
	)->();
}

sub returning { return chance(0.4) ? ' RETURNING ' . col('k') . ', ' . col('a') . ' AS ' . ident(name()) . ', ' . lit() . ' AS ' . ident(name()) : ''; }
sub columns { return join ', ', map { col($_) } qw(k a b c d); }

sub write_statement
{
	return pick(
		sub { 'INSERT INTO ' . tab_x() . ' (' . columns() . ') VALUES (' . row() . ')' . returning() },
		sub { 'INSERT INTO ' . tab_x() . ' (' . columns() . ') VALUES ' . join(', ', map { '(' . row() . ')' } 1 .. 2 + int rand 5) . returning() },
		sub { my $n = $nkey; $nkey += 5; 'INSERT INTO ' . tab_x() . ' (' . columns() . ") SELECT i, " . lit() . ' || i, i, ' . lit() . ", 1 FROM generate_series($n, $n + 4) i" . returning() },
		sub { 'INSERT INTO ' . tab_y() . ' (' . columns() . ') SELECT ' . columns() . ' FROM ' . tab_x() . ' s WHERE NOT EXISTS (SELECT FROM ' . tab_y() . ' z WHERE z.' . col('k') . ' = s.' . col('k') . ') AND ' . condition('s.') },
		sub { 'UPDATE ' . tab_x() . ' SET ' . col('a') . ' = ' . lit() . ', ' . col('c') . ' = ' . col('c') . ' || ' . lit() . ' WHERE ' . condition() . returning() },
		sub { 'UPDATE ' . tab_x() . ' SET (' . col('a') . ', ' . col('d') . ') = (' . lit() . ', 7) WHERE ' . col('k') . ' = ' . key() . returning() },
		sub { my $q = ident(name()); 'UPDATE ' . tab_x() . " AS $q SET " . col('a') . ' = ' . lit() . ' WHERE ' . condition("$q.") },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; 'UPDATE ' . tab_x() . " AS $q SET " . col('c') . " = $s." . col('a') . ' || ' . lit() . ' FROM ' . tab_y() . " AS $s WHERE $q." . col('k') . " = $s." . col('k') . ' AND ' . condition("$s.") },
		sub { my $q = ident(name()); 'DELETE FROM ' . tab_x() . " AS $q WHERE $q." . col('k') . ' = ' . key() . ' AND ' . condition("$q.") },
		sub { 'DELETE FROM ' . tab_x() . ' WHERE ' . col('k') . ' > 30 AND ' . condition() . returning() },
		sub { 'INSERT INTO ' . tab_x() . ' (' . columns() . ') VALUES (' . row(key()) . ') ON CONFLICT (' . col('k') . ') DO UPDATE SET ' . col('a') . ' = excluded.' . col('a') . ' || ' . lit() . ' WHERE ' . tab_x() . '.' . col('d') . ' < 8' },
		sub { my $k = 1 + int rand 20; my $q = ident(name()); 'INSERT INTO ' . tab_x() . " AS $q (" . columns() . ') VALUES (' . row($k) . '), (' . row($k + 1) . '), (' . row($k + 2) . ') ON CONFLICT (' . col('k') . ') DO UPDATE SET ' . col('c') . ' = ' . lit() . ", " . col('a') . " = $q." . col('a') . returning() =~ s/RETURNING "/RETURNING $q."/r },
		sub { my $k = 1 + int rand 20; 'INSERT INTO ' . tab_x() . ' (' . columns() . ') VALUES (' . row($k) . '), (' . row() . ') ON CONFLICT ON CONSTRAINT ' . ident($t{x}{pkey}) . ' DO NOTHING' },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; 'MERGE INTO ' . tab_x() . " AS $q USING (SELECT * FROM " . tab_y() . " WHERE " . condition() . ") AS $s ON $q." . col('k') . " = $s." . col('k') . ' WHEN MATCHED AND ' . condition("$q.") . ' THEN UPDATE SET ' . col('a') . ' = ' . lit() . ' WHEN NOT MATCHED THEN INSERT (' . columns() . ") VALUES ($s." . col('k') . ', ' . lit() . ', 1, ' . lit() . ', 2)' },
		sub { my ($q, $s) = map { ident(name()) } 1, 2; my $k = key(); 'MERGE INTO ' . tab_x() . " AS $q USING (VALUES ($k, " . lit() . ")) AS $s (n, v) ON $q." . col('k') . " = $s.n WHEN MATCHED THEN UPDATE SET " . col('a') . " = $s.v || " . lit() . ' WHEN NOT MATCHED THEN INSERT (' . columns() . ") VALUES ($s.n, $s.v, 1, " . lit() . ', 2)' },
		sub { 'INSERT INTO ' . tab_r() . ' (' . columns() . ') VALUES (' . row() . ')' . returning() },
		sub { 'UPDATE ' . tab_r() . ' SET ' . col('a') . ' = ' . lit() . ' WHERE ' . condition() },
		sub { 'INSERT INTO ' . tab_x() . ' (' . columns() . ', ' . col('e') . ', ' . col('ar') . ', ' . col('j') . ') VALUES (' . row() . ', ' . literal(pick(@{ $t{labels} })) . ', ARRAY[' . lit() . ', NULL, ' . lit() . '], jsonb_build_object(' . lit() . ', ' . lit() . '::text))' },
	)->();
}

sub copy_text
{
	my ($value) = @_;
	return '\\N' unless defined $value;
	$value =~ s/([\\\n\r\t])/{ '\\' => '\\\\', "\n" => '\\n', "\r" => '\\r', "\t" => '\\t' }->{$1}/ge;
	return $value;
}
sub copy_csv { my ($value) = @_; $value =~ s/"/""/g; return "\"$value\""; }

sub copy_statement
{
	return pick(
		sub { [ 'COPY ' . tab_x() . ' (' . join(', ', map { col($_) } qw(k a c)) . ') FROM STDIN', join('', map { my $k = $nkey++; "$k\t" . copy_text(hostile()) . "\t" . copy_text(hostile()) . "\n" } 1 .. 1 + int rand 5) ] },
		sub { [ 'COPY ' . tab_x() . ' (' . join(', ', map { col($_) } qw(k a c)) . ') FROM STDIN (FORMAT csv, NULL ' . literal(pick('null', 'NUL', '-')) . ')', join('', map { my $k = $nkey++; "$k," . copy_csv(hostile()) . ',' . copy_csv(hostile()) . "\n" } 1 .. 1 + int rand 5) ] },
		sub { [ 'COPY ' . tab_x() . ' (' . join(', ', map { col($_) } qw(k c)) . ') FROM STDIN (FORMAT csv) WHERE ' . col('k') . ' > 0 AND ' . col('c') . ' <> ' . lit(), join('', map { my $k = $nkey++; "$k," . copy_csv(hostile()) . "\n" } 1 .. 3) ] },
		sub { [ 'COPY ' . tab_x() . ' TO STDOUT' ] }, sub { [ 'COPY ' . tab_x() . ' (' . columns() . ") TO STDOUT (FORMAT csv, NULL " . literal(pick('null', "n'", 'n"q')) . ", FORCE_QUOTE (" . col('a') . '))' ] },
		sub { [ 'COPY (SELECT ' . col('a') . ' FROM ' . tab_x() . ' WHERE ' . condition() . ') TO STDOUT' ] },
		sub { [ 'COPY ' . tab_y() . ' (' . col('k') . ', ' . col('a') . ') FROM STDIN', join('', map { my $k = $nkey++; "$k\t" . copy_text(hostile()) . "\n" } 1 .. 3) ] },
	)->();
}

my $nddl;
sub ddl_statement
{
	$nddl++;
	my $table = pick(\&tab_x, \&tab_y, \&tab_r)->();
	return pick(
		sub { my $n = name(); "ALTER TABLE $table ADD COLUMN " . ident($n) . ' text DEFAULT ' . lit() },
		sub { "ALTER TABLE $table ADD CONSTRAINT " . ident(name()) . ' CHECK (' . col('a') . ' <> ' . lit() . ') NOT VALID' },
		sub { my $n = name(); my $sql = 'ALTER TABLE \x01 RENAME COLUMN x TO ' . ident($n); "ALTER TABLE " . pick(\&tab_x, \&tab_y, \&tab_r)->() . ' ALTER COLUMN ' . col('c') . ' SET DEFAULT ' . lit() },
		sub { 'CREATE INDEX ' . ident(name()) . " ON $table (" . col('a') . ') WHERE ' . col('a') . ' > ' . lit() },
		sub { 'CREATE INDEX ON ' . $table . " ((" . col('a') . ' COLLATE "C"), ' . col('d') . ')' },
		sub { "COMMENT ON TABLE $table IS " . lit() }, sub { "COMMENT ON COLUMN $table." . col('a') . ' IS ' . lit() },
		sub { 'CREATE STATISTICS ' . "\x01." . ident(name()) . ' ON ' . col('a') . ', ' . col('d') . " FROM $table" },
		sub { my $n = ident(name()); [ "ALTER TABLE $table ADD COLUMN $n int", "ALTER TABLE $table DROP COLUMN $n" ] },
		sub { my $n = ident(name()); [ "ALTER TABLE $table ADD CONSTRAINT $n CHECK (" . col('d') . ' < 1000)', "ALTER TABLE $table DROP CONSTRAINT $n" ] },
		sub { my ($n, $m) = map { ident(name()) } 1, 2; [ "ALTER TABLE $table ADD COLUMN $n text", "ALTER TABLE $table RENAME COLUMN $n TO $m", "ALTER TABLE $table ALTER COLUMN $m TYPE varchar(50) USING $m || " . lit(), "ALTER TABLE $table DROP COLUMN $m" ] },
		sub { my ($n, $m) = map { ident(name()) } 1, 2; [ "CREATE INDEX $n ON $table (" . col('d') . ')', "ALTER INDEX \x01.$n RENAME TO $m", "DROP INDEX \x01.$m" ] },
	)->();
}

my $nprepared = 0;
sub prepared_statement
{
	my $n = ident(name() . ++$nprepared);
	my ($sql, $args) = @{ pick(
		[ "SELECT * FROM " . tab_x() . ' WHERE ' . col('k') . ' = $1 AND ' . col('a') . ' <> $2', [ 'int', 'text' ] ],
		[ "SELECT count(*), \$2 FROM " . tab_x() . ' WHERE ' . col('a') . ' || ' . lit() . ' > $2 AND ' . col('d') . ' < $1', [ 'int', 'text' ] ],
		[ 'UPDATE ' . tab_x() . ' SET ' . col('a') . ' = $2 WHERE ' . col('k') . ' = $1' . returning(), [ 'int', 'text' ] ],
		[ 'UPDATE ' . tab_x() . ' SET ' . col('c') . ' = $2 || ' . lit() . ' WHERE ' . col('d') . ' = $1', [ 'int', 'text' ] ]) };
	return [ "PREPARE $n (" . join(', ', @$args) . ") AS $sql", (map { "EXECUTE $n (" . key() . ', ' . lit() . ')' } 1 .. 1 + int rand 7), "DEALLOCATE $n" ];
}

# Foreign tables whose options have the node's names of table and columns. One side reads the table
# through them, the other side has it as a local table.
sub option_statements
{
	my ($schema, $table, $column, $local) = map { name() } 1 .. 4;
	my $rows = join ', ', map { '(' . ($_ + 0) . ', ' . lit_or_null() . ')' } 1 .. 4;
	my ($s, $t, $k) = map { ident(substr $_, 0, 50) } $schema, $table, $column;
	my $l = "\x01." . ident($local);
	my $filter = '"f o" > ' . lit() . ' OR "f o" IS NULL';
	return {
		node => 'DROP SCHEMA IF EXISTS ' . "$s CASCADE; CREATE SCHEMA $s; CREATE TABLE $s.$t (id int, $k text); INSERT INTO $s.$t VALUES $rows",
		sharded => "CREATE FOREIGN TABLE $l (id int, \"f o\" text OPTIONS (column_name " . literal(substr $column, 0, 50) . ')) SERVER node2 OPTIONS (schema_name ' . literal(substr $schema, 0, 50) . ', table_name ' . literal(substr $table, 0, 50) . ')',
		plain => "CREATE TABLE $l (id int, \"f o\" text); INSERT INTO $l VALUES $rows",
		both => [ "SELECT id, \"f o\" FROM $l WHERE $filter", "SELECT max(\"f o\" || " . lit() . "), count(*) FROM $l", "UPDATE $l SET \"f o\" = " . lit() . " WHERE id = 2", "DELETE FROM $l WHERE id = 3 AND ($filter)", "INSERT INTO $l VALUES (9, " . lit() . ')',
			"INSERT INTO $l SELECT i, " . lit() . " FROM generate_series(10, 12) i", "SELECT * FROM $l" ],
	};
}

# ---- running it ----------------------------------------------------------------------------------

my (%client, %schema, $parser, @log_position);
my ($ran, $nrefused, $nerrors, $nlogged, @failures, %kinds, %seen_text) = (0, 0, 0, 0);

sub send_sql
{
	my ($side, $sql, @data) = @_;
	(my $text = $sql) =~ s/\x01/ident($schema{$side})/ge;
	print STDERR "$side: $text\n" if $ENV{FUZZ_SHOW} && $side eq 's';
	my $result = eval { $client{$side}->query($text, @data) };
	return $result if $result;
	my $message = $@;
	$client{$side} = WireClient->new($c->coordinator, 'postgres');
	return { error => { C => 'connection', M => $message } };
}

sub outcome
{
	my ($result) = @_;
	return "error $result->{error}{C}" if $result->{error};
	my @rows = sort map { join "\x1f", map { $_ // "\x00" } @$_ } @{ $result->{rows} // [] };
	return join "\n", join(',', @{ $result->{tags} // [] }), @rows, sort split /\n/, $result->{copied} // '';
}

sub fail_with
{
	my ($round, $sql, $why) = @_;
	push @failures, "seed $round: $why\n    $sql" if @failures < 20;
	return;
}

# Statements that are refused on sharded tables, or not computed on nodes: docs/limits_sql.md.
my $refusable = qr/^(MERGE|EXECUTE|COPY|ALTER TABLE|CREATE (INDEX|STATISTICS))/s;

sub compare
{
	my ($round, $kind, $sql, @data) = @_;
	$ran++;
	$kinds{$kind}++;
	my $s = send_sql('s', $sql, @data);
	if ($s->{error} && $s->{error}{C} eq '0A000' && $sql =~ $refusable)
	{
		$nrefused++;
		return;
	}
	my $p = send_sql('p', $sql, @data);
	my ($one, $two) = (outcome($s), outcome($p));
	$nerrors++ if $p->{error};
	return if $one eq $two;
	# which of several rows fails first
	return if $s->{error} && $p->{error} && $s->{error}{C} =~ /^2[123]/ && $p->{error}{C} =~ /^2[123]/;
	fail_with($round, $sql, "$kind: " . substr($one, 0, 300) . ($s->{error} ? " ($s->{error}{M})" : '') . "\n  instead of " . substr($two, 0, 300) . ($p->{error} ? " ($p->{error}{M})" : ''));
	return;
}

sub must
{
	my ($round, $side, $sql) = @_;
	my $result = send_sql($side, $sql);
	fail_with($round, $sql, "set-up, $side: $result->{error}{C} $result->{error}{M} " . ($result->{error}{D} // '')) if $result->{error};
	return !$result->{error};
}

# Returns the SQLSTATE of a node's parser for a text that must be one statement. The extended
# protocol accepts only one.
sub parse_error
{
	my ($text) = @_;
	my $code = '';
	$parser->_write('P' . pack('N', length($text) + 8) . "\0$text\0\0\0");
	$parser->_write("S\0\0\0\4");
	while (1)
	{
		my ($type, $payload) = $parser->_read_message;
		my $error = $type eq 'E' ? WireClient::_fields($payload) : undef;
		$code = "$error->{C} $error->{M}" if $error;
		last if $type eq 'Z';
	}
	return $code;
}

my $identifier = qr/(?:"(?:[^"]|"")*"|[\w\$\x80-\xff]+)/;

# Everything that the nodes got from the coordinator since the last time.
sub check_texts
{
	my ($round) = @_;
	for my $i (1 .. 2)
	{
		my $log = $c->log_since($log_position[$i], $i);
		$log_position[$i] = $c->log_position($i);
		for my $entry (split /^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \w+ \[\d+\] )/m, $log)
		{
			next unless $entry =~ /\] #shardfdw:[^#]*# LOG:  (?:statement|execute [^:\n]*): (.*)\z/s;
			my $text = $1;
			chomp $text;
			$text =~ s/\n\t/\n/g;
			# the commands that set up the session and begin a transaction come first
			1 while $text =~ s/\A\s*(?:DO E?'DECLARE names text\[\](?:[^'\\]|''|\\.)*'|RESET [\w.]+|SELECT pg_catalog\.pg_export_snapshot\(\)|SET (?:SESSION |LOCAL )?[\w.]+ (?:=|TO) (?:'[^']*'|[\w, ."]+)|BEGIN[\w ,]*|START TRANSACTION[\w ,]*|SELECT pg_catalog\.set_config\('[^']*', '[^']*', \w+\)|(?:RELEASE )?SAVEPOINT \w+|COMMIT|ROLLBACK|SET TRANSACTION SNAPSHOT '[^']*')\s*(?:;|\z)//;
			# a default for the existing rows
			$text =~ s/\A\s*(ALTER TABLE ($identifier\.$identifier) ADD COLUMN .*); ALTER TABLE \2 ALTER COLUMN $identifier DROP DEFAULT\z/$1/s;
			# the schema is made before its owner is asked for
			$text =~ s/\A\s*DO E?'.*?'; (?=SELECT r\.rolname)//s;
			$text =~ s/;\s*(?:COMMIT|RELEASE SAVEPOINT \w+)\s*;?\s*\z//;
			# the same message queries the node's position
			# CREATE TABLE comes with the comment on its row type, and with the command that revokes
			# privileges on the table, which is one literal
			if ($text =~ /\ACREATE /)
			{
				$text =~ s/; DO E?'DECLARE others text := (?:[^']|'')*'\z//;
				$text =~ s/; COMMENT ON TYPE $identifier\.$identifier IS '[0-9a-f]{16} \d+'\z//;
			}
			next if $text eq '' || $text =~ /\APREPARE TRANSACTION / || $seen_text{$text}++;
			$nlogged++;
			my $error = parse_error($text);
			fail_with($round, $text, "remote text: $error") if $error =~ /^42601/;
		}
	}
	%seen_text = () if keys %seen_text > 50000;
	return;
}

sub run_round
{
	my ($round) = @_;
	srand $round;
	($nkey, $nddl, $nnames) = (100, 0, 0);
	%client = map { $_ => WireClient->new($c->coordinator, 'postgres') } qw(s p);
	%schema = (s => name(), p => name());
	%session = (conforming => chance(0.5) || $always_conforming, backslash_quote => chance(0.5));
	my $path = pick('pg_catalog', 'pg_catalog', 'public, pg_catalog', 'pg_catalog, public');
	my $settings = join ';', 'SET standard_conforming_strings = ' . ($session{conforming} ? 'on' : 'off'), $always_conforming ? () : 'SET escape_string_warning = off', 'SET client_min_messages = error',
	  'SET backslash_quote = ' . ($session{backslash_quote} ? 'on' : 'off'), "SET search_path = $path", 'SET statement_timeout = 20000',
	  'SET plan_cache_mode = ' . pick('auto', 'force_generic_plan', 'force_custom_plan'), chance(0.3) ? 'SET quote_all_identifiers = on' : 'SET quote_all_identifiers = off',
	  map { chance(0.2) ? "SET shardfdw.enable_$_ = off" : () } qw(shard_scan router statement_push decorrelation);

	my @names = (name(), name(), name());
	%t = (enum => name(), labels => [ map { substr hostile() . $_, 0, 60 } 1 .. 3 ]);
	$t{$_}{name} = shift @names for qw(x y r);
	$t{x}{$_} = name() for qw(k a b c d e ts ar j pkey);
	my ($ok, $definition) = (1);
	for my $table (qw(x y r))
	{
		my $pkey = $table eq 'x' ? ident($t{x}{pkey}) : ident(name());
		$definition .= ';CREATE TABLE ' . "\x01." . ident($t{$table}{name}) . ' (' . col('k') . " int CONSTRAINT $pkey PRIMARY KEY, " . col('a') . ' text DEFAULT ' . lit() . ', ' . col('b') . ' numeric, ' . col('c') . ' text, ' . col('d') . ' int, '
		  . col('e') . " \x01." . ident($t{enum}) . ' DEFAULT ' . literal($t{labels}[0]) . ', ' . col('ts') . " timestamptz DEFAULT '2024-02-29 12:00+00', " . col('ar') . ' text[], ' . col('j') . ' jsonb, CONSTRAINT ' . ident(name()) . ' CHECK (' . col('c') . ' <> ' . lit() . " OR true))";
		$definition .= ';INSERT INTO ' . "\x01." . ident($t{$table}{name}) . ' (' . columns() . ') VALUES ' . join ', ', map { '(' . row($_) . ')' } 1 .. ($table eq 'r' ? 5 : 25);
	}
	for my $side (qw(s p))
	{
		$ok &&= must($round, $side, $settings) && must($round, $side, "CREATE SCHEMA \x01;CREATE TYPE \x01." . ident($t{enum}) . ' AS ENUM (' . join(', ', map { literal($_) } @{ $t{labels} }) . ")$definition");
	}
	$ok &&= must($round, 's', 'SELECT shardfdw.shard_table(' . literal_table('x') . ', ' . literal($t{x}{k} =~ s/^(.{63}).*/$1/sr) . ', shards => 3)') && must($round, 's', 'SELECT shardfdw.shard_table(' . literal_table('y') . ', ' . literal($t{x}{k}) . ', colocate_with => ' . literal_table('x') . ')')
	  && must($round, 's', 'SELECT shardfdw.create_reference_table(' . literal_table('r') . ')');
	if ($ok)
	{
		for my $i (1 .. $per_round)
		{
			last if $ran >= $nstatements;
			my $kind = rand;
			if ($kind < 0.5) { compare($round, 'SELECT', select_statement()); }
			elsif ($kind < 0.78) { compare($round, 'write', write_statement()); }
			elsif ($kind < 0.86) { compare($round, 'COPY', @{ copy_statement() }); }
			elsif ($kind < 0.91) { my $s = ddl_statement(); compare($round, 'DDL', $_) for ref $s ? @$s : $s; }
			elsif ($kind < 0.95) { compare($round, 'prepared', $_) for @{ prepared_statement() }; }
			elsif ($kind < 0.97)
			{
				my $sql = 'EXPLAIN (VERBOSE, COSTS OFF) ' . (chance(0.5) ? select_statement() : write_statement());
				my $result = send_sql('s', $sql);
				$ran++;
				fail_with($round, $sql, "EXPLAIN: $result->{error}{C} $result->{error}{M}") if $result->{error} && $result->{error}{C} !~ /^(0A000|22)/;
			}
			else
			{
				my $o = option_statements();
				my $made = eval { my $n = WireClient->new($c->node(2), 'postgres'); $n->query('SET standard_conforming_strings = ' . ($session{conforming} ? 'on' : 'off') . '; SET backslash_quote = on'); my $r = $n->query($o->{node}); $n->close; $r };
				fail_with($round, $o->{node}, "node: $made->{error}{M}") if $made->{error};
				compare($round, 'options', $_) for !$made->{error} && must($round, 's', $o->{sharded}) && must($round, 'p', $o->{plain}) ? @{ $o->{both} } : ();
			}
		}
		# the rows at the end
		compare($round, 'contents', 'SELECT * FROM ' . $_) for tab_x(), tab_y(), tab_r();
		check_texts($round);
	}
	(delete $client{$_})->close for qw(s p);
	for my $schema (values %schema)
	{
		my $admin = WireClient->new($c->coordinator, 'postgres');
		my $result = $admin->query('SET client_min_messages = error; DROP SCHEMA ' . ident($schema) . ' CASCADE');
		fail_with($round, $schema, "DROP SCHEMA: $result->{error}{M}") if $result->{error} && $ok;
		$admin->close;
	}
	# types stay on the nodes when the tables are dropped, and a later round may create a type with
	# the same name
	for my $i (1, 2)
	{
		my $admin = WireClient->new($c->node($i), 'postgres');
		$admin->query('SET client_min_messages = error; DROP SCHEMA IF EXISTS ' . ident($schema{s}) . ' CASCADE');
		$admin->close;
	}
	return;
}

# The table in the form for regclass: a name with its quotes, in a literal.
sub literal_table
{
	my ($table) = @_;
	return literal(ident($schema{s}) . '.' . ident($t{$table}{name}));
}

$parser = WireClient->new($c->node(2), 'postgres');
$log_position[$_] = $c->log_position($_) for 1 .. 2;
my $round = $seed;
while ($ran < $nstatements && @failures < 20 && !($seconds && time - $started > $seconds))
{
	run_round($round) if ShardCluster::in_half($round);
	$round++;
}
is(join("\n", @failures), '', "$ran statements in " . ($round - $seed) . " rounds, $nlogged remote texts: each one statement, rows as on plain tables");
note(join(', ', map { "$_: $kinds{$_}" } sort keys %kinds), "; errors on both sides: $nerrors, refused: $nrefused");
is($c->safe_psql(q{SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'pwned'}), 0, 'nothing was injected here');
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_catalog.pg_class WHERE relname OPERATOR(pg_catalog.=) 'pwned'}), 0, "nothing was injected into node $_") for 1 .. 2;
cmp_ok($nlogged, '>', $ran / 4, 'remote texts were seen');
cmp_ok($nerrors + $nrefused, '<', $ran / 4, 'most statements succeeded');
done_testing();
