# Tests which roles may move a shard, and with which rights on the nodes. Other coordinators know
# only the old place of the shard.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, host => 'tcp', node_conf => "wal_level = logical\nmax_wal_senders = 10\n");

for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{CREATE ROLE app LOGIN PASSWORD 'pw-app'; GRANT ALL ON SCHEMA public TO app});
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $fh, '>', $hba or die;
	print $fh "host all app 127.0.0.1/32 scram-sha-256\n$old";
	close $fh;
	$c->node($i)->reload;
}
$c->safe_psql(q{CREATE ROLE owner LOGIN; CREATE ROLE other LOGIN; GRANT CREATE ON SCHEMA public TO owner; GRANT USAGE ON FOREIGN SERVER node1, node2, shardfdw_cluster TO owner, other});
$c->safe_psql("CREATE USER MAPPING FOR $_->[0] SERVER $_->[1] OPTIONS (user 'app', password 'pw-app')") for [ 'owner', 'node1' ], [ 'owner', 'node2' ], [ 'other', 'node1' ], [ 'other', 'node2' ];
$c->safe_psql(q{SET ROLE owner; CREATE TABLE t (id int PRIMARY KEY, v int); SELECT shardfdw.shard_table('t', 'id', shards => 2); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i});

# An error of the statement, run as a role.
sub error
{
	my ($role, $sql) = @_;
	my ($out, $err) = ('', '');
	$c->coordinator->psql('postgres', $sql, stdout => \$out, stderr => \$err, extra_params => [ '-U', $role ]);
	return $err;
}

my $move = "SELECT shardfdw.move_shard('t_00', 'node2', mode => '%s')";
like(error('owner', sprintf $move, 'block'), qr/permission denied for function move_shard/, 'not for everybody');
$c->safe_psql('GRANT EXECUTE ON FUNCTION shardfdw.move_shard TO owner, other');
like(error('other', sprintf $move, 'block'), qr/must be owner of table t/, 'only for owners of the table');
like(error('owner', sprintf $move, 'block'), qr/role "app" may not create schemas on node "node[12]"/, 'the role on the nodes needs CREATE');
$c->node_safe_psql($_, 'GRANT CREATE ON DATABASE postgres TO app') for 1, 2;
like(error('owner', sprintf $move, 'online'), qr/cannot be moved online: role "app" may not replicate on node "node1".*mode => 'block'/s, 'and REPLICATION, or mode block');
is($c->node_safe_psql($_, q{SELECT count(*) FROM pg_namespace WHERE nspname ~ '^shardfdw_[0-9a-f]{16}_'}), 0, "nothing is left on node $_") for 1, 2;
is(error('owner', sprintf $move, 'block'), '', 'mode block works without');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '100|5050', 'all rows are there');
$c->node_safe_psql($_, 'ALTER ROLE app REPLICATION') for 1, 2;
is(error('owner', q{SELECT shardfdw.move_shard('t_00', 'node1')}), '', 'online, too');
is($c->safe_psql('SELECT count(*), sum(v) FROM t'), '100|5050', 'all rows are there again');
is($c->node_safe_psql(1, q{SELECT tableowner FROM pg_tables WHERE tablename = 't_00'}), 'app', 'its owner is the same');
my $job = $c->safe_psql('SELECT max(id) FROM shardfdw.jobs');
like(error('other', "SELECT shardfdw.cancel_job($job)"), qr/must be a member of role "owner"/, 'others do not cancel');
like($c->safe_psql(q{SELECT string_agg(error, ' ') FROM shardfdw.jobs}), qr/may not replicate/, 'its errors are seen');
is($c->coordinator->safe_psql('postgres', q{SELECT count(*) FROM shardfdw.jobs WHERE error IS NOT NULL}, extra_params => [ '-U', 'other' ]), 0, 'but not by others');

# Numbers that are not in the journal belong to no role. A role that claims such a number does not
# block other roles. Numbers of subscriptions are negative.
{
	my $holds = $c->coordinator->background_psql('postgres', extra_params => [ '-U', 'other' ]);
	my $claim = 'SELECT shardfdw_internal.claim_job(1000000, 0), shardfdw_internal.claim_job(-5, 0)';
	is($holds->query_safe("BEGIN; $claim"), 't|t', 'a role claims numbers that are not in the journal');
	is($c->safe_psql($claim), 't|t', 'another role does, too');
	is($c->safe_psql('SELECT shardfdw_internal.job_is_running(1000000), shardfdw_internal.job_is_running(-5)'), 'f|f', 'and nobody takes them for running');
	is($c->coordinator->safe_psql('postgres', $claim, extra_params => [ '-U', 'other' ]), 'f|f', 'another session of the same role waits');
	is($c->coordinator->safe_psql('postgres', "SELECT shardfdw_internal.claim_job($job, 0)", extra_params => [ '-U', 'other' ]), 'f', 'a job of another role is not claimed');
	$holds->quit;
}

