# Tests which roles may do what. There are three matrices:
#
#   object x role       Every role calls every function of the extension's schemas, and reads
#                       and writes every table and view. An object without an expectation in
#                       this file fails the test.
#
#   path x role         Every way into a sharded table must give each role what the plain table
#                       gives it. Roles that have no access to a node are the exception.
#
#   row security x path Statements under policies must give the rows and errors of the plain table.
#
# PRINT_MATRIX=1 prints the outcomes of the objects, in the format of %outcomes.
#
# All roles have mappings to the same role of the nodes, which may do everything there. So only the
# coordinator restricts them. Roles that add_user() has added have separate roles on the nodes, with
# the same rights as on the coordinator.

use strict;
use warnings;

use ShardCluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $c = ShardCluster->new(nodes => 2, host => 'tcp');
my @roles = qw(boss owner reader writer tenant nobody member plain_member bare nomap);
# one may read as a member of a group, and some columns; one may do everything except change the
# definition
my @added = qw(added_reader added_writer);

for my $i (1 .. 2)
{
	$c->node_safe_psql($i, q{CREATE ROLE app LOGIN CREATEROLE PASSWORD 'pw-app'; GRANT ALL ON SCHEMA public TO app;
		DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO app', current_database()); END $$});
	my $hba = $c->node($i)->data_dir . '/pg_hba.conf';
	my $old = slurp_file($hba);
	open my $fh, '>', $hba or die;
	print $fh "host all app,added_reader,added_writer,late 127.0.0.1/32 scram-sha-256\n$old";
	close $fh;
	$c->node($i)->reload;
}

# boss is the superuser. member may do what owner may do, by SET ROLE; plain_member has not run SET
# ROLE. bare has all rights, but no password in its mapping. nomap has no mapping.
$c->safe_psql(q{
	CREATE ROLE boss LOGIN SUPERUSER; CREATE ROLE owner LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
	CREATE ROLE tenant LOGIN; CREATE ROLE nobody LOGIN; CREATE ROLE member LOGIN NOINHERIT; CREATE ROLE plain_member LOGIN NOINHERIT;
	CREATE ROLE bare LOGIN; CREATE ROLE nomap LOGIN;
	GRANT owner TO member, plain_member;
	CREATE ROLE added_readers; CREATE ROLE added_reader LOGIN IN ROLE added_readers; CREATE ROLE added_writer LOGIN; CREATE ROLE late LOGIN; CREATE ROLE spare LOGIN;
	GRANT CREATE ON SCHEMA public TO owner, bare, nomap;
	GRANT USAGE ON FOREIGN SERVER node1, node2, shardfdw_cluster TO owner;
	GRANT USAGE ON FOREIGN DATA WRAPPER shardfdw TO owner});
for my $i (1 .. 2)
{
	$c->safe_psql("CREATE USER MAPPING FOR $_ SERVER node$i OPTIONS (user 'app', password 'pw-app')")
	  for qw(boss owner reader writer tenant nobody member plain_member);
	$c->safe_psql("CREATE USER MAPPING FOR bare SERVER node$i OPTIONS (user 'app')");
}

# t is sharded, t_plain is not; s has row security, s_plain too; r is a reference table.
my $grants = q{
	GRANT SELECT ON {x} TO reader; GRANT INSERT ON {x} TO writer; GRANT ALL ON {x} TO tenant, bare, nomap;
	GRANT SELECT ON {x} TO added_readers; GRANT UPDATE (v) ON {x} TO added_reader; GRANT ALL ON {x} TO added_writer;};
# one before there are tables, one after they exist
$c->safe_psql(q{SET ROLE boss; SELECT shardfdw.add_user('added_writer', password => 'pw-added')});
my $policies = q{
	ALTER TABLE {x} ENABLE ROW LEVEL SECURITY;
	CREATE POLICY own ON {x} USING ((who || '' || '' || '' || '')::name = current_user) WITH CHECK (who = current_user);};
sub each_table
{
	my ($text, @names) = @_;
	return join ';', map { my $x = $_; (my $s = $text) =~ s/\{x\}/$x/g; $s } @names;
}
$c->safe_psql('SET ROLE owner;'
	  . each_table('CREATE TABLE {x} (id int PRIMARY KEY, who name, v int CHECK (v <> 666), secret text)', qw(t t_plain s s_plain r r_plain))
	  . ";SELECT shardfdw.shard_table('t', 'id', shards => 4); SELECT shardfdw.shard_table('s', 'id', shards => 4); SELECT shardfdw.create_reference_table('r');"
	  . each_table("INSERT INTO {x} SELECT i, CASE WHEN i % 2 = 0 THEN 'tenant' ELSE 'other' END, i, 'secret' || i FROM generate_series(1, 20) i;", qw(t t_plain s s_plain r r_plain))
	  . each_table($grants, qw(t t_plain s s_plain r r_plain))
	  . each_table($policies, qw(s s_plain))
	  . ';CREATE TABLE loose (id int); CREATE TABLE empty (id int) PARTITION BY RANGE (id)');
$c->safe_psql(q{SET ROLE boss; SELECT shardfdw.add_user('added_reader', password => 'pw-added')});

# script(role, statements): one session of that role. Returns one line per statement: "name:
# SQLSTATE", or the output if $keep_output is set. Statements run in transactions that are rolled
# back.
sub script
{
	my ($role, $statements, %opt) = @_;
	my $sql = "\\set VERBOSITY sqlstate\nSET client_min_messages = error;\n" . ($opt{settings} // '');
	$sql .= "SET ROLE owner;\n" if $role eq 'member';
	for (@$statements)
	{
		my ($name, $text) = @$_;
		$text .= ';' unless $text =~ /[;.]\s*$/ || $text =~ /\\\.\n$/;
		$sql .= "\\echo == $name\nBEGIN;\n$text\n\\set state :SQLSTATE\n";
		# psql sets no SQLSTATE when a COPY breaks off under way
		$sql .= "SELECT 1 AS alive \\gset\n" . ($opt{end} // 'ROLLBACK') . ";\n" . ($opt{after} // '');
		$sql .= "\\echo -- :state :alive\n\\unset alive\n";
	}
	my ($out, $err) = ('', '');
	$c->coordinator->psql('postgres', $sql, stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => [ '-U', $role ]);
	my @result;
	for my $part (split /^== /m, $out)
	{
		next unless $part =~ s/^(.*)\n//;
		my $name = $1;
		my ($state, $alive) = $part =~ s/^-- (\w*) (\S+)\s*\z//m ? ($1, $2) : ('none', '');
		$state = 'broken off' if ($state eq '00000' || $state eq '') && $alive ne '1';
		push @result, [ $name, $state, join("\n", sort split /\n/, $part) ];
	}
	return @result;
}

# --------------------------------------------------------------------------------------------------
# 1. Objects

# Calls of functions with special arguments. All other arguments get values by their names and
# types.
my %calls = (
	'add_node' => q{shardfdw.add_node('node9', '127.0.0.1', 1, options => '{"connect_timeout": "2"}')},
	'add_coordinator' => q{shardfdw.add_coordinator('c9', '127.0.0.1', 1, options => '{"connect_timeout": "2"}')},
	'remove_coordinator' => q{shardfdw.remove_coordinator('c9')},
	'server_commands' => q{shardfdw_internal.server_commands('c9', 'h', 1, 'd', 'u', 'p', '{}')},
	'shard_storage_options' => q{shardfdw_internal.shard_storage_options('t', NULL)}, 'settle_server' => q{shardfdw_internal.settle_server('node1')}, 'make_server' => q{shardfdw_internal.make_server(ARRAY['CREATE SERVER c9 FOREIGN DATA WRAPPER shardfdw', 'SELECT 1'])},
	'announce_identity' => undef,
	'grant_as' => q{shardfdw_internal.grant_as('reader', 'GRANT SELECT ON t TO reader')}, 'repeat_grant' => q{shardfdw_internal.repeat_grant('reader', 'GRANT SELECT ON public.t TO reader')},
	'acl_text' => q{shardfdw_internal.acl_text(NULL, 'r', 10)},
	'lock_placements' => q{shardfdw_internal.lock_placements('{t_00}', 'node1', false)},
	'set_placements' => q{shardfdw_internal.set_placements('{t_00}', 'node1', 'node2')},
	'take_turn' => q{shardfdw_internal.take_turn('t', true)}, 'take_reference_turn' => undef, 'set_turns' => q{shardfdw_internal.set_turns('t')}, 'check_cluster' => q{shardfdw.check_cluster('rows')},
	'follow_coordinator' => q{shardfdw_internal.follow_coordinator('x', 'SELECT 1', 'x', '{}')},
	'adopt_restored' => undef, 'grant_restored' => undef, 'send_reference_write' => undef, 'follow_aggregates' => undef, 'drop_replicas' => undef,
	'shardfdw_handler' => undef, 'change_nodes' => undef, 'check_loaded' => undef, 'refuse_change_of_conversion' => undef, 'refuse_drop_of_successor' => undef, 'refuse_drop_of_home' => undef, 'refuse_write_of_import' => undef,
	'shardfdw_validator' => q{shardfdw_internal.shardfdw_validator('{}', 'pg_foreign_server'::regclass)},
	'shard_table' => q{shardfdw.shard_table('loose', 'id', shards => 2)},
	'run_beside' => q{shardfdw_internal.run_beside('node1', ARRAY['SELECT 1'])}, 'make_node_database' => q{shardfdw_internal.make_node_database('node1', 'postgres', NULL)},
	'database_mark' => q{shardfdw_internal.database_mark('node1', 'nowhere')},
	'add_user' => q{shardfdw.add_user('spare', password => 'x')}, 'make_user' => q{shardfdw_internal.make_user('spare', '{node1,node2}', NULL)},
	'map_user' => q{shardfdw_internal.map_user('spare', 'node1', '{user=spare}')}, 'roles_to_make' => q{shardfdw_internal.roles_to_make('spare'::regrole)},
	'role_check_commands' => q{shardfdw_internal.role_check_commands('spare'::regrole)}, 'role_commands' => q{shardfdw_internal.role_commands('spare'::regrole, NULL)},
	'add_users_to' => q{shardfdw_internal.add_users_to('node1')},
	'copy_all_references' => q{shardfdw_internal.copy_all_references('node1')}, 'equip_node' => q{shardfdw_internal.equip_node('node1', '{}', false)},
	'check_references_on_nodes' => q{shardfdw_internal.check_references_on_nodes('t', 'shard', '{node1}')},
	'drop_reference_replica' => q{shardfdw_internal.drop_reference_replica('r', 'node1')},
	'shard_tables' => q{shardfdw.shard_tables('{loose}', 'id', 2)},
	'key_beside_others' => q{shardfdw_internal.key_beside_others('loose', '{loose}', 'id')},
	'key_default_reason' => q{shardfdw_internal.key_default_reason('t', 1::smallint)},
	'set_key_defaults' => q{shardfdw_internal.set_key_defaults('t', '{t_00}')},
	'set_shards_schema' => q{shardfdw.set_shards_schema('t', 'public')},
	'create_shard' => q{shardfdw.create_shard('empty', 'empty_1', 'FROM (1) TO (2)', 'node1')},
	'create_reference_table' => q{shardfdw.create_reference_table('loose')},
	'unshard_reference' => q{shardfdw_internal.unshard_reference('r')},
	'unshard_table' => q{shardfdw.unshard_table('t')},
	'drop_on_nodes' => q{shardfdw_internal.drop_on_nodes('{node1}', '{SELECT 1}', '{x}')},
	'unshard_block' => q{shardfdw_internal.unshard_block('t')},
	'bring_home' => q{shardfdw_internal.bring_home('loose')},
	'checked_definition' => q{shardfdw_internal.checked_definition('CREATE INDEX ON t (v)', NULL)},
	'checked_part' => q{shardfdw_internal.checked_part('CREATE TABLE a.b (c int)', 'a.b', 'a.b', '{}')}, 'moving_command' => q{shardfdw_internal.moving_command('table', 'CREATE TABLE a.b (c int)', 'a.b', 'a.b', '{}')},
	'home_key' => q{shardfdw_internal.home_key('loose')},
	'home_node' => q{shardfdw_internal.home_node(NULL)},
	'shard_constraint_commands' => q{shardfdw_internal.shard_constraint_commands('t', 'id')},
	'check_home' => q{shardfdw_internal.check_home('public', false)},
	'move_schema' => q{shardfdw.move_schema('public', 'node1')},
	'unshard_online' => q{shardfdw_internal.unshard_online('loose', true)},
	'check_conversion_mode' => q{shardfdw_internal.check_conversion_mode('t', 'block', true)},
	'mark_conversion' => q{shardfdw_internal.mark_conversion('loose', 1)},
	'drop_conversion_table' => q{shardfdw_internal.drop_conversion_table('loose'::regclass)},
	'lock_table' => q{shardfdw_internal.lock_table('loose', 'ACCESS EXCLUSIVE')},
	'lock_view' => q{shardfdw_internal.lock_view('t')},
	'lock_to_clear' => q{shardfdw_internal.lock_to_clear('loose')},
	'claim_job' => q{shardfdw_internal.claim_job(1, 0)},
	'check_recovered' => q{shardfdw_internal.check_recovered('{t_00}', 'moved', true)},
	'sequence_commands' => q{shardfdw_internal.sequence_commands('t', 't')},
	# the test's ROLLBACK would not undo what is recorded on nodes
	'declare_commits_received' => q{shardfdw_internal.declare_commits_received((SELECT NULL::text))},
	'promote_coordinator' => q{shardfdw.promote_coordinator(NULL)},
	'remove_node' => q{shardfdw.remove_node('node2')},
	'check_shardable' => q{shardfdw_internal.check_shardable('loose', true)},
	'check_conversion' => q{shardfdw_internal.check_conversion('loose', 'id', NULL)},
	'shard_online' => q{shardfdw_internal.shard_online('loose', 'id', 2, '{node1}', NULL, true)},
	'begin_conversion' => q{shardfdw_internal.begin_conversion('loose', '{"key": "id", "nodes": ["node1"]}', 0)},
	'lock_for_conversion' => q{shardfdw_internal.lock_for_conversion('loose', 'ACCESS EXCLUSIVE')},
	'lock_conversion' => q{shardfdw_internal.lock_conversion('loose', '{}')},
	'make_successor' => q{shardfdw_internal.make_successor('loose', 'public.successor', NULL)},
	'take_sequences' => q{shardfdw_internal.take_sequences('loose', 'empty')},
	'choose_key' => q{shardfdw_internal.choose_key('t', 'id')},
	'key_columns' => q{shardfdw_internal.key_columns('t', NULL)},
	'choose_placement' => q{shardfdw_internal.choose_placement(4, '{node1,node2}', NULL)},
	'partition_table' => q{shardfdw_internal.partition_table('loose', 'id')},
	'replace_by_shards' => q{shardfdw_internal.replace_by_shards('loose', 'id', '{loose_00}', '{"FOR VALUES WITH (MODULUS 1, REMAINDER 0)"}', '{node1}', NULL, NULL)},
	'judge_node' => q{shardfdw_internal.judge_node('node1', '{}', now())},
	'exchange_tables' => q{shardfdw_internal.exchange_tables('loose', 'loose', '{}')},
	'replace_table' => q{shardfdw_internal.replace_table('loose', 'HASH (id)', 'loose_old')},
	'drop_replaced_table' => q{shardfdw_internal.drop_replaced_table('loose', 'loose')},
	'make_shards' => q{shardfdw_internal.make_shards('empty', '{empty_1}', '{FROM (1) TO (2)}', '{node1}')},
	'index_shards' => q{shardfdw_internal.index_shards('t', '{t_00}', '{node1}')},
	'run_on_new_shards' => q{shardfdw_internal.run_on_new_shards('public', '{t_00}', '{node1}', '{CREATE TABLE}', '{(i int)}', '{t_00}', '{table}', '{t_00}')},
	'make_schema_on_nodes' => q{shardfdw_internal.make_schema_on_nodes('t', 'public', '{node1}')},
	'make_objects_on_nodes' => q{shardfdw_internal.make_objects_on_nodes('t', '{node1}')},
	'make_reference_replicas' => q{shardfdw_internal.make_reference_replicas('loose', '{node1}')},
	'copy_reference_rows' => q{shardfdw_internal.copy_reference_rows('r', '{node1}')},
	'compare_objects' => q{shardfdw_internal.compare_objects('{t}', '{node1}', 'read')},
	'run_on_nodes' => q{shardfdw.run_on_nodes('SELECT 1')},
	'run_on_shards' => q{shardfdw.run_on_shards('t', 'SELECT 1')},
	'query_nodes' => q{shardfdw.query_nodes('{node1}', '{SELECT 1}')},
	'run_commands' => q{shardfdw_internal.run_commands('{node1}', '{SELECT 1}')},
	'shard_for' => q{shardfdw.shard_for('t', 1)},
	'create_reject_table' => q{shardfdw.create_reject_table('public.rejects', 'owner')},
	'set_node_option' => q{shardfdw_internal.set_node_option('node1', 'cores', '4')},
	'lock_wrapper' => q{shardfdw_internal.lock_wrapper((SELECT oid FROM pg_foreign_data_wrapper WHERE fdwname = 'shardfdw'))},
	'refused_options' => q{shardfdw_internal.refused_options((SELECT oid FROM pg_foreign_data_wrapper WHERE fdwname = 'shardfdw'), 'shardfdw_internal.shardfdw_validator')},
	'attach_partial_aggregate' => q{shardfdw_internal.attach_partial_aggregate('sum(bigint)', 'avg(bigint)')},
	'same_schema_condition' => q{shardfdw_internal.same_schema_condition('public', 'node1')},
	'copy_aggregate' => q{shardfdw_internal.copy_aggregate('sum(bigint)', '{node1}', 'autocommit')},
	'copy_aggregate_as_owner' => q{shardfdw_internal.copy_aggregate_as_owner('sum(bigint)', '{node1}', 'autocommit')},
	'undistribute_aggregate' => q{shardfdw.undistribute_aggregate('sum(bigint)')},
	'distribute_aggregate' => q{shardfdw.distribute_aggregate('sum(bigint)')},
	'job_is_running' => q{shardfdw_internal.job_is_running(1)},
	'job_works_on' => q{shardfdw_internal.job_works_on(1, 'import', 't')},
	'cancel_job' => q{shardfdw.cancel_job(1)},
	'watch' => q{shardfdw_internal.watch($$SELECT '{}'::jsonb$$, true)},
	'wait_job' => q{shardfdw.wait_job(1)},
	'wait_move' => q{shardfdw_internal.wait_move(1)},
	'is_this_server' => q{shardfdw_internal.is_this_server('node1')},
	'check_wait' => q{shardfdw_internal.check_wait('f', 'node1', 'online')},
	'job_schema' => q{shardfdw_internal.job_schema(1)},
	'moving_questions' => q{shardfdw_internal.moving_questions('{t_00}', 1, 1, '{}')},
	'moving_parts' => q{shardfdw_internal.moving_parts('{t_00}', 1, 1, '{}')},
	'shard_group' => q{shardfdw_internal.shard_group('t_00')},
	'moving_tables' => q{shardfdw_internal.moving_tables('t_00')},
	'check_group_here' => q{shardfdw_internal.check_group_here('t_00', 'block', 'moved')},
	'check_job_nodes' => q{shardfdw_internal.check_job_nodes('{t_00}', 'node1', 'node2', 'block', 'moved')},
	'check_split_here' => q{shardfdw_internal.check_split_here('t_00', 2, '{}', 'block')},
	'key_types' => q{shardfdw_internal.key_types('t', '{1}')},
	'job_tables' => q{shardfdw_internal.job_tables('{t_00}')},
	'check_pieces_here' => q{shardfdw_internal.check_pieces_here('{t_00}', 2, '{}', 'split')},
	'check_merge_here' => q{shardfdw_internal.check_merge_here('{t_00,t_01}', 'block')},
	'check_split_key' => q{shardfdw_internal.check_split_key('t', 't_00')},
	'check_split_node' => q{shardfdw_internal.check_split_node('t_00', 'node1', 'block')},
	'bound_values' => q{shardfdw_internal.bound_values('(1)')},
	'shard_bound' => q{shardfdw_internal.shard_bound('t_00')},
	'shard_key_type' => q{shardfdw_internal.shard_key_type('t_00')},
	'key_values' => q{shardfdw_internal.key_values('t_00', '{1}')},
	'are_among' => q{shardfdw_internal.are_among('t_00', '{1}', '{1}')},
	'piece_bounds' => q{shardfdw_internal.piece_bounds('{t_00}', 2, '{}')},
	'check_split_at' => q{shardfdw_internal.check_split_at('t_00', '{}')},
	'shard_pieces' => q{shardfdw_internal.shard_pieces('{t_00}', 2, '{}')},
	'piece_renames' => q{shardfdw_internal.piece_renames('{t_00}', 't_00', 2, '{}', 1)},
	'piece_parts' => q{shardfdw_internal.piece_parts('{t_00}', 1, 2, '{}')},
	'run_here' => q{shardfdw_internal.run_here('SELECT 1/0')},
	'run_job' => q{shardfdw_internal.run_job('x', '{t}', 0, 1, '{}', 'block', false, false)},
	'check_move_here' => q{shardfdw_internal.check_move_here('t_00', 'node2', 'block')},
	'check_move_nodes' => q{shardfdw_internal.check_move_nodes('t_00', 'node1', 'node2', 'block')},
	'start_job' => q{shardfdw_internal.start_job('{t}', 0, 1, '{}', false, false)},
	'set_shard_count' => q{shardfdw.set_shard_count('t', 0, wait => false)},
	'sharding_step' => q{shardfdw_internal.sharding_step('t', 0)},
	'run_sharding_step' => q{shardfdw_internal.run_sharding_step('move', '{t_00}', 1, 'node9', 'block', true)},
	'merge_shards' => q{shardfdw.merge_shards('{t_00}', 'block')},
	'split_shard' => q{shardfdw.split_shard('t_00', 1, 'block')},
	'move_shard' => q{shardfdw.move_shard('t_00', 'node9', 'block')},
	'balance' => q{shardfdw_internal.balance('{1}', '{1}', '{t}', '{1}', 0)},
	'rebalance_plan' => q{shardfdw.rebalance_plan('count')},
	'rebalance' => q{shardfdw.rebalance('luck', wait => false)},
	'drain_node' => q{shardfdw.drain_node('node9', wait => false)},
	'start_series' => q{shardfdw_internal.start_series('x', 0, 0, '{}', true)},
	'run_series' => q{shardfdw_internal.run_series('x', 0, 0, '{"mode": "block"}', false)},
	'series_step' => q{shardfdw_internal.series_step('{}', 0)},
	'check_series' => q{shardfdw_internal.check_series('x', 'block', true, false)},
	'plan_moves' => q{shardfdw_internal.plan_moves('count', 0.1, NULL, 'block', true)},
	'create_restore_point' => q{shardfdw.create_restore_point('')},
	'check_restore_point_nodes' => q{shardfdw_internal.check_restore_point_nodes('{node1}')},
	'set_restore_point' => q{shardfdw_internal.set_restore_point('x', '{}')},
	'move_step' => q{shardfdw_internal.move_step('t_00', 'node9', 'node2', 'block', false)},
	'remove_traces' => q{shardfdw_internal.remove_traces('{node1}')},
	'check_no_traces' => q{shardfdw_internal.check_no_traces('{1}', '{node1}')},
	'old_tables_in_use' => q{shardfdw_internal.old_tables_in_use('node1', '[]')},
	'moving_table_query' => q{shardfdw_internal.moving_table_query('x', 'y.x', 'x', NULL, '{}', '{}')},
	'source_has_tables' => q{shardfdw_internal.source_has_tables('{"side": "source", "server": 1, "other": 2, "tables": []}')},
	'trace_commands' => q{shardfdw_internal.trace_commands('x', '{"side": "source", "server": 1, "other": 2, "tables": []}')},
	'needed_objects' => q{shardfdw_internal.needed_objects('{t}')},
	'common_keys' => q{shardfdw_internal.common_keys('t', '{t}', '[]')},
	'expected_definition' => q{shardfdw_internal.expected_definition('{}', '{}', '{}', '{}')},
	'note_default_collation' => q{shardfdw_internal.note_default_collation('node1', 'libc C')},
	'copy_command' => q{shardfdw_internal.copy_command('sum(bigint)'::regprocedure)},
	'aggregate_definition' => q{shardfdw_internal.aggregate_definition('sum(bigint)'::regprocedure, true)},
);
my %by_type = (
	bigint => '1', pg_lsn => q{'0/1'}, regnamespace => q{'public'}, regclass => q{'t'}, 'name[]' => q{'{node1,node2}'}, name => q{'node1'}, text => q{'x'}, boolean => 'false',
	integer => '4', xid => q{'1'}, xid8 => q{'1'}, jsonb => q{'{}'}, 'jsonb[]' => q{'{}'}, 'text[]' => q{'{}'}, 'smallint[]' => q{'{1}'}, 'regclass[]' => q{'{t}'},
	oid => q{'sum(bigint)'::regprocedure}, regprocedure => q{'sum(bigint)'}, regproc => q{'version'}, anyelement => '1', interval => q{'1 day'}, 'timestamp with time zone' => q{'2000-01-01'}, 'timestamp without time zone' => q{'2000-01-01'});

# One SQLSTATE or ok for each of @roles. Functions that use nodes as the caller need USAGE on their
# servers. An error other than 42501 is about the arguments, which are checked after the rights.
my %outcomes = (
	# replicas of shards: owners of the table with USAGE on the nodes
	'22004 22004 42501 42501 42501 42501 22004 42501 42501 42501' => q{make_replicas make_placements},
	'42P01 42P01 42501 42501 42501 42501 42P01 42501 42501 42501' => q{note_placements},
	'42601 42601 42601 42601 42601 42601 42601 42601 42601 42601' => q{set_view_query read_here},
	'39P03 39P03 39P03 39P03 39P03 39P03 39P03 39P03 39P03 39P03' => q{refuse_drop_of_successor_seen refuse_drop_of_home_seen},
	'42804 42804 42804 42804 42804 42804 42804 42804 42804 42804' => q{
		import_columns},
	'55000 55000 55000 42501 55000 42501 55000 42501 2F003 42704' => q{
		check_import_empty},
	# databases of nodes: those of the tests were not made by add_node()
	'42P04 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{clone_node_databases make_node_database},
	# the nodes have no schema with that name
	'3F000 3F000 42501 42501 42501 42501 3F000 42501 42501 42501' => q{make_tables_on_nodes},
	# reads catalogs, the session or objects that the caller may see; changes nothing of other roles
	'ok ok ok ok ok ok ok ok ok ok' => q{
		refuse_change_of_conversion_seen
		import_close_commands import_owners import_source_query import_sums_queries imports remove_imports sequences_query sums_query undo_own_import resumable_loads_read
		missing_subscriptions subscription_latest_copy subscription_rank subscription_copies subscription_position subscription_read subscriptions_read
		is_unlogged check_followable log_sequences is_gone key_definition
		apply_replicas note_dropped_reference check_shard_replicable check_no_replicas check_node_name tables_with_nodes choose_replicas drop_replica_command replica_mark forget_position has_replicas inspect_replicas nodes_in_option note_replica_commands notes_name own_replicas shard_placements tables_with_replicas turn_of_tables warn_unchanged
		aggregate_definition all_connections builtin_partial_aggregates check_default_shard check_constraint_definitions check_key key_obstacles default_obstacles constraint_obstacles dependent_obstacles not_null_obstacles check_obstacles obstacle table_warnings dependent_views rule_depends empty_views check_table check_key_default key_default_reason shards_schema key_beside_others grant_on_nodes same_schema_condition grants_on_nodes role_commands role_check_commands role_mark roles_to_make scram_secret tables_on_nodes cloned_name own_mark server_mark
		aggregates_of aggregates_of_seen check_isolation make_objects_seen check_cluster checksum_query compare_definitions compare_objects connections_read coordinator_identity
		copy_aggregate copy_aggregate_as_owner copy_command default_collation describe_query describe_tables disconnect expected_replica
		expected_definition expected_shards hash_placement in_remote_transaction is_alone choose_conversion_mode doubt_nodes
		common_keys index_definitions inspect_objects is_reference is_sharded key_signature keys_of_levels library_version list_prepared load_stats
		needed needed_objects nodes_read note_default_collation
		object_query obstacle_in_body obstacle_to_replicas parent_index_commands prepared_transactions_read recover_prepared_transactions
		reference_index_commands reference_key_commands reference_tables reference_triggers schema_command session_connections
		shard_columns shard_command shard_differences shard_for shard_index_commands shard_name shard_object_name shard_sizes
		shard_table_commands stored_rows tables_of_type shards_of shards_read shared_connections_read stat_nodes_read node_counters adopted_wrapper_read node_adder_read load_id_read stat_load_read
		storage_options storage_options_query store_identity successor_commands support_functions tables_read tables_that_need granted_nodes partial_aggregate_name partial_aggregate_nodes
		owner_code_query schema_owner_query owns_shards expects_right role_on_node give_command note_guard validating_command is_owner check_owner_code check_owner_code_seen check_owner_code_of_shards index_before_rows
		check_colocatable choose_key column_commands insertable_columns judge_node
		check_no_traces has_older_snapshots old_tables_in_use placements_of release_command turn_command
		remove_traces shard_group shard_groups shard_together_call extensions_command check_no_left_shard balance node_option check_accepts can_step revoke_command movable_groups move_step check_drained moving_tables job_schema job_token key_types job_tables shard_pieces piece_renames piece_parts check_split_key check_pieces_here moving_questions moving_table_query job_is_running job_works_on servers_of source_has_tables decided_identities trace_commands jobs_read left_shard_read restore_points_read
		check_recovered claim_conversion claim_job clear_conversion_shards clear_conversion_tables conversion_objects holds_job remove_conversion_shards
		bound_values shard_bound shard_key_type key_values are_among piece_bounds check_split_at is_this_server check_wait watch replicated_tables session_sql
		activity_read lock_waits_read long_transactions_read node_status_read stat_shards_read stat_replication_read
		key_columns node_query policy_commands privilege_commands publication_commands publications_of statistics_commands statistics_definitions successor_of trigger_commands changed_rows_query check_no_conversion conversion_definition conversion_name conversion_servers conversions hash_bounds identity_columns remove_conversions
		shard_key_commands shard_names at_most take_sequences undo_conversions user_aggregates
		check_conversion_mode check_unsharding_noted conversion_owners key_column_definitions note_function_commands note_trigger_commands noted_shards own_conversions
		run_on_noted_shards sequence_commands successor_index_commands unnote_conversion unnote_conversions validation_conversion referenced_conversion run_on_conversion
		description_commands grant_commands role_text shard_obstacles free_shard_names checked_columns checked_part moving_command check_references_on_nodes set_turns check_series series_step check_plain_keys shared_sequences broken_keys_query compare_references_of_peers
		acl_text check_empty_on_peers check_no_peers coordinators_read definitions peers server_commands share_sequences
		is_error_of_table own_name_condition warn_unmoved unmoved_message
		check_not_at_home sharded_schemas_read home_key home_of is_at_home shard_constraint_commands checked_definition inspect_schemas},
	# as LOCK TABLE
	'ok ok 42501 42501 ok 42501 ok 42501 2F003 42704' => q{lock_with_views},
	# if no node is usable for the caller
	'ok ok 55000 55000 55000 55000 ok 55000 55000 55000' => q{drain_replica plan_moves rebalance_plan accepting_nodes home_node},
	# for who may read or write the table
	'ok ok ok ok ok 42501 ok 42501 ok ok' => q{hold_shards},
	# for who may write to it
	'ok ok 42501 ok ok 42501 ok 42501 ok ok' => q{take_turn},
	# for owners of the table with USAGE on the nodes
	'ok ok 42501 42501 42501 42501 ok 42501 42501 42501' => q{
		grant_tables_on_nodes lock_new_objects lock_servers mark_import own_notes
		referring_table subscription_referring
		answering_nodes compare_replicas lock_all_replicas lock_node_list lock_replicas note_copied_table note_left_shard settle_node take_replicas_turn
		compare_reference_definitions drop_reference_replica equip_node outdated_references warn_missing_shards
		add_users_to check_shard_owners make_user
		check_drainable check_owner_code_on_nodes check_replaceable create_shard different_replicas drop_replaced_table find_missing_partial_aggregates follow_siblings grant_as repeat_grant set_key_defaults set_shards_schema inspect_nodes
		inspect_references inspect_shards inspect_partial_aggregates make_reference_replicas make_schema_on_nodes
		nodes_without_replica note_identity query_nodes run_commands drop_on_nodes drop_conversion_table lock_table lock_to_clear replace_table create_reference_table shard_table shard_tables unshard_reference unshard_table shard_clustered_index shard_foreign_keys shard_storage_options validation_unsharding referenced_unsharding exchange_tables
		check_new_node check_replaceable_kind choose_placement inspect_identity inspect_tables check_shardable note_cores partition_table
		make_successor
		replace_by_shards usable_nodes ask_for_move check_move_nodes check_move_here check_group_here check_job_nodes check_split_here check_split_node job_traces moving_parts
		home_constraint_commands home_constraints unshard_block
		compare_coordinators inspect_foreign_keys lock_placements set_placements settle_server},
	# the names do not exist
	'22023 ok 42501 42501 42501 42501 ok 42501 42501 42501' => q{check_names_on_nodes},
	# arrays of different lengths
	'2202E 2202E 2202E 2202E 2202E 2202E 2202E 2202E 2202E 2202E' => q{check_owner_code_of_tables},
	# for who may lock the table
	'ok ok 42501 42501 ok 42501 ok 42501 ok ok' => q{
		lock_schemas make_objects_on_nodes prepare_nodes},
	'42809 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{move_replica start_import},
	# for superusers until granted, or for owners of the given objects
	'ok 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		shardfdw_validator database_mark make_server run_beside
		confirm_node disable_node enable_node forget_reference_position take_left_shards write_left_shard
		undecided_traces
		left_shard_written copied_table_read copied_table_written node_position_read node_position_written
		resumable_load_read resumable_load_written
		forget_subscriptions note_subscription note_subscription_ready note_subscription_copy note_subscription_error release_subscription subscription_definition subscription_written take_subscription
		add_user map_user
	 adopted_wrapper_written node_adder_written check_postgres_fdw_switch commit_log_read commit_log_written coordinator_read coordinator_written refresh_node
		distribute_aggregate job_read job_written job_id_read job_id_written undistribute_aggregate load_id_written lock_wrapper make_local_partial_aggregates make_partial_aggregates
		restore_point_read restore_point_written
		refused_options replace_identity reset_stat_nodes run_on_nodes run_on_shards set_node_option
		check_restored check_home lock_schema close_fence take_fence_turn commit_state lock_members lock_all_members},
	# no such job exists
	'42704 42704 42704 42704 42704 42704 42704 42704 42704 42704' => q{
		raise_obstacle cut_over ask_for_cut_over forget_load drop_import_mark undo_import
		cancel_job wait_job wait_move await_job},
	'55000 55000 55000 55000 55000 55000 55000 55000 55000 55000' => q{
		check_shardable_kind resumable_loads_written subscriptions_written
		raise_no_move connections_written check_conversion_noted check_conversion_unchanged nodes_written prepared_transactions_written shards_written shared_connections_written
		stat_load_written tables_written jobs_written restore_points_written
		activity_written lock_waits_written long_transactions_written node_status_written stat_nodes_written stat_shards_written stat_replication_written
		begin_following coordinators_written sharded_schemas_written},
	'42601 42601 42501 42501 42501 42501 42601 42501 42501 42501' => q{
		make_shards run_on_new_shards},
	'42501 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		check_restore_point_nodes copy_references_to_peer follow_coordinator
		raise_owner_code raise_schema_owner check_schema_owner},
	'55000 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		drop_node_databases
		create_restore_point set_restore_point require_restored
		move_schema unshard_schema},
	'42809 42809 42809 42809 42809 42809 42809 42809 42809 42809' => q{
		copy_shard_rows
		drop_old_time_partitions time_partitions
		start_job run_job start_conversion unshard_online
		raise_other_kind},
	# for the owner only; the table has no primary key
	'42501 0A000 42501 42501 42501 42501 0A000 42501 42501 42501' => q{
		begin_conversion check_conversion shard_online},
	'42501 ok 42501 42501 42501 42501 ok 42501 42501 42501' => q{
		check_import_here
		begin_unsharding check_conversion_owner check_unsharding lock_conversion lock_for_conversion lock_unsharding check_home_owner},
	'42501 55000 42501 42501 42501 42501 55000 42501 42501 42501' => q{
		begin_import
		note_conversion copy_conversion refer_conversion note_unsharding copy_unsharding},
	'42501 42P01 42501 42501 42501 42501 42P01 42501 42501 42501' => q{
		follow_changes},
	'22004 22004 22004 22004 22004 22004 22004 22004 22004 22004' => q{
		check_import_source
		note_function_of},
	'42P01 42P01 42P01 42P01 42P01 42P01 42P01 42P01 42P01 42P01' => q{
		mark_conversion
		switch_conversion switch_unsharding},
	'42704 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		drain_node move_shard run_sharding_step remove_coordinator
		release_postgres_fdw switch_postgres_fdw},
	'55000 55000 42501 42501 42501 42501 55000 42501 42501 42501' => q{
		judge_coordinator},
	'58000 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		add_coordinator add_node},
	'22004 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		adopt_postgres_fdw declare_commits_received},
	'22023 22023 22023 22023 22023 22023 22023 22023 22023 22023' => q{
		fill_views check_replication_factor start_series run_series
		read_as_owner
		set_import_sequences
		comparable_keys sharding_step},
	'08P01 08P01 08P01 08P01 08P01 08P01 08P01 08P01 08P01 08P01' => q{
		raise_unknown_part},
	'22012 22012 22012 22012 22012 22012 22012 22012 22012 22012' => q{
		run_here},
	'22023 22023 42501 42501 42501 42501 22023 42501 42501 42501' => q{
		check_merge_here},
	'22023 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		import_table
		split_shard merge_shards promote_coordinator rebalance resolve_transaction set_shard_count attach_partial_aggregate},
	'23505 23505 42501 42501 42501 42501 23505 42501 42501 42501' => q{
		copy_reference_rows},
	'2BP01 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		remove_all_nodes
		remove_node},
	'42809 42809 42501 42501 42809 42501 42809 42501 2F003 42704' => q{
		create_time_partitions},
	'42809 42809 42501 42501 42501 42501 42809 42501 42501 42501' => q{
		lock_view set_replica_nodes set_shard_node
		check_replicable},
	'42P07 42P07 42501 42501 42501 42501 42P07 42501 42501 42501' => q{
		copy_all_references},
	'0A000 0A000 0A000 0A000 0A000 0A000 0A000 0A000 0A000 0A000' => q{
		check_schema_tables check_key_between},
	'0A000 42501 42501 42501 42501 42501 42501 42501 42501 42501' => q{
		shard_schema},
	'42704 42704 42501 42501 42501 42501 42704 42501 42501 42501' => q{
		bring_home},
	'42P16 42P16 42501 42501 42501 42501 42P16 42501 42501 42501' => q{
		index_shards},
	'ok ok 42501 42501 42501 42501 ok 42501 ok ok' => q{
		create_reject_table},
);

