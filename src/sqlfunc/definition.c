/*
 * definition.c
 *	  Looks at commands that contain what a node has said of a constraint or an index.
 *
 * What a node answers is data.  Where the definition of a constraint is made again from its
 * text, here or on another node, that text must not be able to do anything else.
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_checked_definition);

static bool
is_definition(Node *stmt)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;

	if (IsA(stmt, IndexStmt))
		return true;
	return IsA(stmt, AlterTableStmt) && list_length(alter->cmds) == 1 &&
		linitial_node(AlterTableCmd, alter->cmds)->subtype == AT_AddConstraint;
}

/* checked_definition(command text) -> text: the command, if it is one that adds one constraint, or makes one index */
Datum
shardfdw_checked_definition(PG_FUNCTION_ARGS)
{
	const char *command = text_to_cstring(PG_GETARG_TEXT_PP(0));
	List	   *stmts = raw_parser(command, RAW_PARSE_DEFAULT);

	if (list_length(stmts) != 1 || !is_definition(linitial_node(RawStmt, stmts)->stmt))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that is no definition of a constraint or an index"),
				 errdetail("The command would be: %s", command)));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
