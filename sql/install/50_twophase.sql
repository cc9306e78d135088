-- Atomic commit: the commit log, recovery, and prepared transactions on nodes.

-- Not registered with pg_extension_config_dump: its rows name transactions of this
-- server, and in another server they would decide about other transactions.
CREATE TABLE shardfdw_internal.commit_log (
	xid xid8 NOT NULL,
	token bigint NOT NULL,
	nodes text[] NOT NULL,
	logged_at timestamptz NOT NULL,
	timelines integer[],
	system_identifiers bigint[],
	databases text[],
	confirms_xid xid8,
	confirms_token bigint,
	settled_at timestamptz,
	note text,
	PRIMARY KEY (xid, token)
);
REVOKE ALL ON shardfdw_internal.commit_log FROM PUBLIC;

COMMENT ON TABLE shardfdw_internal.commit_log IS
	'Transactions that committed on several nodes. The row of a transaction is visible if and only if it committed. Rows are kept for some time after all nodes have confirmed (shardfdw.commit_log_max_age, commit_log_max_rows). Never change it manually.';
COMMENT ON COLUMN shardfdw_internal.commit_log.xid IS 'Transaction ID on the coordinator.';
COMMENT ON COLUMN shardfdw_internal.commit_log.token IS 'Random number in the identifiers of the prepared transactions, because transaction IDs can be reused after a crash.';
COMMENT ON COLUMN shardfdw_internal.commit_log.nodes IS 'Names of the nodes that prepared the transaction.';
COMMENT ON COLUMN shardfdw_internal.commit_log.logged_at IS 'Time of the commit, as in the identifiers of its prepared transactions.';
COMMENT ON COLUMN shardfdw_internal.commit_log.timelines IS 'Timelines of the nodes at PREPARE TRANSACTION, in the order of nodes. 0 or null if not known.';
COMMENT ON COLUMN shardfdw_internal.commit_log.system_identifiers IS 'System identifiers of the nodes'' servers, in the order of nodes. 0 or null if not known.';
COMMENT ON COLUMN shardfdw_internal.commit_log.databases IS 'Databases on the nodes, in the order of nodes. Empty or null if not known.';
COMMENT ON COLUMN shardfdw_internal.commit_log.confirms_xid IS 'Earlier transaction of the same session that all nodes have confirmed. Null if there is none.';
COMMENT ON COLUMN shardfdw_internal.commit_log.confirms_token IS 'Token of that transaction.';
COMMENT ON COLUMN shardfdw_internal.commit_log.settled_at IS 'Time when recovery, or the end of the session, recorded that the transaction is no longer prepared on any node. Null if not recorded here.';
COMMENT ON COLUMN shardfdw_internal.commit_log.note IS 'Unusual findings of recovery about the transaction.';

-- Not dumped either: a restored database is another coordinator.
CREATE TABLE shardfdw_internal.coordinator (
	identity text PRIMARY KEY,
	system_identifier bigint NOT NULL,
	database oid NOT NULL,
	fingerprint text NOT NULL,
	made_at timestamptz NOT NULL,
	taken_over_at timestamptz,
	all_commits_received boolean NOT NULL,
	forgotten_until timestamptz NOT NULL,
	settled_below xid8 NOT NULL
);
REVOKE ALL ON shardfdw_internal.coordinator FROM PUBLIC;
COMMENT ON TABLE shardfdw_internal.coordinator IS
	'Identities of this coordinator: the present one, and those that promote_coordinator() replaced. Never change it manually.';
