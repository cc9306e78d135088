#!/bin/bash
# add_nodes.sh - a new coordinator's first steps: the extension, and the nodes that SHARDFDW_NODES names
#
#   SHARDFDW_NODES="node1 node2"                     hosts of these names, port 5432
#   SHARDFDW_NODES="a=10.0.0.11:5433 b=10.0.0.12"    names, hosts and ports
#
# The entrypoint of PostgreSQL's image runs it when the database is made. Nodes have the same database, user and
# password as the coordinator (POSTGRES_DB, POSTGRES_USER, POSTGRES_PASSWORD), and must answer already.

set -euo pipefail

run() { psql -X -q -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" "$@"; }

# the names below are those of the extension and of PostgreSQL, whatever ALTER DATABASE has set
run -c 'SET search_path = pg_catalog' -c 'CREATE EXTENSION shardfdw'
for node in ${SHARDFDW_NODES-}; do
	name=${node%%=*} host=${node#*=} port=5432
	if [[ $host == *:* ]]; then
		port=${host##*:} host=${host%:*}
	fi
	# the password stays out of the log, and out of the list of processes
	run -v name="$name" -v host="$host" -v port="$port" <<-'SQL'
		\getenv password POSTGRES_PASSWORD
		SET search_path = pg_catalog;
		SET log_statement = 'none';
		SET log_min_error_statement = 'panic';
		SELECT shardfdw.add_node(:'name', :'host', :'port', password => :'password') \g /dev/null
	SQL
done
