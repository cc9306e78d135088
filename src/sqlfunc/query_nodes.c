/*
 * query_nodes.c
 *	  SQL functions query_nodes() and run_commands(): run commands on nodes and return their rows.
 *
 * All SQL functions of the extension use run_commands() to query nodes:
 *
 *	  add_node, shard_table, views ... (PL/pgSQL)
 *	    -> run_commands -> remote/command: all nodes in parallel, the commands of one in order
 *
 * query_nodes() is the same for commands of users (run_on_nodes() and run_on_shards() call it, too).  They may change
 * the session on the node, so its connection is closed afterwards.
 *
 * All users may call both, because both require USAGE on each server and use the caller's user mapping.
 *
 * read_as_owner() and read_here() read tables.  The planner folds constants in expressions of a table's indexes and
 * statistics.  So reading a table may run functions of its owner.  These must not run with a superuser's rights.  So
 * a superuser reads the tables of other users with the rights of their owners, and on nodes with the owners' user
 * mappings.
 */
#include "postgres.h"

#include "catalog/node_list.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "catalog_scan.h"
#include "compat.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "libpq-fe.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "parser/parser.h"
#include "remote/run/command.h"
#include "remote/wire/answer.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

/* Columns of the result. */
typedef enum ResultColumn
{
	RESULT_COMMAND,				/* int: 1-based number of the command */
	RESULT_NODE,				/* name */
	RESULT_OK,					/* bool */
	RESULT_FIELDS,				/* text[]: one row of the command's result; NULL if there is none */
	RESULT_TAG,					/* text: its command tag */
	RESULT_SQLSTATE,			/* text: of its error */
	RESULT_MESSAGE,				/* text: of its error */
	RESULT_DETAIL,				/* text: of its error */
	RESULT_NCOLUMNS
} ResultColumn;

PG_FUNCTION_INFO_V1(shardfdw_query_nodes);
PG_FUNCTION_INFO_V1(shardfdw_run_commands);
PG_FUNCTION_INFO_V1(shardfdw_read_as_owner);
PG_FUNCTION_INFO_V1(shardfdw_read_here);

static ShardCommandMode
parse_mode(const char *mode)
{
	if (strcmp(mode, "write") == 0)
		return SHARD_COMMAND_EXCLUSIVE;
	if (strcmp(mode, "read") == 0)
		return SHARD_COMMAND_READ;
	if (strcmp(mode, "autocommit") == 0)
		return SHARD_COMMAND_AUTOCOMMIT;
	if (strcmp(mode, "settle") == 0)
		return SHARD_COMMAND_SETTLE;
	if (strcmp(mode, "watch") == 0)
		return SHARD_COMMAND_WATCH;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid mode \"%s\"", mode),
			 errhint("Valid modes are \"write\", \"read\", \"autocommit\", \"settle\" and \"watch\".")));
}

/* Elements of an array of type elemtype.  Returns their number, or -1 for NULL. */
static int
get_elements(FunctionCallInfo fcinfo, int argno, Oid elemtype, int elemlen, char align,
			 Datum **elems, bool **nulls)
{
	int			nelems;

	if (PG_ARGISNULL(argno))
		return -1;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(argno), elemtype, elemlen, elemtype == REGCLASSOID, align,
					  elems, nulls, &nelems);
	return nelems;
}

/* Makes a text of data from a node.  Raises an error if it is not valid in the database encoding. */
static Datum
text_of_node(const char *value)
{
	int			len = strlen(value);

	(void) pg_verifymbstr(value, len, false);
	return PointerGetDatum(cstring_to_text_with_len(value, len));
}

