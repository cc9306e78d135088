-- Privileges on the extension's objects.

-- Default privileges gave other roles what this script does not grant. PUBLIC keeps what the script grants it, or what PostgreSQL
-- grants by default.
DO $$
DECLARE
	command text;
BEGIN
	FOR command IN
		WITH o(kind, classid, objid, owner, acl) AS (
			SELECT 'TABLE', tableoid, oid, relowner, relacl FROM pg_catalog.pg_class
			UNION ALL SELECT 'ROUTINE', tableoid, oid, proowner, proacl FROM pg_catalog.pg_proc
			UNION ALL SELECT 'TYPE', tableoid, oid, typowner, typacl FROM pg_catalog.pg_type)
		SELECT pg_catalog.format('REVOKE %s ON %s %s FROM %s CASCADE', x.privilege_type, o.kind, i.identity, CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::pg_catalog.regrole::text END)
		FROM (SELECT o.* FROM o JOIN pg_catalog.pg_depend d ON d.classid = o.classid AND d.objid = o.objid AND d.deptype = 'e'
				JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.oid = d.refobjid AND e.extname = 'shardfdw'
			UNION ALL SELECT 'SCHEMA', tableoid, oid, nspowner, nspacl FROM pg_catalog.pg_namespace WHERE nspname IN ('shardfdw', 'shardfdw_internal')) o
		CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) x CROSS JOIN LATERAL pg_catalog.pg_identify_object(o.classid, o.objid, 0) i
		WHERE x.grantee <> o.owner AND NOT (x.grantee = 0 AND x.privilege_type IN ('SELECT', 'USAGE', 'EXECUTE'))
	LOOP
		EXECUTE command;
	END LOOP;
END
$$;

-- Functions in SQL and PL/pgSQL run with the privileges of their caller, including the functions that they call. They allow nothing
-- that the caller could not do with a statement. A function in C has no such limit. So PUBLIC can call none of these except
-- the functions below. t/rights_functions.pl gives the reason for each.
DO $$
DECLARE
	f pg_catalog.regprocedure;
BEGIN
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
		JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.oid = d.refobjid AND e.extname = 'shardfdw'
		WHERE p.pronamespace = 'shardfdw_internal'::pg_catalog.regnamespace AND (l.lanname NOT IN ('sql', 'plpgsql') OR p.prosecdef)
			AND p.prokind <> 'a'
	LOOP
		EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
	END LOOP;
END
$$;

-- Only compute, or read what all roles can read in the catalogs.
GRANT EXECUTE ON FUNCTION shardfdw_internal.aggregates_of(oid, oid), shardfdw_internal.balance(double precision[], integer[], boolean[], double precision[], double precision),
	shardfdw_internal.check_isolation(text), shardfdw_internal.check_owner_code(regclass, text), shardfdw_internal.checked_columns(text),
	shardfdw_internal.checked_definition(text, regclass), shardfdw_internal.checked_part(text, text, text, text[]), shardfdw_internal.coordinator_identity(), shardfdw_internal.decided_identities(),
	shardfdw_internal.default_collation(), shardfdw_internal.has_older_snapshots(xid), shardfdw_internal.holds_job(bigint), shardfdw_internal.note_dropped_reference(), shardfdw_internal.in_remote_transaction(), shardfdw_internal.is_alone(), shardfdw_internal.is_reference(regclass),
	shardfdw_internal.job_is_running(bigint), shardfdw_internal.job_token(), shardfdw_internal.job_works_on(bigint, text, regclass), shardfdw_internal.key_default_reason(regclass, smallint), shardfdw_internal.library_version(), shardfdw_internal.needed(regclass[]),
	shardfdw_internal.partial_aggregate_name(name), shardfdw_internal.revoke_command(text, text), shardfdw_internal.schema_command(name), shardfdw_internal.scram_secret(text),
	shardfdw_internal.server_mark(), shardfdw_internal.shard_group(regclass), shardfdw_internal.shard_groups(), shardfdw_internal.shard_object_name(name, name, name[])
	TO PUBLIC;

-- Show what all roles, or the caller, may see of connections and loads.
GRANT EXECUTE ON FUNCTION shardfdw_internal.all_connections(), shardfdw_internal.load_stats(), shardfdw_internal.node_counters(),
	shardfdw_internal.session_connections()
	TO PUBLIC;

