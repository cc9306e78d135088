/*
 * row_refer.c
 *	  Finds rows that refer to a row that is about to leave its shard.
 *
 * The node sees a deletion of that row.  So a foreign key with ON DELETE CASCADE or SET NULL would change the rows that
 * refer to it.  But the user updates the row's key, for which foreign keys have other actions.  So this file searches
 * the referring rows first, while the row is locked against new ones.  Foreign keys without such actions are left to
 * the node, which refuses the deletion.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "compat.h"
#include "executor/modify/row_refer.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "nodes/parsenodes.h"
#include "remote/run/command.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* A foreign key that refers to the shard. */
typedef struct Referrer
{
	const char *constraint;
	const char *schema;
	const char *shard;			/* name of the referring table on the node */
	char		on_update;
	const char *sql;			/* finds rows that refer to the row with ctid $1 */
} Referrer;

struct ShardRowReferrers
{
	const char *lock_sql;
	List	   *referrers;		/* of Referrer */
};

static char *
get_field(PGresult *result, int row, int field)
{
	char	   *value = pstrdup(PQgetvalue(result, row, field));

	(void) pg_verifymbstr(value, strlen(value), false);
	return value;
}

ShardRowReferrers *
shard_row_refer_find(const ShardRowStatement *statement, const char *relation)
{
	ShardRowReferrers *result = palloc0(sizeof(ShardRowReferrers));
	ShardCommand command = {0};

	command.serverid = statement->serverid;
	command.userid = statement->userid;
	command.label = statement->label;
	command.nfields = 5;
	command.sql =
		psprintf("SELECT k.conname, n.nspname, c.relname, k.confupdtype, "
				 "pg_catalog.format('SELECT FROM ONLY %%I.%%I c, ONLY %%s p WHERE p.ctid = $1 AND %%s LIMIT 1', n.nspname, c.relname, %s, "
				 "(SELECT pg_catalog.string_agg(pg_catalog.format('p.%%I OPERATOR(%%I.%%s) c.%%I', f.attname, m.nspname, o.oprname, a.attname), ' AND ') "
				 "FROM ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey), pg_catalog.unnest(k.conpfeqop)) u(attnum, fattnum, operator) "
				 "JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum "
				 "JOIN pg_catalog.pg_attribute f ON f.attrelid = k.confrelid AND f.attnum = u.fattnum "
				 "JOIN pg_catalog.pg_operator o ON o.oid = u.operator JOIN pg_catalog.pg_namespace m ON m.oid = o.oprnamespace)) "
				 "FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
				 "WHERE k.contype = 'f' AND k.confrelid = %s::pg_catalog.regclass AND k.confdeltype IN ('c', 'n', 'd') ORDER BY k.conname",
				 quote_literal_cstr(relation), quote_literal_cstr(relation));
	shard_command_run(&command, 1, SHARD_COMMAND_WRITE, false);
	for (int i = 0; i < PQntuples(command.result); i++)
	{
		Referrer   *referrer = palloc(sizeof(Referrer));

		referrer->constraint = get_field(command.result, i, 0);
		referrer->schema = get_field(command.result, i, 1);
		referrer->shard = get_field(command.result, i, 2);
		referrer->on_update = *PQgetvalue(command.result, i, 3);
		referrer->sql = get_field(command.result, i, 4);
		result->referrers = lappend(result->referrers, referrer);
	}
	shard_command_free(&command, 1);
	result->lock_sql = psprintf("SELECT FROM ONLY %s WHERE ctid = $1 FOR UPDATE", relation);
	return result;
}

/*
 * Returns the name of the user's table to which a node's table belongs as a shard.  If it is not a
 * shard, returns its name on the node.
 */
static const char *
table_of(const Referrer *referrer)
{
	Oid			namespace = get_namespace_oid(referrer->schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(referrer->shard, namespace) : InvalidOid;

	return OidIsValid(relid) && get_rel_relispartition(relid) ? get_rel_name(get_partition_parent(relid, true)) : referrer->shard;
}

static void
raise_referred(const Referrer *referrer, const char *table)
{
	const char *other = table_of(referrer);

	if (referrer->on_update == FKCONSTR_ACTION_NOACTION || referrer->on_update == FKCONSTR_ACTION_RESTRICT)
		ereport(ERROR,
				(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
				 errmsg("update or delete on table \"%s\" violates foreign key constraint \"%s\" on table \"%s\"",
						table, referrer->constraint, other),
				 errdetail("Key is still referenced from table \"%s\".", other),
				 err_generic_string(PG_DIAG_SCHEMA_NAME, referrer->schema),
				 err_generic_string(PG_DIAG_TABLE_NAME, other),
				 err_generic_string(PG_DIAG_CONSTRAINT_NAME, referrer->constraint)));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot move a row of table \"%s\" to another shard because rows of table \"%s\" refer to it", table, other),
			 errdetail("Foreign key \"%s\" would have them follow.", referrer->constraint),
			 errhint("Insert the row with its new key, update the rows that refer to it, and delete the old one.")));
}

bool
shard_row_refer_check(const ShardRowReferrers *referrers, const ShardRowStatement *statement, const char *table)
{
	ShardRowStatement look = *statement;

	if (referrers->referrers == NIL)
		return true;
	look.decoder = NULL;
	look.nparams = 1;
	look.keeps_rows = true;
	look.sql = referrers->lock_sql;
	if (shard_row_statement_run(&look, NULL, NULL) == 0)
		return false;
	foreach_ptr(const Referrer, referrer, referrers->referrers)
	{
		look.sql = referrer->sql;
		if (shard_row_statement_run(&look, NULL, NULL) > 0)
			raise_referred(referrer, table);
	}
	return true;
}