/* Appends the result of one command to the function's result. */
static void
store_result(ReturnSetInfo *rsinfo, int commandno, const char *node, ShardCommand *command)
{
	PGresult   *res = command->result;
	int			nrows = res ? PQntuples(res) : 0;
	int			nfields = res ? PQnfields(res) : 0;
	Datum		values[RESULT_NCOLUMNS] = {0};
	bool		nulls[RESULT_NCOLUMNS];
	NameData	node_name;

	namestrcpy(&node_name, node);
	memset(nulls, true, sizeof(nulls));
	values[RESULT_COMMAND] = Int32GetDatum(commandno);
	values[RESULT_NODE] = NameGetDatum(&node_name);
	values[RESULT_OK] = BoolGetDatum(command->error == NULL);
	nulls[RESULT_COMMAND] = nulls[RESULT_NODE] = nulls[RESULT_OK] = false;

	if (command->error != NULL)
	{
		values[RESULT_SQLSTATE] = CStringGetTextDatum(unpack_sql_state(command->error->sqlerrcode));
		values[RESULT_MESSAGE] = CStringGetTextDatum(command->error->message);
		nulls[RESULT_SQLSTATE] = nulls[RESULT_MESSAGE] = false;
		if (command->error->detail != NULL)
		{
			values[RESULT_DETAIL] = CStringGetTextDatum(command->error->detail);
			nulls[RESULT_DETAIL] = false;
		}
	}
	else if (res != NULL)
	{
		values[RESULT_TAG] = CStringGetTextDatum(PQcmdStatus(res));
		nulls[RESULT_TAG] = false;
	}

	if (nrows == 0 || nfields == 0)
	{
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		return;
	}

	nulls[RESULT_FIELDS] = false;
	for (int row = 0; row < nrows; row++)
	{
		Datum	   *fields = palloc(sizeof(Datum) * nfields);
		bool	   *field_nulls = palloc(sizeof(bool) * nfields);
		int			lbound = 1;

		for (int i = 0; i < nfields; i++)
		{
			field_nulls[i] = PQgetisnull(res, row, i);
			fields[i] = field_nulls[i] ? (Datum) 0 : text_of_node(PQgetvalue(res, row, i));
		}
		values[RESULT_FIELDS] = PointerGetDatum(construct_md_array(fields, field_nulls, 1,
																   &nfields, &lbound, TEXTOID,
																   -1, false, TYPALIGN_INT));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

/* Does a text contain the word PREPARE, in any case? */
static bool
mentions_prepare(const char *sql)
{
	for (const char *c = sql; *c != '\0'; c++)
	{
		if (pg_strncasecmp(c, "prepare", strlen("prepare")) == 0)
			return true;
	}
	return false;
}

/*
 * Raises an error if commands that run in this transaction would prepare it on the node.  No session would end the
 * prepared transaction, which would keep its locks there.
 */
static void
check_not_prepared(const char *sql)
{
	/* a node may be newer, so the coordinator's parser reads only what may contain such a command */
	if (!mentions_prepare(sql))
		return;
	foreach_node(RawStmt, raw, raw_parser(sql, RAW_PARSE_DEFAULT))
	{
		if (IsA(raw->stmt, TransactionStmt) && ((TransactionStmt *) raw->stmt)->kind == TRANS_STMT_PREPARE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
					 errmsg("PREPARE TRANSACTION is not possible in a command for nodes that runs in this transaction"),
					 errdetail("The prepared transaction would keep its locks on the node.")));
	}
}

/* The user with whose rights the current user reads a table. */
static Oid
reading_user(Oid relid)
{
	Oid			owner = DatumGetObjectId(shard_catalog_value(RELOID, relid, Anum_pg_class_relowner));

	if (!OidIsValid(owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!superuser() || superuser_arg(owner))
		return GetUserId();
	/* the owner's connections do not see what this transaction has written */
	if (shard_command_has_written())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot read table \"%s\" of role \"%s\" in a transaction that has written to nodes", get_rel_name(relid), GetUserNameFromId(owner, false)),
				 errhint("Compare tables of other roles in a separate transaction.")));
	return owner;
}

/*
 * (nodes name[], commands text[], mode text, stop_on_error bool, labels text[]) -> setof record (see ResultColumn)
 *
 * commands[i] runs on nodes[i].  Returns one row per result row, or one row for a command that failed or returned no
 * row. is_read: commands[i] reads the table relations[i].
 */
