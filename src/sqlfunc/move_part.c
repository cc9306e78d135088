/*
 * move_part.c
 *	  Looks at the commands by which the source of a move says how a table is to be made on the target.
 *
 * What a node answers is data.  These commands are run on another node, so each has to be one of those
 * that make a table, and to speak of that table alone.  Expressions in them (of CHECK, generated columns, indexes, policies) are
 * not looked at.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(shardfdw_checked_part);
PG_FUNCTION_INFO_V1(shardfdw_checked_columns);

/* The names that the table has: until it is there, and afterwards. */
typedef struct PartNames
{
	RangeVar   *staging;
	RangeVar   *final;
} PartNames;

static bool
is_named(const RangeVar *relation, const RangeVar *name)
{
	return relation != NULL && relation->catalogname == NULL && relation->schemaname != NULL && name->schemaname != NULL &&
		strcmp(relation->schemaname, name->schemaname) == 0 && strcmp(relation->relname, name->relname) == 0;
}

static bool
is_the_table(const RangeVar *relation, const PartNames *names)
{
	return is_named(relation, names->staging) || is_named(relation, names->final);
}

/* ALTER INDEX: of one in the schema where nothing but the move's tables is. */
static bool
is_index_of_move(const RangeVar *relation, const PartNames *names)
{
	return relation != NULL && relation->schemaname != NULL && names->staging->schemaname != NULL &&
		strcmp(relation->schemaname, names->staging->schemaname) == 0;
}

static bool
is_alter_of_part(const AlterTableStmt *stmt, const PartNames *names)
{
	ListCell   *lc;

	if (stmt->objtype == OBJECT_INDEX ? !is_index_of_move(stmt->relation, names) :
		stmt->objtype != OBJECT_TABLE || !is_the_table(stmt->relation, names))
		return false;
	foreach(lc, stmt->cmds)
	{
		switch (lfirst_node(AlterTableCmd, lc)->subtype)
		{
			case AT_SetStorage:
			case AT_SetStatistics:
			case AT_SetOptions:
			case AT_AddConstraint:
			case AT_ClusterOn:
			case AT_ReplicaIdentity:
			case AT_EnableAlwaysTrig:
			case AT_EnableReplicaTrig:
			case AT_DisableTrig:
			case AT_EnableRowSecurity:
			case AT_ForceRowSecurity:
			case AT_ChangeOwner:
			case AT_ValidateConstraint:
				break;
			default:
				return false;
		}
	}
	return true;
}

static bool
is_part(Node *stmt, const PartNames *names)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return is_the_table(castNode(CreateStmt, stmt)->relation, names);
		case T_AlterTableStmt:
			return is_alter_of_part(castNode(AlterTableStmt, stmt), names);
		case T_IndexStmt:
			return is_the_table(castNode(IndexStmt, stmt)->relation, names);
		case T_CreateTrigStmt:
			return is_the_table(castNode(CreateTrigStmt, stmt)->relation, names);
		case T_CreatePolicyStmt:
			return is_the_table(castNode(CreatePolicyStmt, stmt)->table, names);
		case T_CreateStatsStmt:
			return list_length(castNode(CreateStatsStmt, stmt)->relations) == 1 &&
				IsA(linitial(castNode(CreateStatsStmt, stmt)->relations), RangeVar) &&
				is_the_table(linitial_node(RangeVar, castNode(CreateStatsStmt, stmt)->relations), names);
		case T_GrantStmt:
			return castNode(GrantStmt, stmt)->is_grant && castNode(GrantStmt, stmt)->targtype == ACL_TARGET_OBJECT &&
				castNode(GrantStmt, stmt)->objtype == OBJECT_TABLE && list_length(castNode(GrantStmt, stmt)->objects) == 1 &&
				is_the_table(linitial_node(RangeVar, castNode(GrantStmt, stmt)->objects), names);
		case T_CommentStmt:
			return castNode(CommentStmt, stmt)->objtype == OBJECT_COLUMN || castNode(CommentStmt, stmt)->objtype == OBJECT_INDEX ||
				castNode(CommentStmt, stmt)->objtype == OBJECT_TABCONSTRAINT || castNode(CommentStmt, stmt)->objtype == OBJECT_TABLE;
		default:
			return false;
	}
}

static RangeVar *
parse_name(text *name)
{
	return makeRangeVarFromNameList(textToQualifiedNameList(name));
}

/*
 * checked_part(command text, staging text, final text) -> text: the command
 */
Datum
shardfdw_checked_part(PG_FUNCTION_ARGS)
{
	const char *command = text_to_cstring(PG_GETARG_TEXT_PP(0));
	PartNames	names = {parse_name(PG_GETARG_TEXT_PP(1)), parse_name(PG_GETARG_TEXT_PP(2))};
	List	   *stmts = raw_parser(command, RAW_PARSE_DEFAULT);

	if (list_length(stmts) != 1 || !is_part(linitial_node(RawStmt, stmts)->stmt, &names))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that does not make table %s", text_to_cstring(PG_GETARG_TEXT_PP(2))),
				 errdetail("The command would be: %s", command)));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/*
 * checked_columns(columns text) -> text: the names as they are read, quoted once more
 */
Datum
shardfdw_checked_columns(PG_FUNCTION_ARGS)
{
	const char *columns = text_to_cstring(PG_GETARG_TEXT_PP(0));
	StringInfoData names;
	List	   *stmts;
	CopyStmt   *copy;
	ListCell   *lc;

	initStringInfo(&names);
	if (columns[0] != '\0')
	{
		stmts = raw_parser(psprintf("COPY t (%s) TO STDOUT", columns), RAW_PARSE_DEFAULT);
		copy = list_length(stmts) == 1 && IsA(linitial_node(RawStmt, stmts)->stmt, CopyStmt) ? (CopyStmt *) linitial_node(RawStmt, stmts)->stmt : NULL;
		if (copy == NULL || copy->attlist == NIL)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("a node has answered with something that is no list of columns"),
					 errdetail("The list would be: %s", columns)));
		foreach(lc, copy->attlist)
			appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", quote_identifier(strVal(lfirst(lc))));
	}
	PG_RETURN_TEXT_P(cstring_to_text(names.data));
}