COMMENT ON COLUMN shardfdw_internal.coordinator.identity IS 'Identity in the identifiers of prepared transactions.';
COMMENT ON COLUMN shardfdw_internal.coordinator.system_identifier IS 'System identifier of the server that created the identity.';
COMMENT ON COLUMN shardfdw_internal.coordinator.database IS 'OID of the database in which the identity was created.';
COMMENT ON COLUMN shardfdw_internal.coordinator.fingerprint IS 'Fingerprint of that server''s data directory: inode and birth time of PG_VERSION, which a copy does not share.';
COMMENT ON COLUMN shardfdw_internal.coordinator.made_at IS 'Time when the identity was created.';
COMMENT ON COLUMN shardfdw_internal.coordinator.taken_over_at IS 'Time when promote_coordinator() replaced the identity. Null if not replaced.';
COMMENT ON COLUMN shardfdw_internal.coordinator.all_commits_received IS 'True if the caller of promote_coordinator() or resolve_transaction() confirmed that all commits are here.';
COMMENT ON COLUMN shardfdw_internal.coordinator.forgotten_until IS 'Rows of the commit log up to this time may have been deleted.';
COMMENT ON COLUMN shardfdw_internal.coordinator.settled_below IS 'Transactions with a lower ID are not prepared on any node.';

CREATE FUNCTION shardfdw_internal.coordinator_identity(
	OUT identity text,
	OUT confirmed boolean,
	OUT note_name name,
	OUT note_command text
) RETURNS record
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_coordinator_identity';
COMMENT ON FUNCTION shardfdw_internal.coordinator_identity() IS
	'Returns the identity of this coordinator, whether this server created it or took it over (false for a clone), the name of the table that records it on nodes, and the command that records it.';

CREATE FUNCTION shardfdw_internal.decided_identities() RETURNS text[]
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_decided_identities';
COMMENT ON FUNCTION shardfdw_internal.decided_identities() IS
	'Lists the identities of which this server has all commits: its identity, and then those of predecessors that were taken over with all of their commits.';

CREATE FUNCTION shardfdw_internal.store_identity() RETURNS void
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_store_identity';
COMMENT ON FUNCTION shardfdw_internal.store_identity() IS
	'Stores the identity of this coordinator, if it has none, in shardfdw_internal.coordinator. Returns nothing.';

CREATE FUNCTION shardfdw_internal.replace_identity(all_commits_received boolean) RETURNS text
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_replace_identity';
COMMENT ON FUNCTION shardfdw_internal.replace_identity(boolean) IS
	'Does the local part of promote_coordinator(): gives this server a new identity, and records the present identities as those of predecessors. The commit of the transaction calls announce_identity(). Returns the new identity.';
REVOKE ALL ON FUNCTION shardfdw_internal.replace_identity(boolean) FROM PUBLIC;

SELECT shardfdw_internal.store_identity();

CREATE FUNCTION shardfdw_internal.note_identity(nodes name[], end_sessions boolean DEFAULT false)
	RETURNS TABLE (node name, ok boolean, message text)
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	command text;
	told name[] := '{}';
	r record;
BEGIN
	SELECT i.note_command INTO command FROM shardfdw_internal.coordinator_identity() i;
	FOR r IN SELECT q.node, q.ok, concat_ws(': ', q.message, q.detail) AS message
		FROM shardfdw_internal.run_commands(nodes, array_fill(command, ARRAY[cardinality(nodes)]), 'autocommit', false) q
	LOOP
		IF r.ok AND end_sessions THEN
			told := told || r.node;
		ELSE
			RETURN QUERY VALUES (r.node, r.ok, r.message);
		END IF;
	END LOOP;
	IF told = '{}' THEN
		RETURN;
	END IF;

	-- Sessions of the predecessor check the identity that they read when they began. So these sessions are ended, but only after the new identity
	-- is committed. A session that begins earlier would read the old identity and continue.
	command := format($q$DO $end$ DECLARE session record; BEGIN
		FOR session IN SELECT pid FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database()
			AND pid <> pg_catalog.pg_backend_pid() AND pg_catalog.starts_with(application_name, 'shardfdw:%s:')
		LOOP
			BEGIN
				PERFORM pg_catalog.pg_terminate_backend(session.pid, 5000);
			EXCEPTION WHEN insufficient_privilege THEN
				RAISE WARNING 'session %% of the predecessor goes on', session.pid;
			END;
		END LOOP; END $end$ $q$, (SELECT s.system_identifier FROM pg_control_system() s));
	RETURN QUERY
	SELECT q.node, q.ok, concat_ws(': ', q.message, q.detail)
	FROM shardfdw_internal.run_commands(told, array_fill(command, ARRAY[cardinality(told)]), 'autocommit', false) q;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.note_identity(name[], boolean) IS
	'Records on nodes that this coordinator uses them, in the comment of a table in schema shardfdw_internal there. end_sessions: also ends the sessions there of servers with this server''s system identifier. Returns one row per node, with the error message if it failed.';

