-- Atomic commit: the log of decisions, recovery, and what is left on nodes.

-- Not registered with pg_extension_config_dump: its rows name transactions of this
-- very server, and in another one they would decide about transactions of others.
CREATE TABLE shardfdw.commit_log (
	xid xid8 NOT NULL,
	token bigint NOT NULL,
	nodes text[] NOT NULL,
	logged_at timestamptz NOT NULL,
	timelines integer[],
	PRIMARY KEY (xid, token)
);
REVOKE ALL ON shardfdw.commit_log FROM PUBLIC;

COMMENT ON TABLE shardfdw.commit_log IS
	'Transactions that committed on several nodes: the row of a transaction is visible if and only if it committed. Rows go when no node has a prepared transaction of theirs any more. Never change it by hand, but for deleting what recover() has reported as promoted.';
COMMENT ON COLUMN shardfdw.commit_log.xid IS 'Transaction on the coordinator.';
COMMENT ON COLUMN shardfdw.commit_log.token IS 'Random number in the identifiers of its prepared transactions: a crash can give out a transaction identifier twice.';
COMMENT ON COLUMN shardfdw.commit_log.nodes IS 'Nodes that prepared it, by name.';
COMMENT ON COLUMN shardfdw.commit_log.logged_at IS 'Time of the commit.';
COMMENT ON COLUMN shardfdw.commit_log.timelines IS 'Timelines of the nodes when they prepared it, in their order; 0 or null: not known.';

CREATE FUNCTION shardfdw.recover(
	OUT node name,
	OUT gid text,
	OUT action text
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_recover';
COMMENT ON FUNCTION shardfdw.recover() IS
	'Settles the transactions that this database left prepared on nodes: commits those whose transaction committed here, rolls back the others, leaves alone those still running. Returns one row per prepared transaction settled or failed, one per node that was not reached, and one per commit and node that was promoted after it had prepared it and does not have it: what was written there may be lost.';

CREATE FUNCTION shardfdw.list_prepared(
	OUT node name,
	OUT gid text,
	OUT xid xid8,
	OUT owner name,
	OUT prepared timestamptz,
	OUT state text
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE
	AS 'MODULE_PATHNAME', 'shardfdw_list_prepared';
COMMENT ON FUNCTION shardfdw.list_prepared() IS
	'Asks every node for the transactions that this database has prepared there. Returns one row each, and one without gid per node that was not reached.';

CREATE VIEW shardfdw.prepared_transactions AS
	SELECT p.node, p.gid, coalesce(p.xid, l.xid) AS xid, p.owner, p.prepared, l.logged_at AS committed,
		   CASE WHEN p.node IS NULL THEN 'settled' ELSE p.state END AS state
	FROM shardfdw.list_prepared() p
		 FULL JOIN shardfdw.commit_log l ON l.xid = CASE p.state WHEN 'committed' THEN p.xid END;
GRANT SELECT ON shardfdw.prepared_transactions TO PUBLIC;
COMMENT ON VIEW shardfdw.prepared_transactions IS
	'Transactions of this database that are prepared on nodes, and those of the commit log.';
COMMENT ON COLUMN shardfdw.prepared_transactions.node IS 'Node; null for a row of the commit log of which no node has anything any more.';
COMMENT ON COLUMN shardfdw.prepared_transactions.gid IS 'Identifier of the prepared transaction on the node.';
COMMENT ON COLUMN shardfdw.prepared_transactions.xid IS 'Transaction on the coordinator.';
COMMENT ON COLUMN shardfdw.prepared_transactions.owner IS 'Role on the node that prepared it.';
COMMENT ON COLUMN shardfdw.prepared_transactions.prepared IS 'Time when the node prepared it.';
COMMENT ON COLUMN shardfdw.prepared_transactions.committed IS 'Time when it committed on the coordinator; null when it did not.';
COMMENT ON COLUMN shardfdw.prepared_transactions.state IS
	'in progress: its transaction still runs here; committed, not committed: recover() will commit it, roll it back; settled: only the log row is left; unreachable: the node did not answer.';
