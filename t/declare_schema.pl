# All tables of a sharded schema are on one node. Statements, including DDL, must print and store
# there what they do in a plain schema. The tables must move together to another node, and it must
# be possible to make the schema plain again.

use strict;
use warnings;

use ShardCluster;
use Test::More;
use WireClient;

my $c = ShardCluster->new(nodes => 3, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");

# Runs a script in the plain schema p and in the distributed one h. The output, including SQLSTATEs,
# must be the same.
sub same
{
	my ($name, $script, %opt) = @_;
	my %printed;

	for my $schema ('p', 'h')
	{
		my (undef, $out, $err) = $c->psql("\\set VERBOSITY sqlstate\nSET search_path = $schema;\n$script");
		$err =~ s/^psql:[^:]*:\d+: //mg;
		$printed{$schema} = "$out\n$err";
	}
	is($printed{h}, $printed{p}, $name);
	unlike($printed{p}, qr/ERROR/, "$name: no error") unless $opt{error};
	like($printed{p}, qr/ERROR/, "$name: an error") if $opt{error};
	return;
}

# Returns the node of schema h.
sub home { return $c->safe_psql(q{SELECT node FROM shardfdw.sharded_schemas WHERE schema = 'h'}); }

my $tables = q{
	CREATE TABLE customer (id serial PRIMARY KEY, email text UNIQUE, name text NOT NULL, country int REFERENCES public.country);
	CREATE TABLE product (sku text PRIMARY KEY, price numeric CHECK (price >= 0), tags text[]);
	CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int NOT NULL REFERENCES customer ON DELETE CASCADE,
		at timestamptz DEFAULT '2026-01-01 00:00+00', total numeric);
	CREATE TABLE line (orders bigint REFERENCES orders ON DELETE CASCADE, pos int, sku text REFERENCES product ON UPDATE CASCADE ON DELETE SET NULL, amount int,
		PRIMARY KEY (orders, pos));
	CREATE TABLE booking (room int, during tsrange, EXCLUDE USING gist (during WITH &&));
	CREATE TABLE note (body jsonb, mood text);
	CREATE UNIQUE INDEX note_mood ON note (lower(mood)) WHERE mood <> 'none';
	CREATE TABLE employee (id int PRIMARY KEY, boss int REFERENCES employee DEFERRABLE INITIALLY DEFERRED);
	CREATE INDEX orders_at ON orders (at);
	INSERT INTO customer (email, name, country) SELECT 'c' || i || '@x.org', 'customer ' || i, i % 3 + 1 FROM generate_series(1, 50) i;
	INSERT INTO product SELECT 'p' || i, i * 1.5, ARRAY['t' || i % 5] FROM generate_series(1, 20) i;
	INSERT INTO orders (customer, total) SELECT i % 50 + 1, i FROM generate_series(1, 200) i;
	INSERT INTO line SELECT o, p, 'p' || (o * p % 20 + 1), o % 7 FROM generate_series(1, 200) o, generate_series(1, 3) p;
	INSERT INTO booking VALUES (1, '[2026-01-01, 2026-01-02)');
	INSERT INTO note VALUES ('{"a": 1}', 'good'), ('{"a": 2}', 'none'), ('{"a": 3}', 'none');
	INSERT INTO employee VALUES (1, NULL), (2, 1), (3, 1)};
$c->safe_psql(q{CREATE TABLE country (id int PRIMARY KEY, name text);
	INSERT INTO country VALUES (1, 'A'), (2, 'B'), (3, 'C');
	SELECT shardfdw.create_reference_table('country');
	CREATE SCHEMA p; CREATE SCHEMA h; CREATE SCHEMA other});
$c->safe_psql("SET search_path = $_; $tables") for 'p', 'h';

# refused, with nothing changed
$c->psql_fails_like('SELECT shardfdw.shard_schema(NULL)', qr/22004.*must not be null/s, 'no schema');
$c->psql_fails_like(q{SELECT shardfdw.shard_schema('shardfdw')}, qr/42501.*is a system schema/s, 'our schema');
$c->psql_fails_like(q{SELECT shardfdw.shard_schema('h', 'node9')}, qr/42704/, 'no such node');
$c->psql_fails_like(q{SELECT shardfdw.unshard_schema('h')}, qr/55000.*is not sharded/s, 'not distributed yet');
$c->psql_fails_like(q{SELECT shardfdw.move_schema('h', 'node1')}, qr/55000.*is not sharded/s, 'nothing to move');
$c->psql_fails_like(q{BEGIN; CREATE TABLE other.x (c int REFERENCES h.customer); SELECT shardfdw.shard_schema('h')},
	qr/0A000.*because of foreign key "x_c_fkey" from other.x to h.customer/s, 'a foreign key from outside');
$c->psql_fails_like(q{BEGIN; CREATE TABLE h.parts (a int) PARTITION BY RANGE (a); SELECT shardfdw.shard_schema('h')},
	qr/0A000.*because table h.parts is partitioned/s, 'a partitioned table');
$c->psql_fails_like(q{SELECT shardfdw.shard_schema('public')}, qr/0A000.*because table public.country is a reference table/s, 'a reference table');
$c->psql_fails_like(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT shardfdw.shard_schema('h')}, qr/0A000/, 'one snapshot for all');

