# scripts/advise says what statements would do on sharded tables, before anything is sharded. Its
# verdicts must be those of EXPLAIN after the tables were sharded and filled. It must survive
# whatever statements and names contain, and must not write to the present server.

use strict;
use warnings;

use Browser;
use JSON::PP;
use PostgreSQL::Test::Utils;
use ShardCluster;
use Test::More;

my $c = ShardCluster->new(nodes => 2,
	coordinator_conf => "shared_preload_libraries = 'shardfdw, pg_stat_statements'\n");
my $server = $c->coordinator;
my $folder = PostgreSQL::Test::Utils::tempdir();

# advise(database, options): (exit code, the report, stderr, verdicts by the number in a
# statement's comment)
sub advise
{
	my ($database, @options) = @_;
	my ($out, $err);
	my @command = ('scripts/advise', '--bindir', $server->config_data('--bindir'),
		'--json', "$folder/out.json", @options, $server->connstr($database));
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err);
	my $rows = $ok ? decode_json(slurp_file("$folder/out.json")) : [];
	my %found = map { $_->{query} =~ m{/\* s(\d+) \*/} ? ($1 => $_) : () } @$rows;
	return ($ok ? 0 : 1, $out, $err, \%found);
}

# ---------- three workloads ----------

# In the present database, keys and foreign keys are those of applications. +key is added to the
# primary key when the table is sharded. Foreign keys, whose names begin with "fk", are left out
# then.
my $definitions = q{
	CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
	CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
	CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
	CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler
		char(22));
	INSERT INTO pgbench_branches SELECT i, 0 FROM generate_series(1, 5) i;
	INSERT INTO pgbench_tellers SELECT i, 1 + i % 5, 0 FROM generate_series(1, 50) i;
	INSERT INTO pgbench_accounts SELECT i, 1 + i % 5, i % 100 FROM generate_series(1, 20000) i;
	INSERT INTO pgbench_history SELECT 1 + i % 50, 1 + i % 5, 1 + i % 20000, i, '2026-01-01' FROM
		generate_series(1, 5000) i;

	CREATE TABLE auth_user (id int PRIMARY KEY, username varchar(150) UNIQUE, is_active bool,
		last_login timestamptz);
	CREATE TABLE django_session (session_key varchar(40) PRIMARY KEY, session_data text, expire_date
		timestamptz);
	CREATE TABLE shop_company (id int PRIMARY KEY, name varchar(100), plan varchar(20));
	CREATE TABLE shop_product (id bigint, company_id int, name text, price numeric(10,2), tags
		jsonb, PRIMARY KEY (+company_id, id));
	CREATE TABLE shop_order (id bigint, company_id int, user_id int, created timestamptz, status
		varchar(20), total numeric(10,2),
		PRIMARY KEY (+company_id, id));
	CREATE TABLE shop_item (id bigint, company_id int, order_id bigint, product_id bigint, quantity
		int, PRIMARY KEY (+company_id, id));
	CREATE INDEX ON shop_order (company_id);
	CREATE INDEX ON shop_item (order_id);
	fk ALTER TABLE shop_product ADD FOREIGN KEY (company_id) REFERENCES shop_company;
	fk ALTER TABLE shop_order ADD FOREIGN KEY (company_id) REFERENCES shop_company, ADD FOREIGN KEY
		(user_id) REFERENCES auth_user;
	fk ALTER TABLE shop_item ADD FOREIGN KEY (order_id) REFERENCES shop_order, ADD FOREIGN KEY
		(product_id) REFERENCES shop_product;
	INSERT INTO auth_user SELECT i, 'user ' || i, i % 7 > 0, '2026-01-01' FROM generate_series(1,
		300) i;
	INSERT INTO django_session SELECT md5(i::text), 'data', '2026-01-01' FROM generate_series(1,
		300) i;
	INSERT INTO shop_company SELECT i, 'company ' || i, 'plan ' || i % 3 FROM generate_series(1, 40) i;
	INSERT INTO shop_product SELECT i, 1 + i % 40, 'product ' || i, i % 90, '{}' FROM
		generate_series(1, 2000) i;
	INSERT INTO shop_order SELECT i, 1 + i % 40, 1 + i % 300, timestamptz '2026-01-01' + i *
		interval '1 hour', 'paid', i % 500
		FROM generate_series(1, 8000) i;
	INSERT INTO shop_item SELECT i, 1 + i % 40, 1 + i % 8000, 1 + i % 2000, i % 9 FROM
		generate_series(1, 16000) i;

	CREATE SCHEMA tpcc;
	CREATE TABLE tpcc.item (i_id int PRIMARY KEY, i_name varchar(24), i_price numeric(5,2));
	CREATE TABLE tpcc.warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_tax numeric(4,4), w_ytd
		numeric(12,2));
	CREATE TABLE tpcc.district (d_w_id int, d_id int, d_tax numeric(4,4), d_ytd numeric(12,2),
		d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
	CREATE TABLE tpcc.customer (c_w_id int, c_d_id int, c_id int, c_last varchar(16), c_balance
		numeric(12,2), c_data text,
		PRIMARY KEY (c_w_id, c_d_id, c_id));
	CREATE TABLE tpcc.oorder (o_w_id int, o_d_id int, o_id int, o_c_id int, o_carrier_id int,
		o_entry_d timestamp,
		PRIMARY KEY (o_w_id, o_d_id, o_id));
	CREATE TABLE tpcc.new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id,
		no_d_id, no_o_id));
	CREATE TABLE tpcc.order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int,
		ol_quantity int,
		ol_amount numeric(6,2), ol_delivery_d timestamp, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id,
		ol_number));
	CREATE TABLE tpcc.stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, PRIMARY KEY (s_w_id,
		s_i_id));
	CREATE TABLE tpcc.history (h_c_id int, h_w_id int, h_date timestamp, h_amount numeric(6,2));
	INSERT INTO tpcc.item SELECT i, 'item ' || i, 1 FROM generate_series(1, 200) i;
	INSERT INTO tpcc.warehouse SELECT i, 'w' || i, 0, 0 FROM generate_series(1, 8) i;
	INSERT INTO tpcc.district SELECT w, d, 0, 0, 100 FROM generate_series(1, 8) w,
		generate_series(1, 10) d;
	INSERT INTO tpcc.customer SELECT w, d, i, 'name' || i % 10, 0, '' FROM generate_series(1, 8) w,
		generate_series(1, 10) d,
		generate_series(1, 30) i;
	INSERT INTO tpcc.oorder SELECT w, d, i, i % 30, 1, '2026-01-01' FROM generate_series(1, 8) w,
		generate_series(1, 10) d,
		generate_series(1, 50) i;
	INSERT INTO tpcc.new_order SELECT w, d, i FROM generate_series(1, 8) w, generate_series(1, 10)
		d, generate_series(40, 50) i;
	INSERT INTO tpcc.order_line SELECT w, d, i, n, i * 3, 5, 7, NULL FROM generate_series(1, 8) w,
		generate_series(1, 10) d,
		generate_series(1, 50) i, generate_series(1, 5) n;
	INSERT INTO tpcc.stock SELECT w, i, 50, 0 FROM generate_series(1, 8) w, generate_series(1, 200) i;
	INSERT INTO tpcc.history SELECT 1, w, '2026-01-01', 5 FROM generate_series(1, 8) w;
	ANALYZE;
};
my @keys = (
	[ 'pgbench_accounts', 'aid' ], [ 'pgbench_history', 'aid' ],
	[ 'shop_company', 'id' ], map({ [ "shop_$_", 'company_id' ] } qw(product order item)),
	[ 'tpcc.warehouse', 'w_id' ], [ 'tpcc.district', 'd_w_id' ], [ 'tpcc.customer', 'c_w_id' ],
	[ 'tpcc.oorder', 'o_w_id' ], [ 'tpcc.new_order', 'no_w_id' ], [ 'tpcc.order_line', 'ol_w_id' ],
	[ 'tpcc.stock', 's_w_id' ], [ 'tpcc.history', 'h_w_id' ]);