# ---------- splits ----------

my $split = "SELECT shardfdw.split_shard('t_01')";
like(error('owner', $split), qr/permission denied for function split_shard/, 'a split: not for everybody');
$c->safe_psql('GRANT EXECUTE ON FUNCTION shardfdw.split_shard TO owner, other; SET ROLE owner; ANALYZE t; GRANT SELECT ON t_01 TO other');
like(error('other', $split), qr/must be owner of table t/, 'only for owners of the table');
is(error('owner', $split), '', 'who can do it');
is($c->safe_psql(q{SELECT count(*), sum(v), count(*) FILTER (WHERE shardfdw.shard_for('t', id) <> tableoid) FROM t}), '100|5050|0', 'all rows are where they belong');
is($c->safe_psql(q{SELECT string_agg(concat_ws(' ', c.relname, c.relowner::regrole, has_table_privilege('other', c.oid, 'SELECT')), ', ' ORDER BY c.relname) FROM pg_class c WHERE c.relkind = 'f'}),
	't_00 owner f, t_02 owner t, t_03 owner t', 'owner and privileges of the pieces');
is($c->safe_psql(q{SELECT shardfdw.split_shard('t_02') > 0}), 't', 'a superuser splits the table of a role');
is($c->safe_psql(q{SELECT string_agg(concat_ws(' ', c.relname, c.relowner::regrole, has_table_privilege('other', c.oid, 'SELECT')), ', ' ORDER BY c.relname) FROM pg_class c WHERE c.relkind = 'f'}),
	't_00 owner f, t_03 owner t, t_04 owner t, t_05 owner t', 'which stays his');
is(error('owner', 'UPDATE t SET v = v; ALTER TABLE t ADD COLUMN w int'), '', 'he writes and defines');
is($c->safe_psql(q{SELECT check_name, detail FROM shardfdw.check_cluster() WHERE status = 'error'}), '', 'check_cluster finds nothing wrong');
is($c->safe_psql(q{SELECT count(*) > 0 FROM pg_stats WHERE tablename = 't_04'}), 't', 'with statistics');

# ---------- another session writes on the old node while the shards are switched ----------

SKIP:
{
	skip 'needs a build with FAULT_POINTS=1', 4 unless $c->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
	my $file = $c->coordinator->data_dir . '/shardfdw_fault_move_finished';
	append_to_file($file, '');
	$c->set_faults('move_finished=wait');
	$job = $c->safe_psql(q{SELECT shardfdw.move_shard('t_00', 'node2', wait => false)});
	$c->wait_for("SELECT stage = 'dropping' FROM shardfdw.jobs WHERE id = $job");
	for my $sql ('UPDATE t_00 SET v = 0', 'INSERT INTO t_00 VALUES (1000, 1)', 'DELETE FROM t_00', 'TRUNCATE t_00')
	{
		my ($rc, $out, $err) = $c->node_psql(1, "SET session_replication_role = replica; $sql");
		like($err, qr/shard public\.t_00 has moved to another node/, "refused on the old node: $sql");
	}
	unlink $file;
	$c->set_faults('');
	is($c->safe_psql("SELECT shardfdw.wait_job($job)"), 'done', 'the job ends');
}

# ---------- schemas of others on the target ----------