is($c->safe_psql(q{SELECT shardfdw.shard_schema('h', 'node2')}), 'node2', 'distributed');
is($c->safe_psql('SELECT * FROM shardfdw.sharded_schemas'), 'h|node2|7', 'it is listed');
is($c->safe_psql(q{SELECT count(*), min(node), max(node) FROM shardfdw.shards s JOIN pg_class c ON c.oid = s.relation WHERE c.relnamespace = 'h'::regnamespace}),
	'8|node2|node2', 'each table is a shard there');
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), '0', 'check_cluster() has nothing to say');
$c->psql_fails_like(q{SELECT shardfdw.shard_schema('h')}, qr/55000.*sharded already, on node "node2"/s, 'distributed already');

# statements
my @statements = (
	[ 'joins and groups', 'SELECT c.name, count(*), sum(l.amount * p.price) FROM customer c JOIN orders o ON o.customer = c.id JOIN line l ON l.orders = o.id
		JOIN product p USING (sku) WHERE c.country = 2 GROUP BY 1 HAVING count(*) > 3 ORDER BY 1' ],
	[ 'a reference table', 'SELECT x.name, count(*) FROM customer c JOIN public.country x ON x.id = c.country GROUP BY 1 ORDER BY 1' ],
	[ 'windows and sub-selects', 'SELECT id, rank() OVER (PARTITION BY customer ORDER BY total DESC), (SELECT count(*) FROM line l WHERE l.orders = o.id) FROM orders o ORDER BY 1 LIMIT 20' ],
	[ 'WITH RECURSIVE', 'WITH RECURSIVE up AS (SELECT id, boss, 0 AS d FROM employee UNION ALL SELECT u.id, e.boss, d + 1 FROM up u JOIN employee e ON e.id = u.boss) SELECT * FROM up ORDER BY 1, 2, 3' ],
	[ 'inserts', q{INSERT INTO customer (email, name) VALUES ('a@x', 'a'), ('b@x', 'b') RETURNING *;
		INSERT INTO orders (customer, total) SELECT id, 7 FROM customer WHERE name IN ('a', 'b') ORDER BY id RETURNING id, customer, at} ],
	[ 'a taken key that only the shard has', q{INSERT INTO customer (email, name) VALUES ('c1@x.org', 'x')}, error => 1 ],
	[ 'a taken index that only the shard has', q{INSERT INTO note VALUES ('{}', 'GOOD')}, error => 1 ],
	[ 'an exclusion', q{INSERT INTO booking VALUES (2, '[2026-01-01 12:00, 2026-01-03)')}, error => 1 ],
	[ 'a broken foreign key', 'INSERT INTO orders (customer) VALUES (999)', error => 1 ],
	[ 'a broken foreign key to a reference table', q{INSERT INTO customer (name, country) VALUES ('x', 9)}, error => 1 ],
	[ 'upserts by a key that only the shard has', q{INSERT INTO customer (email, name) VALUES ('c1@x.org', 'new') ON CONFLICT (email) DO UPDATE SET name = excluded.name || customer.name RETURNING email, name;
		INSERT INTO note VALUES ('{}', 'Good') ON CONFLICT (lower(mood)) WHERE mood <> 'none' DO NOTHING} ],
	[ 'upserts of rows that are computed here', q{INSERT INTO customer (email, name) SELECT 'c' || i || '@x.org', current_setting('search_path') IS NOT NULL FROM generate_series(48, 52) i
		ON CONFLICT (email) DO UPDATE SET name = excluded.name || '!' RETURNING email, name; INSERT INTO product (sku, price) SELECT i::text, random() * 0 FROM generate_series(1, 3) i ON CONFLICT DO NOTHING RETURNING *} ],
	[ 'updates of keys', q{UPDATE product SET sku = 'q' || sku WHERE sku IN ('p1', 'p2') RETURNING sku; SELECT sku, count(*) FROM line WHERE sku LIKE 'q%' GROUP BY 1 ORDER BY 1;
		UPDATE customer SET id = id + 1000 WHERE name = 'a' RETURNING id > 1000} , error => 1 ],
	[ 'updates with joins', 'UPDATE orders o SET total = x.s FROM (SELECT orders, sum(amount) AS s FROM line GROUP BY 1) x WHERE x.orders = o.id AND o.id <= 10; SELECT id, total FROM orders WHERE id <= 12 ORDER BY 1' ],
	[ 'cascades', 'DELETE FROM customer WHERE id = 3; SELECT count(*) FROM orders; SELECT count(*) FROM line; DELETE FROM product WHERE sku = \'p5\'; SELECT count(*) FROM line WHERE sku IS NULL' ],
	[ 'deferred keys', 'BEGIN; INSERT INTO employee VALUES (10, 11); INSERT INTO employee VALUES (11, 1); COMMIT; SELECT * FROM employee ORDER BY 1' ],
	[ 'deferred keys that are broken', 'BEGIN; INSERT INTO employee VALUES (20, 21); SAVEPOINT a; COMMIT', error => 1 ],
	[ 'COPY', "COPY product FROM STDIN (FORMAT csv);\nx1,1,{a}\nx2,2,{b}\n\\.\nCOPY (SELECT * FROM product WHERE sku LIKE 'x%' ORDER BY 1) TO STDOUT" ],
	[ 'MERGE', q{MERGE INTO product p USING (VALUES ('x1', 5), ('x9', 9)) v(sku, price) ON p.sku = v.sku WHEN MATCHED THEN UPDATE SET price = v.price WHEN NOT MATCHED THEN INSERT (sku, price) VALUES (v.sku, v.price);
		SELECT sku, price FROM product WHERE sku LIKE 'x%' ORDER BY 1} ],
	[ 'queues', 'BEGIN; WITH x AS (DELETE FROM line WHERE (orders, pos) IN (SELECT orders, pos FROM line ORDER BY 1, 2 LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING orders, pos) SELECT * FROM x ORDER BY 1, 2; COMMIT' ],
	[ 'a transaction that fails', 'BEGIN; DELETE FROM line; SAVEPOINT a; INSERT INTO line VALUES (1, 1), (1, 1); ROLLBACK TO a; SELECT count(*) FROM line; ROLLBACK; SELECT count(*) FROM line', error => 1 ],
	[ 'TRUNCATE', 'BEGIN; TRUNCATE orders CASCADE; SELECT count(*) FROM line; ROLLBACK; TRUNCATE orders', error => 1 ]);
for my $statement (@statements)
{
	my ($name, $script, %opt) = @$statement;

	same($name, $script, %opt);
}

# statements go to the node unchanged
for my $query ('SELECT count(*) FROM customer c JOIN orders o ON o.customer = c.id JOIN line l ON l.orders = o.id', 'INSERT INTO note SELECT body, NULL FROM note',
	'WITH x AS (DELETE FROM line RETURNING *) SELECT count(*) FROM x', 'SELECT sku, row_number() OVER (ORDER BY price) FROM product')
{
	like($c->safe_psql("SET search_path = h; EXPLAIN (COSTS off) $query"), qr/^Custom Scan \(ShardStatement\)/, "as it stands: $query");
}

# definitions
my @definitions = (
	[ 'a table', q{CREATE TABLE payment (id serial PRIMARY KEY, orders bigint NOT NULL REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED, ref text UNIQUE, CONSTRAINT pay_twice UNIQUE (orders, ref));
		INSERT INTO payment (orders, ref) VALUES (10, 'r1'), (11, 'r2'); SELECT * FROM payment ORDER BY 1} ],
	[ 'its keys hold', q{INSERT INTO payment (orders, ref) VALUES (12, 'r1')}, error => 1 ],
	[ 'its foreign key holds', 'INSERT INTO payment (orders) VALUES (99999)', error => 1 ],
	[ 'its foreign key is deferred', 'BEGIN; INSERT INTO payment (orders) VALUES (99999); DELETE FROM payment WHERE orders = 99999; COMMIT; SELECT count(*) FROM payment' ],
	[ 'IF NOT EXISTS', 'CREATE TABLE IF NOT EXISTS payment (x int); SELECT count(*) FROM payment' ],
	[ 'LIKE and AS', 'CREATE TABLE copy1 (LIKE product INCLUDING ALL); INSERT INTO copy1 SELECT * FROM product; CREATE TABLE copy2 AS SELECT * FROM product WHERE price > 10; SELECT * INTO copy3 FROM copy2;
		SELECT count(*), (SELECT count(*) FROM copy2), (SELECT count(*) FROM copy3) FROM copy1' ],
	[ 'columns', q{ALTER TABLE payment ADD COLUMN code text DEFAULT 'c' UNIQUE}, error => 1 ],
	[ 'columns with keys', q{ALTER TABLE payment ADD COLUMN code int UNIQUE, ADD COLUMN by int REFERENCES customer ON DELETE SET NULL;
		INSERT INTO payment (orders, code, by) VALUES (13, 1, 5); DELETE FROM customer WHERE id = 5; SELECT orders, code, by FROM payment ORDER BY 1} ],
	[ 'keys', 'ALTER TABLE payment ADD CONSTRAINT pay_once UNIQUE (orders) DEFERRABLE; ALTER TABLE payment DROP CONSTRAINT pay_twice; INSERT INTO payment (orders) VALUES (11)', error => 1 ],
	[ 'an index', q{CREATE UNIQUE INDEX pay_ref ON payment (upper(ref)); INSERT INTO payment (orders, ref) VALUES (20, 'R1')}, error => 1 ],
	[ 'the index renamed and dropped', q{ALTER INDEX pay_ref RENAME TO pay_ref2; DROP INDEX pay_ref2; INSERT INTO payment (orders, ref) VALUES (21, 'R1') RETURNING ref} ],
	[ 'constraints renamed and dropped', q{ALTER TABLE payment RENAME CONSTRAINT payment_ref_key TO ref_key; ALTER TABLE payment DROP CONSTRAINT ref_key; INSERT INTO payment (orders, ref) VALUES (22, 'R1') RETURNING ref} ],
	[ 'tables renamed and dropped', 'ALTER TABLE copy1 RENAME TO copy4; SELECT count(*) FROM copy4; DROP TABLE copy4; DROP TABLE copy2, copy3' ],
	[ 'a table without a primary key', 'CREATE TABLE plain1 (a text, b int UNIQUE); ALTER TABLE plain1 ADD PRIMARY KEY (a); INSERT INTO plain1 VALUES (\'x\', 1); INSERT INTO plain1 VALUES (\'x\', 2)', error => 1 ],
	[ 'keys as pg_dump writes them', 'CREATE TABLE dumped (id int NOT NULL, c int, e text); ALTER TABLE ONLY dumped ADD CONSTRAINT dumped_pkey PRIMARY KEY (id);
		ALTER TABLE ONLY dumped ADD CONSTRAINT dumped_e UNIQUE (e); ALTER TABLE ONLY dumped ADD CONSTRAINT dumped_c FOREIGN KEY (c) REFERENCES customer(id) ON DELETE CASCADE; INSERT INTO dumped VALUES (1, 7, \'a\')' ],
	[ 'they hold: primary key', 'INSERT INTO dumped VALUES (1, 7, \'b\')', error => 1 ],
	[ 'they hold: unique key', 'INSERT INTO dumped VALUES (2, 7, \'a\')', error => 1 ],
	[ 'they hold: foreign key', 'INSERT INTO dumped VALUES (2, 7777, \'b\')', error => 1 ],
	[ 'a trigger', q{CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.name := upper(NEW.name); RETURN NEW; END';
		CREATE TRIGGER shout BEFORE INSERT ON customer FOR EACH ROW EXECUTE FUNCTION public.shout();
		INSERT INTO customer (name) VALUES ('quiet') RETURNING name; DROP TRIGGER shout ON customer; DROP FUNCTION public.shout()} ],
	[ 'a table of a range', 'CREATE TABLE ranges (r int4range); INSERT INTO ranges VALUES (\'[1,5)\'), (NULL); SELECT count(*) FROM ranges' ],
	[ 'a view', 'CREATE VIEW rich AS SELECT customer, sum(total) AS s FROM orders GROUP BY 1; SELECT * FROM rich ORDER BY 1 LIMIT 3; DROP VIEW rich' ]);
same(@$_) for @definitions;
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), '0', 'check_cluster() has nothing to say after the definitions');
is($c->safe_psql(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'h'::regnamespace AND relkind = 'r'}), '0', 'no table is here alone');
$c->psql_fails_like('CREATE TABLE h.parts (a int) PARTITION BY HASH (a)', qr/0A000.*because it is partitioned/s, 'no partitioned tables');
is($c->safe_psql(q{CREATE UNLOGGED TABLE h.fast (a int); SELECT string_agg(DISTINCT result, ' ') FROM shardfdw.run_on_nodes($$SELECT relpersistence FROM pg_class WHERE relname = 'fast_00'$$) WHERE result = 'u'; DROP TABLE h.fast}), 'u',
	'unlogged tables are unlogged there');
