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

/* Is it a key, a foreign key, an exclusion constraint or an index?  A CHECK constraint could call any function as the user. */
static bool
is_definition(Node *stmt)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;
	AlterTableCmd *cmd;

	if (IsA(stmt, IndexStmt))
		return true;
	if (!IsA(stmt, AlterTableStmt) || list_length(alter->cmds) != 1)
		return false;
	cmd = linitial_node(AlterTableCmd, alter->cmds);
	if (cmd->subtype != AT_AddConstraint)
		return false;
	switch (castNode(Constraint, cmd->def)->contype)
	{
		case CONSTR_PRIMARY:
		case CONSTR_UNIQUE:
		case CONSTR_FOREIGN:
		case CONSTR_EXCLUSION:
			return true;
		default:
			return false;
	}
}

/* checked_definition(command text) -> text: the command, if it adds one key, foreign key or exclusion constraint, or makes one index */
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
