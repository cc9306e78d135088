# ALTER TABLE with several sub-commands that concern the same column or constraint. Each form runs
# on a plain table and on tables that have tables on nodes. SQLSTATE, rows and definitions must be
# those of the plain table: on the coordinator, on the nodes, and on another coordinator.

use strict;
use warnings;

use ShardPeers;
use Test::More;

my $p = ShardPeers->new(coordinators => 2);
my ($c, $other) = $p->all;
my $version = $c->safe_psql('SHOW server_version_num');

# The schemas of the tables: plain; sharded, with replicas of its shards, below a parent, in a
# sharded schema; reference. Each table is named t.
my @kinds = qw(noted sharded parent home reference);
my $columns = q{(k int PRIMARY KEY, a int, b int DEFAULT 7, w text,
	g int GENERATED ALWAYS AS (a * 2) STORED,
	CONSTRAINT ca CHECK (a > 0), CONSTRAINT cb CHECK (b > 0 AND a < 100))};
my $rows = q{(k, a, b, w) SELECT i, i, i + 1, 'w' || i FROM generate_series(1, 12) i};

# The definition of a table, as text. Names of the shards' keys begin with the shard's name.
my $made_of = q{CREATE FUNCTION made_of(regclass, kinds text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(x, ', ' ORDER BY x) FROM (
		SELECT format('column %s %s %s %s %s', attname, format_type(atttypid, atttypmod),
			attnotnull, attgenerated, attstorage)
			FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
		UNION ALL SELECT format('constraint %s %s',
			CASE WHEN contype NOT IN ('p', 'u') THEN conname END, pg_get_constraintdef(oid))
			FROM pg_constraint WHERE conrelid = $1 AND contype::text = ANY (string_to_array(kinds, NULL))
		UNION ALL SELECT format('clustered %s', indkey) FROM pg_index
			WHERE indrelid = $1 AND indisclustered AND kinds ~ 'i') l(x)$$};
$c->node_safe_psql($_, $made_of) for 1, 2;
$c->safe_psql(qq{
	$made_of;
	CREATE FUNCTION defaults(regclass) RETURNS text LANGUAGE sql AS \$\$
		SELECT string_agg(format('%s %s %s', attname, attidentity,
			replace(pg_get_expr(adbin, adrelid), \$1::text, 't')), ', ' ORDER BY attname)
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = \$1 AND attnum > 0 AND NOT attisdropped AND attgenerated = ''\$\$;
	CREATE FUNCTION three() RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN 3; END';
	CREATE TABLE other (a int PRIMARY KEY);
	INSERT INTO other SELECT generate_series(0, 30);
	SELECT shardfdw.create_reference_table('other')});
$c->safe_psql("CREATE SCHEMA $_") for 'plain', @kinds;
$c->safe_psql("CREATE TABLE $_.t $columns") for qw(plain sharded noted home reference);
$c->safe_psql(qq{
	CREATE TABLE parent.t $columns PARTITION BY RANGE (k);
	CREATE TABLE parent.part $columns;
	ALTER TABLE noted.t ADD CONSTRAINT u UNIQUE (k, b);
	SELECT shardfdw.shard_table('sharded.t', 'k', shards => 3);
	SELECT shardfdw.shard_table('noted.t', 'k', shards => 2, replication_factor => 2);
	SELECT shardfdw.shard_table('parent.part', 'k', shards => 2);
	ALTER TABLE parent.t ATTACH PARTITION parent.part FOR VALUES FROM (0) TO (1000);
	SELECT shardfdw.shard_schema('home');
	SELECT shardfdw.create_reference_table('reference.t')});
$c->safe_psql("INSERT INTO $_.t $rows") for 'plain', @kinds;
my $fk = 'ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES other';
$c->safe_psql("ALTER TABLE $_.t $fk, ADD CONSTRAINT u UNIQUE (k, b)")
  for grep { $_ ne 'noted' } 'plain', @kinds;
# The queries for definitions and rows of a table, in the transaction of the form. $list: the select
# list for a row
sub questions
{
	my ($kind, $list) = @_;
	my $whole = "(SELECT whole::text FROM (SELECT $list) whole)";
	my $read = "SELECT string_agg($whole, ' ' ORDER BY k) FROM $kind.t";
	my $on_nodes = 'SELECT DISTINCT result FROM shardfdw.run_on_nodes';
	my $on_shards = 'SELECT DISTINCT result FROM shardfdw.run_on_shards';
	my $shards = $kind eq 'parent' ? 'parent.part' : "$kind.t";
	my $tables =
	    $kind eq 'plain' ? "SELECT made_of('plain.t', 'cpufi')"
	  : $kind eq 'reference' ? "$on_nodes('SELECT public.made_of(''reference.t'', ''cpui'')')"
	  : "$on_shards('$shards', 'SELECT public.made_of(%L, ''cpufi'')')";
	my @replicas = $kind ne 'reference' ? ()
	  : ('rows of replicas' => "$on_nodes('" . ($read =~ s/'/''/gr) . "')");

	return ('tables' => $tables,
		'coordinator' => "SELECT made_of('$kind.t', 'cpu')",
		'defaults' => "SELECT defaults('$kind.t')",
		'rows' => $read,
		@replicas);
}

# Runs a form on a table, and rolls it back. Prints the SQLSTATE, or the resulting table.
sub script
{
	my ($form, $kind) = @_;
	my @questions = questions($kind, $form->{list} // 't.*');
	my $sql = "\\qecho ==\nBEGIN;\nALTER TABLE $kind.t $form->{sql};\n";

	$sql .= "\\if :ERROR\n\\qecho SQLSTATE :SQLSTATE\n\\else\n";

	while (my ($name, $query) = splice @questions, 0, 2)
	{
		$sql .= "\\qecho $name\n$query;\n";
	}
	return "$sql\\endif\nROLLBACK;\n";
}

# The result of each form on a table: the parts by name.
sub answers
{
	my ($kind) = @_;
	my $sql = join '', map { script($_, $kind) } our @forms;
	my ($rc, $out, $err) = $c->psql($sql, on_error_stop => 0);
	my ($before, @parts) = split /^==\n/m, "$out\n";

	s/\b(?:public|plain|sharded|noted|parent|home|reference)\.//g for @parts;
	my $names = qr/SQLSTATE|tables|coordinator|defaults|rows of replicas|rows/;
	return map { my (undef, @answers) = split /^($names)\b\s*/m; +{@answers} } @parts;
}

# Sub-commands of one ALTER TABLE, and how the answer differs from the plain table's:
# - refused: kinds for which it is 0A000
# - list: what is selected of a row
our @forms;
sub forms
{
	my ($text, %how) = @_;
	push @forms, map { { sql => $_, %how } } grep { /\S/ } split /\n(?!\t)/, $text;
	return;
}

# a column is dropped and added
forms(<<'SQL');
DROP w, ADD w text
DROP w, ADD w text DEFAULT 'new'
ADD w text DEFAULT 'new', DROP w
DROP w, ADD w int DEFAULT 3 NOT NULL
DROP w, ADD COLUMN IF NOT EXISTS w int DEFAULT 3
DROP COLUMN IF EXISTS w, ADD COLUMN IF NOT EXISTS w int, ADD COLUMN IF NOT EXISTS w text
DROP w, ADD w int GENERATED ALWAYS AS (a + 1) STORED
DROP g, ADD g int GENERATED ALWAYS AS (a * 3) STORED
DROP g, ADD g int
DROP g, ADD g int DEFAULT 2, ADD CONSTRAINT cg CHECK (g > 1)
DROP w, ADD w int, ALTER w SET DEFAULT 4
DROP w, ADD w int DEFAULT 3, ALTER w SET DEFAULT 4, ALTER w SET NOT NULL
DROP w, ADD w int NOT NULL
DROP w, ADD w int REFERENCES other DEFAULT 3
DROP w, ADD w int CHECK (w > 5) DEFAULT 3
DROP w, ADD w int CHECK (w > 2) DEFAULT 3
DROP w, ADD w text COLLATE "C" DEFAULT 'a', ALTER w SET STORAGE EXTERNAL
DROP b, ADD b int DEFAULT 3
DROP b, ADD b int DEFAULT 3, ADD CONSTRAINT cb CHECK (b > 2)
DROP b, ADD b int DEFAULT 3, ADD CONSTRAINT cb CHECK (b > 3)
DROP b, ADD CONSTRAINT cb CHECK (a > 0)
DROP b, ADD CONSTRAINT u UNIQUE (k, a)
DROP b, ADD b int DEFAULT 3,
	ADD CONSTRAINT u UNIQUE (k, b), ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES other
DROP b, ADD b int DEFAULT 99, ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES other
DROP a CASCADE, ADD a int DEFAULT 5
DROP a CASCADE, ADD a int DEFAULT 5, ADD g int GENERATED ALWAYS AS (a + 1) STORED
DROP a, ADD a int
DROP w, ADD w int, DROP w
DROP w, ADD CHECK (w <> '')
DROP w, ALTER w SET DEFAULT 'x'
DROP w, ALTER w SET NOT NULL
DROP w, ADD x int, DROP COLUMN IF EXISTS x
SQL

# a column is added and changed
forms(<<'SQL');
ADD x int, ALTER x SET DEFAULT 5
ADD x int DEFAULT 4, ALTER x SET DEFAULT 5
ALTER x SET DEFAULT 5, ADD x int DEFAULT 4
ADD x int DEFAULT 4, ALTER x DROP DEFAULT
ADD x int NOT NULL, ALTER x SET DEFAULT 5
ADD x int DEFAULT 4 NOT NULL, ALTER x SET DEFAULT 5
ADD x int DEFAULT 4, ALTER x SET NOT NULL
ADD x int, ALTER x SET NOT NULL, ALTER x SET DEFAULT 5
ADD x int, ALTER x TYPE text
ADD x int DEFAULT 4 NOT NULL, ALTER x DROP NOT NULL
ADD x text, ALTER x SET STORAGE EXTERNAL, ALTER x SET STATISTICS 50
ADD x int DEFAULT 4, ALTER x SET DEFAULT 5, ADD CHECK (x = 4)
ADD x int DEFAULT 4, ALTER x SET DEFAULT 5, ADD CHECK (x = 5)
ADD x int DEFAULT 4, ALTER x SET DEFAULT 5, ALTER x SET DEFAULT 6
ADD x int DEFAULT 4, ADD y int GENERATED ALWAYS AS (x * 2) STORED, ALTER x SET DEFAULT 5
ADD x int DEFAULT 4, ALTER x SET DEFAULT 5,
	ADD y int DEFAULT 6, ALTER y SET DEFAULT 7, ALTER a SET DEFAULT 8
ADD x int DEFAULT 4, ADD CONSTRAINT cx CHECK (x > 3) NOT VALID, VALIDATE CONSTRAINT cx
ADD x int DEFAULT 4, ADD CONSTRAINT cx CHECK (x > 4) NOT VALID, VALIDATE CONSTRAINT cx
ADD x int DEFAULT 4, ADD CONSTRAINT fx FOREIGN KEY (x) REFERENCES other, ALTER x SET DEFAULT 5
ADD x int DEFAULT 4, ADD UNIQUE (k, x), ALTER x SET DEFAULT 5
ADD x int DEFAULT 4, DROP COLUMN IF EXISTS x
ADD x int DEFAULT 4 CHECK (x = 4), ALTER x SET DEFAULT 5
ADD x int, DROP w, ALTER x SET DEFAULT 5
ADD x bigint, ALTER a TYPE bigint, ALTER x SET DEFAULT 5
SQL
forms('ADD x int DEFAULT three(), ALTER x SET DEFAULT 5, ALTER x SET NOT NULL',
	refused => 'reference');
forms('ADD x int DEFAULT three(), ALTER x SET DEFAULT 5, ADD CHECK (x IS NOT NULL)',
	refused => 'reference');
forms('ADD x float DEFAULT random(), ALTER x SET DEFAULT 5',
	refused => 'reference', list => 'k, a, x < 1');
forms(q{ADD x timestamptz DEFAULT now(), ALTER x SET DEFAULT '2020-01-01'},
	refused => 'reference', list => 'k, x = now()');
forms('ADD x serial, ALTER x SET DEFAULT 500', refused => 'reference', list => 'k, a, x < 13');
forms('ADD x int NOT NULL, ALTER x ADD GENERATED ALWAYS AS IDENTITY', list => 'k, a');

# a column or constraint twice, with IF EXISTS
forms(<<'SQL');
ADD COLUMN IF NOT EXISTS x int, ADD COLUMN IF NOT EXISTS x int
ADD x int DEFAULT 3, ADD COLUMN IF NOT EXISTS x text DEFAULT 'a'
ADD COLUMN IF NOT EXISTS x int DEFAULT 3,
	ADD COLUMN IF NOT EXISTS x text DEFAULT 'a', ALTER x SET DEFAULT 4
ADD COLUMN IF NOT EXISTS x int REFERENCES other, ADD COLUMN IF NOT EXISTS x int REFERENCES other
ADD COLUMN IF NOT EXISTS x int DEFAULT 3, ADD COLUMN IF NOT EXISTS x int CHECK (x > 5)
ADD x int, ADD x int
ADD COLUMN IF NOT EXISTS w int DEFAULT 3, ALTER w SET DEFAULT 'b'
DROP COLUMN IF EXISTS w, DROP COLUMN IF EXISTS w
DROP w, DROP COLUMN IF EXISTS w
DROP COLUMN IF EXISTS w, DROP w
DROP w, DROP w
DROP COLUMN a CASCADE, DROP COLUMN IF EXISTS g
DROP CONSTRAINT ca, DROP CONSTRAINT IF EXISTS ca
DROP CONSTRAINT ca, DROP CONSTRAINT ca
DROP CONSTRAINT fk, DROP CONSTRAINT IF EXISTS fk
DROP CONSTRAINT u, DROP CONSTRAINT IF EXISTS u
DROP b, DROP CONSTRAINT IF EXISTS cb, DROP CONSTRAINT IF EXISTS fk, DROP CONSTRAINT IF EXISTS u
DROP b, DROP CONSTRAINT cb
ALTER g DROP EXPRESSION, ALTER g DROP EXPRESSION IF EXISTS
SQL

# a constraint is dropped and added
forms(<<'SQL');
DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > 0)
ADD CONSTRAINT ca CHECK (a > 0), DROP CONSTRAINT ca
DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > -1)
DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > 5)
DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > 5) NOT VALID
DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > 5) NOT VALID, VALIDATE CONSTRAINT ca
DROP CONSTRAINT IF EXISTS new, ADD CONSTRAINT new CHECK (a > 0)
DROP CONSTRAINT ca, ADD CHECK (a > 0), ADD CHECK (a > -1)
DROP CONSTRAINT ca, ADD CONSTRAINT cb CHECK (a > 0)
DROP CONSTRAINT ca, DROP CONSTRAINT cb,
	ADD CONSTRAINT ca CHECK (b > 0), ADD CONSTRAINT cb CHECK (a > 0)