my @references = ('pgbench_tellers', 'auth_user', 'tpcc.item');
my @local = qw(pgbench_branches django_session);

my @statements = split /;\s*\n/, q{
	UPDATE pgbench_accounts SET abalance = abalance + 17 WHERE aid = 42;
	SELECT abalance FROM pgbench_accounts WHERE aid = 42;
	UPDATE pgbench_tellers SET tbalance = tbalance + 17 WHERE tid = 3;
	UPDATE pgbench_branches SET bbalance = bbalance + 17 WHERE bid = 1;
	INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (3, 1, 42, 17, CURRENT_TIMESTAMP);
	SELECT count(*) FROM pgbench_accounts;
	SELECT sum(abalance) FROM pgbench_accounts WHERE bid = 3;
	SELECT a.bid, avg(h.delta) FROM pgbench_accounts a JOIN pgbench_history h USING (aid) GROUP BY
		a.bid;
	SELECT t.tid, sum(h.delta) FROM pgbench_history h JOIN pgbench_tellers t USING (tid) WHERE h.aid
		= 7 GROUP BY t.tid;
	SELECT t.tid, sum(h.delta) FROM pgbench_history h JOIN pgbench_tellers t USING (tid) GROUP BY
		t.tid;
	SELECT b.bbalance, a.abalance FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) WHERE
		a.aid = 9;
	SELECT b.bid, count(*) FROM pgbench_accounts a JOIN pgbench_branches b USING (bid) GROUP BY b.bid;
	SELECT a.aid FROM pgbench_accounts a JOIN pgbench_accounts b ON a.abalance = b.aid WHERE b.bid =
		2 AND a.aid < 50;
	SELECT aid FROM pgbench_accounts WHERE aid IN (1, 2, 3);
	SELECT aid FROM pgbench_accounts WHERE aid = ANY ('{4,5,6}'::int[]);
	SELECT aid FROM pgbench_accounts WHERE aid = 1 OR aid = 2;
	SELECT aid FROM pgbench_accounts WHERE aid BETWEEN 10 AND 20 ORDER BY aid;
	SELECT aid, rank() OVER (ORDER BY abalance) FROM pgbench_accounts WHERE bid = 2;
	SELECT aid, rank() OVER (PARTITION BY aid ORDER BY abalance) FROM pgbench_accounts WHERE bid = 2;
	SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY abalance) FROM pgbench_accounts;
	SELECT string_agg(filler, ',') FROM pgbench_accounts WHERE aid = 5;
	UPDATE pgbench_accounts SET abalance = 0 WHERE bid = 1;
	UPDATE pgbench_accounts SET aid = 30000 WHERE aid = 8;
	DELETE FROM pgbench_history WHERE mtime < '2025-01-01';
	DELETE FROM pgbench_history WHERE aid = 7;
	DELETE FROM pgbench_history h USING pgbench_accounts a WHERE a.aid = h.aid AND a.abalance < 0;
	DELETE FROM pgbench_history h USING pgbench_branches b WHERE b.bid = h.bid AND b.bbalance < 0;
	INSERT INTO pgbench_history SELECT tid, bid, aid, 0, mtime FROM pgbench_history WHERE delta = 5;
	INSERT INTO pgbench_accounts VALUES (50001, 1, 0), (50002, 1, 0), (50003, 1, 0);
	INSERT INTO pgbench_accounts VALUES (7, 1, 0) ON CONFLICT (aid) DO UPDATE SET abalance =
		excluded.abalance;
	INSERT INTO pgbench_branches SELECT 100 + aid, 0 FROM pgbench_accounts WHERE aid < 5;
	SELECT * FROM pgbench_accounts WHERE random() < 0.001;
	SELECT (SELECT count(*) FROM pgbench_history h WHERE h.aid = a.aid) FROM pgbench_accounts a
		WHERE a.aid = 12;
	SELECT aid FROM pgbench_accounts WHERE aid = 77 FOR UPDATE;
	SELECT aid FROM pgbench_accounts WHERE bid = 3 ORDER BY aid LIMIT 5 FOR UPDATE SKIP LOCKED;
	SELECT g FROM generate_series(1, 5) g JOIN pgbench_accounts ON aid = g;

	SELECT session_data FROM django_session WHERE session_key = 'x' AND expire_date >
		'2026-01-01'::timestamptz;
	SELECT id, username FROM auth_user WHERE id = 3 LIMIT 21;
	UPDATE auth_user SET last_login = '2026-02-02'::timestamptz WHERE auth_user.id = 5;
	SELECT shop_order.id, shop_order.total FROM shop_order WHERE shop_order.company_id = 5 ORDER BY
		shop_order.created DESC LIMIT 20;
	SELECT o.id, u.username FROM shop_order o INNER JOIN auth_user u ON o.user_id = u.id WHERE
		o.company_id = 5;
	SELECT o.id, u.username FROM shop_order o INNER JOIN auth_user u ON o.user_id = u.id WHERE o.id
		= 5;
	SELECT i.id, p.name FROM shop_item i INNER JOIN shop_product p ON i.product_id = p.id AND
		p.company_id = i.company_id
		WHERE i.company_id = 7;
	SELECT i.id, p.name FROM shop_item i INNER JOIN shop_product p ON i.product_id = p.id WHERE
		i.order_id = 7;
	SELECT i.id FROM shop_item i INNER JOIN shop_order o ON i.order_id = o.id WHERE o.status = 'open';
	SELECT c.name, count(*), sum(o.total) FROM shop_order o JOIN shop_company c ON c.id =
		o.company_id GROUP BY c.name;
	SELECT c.id, count(*) FROM shop_order o JOIN shop_company c ON c.id = o.company_id GROUP BY c.id
		HAVING count(*) > 3;
	SELECT date_trunc('month', created), count(*) FROM shop_order WHERE company_id = 6 GROUP BY 1
		ORDER BY 1;
	SELECT date_trunc('month', created), sum(total) FROM shop_order GROUP BY 1 ORDER BY 1;
	SELECT extract(year FROM created), count(*) FROM shop_order GROUP BY 1;
	SELECT count(*) FROM shop_order WHERE created > now() - interval '3 days';
	SELECT count(*) FROM shop_order WHERE created >= timestamp with time zone '2026-03-01' AND
		company_id = 9;
	SELECT DISTINCT status FROM shop_order;
	SELECT count(DISTINCT user_id) FROM shop_order;
	SELECT count(DISTINCT user_id) FROM shop_order WHERE company_id = 4;
	SELECT EXISTS (SELECT 1 FROM shop_order WHERE company_id = 8 AND status = 'open' LIMIT 1);
	SELECT id FROM shop_product WHERE tags @> '{"a": 1}'::jsonb;
	SELECT id FROM shop_product WHERE upper(name::text) LIKE upper('%x%') AND company_id = 2;
	SELECT id FROM shop_product WHERE id IN (SELECT product_id FROM shop_item WHERE quantity > 7);
	SELECT id FROM shop_product p WHERE NOT EXISTS (SELECT FROM shop_item i WHERE i.product_id =
		p.id AND i.company_id = p.company_id);
	INSERT INTO shop_order (id, company_id, user_id, created, status, total) VALUES (90001, 3, 4,
		'2026-01-01', 'open', 5) RETURNING id;
	INSERT INTO shop_order (id, company_id) VALUES (90001, 3) ON CONFLICT (id) DO NOTHING;
	INSERT INTO shop_item (id, company_id, order_id, product_id, quantity) VALUES (90001, 3, 1, 1,
		1), (90002, 4, 1, 1, 1);
	UPDATE shop_order SET company_id = 3, status = 'paid' WHERE id = 5;
	UPDATE shop_order SET status = 'paid' WHERE id = 5;
	UPDATE shop_order SET status = 'paid' WHERE id = 5 AND company_id = 6;
	DELETE FROM shop_item WHERE id IN (16001, 16002);
	WITH t AS (SELECT id FROM shop_order WHERE company_id = 2 LIMIT 3) SELECT i.id FROM shop_item i
		JOIN t ON t.id = i.order_id
		WHERE i.company_id = 2;
	WITH t AS (UPDATE shop_order SET status = 'x' WHERE company_id = 2 RETURNING id) SELECT count(*)
		FROM t;
	SELECT company_id, total, row_number() OVER (PARTITION BY company_id ORDER BY total) FROM
		shop_order;
	SELECT /* two keys */ id FROM shop_order WHERE company_id = 2 UNION ALL SELECT id FROM
		shop_order WHERE company_id = 3;
	SELECT id FROM shop_order WHERE company_id = 2 UNION SELECT id FROM shop_product WHERE
		company_id = 2;
	SELECT array_agg(id ORDER BY id) FROM shop_order WHERE status = 'x';
	SELECT jsonb_object_agg(id, total) FROM shop_order WHERE company_id = 11;
	SELECT status, json_agg(id) FROM shop_order GROUP BY status;
	SELECT company_id, json_agg(id) FROM shop_order GROUP BY company_id;
	SELECT s.session_data, o.id FROM django_session s, shop_order o WHERE o.company_id = 3 AND
		s.session_key = o.status;

	SELECT c_last, w_tax FROM tpcc.customer, tpcc.warehouse WHERE w_id = 1 AND c_w_id = w_id AND
		c_d_id = 2 AND c_id = 3;
	SELECT d_next_o_id, d_tax FROM tpcc.district WHERE d_w_id = 1 AND d_id = 2 FOR UPDATE;
	UPDATE tpcc.district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 2;
	INSERT INTO tpcc.oorder VALUES (1, 2, 9000, 3, NULL, now());
	INSERT INTO tpcc.new_order (no_o_id, no_d_id, no_w_id) VALUES (9000, 2, 1);
	SELECT i_price, i_name FROM tpcc.item WHERE i_id = 17;
	SELECT s_quantity FROM tpcc.stock WHERE s_i_id = 17 AND s_w_id = 1 FOR UPDATE;
	SELECT i_name, s_quantity FROM tpcc.item JOIN tpcc.stock ON i_id = s_i_id WHERE s_w_id = 1 AND
		s_quantity < 60;
	SELECT i_name, sum(s_quantity) FROM tpcc.item JOIN tpcc.stock ON i_id = s_i_id GROUP BY i_name
		ORDER BY 2 DESC LIMIT 5;
	UPDATE tpcc.stock SET s_quantity = 5, s_ytd = s_ytd + 1 WHERE s_i_id = 17 AND s_w_id = 1;
	UPDATE tpcc.stock SET s_quantity = 5 WHERE s_i_id = 17;
	INSERT INTO tpcc.order_line VALUES (1, 2, 9000, 1, 17, 5, 7, NULL);
	UPDATE tpcc.warehouse SET w_ytd = w_ytd + 5 WHERE w_id = 1;
	UPDATE tpcc.customer SET c_balance = c_balance - 5 WHERE c_w_id = 1 AND c_d_id = 2 AND c_id = 3
		RETURNING c_balance;
	SELECT count(c_id) FROM tpcc.customer WHERE c_last = 'name3' AND c_d_id = 2 AND c_w_id = 1;
	SELECT c_id FROM tpcc.customer WHERE c_last = 'name3' ORDER BY c_w_id, c_id;
	INSERT INTO tpcc.history VALUES (3, 1, now(), 5.5);
	SELECT max(o_id) FROM tpcc.oorder WHERE o_w_id = 1 AND o_d_id = 2 AND o_c_id = 3;
	SELECT ol_i_id, ol_quantity FROM tpcc.order_line WHERE ol_o_id = 5 AND ol_d_id = 2 AND ol_w_id = 1;
	SELECT no_o_id FROM tpcc.new_order WHERE no_w_id = 1 AND no_d_id = 2 ORDER BY no_o_id LIMIT 1;
	DELETE FROM tpcc.new_order WHERE no_w_id = 1 AND no_d_id = 2 AND no_o_id = 45;
	DELETE FROM tpcc.new_order WHERE no_o_id = (SELECT min(no_o_id) FROM tpcc.new_order WHERE
		no_w_id = 2);
	SELECT count(DISTINCT s_i_id) FROM tpcc.order_line, tpcc.stock WHERE ol_w_id = 1 AND ol_d_id = 2
		AND ol_o_id < 20 AND ol_o_id >= 5
		AND s_w_id = 1 AND s_i_id = ol_i_id AND s_quantity < 15;
	SELECT o_c_id, sum(ol_amount) FROM tpcc.oorder JOIN tpcc.order_line ON o_w_id = ol_w_id AND
		o_d_id = ol_d_id AND o_id = ol_o_id
		GROUP BY o_c_id;
	SELECT o_id FROM tpcc.oorder JOIN tpcc.customer ON o_c_id = c_id WHERE c_last = 'name3';
	SELECT w_name, sum(d_ytd) FROM tpcc.warehouse JOIN tpcc.district ON d_w_id = w_id GROUP BY w_name;
	SELECT w_id FROM tpcc.warehouse WHERE w_ytd < (SELECT avg(w_ytd) FROM tpcc.warehouse);
	SELECT ol_number, sum(ol_quantity), avg(ol_amount), count(*) FROM tpcc.order_line WHERE
		ol_delivery_d IS NULL GROUP BY 1 ORDER BY 1;
	INSERT INTO tpcc.stock SELECT s_w_id + 100, s_i_id, 0, 0 FROM tpcc.stock WHERE s_w_id = 1;
	TRUNCATE tpcc.history;
};
s/^\s+|;\s*$//g for @statements;

