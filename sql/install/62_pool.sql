-- Connections to nodes: shows and closes them.

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
COMMENT ON VIEW shardfdw.connections IS 'Lists the connections of this session to nodes.';
COMMENT ON COLUMN shardfdw.connections.node IS 'Node. Null if the transaction has dropped the node''s server.';
COMMENT ON COLUMN shardfdw.connections.role IS 'Role here whose user mapping the connection uses.';
COMMENT ON COLUMN shardfdw.connections.state IS
	'connecting; refused: the node had too many connections, and the session tries again; idle; active: a statement runs; idle in transaction; idle in transaction (aborted); lost.';
COMMENT ON COLUMN shardfdw.connections.wrote IS 'True if the current transaction has written over this connection, which then takes part in the commit.';
COMMENT ON COLUMN shardfdw.connections.kept IS 'True if the connection stays open for later transactions. False if keep_connections is off, or if options of the server or user mapping have changed.';
COMMENT ON COLUMN shardfdw.connections.opened_at IS 'Time when the session began to open the connection.';
COMMENT ON COLUMN shardfdw.connections.node_pid IS 'Process ID of the connection on the node.';
COMMENT ON COLUMN shardfdw.connections.node_version IS 'Version of the node, as in server_version_num.';
COMMENT ON COLUMN shardfdw.connections.bytes_received IS 'Bytes of query results that were received as COPY streams.';
COMMENT ON COLUMN shardfdw.connections.is_standby IS 'True if the connection is to a standby of the node (server option standbys).';
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
	'Lists the connections to nodes of all sessions of this server, in all databases. Empty unless shardfdw is in shared_preload_libraries.';
COMMENT ON COLUMN shardfdw.shared_connections.address IS 'Address of the node: options host and port of its server.';
COMMENT ON COLUMN shardfdw.shared_connections.pid IS 'Process ID of the session.';
COMMENT ON COLUMN shardfdw.shared_connections.connections IS 'Number of open connections of the session to the node.';
COMMENT ON COLUMN shardfdw.shared_connections.in_use IS 'True if the session is in a transaction that uses nodes.';
COMMENT ON COLUMN shardfdw.shared_connections.waits IS 'True if the session waits for a connection to the node.';
COMMENT ON COLUMN shardfdw.shared_connections.allowed IS 'Maximum number of connections to the node of all sessions together. Null if there is no limit.';
GRANT SELECT ON shardfdw.shared_connections TO PUBLIC;

CREATE FUNCTION shardfdw_internal.node_counters()
	RETURNS TABLE (server oid, since timestamptz, connections bigint, connection_failures bigint, connection_retries bigint, statements bigint, rows_read bigint, rows_written bigint, bytes_sent bigint, bytes_received bigint, errors bigint, commits bigint, two_phase_commits bigint, recovered bigint)
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_node_counters';
COMMENT ON FUNCTION shardfdw_internal.node_counters() IS
	'Lists the counters of this database for each node, see view stat_nodes. Returns a row for each server that sessions have connected to since the server was started.';

CREATE VIEW shardfdw.stat_nodes AS
SELECT n.node, c.connections, c.connection_failures, c.connection_retries, c.statements, c.rows_read, c.rows_written, c.bytes_sent, c.bytes_received, c.errors, c.commits, c.two_phase_commits, c.recovered, c.since AS stats_reset
FROM shardfdw.nodes n
JOIN pg_catalog.pg_foreign_server s ON s.srvname = n.node
LEFT JOIN shardfdw_internal.node_counters() c ON c.server = s.oid;
COMMENT ON VIEW shardfdw.stat_nodes IS
	'Counts what all sessions of this database have done on each node since the server was started or reset_stat_nodes() was called. Moves of shards copy rows over separate connections, which are not counted. Values are null for a node without connections so far, and for all nodes unless shardfdw is in shared_preload_libraries.';
COMMENT ON COLUMN shardfdw.stat_nodes.node IS 'Name of the node''s server.';
COMMENT ON COLUMN shardfdw.stat_nodes.connections IS 'Number of connections that were opened.';
COMMENT ON COLUMN shardfdw.stat_nodes.connection_failures IS 'Number of connections that could not be opened.';
COMMENT ON COLUMN shardfdw.stat_nodes.connection_retries IS 'Number of further attempts to open a connection, because the node had too many connections or the connection was lost before it was used.';
COMMENT ON COLUMN shardfdw.stat_nodes.statements IS 'Number of statements that were sent, including internal statements.';
COMMENT ON COLUMN shardfdw.stat_nodes.rows_read IS 'Number of rows that the node has sent.';
COMMENT ON COLUMN shardfdw.stat_nodes.rows_written IS 'Number of rows that statements have written on the node, from their command tags.';
COMMENT ON COLUMN shardfdw.stat_nodes.bytes_sent IS 'Bytes sent: statements, parameters and COPY lines.';
COMMENT ON COLUMN shardfdw.stat_nodes.bytes_received IS 'Bytes received: values and COPY lines.';
COMMENT ON COLUMN shardfdw.stat_nodes.errors IS 'Number of statements that failed or whose connection was lost. Lines that COPY was told to skip are not counted.';
COMMENT ON COLUMN shardfdw.stat_nodes.commits IS 'Number of transactions that wrote on the node and were committed without two-phase commit.';
COMMENT ON COLUMN shardfdw.stat_nodes.two_phase_commits IS 'Number of prepared transactions that their sessions committed.';
COMMENT ON COLUMN shardfdw.stat_nodes.recovered IS 'Number of prepared transactions that recovery committed or rolled back.';
COMMENT ON COLUMN shardfdw.stat_nodes.stats_reset IS 'Time when counting began.';
GRANT SELECT ON shardfdw.stat_nodes TO PUBLIC;

CREATE FUNCTION shardfdw.reset_stat_nodes()
	RETURNS void
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_reset_node_counters';
COMMENT ON FUNCTION shardfdw.reset_stat_nodes() IS
	'Resets the counters of view stat_nodes to zero for this database. Returns nothing. Restricted to superusers by default, but EXECUTE can be granted to others.';
REVOKE ALL ON FUNCTION shardfdw.reset_stat_nodes() FROM PUBLIC;

CREATE FUNCTION shardfdw.disconnect(node name DEFAULT NULL)
	RETURNS boolean
	LANGUAGE C VOLATILE PARALLEL RESTRICTED
	AS 'MODULE_PATHNAME', 'shardfdw_disconnect';
COMMENT ON FUNCTION shardfdw.disconnect(name) IS
	'Closes the connections of this session to a node. node: null closes the connections to all nodes. Connections that the transaction uses stay open, with a WARNING. Returns true if it closed a connection. Raises undefined_object if there is no such server.';
