/*
 * peer_apply.c
 *	  Runs a statement that another coordinator has sent.
 *
 * The statement runs with the settings of the sender, and with the rights of the session's role.  The roles must have
 * the same name on both coordinators.  This coordinator sends nothing to nodes or other coordinators; the sender does
 * that.
 */
#include "postgres.h"

#include "catalog/node_list.h"
#include "catalog/option.h"
#include "catalog/pg_type.h"
#include "catch.h"
#include "compat.h"
#include "ddl/peer/peer_follow.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "own_sql.h"
#include "parser/parser.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(shardfdw_begin_following);
PG_FUNCTION_INFO_V1(shardfdw_follow_coordinator);

static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Settings, as pairs of name and value. */
static void
set_all(ArrayType *pairs)
{
	Datum	   *elems;
	int			nelems;

	deconstruct_array(pairs, TEXTOID, -1, false, TYPALIGN_INT, &elems, NULL, &nelems);
	for (int i = 0; i + 1 < nelems; i += 2)
	{
		CHECK_FOR_INTERRUPTS();
		set(TextDatumGetCString(elems[i]), TextDatumGetCString(elems[i + 1]));
	}
}

/* Raises an error if the sender is not, or no longer, a coordinator of this cluster. */
static void
check_sender(const char *identity)
{
	int			nbefore;

	foreach_ptr(ShardNodeName, peer, shard_node_peers(&nbefore))
	{
		const char *known = shard_option_server(peer->serverid, "identity");

		if (known != NULL && strcmp(known, identity) == 0)
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("coordinator %s is not among those that coordinator \"%s\" knows", identity, shard_node_own_name()),
			 errhint("View shardfdw.coordinators lists them. A coordinator that was removed must be created again from a dump.")));
}

/*
 * begin_following(identity text) -> void
 */
Datum
shardfdw_begin_following(PG_FUNCTION_ARGS)
{
	check_sender(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	(void) set_config_option("shardfdw.follows_coordinator", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
	PG_RETURN_VOID();
}

static void
run_statement(void *statement)
{
	(void) shard_own_sql_execute(statement, 0, 0, NULL);
}

/* Runs the statement.  If it may contain a password, its error does not show its text, in the log either. */
static void
apply(char *statement)
{
	bool		is_secret = false;
	ErrorData  *error;

	foreach_node(RawStmt, raw, raw_parser(statement, RAW_PARSE_DEFAULT))
		is_secret |= shard_peer_may_have_password(raw->stmt);
	if (!is_secret)
	{
		run_statement(statement);
		return;
	}
	error = shard_catch_error(run_statement, statement);
	if (error == NULL)
		return;
	error->context = NULL;
	error->internalquery = NULL;
	error->hide_stmt = true;
	ReThrowError(error);
}

/*
 * follow_coordinator(identity text, statement text, role name, settings text[]) -> void
 */
Datum
shardfdw_follow_coordinator(PG_FUNCTION_ARGS)
{
	char	   *identity = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *statement = text_to_cstring(PG_GETARG_TEXT_PP(1));
	const char *role = NameStr(*PG_GETARG_NAME(2));
	ShardOwnSql own;
	int			nestlevel;

	if (strcmp(GetUserNameFromId(GetUserId(), false), role) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" of another coordinator is \"%s\" on coordinator \"%s\"", role, GetUserNameFromId(GetUserId(), false), shard_node_own_name()),
				 errhint("Let its user mapping there lead to the role of the same name.")));
	check_sender(identity);
	nestlevel = NewGUCNestLevel();
	set_all(PG_GETARG_ARRAYTYPE_P(3));
	set("shardfdw.follows_coordinator", "on");
	/* the client gets the messages of the coordinator that it is connected to */
	set("client_min_messages", "warning");
	/* the settings are those of the session on the other coordinator */
	shard_own_sql_begin(&own, SHARD_OWN_SQL_USER_TABLE, InvalidSnapshot);
	apply(statement);
	shard_own_sql_end(&own);
	AtEOXact_GUC(true, nestlevel);
	PG_RETURN_VOID();
}