static Datum
run_commands(FunctionCallInfo fcinfo, bool changes_session, bool is_read)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *nodes;
	Datum	   *texts;
	Datum	   *labels = NULL;
	Datum	   *relations = NULL;
	bool	   *node_nulls;
	bool	   *text_nulls;
	bool	   *label_nulls = NULL;
	bool	   *relation_nulls;
	int			ncommands;
	const char *mode_name;
	ShardCommandMode mode;
	bool		has_secret;
	bool		stop_on_error;
	ShardCommand *commands;

	if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("mode and stop_on_error must not be null")));
	mode_name = text_to_cstring(PG_GETARG_TEXT_PP(2));
	has_secret = !changes_session && strcmp(mode_name, "secret") == 0;
	mode = has_secret ? SHARD_COMMAND_AUTOCOMMIT : parse_mode(mode_name);
	stop_on_error = PG_GETARG_BOOL(3);

	InitMaterializedSRF(fcinfo, 0);

	ncommands = get_elements(fcinfo, 0, NAMEOID, NAMEDATALEN, TYPALIGN_CHAR, &nodes, &node_nulls);
	if (get_elements(fcinfo, 1, TEXTOID, -1, TYPALIGN_INT, &texts, &text_nulls) != ncommands ||
		(!PG_ARGISNULL(4) &&
		 get_elements(fcinfo, 4, TEXTOID, -1, TYPALIGN_INT, &labels, &label_nulls) != ncommands) ||
		(is_read && get_elements(fcinfo, 5, REGCLASSOID, sizeof(Oid), TYPALIGN_INT, &relations, &relation_nulls) != ncommands))
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("nodes, commands, labels and relations must have the same number of elements")));
	if (ncommands <= 0)
		return (Datum) 0;

	commands = palloc0(sizeof(ShardCommand) * ncommands);
	for (int i = 0; i < ncommands; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (node_nulls[i] || text_nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("nodes and commands must not be null")));
		commands[i].serverid = shard_node_by_name(DatumGetName(nodes[i]), true);
		commands[i].userid = is_read ? reading_user(DatumGetObjectId(relations[i])) : GetUserId();
		commands[i].sql = TextDatumGetCString(texts[i]);
		commands[i].is_whole = true;
		commands[i].has_values = has_secret;
		commands[i].changes_session = changes_session;
		commands[i].max_bytes = SHARD_ANSWER_MANY_BYTES;
		if (changes_session && (mode == SHARD_COMMAND_EXCLUSIVE || mode == SHARD_COMMAND_READ))
			check_not_prepared(commands[i].sql);
		if (labels != NULL && !label_nulls[i])
			commands[i].label = TextDatumGetCString(labels[i]);
	}

	/* with SETTLE, a node that does not answer in time is an error of its command */
	shard_command_run(commands, ncommands, mode, !stop_on_error || mode == SHARD_COMMAND_SETTLE);
	for (int i = 0; stop_on_error && i < ncommands; i++)
		if (commands[i].error != NULL)
			ReThrowError(commands[i].error);
	for (int i = 0; i < ncommands; i++)
		store_result(rsinfo, i + 1, NameStr(*DatumGetName(nodes[i])), &commands[i]);
	shard_command_free(commands, ncommands);

	return (Datum) 0;
}

/* For commands of users. */
Datum
shardfdw_query_nodes(PG_FUNCTION_ARGS)
{
	return run_commands(fcinfo, true, false);
}

/* For commands of the extension's functions. */
Datum
shardfdw_run_commands(PG_FUNCTION_ARGS)
{
	return run_commands(fcinfo, false, false);
}

/* (nodes name[], commands text[], mode text, stop_on_error bool, labels text[], relations regclass[]) */
Datum
shardfdw_read_as_owner(PG_FUNCTION_ARGS)
{
	return run_commands(fcinfo, false, true);
}

/* read_here(relation regclass, query text) -> text[]: runs the query on the table, and returns its row. */
Datum
shardfdw_read_here(PG_FUNCTION_ARGS)
{
	Oid			userid = reading_user(PG_GETARG_OID(0));
	const char *query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	MemoryContext cxt = CurrentMemoryContext;
	ArrayBuildState *row = initArrayResult(TEXTOID, cxt, false);
	ShardOwnSql own;

	shard_own_sql_begin(&own, SHARD_OWN_SQL_CALLER, GetTransactionSnapshot());
	if (userid != own.userid)
		SetUserIdAndSecContext(userid, own.sec_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION);
	if (shard_own_sql_select(query, 0, NULL) != 1 || SPI_tuptable == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("the query must return one row")));
	for (int i = 1; i <= SPI_tuptable->tupdesc->natts; i++)
	{
		char	   *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i);

		(void) accumArrayResult(row, value ? CStringGetTextDatum(value) : (Datum) 0, value == NULL, TEXTOID, cxt);
	}
	shard_own_sql_end(&own);
	PG_RETURN_DATUM(makeArrayResult(row, cxt));
}