$c->psql_fails_like('CREATE TABLE h.odd (a json)', qr/0A000.*none of its columns can be hashed/s, 'no table without a column that can be hashed');
$c->psql_fails_like('CREATE TABLE h.odd (a int REFERENCES p.product)', qr/42830|42804|0A000/, 'no foreign keys to tables elsewhere');
$c->psql_fails_like('ALTER TABLE h.note SET SCHEMA other', qr/0A000.*all tables of schema "h" are on one node/s, 'no table leaves the schema');
$c->psql_fails_like('CREATE TABLE other.y (a int); ALTER TABLE other.y SET SCHEMA h', qr/0A000.*all tables of schema "h" are on one node/s, 'or enters it');
$c->psql_fails_like(q{SELECT shardfdw.unshard_table('h.note')}, qr/0A000.*unshard_schema/s, 'no table becomes plain by itself');
$c->psql_fails_like(q{SELECT shardfdw.split_shard('h.note_00')}, qr/0A000.*all tables of schema "h" are on one node/s, 'none is split');
is($c->safe_psql('SELECT count(*) FROM pg_class WHERE relnamespace = \'h\'::regnamespace AND relname IN (\'parts\', \'fast\', \'odd\')'), '0', 'what failed has left nothing');

# a second schema on the same node, with the same keys, stays when the first one moves
$c->safe_psql('CREATE SCHEMA h2; SET search_path = h2; CREATE TABLE customer (id int PRIMARY KEY, v text); INSERT INTO customer VALUES (1, \'x\')');
is($c->safe_psql(q{SELECT shardfdw.shard_schema('h2')}), 'node1', 'by default the node with the fewest schemas');
$c->safe_psql(q{SELECT shardfdw.move_schema('h2', 'node2', mode => 'block')});
for my $mode ('online', 'block')
{
	my $to = $mode eq 'online' ? 'node3' : 'node1';

	$c->safe_psql(q{ALTER TABLE h.note REPLICA IDENTITY FULL; ALTER TABLE h.booking REPLICA IDENTITY FULL}) if $mode eq 'online';
	$c->safe_psql(qq{SELECT shardfdw.move_schema('h', '$to', mode => '$mode')});
	is(home(), $to, "moved, $mode");
	is($c->safe_psql(q{SELECT string_agg(DISTINCT node, ',') FROM shardfdw.shards s JOIN pg_class c ON c.oid = s.relation WHERE c.relnamespace = 'h'::regnamespace}), $to, "all of it, $mode");
	is($c->safe_psql(q{SELECT node FROM shardfdw.sharded_schemas WHERE schema = 'h2'}), 'node2', "and nothing else, $mode");
	same("rows after the move, $mode", 'SELECT count(*), sum(id) FROM customer; SELECT count(*), sum(amount) FROM line; SELECT * FROM note ORDER BY body');
	same("keys after the move, $mode: $_->[0]", $_->[1], error => 1) for grep { $_->[0] =~ /^a taken|exclusion|broken foreign key/ } @statements;
	same("a new table after the move, $mode", "CREATE TABLE new_$mode (id int PRIMARY KEY, c int REFERENCES customer ON DELETE CASCADE); INSERT INTO new_$mode VALUES (1, 7); SELECT * FROM new_$mode");
}
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.check_cluster() WHERE status = 'error'}), '0', 'check_cluster() has nothing to say after the moves');

