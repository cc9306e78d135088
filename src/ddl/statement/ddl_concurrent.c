/*
 * ddl_concurrent.c
 *	  CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY of sharded tables.
 *
 * The indexes of the shards are made or dropped concurrently, outside any transaction, in parallel.  The index of the
 * parent, which has no rows, is made in the usual way:
 *
 *	  definition (parent's index, made and undone) --> shards --> parent's index
 *						  on failure: the new indexes are dropped
 *
 * If a node is down or the session has ended, indexes remain.  The next attempt finds them: it uses valid ones and
 * drops the others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/option.h"
#include "catch.h"
#include "compat.h"
#include "ddl/ddl_find.h"
#include "ddl/ddl_need.h"
#include "ddl/ddl_send.h"
#include "ddl/marker_level.h"
#include "ddl/statement/ddl_statement.h"
#include "identity.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#define CLEAN_UP_LOCK_TIMEOUT "'5s'"

/* The index that the statement makes. */
typedef struct NewIndex
{
	ShardDdlCall *call;
	IndexStmt  *stmt;			/* for the coordinator: not concurrent */
	const ShardDdlTable *table;
	ShardDdlIndex *index;		/* NULL: the name exists, and the statement has IF NOT EXISTS */
	bool	   *skip;			/* per shard: it needs no index */
	bool	   *leftover;		/* per shard: an earlier attempt has left an invalid index */
	bool	   *taken;			/* per shard: another object has the name */
} NewIndex;

/* Makes the index on the coordinator's table and partitions, and describes it. */
static void
try_index(void *arg)
{
	NewIndex   *new = arg;
	const ShardDdlTable *table = new->table;
	List	   *before = shard_marker_level_indexes(table->relid);
	List	   *made;

	shard_ddl_run_core_with(new->call, copyObject((Node *) new->stmt), true);
	CommandCounterIncrement();
	made = list_difference_oid(shard_marker_level_of(table->relid), before);
	if (made == NIL)
		return;
	new->index = shard_ddl_index_describe(linitial_oid(made));
	if (new->stmt->unique)
		shard_marker_level_all(table->relid);
	for (int i = 0; i < table->nshards; i++)
		new->skip[i] = shard_marker_level_had(table->shards[i].relid, linitial_oid(made), before);
	shard_ddl_make_objects(table, true);
}

/* Quoted, qualified name of a shard's index. */
static const char *
name_on(const ShardDdlTable *table, int shardno, const ShardDdlIndex *index)
{
	const ShardDdlShard *shard = &table->shards[shardno];

	return quote_qualified_identifier(shard->schema, shard_ddl_table_object(table, shard, index->name));
}

/* Query: does an object have the index's name on a shard, is it that index, and is it valid? */
static char *
ask_names(const ShardDdlTable *table, List *shardnos, void *arg)
{
	NewIndex   *new = arg;
	StringInfoData text;

	initStringInfo(&text);
	foreach_int(shardno, shardnos)
	{
		const ShardDdlShard *shard = &table->shards[shardno];

		appendStringInfo(&text, "%s(%d, to_regclass(%s), to_regclass(%s))", text.len > 0 ? ", " : "", shardno,
						 quote_literal_cstr(shard->relation), quote_literal_cstr(name_on(table, shardno, new->index)));
	}
	return psprintf("SELECT s.no, coalesce(i.indrelid = s.shard AND pg_get_indexdef(i.indexrelid) = "
					"format('CREATE %sINDEX %%I ON %%I.%%I USING %%s', c.relname, n.nspname, t.relname, %s), false), coalesce(i.indisvalid, false) "
					"FROM (VALUES %s) s(no, shard, named) JOIN pg_class c ON c.oid = s.named "
					"LEFT JOIN pg_index i ON i.indexrelid = s.named LEFT JOIN pg_class t ON t.oid = i.indrelid LEFT JOIN pg_namespace n ON n.oid = t.relnamespace",
					new->index->is_unique ? "UNIQUE " : "", quote_literal_cstr(new->index->definition), text.data);
}

