# Runs every built-in aggregate with a combine function, for each of its argument types. Nodes must
# return partial states, and the answer must be that of a plain table. The role on the nodes is a
# superuser or not, and the nodes have the same or another major (if one is installed). Also tests
# users' aggregates: on nodes that existed before the aggregates and on others, after dump and
# restore, and aggregates that must not be used.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2);
my ($superuser) = $c->node_safe_psql(1, 'SELECT current_user');
my $major = int($c->safe_psql('SHOW server_version_num') / 10000);

# A user-defined aggregate that exists before some of the nodes.
$c->safe_psql(q{
	CREATE SCHEMA ours;
	CREATE FUNCTION ours.add(state float8[], v float8) RETURNS float8[] LANGUAGE sql AS
		'SELECT CASE WHEN v IS NULL THEN state ELSE ARRAY[state[1] + v * v, state[2] + 1] END';
	CREATE FUNCTION ours.merge(a float8[], b float8[]) RETURNS float8[] LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN ARRAY[a[1] + b[1], a[2] + b[2]]; END $$;
	CREATE FUNCTION ours.finish(a float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT sqrt(a[1] / nullif(a[2], 0))';
	CREATE AGGREGATE ours.rms(float8) (SFUNC = ours.add, STYPE = float8[], INITCOND = '{0,0}', COMBINEFUNC = ours.merge, FINALFUNC = ours.finish);
	CREATE AGGREGATE ours.total(bigint) (SFUNC = int8_avg_accum, STYPE = internal, COMBINEFUNC = int8_avg_combine, SERIALFUNC = int8_avg_serialize,
		DESERIALFUNC = int8_avg_deserialize, FINALFUNC = numeric_poly_sum)});

# Nodes whose role is no superuser: other databases of the same servers.
for my $i (1 .. 2)
{
	my ($host, $port) = $c->node_address($i);
	$c->node_safe_psql($i, 'CREATE ROLE app LOGIN');
	$c->node_safe_psql($i, 'CREATE DATABASE app OWNER app TEMPLATE template0');
	$c->safe_psql(qq{SELECT shardfdw.add_node('app$i', '$host', $port, 'app', 'app')});
}
my $options = q{SELECT coalesce(string_agg(o.option_name || '=' || o.option_value, ' ' ORDER BY o.option_name), '')
	FROM pg_foreign_server s, pg_options_to_table(s.srvoptions) o WHERE s.srvname = '%s' AND o.option_name ~ 'partial_aggregates'};
is($c->safe_psql(sprintf $options, 'node1'), 'partial_aggregates=true', 'a superuser of a node makes all partial aggregates');
is($c->safe_psql(sprintf $options, 'app1'), 'missing_partial_aggregates={internal,ours.shardfdw_partial_total} partial_aggregates=true',
	'another role makes those without internal states');

# Nodes of another major.
my %tables = (t => [ 'node1', 'node2' ], u => [ 'app1', 'app2' ]);
my ($other) = grep { -x "$_/bin/postgres" } glob(($ENV{SHARDFDW_CACHE} // '/var/cache/shardfdw') . '/pg16/*/pginstall');
if ($major != 16 && defined $other)
{
	my $node = ShardServer->new('other', install_path => $other);
	$node->init(extra => [ '--no-locale', '-E', 'UTF8' ]);
	$node->append_conf('postgresql.conf', "max_prepared_transactions = 20\nfsync = off\nlisten_addresses = ''\n");
	$node->start;
	$c->safe_psql(sprintf q{SELECT shardfdw.add_node('other', '%s', %d, 'postgres')}, $node->host, $node->port);
	$tables{m} = [ 'node1', 'other' ];
	my $expected = $major == 19 ? qr/partial_int8_avg_accum/ : qr/^partial_aggregates=true$/;
	like($c->safe_psql(sprintf $options, 'other'), $expected, 'partial aggregates on a node of 16 are used where the state has the same bytes');
}

# A value for each type, NULL in group 3; NaN and infinities in groups 4 and 5.
my %values = (
	'smallint' => '(i % 300)::smallint', 'integer' => 'i * 1000', 'bigint' => 'i * 90071992547409::bigint',
	'numeric' => q{CASE WHEN g = 4 AND i % 11 = 1 THEN 'NaN' WHEN g = 5 AND i % 3 = 0 THEN 'Infinity' WHEN g = 1 THEN i / 7.0 ELSE i / 8.0 END::numeric},
	'real' => q{CASE WHEN g = 4 AND i % 11 = 1 THEN 'NaN' WHEN g = 5 AND i % 3 = 0 THEN '-Infinity' ELSE (i % 64) * 0.5 END::real},
	'double precision' => q{CASE WHEN g = 4 AND i % 11 = 1 THEN 'NaN' WHEN g = 5 AND i % 3 = 0 THEN 'Infinity' ELSE i * 0.25 END::float8},
	'interval' => q{make_interval(months => i % 17, days => i % 29, secs => i)}, 'money' => '(i * 1.25)::numeric::money',
	'text' => q{'x' || i % 97}, 'character' => q{('y' || i % 89)::bpchar}, 'bytea' => q{convert_to('b' || i % 97, 'UTF8')},
	'boolean' => 'i % 10 > 0', 'bit' => 'i::bit(12)', 'date' => q{date '2024-01-31' + i}, 'time without time zone' => q{time '00:00' + i * interval '7 min'},
	'time with time zone' => q{(time '00:00' + i * interval '7 min')::timetz}, 'timestamp without time zone' => q{timestamp '2024-01-31' + i * interval '1 h'},
	'timestamp with time zone' => q{timestamptz '2024-01-31' + i * interval '1 h'}, 'oid' => '(i + 16384)::oid', 'tid' => q{format('(%s,%s)', i, i % 100 + 1)::tid},
	'inet' => q{inet '10.0.0.0' + i}, 'pg_lsn' => q{pg_lsn '0/0' + i}, 'xid8' => 'i::text::xid8', 'anyenum' => q{(CASE i % 2 WHEN 0 THEN 'low' ELSE 'high' END)::level},
	'anyarray' => 'ARRAY[i % 7, i]', 'anynonarray' => q{'z' || i % 97}, 'anyelement' => 'i % 1000', '"any"' => 'i', 'record' => 'ROW(i % 7, i)',
	'anyrange' => 'int4range(-i, i + 1000)', 'anymultirange' => 'int4multirange(int4range(-i, 0), int4range(i, 5000))',
);
$values{oid8} = '(i + 16384)::text::oid8' if $major >= 19;
# the declared type of a column of a polymorphic type; values that nodes cannot compare for the
# coordinator are gathered
my %declared = ('bit' => 'bit(12)', 'anyenum' => 'level', 'anyarray' => 'int[]', 'anynonarray' => 'text', 'anyelement' => 'int', '"any"' => 'int', 'record' => 'pair',
	'character' => 'bpchar', 'anyrange' => 'int4range', 'anymultirange' => 'int4multirange');
my %gathered = map { $_ => 1 } 'anyenum', 'record';

my %column;
my $n = 0;
$column{$_} = 'c' . $n++ for sort keys %values;
my $columns = join ', ', map { "$column{$_} " . ($declared{$_} // $_) } sort keys %values;
my $exprs = join ', ', map { my $v = $_ eq 'record' ? 'ROW(i % 7, i)::pair' : $values{$_}; "CASE WHEN g IS DISTINCT FROM 3 AND i % 13 > 0 THEN $v END" } sort keys %values;
$c->safe_psql(qq{CREATE TYPE level AS ENUM ('low', 'high'); CREATE TYPE pair AS (a int, b int)});
for my $server (map { @{ $tables{$_} } } sort keys %tables)
{
	$c->psql(qq{SELECT FROM shardfdw.query_nodes('{$server}', ARRAY['DO \$\$ BEGIN CREATE TYPE public.level AS ENUM (''low'', ''high''); CREATE TYPE public.pair AS (a int, b int); EXCEPTION WHEN OTHERS THEN NULL; END \$\$'], 'autocommit')});
}
$c->safe_psql(qq{
	CREATE TABLE plain (id int, g int, $columns);
	INSERT INTO plain SELECT i, g, $exprs FROM generate_series(1, 1200) i, LATERAL (SELECT nullif(i % 7, 6) AS g) x});
for my $table (sort keys %tables)
{
	$c->safe_psql("CREATE TABLE $table (LIKE plain)");
	$c->shard_table($table, 'id', shards => 6, nodes => $tables{$table});
	$c->safe_psql("INSERT INTO $table SELECT * FROM plain");
}

# The order of values and the last digits of floats are not compared.
$c->safe_psql(q{
	CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE line text; result text := '';
	BEGIN
		FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query LOOP result := result || line || E'\n'; END LOOP;
		RETURN CASE WHEN result ~ 'Finalize' AND result ~ '\(PARTIAL ' AND result ~ 'Shards: 6 of 6' THEN 'partial'
			WHEN result ~ 'Finalize|PARTIAL' THEN result ELSE 'gathered' END;
	END $$;
	CREATE FUNCTION answer(query text, bag boolean) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE result text;
	BEGIN
		EXECUTE format('SELECT string_agg(concat_ws('':'', x.g, %s), E''\n'' ORDER BY x.g) FROM (%s) x',
			CASE WHEN bag THEN $q$(SELECT string_agg(e, '|' ORDER BY e COLLATE "C") FROM regexp_split_to_table(translate(x.r::text, '{}', ''), ',') e)$q$ ELSE 'x.r::text' END, query) INTO result;
		RETURN md5(coalesce(result, '')) || ' ' || left(coalesce(result, ''), 300);
	END $$});

my @queries = ('SELECT 0 AS g, {a} AS r FROM {t}', 'SELECT 0 AS g, {a} AS r FROM {t} WHERE coalesce(g, 0) < 4', 'SELECT g, {a} AS r FROM {t} GROUP BY g',
	'SELECT 0 AS g, {a} AS r FROM {t} WHERE id < 0', 'SELECT g, {a} FILTER (WHERE id % 3 = 0) AS r FROM {t} GROUP BY g HAVING count(*) > 0');
my @aggregates = map { [ split /\t/ ] } split /\n/, $c->safe_psql(q{
	SELECT concat_ws(E'\t', p.oid::regprocedure, p.proname, a.aggtranstype = 'internal'::regtype, array_to_string(ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) t), ';'))
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE a.aggcombinefn <> 0 AND p.oid < 10000 AND a.aggkind = 'n' ORDER BY p.oid::regprocedure::text});
cmp_ok(scalar @aggregates, '>=', 120, 'there are many aggregates with a combine function');

my $algebra = qr/^(avg|sum|stddev|stddev_pop|stddev_samp|variance|var_pop|var_samp)$/;
for my $aggregate (@aggregates)
{
	my ($signature, $name, $internal, $types) = @$aggregate;
	my @types = split /;/, $types // '';
	my $bag = $name =~ /^(string|array)_agg$/ ? 'true' : 'false';

	my @unknown = grep { !defined $values{$_} } @types;
	if (@unknown)
	{
		fail("$signature: values of type @unknown");
		next;
	}
	my $call = $name . '(' . (@types ? join(', ', map { $column{$_} } @types) : '*') . ')';
	$call = "$name(coalesce($column{anyarray}, '{0,0}'))" if $signature eq 'array_agg(anyarray)';
	$call = "$name($column{text}, ',')" if $signature eq 'string_agg(text,text)';
	$call = "$name($column{bytea}, '\\x2c')" if $signature eq 'string_agg(bytea,bytea)';
	$call = "$name($column{'double precision'}, $column{smallint})" if @types == 2 && $types[1] eq 'double precision';
	$call = "$name($column{anynonarray})" if $signature eq 'any_value(anyelement)';
	my $any = $name eq 'any_value';

	my $sql = "SET extra_float_digits = -5; SET bytea_output = escape;\n";
	for my $table (sort keys %tables)
	{
		for my $query (@queries)
		{
			my ($sharded, $plain) = ($query, $query);
			s/\{a\}( FILTER \([^)]*\))?/$call . ($1 \/\/ '') . ($any ? ' IS NOT NULL' : '')/e for $sharded, $plain;
			$sharded =~ s/\{t\}/$table/;
			$plain =~ s/\{t\}/plain/;
			$sql .= "SELECT concat_ws(E'\\t', '$table', plan(\$q\$$sharded\$q\$), CASE WHEN a = p THEN 'same' ELSE format('%s instead of %s in $table', a, p) END)
				FROM answer(\$q\$$sharded\$q\$, $bag) a, answer(\$q\$$plain\$q\$, $bag) p;\n";
		}
	}
	# one session for all queries
	my $out = eval { $c->ask($sql) } // '';
	my $err = $@;
	my $gathered = grep { $gathered{$_} } @types;
	my %expected = map { $_ => $gathered ? 'gathered' : 'partial' } keys %tables;

	# no superuser, no internal state but by algebra
	$expected{u} = 'gathered' if $internal eq 't' && $name !~ $algebra;
	my @wrong = grep { my ($table, $plan, $same) = split /\t/; $plan ne $expected{$table} || $same ne 'same' } split /\n(?=[a-z]\t)/, $out;
	ok($err eq '' && !@wrong && ($out =~ tr/\n//) == @queries * keys(%tables) - 1, "$signature: partial, and the same")
	  or diag("$call\n" . join("\n", @wrong) . "\n$err");
}

# Aggregates of users.
for my $table (sort keys %tables)
{
	for my $call ("ours.rms($column{'double precision'}) FILTER (WHERE g IN (0, 1, 2, 3))", "ours.total($column{bigint})")
	{
		my $expected = $table eq 'u' && $call =~ /total/ ? 'gathered' : 'partial';
		is($c->safe_psql("SELECT plan('SELECT g, $call AS r FROM $table GROUP BY g')"), $expected, "$call on $table: $expected");
		is($c->safe_psql("SET extra_float_digits = -3; SELECT answer('SELECT g, $call AS r FROM $table GROUP BY g', false)"),
			$c->safe_psql("SET extra_float_digits = -3; SELECT answer('SELECT g, $call AS r FROM plain GROUP BY g', false)"), "$call on $table: the same");
	}
}
like($c->safe_psql("EXPLAIN (VERBOSE, COSTS OFF) SELECT id, ours.rms($column{'double precision'}) FROM t GROUP BY id"), qr/Remote SQL: SELECT \((?:id|c1)\)::integer, \(ours\.rms\(/,
	'by the shard key: pushed down whole');

# A role without rights on the nodes creates one: no error, and gathered rows.
$c->safe_psql(q{CREATE ROLE author; GRANT CREATE ON SCHEMA ours TO author; GRANT SELECT ON t, plain TO author});
my ($rc, $out, $err) = $c->psql(q{SET ROLE author; CREATE AGGREGATE ours.lowest(int) (SFUNC = int4smaller, STYPE = int, COMBINEFUNC = int4smaller)});
is($rc, 0, 'CREATE AGGREGATE by a role without USAGE on the nodes');
like($err, qr/NOTICE:  aggregate ours\.lowest\(integer\) is not computed by the nodes\nDETAIL:  USAGE on all nodes/, 'it says why');
is($c->safe_psql("SELECT plan('SELECT ours.lowest(id) FROM t')"), 'gathered', 'it works on gathered rows');
is($c->safe_psql('SELECT ours.lowest(id) FROM t'), '1', 'and gives the answer');
$c->psql_fails_like(q{SET ROLE author; SELECT shardfdw.undistribute_aggregate('ours.rms(float8)');}, qr/42501/, 'partial aggregates of others are not to be dropped');

# A node that is down when an aggregate is created.
$c->stop_node(2);
($rc, $out, $err) = $c->psql('CREATE AGGREGATE ours.highest(int) (SFUNC = int4larger, STYPE = int, COMBINEFUNC = int4larger)');
is($rc, 0, 'CREATE AGGREGATE while a node is down');
like($err, qr/is not computed by the nodes/, 'it says so');
$c->start_node(2);
is($c->safe_psql("SELECT plan('SELECT ours.highest(id) FROM t')"), 'gathered', 'gathered');
is($c->safe_psql("SELECT shardfdw.distribute_aggregate('ours.highest(int)'); SELECT plan('SELECT ours.highest(id) FROM t')"), "t\npartial", 'distributed later');

# check_cluster() compares.
my $check = q{SELECT node, status, detail FROM shardfdw.check_cluster() WHERE check_name = 'partial aggregates' AND node IN ('node1', 'app1') ORDER BY node};
like($c->safe_psql($check), qr/^app1\|ok\|without internal, ours\.shardfdw_partial_total\nnode1\|ok\|all \d+$/, 'check_cluster: as expected');
$c->node_safe_psql(1, 'DROP AGGREGATE shardfdw_internal.partial_int8_accum(bigint), ours.shardfdw_partial_rms(float8)');
like($c->safe_psql($check), qr/^node1\|error\|missing, or of another form: shardfdw_internal\.partial_int8_accum, ours\.shardfdw_partial_rms\(double precision\); SELECT shardfdw\.refresh_node\('node1'\)/m, 'check_cluster finds what is gone');
$c->safe_psql(q{SELECT shardfdw.refresh_node('node1')});
like($c->safe_psql($check), qr/^node1\|ok/m, 'refresh_node mends it');

# Partial aggregates that another role could change must not be used.
$c->node_safe_psql(1, 'CREATE ROLE mallory; CREATE DATABASE squat TEMPLATE template0');
$c->node(1)->safe_psql('squat', q{
	CREATE SCHEMA shardfdw_internal; GRANT USAGE, CREATE ON SCHEMA shardfdw_internal TO mallory; GRANT USAGE ON SCHEMA shardfdw_internal TO PUBLIC;
	SET ROLE mallory;
	CREATE AGGREGATE shardfdw_internal.partial_float8_accum(float8) (SFUNC = float8_accum, STYPE = float8[], INITCOND = '{0,0,0}')});
my ($host, $port) = $c->node_address(1);
$c->safe_psql("SELECT shardfdw.add_node('squat', '$host', $port, 'squat')");
is($c->safe_psql(sprintf $options, 'squat'), 'partial_aggregates=false', 'a schema in which others may create');
$c->node(1)->safe_psql('squat', 'REVOKE CREATE ON SCHEMA shardfdw_internal FROM mallory');
$c->safe_psql("SELECT shardfdw.refresh_node('squat')");
is($c->safe_psql(sprintf $options, 'squat'), 'missing_partial_aggregates={shardfdw_internal.partial_float8_accum} partial_aggregates=true', 'a partial aggregate of another role');
$c->safe_psql("SELECT shardfdw.remove_node('squat')");

# Dumped and restored: the dump contains partial aggregates, and they still belong to their
# aggregates.
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$c->coordinator->command_ok([ 'pg_dump', '-s', '-f', $dump, '-d', $c->coordinator->connstr('postgres') ], 'pg_dump');
$c->safe_psql('CREATE DATABASE restored TEMPLATE template0');
$c->coordinator->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-f', $dump, '-d', $c->coordinator->connstr('restored') ], 'restored without an error');
my $partials = q{SELECT string_agg(concat_ws(' ', aggregate, partial_aggregate), ', ' ORDER BY aggregate::text) FROM shardfdw_internal.user_aggregates()};
is($c->coordinator->safe_psql('restored', $partials), $c->safe_psql($partials), 'partial aggregates of restored aggregates');
unlike(slurp_file($dump), qr/partial_int8_accum/, 'those of built-in aggregates belong to the extension');

# A hostile node: states with any byte changed, cut or added to. Some are other values, all others errors; the server lives.
$c->node_safe_psql(1, 'CREATE DATABASE hostile TEMPLATE template0');
$c->safe_psql("SELECT shardfdw.add_node('hostile', '$host', $port, 'hostile')");
my %states = ('partial_int8_accum' => [ 'stddev(v::bigint)', 'bigint' ], 'partial_int8_avg_accum' => [ 'sum(v::bigint)', 'bigint' ],
	'partial_int4_accum' => [ 'variance(v::int)', 'integer' ], 'partial_numeric_avg_accum' => [ 'avg(v::numeric)', 'numeric' ]);
if ($major >= 16)
{
	$states{partial_array_agg_transfn} = [ 'array_agg(v)', 'anynonarray' ];
	$states{partial_array_agg_array_transfn} = [ 'array_agg(ARRAY[v::text, NULL])', 'anyarray', q{ARRAY[v::text, NULL]} ];
	$states{partial_string_agg_transfn} = [ q{string_agg(v::text, '','')}, 'text, text', q{v::text, ','} ];
}
$c->safe_psql('CREATE TABLE h (id int, v int)');
$c->shard_table('h', 'id', shards => 2, nodes => ['hostile']);
for my $name (sort keys %states)
{
	my ($call, $args, $values) = @{ $states{$name} };
	my $type = $args eq 'anynonarray' ? 'integer' : $args;
	$values //= $args eq 'anynonarray' ? 'v' : "v::$args";
	my $valid = $c->safe_psql("SELECT encode(shardfdw_internal.$name($values), 'hex') FROM generate_series(1, 3) v");
	my @mutants = map { my $i = $_; map { my $m = $valid; substr($m, 2 * $i, 2) = $_; $m } '00', '01', '7f', '80', 'ff' } 0 .. length($valid) / 2 - 1;
	push @mutants, $valid . '00';
	my $ncut = length($valid) / 2;
	push @mutants, map { substr $valid, 0, 2 * $_ } 0 .. $ncut - 1;

	# the aggregated value selects the state
	my $last = $args eq 'text, text' ? 'text, text' : $args;
	my $number = { 'anyarray' => '($2)[1]::text::int', 'text, text' => '$2::int' }->{$args} // '$2::text::int';
	my $list = join ',', map { "'\\x$_'" } @mutants;
	$c->node(1)->safe_psql('hostile', qq{
		CREATE TABLE IF NOT EXISTS states (n serial, state bytea); TRUNCATE states RESTART IDENTITY;
		INSERT INTO states (state) SELECT s FROM unnest(ARRAY[$list]::bytea[]) s;
		CREATE OR REPLACE FUNCTION evil(bytea, $last) RETURNS bytea LANGUAGE sql AS 'SELECT state FROM public.states WHERE n = $number';
		DROP AGGREGATE shardfdw_internal.$name($args);
		CREATE AGGREGATE shardfdw_internal.$name($args) (SFUNC = evil, STYPE = bytea)});
	$c->safe_psql("TRUNCATE h; INSERT INTO h SELECT i, i FROM generate_series(1, " . scalar(@mutants) . ') i');
	my $outcome = $c->safe_psql(qq{
		CREATE FUNCTION pg_temp.attack() RETURNS TABLE (n int, state text) LANGUAGE plpgsql AS \$\$
		DECLARE value text;
		BEGIN
			FOR i IN 1 .. @{[ scalar @mutants ]} LOOP
				n := i; state := '00000';
				BEGIN
					EXECUTE 'SELECT ($call)::text FROM h WHERE v = ' || i INTO value;
				EXCEPTION WHEN OTHERS THEN state := SQLSTATE; END;
				RETURN NEXT;
			END LOOP;
		END \$\$;
		SELECT string_agg(DISTINCT a.state, ' ') FILTER (WHERE a.n <= @{[ @mutants - $ncut ]}), string_agg(DISTINCT a.state, ' ') FILTER (WHERE a.n > @{[ @mutants - $ncut ]}) FROM pg_temp.attack() a});
	my ($changed, $cut) = split /\|/, $outcome;
	like($changed, qr/^00000 (08P01|22)/, "$name: changed bytes");
	like($cut, $name =~ /string_agg/ ? qr/^00000 08P01$/ : qr/^08P01( 22021)?$/, "$name: cut states");
}
is($c->safe_psql('SELECT 1'), '1', 'the server lives');
unlike($c->log_since(0), qr/was terminated by signal/, 'and nothing has crashed');

$c->safe_psql('DROP SCHEMA ours CASCADE');
is($c->safe_psql(q{SELECT count(*) FROM pg_proc WHERE proname ~ '^shardfdw_partial_'}), '0', 'aggregates take their partial aggregates with them');
is($c->node_safe_psql(1, q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'ours'::regnamespace}), '0', 'and the copies on nodes');

done_testing();