CREATE FUNCTION shardfdw_internal.announce_identity(predecessor text) RETURNS void
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	nodes CONSTANT name[] := shardfdw_internal.granted_nodes();
	peers CONSTANT name[] := shardfdw_internal.peers();
	command text;
	r record;
BEGIN
	IF nodes <> '{}' THEN
		FOR r IN SELECT n.node, n.message FROM shardfdw_internal.note_identity(nodes, true) n WHERE NOT n.ok
		LOOP
			RAISE WARNING USING MESSAGE = format('node "%s" does not know of the take-over', r.node),
				DETAIL = r.message,
				HINT = 'There the predecessor, should it go on, is not refused.';
		END LOOP;
	END IF;
	IF peers <> '{}' THEN
		SELECT format('ALTER SERVER %I OPTIONS (SET identity %L)', c.name, c.identity) INTO command FROM shardfdw.coordinators c WHERE c.is_this;
		FOR r IN SELECT q.node, concat_ws(': ', q.message, q.detail) AS message FROM shardfdw_internal.run_commands(peers,
			array_fill(format('SELECT shardfdw_internal.follow_coordinator(%L, %L, %L, ''{}'')', predecessor, command, CURRENT_USER), ARRAY[cardinality(peers)]), 'settle', false) q
			WHERE NOT q.ok
		LOOP
			RAISE WARNING USING MESSAGE = format('coordinator "%s" does not know of the take-over', r.node),
				DETAIL = r.message,
				HINT = format('Run there: SET shardfdw.enable_coordinator_propagation = off; %s;', command);
		END LOOP;
	END IF;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.announce_identity(text) IS
	'Does the last part of promote_coordinator(), when its transaction commits: informs the nodes and the other coordinators of the new identity. predecessor: the identity that they know. Returns nothing. Reports a WARNING for each of them that could not be informed.';
REVOKE ALL ON FUNCTION shardfdw_internal.announce_identity(text) FROM PUBLIC;

CREATE FUNCTION shardfdw.promote_coordinator(commits text DEFAULT 'unknown', restore_point text DEFAULT NULL) RETURNS text
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	new_identity text;
	this CONSTANT name := (SELECT c.name FROM shardfdw.coordinators c WHERE c.is_this);
BEGIN
	IF commits IS NULL OR commits NOT IN ('complete', 'unknown') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('commits "%s" is not known', commits), HINT = 'It is complete or unknown.';
	END IF;
	-- Nodes are informed when the transaction commits, which ends the sessions that this server has on them.
	IF shardfdw_internal.in_remote_transaction() THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = 'cannot call promote_coordinator() in a transaction that has used nodes', HINT = 'Commit first.';
	END IF;
	IF restore_point IS NOT NULL THEN
		PERFORM shardfdw_internal.require_restored(restore_point);
		-- A transaction that a node no longer has prepared is committed there. The other timelines of the node mean nothing.
		UPDATE shardfdw_internal.commit_log SET timelines = NULL WHERE settled_at IS NULL;
		DELETE FROM shardfdw_internal.node_position;
	END IF;
	new_identity := shardfdw_internal.replace_identity(commits = 'complete' OR restore_point IS NOT NULL);
	IF this IS NOT NULL THEN
		PERFORM set_config('shardfdw.enable_coordinator_propagation', 'off', true);
		EXECUTE format('ALTER SERVER %I OPTIONS (SET identity %L)', this, new_identity);
	END IF;
	RETURN new_identity;
