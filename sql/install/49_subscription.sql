-- Subscriptions that have sharded tables. PostgreSQL manages them, except for the process that applies changes (src/move/subscription.c). In PostgreSQL
-- they are disabled, and a row here says that they are enabled. The process also records its progress here.

-- Not dumped: pg_dump writes subscriptions that have to be enabled again.
CREATE TABLE shardfdw_internal.subscription (
	subid oid PRIMARY KEY,
	position pg_lsn,
	transactions bigint NOT NULL DEFAULT 0,
	changes bigint NOT NULL DEFAULT 0,
	applied_at timestamptz,
	failed_at timestamptz,
	error text
);
REVOKE ALL ON shardfdw_internal.subscription FROM PUBLIC;
-- Any caller of recover_prepared_transactions() starts missing processes.
GRANT SELECT (subid) ON shardfdw_internal.subscription TO PUBLIC;
COMMENT ON TABLE shardfdw_internal.subscription IS 'Subscriptions that shardfdw applies. Read the view shardfdw.subscriptions instead.';
COMMENT ON COLUMN shardfdw_internal.subscription.subid IS 'OID of the subscription.';
COMMENT ON COLUMN shardfdw_internal.subscription.position IS 'End LSN of the publisher''s last transaction that was applied, for the view only. The replication origin is authoritative.';
COMMENT ON COLUMN shardfdw_internal.subscription.transactions IS 'Transactions of the publisher that were applied.';
COMMENT ON COLUMN shardfdw_internal.subscription.changes IS 'Changes of rows that were applied.';
COMMENT ON COLUMN shardfdw_internal.subscription.applied_at IS 'When something was last applied.';
COMMENT ON COLUMN shardfdw_internal.subscription.failed_at IS 'When the error occurred.';
COMMENT ON COLUMN shardfdw_internal.subscription.error IS 'Error since then; null: none.';

CREATE FUNCTION shardfdw_internal.release_subscription(subid oid) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE pg_subscription s SET subenabled = true WHERE s.oid = $1 AND EXISTS (SELECT FROM shardfdw_internal.subscription o WHERE o.subid = $1);
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.release_subscription(oid) IS
	'Shows a subscription that shardfdw applies as enabled to PostgreSQL until take_subscription() is called. Returns whether shardfdw applies it.';

CREATE FUNCTION shardfdw_internal.take_subscription(subid oid) RETURNS boolean
	LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- so that PostgreSQL starts no process for it
	UPDATE pg_subscription s SET subenabled = false
	WHERE s.oid = $1 AND s.subenabled AND EXISTS (SELECT FROM pg_subscription_rel r, pg_partition_tree(r.srrelid) t JOIN shardfdw.shards p ON p.shard = t.relid
		WHERE r.srsubid = $1);
	IF FOUND THEN
		INSERT INTO shardfdw_internal.subscription (subid) VALUES ($1) ON CONFLICT ON CONSTRAINT subscription_pkey DO UPDATE SET error = NULL, failed_at = NULL;
		RETURN true;
	END IF;
	DELETE FROM shardfdw_internal.subscription o WHERE o.subid = $1;
	RETURN false;
END
$$;
COMMENT ON FUNCTION shardfdw_internal.take_subscription(oid) IS
	'Lets shardfdw apply an enabled subscription if it has sharded tables; otherwise lets PostgreSQL apply it. Returns whether shardfdw applies it.';

CREATE FUNCTION shardfdw_internal.forget_subscriptions() RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	DELETE FROM shardfdw_internal.subscription o WHERE NOT EXISTS (SELECT FROM pg_subscription s WHERE s.oid = o.subid)
$$;
COMMENT ON FUNCTION shardfdw_internal.forget_subscriptions() IS
	'Removes what was noted of subscriptions that were dropped. Returns nothing.';

CREATE FUNCTION shardfdw_internal.subscription_definition(subid oid)
	RETURNS TABLE (version text, owner oid, name text, slot text, origin text, disable_on_error boolean, run_as_owner boolean, publication text)
	LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found record;
BEGIN
	SELECT s.xmin::text AS version, s.subowner, s.subname::text AS name, s.subslotname::text AS slot, coalesce(to_jsonb(s)->>'suborigin', 'any') AS origin, s.subdisableonerr,
		-- Before version 16 the option does not exist: triggers run as the owner of the subscription.
		coalesce((to_jsonb(s)->>'subrunasowner')::boolean, true) AS run_as_owner, s.subpublications
	INTO found FROM pg_subscription s JOIN shardfdw_internal.subscription o ON o.subid = s.oid WHERE s.oid = $1;
	IF found.version IS NOT NULL AND found.slot IS NULL THEN
		RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state', MESSAGE = format('subscription "%s" has no slot', found.name), HINT = 'Name one: ALTER SUBSCRIPTION ... SET (slot_name = ...).';
	END IF;
	RETURN QUERY SELECT found.version, found.subowner, found.name, found.slot, found.origin, found.subdisableonerr, found.run_as_owner, p FROM unnest(found.subpublications) p;