# The same statements for each table and another column of it.
my $others = 'bid|delta|plan|price|status|quantity|w_ytd|d_ytd|c_last|o_c_id|no_d_id|ol_i_id|'
  . 's_quantity|h_amount';
for my $table (@keys)
{
	my ($name, $key) = @$table;
	my ($other) = $definitions =~ /CREATE TABLE \Q$name\E \((?:[^;]*?,\s+)?($others)\s/;
	my $value = $other =~ /plan|status|last/ ? "'x'" : 5;
	my %word = (t => $name, k => $key, o => $other, v => $value);
	push @statements, map { s/\b([tkov])\b/$word{$1}/gr }
	  'SELECT * FROM t WHERE k = 7', 'SELECT * FROM t WHERE k IN (7, 9)',
	  'SELECT * FROM t WHERE o = v', 'SELECT o, count(*) FROM t GROUP BY o',
	  'SELECT k, max(o) FROM t GROUP BY k', 'SELECT o FROM t ORDER BY o LIMIT 3',
	  'UPDATE t SET o = v WHERE k = 7 AND o = v', 'UPDATE t SET o = v WHERE o = v',
	  'DELETE FROM t WHERE k = 99999 AND o = v';
}

# Returns what a plan does, read from PostgreSQL's text output.
sub verdict
{
	my ($statement) = @_;
	return 'not planned' if $statement =~ /^TRUNCATE/;
	my $plan = eval { $c->ask("EXPLAIN (COSTS OFF) $statement") } // return 'refused';
	my $local = join '|', @local;
	my @shards = $plan =~ /Shards: (\d+) of/g;
	push @shards, (1) x (() = $plan =~ /Foreign Scan on /g);
	my ($relation) = $plan =~ /^(?:Insert|Update|Delete) on (\S+)/;
	return 'gathered' if $plan =~ /Not Pushed Down/ || $plan =~ /Foreign Scan[^>]*Filter:/;
	return 'gathered'
	  if @shards && $plan =~ /(?<!Finalize )\b(?:Group)?Aggregate\n(?:\s+Group Key: .*\n)?\s+->  Sort/;
	return 'gathered' if $plan =~ /(?:UPDATE|DELETE FROM) ONLY .* WHERE ctid = /;
	return 'gathered' if @shards && $plan =~ /Scan (?:using \S+ )?on (?:$local)\b/;
	return 'all shards'
	  if defined $relation && grep { /(?:^|\.)\Q$relation\E$/ } @references, map { $_->[0] } @keys;
	return 'coordinator' unless @shards || $plan =~ /ShardSourceModify/;
	return @shards == 1 && $shards[0] <= 1 ? 'one shard' : 'all shards';
}

my $present = $definitions =~ s/^\s*fk //mgr =~ s/\+\w+, //gr;
my $sharded = $definitions =~ s/^\s*fk .*?;\n//msgr =~ s/\+(?=\w)//gr;

$server->safe_psql('postgres', 'CREATE DATABASE app');
$server->safe_psql('app',
	"CREATE EXTENSION pg_stat_statements; $present SELECT pg_stat_statements_reset()");
my $n = 0;
my @marked = map { s{^\w+}{"$& /* s" . $n++ . ' */'}er } @statements;
$server->safe_psql('app', join "\n", map { "BEGIN; $_; ROLLBACK;" } @marked);
$c->safe_psql($sharded =~ s/ANALYZE;\s*$//r);
$c->safe_psql("SELECT shardfdw.create_reference_table('$_')") for @references;
my %first;
for my $table (@keys)
{
	my ($name, $key) = @$table;
	my $group = $name =~ /^tpcc/ ? 'tpcc' : substr $name, 0, 4;
	my $where = $first{$group} ? "colocate_with => '$first{$group}'" : 'shards => 8';
	$c->safe_psql("SELECT shardfdw.shard_table('$name', '$key', $where)");
	$first{$group} //= $name;
}
$c->safe_psql('ANALYZE');

my $snapshot = 'SELECT pg_snapshot_xmax(pg_current_snapshot())';
my $before = $server->safe_psql('app', $snapshot);
my @proposal = (map({ "--table=$_->[0]=$_->[1]" } @keys), map { "--reference=$_" } @references);
my ($rc, $report, $err, $found) = advise('app', '--keys', 0, @proposal);
is($rc, 0, 'advise') or diag $err;
unlike($report, qr/not (?:sharded )?in the copy/, 'everything is in the copy') or diag $report;
is($server->safe_psql('app', $snapshot), $before, 'nothing was written on the present server');
my %counts;
for my $i (sort { $a <=> $b } keys %$found)
{
	my $truth = verdict($statements[$i]);
	$counts{$truth}++;
	# pg_stat_statements does not show whether the keys are equal: the report has both answers
	my $verdict = $found->{$i}{ $statements[$i] =~ /two keys/ ? 'otherwise' : 'verdict' };
	is($verdict, $truth, $statements[$i])
	  or diag join "\n", $found->{$i}{query}, $found->{$i}{reason} // '',
	  eval { $c->ask("EXPLAIN (COSTS OFF) $statements[$i]") } // $@;
}
my ($without_key) = grep { $statements[$_] =~ /ON CONFLICT \(id\)/ } 0 .. $#statements;
is($found->{$without_key}{verdict}, 'refused', 'ON CONFLICT without the shard key');
cmp_ok(scalar(keys %$found), '>=', 200, 'compared: ' . join ', ',
	map { "$counts{$_} $_" } sort keys %counts);

# ---------- hostile names and statements ----------

my $script = q{<script>alert(1)</script>&"'};
my ($table, $column) = (q{"%s \\'<b>&""t"}, q{"k'%s \\""k"});
$server->safe_psql('postgres', q{CREATE DATABASE "hostile %s"});
$server->safe_psql('hostile %s', qq{
	CREATE EXTENSION pg_stat_statements SCHEMA public;
	CREATE TABLE $table ($column int, v text);
	CREATE TABLE plain (id int PRIMARY KEY, v text);
	CREATE SCHEMA tenant; CREATE TABLE tenant.t (id int PRIMARY KEY)});
my @hostile = (
	"SELECT '" . ($script =~ s/'/''/gr) . "' AS \"<i>\", v FROM $table",
	"SELECT ':v', E'\\';', \$\$;\$\$, v /* ; */ FROM $table -- ;\n",
	"SELECT 1 FROM $table WHERE", "SELECT 1 \\! touch $folder/touched\n",
	"SELECT no_such FROM $table", 'SELECT :v FROM plain', 'VACUUM plain',
	"ALTER ROLE postgres PASSWORD 'very secret'", 'SELECT id FROM tenant.t',
	'SELECT * FROM generate_series(1, 2)', "INSERT INTO $table VALUES (1, '%')");
append_to_file("$folder/statements",
	join ";\n", map { $hostile[$_] =~ s{^\w+}{$& /* s$_ */}r } 0 .. $#hostile);
($rc, $report, $err, $found) = advise('hostile %s', '--statements', "$folder/statements",
	'--html', "$folder/report.html", "--table=public.$table=$column", '--schema=tenant');
is($rc, 0, 'hostile statements') or diag $err;
my @verdicts = map { $found->{$_} ? $found->{$_}{verdict} : 'none' } 0 .. $#hostile;
is(join(', ', @verdicts), 'all shards, all shards, not planned, not planned, not planned, '
	  . 'not planned, none, none, one shard, coordinator, one shard', 'verdicts') or diag $report;
ok(!-e "$folder/touched", 'no command of psql is run');
unlike($report . slurp_file("$folder/out.json"), qr/very secret/, 'no text of utility statements');
my $page = slurp_file("$folder/report.html");
like($page, qr/&lt;script&gt;alert\(1\)/, 'the page shows the statement');
unlike($page, qr/<script|<b>|<i>/, 'as text');
unlike($page, qr{(?:src|href|url)\s*[=(]|https?://|\@import}, 'nothing from elsewhere');
SKIP:
{
	my $browser = browser() or skip 'no chromium', 2;
	for my $case ([ 400, 'dark' ], [ 1200, 'light' ])
	{
		is(look($browser, "$folder/report.html", @$case, "$folder/page.png"), '', "page: @$case");
	}
}

# ---------- other keys, on a scratch database ----------

$_->safe_psql('postgres', 'CREATE DATABASE scratch') for $server, $c->nodes;
$server->safe_psql('scratch', 'CREATE EXTENSION shardfdw');
for my $i (1, 2)
{
	my ($host, $port) = $c->node_address($i);
	$server->safe_psql('scratch', "SELECT shardfdw.add_node('node$i', '$host', $port, 'scratch')");
}
my @scratch = ('--scratch', $server->connstr('scratch'));
append_to_file("$folder/keys", "--table=shop_order=user_id\n--table=shop_item=product_id\n");
append_to_file("$folder/items", 'SELECT * FROM shop_order WHERE id = 5; '
	  . 'SELECT * FROM shop_order o JOIN shop_item i ON i.order_id = o.id WHERE o.id = 5');
($rc, $report, $err) = advise('app', @scratch, '--statements', "$folder/items", "\@$folder/keys");
is($rc, 0, 'a scratch database') or diag $err;
like($report, qr/^  as proposed +0\.0 /m, 'no statement on one shard with the proposed keys');
like($report, qr/^  shop_order by id, shop_item by order_id +100\.0 /m, 'all with other keys')
  or diag $report;
like($report, qr/^  shop_order: error: .*"shop_order_pkey" does not include the shard key/m,
	'obstacles');
is($_->safe_psql('scratch', q{SELECT count(*) FROM pg_class WHERE relname LIKE 'shop%'}),
	'0', 'nothing stays there') for $server, $c->node(1);

# ---------- errors name the object ----------

for my $case (
	[ qr/there is no table shop_none/, 'app', @scratch, '--table=shop_none=id' ],
	[ qr/table shop_order has no column none/, 'app', @scratch, '--table=shop_order=none' ],
	[ qr/--table needs TABLE=COLUMN, not shop_order/, 'app', @scratch, '--table=shop_order' ],
	[ qr/"scratch" does not have the extension pg_stat_statements/, 'scratch', '--table=a=b' ],
	[ qr/not empty: it has table/, 'app', '--scratch', $server->connstr('app'), '--table=a=b' ],
	[ qr/database "none" does not exist/, 'none', '--table=a=b' ])
{
	my ($message, @arguments) = @$case;
	($rc, $report, $err) = advise(@arguments);
	ok($rc && $err =~ $message, "error: $message") or diag "$report$err";
}

done_testing();