static void
take_name(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	NewIndex   *new = arg;

	if (nfields != 2 || fields[0] == NULL || fields[1] == NULL || strcmp(fields[0], "t") != 0)
		new->taken[shardno] = true;
	else if (strcmp(fields[1], "t") == 0)
		new->skip[shardno] = true;
	else
		new->leftover[shardno] = true;
}

/* Names of the shards that are not in done. */
static char *
failed_shards(const ShardDdlTable *table, List *done)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < table->nshards; i++)
		if (!list_member_ptr(done, &table->shards[i]))
			appendStringInfo(&text, "%s%s", text.len > 0 ? ", " : "", table->shards[i].relation);
	return text.data;
}

/* An index of a shard that is not needed. */
typedef struct Remains
{
	int			shardno;
	const char *name;			/* quoted, qualified */
} Remains;

static List *
add_remains(List *remains, int shardno, const char *name)
{
	Remains    *new = palloc(sizeof(Remains));

	new->shardno = shardno;
	new->name = name;
	return lappend(remains, new);
}

/* The index on the shards for which drop[] is true. */
static List *
remains_of(const ShardDdlTable *table, const ShardDdlIndex *index, const bool *drop)
{
	List	   *remains = NIL;

	for (int i = 0; i < table->nshards; i++)
		if (drop[i])
			remains = add_remains(remains, i, name_on(table, i, index));
	return remains;
}

/*
 * Makes the commands that drop remains.  The commands have a short lock timeout, since the user may have cancelled
 * the statement because of such a wait.
 *
 * *of: the index that each command drops; NULL for commands that set the timeout.
 */
static ShardCommand *
drop_commands(const ShardDdlTable *table, List *remains, int *ncommands, Remains ***of)
{
	ShardCommand *commands = palloc0(sizeof(ShardCommand) * list_length(remains) * 2);
	List	   *limited = NIL;

	*ncommands = 0;
	*of = palloc0(sizeof(Remains *) * list_length(remains) * 2);
	foreach_ptr(Remains, remain, remains)
	{
		Oid			serverid = table->shards[remain->shardno].serverid;

		for (int n = list_member_oid(limited, serverid) ? 1 : 0; n < 2; n++)
		{
			ShardCommand *command = &commands[*ncommands];

			command->serverid = serverid;
			command->userid = GetUserId();
			command->is_whole = true;
			command->changes_session = true;	/* the limit ends with the connection */
			command->sql = n == 0 ? "SET lock_timeout = " CLEAN_UP_LOCK_TIMEOUT :
				psprintf("DROP INDEX CONCURRENTLY IF EXISTS %s", remain->name);
			(*of)[(*ncommands)++] = n == 0 ? NULL : remain;
		}
		limited = list_append_unique_oid(limited, serverid);
	}
	return commands;
}

/* Drops the indexes that an attempt has left, as far as possible.  Reports the remaining indexes, with a hint. */
static void
drop_remains(const ShardDdlTable *table, List *remains, const char *statement)
{
	int			ncommands;
	Remains   **of;
	ShardCommand *commands;
	StringInfoData left;
	ErrorData  *error = NULL;

	if (remains == NIL)
		return;
	commands = drop_commands(table, remains, &ncommands, &of);
	initStringInfo(&left);
	shard_command_run(commands, ncommands, SHARD_COMMAND_AUTOCOMMIT, true);
	shard_command_free(commands, ncommands);
	for (int i = 0; i < ncommands; i++)
	{
		if (commands[i].error == NULL || of[i] == NULL)
			continue;
		if (error == NULL)
			error = commands[i].error;
		appendStringInfo(&left, "%s%s on node \"%s\"", left.len > 0 ? ", " : "",
						 of[i]->name, table->shards[of[i]->shardno].node);
	}
	if (error != NULL)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not drop what %s has left of indexes of table \"%s\": %s", statement, table->name, error->message),
				 errdetail("There may still be: %s.", left.data),
				 errhint("The same command, run again, copes with it. To be rid of it, run DROP INDEX CONCURRENTLY IF EXISTS on the nodes.")));
}

