-- Coordinators of the same nodes: adding and removing them, and what they do together.

CREATE FUNCTION shardfdw_internal.follow_coordinator(identity text, statement text, role name, settings text[]) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_follow_coordinator';
COMMENT ON FUNCTION shardfdw_internal.follow_coordinator(text, text, name, text[]) IS
	'Runs a statement that another coordinator, given by its identity, has run. The role of the session must have the given name. settings: pairs of name and value. Nodes and other coordinators are not informed. Returns nothing. Raises object_not_in_prerequisite_state for an unknown coordinator, insufficient_privilege for another role.';

CREATE FUNCTION shardfdw_internal.begin_following(identity text) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_begin_following';
COMMENT ON FUNCTION shardfdw_internal.begin_following(text) IS
	'Declares that another coordinator, given by its identity, sends the following statements of this transaction. That coordinator informs nodes and other coordinators itself. Returns nothing. Raises object_not_in_prerequisite_state for an unknown coordinator.';

CREATE FUNCTION shardfdw_internal.take_fence_turn() RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_take_fence_turn';
COMMENT ON FUNCTION shardfdw_internal.take_fence_turn() IS
	'Waits for other snapshots over all nodes and restore points, and blocks new ones until this transaction ends. Commits are not blocked. Called on the first coordinator before the snapshot barriers of all coordinators are closed. Returns nothing. Raises lock_not_available.';
REVOKE ALL ON FUNCTION shardfdw_internal.take_fence_turn() FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.close_fence() RETURNS boolean
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_close_fence';
COMMENT ON FUNCTION shardfdw_internal.close_fence() IS
	'Blocks commits of transactions over nodes until this transaction ends, for a snapshot over all nodes or a restore point of another coordinator. Returns false, and blocks no commit, if a commit in progress takes too long. Raises lock_not_available.';
REVOKE ALL ON FUNCTION shardfdw_internal.close_fence() FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.commit_state(gid text) RETURNS text
	LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'shardfdw_commit_state';
COMMENT ON FUNCTION shardfdw_internal.commit_state(text) IS
	'Tells whether this coordinator has committed a transaction that is prepared on a node. Returns committed, or being committed while its session is still running, or null if this coordinator has not committed it.';
REVOKE ALL ON FUNCTION shardfdw_internal.commit_state(text) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.lock_members() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_lock_members';
COMMENT ON FUNCTION shardfdw_internal.lock_members() IS
	'Waits for transactions of this coordinator that run statements on other coordinators, and blocks new ones until this transaction ends. Returns nothing.';
REVOKE ALL ON FUNCTION shardfdw_internal.lock_members() FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.take_turn(relation text, refers boolean) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_take_turn';
COMMENT ON FUNCTION shardfdw_internal.take_turn(text, boolean) IS
	'Waits until no other transaction of any coordinator writes to a reference table, and blocks such writes until this transaction ends. refers: also for the tables that its foreign keys refer to. Returns nothing. Raises insufficient_privilege if the caller may not write to it.';

CREATE FUNCTION shardfdw_internal.take_reference_turn() RETURNS trigger
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_take_reference_turn';
COMMENT ON FUNCTION shardfdw_internal.take_reference_turn() IS
	'Calls take_turn() on the first coordinator, before each statement that writes to a reference table; trigger function, used with several coordinators. Returns null.';

CREATE FUNCTION shardfdw_internal.set_turns(relation regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_wanted CONSTANT boolean := shardfdw_internal.is_reference(relation) AND EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.is_this);
BEGIN
	IF is_wanted = EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgfoid = 'shardfdw_internal.take_reference_turn()'::regprocedure) THEN
		RETURN;
	ELSIF is_wanted THEN
		PERFORM shardfdw_internal.check_plain_keys();
		EXECUTE format('CREATE TRIGGER "00_shardfdw_turn" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION shardfdw_internal.take_reference_turn()', relation);
		EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER "00_shardfdw_turn"', relation);
	ELSE
		EXECUTE format('DROP TRIGGER "00_shardfdw_turn" ON %s', relation);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.set_turns(regclass) IS
	'Creates the trigger that calls take_reference_turn() if the table is a reference table and there are several coordinators; drops it otherwise. Returns nothing.';

CREATE FUNCTION shardfdw_internal.lock_placements(shards text[], node name, replaced boolean) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_lock_placements';
COMMENT ON FUNCTION shardfdw_internal.lock_placements(text[], name, boolean) IS
	'Locks shards of the caller for another coordinator that moves them, and also their tables if the shards are to be replaced. Returns nothing. Raises object_not_in_prerequisite_state for a shard that is not on the node here, insufficient_privilege.';

CREATE FUNCTION shardfdw_internal.set_placements(shards text[], source name, target name) RETURNS void
	LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME', 'shardfdw_set_placements';
COMMENT ON FUNCTION shardfdw_internal.set_placements(text[], name, name) IS
	'Changes the node of shards of the caller in the catalogs here, for another coordinator that has moved them. Returns nothing. Raises the errors of lock_placements().';

