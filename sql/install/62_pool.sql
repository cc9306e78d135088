-- Connections to nodes: who has which, and closing them.

CREATE FUNCTION shardfdw_internal.session_connections(
	OUT node name,
	OUT role name,
	OUT state text,
	OUT wrote boolean,
	OUT kept boolean,
	OUT opened_at timestamptz,
	OUT node_pid integer,
	OUT node_version integer,
	OUT bytes_received bigint,
	OUT is_standby boolean
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_session_connections';
COMMENT ON FUNCTION shardfdw_internal.session_connections() IS
	'Returns one row per connection of this session to a node. Asks no node.';

CREATE VIEW shardfdw.connections AS
SELECT c.node, c.role, c.state, c.wrote, c.kept, c.opened_at, c.node_pid, c.node_version, c.bytes_received, c.is_standby
FROM shardfdw_internal.session_connections() c;
COMMENT ON VIEW shardfdw.connections IS 'Connections of this session to nodes.';
COMMENT ON COLUMN shardfdw.connections.node IS 'Node. Null: the transaction has dropped its server.';
COMMENT ON COLUMN shardfdw.connections.role IS 'Role here whose user mapping is used.';
COMMENT ON COLUMN shardfdw.connections.state IS
	'connecting; refused: the node has too many connections and is asked again; idle; active: a statement runs; idle in transaction; idle in transaction (aborted); lost.';
COMMENT ON COLUMN shardfdw.connections.wrote IS 'The current transaction has written over it, so it takes part in the commit.';
COMMENT ON COLUMN shardfdw.connections.kept IS 'It stays open for later transactions. False when keep_connections is off, or when options of its server or user mapping have changed.';
COMMENT ON COLUMN shardfdw.connections.opened_at IS 'Time when it began to be opened.';
COMMENT ON COLUMN shardfdw.connections.node_pid IS 'Process on the node that serves it.';
COMMENT ON COLUMN shardfdw.connections.node_version IS 'Version of the node as in server_version_num.';
COMMENT ON COLUMN shardfdw.connections.bytes_received IS 'Bytes of results that were read as COPY streams.';
COMMENT ON COLUMN shardfdw.connections.is_standby IS 'It leads to a standby of the node (server option standbys).';
GRANT SELECT ON shardfdw.connections TO PUBLIC;

CREATE FUNCTION shardfdw_internal.all_connections(
	OUT address text,
	OUT pid integer,
	OUT connections integer,
	OUT in_use boolean,
	OUT waits boolean,
	OUT allowed integer
) RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_all_connections';
COMMENT ON FUNCTION shardfdw_internal.all_connections() IS
	'Returns one row per session of this server and address of a node to which it has connections or for one of which it waits. No rows unless shardfdw is in shared_preload_libraries.';

CREATE VIEW shardfdw.shared_connections AS
SELECT c.address, c.pid, c.connections, c.in_use, c.waits, c.allowed
FROM shardfdw_internal.all_connections() c;
COMMENT ON VIEW shardfdw.shared_connections IS
	'Connections to nodes of all sessions of this server, in all databases. Empty unless shardfdw is in shared_preload_libraries.';
COMMENT ON COLUMN shardfdw.shared_connections.address IS 'Where the node is: its host and port options.';
COMMENT ON COLUMN shardfdw.shared_connections.pid IS 'Process of the session.';
COMMENT ON COLUMN shardfdw.shared_connections.connections IS 'Open connections of the session to the node.';
COMMENT ON COLUMN shardfdw.shared_connections.in_use IS 'The session is in a transaction that uses nodes.';
COMMENT ON COLUMN shardfdw.shared_connections.waits IS 'The session waits for a connection to the node.';
COMMENT ON COLUMN shardfdw.shared_connections.allowed IS 'Connections to the node that all sessions together may have; null: any number.';
GRANT SELECT ON shardfdw.shared_connections TO PUBLIC;

CREATE FUNCTION shardfdw_internal.node_counters()
	RETURNS TABLE (server oid, since timestamptz, connections bigint, connection_failures bigint, connection_retries bigint, statements bigint, rows_read bigint, rows_written bigint, bytes_sent bigint, bytes_received bigint, errors bigint, commits bigint, two_phase_commits bigint, recovered bigint)
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_node_counters';
COMMENT ON FUNCTION shardfdw_internal.node_counters() IS
	'Lists what sessions of this database have done on each node, see view stat_nodes. Returns a row for each server that was connected to since the server was started.';

CREATE VIEW shardfdw.stat_nodes AS
SELECT n.node, c.connections, c.connection_failures, c.connection_retries, c.statements, c.rows_read, c.rows_written, c.bytes_sent, c.bytes_received, c.errors, c.commits, c.two_phase_commits, c.recovered, c.since AS stats_reset
FROM shardfdw.nodes n
JOIN pg_catalog.pg_foreign_server s ON s.srvname = n.node
LEFT JOIN shardfdw_internal.node_counters() c ON c.server = s.oid;
COMMENT ON VIEW shardfdw.stat_nodes IS
	'What all sessions of this database together have done on each node, since the server was started or reset_stat_nodes() was called; moves of shards copy over connections of their own, and are not in it. Values are null for a node that was not connected to, and for all unless shardfdw is in shared_preload_libraries.';
COMMENT ON COLUMN shardfdw.stat_nodes.node IS 'Name of the node''s server.';
COMMENT ON COLUMN shardfdw.stat_nodes.connections IS 'Connections that were opened.';
COMMENT ON COLUMN shardfdw.stat_nodes.connection_failures IS 'Connections that could not be opened.';
COMMENT ON COLUMN shardfdw.stat_nodes.connection_retries IS 'Attempts to open a connection after the first one: the node had too many connections, or the connection was lost before it was used.';
COMMENT ON COLUMN shardfdw.stat_nodes.statements IS 'Statements that were sent, those included that sessions need for themselves.';
COMMENT ON COLUMN shardfdw.stat_nodes.rows_read IS 'Rows that the node has sent.';
COMMENT ON COLUMN shardfdw.stat_nodes.rows_written IS 'Rows that statements have written on the node, as their command tags say.';
COMMENT ON COLUMN shardfdw.stat_nodes.bytes_sent IS 'Bytes of statements, parameters and lines of COPY.';
COMMENT ON COLUMN shardfdw.stat_nodes.bytes_received IS 'Bytes of values, and of lines of COPY.';
COMMENT ON COLUMN shardfdw.stat_nodes.errors IS 'Statements that have failed, or whose connection was lost; without lines that COPY was told to skip.';
COMMENT ON COLUMN shardfdw.stat_nodes.commits IS 'Transactions that have written on the node, and were committed by one phase.';
COMMENT ON COLUMN shardfdw.stat_nodes.two_phase_commits IS 'Prepared transactions that their sessions have committed.';
COMMENT ON COLUMN shardfdw.stat_nodes.recovered IS 'Prepared transactions that recovery has committed or rolled back.';
COMMENT ON COLUMN shardfdw.stat_nodes.stats_reset IS 'Since when this is counted.';
GRANT SELECT ON shardfdw.stat_nodes TO PUBLIC;

CREATE FUNCTION shardfdw.reset_stat_nodes()
	RETURNS void
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_reset_node_counters';
COMMENT ON FUNCTION shardfdw.reset_stat_nodes() IS
	'Sets the counters of view stat_nodes to zero, for this database. Returns nothing. For superusers, and those to whom it is granted.';
REVOKE ALL ON FUNCTION shardfdw.reset_stat_nodes() FROM PUBLIC;

CREATE FUNCTION shardfdw.disconnect(node name DEFAULT NULL)
	RETURNS boolean
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_disconnect';
COMMENT ON FUNCTION shardfdw.disconnect(name) IS
	'Closes the connections of this session to a node, or to all nodes. Returns true when it closed some; warns of those that the transaction uses and leaves them open; raises 42704 when there is no such server.';