# a new schema has no tables yet; a role that owns nothing else creates tables
$c->safe_psql(q{CREATE ROLE tenant LOGIN; GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO tenant; CREATE SCHEMA h3 AUTHORIZATION tenant;
	CREATE USER MAPPING FOR tenant SERVER node1 OPTIONS (user 'postgres', password_required 'false'); CREATE USER MAPPING FOR tenant SERVER node2 OPTIONS (user 'postgres', password_required 'false');
	CREATE USER MAPPING FOR tenant SERVER node3 OPTIONS (user 'postgres', password_required 'false');
	SELECT shardfdw.shard_schema('h3', 'node3'); GRANT CREATE ON DATABASE postgres TO tenant});
is($c->safe_psql(q{SET ROLE tenant; CREATE TABLE h3.t (id int PRIMARY KEY, v text UNIQUE); INSERT INTO h3.t SELECT i, i FROM generate_series(1, 10) i; SELECT count(*) FROM h3.t}), '10', 'the owner of a schema makes tables');
is($c->safe_psql(q{SELECT node FROM shardfdw.shards WHERE relation = 'h3.t'::regclass}), 'node3', 'on its node');
is($c->safe_psql(q{ALTER SCHEMA h3 RENAME TO h4; CREATE TABLE h4.u (id int); SELECT node FROM shardfdw.shards WHERE relation = 'h4.u'::regclass}), 'node3', 'it may get another name');
$c->safe_psql('DROP SCHEMA h4 CASCADE');
is($c->node_safe_psql(3, q{SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname IN ('h3', 'h4') AND relkind = 'r'}), '0', 'and be dropped, there, too');