CREATE VIEW shardfdw.coordinators AS
SELECT s.srvname AS name, o.host, o.port, o.dbname, o.coordinator::integer AS number, o.identity,
	o.identity = (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i) AS is_this
FROM pg_catalog.pg_foreign_server s
JOIN pg_catalog.pg_foreign_data_wrapper w ON w.oid = s.srvfdw
CROSS JOIN LATERAL (
	SELECT pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'host') AS host, pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'port') AS port,
		pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'dbname') AS dbname,
		pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'coordinator') AS coordinator,
		pg_catalog.max(x.option_value) FILTER (WHERE x.option_name = 'identity') AS identity
	FROM pg_catalog.pg_options_to_table(s.srvoptions) x) o
WHERE w.fdwhandler = 'shardfdw_internal.shardfdw_handler'::pg_catalog.regproc AND o.coordinator IS NOT NULL;
COMMENT ON VIEW shardfdw.coordinators IS
	'Lists the coordinators that were added by add_coordinator(), including this one. Empty if there is only one coordinator.';
COMMENT ON COLUMN shardfdw.coordinators.name IS 'Name of the coordinator''s server, the same on all coordinators.';
COMMENT ON COLUMN shardfdw.coordinators.host IS 'Option host of the server. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.coordinators.port IS 'Option port of the server. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.coordinators.dbname IS 'Option dbname of the server. Null if not set: libpq''s default applies.';
COMMENT ON COLUMN shardfdw.coordinators.number IS 'Number of the coordinator, from 1. It selects the coordinator''s share of the values of sequences.';
COMMENT ON COLUMN shardfdw.coordinators.identity IS 'Identity of the coordinator, see coordinator_identity().';
COMMENT ON COLUMN shardfdw.coordinators.is_this IS 'True for the coordinator that you are connected to.';
GRANT SELECT ON shardfdw.coordinators TO PUBLIC;

CREATE FUNCTION shardfdw_internal.peers() RETURNS name[]
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN bool_or(c.is_this) THEN coalesce(array_agg(c.name ORDER BY c.name::text COLLATE "C") FILTER (WHERE NOT c.is_this), '{}') ELSE '{}' END
	FROM shardfdw.coordinators c
$$;
COMMENT ON FUNCTION shardfdw_internal.peers() IS
	'Lists the other coordinators. Returns them by name; none where this database is not among the coordinators itself.';

CREATE FUNCTION shardfdw_internal.shared_sequences(number integer)
	RETURNS TABLE (sequence regclass, sign integer, share bigint, reached bigint, is_whole boolean, is_used boolean, given_before bigint)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Sequences with the bounds of their type, with the share of another coordinator (in a dump of it), or with this share of a smaller type.
	-- A sequence with other bounds was set by a user and stays unchanged.
	SELECT c.oid::regclass, x.sign, t.share, greatest(x.sign * q.seqstart, x.sign * pg_sequence_last_value(c.oid)),
		x.lowest = 1 AND x.highest = t.highest, pg_sequence_last_value(c.oid) IS NOT NULL, t.given_before
	FROM pg_sequence q JOIN pg_class c ON c.oid = q.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace
	CROSS JOIN LATERAL (SELECT * FROM (VALUES ('int8'::regtype, 9223372036854775807, 281474976710656::bigint, 2147483648), ('int4', 2147483647, 134217728, 32768), ('int2', 32767, 2048, 0))
		y(type, highest, share, given_before) WHERE y.type = q.seqtypid) t
	CROSS JOIN LATERAL (SELECT sign(q.seqincrement)::integer AS sign, CASE WHEN q.seqincrement > 0 THEN q.seqmin ELSE -q.seqmax END AS lowest,
		CASE WHEN q.seqincrement > 0 THEN q.seqmax WHEN q.seqmin = -t.highest - 1 THEN t.highest ELSE -q.seqmin END AS highest) x
	WHERE c.relpersistence <> 't' AND pg_has_role(c.relowner, 'USAGE') AND n.nspname NOT IN ('shardfdw', 'shardfdw_internal')
		AND (x.lowest = 1 AND x.highest = t.highest
			OR x.highest % t.share = 0 AND x.highest - x.lowest + 1 = t.share AND x.highest <> number * t.share
			OR x.highest - x.lowest + 1 IN (2048, 134217728) AND x.highest - x.lowest + 1 < t.share AND x.highest = number * (x.highest - x.lowest + 1))
$$;
COMMENT ON FUNCTION shardfdw_internal.shared_sequences(integer) IS
	'Finds the sequences that the caller may alter and that do not have the share of values for the coordinator with this number. Returns each with the sign of its increment, the number of values of a share, its present value, whether it has the bounds of its type, and whether it has been used. If the type was smaller before, also returns the value up to which coordinators may have used values.';

CREATE FUNCTION shardfdw_internal.share_sequences() RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	number CONSTANT integer := (SELECT c.number FROM shardfdw.coordinators c WHERE c.is_this);
	is_alone CONSTANT boolean := (SELECT count(*) <= 1 FROM shardfdw.coordinators);
	s record;
	low bigint;
	high bigint;
	next bigint;