END
$$;
COMMENT ON FUNCTION shardfdw.promote_coordinator(text, text) IS
	'Makes this server the coordinator in place of the one that it is a standby, restored backup or clone of. Nodes then refuse commits of the old coordinator. commits: complete means that this server has all commits of the old coordinator, so recover_prepared_transactions() rolls back the transactions that are not among them; unknown leaves these transactions until resolve_transaction() decides them. Transactions of earlier predecessors are not affected. restore_point: target of create_restore_point() to which this server and all nodes of the cluster were restored. If a server was not restored to that target, raises object_not_in_prerequisite_state. If this database is a clone of another database of this server, the identity of that database is not taken over. Nodes and other coordinators are informed when the transaction commits. Returns the new identity. Reports a WARNING for each node and each other coordinator that could not be informed. Also raises invalid_parameter_value, and object_not_in_prerequisite_state in a transaction that has used nodes.';
REVOKE ALL ON FUNCTION shardfdw.promote_coordinator(text, text) FROM PUBLIC;

CREATE FUNCTION shardfdw_internal.declare_commits_received(predecessor text) RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_declare_commits_received';
COMMENT ON FUNCTION shardfdw_internal.declare_commits_received(text) IS
	'Declares that all commits of a predecessor (given by its identity) are here, although it was taken over without them. recover_prepared_transactions() then rolls back its prepared transactions that are not among the commits of this server. Returns nothing. Raises undefined_object for an unknown predecessor, null_value_not_allowed.';
REVOKE ALL ON FUNCTION shardfdw_internal.declare_commits_received(text) FROM PUBLIC;