DROP CONSTRAINT fk, ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES other ON DELETE CASCADE
DROP CONSTRAINT fk, ADD CONSTRAINT fk FOREIGN KEY (b) REFERENCES other NOT VALID
DROP CONSTRAINT fk, ADD CONSTRAINT fk2 FOREIGN KEY (b) REFERENCES other
DROP CONSTRAINT fk, ADD CONSTRAINT fk CHECK (b > 1)
DROP CONSTRAINT ca, ADD CONSTRAINT ca FOREIGN KEY (a) REFERENCES other
DROP CONSTRAINT ca,
	ADD CONSTRAINT fa FOREIGN KEY (a) REFERENCES other NOT VALID, VALIDATE CONSTRAINT fa
DROP CONSTRAINT u, ADD CONSTRAINT u UNIQUE (k, b)
DROP CONSTRAINT u, ADD CONSTRAINT u UNIQUE (k, a)
DROP CONSTRAINT u, ADD CONSTRAINT u CHECK (b > 1)
DROP CONSTRAINT ca, ADD CONSTRAINT ca UNIQUE (k, a)
ALTER a DROP NOT NULL, ALTER a SET NOT NULL
ALTER b DROP DEFAULT, ALTER b SET DEFAULT 8
ALTER b SET DEFAULT 8, ALTER b DROP DEFAULT
ALTER g DROP EXPRESSION, ALTER g SET DEFAULT 3
ALTER a SET NOT NULL,
	ALTER a ADD GENERATED BY DEFAULT AS IDENTITY (START 100), ALTER a SET GENERATED ALWAYS