# other sessions create tables in the schema at the same time: no table may be left on the
# coordinator only
{
	my $client = WireClient->new($c->coordinator, 'postgres');
	my $waits = q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '%s' AND wait_event_type = 'Lock'};

	$c->safe_psql('CREATE SCHEMA beside');
	$client->query('BEGIN');
	$client->query('CREATE TABLE beside.t1 (id int)');
	my $other = $c->start_sql(q{SELECT shardfdw.shard_schema('beside', 'node3')}, name => 'distributes');
	$c->wait_for(sprintf $waits, 'distributes');
	$client->query('COMMIT');
	is(($c->wait_sql($other))[0], 0, 'shard_schema() waits for who makes a table in the schema');
	is($c->safe_psql(q{SELECT node FROM shardfdw.shards WHERE relation = 'beside.t1'::regclass}), 'node3', 'and takes the table along');
	$client->query('BEGIN');
	$client->query(q{SELECT shardfdw.unshard_schema('beside')});
	$other = $c->start_sql('CREATE TABLE beside.t2 (id int)', name => 'creates');
	$c->wait_for(sprintf $waits, 'creates');
	$client->query('COMMIT');
	is(($c->wait_sql($other))[0], 0, 'who makes a table waits for unshard_schema()');
	is($c->safe_psql(q{SELECT relkind FROM pg_class WHERE oid = 'beside.t2'::regclass}), 'r', 'and makes a plain one');
	$client->query('BEGIN');
	$client->query(q{SELECT shardfdw.shard_schema('beside', 'node3')});
	$other = $c->start_sql('CREATE TABLE beside.t3 (id int)', name => 'creates_more');
	$c->wait_for(sprintf $waits, 'creates_more');
	$client->query('COMMIT');
	is(($c->wait_sql($other))[0], 0, 'or for shard_schema()');
	is($c->safe_psql(q{SELECT node FROM shardfdw.shards WHERE relation = 'beside.t3'::regclass}), 'node3', 'and makes one on the node');
	$c->safe_psql('EXPLAIN (ANALYZE, COSTS off) CREATE TABLE beside.t4 AS SELECT 1 AS id');
	$c->safe_psql('EXPLAIN CREATE TABLE beside.t5 AS SELECT 1 AS id');
	is($c->safe_psql(q{SELECT node FROM shardfdw.shards WHERE relation = 'beside.t4'::regclass}), 'node3', 'EXPLAIN ANALYZE, too');
	$c->psql_fails_like("$_", qr/0A000.*all tables of schema "beside" are on one node/s, $_)
	  for 'ALTER TABLE beside.t3 DETACH PARTITION beside.t3_00', q{SELECT shardfdw.create_shard('beside.t3', 't3_01', 'WITH (MODULUS 2, REMAINDER 1)', 'node1')};
	$c->psql_fails_like("$_", qr/2BP01.*says where the tables of schema "beside" are/s, $_)
	  for 'DROP TABLE beside.shardfdw_home', 'DROP FOREIGN TABLE beside.shardfdw_home_00', 'ALTER TABLE beside.shardfdw_home RENAME TO x', 'ALTER TABLE beside.shardfdw_home DETACH PARTITION beside.shardfdw_home_00';
	$c->safe_psql('DROP SCHEMA beside CASCADE');
}