-- Query nodes with the user mapping of the caller, who needs USAGE on their servers.
GRANT EXECUTE ON FUNCTION shardfdw_internal.apply_replicas(), shardfdw_internal.list_prepared(), shardfdw_internal.lock_new_objects(name[]), shardfdw_internal.read_as_owner(name[], text[], text, boolean, text[], regclass[]),
	shardfdw_internal.read_here(regclass, text), shardfdw_internal.run_commands(name[], text[], text, boolean, text[]),
	shardfdw_internal.settle_node(name), shardfdw_internal.settle_server(name)
	TO PUBLIC;

-- Check that the caller owns the object, or has privileges on the table that is to be locked.
GRANT EXECUTE ON FUNCTION shardfdw_internal.attach_partial_aggregate(regprocedure, regprocedure), shardfdw_internal.copy_aggregate(regprocedure, name[], text),
	shardfdw_internal.copy_reference_rows(regclass, name[]),
	shardfdw_internal.copy_shard_rows(regclass, name), shardfdw_internal.check_shard_owners(regclass, name), shardfdw_internal.grant_as(name, text), shardfdw_internal.hold_shards(regclass), shardfdw_internal.lock_node_list(regclass), shardfdw_internal.lock_placements(text[], name, boolean),
	shardfdw_internal.lock_schema(regnamespace), shardfdw_internal.lock_schemas(regclass), shardfdw_internal.lock_servers(name[]), shardfdw_internal.lock_to_clear(regclass), shardfdw_internal.lock_view(regclass), shardfdw_internal.make_objects_on_nodes(regclass, name[]), shardfdw_internal.note_copied_table(regclass), shardfdw_internal.note_left_shard(regclass, name),
	shardfdw_internal.set_key_defaults(regclass, regclass[]), shardfdw_internal.set_placements(text[], name, name),
	shardfdw_internal.set_shard_node(regclass, name), shardfdw_internal.start_conversion(oid, text), shardfdw_internal.take_replicas_turn(regclass[], boolean), shardfdw_internal.take_turn(text, boolean)
	TO PUBLIC;

-- Check that the caller owns the table and may execute the public function: move_shard(), split_shard(), merge_shards(),
-- import_table(), create_restore_point().
GRANT EXECUTE ON FUNCTION shardfdw_internal.start_job(regclass[], oid, integer, text[], boolean, boolean), shardfdw_internal.start_series(text, oid, oid, text, boolean),
	shardfdw_internal.start_import(oid, text, text, boolean, boolean), shardfdw_internal.set_restore_point(text, oid[])
	TO PUBLIC;

-- Check that the caller owns the job. For jobs of other roles, the functions only wait.
GRANT EXECUTE ON FUNCTION shardfdw_internal.ask_for_cut_over(bigint, boolean), shardfdw_internal.claim_job(bigint, integer), shardfdw_internal.wait_move(bigint)
	TO PUBLIC;

-- Called by another coordinator, with the privileges of the role of the same name.
GRANT EXECUTE ON FUNCTION shardfdw_internal.begin_following(text), shardfdw_internal.doubt_nodes(), shardfdw_internal.follow_coordinator(text, text, name, text[])
	TO PUBLIC;

-- Removes only what is no longer needed, so any role may call it.
GRANT EXECUTE ON FUNCTION shardfdw_internal.forget_position(name)
	TO PUBLIC;

-- Writes the identity of the database, which is the same for any caller.
GRANT EXECUTE ON FUNCTION shardfdw_internal.store_identity()
	TO PUBLIC;

-- Trigger functions: the owner of a reference table creates its triggers.
GRANT EXECUTE ON FUNCTION shardfdw_internal.send_reference_write(), shardfdw_internal.take_reference_turn()
	TO PUBLIC;

-- Only processes of the extension call these, as the bootstrap superuser.
REVOKE ALL ON FUNCTION shardfdw_internal.forget_subscriptions(), shardfdw_internal.note_subscription(oid, pg_lsn, bigint, bigint),
	shardfdw_internal.note_subscription_copy(oid, oid, pg_lsn), shardfdw_internal.note_subscription_error(oid, text, boolean),
	shardfdw_internal.note_subscription_ready(oid, pg_lsn), shardfdw_internal.release_subscription(oid), shardfdw_internal.take_subscription(oid)
	FROM PUBLIC;

-- The rest of a transaction block has the settings of the database again, see 10_wrapper.sql.
SET LOCAL array_nulls TO DEFAULT;
SET LOCAL transform_null_equals TO DEFAULT;
SET LOCAL quote_all_identifiers TO DEFAULT;