ALTER b DROP DEFAULT, ALTER b SET NOT NULL, ALTER b ADD GENERATED BY DEFAULT AS IDENTITY
SQL
forms('DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (k, b)');

# a type is changed
forms(<<'SQL');
ALTER b DROP DEFAULT, ALTER b TYPE text, ALTER b SET DEFAULT 'x',
	DROP CONSTRAINT cb, DROP CONSTRAINT fk
DROP CONSTRAINT cb, ADD CONSTRAINT cb CHECK (b > 0), ALTER b TYPE bigint
DROP w, ALTER b TYPE bigint
DROP b, ALTER b TYPE bigint
ALTER w TYPE varchar(20), ALTER w SET DEFAULT 'c', ALTER w SET NOT NULL
ALTER b TYPE bigint, ADD x bigint DEFAULT 4, ALTER x SET DEFAULT 5
ALTER b TYPE bigint, ALTER b TYPE int
SQL
forms('DROP w, ALTER b TYPE bigint USING length(w)', refused => join(' ', @kinds));
forms(<<'SQL') if $version >= 170000;
ADD x int GENERATED ALWAYS AS (a + 1) STORED, ALTER x SET EXPRESSION AS (a + 2)
DROP w, ADD w int DEFAULT 4, ALTER g SET EXPRESSION AS (w + 2)
ALTER g DROP EXPRESSION, ALTER g SET EXPRESSION AS (a)
SQL