# a role that may create tables in a schema does not choose the node of other roles' tables
$c->safe_psql(q{CREATE SCHEMA public_house; GRANT ALL ON SCHEMA public_house TO tenant; CREATE SCHEMA house; GRANT ALL ON SCHEMA house TO tenant; CREATE TABLE house.shardfdw_home (id int) PARTITION BY HASH (id); ALTER TABLE house.shardfdw_home OWNER TO tenant; SET ROLE tenant;
	RESET shardfdw.enable_ddl_propagation;
	SELECT shardfdw.shard_table('house.shardfdw_home', shards => 1, nodes => '{node3}')});
$c->psql_fails_like("SET ROLE tenant; $_", qr/42501.*must be owner of schema/s, "a guest: $_")
  for 'CREATE TABLE public_house.shardfdw_home (id int) PARTITION BY HASH (id)', 'CREATE TABLE public_house.x (id int); ALTER TABLE public_house.x RENAME TO shardfdw_home';
$c->psql_fails_like('CREATE TABLE house.mine (id int)', qr/42501.*does not belong to the owner of the schema/s, 'a table of a guest does not say where tables go');
is($c->safe_psql('ALTER TABLE house.shardfdw_home OWNER TO postgres; CREATE TABLE house.mine (id int); DROP SCHEMA house CASCADE; SELECT 1'), '1', 'one of the owner does');

# code of the owners of tables is not run as a superuser
$c->safe_psql(q{CREATE SCHEMA code AUTHORIZATION tenant; SET ROLE tenant; CREATE FUNCTION code.f(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1; END';
	CREATE TABLE code.t (id int PRIMARY KEY, v int); CREATE UNIQUE INDEX ON code.t (code.f(v)); INSERT INTO code.t VALUES (1, 1)});
$c->psql_fails_like(q{SELECT shardfdw.shard_schema('code', 'node1')}, qr/42501.*would run with the rights of/s, 'nor code of their tables');
$c->safe_psql('DROP SCHEMA code CASCADE');
$c->safe_psql(q{CREATE SCHEMA apart AUTHORIZATION tenant; SELECT shardfdw.shard_schema('apart', 'node1'); SET shardfdw.enable_ddl_propagation = off; CREATE TABLE apart.other (id int) PARTITION BY HASH (id); RESET shardfdw.enable_ddl_propagation;
	SELECT shardfdw.shard_table('apart.other', shards => 1, nodes => '{node3}')});
is($c->safe_psql(q{SELECT node, detail FROM shardfdw.check_cluster() WHERE check_name = 'schemas'}), 'node1|table apart.other is not there with the other tables of its schema', 'check_cluster() names a table that is elsewhere');
$c->psql_fails_like(q{SELECT shardfdw.unshard_schema('apart')}, qr/55000.*apart.other is not on node "node1"/s, 'no other node is asked what the tables are like');
$c->safe_psql('DROP SCHEMA apart CASCADE');

# a node's text for a constraint is not run as a command
$c->safe_psql(q{CREATE SCHEMA lies; CREATE TABLE lies.t (id int PRIMARY KEY, v int UNIQUE); SELECT shardfdw.shard_schema('lies', 'node1');
	CREATE TABLE lied (id int PRIMARY KEY, c int REFERENCES country); SELECT shardfdw.shard_table('lied', 'id', 1, '{node1}'); CREATE TABLE kept (id int)});
my $lie = q{SET allow_system_table_mods = on; ALTER FUNCTION pg_catalog.pg_get_constraintdef(oid) RENAME TO pg_get_constraintdef_real;
	CREATE FUNCTION pg_catalog.pg_get_constraintdef(oid) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'CHECK (true); DROP TABLE kept; --'::text $$};
$c->node_safe_psql(1, $lie);
$c->psql_fails_like($_, qr/08P01.*is no definition of a constraint/s, "$_ of a node that lies")
  for q{SELECT shardfdw.unshard_schema('lies')}, q{SELECT shardfdw.unshard_table('lied')}, q{SELECT shardfdw.unshard_table('lied', mode => 'online')};
$c->node_safe_psql(1, q{SET allow_system_table_mods = on; CREATE OR REPLACE FUNCTION pg_catalog.pg_get_constraintdef(oid) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'CHECK (pg_notify(''x'', ''y'') IS NULL)'::text $$});
$c->psql_fails_like(q{SELECT shardfdw.unshard_schema('lies')}, qr/08P01.*is no definition of a constraint/s, 'nor a CHECK that calls functions');
$c->node_safe_psql(1, q{SET allow_system_table_mods = on; DROP FUNCTION pg_catalog.pg_get_constraintdef(oid); ALTER FUNCTION pg_catalog.pg_get_constraintdef_real(oid) RENAME TO pg_get_constraintdef});
is($c->safe_psql(q{SELECT count(*) FROM kept; DROP SCHEMA lies CASCADE; DROP TABLE lied, kept}), '0', 'nothing of it was run');

# a plain index next to a unique index of the same columns is a separate index
$c->safe_psql('CREATE SCHEMA twin');
$c->safe_psql(q{SELECT shardfdw.shard_schema('twin', 'node1'); CREATE TABLE twin.t (id int, v int UNIQUE); CREATE INDEX ON twin.t (v)});
is($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'two indexes of the same columns');
$c->node_safe_psql(1, q{SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index WHERE indrelid = 'twin.t_00'::regclass AND NOT indisunique \gexec});
like($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster() WHERE status = 'error'}), qr/^indexes only here: INDEX btree \(v\)$/, 'one of them is missing');
$c->safe_psql('DROP SCHEMA twin CASCADE');