END
$$;
REVOKE ALL ON FUNCTION shardfdw_internal.subscription_definition(oid) FROM PUBLIC;
COMMENT ON FUNCTION shardfdw_internal.subscription_definition(oid) IS
	'Reads a subscription that shardfdw applies. Returns a row for each publication, or no row if there is nothing to apply. Raises object_not_in_prerequisite_state.';

CREATE FUNCTION shardfdw_internal.subscription_rank(relation regclass) RETURNS integer
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	-- Only the nodes have foreign keys of shards; these refer to reference tables.
	SELECT CASE WHEN p.relkind = 'p' THEN 1000 ELSE coalesce((
		WITH RECURSIVE f(relation, depth) AS (
			SELECT p.oid, 0
			UNION
			SELECT k.confrelid, f.depth + 1 FROM f JOIN pg_constraint k ON k.conrelid = f.relation WHERE k.contype = 'f' AND k.confrelid <> k.conrelid AND f.depth < 100
		)
		SELECT max(f.depth) FROM f), 0) END
	FROM pg_class p WHERE p.oid = relation
$$;
COMMENT ON FUNCTION shardfdw_internal.subscription_rank(regclass) IS
	'Sorts tables so that each refers by foreign keys to those of lower numbers only. Returns the number.';

CREATE FUNCTION shardfdw_internal.subscription_copies(subid oid) RETURNS SETOF regclass
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT r.srrelid::regclass FROM pg_subscription_rel r WHERE r.srsubid = $1 AND r.srsubstate NOT IN ('s', 'r') ORDER BY shardfdw_internal.subscription_rank(r.srrelid), r.srrelid
$$;
COMMENT ON FUNCTION shardfdw_internal.subscription_copies(oid) IS
	'Lists the tables of a subscription whose rows are still to be copied. Referenced tables come first.';

CREATE FUNCTION shardfdw_internal.subscription_latest_copy(subid oid) RETURNS pg_lsn
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT max(CASE r.srsubstate WHEN 's' THEN r.srsublsn ELSE '0/0' END) FROM pg_subscription_rel r WHERE r.srsubid = $1 AND r.srsubstate IN ('s', 'r')
$$;
COMMENT ON FUNCTION shardfdw_internal.subscription_latest_copy(oid) IS
	'Finds the latest copy position that applied changes have not reached yet. Returns 0/0 if there is no such copy, null if no table was copied.';

CREATE FUNCTION shardfdw_internal.subscription_position(subid oid, relation oid) RETURNS pg_lsn
	LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE r.srsubstate WHEN 's' THEN r.srsublsn ELSE '0/0' END FROM pg_subscription_rel r WHERE (r.srsubid, r.srrelid) = ($1, $2) AND r.srsubstate IN ('s', 'r')
$$;
COMMENT ON FUNCTION shardfdw_internal.subscription_position(oid, oid) IS
	'Finds the position from which transactions of the publisher are applied to a table. Returns the position, null if none are applied.';

CREATE FUNCTION shardfdw_internal.subscription_referring(relation regclass) RETURNS text
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN shardfdw_internal.is_sharded(relation) THEN shardfdw_internal.referring_table(relation) END
$$;
COMMENT ON FUNCTION shardfdw_internal.subscription_referring(regclass) IS
	'Does referring_table() for a table that may be sharded or not. Returns a name; null: none.';

CREATE FUNCTION shardfdw_internal.note_subscription_ready(subid oid, end_position pg_lsn) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE pg_subscription_rel r SET srsubstate = 'r' WHERE r.srsubid = $1 AND r.srsubstate = 's' AND r.srsublsn <= end_position
$$;
COMMENT ON FUNCTION shardfdw_internal.note_subscription_ready(oid, pg_lsn) IS
	'Records that all changes up to a position have been received. PostgreSQL then allows DROP TABLE for tables whose copies are older. Returns nothing.';

CREATE FUNCTION shardfdw_internal.note_subscription(subid oid, end_position pg_lsn, ntransactions bigint, nchanges bigint) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT shardfdw_internal.note_subscription_ready($1, end_position);
	UPDATE shardfdw_internal.subscription o SET position = end_position, transactions = o.transactions + ntransactions, changes = o.changes + nchanges,
		applied_at = clock_timestamp(), error = NULL, failed_at = NULL
	WHERE o.subid = $1