cmp_ok(scalar @forms, '>', 100, 'there are many forms');
my @plain = answers('plain');
is(scalar @plain, scalar @forms, 'all have run');

# Older minor versions refuse it on partitioned tables of three levels, plain ones too.
$c->safe_psql(q{CREATE TABLE levels (k int, g int GENERATED ALWAYS AS (k) STORED) PARTITION BY RANGE (k);
	CREATE TABLE level PARTITION OF levels FOR VALUES FROM (0) TO (9) PARTITION BY HASH (k);
	CREATE TABLE leaf PARTITION OF level FOR VALUES WITH (MODULUS 1, REMAINDER 0)});
my ($drops_expressions) = $c->psql('ALTER TABLE levels ALTER g DROP EXPRESSION');

# The expected answer, from the answer of the plain table.
sub expected
{
	my ($kind, $form, $plain, $got) = @_;

	return { SQLSTATE => "0A000\n" }
		if $kind eq 'parent' && $drops_expressions != 0 && $form->{sql} =~ /DROP EXPRESSION/ && !exists $plain->{SQLSTATE};
	# reference.md lists the forms that shards with replicas refuse
	my $may_refuse = $kind eq 'noted' && ($got->{SQLSTATE} // '') eq "0A000\n";
	return { SQLSTATE => "0A000\n" } if ($form->{refused} // '') =~ /\b$kind\b/ || $may_refuse;
	return $plain if exists $plain->{SQLSTATE} || $kind !~ /^(?:reference|noted)$/;
	# the coordinator checks foreign keys of reference tables
	my $tables = $plain->{tables} =~ s/constraint \w+ FOREIGN KEY[^,\n]*(, |$)//gmr =~ s/, $//mr;
	my %replicas = $kind eq 'reference' ? ('rows of replicas' => $plain->{rows}) : ();
	return { %$plain, tables => $tables, %replicas };
}

my %refused;
for my $kind (@kinds)
{
	my @answers = answers($kind);
	# tables with replicas, and foreign keys of plain tables, need a single coordinator
	if ($kind eq 'noted')
	{
		$c->safe_psql(q{ALTER TABLE noted.t ADD x int, ALTER x SET DEFAULT 5,
			DROP w, ADD w int DEFAULT 3, ALTER w SET DEFAULT 4});
		is($c->safe_psql(ShardCluster::problems(q{check_cluster('rows')})), '', 'replicas are the same');
		$c->safe_psql('DROP TABLE noted.t, plain.t');
		$p->add_all;
	}
	for my $i (0 .. $#forms)
	{
		my $expected = expected($kind, $forms[$i], $plain[$i], $answers[$i]);

		is_deeply($answers[$i], $expected, "$kind: " . $forms[$i]{sql} =~ s/\s+/ /gr);
		$refused{$kind}++ if ($expected->{SQLSTATE} // '') eq "0A000\n";
	}
}
# committed, by one coordinator and the other in turn
my @committed = (
	'DROP w, ADD w int DEFAULT 3, ALTER w SET DEFAULT 4',
	"DROP CONSTRAINT fk, $fk ON DELETE CASCADE",
	"DROP CONSTRAINT fk, $fk NOT VALID, VALIDATE CONSTRAINT fk",
	'ADD x int, ALTER x SET DEFAULT 5, ALTER a DROP NOT NULL',
	'DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > -1) NOT VALID, VALIDATE CONSTRAINT ca',
	'DROP CONSTRAINT u, ADD CONSTRAINT u UNIQUE (k, x)');
for my $kind (grep { $_ ne 'noted' } @kinds)
{
	$p->coordinator(1 + $_ % 2)->safe_psql("ALTER TABLE $kind.t $committed[$_]") for 0 .. $#committed;
	my $question = "SELECT public.made_of('$kind.t', 'cpuf'), public.defaults('$kind.t')";
	my ($here, $there) = map { $_->safe_psql($question) } $c, $other;
	is($there, $here, "$kind: both coordinators have the same");
}
$p->all_alike('after all', rows => 1);

# event triggers of users fire once, when all steps are done
$c->safe_psql(q{
	CREATE TABLE fired (what text);
	CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$
	BEGIN INSERT INTO public.fired SELECT TG_EVENT || ' ' || public.defaults('sharded.t'); END$$;
	CREATE EVENT TRIGGER note_end ON ddl_command_end EXECUTE FUNCTION note();
	CREATE EVENT TRIGGER note_drop ON sql_drop EXECUTE FUNCTION note();
	TRUNCATE fired;
	ALTER TABLE sharded.t DROP x, ADD x int DEFAULT 6, ALTER x SET DEFAULT 8, REPLICA IDENTITY FULL});
is($c->safe_psql(q{SELECT string_agg(split_part(what, ' ', 1) || (what ~ 'x  8'), ' ' ORDER BY what)
	FROM fired}),
	'ddl_command_endtrue sql_droptrue', 'event triggers fire once');
cmp_ok($refused{noted}, '<', @forms * 0.6, 'shards with replicas have some of the forms');
done_testing();