# A schema with that name on the target is not changed, unless the extension has created it for the
# move. A superuser moves no shard into a schema of a role that owns neither the shard nor the
# schema here: that role could replace the shard.
{
	my $h = ShardCluster->new(nodes => 3, node_conf => "wal_level = logical\nmax_wal_senders = 10\n");
	for my $i (1 .. 3)
	{
		$h->node_safe_psql($i, 'CREATE ROLE vic; CREATE ROLE own LOGIN; CREATE ROLE friend; GRANT CREATE ON DATABASE postgres TO own');
	}
	$h->safe_psql('CREATE ROLE own; GRANT CREATE ON DATABASE postgres TO own; GRANT USAGE ON FOREIGN SERVER node1, node2, node3 TO own; GRANT EXECUTE ON FUNCTION shardfdw.move_shard TO own');
	$h->safe_psql("CREATE USER MAPPING FOR own SERVER node$_ OPTIONS (user 'own', password_required 'false')") for 1 .. 3;
	$h->node_safe_psql(2, q{CREATE SCHEMA typed AUTHORIZATION vic; CREATE SCHEMA bare AUTHORIZATION vic; CREATE SCHEMA admins; SET ROLE vic; CREATE TYPE typed.mood AS ENUM ('a'); GRANT USAGE ON SCHEMA typed, bare TO friend});
	$h->node_safe_psql(3, q{CREATE SCHEMA marked AUTHORIZATION vic; COMMENT ON SCHEMA marked IS 'Made by shardfdw for a schema of the coordinator.'; SET ROLE vic; GRANT USAGE ON SCHEMA marked TO friend});
	my $state = q{SELECT pg_get_userbyid(nspowner), nspacl, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = '%s'};
	for my $place ([ 'typed', 2 ], [ 'bare', 2 ], [ 'admins', 2 ], [ 'marked', 3 ])
	{
		my ($schema, $i) = @$place;
		my $before = $h->node_safe_psql($i, sprintf $state, $schema);
		$h->safe_psql(qq{SET ROLE own; CREATE SCHEMA $schema; GRANT USAGE ON SCHEMA $schema TO PUBLIC; CREATE TABLE $schema.t (k int PRIMARY KEY); SELECT shardfdw.shard_table('$schema.t', 'k', shards => 1, nodes => '{node1}')});
		my $move = "SELECT shardfdw.move_shard('$schema.t_00', 'node$i', mode => 'block')";
		if ($schema ne 'admins')
		{
			$h->psql_fails_like("$move;", qr/42501: schema $schema on node "node$i" belongs to role "vic"/, "a superuser puts no shard of another role into schema $schema of a third role");
			is($h->node_safe_psql($i, sprintf $state, $schema), $before, "and leaves schema $schema as it is");
			# a role that is not a superuser on the node, and may create tables there
			$h->node_safe_psql($i, "GRANT CREATE ON SCHEMA $schema TO own; GRANT USAGE ON SCHEMA $schema TO own");
			$before = $h->node_safe_psql($i, sprintf $state, $schema);
			$move = "SET ROLE own; $move";
		}
		$h->safe_psql($move);
		is($h->node_safe_psql($i, sprintf $state, $schema), $before, "schema $schema of another role keeps owner and privileges");
	}
	$h->safe_psql(q{CREATE ROLE late; SELECT shardfdw.add_user('late', password => 'pw-late')});
	is($h->node_safe_psql(2, q{SELECT nspacl FROM pg_namespace WHERE nspname = 'typed'}), '{vic=UC/vic,friend=U/vic,own=UC/vic}', 'nor does add_user() give rights on it');
	# A schema that the extension creates is the same as on the source, also one with a type.
	$h->safe_psql(q{SET ROLE own; CREATE SCHEMA mine; GRANT USAGE ON SCHEMA mine TO PUBLIC; CREATE TYPE mine.mood AS ENUM ('a'); CREATE TABLE mine.t (k int PRIMARY KEY, m mine.mood);
		SELECT shardfdw.shard_table('mine.t', 'k', shards => 1, nodes => '{node1}'); GRANT USAGE ON SCHEMA mine TO PUBLIC});
	$h->safe_psql(q{SELECT shardfdw.move_shard('mine.t_00', 'node2', mode => 'block')});
	is($h->node_safe_psql(2, sprintf $state, 'mine'), $h->node_safe_psql(1, sprintf $state, 'mine'), 'a schema that the extension has made is as on the source');
	# Owner and privileges are set in the turn of sessions that create objects and grant rights on
	# nodes. Without the turn, one of two such sessions would fail.
	{
		my $turn = $h->coordinator->background_psql('postgres');
		$h->safe_psql(q{SET ROLE own; CREATE SCHEMA turned; GRANT USAGE ON SCHEMA turned TO PUBLIC; CREATE TABLE turned.t (k int PRIMARY KEY); SELECT shardfdw.shard_table('turned.t', 'k', shards => 1, nodes => '{node1}')});
		$turn->query_safe(q{BEGIN; SELECT shardfdw_internal.lock_new_objects('{node2}')});
		my $id = $h->safe_psql(q{SELECT shardfdw.move_shard('turned.t_00', 'node2', mode => 'block', wait => false)});
		$h->wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 8 AND NOT granted});
		is($h->node_safe_psql(2, q{SELECT nspacl FROM pg_namespace WHERE nspname = 'turned'}), '', 'a move waits for its turn before it grants rights on a schema');
		$turn->query_safe('COMMIT');
		$turn->quit;
		is($h->safe_psql("SELECT shardfdw.wait_job($id)"), 'done', 'and goes on then');
	}

	# ---------- code of the owner on both nodes ----------

	my $spy = q{CREATE FUNCTION public.spy(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN
			RAISE WARNING 'spy runs as %', (SELECT CASE WHEN rolsuper THEN 'superuser' ELSE rolname END FROM pg_catalog.pg_roles WHERE rolname = current_user);
			RETURN i;
		END $$};
	$h->node_safe_psql($_, "GRANT CREATE ON SCHEMA public TO own; SET ROLE own; $spy; CREATE OPERATOR ==== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int)") for 1 .. 3;
	# on the target the operator has a negator, which the planner uses for NOT
	$h->node_safe_psql(2, q{SET ROLE own; CREATE FUNCTION spy(a int, b int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(a) <> b'; CREATE OPERATOR !==== (FUNCTION = spy, LEFTARG = int, RIGHTARG = int, NEGATOR = ====)});
	$h->safe_psql("GRANT CREATE ON SCHEMA public TO own; SET ROLE own; $spy; CREATE OPERATOR ==== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int)");
	# and a function a namesake that fits better
	$h->node_safe_psql($_, q{CREATE FUNCTION half(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i / 2'}) for 1 .. 3;
	$h->node_safe_psql(2, q{SET ROLE own; CREATE FUNCTION half(i smallint) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.spy(1)'});
	my %from = map { $_ => $h->log_position($_) } 1 .. 3;
	my $as_superuser = sub { return join ' ', grep { $h->log_since($from{$_}, $_) =~ /spy runs as superuser/ } 1 .. 3 };
	my %more = (
		checked => 'ALTER TABLE %s ADD CHECK (NOT (v ==== 0))',
		indexed => 'CREATE INDEX ON %s ((NOT (v ==== 0)))',
		partial => 'CREATE INDEX ON %s (v) WHERE NOT (v ==== 0)',
		# computed when it is made
		constant => 'CREATE INDEX ON %s ((v + half(1::smallint)))',
		generated => 'ALTER TABLE %s ADD COLUMN g int GENERATED ALWAYS AS (v + half(1::smallint)) STORED',
		counted => 'CREATE STATISTICS counts ON (NOT (v ==== 0)), k FROM %s');
	for my $table (sort keys %more)
	{
		$h->safe_psql("SET ROLE own; CREATE TABLE $table (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('$table', 'k', shards => 1, nodes => '{node1}'); INSERT INTO $table SELECT g, g FROM generate_series(1, 20) g");
		$h->node_safe_psql(1, 'SET ROLE own; ' . sprintf $more{$table}, "${table}_00");
		$h->psql_fails_like("SELECT shardfdw.move_shard('${table}_00', 'node2', mode => '$_');", qr/42501: cannot move table "$table" because function public\.(spy|half)\(.* of role "own" would run with the rights of "postgres" on node "node2"/, "move_shard by a superuser to a node where names mean something else: $table, $_") for 'block', 'online';
		is($as_superuser->(), '', 'no code of the owner has run as a superuser');
		is($h->safe_psql("SELECT shardfdw.move_shard('${table}_00', 'node3', mode => 'block') > 0"), 't', 'where they mean the same, it moves');
		is($h->node_safe_psql(3, "SELECT (SELECT count(*) FROM ${table}_00), (SELECT count(*) FROM pg_statistic_ext s JOIN pg_class c ON c.oid = s.stxrelid WHERE c.relname = '${table}_00')"), '20|' . ($table eq 'counted' ? 1 : 0), 'with rows and statistics');
	}

	# What an owner creates on the source after the check: COPY reads the rows, and calls none of
	# it.
	SKIP:
	{
		skip 'needs a build with FAULT_POINTS=1', 2 unless $h->safe_psql(q{LOAD 'shardfdw'; SELECT count(*) FROM pg_settings WHERE name = 'shardfdw.fault_points'});
		$h->safe_psql(q{SET ROLE own; CREATE TABLE late (k int PRIMARY KEY, v int); SELECT shardfdw.shard_table('late', 'k', shards => 1, nodes => '{node1}'); INSERT INTO late SELECT g, g FROM generate_series(1, 20) g});
		my $fault = $h->coordinator->data_dir . '/shardfdw_fault_move_compare';
		append_to_file($fault, '');
		$h->set_faults('move_compare=wait');
		my $id = $h->safe_psql(q{SELECT shardfdw.move_shard('late_00', 'node2', wait => false)});
		$h->wait_for("SELECT stage = 'comparing' FROM shardfdw.jobs WHERE id = $id");
		$h->node_safe_psql(1, 'SET ROLE own; CREATE INDEX spied ON late_00 (spy(1), k); CREATE STATISTICS late_counts ON (spy(1) + k), v FROM late_00');
		$from{1} = $h->log_position(1);
		unlink $fault;
		$h->set_faults('');
		$h->psql_fails_like("SELECT shardfdw.wait_job($id);", qr/the definition of shard \S+ has changed while it was moved/, 'the job ends');
		is($as_superuser->(), '', 'and has not run code that was made after the check');
	}
}

# ---------- texts from the source are not commands ----------

# The source's superuser lets functions write the definition of a table. Nothing of it is run on the
# target or on the coordinator.
{
	my $h = ShardCluster->new(nodes => 2);
	my @lies = (
		[ 'pg_get_constraintdef', 'oid', q{'; ALTER ROLE sly SUPERUSER'} ],
		[ 'pg_get_constraintdef', 'oid', q{'; CREATE TABLE public.pwned AS SELECT 1 AS a'} ],
		[ 'pg_get_indexdef', 'oid', q{'; DROP SCHEMA public CASCADE'} ],
		[ 'quote_ident', 'text', q{') FROM PROGRAM ''touch /tmp/pwned''--'} ],
		[ 'format_type', 'oid, integer', q{'); ALTER ROLE sly SUPERUSER; CREATE TABLE x (a int'} ],
		[ 'format_type', 'oid, integer', q{', LIKE public.victim'} ],
		[ 'pg_get_constraintdef', 'oid', q{') INHERITS (public.victim) --'} ],
		[ 'pg_get_indexdef', 'oid', q{' --'} ],
	);
	$h->safe_psql(q{CREATE ROLE sly; CREATE TABLE told (id int PRIMARY KEY, v int, w int CHECK (w > 0)); GRANT SELECT ON told TO sly});
	$h->node_safe_psql($_, 'CREATE ROLE sly') for 1, 2;
	$h->node_safe_psql(2, 'CREATE TABLE victim (id int, v int, w int)');
	$h->safe_psql(q{SELECT shardfdw.shard_table('told', 'id', 1, '{node1}'); CREATE INDEX ON told (v); INSERT INTO told VALUES (1, 1, 1)});
	for my $lie (@lies)
	{
		my ($name, $types, $more) = @$lie;
		my $arguments = join ', ', map { '$' . $_ } 1 .. ($types =~ tr/,//) + 1;
		$h->node_safe_psql(1, qq{SET allow_system_table_mods = on; ALTER FUNCTION pg_catalog.$name($types) RENAME TO real_one;
			CREATE FUNCTION pg_catalog.$name($types) RETURNS text LANGUAGE sql STABLE AS \$\$ SELECT (pg_catalog.real_one($arguments) || $more)::text \$\$});
		my ($rc, undef, $err) = $h->psql(q{SELECT shardfdw.move_shard('told_00', 'node2', mode => 'block')});
		isnt($rc, 0, "a node whose $name() says more");
		unlike($err, qr/server closed the connection/, 'an error');
		is($h->node_safe_psql(2, q{SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = 'sly'), to_regclass('public.pwned'), to_regnamespace('public'), (SELECT count(*) FROM victim)}), 'f||public|0', 'nothing of it was run there');
		is($h->safe_psql(q{SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = 'sly'), count(*) FROM told}), 'f|1', 'nor here');
		$h->node_safe_psql(1, qq{SET allow_system_table_mods = on; DROP FUNCTION pg_catalog.$name($types); ALTER FUNCTION pg_catalog.real_one($types) RENAME TO $name});
		$h->safe_psql('SELECT count(*) FROM shardfdw.recover_prepared_transactions()');
	}
	ok(!-e '/tmp/pwned', 'no program was run');
	$h->safe_psql(q{SELECT shardfdw.move_shard('told_00', 'node2', mode => 'block')});
	is($h->safe_psql('SELECT count(*) FROM told'), '1', 'an honest node');

	# Each command changes the moved table only.
	my $checked = q{SELECT shardfdw_internal.checked_part($command$%s$command$, 'job.t', 'public.t', '{public.ref}')};
	$h->safe_psql(sprintf $checked, $_) for (
		q{CREATE UNLOGGED TABLE job.t (a int COLLATE "C" DEFAULT 1 NOT NULL, b int GENERATED ALWAYS AS (a + 1) STORED, CONSTRAINT c CHECK (a > 0)) WITH (fillfactor = 50)},
		'ALTER TABLE job.t ADD CONSTRAINT k PRIMARY KEY (a)', 'ALTER TABLE public.t ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES public.ref(a)', 'CREATE INDEX i ON job.t USING btree (a)',
		'CREATE STATISTICS public.s ON a, b FROM public.t', q{COMMENT ON TABLE public.t IS 'x'}, q{COMMENT ON COLUMN public.t.a IS 'x'}, q{COMMENT ON CONSTRAINT k ON public.t IS 'x'}, q{COMMENT ON INDEX job.i IS 'x'},
		q{COMMENT ON TYPE job.t IS 'x'},
		'CREATE TRIGGER g BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()', 'GRANT SELECT ON public.t TO sly', 'ALTER TABLE public.t OWNER TO sly');
	$h->psql_fails_like(sprintf($checked, $_), qr/08P01: a node has answered with something that does not make table public\.t/, "refused: $_") for (
		'CREATE TABLE job.t (a int) INHERITS (public.victim)', 'CREATE TABLE job.t PARTITION OF public.victim DEFAULT', 'CREATE TABLE job.t OF public.victim', 'CREATE TABLE job.t (LIKE public.victim)',
		'CREATE TABLE job.t (a int) PARTITION BY LIST (a)', 'CREATE TABLE job.t (a int) TABLESPACE fast', 'CREATE TABLE job.t (a int) USING other', 'CREATE TABLE job.t (a int REFERENCES public.victim)',
		'CREATE TABLE job.t (a int GENERATED ALWAYS AS IDENTITY)', 'CREATE TABLE public.victim (a int)', 'CREATE TEMP TABLE job.t (a int)', 'CREATE TABLE job.t AS SELECT 1 AS a', 'CREATE TABLE other.job.t (a int)',
		'ALTER TABLE public.t ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES public.victim(a)', 'ALTER TABLE public.t ADD CONSTRAINT k PRIMARY KEY (a) USING INDEX TABLESPACE fast', 'ALTER TABLE public.t INHERIT public.victim',
		'ALTER TABLE public.victim OWNER TO sly', 'ALTER INDEX public.victim_pkey ALTER COLUMN 1 SET STATISTICS 5', 'ALTER TABLE public.t SET TABLESPACE fast', 'CREATE INDEX i ON public.victim (a)', 'CREATE INDEX i ON job.t (a) TABLESPACE fast',
		q{COMMENT ON TABLE public.victim IS 'x'}, q{COMMENT ON COLUMN public.victim.a IS 'x'}, q{COMMENT ON CONSTRAINT k ON public.victim IS 'x'}, q{COMMENT ON INDEX public.victim_pkey IS 'x'}, q{COMMENT ON SCHEMA job IS 'x'},
		q{COMMENT ON TYPE public.victim IS 'x'}, q{COMMENT ON TYPE job.t[] IS 'x'}, q{COMMENT ON TYPE int IS 'x'},
		'CREATE TRIGGER g BEFORE INSERT ON public.victim FOR EACH ROW EXECUTE FUNCTION public.f()', 'CREATE OR REPLACE TRIGGER g BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.f()',
		'CREATE CONSTRAINT TRIGGER g AFTER INSERT ON public.t FROM public.victim FOR EACH ROW EXECUTE FUNCTION public.f()', 'GRANT sly TO postgres', 'GRANT SELECT ON public.t, public.victim TO sly',
		'CREATE STATISTICS public.s ON a, b FROM public.victim', 'ALTER TABLE public.t OWNER TO sly --', 'ALTER TABLE public.t OWNER TO sly; COMMIT', '');
}

done_testing();