# nor can a foreign key of a table on the node refer to tables of other roles
$c->safe_psql(q{CREATE SCHEMA secret; CREATE TABLE secret.users (id int PRIMARY KEY); CREATE SCHEMA sly; CREATE TABLE sly.t (id int PRIMARY KEY, x int); SELECT shardfdw.shard_schema('sly', 'node1')});
$c->node_safe_psql(1, q{CREATE SCHEMA secret; CREATE TABLE secret.users (id int PRIMARY KEY); ALTER TABLE sly.t_00 ADD CONSTRAINT evil FOREIGN KEY (x) REFERENCES secret.users (id)});
$c->psql_fails_like(q{SELECT shardfdw.unshard_schema('sly')}, qr/08P01.*foreign key "evil" of a node references a table that the coordinator does not expect.*secret\.users/s, 'a foreign key to a table of another schema');
$c->node_safe_psql(1, 'ALTER TABLE sly.t_00 DROP CONSTRAINT evil; DROP SCHEMA secret CASCADE');
$c->safe_psql(q{SELECT shardfdw.unshard_schema('sly'); DROP SCHEMA sly, secret CASCADE});

# a table that replaces a renamed one, as in migrations
$c->safe_psql(q{CREATE SCHEMA swaps; CREATE TABLE swaps.job (id int PRIMARY KEY, v text); SELECT shardfdw.shard_schema('swaps', 'node1'); INSERT INTO swaps.job VALUES (1, 'old');
	ALTER TABLE swaps.job RENAME TO job_old; CREATE TABLE swaps.job (id bigint PRIMARY KEY, v text); INSERT INTO swaps.job SELECT * FROM swaps.job_old; ALTER TABLE swaps.job RENAME TO job_newer; CREATE TABLE swaps.job AS TABLE swaps.job_newer});