/* Indexes that REINDEX CONCURRENTLY leaves */

/* Finds them by the names that core gives to the new index (_ccnew) and the replaced one (_ccold). */
static char *
ask_replicas(const ShardDdlTable *table, List *shardnos, void *arg)
{
	return psprintf("SELECT s.no, format('%%I.%%I', n.nspname, c.relname) FROM (VALUES %s) s(no, shard, name) JOIN pg_index i ON i.indrelid = s.shard "
					"JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
					"WHERE NOT i.indisvalid AND c.relname ~ '_cc(new|old)[0-9]*$'", shard_ddl_list_shards(table, shardnos, ""));
}

static void
take_replica(const ShardDdlTable *table, int shardno, int nfields, const char *const *fields, void *arg)
{
	List	  **remains = arg;

	if (nfields == 1 && fields[0] != NULL)
		*remains = add_remains(*remains, shardno, pstrdup(fields[0]));
}

void
shard_ddl_drop_replicas(const ShardDdlTable *table)
{
	List	   *remains = NIL;

	shard_ddl_ask_free(table, ask_replicas, take_replica, &remains);
	drop_remains(table, remains, "REINDEX CONCURRENTLY");
}

/*
 * The command has to be alone in its message.  Without session state it would run under the search_path
 * of the node's role, where operators of its expressions could be those of another role.
 */
static void
check_expressions(const NewIndex *new)
{
	bool		has_expressions = new->stmt->whereClause != NULL;

	foreach_node(IndexElem, element, new->stmt->indexParams)
		has_expressions |= element->expr != NULL;
	for (int i = 0; i < new->table->nshards && has_expressions; i++)
	{
		if (!shard_option_server_bool(new->table->shards[i].serverid, "session_state", true))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot create an index with expressions concurrently on node \"%s\", which has session_state 'off'",
							new->table->shards[i].node),
					 errhint("Use CREATE INDEX.")));
	}
}

/* Makes the index on the shards, then on the coordinator. */
static void
make_everywhere(void *arg)
{
	const NewIndex *new = arg;
	const ShardDdlTable *table = new->table;
	ShardDdlBatch *batch = shard_ddl_batch_create(table);
	ErrorData  *error;
	List	   *done;

	for (int i = 0; i < table->nshards; i++)
		if (!new->skip[i])
			shard_ddl_batch_add(batch, i, "CREATE %sINDEX CONCURRENTLY %s ON %s USING %s", new->index->is_unique ? "UNIQUE " : "",
								quote_identifier(shard_ddl_table_object(table, &table->shards[i], new->index->name)),
								table->shards[i].relation, new->index->definition);
	done = shard_ddl_batch_run_free(batch, &error);
	for (int i = 0; i < table->nshards; i++)
		if (new->skip[i])
			done = lappend(done, &table->shards[i]);
	if (error != NULL)
		ereport(ERROR,
				(errcode(error->sqlerrcode),
				 errmsg("could not create index \"%s\" on all shards of table \"%s\": %s",
						new->index->name, table->name, error->message),
				 errdetail("It failed on %s.%s%s", failed_shards(table, done), error->detail ? " " : "",
						   error->detail ? error->detail : "")));
	shard_ddl_run_core_with(new->call, (Node *) new->stmt, false);
	CommandCounterIncrement();
	if (new->stmt->unique)
		shard_marker_level_all(table->relid);
}