$$;
COMMENT ON FUNCTION shardfdw_internal.note_subscription(oid, pg_lsn, bigint, bigint) IS
	'Records what the current transaction applies. Returns nothing.';

CREATE FUNCTION shardfdw_internal.note_subscription_copy(subid oid, relation oid, from_position pg_lsn) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE pg_subscription_rel r SET srsubstate = 's', srsublsn = from_position WHERE (r.srsubid, r.srrelid) = ($1, $2)
$$;
COMMENT ON FUNCTION shardfdw_internal.note_subscription_copy(oid, oid, pg_lsn) IS
	'Records that a table has the rows that the publisher had at a position. Returns nothing.';

CREATE FUNCTION shardfdw_internal.note_subscription_error(subid oid, error text, disable boolean) RETURNS void
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE shardfdw_internal.subscription o SET failed_at = clock_timestamp(), error = $2 WHERE o.subid = $1 AND NOT disable;
	DELETE FROM shardfdw_internal.subscription o WHERE o.subid = $1 AND disable
$$;
COMMENT ON FUNCTION shardfdw_internal.note_subscription_error(oid, text, boolean) IS
	'Records why a subscription could not be applied. disable: it is not tried again. Returns nothing.';

CREATE FUNCTION shardfdw_internal.missing_subscriptions() RETURNS SETOF oid
	LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
	SELECT o.subid FROM shardfdw_internal.subscription o JOIN pg_subscription s ON s.oid = o.subid WHERE NOT shardfdw_internal.job_is_running(-o.subid::bigint)
$$;
COMMENT ON FUNCTION shardfdw_internal.missing_subscriptions() IS
	'Lists subscriptions that shardfdw applies, and for which no process is at work. Returns their OIDs.';

CREATE VIEW shardfdw.subscriptions AS
	SELECT s.subname AS name, pg_catalog.pg_get_userbyid(s.subowner) AS role, shardfdw_internal.job_is_running(-o.subid::bigint) AS running,
		t.tables, t.copied, o.position, o.transactions, o.changes, o.applied_at, x.failed_at, x.error
	FROM shardfdw_internal.subscription o JOIN pg_catalog.pg_subscription s ON s.oid = o.subid
	CROSS JOIN LATERAL (SELECT count(*) AS tables, count(*) FILTER (WHERE r.srsubstate IN ('s', 'r')) AS copied FROM pg_catalog.pg_subscription_rel r WHERE r.srsubid = o.subid) t
	-- the message may contain values of rows
	LEFT JOIN LATERAL (SELECT o.failed_at, o.error WHERE pg_catalog.pg_has_role(s.subowner, 'USAGE') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')) x ON true;
GRANT SELECT ON shardfdw.subscriptions TO PUBLIC;
COMMENT ON VIEW shardfdw.subscriptions IS 'Lists the enabled subscriptions that have sharded tables, which shardfdw applies. PostgreSQL shows these subscriptions as disabled.';
COMMENT ON COLUMN shardfdw.subscriptions.name IS 'Name of the subscription.';
COMMENT ON COLUMN shardfdw.subscriptions.role IS 'Owner of the subscription. Changes are applied with its privileges and user mappings.';
COMMENT ON COLUMN shardfdw.subscriptions.running IS 'True if the process of the subscription is running. False for some seconds after an error, and if no background worker is free.';
COMMENT ON COLUMN shardfdw.subscriptions.tables IS 'Number of tables of the subscription.';
COMMENT ON COLUMN shardfdw.subscriptions.copied IS 'Number of these tables whose initial copy is done.';
COMMENT ON COLUMN shardfdw.subscriptions.position IS 'End LSN of the publisher''s last transaction that was applied. Null if no transaction was applied since the subscription was enabled.';
COMMENT ON COLUMN shardfdw.subscriptions.transactions IS 'Number of transactions of the publisher that were applied since the subscription was enabled, including transactions that did not change its tables.';
COMMENT ON COLUMN shardfdw.subscriptions.changes IS 'Number of row changes that were applied since the subscription was enabled.';
COMMENT ON COLUMN shardfdw.subscriptions.applied_at IS 'Time when a transaction was last applied.';
COMMENT ON COLUMN shardfdw.subscriptions.failed_at IS 'Time of the last failure. Null if a transaction was applied since then. Shown only to the owner, members of that role and members of pg_read_all_stats.';
COMMENT ON COLUMN shardfdw.subscriptions.error IS 'Error of the last failure. The process tries again every few seconds. Shown only to the owner, members of that role and members of pg_read_all_stats.';