is($c->safe_psql('SELECT (SELECT count(*) FROM swaps.job_old), (SELECT count(*) FROM swaps.job_newer), (SELECT v FROM swaps.job)'), '1|1|old', 'a name that is taken over');
is($c->safe_psql(q{SELECT detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'all are there');
my $long = "\x{e9}" x 31;
utf8::encode($long);
$c->safe_psql(qq{CREATE TABLE swaps.$long (id int); INSERT INTO swaps.$long VALUES (1); ALTER TABLE swaps.$long RENAME TO short; CREATE TABLE swaps.$long (id int); INSERT INTO swaps.$long VALUES (2)});
is($c->safe_psql(qq{SELECT (SELECT id FROM swaps.short), (SELECT id FROM swaps.$long)}), '1|2', 'the same with a long name');
$c->safe_psql(q{SELECT shardfdw.unshard_schema('swaps'); DROP SCHEMA swaps CASCADE});

# A tenant's role also exists on the nodes. The tenant must keep the schema when another role moves
# it.
$c->node_safe_psql($_, q{CREATE ROLE settler LOGIN; CREATE ROLE lodger; DO $$BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO settler', current_database()); END$$}) for 1, 2;
$c->safe_psql(q{CREATE ROLE settler LOGIN; CREATE SCHEMA settled AUTHORIZATION settler; GRANT USAGE ON FOREIGN SERVER node1, node2 TO settler;
	CREATE USER MAPPING FOR settler SERVER node1 OPTIONS (user 'settler', password_required 'false'); CREATE USER MAPPING FOR settler SERVER node2 OPTIONS (user 'settler', password_required 'false');
	SET ROLE settler; SELECT shardfdw.shard_schema('settled', 'node1'); CREATE TABLE settled.t (id int PRIMARY KEY); INSERT INTO settled.t VALUES (1)});
$c->node_safe_psql(1, 'GRANT USAGE ON SCHEMA settled TO lodger');
$c->safe_psql(q{SELECT shardfdw.move_schema('settled', 'node2', mode => 'block')});
is($c->safe_psql('SET ROLE settler; INSERT INTO settled.t VALUES (2); CREATE TABLE settled.u (a int); SELECT sum(id) FROM settled.t'), '3', 'a tenant goes on after a move by a superuser');
is($c->node_safe_psql(2, q{SELECT pg_get_userbyid(nspowner), has_schema_privilege('lodger', oid, 'USAGE') FROM pg_namespace WHERE nspname = 'settled'}), 'settler|t', 'the schema is his, and privileges go along');
$c->node_safe_psql(2, 'REVOKE USAGE ON SCHEMA settled FROM lodger; GRANT USAGE ON SCHEMA settled TO PUBLIC');
$c->safe_psql(q{SELECT shardfdw.move_schema('settled', 'node1', mode => 'block')});
is($c->node_safe_psql(1, q{SELECT pg_get_userbyid(nspowner), nspacl FROM pg_namespace WHERE nspname = 'settled'}), 'settler|{settler=UC/settler,=U/settler}', 'also to where it has been before');
$c->safe_psql('DROP SCHEMA settled CASCADE; DROP OWNED BY settler; DROP ROLE settler');

# nor does an index or an exclusion constraint run code of other roles with the rights of the
# table's owner
$c->safe_psql(q{CREATE ROLE planter; CREATE SCHEMA planted AUTHORIZATION planter; CREATE SCHEMA prey; CREATE TABLE prey.t (id int PRIMARY KEY, v int); INSERT INTO prey.t VALUES (1, 1); SELECT shardfdw.shard_schema('prey', 'node1');
	SET ROLE planter; CREATE FUNCTION planted.evil(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN PERFORM planted.vol(); END IF; RETURN $1; END';
	CREATE FUNCTION planted.vol() RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE 'ALTER ROLE planter SUPERUSER'; END$$;
	CREATE OPERATOR planted.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq, COMMUTATOR = OPERATOR(planted.===)); CREATE DOMAIN planted.number AS int CHECK (planted.evil(value) > 0)});
$c->node_safe_psql(1, q{CREATE SCHEMA planted; CREATE FUNCTION planted.evil(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1'; CREATE DOMAIN planted.number AS int});
for my $index ('CREATE UNIQUE INDEX evil ON prey.t_00 (planted.evil(v))', 'CREATE UNIQUE INDEX evil ON prey.t_00 (v) WHERE planted.evil(v) > 0', 'CREATE UNIQUE INDEX evil ON prey.t_00 ((v::planted.number + 1))',
	'ALTER TABLE prey.t_00 ADD CONSTRAINT evil EXCLUDE USING btree (planted.evil(v) WITH =)', 'ALTER TABLE prey.t_00 ADD CONSTRAINT evil EXCLUDE USING btree (v WITH =) WHERE (planted.evil(v) > 0)')
{
	$c->node_safe_psql(1, $index);
	$c->psql_fails_like(q{SELECT shardfdw.unshard_schema('prey')}, qr/42501.*would run code of others with the rights of the table's owner/s, $index);
	$c->node_safe_psql(1, $index =~ /CONSTRAINT/ ? 'ALTER TABLE prey.t_00 DROP CONSTRAINT evil' : 'DROP INDEX prey.evil');
}
is($c->safe_psql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'planter'}), 'f', 'nothing of it was run');
$c->node_safe_psql(1, 'CREATE FUNCTION prey.good(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT -$1$$; CREATE UNIQUE INDEX good ON prey.t_00 (prey.good(v), lower(v::text)) WHERE v > 0');
$c->safe_psql(q{CREATE FUNCTION prey.good(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$SELECT -$1$$; SELECT shardfdw.unshard_schema('prey')});
is($c->safe_psql(q{SELECT pg_get_indexdef('prey.good'::regclass)}), 'CREATE UNIQUE INDEX good ON prey.t USING btree (prey.good(v), lower((v)::text)) WHERE (v > 0)', 'one of the owner is made');
$c->safe_psql('DROP SCHEMA prey, planted CASCADE; DROP ROLE planter');
$c->node_safe_psql(1, 'DROP SCHEMA planted CASCADE');

# a role that may only create tables in a schema does not choose the node of other roles' tables,
# whatever it has switched off
$c->safe_psql('CREATE ROLE passing_by; CREATE SCHEMA open_to_all; GRANT ALL ON SCHEMA open_to_all TO passing_by; CREATE TABLE open_to_all.mine (id int)');
$c->psql_fails_like("SET ROLE passing_by; SET shardfdw.enable_ddl_propagation = off; $_", qr/42501.*must be owner of schema open_to_all to make table "shardfdw_home"/s, "a guest: $_")
  for 'CREATE TABLE open_to_all.shardfdw_home (id int) PARTITION BY HASH (id)', 'CREATE TABLE open_to_all.x (id int) PARTITION BY HASH (id); ALTER TABLE open_to_all.x RENAME TO shardfdw_home';
$c->safe_psql('DROP SCHEMA open_to_all CASCADE; DROP ROLE passing_by');

# nodes are emptied, schemas with them
$c->safe_psql(q{SELECT shardfdw.drain_node('node2', mode => 'block')});
is($c->safe_psql(q{SELECT count(*) FROM shardfdw.shards WHERE node = 'node2'}), '0', 'a node is drained of schemas');
same('rows after the drain', 'SELECT count(*), sum(id) FROM customer');

# and back
$c->safe_psql(q{SELECT shardfdw.unshard_schema('h')});
is($c->safe_psql(q{SELECT count(*) FROM pg_class WHERE relnamespace = 'h'::regnamespace AND relkind IN ('p', 'f')}), '0', 'plain tables again');
same('rows are the same', join ';', map { "SELECT count(*), md5(string_agg(x::text, '|' ORDER BY x::text)) FROM $_ x" } qw(customer product orders line booking note employee payment plain1));
my $constraints = q{SELECT string_agg(format('%s %s %s', c.relname, k.conname, replace(pg_get_constraintdef(k.oid), 'h.', 'p.')), E'\n' ORDER BY c.relname, k.conname) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
	WHERE k.contype <> 'n' AND c.relnamespace = '%s'::regnamespace};
my $indexes = q{SELECT string_agg(replace(pg_get_indexdef(indexrelid), ' h.', ' p.'), E'\n' ORDER BY indexrelid::regclass::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = '%s'::regnamespace};
for my $query ($constraints, $indexes)
{
	my ($h, $p) = map { my $q = $query; $q =~ s/'%s'::regnamespace/'$_'::regnamespace/; $c->safe_psql("SET search_path = pg_catalog; $q") } 'h', 'p';

	is($h, $p, 'so are constraints and indexes');
}

done_testing();
