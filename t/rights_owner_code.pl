# A table's owner has code in CHECK constraints, generated columns, indexes and domains. Another
# role, such as a superuser, works on the table. The code must never run with the superuser's
# rights, on the coordinator or on the nodes.

use strict;
use warnings;

use ShardCluster;
use Test::More;

my %function = (shard => 'shard_table', replicate => 'create_reference_table');

my $c = ShardCluster->new(nodes => 3, add_nodes => 0);
$c->add_node($_) for 1, 2;

$c->node_safe_psql($_, 'CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory') for 1 .. 3;
$c->safe_psql('CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; GRANT USAGE ON FOREIGN SERVER node1, node2 TO mallory');
$c->safe_psql("CREATE USER MAPPING FOR mallory SERVER node$_ OPTIONS (user 'mallory', password_required 'false')") for 1, 2;
$c->safe_psql(q{SET ROLE mallory;
	CREATE FUNCTION spy(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
	BEGIN
		RAISE WARNING 'spy runs as %', (SELECT CASE WHEN rolsuper THEN 'superuser' ELSE rolname END FROM pg_catalog.pg_roles WHERE rolname = current_user);
		RETURN i;
	END $$;
	CREATE OPERATOR @@# (FUNCTION = spy, RIGHTARG = int);
	CREATE DOMAIN spied AS int CHECK (public.spy(VALUE) IS NOT NULL);
	CREATE TYPE spied_pair AS (a spied, b int);
	CREATE VIEW spying AS SELECT spy(1);
	CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);
	CREATE FUNCTION spy(a int, b int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(a) <> b';
	CREATE OPERATOR !=== (FUNCTION = spy, LEFTARG = int, RIGHTARG = int, NEGATOR = ===);
	CREATE OPERATOR <<<# (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int);
	CREATE OPERATOR >>># (FUNCTION = spy, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <<<#);
	CREATE OPERATOR ~~># (FUNCTION = ts_rewrite, LEFTARG = tsquery, RIGHTARG = text);
	CREATE TYPE mood AS ENUM ('1', '2');
	CREATE FUNCTION spy(m mood) RETURNS json IMMUTABLE LANGUAGE sql AS 'SELECT to_json(public.spy(1))';
	CREATE CAST (mood AS json) WITH FUNCTION spy(mood);
	CREATE TYPE tone AS ENUM ('1', '2');
	CREATE FUNCTION spied_int(t tone) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)';
	CREATE CAST (tone AS int) WITH FUNCTION spied_int(tone) AS IMPLICIT;
	CREATE TABLE tones (id int PRIMARY KEY); INSERT INTO tones VALUES (1)});
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.create_reference_table('tones')");