BEGIN
	IF number IS NULL THEN
		RETURN;
	END IF;
	FOR s IN SELECT * FROM shardfdw_internal.shared_sequences(number)
	LOOP
		low := (number - 1) * s.share + 1;
		high := number * s.share;
		-- beyond the values that other coordinators may have used while the sequence had other bounds or another type
		next := CASE WHEN number = 1 AND s.is_used AND NOT is_alone THEN greatest(s.reached, s.given_before) + 1 END;
		IF number = 1 AND s.is_whole AND greatest(s.reached, next) > high THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = format('sequence %s has gone beyond the share of one coordinator', s.sequence),
				DETAIL = format('It has reached %s, a share of its type has %s values.', s.sign * s.reached, s.share),
				HINT = 'Make it, and its column, bigint.';
		END IF;
		IF s.reached < low OR s.reached > high THEN
			next := low;
		END IF;
		EXECUTE format('ALTER SEQUENCE %s MINVALUE %s MAXVALUE %s%s', s.sequence, CASE s.sign WHEN 1 THEN low ELSE -high END, CASE s.sign WHEN 1 THEN high ELSE -low END,
			CASE WHEN next = low THEN format(' START %1$s RESTART %1$s', s.sign * low) WHEN next IS NOT NULL THEN format(' RESTART %s', s.sign * next) ELSE '' END);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.share_sequences() IS
	'Limits sequences to the values of this coordinator''s share: 2^48 values of bigint, 2^27 of integer, 2^11 of smallint. See shared_sequences(). Returns nothing. Raises object_not_in_prerequisite_state for a sequence that is beyond the first share.';

CREATE FUNCTION shardfdw_internal.check_plain_keys() RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	k record;
BEGIN
	SELECT c.conname, c.conrelid::regclass AS relation, c.confrelid::regclass AS referenced INTO k
	FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
	WHERE c.contype = 'f' AND r.relkind = 'r' AND r.relpersistence <> 't' AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.confrelid AND t.tgfoid = 'shardfdw_internal.send_reference_write()'::regprocedure)
		AND shardfdw_internal.is_reference(c.confrelid) AND NOT shardfdw_internal.is_reference(c.conrelid) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('plain table %s cannot refer to reference table %s because there are several coordinators', k.relation, k.referenced),
			DETAIL = format('Foreign key "%s" would be checked by one of them, whichever has the row.', k.conname),
			HINT = format('Make it a reference table, too, with shardfdw.create_reference_table(%L), or shard it.', k.relation);
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_plain_keys() IS
	'Rejects foreign keys of plain tables to reference tables, because other coordinators change reference tables without checking the rows here. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.lock_all_members(left_out name DEFAULT NULL) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c record;
BEGIN
	IF NOT EXISTS (SELECT FROM shardfdw.coordinators x WHERE x.is_this) THEN
		PERFORM shardfdw_internal.lock_node_list(), shardfdw_internal.lock_members();
		RETURN;
	END IF;
	FOR c IN SELECT x.name, x.is_this FROM shardfdw.coordinators x WHERE x.name IS DISTINCT FROM left_out ORDER BY x.name::text COLLATE "C"
	LOOP
		IF c.is_this THEN
			PERFORM shardfdw_internal.lock_node_list(), shardfdw_internal.lock_members();
		ELSE
			PERFORM shardfdw_internal.run_commands(ARRAY[c.name], ARRAY['SELECT shardfdw_internal.lock_node_list(), shardfdw_internal.lock_members()'], 'write');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.lock_all_members(name) IS
	'Does what lock_node_list() and lock_members() do on all coordinators except one, in the order of their names. Returns nothing. Raises the error of a coordinator that does not answer.';