my @functions;
for (split /\n/, $c->safe_psql(q{
	SELECT p.pronamespace::regnamespace || '.' || p.proname || '|' || pg_get_function_identity_arguments(p.oid) || '|' ||
		coalesce((SELECT string_agg(format_type(a, NULL), ';' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY x(a, n)), '') || '|' || p.prokind::text
	FROM pg_proc p WHERE pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND prokind <> 'a' ORDER BY 1}))
{
	my ($function, undef, $types, $kind) = split /\|/, $_, 4;
	my $name = $function =~ s/^.*\.//r;
	next if exists $calls{$name} && !defined $calls{$name};
	my $call = $calls{$name} // "$function(" . join(', ', map { $by_type{$_} // die "no argument of type $_ for $name" } split /;/, $types) . ')';
	push @functions, [ $name, $kind eq 'p' ? "CALL $call" : "SELECT count(*) FROM $call" ];
}
# The partial aggregates are plain aggregates for everybody.
is($c->safe_psql(q{SELECT count(*) FROM pg_proc WHERE pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND (prosecdef OR
		(prokind = 'a' AND NOT has_function_privilege('nobody', oid, 'EXECUTE')))}),
	0, 'nothing is SECURITY DEFINER, partial aggregates are for everybody');
is($c->safe_psql(q{SELECT string_agg(proname, ' ') FROM pg_proc p JOIN pg_language l ON l.oid = prolang
		WHERE pronamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND lanname IN ('sql', 'plpgsql') AND prokind = 'f'
		AND NOT EXISTS (SELECT FROM unnest(proconfig) c WHERE c = 'search_path=pg_catalog, pg_temp')}),
	'', 'every SQL function has its search_path');

my @relations;
for (split /\n/, $c->safe_psql(q{SELECT relnamespace::regnamespace || '.' || relname || '|' || relkind::text FROM pg_class
	WHERE relnamespace::regnamespace IN ('shardfdw', 'shardfdw_internal') AND relkind NOT IN ('i', 'c', 't') ORDER BY 1}))
{
	my ($relation, $kind) = split /\|/;
	my $name = $relation =~ s/^.*\.//r;
	push @relations, [ "$name read", "SELECT count(*) FROM $relation" ];
	push @relations, $kind eq 'S'
	  ? [ "$name written", "SELECT nextval('$relation')" ]
	  : [ "$name written", "DELETE FROM $relation WHERE false" ];
}

my %got;
for my $role (@roles)
{
	push @{ $got{ $_->[0] } }, $_->[1] for script($role, [ @functions, @relations ]);
}
my %expected;
for my $vector (keys %outcomes)
{
	$expected{$_} = $vector for map { s/_(read|written)$/ $1/r } split ' ', $outcomes{$vector};
}
if ($ENV{PRINT_MATRIX})
{
	my %groups;
	push @{ $groups{ join ' ', map { $_ eq '00000' ? 'ok' : $_ } @{ $got{$_} } } }, $_ =~ s/ /_/r for sort keys %got;
	diag("'$_' => q{\n\t\t@{ $groups{$_} }},") for sort keys %groups;
}
for my $object (map { $_->[0] } @functions, @relations)
{
	is(join(' ', map { $_ eq '00000' ? 'ok' : $_ } @{ $got{$object} }), $expected{$object} // 'something that somebody has thought about', "rights: $object");
}

# Only superusers, and roles to which it was granted.
$c->safe_psql('GRANT EXECUTE ON FUNCTION shardfdw.run_on_nodes TO owner');
is($c->safe_psql(q{SET ROLE owner; SELECT bool_and(ok) FROM shardfdw.run_on_nodes('SELECT 1')}), 't', 'granted: run_on_nodes');
$c->safe_psql('REVOKE EXECUTE ON FUNCTION shardfdw.run_on_nodes FROM owner');

# --------------------------------------------------------------------------------------------------
# 2. Paths. {x} is the table, {r} the small one.
my $data = "21\ttenant\t21\tx\n22\ttenant\t22\tx\n\\.\n";
my @paths = (
	[ 'SELECT', 'SELECT count(*), sum(v) FROM {x}' ],
	[ 'SELECT column', 'SELECT v FROM {x}' ],
	[ 'GROUP BY', 'SELECT who, count(*), avg(v) FROM {x} GROUP BY who' ],
	[ 'SELECT by key', 'SELECT * FROM {x} WHERE id = 5' ],
	[ 'prepared', 'PREPARE q (int) AS SELECT * FROM {x} WHERE id = $1; EXECUTE q(5); DEALLOCATE q' ],
	[ 'cursor', 'DECLARE cur CURSOR FOR SELECT * FROM {x} ORDER BY id; FETCH 3 FROM cur' ],
	[ 'join', 'SELECT count(*) FROM {x} a JOIN {x} b USING (id)' ],
	[ 'join reference', 'SELECT count(*) FROM {x} a JOIN {r} b USING (id)' ],
	[ 'sub-select', 'SELECT count(*) FROM {r} WHERE id IN (SELECT id FROM {x} WHERE v > 5)' ],
	[ 'FOR UPDATE', 'SELECT id FROM {x} WHERE v < 4 FOR UPDATE' ],
	[ 'FOR UPDATE by key', 'SELECT id FROM {x} WHERE id = 4 FOR UPDATE' ],
	[ 'TABLESAMPLE', 'SELECT count(*) FROM {x} TABLESAMPLE BERNOULLI (100)', 'differs' ],
	[ 'EXPLAIN', 'EXPLAIN (COSTS OFF) SELECT * FROM {x}', 'text' ],
	[ 'EXPLAIN ANALYZE', 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM {x}', 'text' ],
	[ 'EXPLAIN UPDATE', 'EXPLAIN (COSTS OFF) UPDATE {x} SET v = 1', 'text' ],
	[ 'INSERT', q{INSERT INTO {x} VALUES (21, 'tenant', 21, 'x')} ],
	[ 'INSERT rows', q{INSERT INTO {x} VALUES (21, 'tenant', 21, 'x'), (22, 'tenant', 22, 'x')} ],
	[ 'INSERT RETURNING', q{INSERT INTO {x} VALUES (21, 'tenant', 21, 'x') RETURNING *} ],
	[ 'INSERT SELECT', q{INSERT INTO {x} SELECT i, 'tenant', i, 'x' FROM generate_series(21, 30) i} ],
	[ 'INSERT SELECT itself', 'INSERT INTO {x} SELECT id + 100, who, v, secret FROM {x}' ],
	[ 'INSERT SELECT reference', 'INSERT INTO {x} SELECT id + 100, who, v, secret FROM {r}' ],
	[ 'ON CONFLICT', q{INSERT INTO {x} VALUES (1, 'tenant', 21, 'x') ON CONFLICT (id) DO UPDATE SET v = excluded.v} ],
	[ 'ON CONFLICT rows', q{INSERT INTO {x} VALUES (1, 'tenant', 21, 'x'), (2, 'tenant', 2, 'x') ON CONFLICT (id) DO UPDATE SET v = {x}.v + 1} ],
	[ 'ON CONFLICT DO NOTHING', q{INSERT INTO {x} VALUES (1, 'tenant', 21, 'x'), (25, 'tenant', 2, 'x') ON CONFLICT DO NOTHING} ],
	[ 'UPDATE', 'UPDATE {x} SET v = v + 1' ],
	[ 'UPDATE by key', 'UPDATE {x} SET v = 0 WHERE id = 3' ],
	[ 'UPDATE blindly', 'UPDATE {x} SET v = 0' ],
	[ 'UPDATE join', 'UPDATE {x} SET v = r.v + 1 FROM {r} r WHERE r.id = {x}.id' ],
	[ 'UPDATE RETURNING', 'UPDATE {x} SET v = v + 1 RETURNING id, v' ],
	[ 'DELETE', 'DELETE FROM {x}' ],
	[ 'DELETE by key', 'DELETE FROM {x} WHERE id = 3' ],
	[ 'DELETE join', 'DELETE FROM {x} USING {r} r WHERE r.id = {x}.id AND r.v > 10' ],
	[ 'MERGE by key', 'MERGE INTO {x} t USING (SELECT 3 AS id) s ON t.id = 3 AND s.id = t.id WHEN MATCHED THEN UPDATE SET v = 1' ],
	[ 'MERGE', q{MERGE INTO {x} t USING {r} s ON t.id = s.id WHEN MATCHED AND s.v > 10 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'tenant', 1, 'x')} ],
	[ 'COPY TO', 'COPY {x} TO STDOUT' ],
	[ 'COPY columns TO', 'COPY {x} (id, v) TO STDOUT (FORMAT csv)' ],
	[ 'COPY query TO', 'COPY (SELECT id FROM {x}) TO STDOUT' ],
	[ 'COPY FROM', "COPY {x} FROM STDIN;\n$data" ],
	[ 'COPY FROM WHERE', "COPY {x} FROM STDIN WHERE id > 21;\n$data" ],
	[ 'COPY columns FROM', "COPY {x} (id, who) FROM STDIN;\n41\ttenant\n\\.\n" ],
	[ 'TRUNCATE', 'TRUNCATE {x}' ],
	[ 'ANALYZE', 'ANALYZE {x}', 'reads' ],
	[ 'LOCK', 'LOCK TABLE {x}' ],
	[ 'LOCK share', 'LOCK TABLE {x} IN ACCESS SHARE MODE' ],
	[ 'ADD COLUMN', 'ALTER TABLE {x} ADD COLUMN extra int DEFAULT 7' ],
	[ 'ADD CHECK', 'ALTER TABLE {x} ADD CONSTRAINT c CHECK (v < 1000)' ],
	[ 'DISABLE ROW SECURITY', 'ALTER TABLE {x} DISABLE ROW LEVEL SECURITY' ],
	[ 'DROP COLUMN', 'ALTER TABLE {x} DROP COLUMN secret' ],
	[ 'CREATE INDEX', 'CREATE INDEX ON {x} (v)' ],
	[ 'CREATE POLICY', 'CREATE POLICY all_rows ON {x}' ],
	[ 'CREATE TRIGGER', 'CREATE TRIGGER trg BEFORE UPDATE ON {x} FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger()' ],
	[ 'OWNER', 'ALTER TABLE {x} OWNER TO nobody' ],
	[ 'RENAME', 'ALTER TABLE {x} RENAME COLUMN v TO w' ],
	[ 'COMMENT', q{COMMENT ON TABLE {x} IS 'x'} ],
	[ 'GRANT', 'GRANT SELECT ON {x} TO nobody' ],
	[ 'DROP', 'DROP TABLE {x}' ],
	[ 'CREATE VIEW', 'CREATE TEMP VIEW vw AS SELECT * FROM {x}; SELECT count(*) FROM vw' ],
);

# Why a role that may do something here cannot do it on a node: 42704, no mapping; 2F003, no
# password.
sub lines_of
{
	my ($paths, $table, $small, $role, $settings, %opt) = @_;
	my @statements = map {
		my ($name, $sql) = @$_;
		$sql =~ s/\{x\}/$table/g;
		$sql =~ s/\{r\}/$small/g;
		[ $name, $sql ]
	} @$paths;
	return map { $_->[0] => $_ } script($role, \@statements, settings => join('', map { "SET $_;\n" } @$settings),
		%opt);
}
my %kind = map { $_->[0] => $_->[2] // '' } @paths;
for my $role (@roles, @added)
{
	my %plain = lines_of(\@paths, 't_plain', 'r_plain', $role, []);
	for my $mode ([], $role !~ /^(added_)?(reader|writer)$/ ? () : [ 'shardfdw.enable_shard_scan = off', 'shardfdw.enable_router = off', 'shardfdw.enable_statement_push = off' ])
	{
		my %sharded = lines_of(\@paths, 't', 'r', $role, $mode);
		my $how = @$mode ? 'pushdown off' : 'pushdown on';
		my @wrong;
		for my $path (map { $_->[0] } @paths)
		{
			my ($want, $state) = map { $_->{$path}[1] } \%plain, \%sharded;
			next if $kind{$path} eq 'differs' && $want eq '00000';
			if ($want eq '00000' && $role =~ /^(bare|nomap)$/)
			{
				# either it needs no node, or its error has the reason
				my $refusal = $role eq 'bare' ? '2F003' : '42704';
				push @wrong, "$path: $state"
				  unless $state eq $refusal || $state =~ /^(broken off|25P02)$/
				  || ($state eq '00000' && $path =~ /^(EXPLAIN|EXPLAIN UPDATE|LOCK share|prepared|CREATE TRIGGER|ANALYZE|GRANT)$/);
				next;
			}
			push @wrong, "$path: $state instead of $want" if $state ne $want || $state eq 'none';
			push @wrong, "$path: rows $sharded{$path}[2]\n  instead of $plain{$path}[2]"
			  if $state eq $want && $kind{$path} eq '' && $sharded{$path}[2] ne $plain{$path}[2];
		}
		is(join("\n", @wrong), '', "$role has the rights that the plain table gives ($how)");
	}
}

# --------------------------------------------------------------------------------------------------
# 3. Row security of the parent, and views that are security barriers. tenant may see and write only
# its rows. 1 / (v - 7) fails for a row of another role. It is cheaper than the policy, so a node
# would compute it first.
$c->safe_psql(q{
	CREATE FUNCTION state_of(relation text) RETURNS text SECURITY DEFINER LANGUAGE plpgsql AS $$
	DECLARE result text;
	BEGIN
		EXECUTE format('SELECT string_agg(x::text, %L ORDER BY id, v, who, secret) FROM %I x', ' ', relation) INTO result;
		RETURN result;
	END $$;
	ALTER FUNCTION state_of OWNER TO boss;
	SET ROLE owner;} . each_table(q{
	CREATE VIEW {x}_barrier WITH (security_barrier) AS SELECT * FROM {x} WHERE (who || '' || '' || '' || '')::name = 'tenant';
	CREATE VIEW {x}_checked WITH (security_barrier) AS SELECT * FROM {x} WHERE who = 'tenant' WITH CHECK OPTION;
	CREATE VIEW {x}_view AS SELECT * FROM {x};
	GRANT ALL ON {x}_barrier, {x}_checked, {x}_view TO tenant}, qw(t t_plain s s_plain r r_plain)));
$c->safe_psql(q{SET ROLE owner; CREATE VIEW s_invoker WITH (security_invoker) AS SELECT * FROM s;
	CREATE VIEW s_plain_invoker WITH (security_invoker) AS SELECT * FROM s_plain; GRANT ALL ON s_invoker, s_plain_invoker TO tenant});

my @leaky = map { my ($name, $sql) = @$_; $sql =~ s/LEAK\((\w*)\)/'1 \/ (' . ($1 ? "$1." : '') . 'v - 7) > -5'/ge; [ "leak: $name", $sql ] } (
	[ 'scan', 'SELECT count(*), sum(v) FROM {x} WHERE LEAK()' ],
	[ 'rows', 'SELECT id, v FROM {x} WHERE LEAK() AND id < 100' ],
	[ 'by key', 'SELECT * FROM {x} WHERE id = 7 AND LEAK()' ],
	[ 'by key of another', 'SELECT * FROM {x} WHERE id = 8 AND LEAK()' ],
	[ 'groups', 'SELECT who, count(*) FROM {x} WHERE LEAK() GROUP BY who' ],
	[ 'computed group', 'SELECT 1 / (v - 7), count(*) FROM {x} GROUP BY 1' ],
	[ 'HAVING', 'SELECT who, count(*) FROM {x} GROUP BY who HAVING min(1 / (v - 7)) > -5' ],
	[ 'FILTER', 'SELECT count(*) FILTER (WHERE LEAK()) FROM {x}' ],
	[ 'aggregate', 'SELECT sum(1 / (v - 7)) FROM {x}' ],
	[ 'DISTINCT', 'SELECT DISTINCT 1 / (v - 7) FROM {x}' ],
	[ 'ORDER BY', 'SELECT id FROM {x} ORDER BY 1 / (v - 7), id LIMIT 3' ],
	[ 'window', 'SELECT id, sum(1 / (v - 7)) OVER (PARTITION BY id) FROM {x}' ],
	[ 'self-join', 'SELECT count(*) FROM {x} a JOIN {x} b USING (id) WHERE LEAK(a)' ],
	[ 'join condition', 'SELECT count(*) FROM {x} a JOIN {x} b ON a.id = b.id AND 1 / (a.v + b.v - 14) > -5' ],
	[ 'reference join', 'SELECT count(*) FROM {x} a JOIN {r} b USING (id) WHERE LEAK(a)' ],
	[ 'reference leaks', 'SELECT count(*) FROM {x} a JOIN {r} b USING (id) WHERE LEAK(b)' ],
	[ 'outer join', 'SELECT count(*), count(b.v) FROM {r} a LEFT JOIN {x} b ON a.id = b.id AND LEAK(b)' ],
	[ 'outer join, above', 'SELECT count(*) FROM {r} a LEFT JOIN {x} b ON a.id = b.id WHERE b.v IS NULL OR LEAK(b)' ],
	[ 'EXISTS', 'SELECT count(*) FROM {r} a WHERE EXISTS (SELECT FROM {x} b WHERE a.id = b.id AND LEAK(b))' ],
	[ 'NOT EXISTS', 'SELECT count(*) FROM {r} a WHERE NOT EXISTS (SELECT FROM {x} b WHERE a.id = b.id AND LEAK(b))' ],
	[ 'IN', 'SELECT count(*) FROM {r} WHERE id IN (SELECT id FROM {x} WHERE LEAK())' ],
	[ 'correlated', 'SELECT a.id, (SELECT sum(1 / (b.v - 7)) FROM {x} b WHERE b.id = a.id) FROM {r} a' ],
	[ 'correlated aggregate', 'SELECT count(*) FROM {x} a WHERE v >= (SELECT avg(1 / (b.v - 7)) FROM {x} b WHERE b.id = a.id)' ],
	[ 'LATERAL', 'SELECT count(*) FROM {r} a, LATERAL (SELECT 1 / (b.v - 7) AS q FROM {x} b WHERE b.id = a.id OFFSET 0) l' ],
	[ 'CTE', 'WITH q AS (SELECT * FROM {x}) SELECT count(*) FROM q WHERE LEAK()' ],
	[ 'sub-select', 'SELECT count(*) FROM (SELECT *, 1 / (v - 7) AS q FROM {x}) y WHERE q > -5' ],
	[ 'UNION', 'SELECT count(*) FROM (SELECT id, v FROM {x} UNION ALL SELECT id, v FROM {r}) y WHERE LEAK()' ],
	[ 'FOR UPDATE', 'SELECT id FROM {x} WHERE LEAK() FOR UPDATE' ],
	[ 'prepared', 'SET LOCAL plan_cache_mode = force_generic_plan; PREPARE q (int) AS SELECT count(*) FROM {x} WHERE id >= $1 AND LEAK(); EXECUTE q(3); DEALLOCATE q' ],
	[ 'prepared by key', 'SET LOCAL plan_cache_mode = force_generic_plan; PREPARE q (int) AS SELECT count(*) FROM {x} WHERE id = $1 AND LEAK(); EXECUTE q(7); DEALLOCATE q' ],
	[ 'COPY', 'COPY (SELECT id FROM {x} WHERE LEAK()) TO STDOUT' ],
	[ 'UPDATE', 'UPDATE {x} SET v = v + 100 WHERE LEAK() AND id = 2' ],
	[ 'UPDATE all', 'UPDATE {x} SET v = v WHERE LEAK()' ],
	[ 'UPDATE join', 'UPDATE {x} SET v = {x}.v FROM {r} b WHERE b.id = {x}.id AND LEAK(b)' ],
	[ 'UPDATE key', 'UPDATE {x} SET v = v WHERE id = 7 AND LEAK()' ],
	[ 'INSERT SELECT', 'INSERT INTO {x} SELECT id + 1000, who, v, secret FROM {x} WHERE LEAK()' ],
	[ 'DELETE', 'DELETE FROM {x} WHERE LEAK() AND id > 1000' ],
	[ 'DELETE key', 'DELETE FROM {x} WHERE id = 7 AND LEAK()' ]);

# Statements that write against the policy, or along it.
my @policed = (
	(grep { $_->[0] !~ /^(EXPLAIN|TABLESAMPLE|ANALYZE|LOCK|CREATE|ADD|DROP|OWNER|RENAME|COMMENT|GRANT|DISABLE|TRUNCATE|DELETE$)/ } @paths),
	[ 'INSERT for another', q{INSERT INTO {x} VALUES (51, 'other', 1, 'x')} ],
	[ 'INSERT rows for another', q{INSERT INTO {x} VALUES (52, 'tenant', 1, 'x'), (53, 'other', 1, 'x')} ],
	[ 'INSERT SELECT for another', q{INSERT INTO {x} SELECT i, CASE i WHEN 57 THEN 'other' ELSE 'tenant' END, i, 'x' FROM generate_series(54, 60) i} ],
	[ 'INSERT RETURNING for another', q{INSERT INTO {x} VALUES (51, 'other', 1, 'x') RETURNING *} ],
	[ 'UPDATE hands over', q{UPDATE {x} SET who = 'other' WHERE id = 4} ],
	[ 'UPDATE hands all over', q{UPDATE {x} SET who = 'other'} ],
	[ 'UPDATE moves', q{UPDATE {x} SET id = id + 500 WHERE id = 6} ],
	[ 'UPDATE moves all', q{UPDATE {x} SET id = id + 2000 WHERE id < 10} ],
	[ 'UPDATE moves and hands over', q{UPDATE {x} SET id = id + 501, who = 'other' WHERE id = 8} ],
	[ 'UPDATE invisible', q{UPDATE {x} SET v = 0 WHERE id = 9} ],
	[ 'DELETE invisible', q{DELETE FROM {x} WHERE id = 9} ],
	[ 'upsert invisible', q{INSERT INTO {x} VALUES (9, 'tenant', 1, 'x') ON CONFLICT (id) DO UPDATE SET v = 0}, 'upsert' ],
	[ 'upsert for another', q{INSERT INTO {x} VALUES (99, 'other', 1, 'x') ON CONFLICT (id) DO UPDATE SET v = 0}, 'upsert' ],
	[ 'upsert rows', q{INSERT INTO {x} VALUES (10, 'tenant', 1, 'x'), (11, 'tenant', 1, 'x') ON CONFLICT (id) DO UPDATE SET v = 0}, 'upsert' ],
	[ 'COPY FROM for another', "COPY {x} FROM STDIN;\n71\tother\t1\tx\n\\.\n" ],
	[ 'MERGE for another', q{MERGE INTO {x} t USING (VALUES (81)) s (id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'other', 1, 'x')} ],
	[ 'MERGE invisible', q{MERGE INTO {x} t USING (VALUES (9)) s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 0 WHEN NOT MATCHED THEN DO NOTHING} ],
	[ 'row security off', 'SET LOCAL row_security = off; SELECT count(*) FROM {x}' ],
	[ 'row security off, by key', 'SET LOCAL row_security = off; SELECT count(*) FROM {x} WHERE id = 9' ],
	[ 'row security off, COPY', 'SET LOCAL row_security = off; COPY {x} TO STDOUT' ],

	[ 'DELETE', 'DELETE FROM {x}' ]);

my $refusable = qr/^MERGE/;
my @refused = grep { $_->[0] =~ $refusable } @policed;
@policed = grep { $_->[0] !~ $refusable } @policed;

sub compare_policed
{
	my ($title, $paths, $role, $pair, $small, $settings) = @_;
	my ($table, $plain) = @$pair;
	# also of the views on it
	(my $base = $table) =~ s/_(barrier|checked|view|invoker)$//;
	$c->safe_psql(each_table('TRUNCATE {x}; INSERT INTO {x} SELECT i, CASE WHEN i % 2 = 0 THEN \'tenant\' ELSE \'other\' END, i, \'secret\' || i FROM generate_series(1, 20) i', $base, "${base}_plain"));
	my @paths = ([ 'state before', 'SELECT WHERE false' ], @$paths);
	my %sharded = lines_of(\@paths, $table, $small->[0], $role, $settings, end => 'COMMIT', after => "SELECT state_of('$base');\n");
	my %plain = lines_of(\@paths, $plain, $small->[1], $role, [], end => 'COMMIT', after => "SELECT state_of('${base}_plain');\n");
	my @wrong;
	for my $name (map { $_->[0] } @$paths)
	{
		my ($s, $p) = ($sharded{$name} // [ '', 'none', '' ], $plain{$name} // [ '', 'none', '' ]);
		# refused, because nodes cannot check a policy (docs/limits_sql.md); then nothing may have been
		# written
		next if $name =~ $refusable && $s->[1] eq '0A000' && $s->[2] eq $sharded{'state before'}[2];
		push @wrong, "$name: did not run" if $s->[1] eq 'none';
		push @wrong, "$name: $s->[1] instead of $p->[1]" if $s->[1] ne $p->[1];
		push @wrong, "$name: $s->[2]\n  instead of $p->[2]" if $s->[2] ne $p->[2];
		push @wrong, "$name: leaked" if $s->[1] eq '22012';
	}
	is(join("\n", @wrong), '', "$title: as the plain table");
}


my @off = ('shardfdw.enable_shard_scan = off', 'shardfdw.enable_router = off', 'shardfdw.enable_statement_push = off');
my @fallback = (@off, 'enable_partitionwise_join = on', 'enable_partitionwise_aggregate = on');
# COPY FROM needs a table
my @through_view = grep { $_->[0] !~ /^(COPY FROM|COPY columns FROM|COPY TO|COPY columns TO|row security off, COPY)/ } @policed;
my @small = ([ 'r', 'r_plain' ], [ 'r_barrier', 'r_plain_barrier' ]);

compare_policed('policies', \@policed, 'tenant', [ 's', 's_plain' ], $small[0], []);
compare_policed('policies, pushdown off', \@policed, 'tenant', [ 's', 's_plain' ], $small[0], \@off);
compare_policed('policies, for who owns the table', \@policed, 'owner', [ 's', 's_plain' ], $small[0], []);
compare_policed('policies, nothing allowed', \@policed, 'reader', [ 's', 's_plain' ], $small[0], []);
compare_policed('view of the owner', \@through_view, 'tenant', [ 's_view', 's_plain_view' ], $small[0], []);
compare_policed('view of the caller', \@through_view, 'tenant', [ 's_invoker', 's_plain_invoker' ], $small[0], []);
compare_policed('view with check option', \@through_view, 'tenant', [ 't_checked', 't_plain_checked' ], $small[0], []);
compare_policed("$_->[0] alone", [$_], 'tenant', [ 's', 's_plain' ], $small[0], []) for @refused;
for my $settings ([], \@off, \@fallback)
{
	my $how = @$settings == 0 ? 'pushdown on' : @$settings == @off ? 'pushdown off' : 'partitionwise';
	compare_policed("leaks, policies, $how", \@leaky, 'tenant', [ 's', 's_plain' ], $small[1], $settings);
	compare_policed("leaks, security barrier, $how", \@leaky, 'tenant', [ 't_barrier', 't_plain_barrier' ], $small[1], $settings);
}
$c->safe_psql('ALTER TABLE s FORCE ROW LEVEL SECURITY; ALTER TABLE s_plain FORCE ROW LEVEL SECURITY');
compare_policed('policies forced upon the owner', \@policed, 'owner', [ 's', 's_plain' ], $small[0], []);

# Plans of one role are not another's: prepared over policies, in sub-selects and views too (R47).
$c->safe_psql(q{GRANT SELECT ON s, s_plain, s_invoker, s_plain_invoker TO reader, owner; GRANT tenant, reader TO member;
	ALTER TABLE s NO FORCE ROW LEVEL SECURITY; ALTER TABLE s_plain NO FORCE ROW LEVEL SECURITY;
	INSERT INTO s SELECT i, CASE WHEN i % 3 = 0 THEN 'reader' ELSE 'tenant' END, i, '' FROM generate_series(3001, 3030) i;
	INSERT INTO s_plain SELECT i, CASE WHEN i % 3 = 0 THEN 'reader' ELSE 'tenant' END, i, '' FROM generate_series(3001, 3030) i});
for my $mode ('force_generic_plan', 'force_custom_plan')
{
	my %seen;
	for my $table ('s', 's_plain')
	{
		my $each = 'EXECUTE a; EXECUTE b; EXECUTE c (3003); EXECUTE d; EXECUTE e;';
		$seen{$table} = $c->safe_psql(qq{SET plan_cache_mode = $mode;
			PREPARE a AS SELECT who, count(*) FROM $table GROUP BY who ORDER BY 1;
			PREPARE b AS WITH q AS (SELECT * FROM $table) SELECT count(*) FROM r WHERE EXISTS (SELECT FROM q WHERE q.id > 3000);
			PREPARE c (int) AS SELECT who FROM $table WHERE id = \$1;
			PREPARE d AS SELECT count(*) FROM ${table}_invoker;
			PREPARE e AS UPDATE $table SET v = v + 1 WHERE v > 3000 RETURNING id;
			SET ROLE tenant; $each SET ROLE reader; EXECUTE a; EXECUTE c (3003); EXECUTE d; SET ROLE owner; $each
			BEGIN; SET LOCAL ROLE tenant; $each SET LOCAL ROLE reader; EXECUTE a; SET LOCAL ROLE tenant; $each ROLLBACK; RESET ROLE; EXECUTE a; EXECUTE d});
		$seen{$table} = join "\n", sort split /\n/, $seen{$table};
	}
	is($seen{s}, $seen{s_plain}, "SET ROLE between executions of plans over policies, $mode");
}

# --------------------------------------------------------------------------------------------------
# 4. Users that were added are on nodes that come later, too; rights that come later reach them.
$c->node_safe_psql(2, 'CREATE DATABASE later OWNER app');
my ($host, $port) = $c->node_address(2);
$c->safe_psql(qq{SET client_min_messages = warning; SET ROLE boss; SELECT shardfdw.add_node('later', '$host', $port, 'later', 'app', 'pw-app');
	CREATE SCHEMA other; CREATE TABLE other.lt (id int PRIMARY KEY); INSERT INTO other.lt SELECT generate_series(1, 9); GRANT SELECT ON other.lt TO added_readers;
	SELECT shardfdw.shard_table('other.lt', shards => 2, nodes => '{later}')});
$c->psql_fails_like('SET ROLE added_reader; SELECT count(*) FROM other.lt', qr/42501: permission denied for schema other/, 'no right to the schema');
$c->safe_psql('SET ROLE boss; GRANT USAGE ON SCHEMA other TO added_readers');
is($c->safe_psql('SET ROLE added_reader; SELECT count(*) FROM other.lt; SELECT count(*) FROM r'), "9\n20", 'a node that was added later');
$c->safe_psql('SET ROLE boss; REVOKE USAGE ON SCHEMA other FROM added_readers; GRANT USAGE, CREATE ON SCHEMA other TO added_writer; ALTER TABLE other.lt OWNER TO added_writer');
is($c->safe_psql('SET ROLE added_writer; ALTER TABLE other.lt ADD COLUMN v int DEFAULT 3; SELECT sum(v) FROM other.lt'), '27', 'whoever is made the owner changes the definition');
is($c->node(2)->safe_psql('later', q{SELECT has_schema_privilege('added_readers', 'other', 'USAGE'), has_schema_privilege('added_writer', 'other', 'USAGE')}), 'f|t', 'what is revoked is revoked there');
# another membership, and a password that differs from the nodes' one
$c->safe_psql('SET ROLE boss; CREATE ROLE second; GRANT second TO late');
$c->safe_psql(q{SET ROLE boss; SELECT shardfdw.add_user('late', password => 'pw-late'); GRANT SELECT ON t TO second; GRANT USAGE ON SCHEMA other TO second});
is($c->safe_psql('SET ROLE late; SELECT count(*) FROM t'), '20', 'rights of a group');
$c->safe_psql(q{SET ROLE boss; CREATE ROLE third; GRANT SELECT ON r TO third; GRANT third TO late; SELECT shardfdw.add_user('late')});
is($c->safe_psql('SET ROLE late; SELECT count(*) FROM t JOIN r USING (id)'), '20', 'and of one that came afterwards');
$c->psql_fails_like(q{SET ROLE boss; SELECT shardfdw.add_user('boss', password => 'x')}, qr/0A000: cannot add superuser "boss" to nodes/, 'no superuser');
$c->psql_fails_like(q{SET ROLE boss; SELECT shardfdw.add_user('noone', password => 'hidden')}, qr/42704: role "noone" does not exist(?!.*hidden)/s, 'no role that there is not');
$c->safe_psql(q{SET ROLE boss; SELECT shardfdw.add_user('late', '{node1}', 'wrong')});
$c->psql_fails_like('SET ROLE late; SELECT count(*) FROM t', qr/password authentication failed/, 'a role that is there keeps its password');

done_testing();