CREATE FUNCTION shardfdw.recover_prepared_transactions(
	dry_run boolean DEFAULT false,
	OUT node name,
	OUT gid text,
	OUT action text
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_recover_prepared_transactions';
COMMENT ON FUNCTION shardfdw.recover_prepared_transactions(boolean) IS
	'Commits or rolls back the transactions that this database left prepared on nodes. Commits a transaction if it committed here, and rolls it back if it did not. Leaves transactions that are still running, and those whose outcome cannot be determined. dry_run: true only reports what would be done. Returns one row per prepared transaction, one row per node that was not reached or is another server than before, and one row per commit that a promoted node has lost. Writes the same to the server log.';

CREATE FUNCTION shardfdw_internal.list_prepared(
	OUT node name,
	OUT gid text,
	OUT xid xid8,
	OUT owner name,
	OUT prepared timestamptz,
	OUT state text
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_list_prepared';
COMMENT ON FUNCTION shardfdw_internal.list_prepared() IS
	'Queries every node for the transactions that this database has prepared there. Returns one row for each, and one row without gid for each node that was not reached.';

CREATE FUNCTION shardfdw_internal.doubt_nodes() RETURNS void
	LANGUAGE c VOLATILE AS 'MODULE_PATHNAME', 'shardfdw_doubt_nodes';
COMMENT ON FUNCTION shardfdw_internal.doubt_nodes() IS
	'Notes that any node may have a transaction whose commit it has not received. Called by another coordinator before it commits its part here. Returns nothing.';

CREATE FUNCTION shardfdw.resolve_transaction(gid text, action text) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- the common prefix of the gids on all nodes, without their numbers
	transaction CONSTANT text := substring(gid FROM '^(shardfdw:.+:)\d+$');
	transaction_id CONSTANT text := CASE WHEN gid ~ '^\d+$' THEN gid ELSE substring(gid FROM '^shardfdw:\d+:\d+:[0-9a-f]+:\d+:(\d+):\d+$') END;
	prepared record;
BEGIN
	IF gid IS NULL OR action IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'gid and action must not be null';
	END IF;
	IF action NOT IN ('commit', 'rollback', 'forget') THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('action "%s" is not known', action), HINT = 'Actions are commit, rollback and forget.';
	END IF;
	-- everything that a predecessor left prepared
	IF action = 'rollback' AND gid ~ '^[0-9a-f]{16}$' THEN
		PERFORM shardfdw_internal.declare_commits_received(gid);
		RETURN true;
	END IF;
	IF transaction_id IS NULL OR transaction IS NULL AND action <> 'forget' THEN
		RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = format('"%s" is no identifier of a prepared transaction', gid),
			HINT = 'The view shardfdw.prepared_transactions lists them.';
	END IF;
	IF action = 'forget' THEN
		UPDATE shardfdw_internal.commit_log l SET settled_at = clock_timestamp(), note = concat_ws('; ', l.note, 'dismissed by hand')
		WHERE l.xid = transaction_id::xid8 AND l.settled_at IS NULL;
		RETURN FOUND;
	END IF;
	SELECT array_agg(p.node) AS nodes, array_agg(format('%s PREPARED %L', upper(action), p.gid)) AS commands, min(p.state) FILTER (WHERE p.state NOT LIKE 'left alone%') AS decided
	INTO prepared FROM shardfdw_internal.list_prepared() p WHERE starts_with(p.gid, transaction);
	IF prepared.decided IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('transaction "%s" needs no decision', gid), DETAIL = format('It is %s.', prepared.decided),
			HINT = 'SELECT * FROM shardfdw.recover_prepared_transactions() ends what can be decided, and tells of the rest.';
	END IF;
	IF prepared.nodes IS NULL THEN
		RETURN false;
	END IF;
	PERFORM count(q) FROM shardfdw_internal.run_commands(prepared.nodes, prepared.commands, 'settle') q;
	RETURN true;
END
$$;
COMMENT ON FUNCTION shardfdw.resolve_transaction(text, text) IS
	'Decides a transaction whose outcome recover_prepared_transactions() cannot determine. gid: identifier of the prepared transaction. action: commit or rollback ends the transaction immediately on all nodes that answer; forget ends the search for a committed transaction on nodes that are permanently lost. With rollback, gid may be the identity of a predecessor all of whose commits are here: recovery then rolls back the predecessor''s other transactions. With forget, gid may be the number of the transaction. Returns whether there was something to decide. Raises null_value_not_allowed, invalid_parameter_value, undefined_object for an unknown predecessor, object_not_in_prerequisite_state for a transaction that recovery can decide, and errors of nodes.';
REVOKE ALL ON FUNCTION shardfdw.resolve_transaction(text, text) FROM PUBLIC;

CREATE VIEW shardfdw.prepared_transactions AS
	SELECT p.node, p.gid, coalesce(p.xid, l.xid) AS xid, p.owner AS role, p.prepared AS prepared_at, l.logged_at AS committed_at,
		   CASE WHEN p.node IS NULL THEN 'settled' ELSE p.state END AS state
	FROM shardfdw_internal.list_prepared() p
		 FULL JOIN (SELECT u.xid, u.logged_at FROM shardfdw_internal.commit_log u WHERE u.settled_at IS NULL
					AND NOT EXISTS (SELECT FROM shardfdw_internal.commit_log n WHERE n.confirms_xid = u.xid AND n.confirms_token = u.token)) l
		 ON l.xid = CASE p.state WHEN 'committed' THEN p.xid END;
GRANT SELECT ON shardfdw.prepared_transactions TO PUBLIC;
COMMENT ON VIEW shardfdw.prepared_transactions IS
	'Lists the transactions of this database that are prepared on nodes, and those of the commit log that may still be prepared on a node.';
COMMENT ON COLUMN shardfdw.prepared_transactions.node IS 'Node of the prepared transaction. Null for a row of the commit log whose transaction is no longer prepared on any node.';
COMMENT ON COLUMN shardfdw.prepared_transactions.gid IS 'Identifier of the prepared transaction on the node.';
COMMENT ON COLUMN shardfdw.prepared_transactions.xid IS 'Transaction ID on the coordinator.';
COMMENT ON COLUMN shardfdw.prepared_transactions.role IS 'Role on the node that prepared it.';
COMMENT ON COLUMN shardfdw.prepared_transactions.prepared_at IS 'Time when the node prepared it.';
COMMENT ON COLUMN shardfdw.prepared_transactions.committed_at IS 'Time when the transaction committed on the coordinator. Null if it did not commit.';
COMMENT ON COLUMN shardfdw.prepared_transactions.state IS
	'State of the transaction. State in progress: it still runs here. State committed: recover_prepared_transactions() will commit it. State not committed: recover_prepared_transactions() will roll it back. State "settled": it is not prepared on any node that answered. State left alone, with a reason: recover_prepared_transactions() cannot decide it. State not confirmed: this server is a clone of the coordinator. State unreachable: the node did not answer.';