REVOKE ALL ON FUNCTION shardfdw_internal.lock_all_members(name) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.check_empty_on_peers(relation regclass, what text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	peers CONSTANT name[] := shardfdw_internal.peers();
	qualified CONSTANT text := (SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);
	taken name;
BEGIN
	IF peers = '{}' THEN
		RETURN;
	END IF;
	PERFORM shardfdw_internal.run_commands(peers, array_fill(format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', qualified), ARRAY[cardinality(peers)]), 'write',
		labels => array_fill(qualified, ARRAY[cardinality(peers)]));
	PERFORM shardfdw_internal.check_owner_code_on_nodes(relation, what, n.nspname, array_fill(c.relname, ARRAY[cardinality(peers)]), peers)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
	SELECT q.node INTO taken FROM shardfdw_internal.run_commands(peers, array_fill(format('SELECT EXISTS (SELECT FROM %s)',
		shardfdw_internal.stored_rows(qualified)), ARRAY[cardinality(peers)]), 'write', labels => array_fill(qualified, ARRAY[cardinality(peers)])) q
	WHERE (q.fields)[1] = 't' LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('cannot %s table "%s" because it has rows on coordinator "%s"', what, (SELECT c.relname FROM pg_class c WHERE c.oid = relation), taken),
			HINT = 'Rows of a plain table are those of one coordinator. Move them to this one, or delete them there.';
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_empty_on_peers(regclass, text) IS
	'Checks that a plain table has no rows on the other coordinators, and locks it there against writers. what: shard or replicate. Returns nothing. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.check_no_peers(object text, what text) RETURNS void
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF shardfdw_internal.peers() <> '{}' THEN
		RAISE EXCEPTION USING ERRCODE = 'feature_not_supported',
			MESSAGE = format('cannot %s %s because there are several coordinators', what, object),
			DETAIL = 'Rows of plain tables are those of one coordinator.',
			HINT = CASE what WHEN 'shard' THEN 'Use mode => ''block''.' ELSE 'Remove the others first, with shardfdw.remove_coordinator().' END;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.check_no_peers(text, text) IS
	'Rejects an action on plain tables of this coordinator while there are other coordinators. Returns nothing. Raises feature_not_supported.';

CREATE FUNCTION shardfdw_internal.acl_text(acl aclitem[], kind "char", owner oid) RETURNS text
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- default privileges may be stored explicitly or as null
	SELECT string_agg(x::text, ' ' ORDER BY x::text COLLATE "C") FROM unnest(coalesce(acl, acldefault(kind, owner))) x
$$;
COMMENT ON FUNCTION shardfdw_internal.acl_text(aclitem[], "char", oid) IS
	'Writes the privileges on an object, of a type as in acldefault(). Returns the same text for the same privileges.';

CREATE FUNCTION shardfdw_internal.definitions() RETURNS TABLE (object text, definition text)
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
	WITH own AS MATERIALIZED (
		-- including objects of extensions, whose versions are compared
		SELECT d.classid, d.objid FROM pg_depend d WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	), n AS MATERIALIZED (
		SELECT s.* FROM pg_namespace s WHERE s.nspname !~ '^pg_' AND s.nspname NOT IN ('information_schema', 'shardfdw', 'shardfdw_internal')
	), c AS MATERIALIZED (
		SELECT r.*, format('%I.%I', n.nspname, r.relname) AS name FROM pg_class r JOIN n ON n.oid = r.relnamespace
		WHERE r.relpersistence <> 't' AND NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_class'::regclass AND own.objid = r.oid)
	)
	SELECT 'schema ' || quote_ident(n.nspname), concat_ws(' ', pg_get_userbyid(n.nspowner), shardfdw_internal.acl_text(n.nspacl, 'n', n.nspowner)) FROM n
	UNION ALL
	SELECT format('%s %s', CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'f' THEN 'foreign table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' ELSE 'type' END, c.name),
		concat_ws(' ', c.relkind, c.relpersistence, pg_get_userbyid(c.relowner), shardfdw_internal.acl_text(c.relacl, 'r', c.relowner), c.relrowsecurity, c.relforcerowsecurity, c.reloptions::text,
			(SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, a.attidentity, a.attgenerated, shardfdw_internal.acl_text(a.attacl, 'c', c.relowner),
					a.attfdwoptions::text, pg_get_expr(x.adbin, x.adrelid)), ', ' ORDER BY a.attnum)
				FROM pg_attribute a LEFT JOIN pg_attrdef x ON x.adrelid = a.attrelid AND x.adnum = a.attnum WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
			CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) WHEN 'v' THEN pg_get_viewdef(c.oid) WHEN 'm' THEN pg_get_viewdef(c.oid) END,
			(SELECT string_agg(concat_ws(' ', i.inhparent::regclass, pg_get_expr(c.relpartbound, 0)), ', ' ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid),
			(SELECT concat_ws(' ', s.srvname, f.ftoptions::text) FROM pg_foreign_table f JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE f.ftrelid = c.oid))
	FROM c WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm', 'c')
	UNION ALL
	SELECT 'index ' || c.name, concat_ws(' ', pg_get_indexdef(c.oid), i.indisvalid OR c.relkind = 'I') FROM c JOIN pg_index i ON i.indexrelid = c.oid
	UNION ALL
	SELECT format('constraint %I of %s', k.conname, c.name), concat_ws(' ', pg_get_constraintdef(k.oid), k.convalidated) FROM c JOIN pg_constraint k ON k.conrelid = c.oid
	UNION ALL
	SELECT format('constraint %I of domain %s', k.conname, k.contypid::regtype), pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN n ON n.oid = k.connamespace WHERE k.contypid <> 0
	UNION ALL
	SELECT format('trigger %I of %s', t.tgname, c.name), concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled) FROM c JOIN pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal
	UNION ALL
	SELECT format('rule %I of %s', r.rulename, c.name), pg_get_ruledef(r.oid) FROM c JOIN pg_rewrite r ON r.ev_class = c.oid WHERE r.rulename <> '_RETURN'
	UNION ALL
	SELECT format('policy %I of %s', p.polname, c.name), concat_ws(' ', p.polcmd, p.polpermissive, (SELECT string_agg(pg_get_userbyid(r), ', ' ORDER BY pg_get_userbyid(r)) FROM unnest(p.polroles) r),
		pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) FROM c JOIN pg_policy p ON p.polrelid = c.oid
	UNION ALL
	SELECT 'sequence ' || c.name, concat_ws(' ', pg_get_userbyid(c.relowner), shardfdw_internal.acl_text(c.relacl, 's', c.relowner), q.seqtypid::regtype, q.seqincrement, q.seqcache, q.seqcycle) FROM c JOIN pg_sequence q ON q.seqrelid = c.oid
	UNION ALL
	SELECT 'statistics object ' || format('%I.%I', n.nspname, x.stxname), pg_get_statisticsobjdef(x.oid) FROM pg_statistic_ext x JOIN n ON n.oid = x.stxnamespace
	UNION ALL
	SELECT 'function ' || p.oid::regprocedure::text, concat_ws(' ', pg_get_userbyid(p.proowner), shardfdw_internal.acl_text(p.proacl, 'f', p.proowner),
		CASE WHEN p.prokind = 'a' THEN (SELECT concat_ws(' ', g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.agginitval) FROM pg_aggregate g WHERE g.aggfnoid = p.oid) ELSE pg_get_functiondef(p.oid) END)
	FROM pg_proc p JOIN n ON n.oid = p.pronamespace WHERE NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_proc'::regclass AND own.objid = p.oid)
	UNION ALL
	SELECT 'type ' || t.oid::regtype::text, concat_ws(' ', t.typtype, pg_get_userbyid(t.typowner), shardfdw_internal.acl_text(t.typacl, 'T', t.typowner), t.typnotnull, t.typdefault, format_type(t.typbasetype, t.typtypmod),
		(SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
	FROM pg_type t JOIN n ON n.oid = t.typnamespace WHERE t.typtype IN ('e', 'd', 'r') AND NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_type'::regclass AND own.objid = t.oid)
	UNION ALL
	SELECT format('server %I', s.srvname), concat_ws(' ', pg_get_userbyid(s.srvowner), shardfdw_internal.acl_text(s.srvacl, 'S', s.srvowner), (SELECT string_agg(concat_ws(' ', o.option_name, o.option_value), ', ' ORDER BY o.option_name)
		FROM pg_options_to_table(s.srvoptions) o WHERE o.option_name IN ('coordinator', 'identity', 'accepts_shards', 'capacity', 'propagate_ddl')))
	FROM pg_foreign_server s
	UNION ALL
	SELECT format('operator %s', o.oid::regoperator), concat_ws(' ', o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator, o.oprcanhash, o.oprcanmerge, pg_get_userbyid(o.oprowner))
	FROM pg_operator o JOIN n ON n.oid = o.oprnamespace WHERE NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_operator'::regclass AND own.objid = o.oid)
	UNION ALL
	SELECT format('operator class %I.%I for access method %I', n.nspname, o.opcname, m.amname), concat_ws(' ', o.opcintype::regtype, o.opcdefault, pg_get_userbyid(o.opcowner))
	FROM pg_opclass o JOIN n ON n.oid = o.opcnamespace JOIN pg_am m ON m.oid = o.opcmethod WHERE NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_opclass'::regclass AND own.objid = o.oid)
	UNION ALL
	SELECT format('cast from %s to %s', c.castsource::regtype, c.casttarget::regtype), concat_ws(' ', c.castfunc::regprocedure, c.castcontext, c.castmethod)
	FROM pg_cast c WHERE c.oid >= 16384 AND NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_cast'::regclass AND own.objid = c.oid)
	UNION ALL
	SELECT format('collation %s', c.oid::regcollation), concat_ws(' ', c.collprovider, c.collisdeterministic, c.collcollate, c.collctype, pg_get_userbyid(c.collowner))
	FROM pg_collation c JOIN n ON n.oid = c.collnamespace WHERE NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_collation'::regclass AND own.objid = c.oid)
	UNION ALL
	SELECT format('default privileges of %I for %s in %s', pg_get_userbyid(d.defaclrole), d.defaclobjtype, coalesce((SELECT quote_ident(s.nspname) FROM pg_namespace s WHERE s.oid = d.defaclnamespace), 'all schemas')),
		(SELECT string_agg(x::text, ' ' ORDER BY x::text COLLATE "C") FROM unnest(d.defaclacl) x) FROM pg_default_acl d
	UNION ALL
	SELECT format('foreign-data wrapper %I', w.fdwname), concat_ws(' ', pg_get_userbyid(w.fdwowner), w.fdwoptions::text, shardfdw_internal.acl_text(w.fdwacl, 'F', w.fdwowner)) FROM pg_foreign_data_wrapper w
	UNION ALL
	SELECT format('event trigger %I', t.evtname), concat_ws(' ', t.evtevent, t.evtfoid::regprocedure, t.evtenabled, t.evttags::text, pg_get_userbyid(t.evtowner)) FROM pg_event_trigger t
	WHERE NOT EXISTS (SELECT FROM own WHERE own.classid = 'pg_event_trigger'::regclass AND own.objid = t.oid)
	UNION ALL
	SELECT format('extension %I', e.extname), e.extversion FROM pg_extension e
$$;
COMMENT ON FUNCTION shardfdw_internal.definitions() IS
	'Describes the definitions that must be equal on all coordinators of a cluster: tables, shards and their nodes, dependent objects, types, functions, schemas, owners and privileges. Returns a row for each object.';

CREATE FUNCTION shardfdw_internal.compare_coordinators(coordinators name[])
	RETURNS TABLE (coordinator name, status text, detail text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	total CONSTANT text := $q$SELECT md5(string_agg(x.line, E'\n' ORDER BY x.line COLLATE "C")) FROM (SELECT concat_ws(E'\t', d.object, md5(d.definition)) FROM shardfdw_internal.definitions() d) x(line)$q$;
	each CONSTANT text := 'SELECT d.object, md5(d.definition) FROM shardfdw_internal.definitions() d';
	here text;
	differ name[] := '{}';
	a record;
BEGIN
	IF coordinators = '{}' THEN
		RETURN;
	END IF;
	EXECUTE total INTO here;
	FOR a IN SELECT q.node, q.ok, concat_ws(': ', q.message, q.detail) AS message, (q.fields)[1] AS there
		FROM shardfdw_internal.run_commands(coordinators, array_fill(total, ARRAY[cardinality(coordinators)]), 'read', false) q
	LOOP
		IF NOT a.ok THEN
			RETURN QUERY VALUES (a.node, 'error', a.message);
		ELSIF a.there IS DISTINCT FROM here THEN
			differ := differ || a.node;
		ELSE
			RETURN QUERY VALUES (a.node, 'ok', 'definitions as here');
		END IF;
	END LOOP;
	IF differ = '{}' THEN
		RETURN;
	END IF;
	RETURN QUERY
	WITH here AS MATERIALIZED (SELECT d.object, md5(d.definition) AS hash FROM shardfdw_internal.definitions() d),
	there AS MATERIALIZED (SELECT q.node, q.ok, q.message, (q.fields)[1] AS object, (q.fields)[2] AS hash
		FROM shardfdw_internal.run_commands(differ, array_fill(each, ARRAY[cardinality(differ)]), 'read', false) q)
	SELECT x.node, 'error', x.detail FROM (
		SELECT t.node, t.object, CASE WHEN NOT t.ok THEN t.message WHEN h.object IS NULL THEN t.object || ' is there, but not here' ELSE t.object || ' is another one there' END AS detail
		FROM there t LEFT JOIN here h ON h.object = t.object WHERE NOT t.ok OR h.hash IS DISTINCT FROM t.hash
		UNION ALL
		SELECT d.node, h.object, h.object || ' is here, but not there' FROM unnest(differ) d(node) CROSS JOIN here h
		WHERE NOT EXISTS (SELECT FROM there t WHERE t.node = d.node AND (NOT t.ok OR t.object = h.object))) x
	ORDER BY x.node::text COLLATE "C", x.object COLLATE "C";
END
$$;
COMMENT ON FUNCTION shardfdw_internal.compare_coordinators(name[]) IS
	'Compares the definitions of other coordinators with those here, as definitions() writes them. Returns for each coordinator a row that they are equal, or an error for each object that differs, or for one that does not answer.';

CREATE FUNCTION shardfdw_internal.judge_coordinator(name name) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	a record;
	problem text;
	hint text;
BEGIN
	SELECT q.ok, q.sqlstate, concat_ws(': ', q.message, q.detail) AS message, q.fields INTO a
	FROM shardfdw_internal.run_commands(ARRAY[name], ARRAY[$q$SELECT i.identity, i.confirmed, e.extversion, current_setting('server_encoding'), current_setting('max_prepared_transactions'), pg_is_in_recovery()
		FROM shardfdw_internal.coordinator_identity() i, pg_extension e WHERE e.extname = 'shardfdw'$q$], 'autocommit', false) q;
	IF NOT a.ok THEN
		problem := a.message;
		hint := CASE WHEN a.sqlstate = '58000' THEN 'Check that the server runs, and the host, port, database, user and password given.'
			ELSE 'Restore a dump of this database there: pg_dump | PGOPTIONS=''-c shardfdw.enable_ddl_propagation=off'' psql.' END;
	ELSIF a.fields[1] = (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i) THEN
		RETURN a.fields[1];
	ELSIF a.fields[6]::boolean OR NOT a.fields[2]::boolean THEN
		problem := 'it is a copy of a coordinator';
		hint := 'Make it of a dump, not of files: pg_dump | PGOPTIONS=''-c shardfdw.enable_ddl_propagation=off'' psql.';
	ELSIF a.fields[3] <> (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'shardfdw') THEN
		problem := format('extension shardfdw %s is there, %s here', a.fields[3], (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'shardfdw'));
		hint := 'Update the older one.';
	ELSIF a.fields[4] <> current_setting('server_encoding') THEN
		problem := format('encoding %s, but %s here', a.fields[4], current_setting('server_encoding'));
		hint := 'Create the database there with the encoding of this one.';
	ELSIF a.fields[5] = '0' OR current_setting('max_prepared_transactions') = '0' THEN
		problem := 'max_prepared_transactions is 0' || CASE WHEN a.fields[5] = '0' THEN ' there' ELSE ' here' END;
		hint := 'Set it to at least max_connections, and restart the server.';
	ELSE
		RETURN a.fields[1];
	END IF;
	RAISE EXCEPTION USING ERRCODE = CASE WHEN a.sqlstate = '58000' THEN 'system_error' ELSE 'object_not_in_prerequisite_state' END,
		MESSAGE = format('could not add coordinator "%s"', name), DETAIL = problem, HINT = hint;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.judge_coordinator(name) IS
	'Queries a server to find out whether it can be a coordinator together with this one. Returns its identity. Raises object_not_in_prerequisite_state, system_error.';

CREATE FUNCTION shardfdw_internal.copy_references_to_peer(peer name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	relation regclass;
BEGIN
	PERFORM shardfdw_internal.run_commands(ARRAY[peer], ARRAY['SET LOCAL shardfdw.follows_coordinator = on; SET LOCAL session_replication_role = replica'], 'write');
	FOR relation IN SELECT * FROM shardfdw_internal.reference_tables()
	LOOP
		PERFORM shardfdw_internal.lock_table(relation, 'SHARE ROW EXCLUSIVE');
		PERFORM shardfdw_internal.run_commands(ARRAY[peer], ARRAY[format('DELETE FROM ONLY %s', relation)], 'write', labels => ARRAY[relation::text]);
		PERFORM shardfdw_internal.copy_reference_rows(relation, ARRAY[peer]);
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.copy_references_to_peer(name) IS
	'Copies the rows of the reference tables to a new coordinator, as part of this transaction. Returns nothing. Raises insufficient_privilege for a coordinator where the role may not set session_replication_role.';

CREATE FUNCTION shardfdw.add_coordinator(name name, host text, port integer DEFAULT 5432,
										 dbname name DEFAULT pg_catalog.current_database(), username name DEFAULT CURRENT_USER,
										 password text DEFAULT NULL, options jsonb DEFAULT '{}')
	RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	commands text[];
	command text;
	is_declared boolean;
	number integer;
	identity text;
	taken name;
	differences text;
BEGIN
	PERFORM shardfdw_internal.check_isolation('add_coordinator');
	PERFORM shardfdw_internal.check_no_replicas(s.relation, 'have several coordinators of') FROM shardfdw.shards s WHERE shardfdw_internal.has_replicas(s.shard) LIMIT 1;
	PERFORM shardfdw_internal.lock_all_members();
	is_declared := EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.is_this);
	-- Never the number of a removed coordinator: it has used values of its share.
	number := (SELECT coalesce(max(greatest(c.number, shardfdw_internal.node_option(c.name, 'highest_coordinator')::integer)), 0) + 1 FROM shardfdw.coordinators c);
	PERFORM shardfdw_internal.store_identity();
	commands := shardfdw_internal.server_commands(name, host, port, dbname, username, password, options);
	PERFORM shardfdw_internal.make_server(commands);
	PERFORM shardfdw_internal.settle_server(name);
	identity := shardfdw_internal.judge_coordinator(name);
	SELECT c.name INTO taken FROM shardfdw.coordinators c WHERE c.identity = identity;
	IF FOUND THEN
		RAISE EXCEPTION USING ERRCODE = 'duplicate_object', MESSAGE = format('the server of "%s" is coordinator "%s" already', name, taken);
	END IF;
	IF number > 15 THEN
		RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded', MESSAGE = 'there cannot be more than 15 coordinators',
			DETAIL = 'Values of sequences are divided into that many shares, one for each that has ever been added.';
	END IF;
	command := format('ALTER SERVER %I OPTIONS (ADD coordinator %L, ADD identity %L)', name, number, identity);
	IF NOT is_declared THEN
		IF identity <> (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i) THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
				MESSAGE = 'this database has not been declared as a coordinator itself',
				HINT = CASE number WHEN 1 THEN 'Call add_coordinator() with its own address first, as the others reach it.'
					ELSE 'Call add_coordinator() on one of those that view shardfdw.coordinators lists.' END;
		ELSIF number > 1 THEN
			RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'this database is no coordinator of those that are declared here',
				HINT = 'Call add_coordinator() on one of these.';
		END IF;
		EXECUTE command;
		PERFORM shardfdw_internal.check_plain_keys();
		PERFORM shardfdw_internal.share_sequences();
		PERFORM shardfdw_internal.set_turns(r) FROM shardfdw_internal.reference_tables() r;
		RETURN;
	END IF;
	-- objects that were created here before there were other coordinators
	IF shardfdw_internal.peers() = '{}' THEN
		PERFORM shardfdw_internal.check_plain_keys();
		PERFORM shardfdw_internal.share_sequences();
	END IF;
	-- The other coordinators have created the server already, because they follow this one. The new coordinator has not.
	PERFORM shardfdw_internal.run_commands(ARRAY[name], ARRAY[array_to_string(ARRAY['SET LOCAL shardfdw.follows_coordinator = on; SET LOCAL search_path = pg_catalog']
		|| commands || command, '; ')], 'write');
	EXECUTE command;
	SELECT string_agg(c.detail, '; ' ORDER BY c.ord) INTO differences
	FROM (SELECT x.detail, x.ord FROM shardfdw_internal.compare_coordinators(ARRAY[name]) WITH ORDINALITY x(coordinator, status, detail, ord) WHERE x.status <> 'ok' ORDER BY x.ord LIMIT 5) c;
	IF differences IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
			MESSAGE = format('could not add coordinator "%s" because its definitions are not those of this one', name),
			DETAIL = differences,
			HINT = 'Restore a new dump of this database there: pg_dump | PGOPTIONS=''-c shardfdw.enable_ddl_propagation=off'' psql.';
	END IF;
	PERFORM shardfdw_internal.copy_references_to_peer(name);
	PERFORM shardfdw_internal.run_commands(ARRAY[name], ARRAY['SELECT shardfdw_internal.share_sequences(), shardfdw_internal.store_identity()'], 'write');
END
$$;
COMMENT ON FUNCTION shardfdw.add_coordinator(name, text, integer, name, name, text, jsonb) IS
	'Adds a coordinator to the cluster. First add this coordinator, with the address by which the others reach it. Then add the others; each must be a dump of this database, restored on another server. Creates a server with the caller''s user mapping on all coordinators. From then on, changes of definitions are made on all coordinators in one transaction. Reference tables have the same rows on all coordinators, and each coordinator has its share of the values of sequences. options: further server options, as a JSON object. Returns nothing. Raises object_not_in_prerequisite_state, with the names of the objects, if definitions differ.';
REVOKE ALL ON FUNCTION shardfdw.add_coordinator(name, text, integer, name, name, text, jsonb) FROM PUBLIC;

CREATE FUNCTION shardfdw.remove_coordinator(name name) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET shardfdw.enable_coordinator_propagation = off
AS $$
#variable_conflict use_variable
DECLARE
	others name[];
	mapped text;
	commands text[] := '{}';
	command text;
	highest record;
BEGIN
	PERFORM shardfdw_internal.check_isolation('remove_coordinator');
	IF NOT EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.name = name) THEN
		RAISE EXCEPTION USING ERRCODE = 'undefined_object', MESSAGE = format('coordinator "%s" does not exist', name),
			HINT = 'The view shardfdw.coordinators lists them.';
	END IF;
	IF EXISTS (SELECT FROM shardfdw.coordinators c WHERE c.name = name AND c.is_this) THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('coordinator "%s" is this one', name),
			HINT = 'Call remove_coordinator() on another one.';
	END IF;
	PERFORM shardfdw_internal.lock_all_members(name);
	others := array_remove(shardfdw_internal.peers(), name);
	FOR mapped IN
		SELECT CASE u.umuser WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(u.umuser)) END FROM pg_user_mappings u WHERE u.srvname = name
	LOOP
		commands := commands || format('DROP USER MAPPING FOR %s SERVER %I', mapped, name);
	END LOOP;
	commands := commands || format('DROP SERVER %I', name);
	SELECT c.name AS this, greatest(max(x.number), max(shardfdw_internal.node_option(x.name, 'highest_coordinator')::integer)) AS number,
		shardfdw_internal.node_option(c.name, 'highest_coordinator') IS NULL AS is_first INTO highest
	FROM shardfdw.coordinators c, shardfdw.coordinators x WHERE c.is_this GROUP BY c.name;
	IF FOUND THEN
		commands := commands || format('ALTER SERVER %I OPTIONS (%s highest_coordinator %L)', highest.this, CASE WHEN highest.is_first THEN 'ADD' ELSE 'SET' END, highest.number);
	END IF;
	FOREACH command IN ARRAY commands
	LOOP
		IF others <> '{}' THEN
			PERFORM shardfdw_internal.run_commands(others, array_fill(format('SELECT shardfdw_internal.follow_coordinator(%L, %L, %L, ''{}'')', (SELECT i.identity FROM shardfdw_internal.coordinator_identity() i), command, CURRENT_USER), ARRAY[cardinality(others)]), 'write');
		END IF;
	END LOOP;
	FOREACH command IN ARRAY commands
	LOOP
		EXECUTE command;
	END LOOP;
END
$$;
COMMENT ON FUNCTION shardfdw.remove_coordinator(name) IS
	'Removes another coordinator from the cluster, even if it does not answer. Drops its server and user mappings on all remaining coordinators, which refuse it from then on. Its share of the values of sequences is not given to another coordinator. Returns nothing. Raises undefined_object, object_not_in_prerequisite_state.';
REVOKE ALL ON FUNCTION shardfdw.remove_coordinator(name) FROM PUBLIC;