bool
shard_ddl_create_index_concurrently(ShardDdlCall *call, ShardDdlTable *table)
{
	IndexStmt  *stmt = copyObject(castNode(IndexStmt, call->pstmt->utilityStmt));
	NewIndex	new = {call, stmt, table};
	ErrorData  *error;
	bool	   *drop;

	PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "CREATE INDEX CONCURRENTLY");
	shard_identity_require();
	if (table->is_reference)
		shard_ddl_table_refuse(table, "CREATE INDEX CONCURRENTLY", "Use CREATE INDEX.");
	stmt->concurrent = false;
	if (stmt->unique)
		stmt->relation->inh = false;
	new.skip = palloc0(sizeof(bool) * table->nshards);
	new.leftover = palloc0(sizeof(bool) * table->nshards);
	new.taken = palloc0(sizeof(bool) * table->nshards);
	error = shard_catch_in_subtransaction(try_index, &new, false);
	if (error != NULL)
		ReThrowError(error);
	if (new.index == NULL)
		return true;			/* the NOTICE was sent */

	check_expressions(&new);
	/* finds indexes of an earlier attempt that ended without cleanup */
	shard_ddl_ask_free(table, ask_names, take_name, &new);
	drop_remains(table, remains_of(table, new.index, new.leftover), "CREATE INDEX CONCURRENTLY");

	/* indexes of the shards use the name that core chose */
	stmt->idxname = new.index->name;
	stmt->if_not_exists = false;
	error = shard_catch_in_subtransaction(make_everywhere, &new, true);
	if (error == NULL)
		return true;
	/* after any failure, including a cancel, drops the indexes that this statement may have made */
	drop = palloc(sizeof(bool) * table->nshards);
	for (int i = 0; i < table->nshards; i++)
		drop[i] = !new.skip[i] && !new.taken[i];
	drop_remains(table, remains_of(table, new.index, drop), "CREATE INDEX CONCURRENTLY");
	ReThrowError(error);
}

bool
shard_ddl_drop_index_concurrently(ShardDdlCall *call)
{
	DropStmt   *stmt = castNode(DropStmt, call->pstmt->utilityStmt);
	RangeVar   *name;
	Oid			index;
	Oid			relid;
	ShardDdlTable *table;
	ShardDdlBatch *batch;
	char	  **names;
	ErrorData  *error;
	List	   *done;

	if (list_length(stmt->objects) != 1 || stmt->behavior == DROP_CASCADE)
		return false;			/* core refuses it */
	name = makeRangeVarFromNameList((List *) linitial(stmt->objects));
	relid = shard_ddl_table_lock(shard_ddl_table_of_index, name, ShareUpdateExclusiveLock);
	table = OidIsValid(relid) ? shard_ddl_table(relid) : NULL;
	if (table == NULL)
		return false;
	index = RangeVarGetRelid(name, NoLock, false);
	shard_ddl_refuse_late(call);
	PreventInTransactionBlock(call->context == PROCESS_UTILITY_TOPLEVEL, "DROP INDEX CONCURRENTLY");
	if (table->is_reference)
		shard_ddl_table_refuse(table, "DROP INDEX CONCURRENTLY", "Use DROP INDEX.");
	if (OidIsValid(get_index_constraint(index)))
		return false;			/* core refuses it */

	names = shard_ddl_find_index_described(table, shard_ddl_index_describe(index), true);
	batch = shard_ddl_batch_create(table);
	batch->only_names_shards = true;
	for (int i = 0; i < table->nshards; i++)
		if (names[i] != NULL)
			shard_ddl_batch_add(batch, i, "DROP INDEX CONCURRENTLY IF EXISTS %s",
								quote_qualified_identifier(table->shards[i].schema, names[i]));
	done = shard_ddl_batch_run_free(batch, &error);
	if (error != NULL)
		ereport(ERROR,
				(errcode(error->sqlerrcode),
				 errmsg("could not drop index \"%s\" on all shards of table \"%s\": %s",
						get_rel_name(index), table->name, error->message),
				 errdetail("It is still on %s, or nothing was to be done there.", failed_shards(table, done)),
				 errhint("Drop it again; what is gone already is skipped.")));

	stmt = copyObject(stmt);
	stmt->concurrent = false;
	shard_ddl_run_core_with(call, (Node *) stmt, false);
	return true;
}
