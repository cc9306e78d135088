/*
 * replica_few.c
 *	  Makes one command for the replicas of a shard in which a transaction has changed few rows.
 *
 * The primary's answer contains the keys and the rows.  One message for a replica contains the DELETE of the old
 * versions and the rows as literals.  The input functions of the columns' types read literals in VALUES of an INSERT,
 * as in COPY.
 */
#include "postgres.h"

#include "replica/replica.h"
#include "replica/replica_few.h"
#include "utils/builtins.h"

/* The setting in which the command returns the number of rows that it has found. */
#define FOUND "shardfdw_replica.found"

/* Fields of the answer that precede the key. */
#define FEW_NET 0
#define FEW_HERE 1
#define FEW_SHORT 2
#define FEW_KEY 3

/* Appends "(literal, ...)" for fields of a row. types: the types for casts, or NULL. */
static void
append_values(StringInfo buf, const PGresult *res, int row, int first, int nfields, const char *const *types)
{
	appendStringInfoString(buf, buf->len > 0 ? ", (" : "(");
	for (int i = 0; i < nfields; i++)
	{
		if (i > 0)
			appendStringInfoString(buf, ", ");
		appendStringInfoString(buf, PQgetisnull(res, row, first + i) ? "NULL" : quote_literal_cstr(PQgetvalue(res, row, first + i)));
		if (types != NULL)
			appendStringInfo(buf, "::%s", types[i]);
	}
	appendStringInfoChar(buf, ')');
}

void
shard_replica_few_read(const PGresult *res, const ShardReplicaSql *sql, ShardReplicaFew *few)
{
	few->is_told = few->is_short = true;
	few->nbefore = 0;
	initStringInfo(&few->keys);
	initStringInfo(&few->rows);
	for (int row = 0; row < PQntuples(res); row++)
	{
		bool		here = !PQgetisnull(res, row, FEW_HERE);
		int64		nbefore = (here ? 1 : 0) - strtoi64(PQgetvalue(res, row, FEW_NET), NULL, 10);

		if (nbefore != 0 && nbefore != 1)
			few->is_told = false;
		if (nbefore == 1)
			append_values(&few->keys, res, row, FEW_KEY, sql->nkeys, sql->key_types);
		few->nbefore += nbefore;
		if (here && PQgetvalue(res, row, FEW_SHORT)[0] != 't')
			few->is_short = false;
		else if (here)
			append_values(&few->rows, res, row, FEW_KEY + sql->nkeys, sql->ncolumns, NULL);
	}
}

char *
shard_replica_few_command(const ShardReplicaSql *sql, const ShardReplicaFew *few, int64 nwanted)
{
	StringInfoData body;

	initStringInfo(&body);
	appendStringInfoString(&body, "DECLARE n bigint := 0; BEGIN " SHARD_REPLICA_APPLY_ON "; ");
	if (few->keys.len > 0)
		appendStringInfo(&body, "%s%s%s; GET DIAGNOSTICS n = ROW_COUNT; ", sql->delete_head, few->keys.data, sql->delete_tail);
	if (few->rows.len > 0)
		appendStringInfo(&body, "IF n = " INT64_FORMAT " THEN %s%s; END IF; ", nwanted, sql->insert_head, few->rows.data);
	appendStringInfoString(&body, SHARD_REPLICA_APPLY_OFF "; PERFORM pg_catalog.set_config('" FOUND "', n::pg_catalog.text, true); END");
	return psprintf("DO %s; SELECT pg_catalog.current_setting('" FOUND "')", quote_literal_cstr(body.data));
}