my %tables = (
	checked   => 'id int PRIMARY KEY, v int CHECK (spy(v) > 0)',
	operated  => 'id int PRIMARY KEY, v int CHECK (@@# v > 0)',
	generated => 'id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (spy(v)) STORED',
	domained  => 'id int PRIMARY KEY, v spied',
	listed    => 'id int PRIMARY KEY, v int, d spied[]',
	paired    => 'id int PRIMARY KEY, v int, p spied_pair',
	indexed   => 'id int PRIMARY KEY, v int',
	partial   => 'id int PRIMARY KEY, v int',
	# code without dependencies: built-in functions that run code in their arguments, or do
	# something by themselves
	queried   => q{id int PRIMARY KEY, v int CHECK (query_to_xml('SELECT public.spy(1)', true, true, '') IS NOT NULL)},
	viewed    => q{id int PRIMARY KEY, v int CHECK (table_to_xml('spying', true, true, '') IS NOT NULL)},
	rewritten => q{id int PRIMARY KEY, v int, CHECK (v IS NOT NULL OR ('a'::tsquery ~~># 'SELECT ''a''::tsquery, ''b''::tsquery') IS NOT NULL)},
	configured => q{id int PRIMARY KEY, v int CHECK (set_config('work_mem', '1MB', true) IS NOT NULL)},
	# also without dependencies: functions that replace an operator, and casts that are looked up at
	# run time
	negated   => 'id int PRIMARY KEY, v int CHECK (NOT (v === 0))',
	negated_g => 'id int PRIMARY KEY, v int, g boolean GENERATED ALWAYS AS (NOT (v === 0)) STORED',
	commuted  => 'id int PRIMARY KEY, v int CHECK (v <<<# 100)',
	jsoned    => q{id int PRIMARY KEY, v int, m mood DEFAULT '1' CHECK (to_json(m) IS NOT NULL)},
	keyed     => q{id int PRIMARY KEY, v int, t tone DEFAULT '1' REFERENCES tones});
my $major = $c->safe_psql(q{SELECT current_setting('server_version_num')::int / 10000});
$tables{validated} = q{id int PRIMARY KEY, v int CHECK (pg_input_is_valid('1', 'public.spied'))} if $major >= 16;
$tables{jsonpath} = q{id int PRIMARY KEY, v int CHECK (JSON_VALUE(jsonb '1', '$' RETURNING spied) IS NOT NULL)} if $major >= 17;
# a server may be built without libxml
my $xml = ($c->psql(q{SELECT xmlcomment('')}))[0] == 0;
delete @tables{ 'queried', 'viewed' } unless $xml;
# operators and casts are not made on nodes by themselves
my %on_nodes = (
	operated  => 'CREATE OPERATOR @@# (FUNCTION = spy, RIGHTARG = int)',
	rewritten => 'CREATE OPERATOR ~~># (FUNCTION = ts_rewrite, LEFTARG = tsquery, RIGHTARG = text)',
	viewed    => 'CREATE VIEW spying AS SELECT spy(1)',
	negated   => 'CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int)',
	commuted  => 'CREATE OPERATOR <<<# (FUNCTION = int4lt, LEFTARG = int, RIGHTARG = int)',
	keyed     => q{CREATE TYPE tone AS ENUM ('1', '2'); CREATE FUNCTION spied_int(t tone) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)';
		CREATE CAST (tone AS int) WITH FUNCTION spied_int(tone) AS IMPLICIT});
my %index = (indexed => 'CREATE INDEX ON indexed (spy(v))', partial => 'CREATE INDEX ON partial (v) WHERE spy(v) > 0');

my @from = map { $c->log_position($_) } undef, 1 .. 3;
sub as_superuser
{
	return join '', map { my $i = $_; $c->log_since($from[ $i // 0 ], $i) =~ /spy runs as superuser/ ? ($i // 'coordinator') : () } undef, 1 .. 3;
}

my $ntables = 0;
my $in_half = 1;
for my $table (sort keys %tables)
{
	# The end needs the first two, and one major alone has the other two.
	my $always = $table =~ /^(?:checked|queried|validated|jsonpath)$/;
	# What negated makes on the nodes, negated_g uses.
	$in_half = ShardCluster::in_half($ntables++) unless $always || $table eq 'negated_g';
	next unless $always || $in_half;
	my $new = "SET ROLE mallory; CREATE TABLE $table ($tables{$table}); INSERT INTO $table (id, v) SELECT i, i FROM generate_series(1, 20) i; " . ($index{$table} // '');
	$c->safe_psql($new);
	for my $verb ('shard', 'replicate')
	{
		$c->psql_fails_like("SELECT shardfdw.$function{$verb}('$table');", qr/42501: cannot $verb table "$table" because function .* would run with the rights of "postgres".*SET ROLE mallory/s, "$function{$verb} by a superuser: $table");
	}
	$c->node_safe_psql($_, "SET ROLE mallory; $on_nodes{$table}") for exists $on_nodes{$table} ? (1, 2) : ();
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.shard_table('$table', shards => 4)");
	is($c->node_safe_psql(1, "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relname LIKE '${table}\\_0_'"), 'mallory', "by the owner: $table");
	# commands that superusers run on any table
	$c->safe_psql("ANALYZE $table; VACUUM (ANALYZE) $table; REINDEX TABLE $table; CREATE INDEX ${table}_v ON $table (v); SELECT * FROM shardfdw.check_cluster('rows')");
	$c->psql_fails_like("SELECT shardfdw.unshard_table('$table');", qr/42501: cannot unshard table/, "unshard_table by a superuser: $table");
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.unshard_table('$table')");
	$c->safe_psql("SET ROLE mallory; SELECT shardfdw.create_reference_table('$table')");
	$c->safe_psql("ANALYZE $table; REINDEX TABLE $table; SELECT * FROM shardfdw.check_cluster('rows'); SELECT shardfdw.unshard_table('$table')");
	is(as_superuser(), '', "no code of hers has run as a superuser: $table");
}

# A type that only a number names, which is another type on the nodes
my $pair = $c->safe_psql(q{SELECT 'spied_pair'::regtype::oid});
$c->safe_psql("SET ROLE mallory; CREATE TABLE inputted (id int PRIMARY KEY, v int CHECK (record_in('(1,1)', $pair, -1) IS NOT NULL)); INSERT INTO inputted VALUES (1, 1)");
$c->psql_fails_like("SELECT shardfdw.$function{$_}('inputted');", qr/42501: cannot $_ table "inputted" because function record_in/, "$function{$_} by a superuser: inputted") for 'shard', 'replicate';
is(as_superuser(), '', 'nor of a type');

# A shard next to a DEFAULT shard. The DEFAULT shard's rows are checked with the expression of the
# key.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ranged (id int) PARTITION BY RANGE (spy(id));
	SELECT shardfdw.create_shard('ranged', 'ranged_rest', 'DEFAULT', 'node1'); INSERT INTO ranged SELECT generate_series(1, 9)});
$c->psql_fails_like(q{SELECT shardfdw.create_shard('ranged', 'ranged_1', 'FROM (100) TO (200)', 'node1');}, qr/42501: .*function .*spy/, 'create_shard by a superuser');
is(as_superuser(), '', 'nor of a key');
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE tree (id int, v int) PARTITION BY RANGE (spy(id));
	CREATE TABLE branch PARTITION OF tree FOR VALUES FROM (0) TO (100) PARTITION BY LIST (v);
	SELECT shardfdw.create_shard('branch', 'branch_rest', 'DEFAULT', 'node1'); INSERT INTO tree SELECT i, i FROM generate_series(1, 9) i});
$c->psql_fails_like(q{SELECT shardfdw.create_shard('branch', 'branch_1', 'IN (100)', 'node1');}, qr/42501: .*function .*spy/, 'create_shard below a key');
is(as_superuser(), '', 'nor of a key above');

# A definition that is harmless here. On a node where she may log in, it calls her functions
$_->(q{CREATE FUNCTION half(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i / 2'}) for sub { $c->safe_psql(@_) }, map { my $i = $_; sub { $c->node_safe_psql($i, @_) } } 1, 2;
$c->node_safe_psql($_, q{SET ROLE mallory; CREATE FUNCTION half(i smallint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)'}) for 1, 2;
$c->node_safe_psql($_, q{SET ROLE mallory; CREATE OPERATOR ==== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);
	CREATE FUNCTION spy(a int, b int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(a) <> b';
	CREATE OPERATOR !==== (FUNCTION = spy, LEFTARG = int, RIGHTARG = int, NEGATOR = ====);
	CREATE TYPE pitch AS ENUM ('1', '2'); CREATE FUNCTION spied_text(p pitch) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)::text';
	CREATE CAST (pitch AS text) WITH FUNCTION spied_text(pitch)}) for 1, 2;
$c->safe_psql(q{SET ROLE mallory; CREATE OPERATOR ==== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int); CREATE TYPE pitch AS ENUM ('1', '2');
	CREATE TABLE there_negated (id int PRIMARY KEY, v int CHECK (NOT (v ==== 0)));
	CREATE TABLE there_cast (id int PRIMARY KEY, v int, p pitch DEFAULT '1' CHECK (p::text <> ''));
	CREATE TABLE there_indexed (id int PRIMARY KEY, v int); CREATE INDEX ON there_indexed ((NOT (v ==== 0)));
	-- what is computed when the table, or the index, is made
	CREATE TABLE there_constant (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (v + half(1::smallint)) STORED);
	CREATE TABLE there_constant_index (id int PRIMARY KEY, v int); CREATE INDEX ON there_constant_index ((v + half(1::smallint)))});
for my $table ('there_negated', 'there_cast', 'there_indexed', 'there_constant', 'there_constant_index')
{
	$c->safe_psql("SET ROLE mallory; INSERT INTO $table (id, v) SELECT i, i FROM generate_series(1, 20) i");
	for my $verb ('shard', 'replicate')
	{
		$c->psql_fails_like("SELECT shardfdw.$function{$verb}('$table');", qr/42501: cannot $verb table "$table" because function public.(?:sp\w+|half)\(.* of role "mallory" would run with the rights of "postgres" on node "node1".*SET ROLE mallory/s, "$function{$verb} by a superuser: $table");
	}
	is(as_superuser(), '', "nor there: $table");
}

# Other meanings that a node's rules of calls and casts can give an expression: defaults, variadic
# arguments, casts to a type
$c->safe_psql(q{CREATE FUNCTION any_one(anyelement) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION any_two(anyelement, anyelement) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1';
	CREATE TYPE key AS ENUM ('1', '2'); CREATE FUNCTION to_key(int) RETURNS key IMMUTABLE LANGUAGE sql AS $$SELECT '1'::public.key$$; CREATE CAST (int AS key) WITH FUNCTION to_key(int);
	SET ROLE mallory; CREATE TABLE by_default (id int PRIMARY KEY, v int); CREATE INDEX ON by_default (id, (any_one(5)));
	CREATE TABLE by_variadic (id int PRIMARY KEY, v int, g int GENERATED ALWAYS AS (any_two(5, 6)) STORED); CREATE TABLE by_cast (id int PRIMARY KEY, v int); CREATE INDEX ON by_cast (id, (5::key))});
$c->node_safe_psql($_, q{SET ROLE mallory; CREATE FUNCTION any_one(int, int DEFAULT 1) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)'; CREATE FUNCTION any_two(VARIADIC int[]) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)';
	CREATE TYPE key AS ENUM ('1', '2'); CREATE FUNCTION spied_key(int) RETURNS key IMMUTABLE LANGUAGE sql AS $$SELECT public.spy(1)::text::public.key$$; CREATE CAST (int AS key) WITH FUNCTION spied_key(int); RESET ROLE; ALTER TYPE key OWNER TO postgres}) for 1, 2;
for my $table ('by_default', 'by_variadic', 'by_cast')
{
	for my $verb ('shard', 'replicate')
	{
		$c->psql_fails_like("SELECT shardfdw.$function{$verb}('$table');", qr/42501: cannot $verb table "$table" because function public.\w+\(.* of role "mallory" would run with the rights of "postgres" on node "node1"/, "$function{$verb} by a superuser: $table");
	}
	is(as_superuser(), '', "nor by $table");
}
$c->node_safe_psql($_, 'DROP TYPE key CASCADE; DROP FUNCTION any_one(int, int), any_two(int[])') for 1, 2;
$c->safe_psql('DROP TABLE by_default, by_variadic, by_cast; DROP TYPE key CASCADE; DROP FUNCTION any_one(anyelement), any_two(anyelement, anyelement)');

# A superuser's function or type, while she has one with this name on a node, and could change it
# later
for my $squatted ([ 'function public.positive(integer)', q{CREATE FUNCTION positive(i int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT i > 0'}, 'CHECK (positive(v))' ], [ 'type public.amount', 'CREATE DOMAIN amount AS int CHECK (VALUE > 0)', ', a amount' ])
{
	my ($object, $create, $column) = @$squatted;
	$c->safe_psql("$create; CREATE TABLE squatted (id int PRIMARY KEY, v int $column)");
	$c->node_safe_psql($_, "SET ROLE mallory; $create") for 1, 2;
	my $theirs = qr/42501: \Q$object\E on node "node1" belongs to role "mallory".*HINT: .*ALTER \Q$object\E OWNER TO postgres/s;
	$c->psql_fails_like("SELECT shardfdw.$function{$_}('squatted');", $theirs, "$function{$_} of a superuser's own table: $object of hers") for 'shard', 'replicate';
	$c->node_safe_psql($_, "ALTER $object OWNER TO postgres") for 1, 2;
	$c->safe_psql("SELECT shardfdw.shard_table('squatted', shards => 2)");
	$c->node_safe_psql(1, "ALTER $object OWNER TO mallory");
	$c->psql_fails_like('ALTER TABLE squatted ADD CHECK (positive(v));', $theirs, 'ADD CHECK, too') if $object =~ /function/;
	is($c->safe_psql(q{SELECT status, detail FROM shardfdw.check_cluster() WHERE node = 'node1' AND detail LIKE 'belongs%'}), 'warning|belongs to role "mallory" there, which could change what runs with the rights of a superuser', 'check_cluster() tells of it');
	$c->safe_psql("DROP TABLE squatted; DROP $object");
	$c->node_safe_psql($_, "DROP $object") for 1, 2;
}

# A query validates a foreign key, and the planner reads indexes of the referenced table.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE referred (id int PRIMARY KEY, v int); INSERT INTO referred VALUES (1, 1); SELECT shardfdw.create_reference_table('referred');
	CREATE TABLE referring (id int PRIMARY KEY, r int REFERENCES referred); INSERT INTO referring VALUES (1, 1)});
$c->node_safe_psql($_, 'SET ROLE mallory; CREATE INDEX spied ON referred (spy(1), v)') for 1, 2;
$c->psql_fails_like("SELECT shardfdw.shard_table('referring');", qr/42501: cannot shard table "referring" because function public\.spy.* of role "mallory" would run with the rights of "postgres" on node "node[12]"/, 'shard_table by a superuser: an index of a table that is referred to');
$c->safe_psql(q{SET ROLE mallory; SELECT shardfdw.shard_table('referring', shards => 1, nodes => '{node1}')});
my (undef, undef, $unchecked) = $c->psql(q{SELECT shardfdw.move_shard('referring_00', 'node2', mode => 'block')});
like($c->node_safe_psql(2, q{SELECT contype, convalidated FROM pg_constraint WHERE conrelid = 'referring_00'::regclass AND contype = 'f'}), qr/^f\|f$/, 'move_shard by a superuser: the key is not validated') || diag $unchecked;
is(as_superuser(), '', 'nor for a foreign key');
$c->node_safe_psql(2, 'DROP INDEX spied');
$c->safe_psql(q{SELECT shardfdw.move_shard('referring_00', 'node1', mode => 'block')});
$c->node_safe_psql(1, 'DROP INDEX spied');
$c->node_safe_psql(1, 'ALTER TABLE referring_00 VALIDATE CONSTRAINT referring_r_fkey');
$c->safe_psql(q{SELECT shardfdw.move_shard('referring_00', 'node2', mode => 'block')});
is($c->node_safe_psql(2, q{SELECT contype, convalidated FROM pg_constraint WHERE conrelid = 'referring_00'::regclass AND contype = 'f'}), 'f|t', 'without such an index it is');

# The same for the keys of a new shard, of a shard in a new time partition, and of a table that becomes plain.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ranging (id int) PARTITION BY RANGE (id); CREATE TABLE dated (id int, d date) PARTITION BY RANGE (d);
	SELECT shardfdw.create_shard('ranging', 'ranging_1', 'FROM (0) TO (100)', 'node1');
	SELECT shardfdw.create_time_partitions('dated', '1 year', now(), key => 'id', shards => 1);
	ALTER TABLE ranging ADD FOREIGN KEY (id) REFERENCES referred; ALTER TABLE dated ADD FOREIGN KEY (id) REFERENCES referred; CREATE INDEX spied ON referred (spy(1), v)});
my $validated = q{SELECT regexp_replace(conrelid::regclass::text, '_\d{4}.*', ''), convalidated FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text ~ '^(ranging|dated|referring)' ORDER BY 1, 2 DESC, conrelid::regclass::text COLLATE "C"};
my $not_validated = qr/WARNING:  foreign key \w+ of table (?:public\.)?\w+ is not validated: it would run code of the owner of table (?:public\.)?referred/;
like(($c->psql($_->[1]))[2], $not_validated, "$_->[0] by a superuser: the key is not validated")
  for ['create_shard' => q{SELECT shardfdw.create_shard('ranging', 'ranging_2', 'FROM (100) TO (200)', 'node1')}],
  ['create_time_partitions' => q{SELECT shardfdw.create_time_partitions('dated', '1 year', now() + '1 year')}],
  ['unshard_table' => q{SELECT shardfdw.unshard_table('referring')}];
is($c->node_safe_psql(1, $validated), "dated|t\ndated|f\nranging_1|t\nranging_2|f", 'on the node');
is($c->safe_psql($validated), 'referring|f', 'and here');
is(as_superuser(), '', 'nor for a key of a new shard or a plain table');
$c->safe_psql(q{SET ROLE mallory; SELECT shardfdw.create_shard('ranging', 'ranging_3', 'FROM (200) TO (300)', 'node1'); ALTER TABLE referring VALIDATE CONSTRAINT referring_r_fkey});
is($c->node_safe_psql(1, q{SELECT convalidated FROM pg_constraint WHERE conrelid = 'ranging_3'::regclass AND contype = 'f'}), 't', 'the owner has it validated');

# Keys of a schema's tables, which are dropped and made again
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE ref (id int PRIMARY KEY); INSERT INTO ref SELECT generate_series(1, 9); SELECT shardfdw.create_reference_table('ref');
	CREATE TABLE to_ref (id int PRIMARY KEY, r int REFERENCES ref); INSERT INTO to_ref SELECT i, i FROM generate_series(1, 9) i;
	RESET ROLE; CREATE SCHEMA home AUTHORIZATION mallory; GRANT CREATE ON DATABASE postgres TO mallory; SET ROLE mallory; CREATE TABLE home.of_ref (id int PRIMARY KEY, r int REFERENCES ref); INSERT INTO home.of_ref VALUES (1, 1);
	CREATE INDEX ON ref (spy(1), id)});
$c->node_safe_psql($_, 'GRANT CREATE ON DATABASE postgres TO mallory') for 1, 2;
$c->psql_fails_like("SELECT shardfdw.shard_schema('home', 'node1');", qr/42501: cannot shard table "of_ref" because function public\.spy\(integer\) of role "mallory" would run with the rights of "postgres" on node "node1"/, 'shard_schema by a superuser: a key to a table with such an index');
is(as_superuser(), '', 'nor for keys of the tables of a schema');
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.shard_schema('home', 'node1'); DROP SCHEMA home CASCADE; DROP INDEX ref_spy_id_idx");

# A partitioned table in the place of the replica on the target: its partitions have the index.
$c->safe_psql(q{SET ROLE mallory; SELECT shardfdw.shard_table('to_ref', shards => 1, nodes => '{node1}')});
$c->node_safe_psql(2, q{SET ROLE mallory; DROP TABLE ref; CREATE TABLE ref (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE ref_1 PARTITION OF ref FOR VALUES FROM (0) TO (1000); CREATE INDEX ON ref_1 (spy(1), id); INSERT INTO ref SELECT generate_series(1, 9)});
$c->psql(q{SELECT shardfdw.move_shard('to_ref_00', 'node2', mode => 'block')});
like($c->node_safe_psql(2, q{SELECT contype, convalidated FROM pg_constraint WHERE conrelid = 'to_ref_00'::regclass AND contype = 'f' AND confrelid = 'ref'::regclass}), qr/^f\|f$/, 'a key to a partitioned table is not validated');
is(as_superuser(), '', 'nor does an index of a partition run');
$c->safe_psql('DROP TABLE to_ref; SET ROLE mallory; DROP TABLE ref');

# The owner gives the referenced table's name to another table during a wait for a lock.
$c->node_safe_psql(1, q{SET ROLE mallory; CREATE TABLE swapped (id int PRIMARY KEY); CREATE TABLE swaps (id int, r int); ALTER TABLE swaps ADD FOREIGN KEY (r) REFERENCES swapped NOT VALID});
my $swap = $c->node(1)->background_psql('postgres');
$swap->query('SET ROLE mallory; BEGIN; CREATE INDEX ON swapped (spy(1), id); ALTER TABLE swapped RENAME TO swapped_old; CREATE TABLE swapped (id int PRIMARY KEY)');
my $validates = $c->start_sql(q{SELECT * FROM shardfdw.query_nodes('{node1}', ARRAY[shardfdw_internal.validating_command('public.swaps', 'swaps_r_fkey', false)], 'write')});
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%c.conname%swaps_r_fkey%'}, 1);
$swap->query('COMMIT');
$swap->quit;
$c->wait_sql($validates);
is($c->node_safe_psql(1, q{SELECT convalidated FROM pg_constraint WHERE conname = 'swaps_r_fkey'}), 'f', 'a key to a table that gets another name meanwhile is not validated');
is(as_superuser(), '', 'nor does an index of that table run');
$c->node_safe_psql(1, 'DROP TABLE swaps, swapped, swapped_old');

# An index that only the node has. It uses a superuser's function there, and she has a function with
# the same name here
$c->node_safe_psql($_, q{CREATE FUNCTION only_there(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'}) for 1, 2;
$c->safe_psql(q{SET ROLE mallory; CREATE SCHEMA home; CREATE TABLE home.b (id int PRIMARY KEY); INSERT INTO home.b VALUES (1); CREATE TABLE home.a (id int PRIMARY KEY, r int REFERENCES home.b); INSERT INTO home.a VALUES (1, 1);
	SELECT shardfdw.shard_schema('home', 'node1'); CREATE FUNCTION only_there(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)'});
$c->node_safe_psql(1, 'SET ROLE mallory; CREATE UNIQUE INDEX ON home.a_00 (id, (public.only_there(1)))');
$c->psql_fails_like("SELECT shardfdw.unshard_schema('home');", qr/42501: cannot unshard table "a" because function public\.only_there\(integer\) of role "mallory" would run with the rights of "postgres"/, 'unshard_schema by a superuser: an index of the node');
is(as_superuser(), '', 'nor does such an index run');
$c->safe_psql('SET ROLE mallory; DROP SCHEMA home CASCADE; DROP FUNCTION only_there(int)');

# If a node gets a reference table again, the foreign keys to it are created again, also those of
# other roles' tables.
$c->safe_psql(q{CREATE TABLE own_ref (id int PRIMARY KEY); INSERT INTO own_ref SELECT generate_series(1, 9); SELECT shardfdw.create_reference_table('own_ref'); GRANT SELECT, REFERENCES ON own_ref TO mallory;
	SET ROLE mallory; CREATE TABLE to_own (id int PRIMARY KEY, r int); INSERT INTO to_own SELECT i, i FROM generate_series(1, 9) i; SELECT shardfdw.shard_table('to_own', shards => 1, nodes => '{node2}');
	ALTER TABLE to_own ADD FOREIGN KEY (r) REFERENCES own_ref; CREATE INDEX spied_r ON to_own (spy(1), r)});
my $outdate = sub {
	$c->node_safe_psql(2, 'SET session_replication_role = replica; INSERT INTO own_ref VALUES (77)');
	my ($rc, undef, $err) = $c->psql(q{SELECT shardfdw.disable_node('node2'); SELECT shardfdw.enable_node('node2')}, on_error_stop => 1);
	is($rc, 0, 'the node gets its replica anew') || diag $err;
	return $err;
};
my $key = q{SELECT convalidated, (SELECT count(*) FROM own_ref) FROM pg_constraint WHERE conrelid = 'to_own_00'::regclass AND contype = 'f'};
like($outdate->(), qr/WARNING: .*foreign key to_own_r_fkey of table public\.to_own_00 is not validated: it would run code of the owner of table public\.to_own_00/, 'enable_node by a superuser warns of a key that is not validated');
is($c->node_safe_psql(2, $key), 'f|9', 'the replica is there, and the key');
is(as_superuser(), '', 'nor for keys of others to a replica that is made anew');
$c->safe_psql('SET ROLE mallory; DROP INDEX spied_r');
$c->node_safe_psql(2, 'ALTER TABLE to_own_00 VALIDATE CONSTRAINT to_own_r_fkey');
unlike($outdate->(), qr/not validated/, 'without such an index');
is($c->node_safe_psql(2, $key), 't|9', 'the key is validated');
$c->safe_psql('DROP TABLE to_own, own_ref');

# The owner exchanges names while a superuser waits for one.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE counted (id int GENERATED ALWAYS AS IDENTITY (START 5) PRIMARY KEY, v int); INSERT INTO counted (v) VALUES (1), (2)});
my $her = $c->coordinator->background_psql('postgres');
$her->query('SET ROLE mallory; BEGIN; ALTER SEQUENCE counted_id_seq RENAME TO other_seq; CREATE VIEW counted_id_seq AS SELECT public.spy(100)::bigint AS last_value, true AS is_called');
my $counts = $c->start_sql(q{SELECT shardfdw.shard_table('counted', shards => 2)});
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%shard_table(''counted''%'});
$her->query('COMMIT');
$her->quit;
is(($c->wait_sql($counts))[0], 0, 'a sequence that gets another name while it is waited for');
$c->safe_psql('INSERT INTO counted (v) VALUES (3)');
is($c->safe_psql('SELECT max(id) FROM counted'), '7', 'goes on where it was');
is(as_superuser(), '', 'and a view of its old name is not read');

# Functions that only compute, or that return numbers and the time, do not count as a role's code.
$c->safe_psql(q{SET ROLE mallory; CREATE TABLE harmless (id int PRIMARY KEY, v int CHECK (random() < 1 AND clock_timestamp() > '2000-01-01' AND now() > '2000-01-01'), u uuid DEFAULT gen_random_uuid(),
		g text GENERATED ALWAYS AS (lower(v::text) || to_hex(v)) STORED, CHECK (to_json(ARRAY[v]) IS NOT NULL AND gen_random_uuid() <> u));
	CREATE INDEX ON harmless (abs(v)) WHERE v IS NOT NULL; INSERT INTO harmless SELECT i, i FROM generate_series(1, 20) i});
$c->safe_psql("SELECT shardfdw.${_}shard_table('harmless')") for '', 'un';
$c->safe_psql("SELECT shardfdw.create_reference_table('harmless')");
is($c->node_safe_psql(1, 'SELECT count(*) FROM harmless'), '20', 'built-in functions that compute');
$c->safe_psql('DROP TABLE harmless');

# A new node gets replicas of her reference tables when she creates them.
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.create_reference_table('$_')") for 'checked', $xml ? 'queried' : ();
my ($host, $port) = $c->node_address(3);
my ($rc, undef, $err) = $c->psql(qq{BEGIN; SELECT shardfdw.add_node('node3', '$host', $port, 'postgres'); GRANT USAGE ON FOREIGN SERVER node3 TO mallory;
	CREATE USER MAPPING FOR mallory SERVER node3 OPTIONS (user 'mallory', password_required 'false'); SET LOCAL ROLE mallory; SELECT shardfdw.create_reference_table('checked');
	UPDATE checked SET v = v + 1 WHERE id = 20; COMMIT}, on_error_stop => 1);
is($rc, 0, 'a node is added') || diag $err;
like($err, qr/WARNING:  node "node3": reference table .*checked has no replica there.*create_reference_table/s, 'which does not run her code by itself');
like($err, qr/WARNING:  node "node3": reference table .*queried has no replica there.*query_to_xml/s, 'not even what is built in') if $xml;
is($c->node_safe_psql(3, "SELECT sum(v), (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'checked') FROM checked"), '211|mallory', 'she makes the replica');
is(as_superuser(), '', 'with her rights');
$c->safe_psql("SET ROLE mallory; SELECT shardfdw.unshard_table('checked')");

# Objects that the owner adds after the superuser's snapshot, or while the superuser waits for a
# node
$c->safe_psql('SET ROLE mallory; CREATE DOMAIN clean AS int; CREATE TABLE later (id int PRIMARY KEY, v int, g clean GENERATED ALWAYS AS (v::clean) STORED); INSERT INTO later SELECT i, i FROM generate_series(1, 9) i');
my $super = $c->coordinator->background_psql('postgres', on_error_stop => 0);
$super->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean ADD CONSTRAINT spied CHECK (public.spy(VALUE) > 0)');
$super->query(q{SAVEPOINT a; SELECT shardfdw_internal.check_owner_code('later', 'shard'); ROLLBACK TO a});
like($super->{stderr}, qr/cannot shard table .*function .*spy.* of role "mallory"/, 'an old snapshot');
$super->query(q{SELECT shardfdw.shard_table('later', shards => 2)});
like($super->{stderr}, qr/needs transaction isolation level READ COMMITTED/, 'with which nothing is sharded');
$super->query('ROLLBACK');
$super->quit;
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean DROP CONSTRAINT spied');
my $on_node = $c->node(1)->background_psql('postgres');
$on_node->query('BEGIN; CREATE DOMAIN clean AS int');
my $waits = $c->start_sql(q{SELECT shardfdw.shard_table('later', shards => 2)});
$c->wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%CREATE DOMAIN%clean%'}, 1);
$c->safe_psql('SET ROLE mallory; ALTER DOMAIN clean ADD CONSTRAINT spied CHECK (public.spy(VALUE) > 0) NOT VALID');
$on_node->query('ROLLBACK');
$on_node->quit;
like(($c->wait_sql($waits))[2], qr/function .*spy.* of role "mallory"/, 'while nodes are waited for');
is(as_superuser(), '', 'nothing of hers has run');

# If a superuser takes over the ownership of a function, the function counts as the superuser's
# code.
$c->safe_psql('ALTER FUNCTION spy(int) OWNER TO postgres');
$c->psql_fails_like("SELECT shardfdw.shard_table('checked');", qr/42501: function public\.spy\(integer\) on node "node1" belongs to role "mallory"/, 'a function that is still hers on the nodes');
$c->node_safe_psql($_, 'ALTER FUNCTION spy(int) OWNER TO postgres') for 1, 2;
$c->safe_psql("SELECT shardfdw.shard_table('checked', shards => 2)");
is($c->safe_psql('SELECT count(*) FROM checked'), '20', 'a function of a superuser');
$c->safe_psql(q{CREATE FUNCTION doing(i int) RETURNS int LANGUAGE sql AS 'SELECT i'; SET ROLE mallory; CREATE TABLE does (id int PRIMARY KEY, CHECK (doing(id) > 0))});
$c->psql_fails_like("SELECT shardfdw.shard_table('does');", qr/42501: .*function .*doing\(integer\) would run.*its arguments may decide/s, 'a volatile function of a superuser');

# Literals in her definitions are not changed, whatever a backslash means in a superuser's session:
# none becomes a command.
my %text;
for my $setting (qw(on off))
{
	$c->safe_psql(qq{CREATE SCHEMA lit_$setting AUTHORIZATION mallory; SET ROLE mallory; SET search_path = lit_$setting} . q{;
		CREATE TABLE a (id int PRIMARY KEY, v text CHECK (v <> 'a\nb'), w text CHECK (w !~ '^\d+$'), g text GENERATED ALWAYS AS (replace(v, '\n', '-')) STORED, d text DEFAULT 'a\b');
		CREATE INDEX ON a ((v || '\x')) WHERE w <> '\y'; INSERT INTO a VALUES (1, 'x\ny', 'w');
		CREATE TABLE b (id int PRIMARY KEY, v text CONSTRAINT c CHECK (v <> '\'')); CREATE ROLE pwned SUPERUSER; --'));
		CREATE TABLE r (LIKE a INCLUDING ALL)});
	my $late = q{CREATE INDEX ON %1$s ((v || E'\\\\z')); ALTER TABLE %1$s ADD COLUMN h text GENERATED ALWAYS AS (replace(v, E'\\\\q', '-')) STORED; ALTER TABLE %1$s ADD CHECK (v <> E'\\\\k')};
	$c->safe_psql("SET standard_conforming_strings = $setting; SET search_path = lit_$setting; SELECT shardfdw.shard_table('b', shards => 2), shardfdw.shard_table('a', shards => 2), shardfdw.create_reference_table('r');"
		  . sprintf($late, 'a') . ';' . sprintf($late, 'r'));
	my $definitions = qq{SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'lit_$setting'::regnamespace ORDER BY 1, 2; SELECT adrelid::regclass, adnum, pg_get_expr(adbin, adrelid) FROM pg_attrdef d JOIN pg_class c ON c.oid = d.adrelid WHERE c.relnamespace = 'lit_$setting'::regnamespace ORDER BY 1, 2;
		SELECT indexdef FROM pg_indexes WHERE schemaname = 'lit_$setting' ORDER BY 1};
	$text{$setting} = join "\n", $c->safe_psql($definitions), map { $c->node_safe_psql($_, $definitions) } 1, 2;
	$c->safe_psql("SET standard_conforming_strings = $setting; SET search_path = lit_$setting; SELECT shardfdw.unshard_table('a'), shardfdw.unshard_table('b'), shardfdw.unshard_table('r')");
	$text{$setting} .= $c->safe_psql("$definitions; SELECT g, w FROM lit_$setting.a");
	$text{$setting} =~ s/lit_$setting/lit/g;
}
is($text{off}, $text{on}, 'the same definitions whatever standard_conforming_strings');
like($text{off}, qr/CREATE ROLE pwned SUPERUSER.*x-y\|w$/s, 'with what looks like a command');
is($c->safe_psql(q{SELECT count(*) FROM pg_roles WHERE rolname = 'pwned'}), '0', 'which nobody has run');

# ---------- schemas of others on nodes ----------

# The owner of a schema can drop the tables in it, and create others with these names and with code
# that queries of a superuser would run. So a superuser's tables are not created there.
{
	my $h = ShardCluster->new(nodes => 4, add_nodes => 0);
	$h->add_node($_) for 1 .. 3;
	my $refused = sub { my ($schema, $node) = @_; return qr/42501: schema $schema on node "$node" belongs to role "mallory".*HINT: .*ALTER SCHEMA $schema OWNER TO CURRENT_USER/s };
	$h->node_safe_psql($_, 'CREATE ROLE mallory LOGIN') for 1 .. 3;
	$h->node_safe_psql(2, 'CREATE SCHEMA trap AUTHORIZATION mallory; CREATE SCHEMA trap_shards AUTHORIZATION mallory');
	$h->safe_psql(q{CREATE ROLE mallory; CREATE SCHEMA trap; CREATE SCHEMA trap_shards; CREATE SCHEMA calm; CREATE TABLE trap.plain (id int PRIMARY KEY, v int);
		CREATE TABLE trap.empty (id int PRIMARY KEY, v int) PARTITION BY HASH (id);
		CREATE TABLE trap.ranged (id int PRIMARY KEY) PARTITION BY RANGE (id);
		CREATE TABLE trap.moved (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('trap.moved', 'id', 2, '{node1}');
		CREATE TABLE trap.copied (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('trap.copied', 'id', 1, '{node1,node3}', replication_factor => 2);
		CREATE TABLE calm.t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('calm.t', 'id', 3); CREATE TABLE calm.r (id int PRIMARY KEY, v int); SELECT shardfdw.create_reference_table('calm.r');
		CREATE TABLE calm.p (id int PRIMARY KEY, v int)});
	for my $sql (
		q{SELECT shardfdw.shard_table('trap.plain', 'id', 3)},
		q{SELECT shardfdw.shard_table('trap.plain', 'id', 3, mode => 'online')},
		q{SELECT shardfdw.shard_table('trap.empty', shards => 3)},
		q{SELECT shardfdw.create_shard('trap.ranged', 'ranged_1', 'FROM (1) TO (10)', 'node2')},
		q{SELECT shardfdw.create_reference_table('trap.plain')},
		q{SELECT shardfdw.move_shard('trap.moved_00', 'node2', mode => 'block')},
		q{SELECT shardfdw.move_replica('trap.copied_00', 'node3', 'node2')})
	{
		$h->psql_fails_like("$sql;", $refused->('trap', 'node2'), $sql);
	}
	for my $sql (
		q{SELECT shardfdw.set_shards_schema('calm.t', 'trap_shards')},
		q{SELECT shardfdw.shard_table('calm.p', 'id', 3, shards_in => 'trap_shards')},
		q{ALTER FOREIGN TABLE calm.t_01 SET SCHEMA trap_shards},
		q{ALTER TABLE calm.r SET SCHEMA trap_shards})
	{
		$h->psql_fails_like("$sql;", $refused->('trap_shards', 'node2'), $sql);
	}
	is($h->node_safe_psql(2, q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname LIKE 'trap%'}), 0, 'nothing is in her schemas');

	# A schema that she has been given since
	$h->node_safe_psql(1, 'ALTER SCHEMA trap OWNER TO mallory');
	$h->node_safe_psql(3, 'ALTER SCHEMA trap OWNER TO mallory');
	$h->psql_fails_like(q{SELECT shardfdw.split_shard('trap.moved_00', mode => 'block');}, $refused->('trap', 'node1'), 'split_shard');
	$h->safe_psql(q{SELECT shardfdw.disable_node('node3')});
	$h->psql_fails_like(q{SELECT shardfdw.enable_node('node3');}, $refused->('trap', 'node3'), 'enable_node');
	$h->psql_fails_like(q{SELECT shardfdw.import_table('trap.moved', 'dbname=postgres', mode => 'copy');}, $refused->('trap', 'node1'), 'import_table');
	like($h->safe_psql(q{SELECT string_agg(node || ' ' || status, ', ' ORDER BY node) FROM shardfdw.check_cluster() WHERE detail LIKE '%belongs to role "mallory" there%'}), qr/^node1 warning/, 'check_cluster warns');
	$h->node_safe_psql($_, 'ALTER SCHEMA trap OWNER TO CURRENT_USER') for 1 .. 3;
	is($h->safe_psql(q{SELECT shardfdw.enable_node('node3') > 0}), 't', 'the hint helps');

	# Possible owners: another superuser, the owner of the table, and the owner of the schema here
	$h->node_safe_psql($_, 'CREATE ROLE admin SUPERUSER; ALTER SCHEMA trap OWNER TO admin') for 1 .. 3;
	$h->safe_psql(q{SELECT shardfdw.shard_table('trap.plain', 'id', 3)});
	$h->node_safe_psql($_, 'CREATE SCHEMA hers AUTHORIZATION mallory; CREATE SCHEMA hers_here AUTHORIZATION mallory') for 1 .. 3;
	$h->safe_psql(q{CREATE SCHEMA hers; CREATE TABLE hers.t (id int PRIMARY KEY); ALTER TABLE hers.t OWNER TO mallory; SELECT shardfdw.shard_table('hers.t', 'id', 3);
		CREATE SCHEMA hers_here AUTHORIZATION mallory; CREATE TABLE hers_here.t (id int PRIMARY KEY); SELECT shardfdw.shard_table('hers_here.t', 'id', 3)});
	is($h->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE detail LIKE '%belongs to role "mallory" there%'}), 0, 'of which check_cluster does not warn');

	# pg_database_owner is the owner of the database
	$h->node_safe_psql(2, 'ALTER DATABASE postgres OWNER TO mallory');
	$h->safe_psql('CREATE TABLE open_one (id int PRIMARY KEY)');
	$h->psql_fails_like(q{SELECT shardfdw.shard_table('open_one', 'id', 3);}, $refused->('public', 'node2'), 'public, in a database of hers');
	$h->safe_psql(q{ALTER DATABASE postgres OWNER TO mallory; SELECT shardfdw.shard_table('open_one', 'id', 3)});
	is($h->safe_psql('SELECT count(*) FROM open_one'), 0, 'as here');

	# A new node, whose superuser has given her a schema of that name
	$h->node_safe_psql(4, 'CREATE ROLE mallory; CREATE SCHEMA calm AUTHORIZATION mallory');
	my ($host, $port) = $h->node_address(4);
	$h->psql_fails_like("SELECT shardfdw.add_node('node4', '$host', $port, 'postgres');", $refused->('calm', 'node4'), 'add_node');
}

done_testing();
