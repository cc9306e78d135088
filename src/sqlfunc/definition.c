/*
 * definition.c
 *	  Looks at commands that contain what a node has said of a constraint or an index.
 *
 * What a node answers is data.  Where the definition of a constraint is made again from its
 * text, here or on another node, that text must not be able to do anything else.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(shardfdw_checked_definition);

/* The constraint that the statement adds, if it does that alone; NULL otherwise. */
static Constraint *
added_constraint(Node *stmt)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;
	AlterTableCmd *cmd;

	if (!IsA(stmt, AlterTableStmt) || list_length(alter->cmds) != 1)
		return NULL;
	cmd = linitial_node(AlterTableCmd, alter->cmds);
	return cmd->subtype == AT_AddConstraint ? castNode(Constraint, cmd->def) : NULL;
}

/* Is it a key, a foreign key, an exclusion constraint or an index?  A CHECK constraint could call any function as the user. */
static bool
is_definition(Node *stmt)
{
	Constraint *constraint = added_constraint(stmt);

	if (constraint == NULL)
		return IsA(stmt, IndexStmt);
	switch (constraint->contype)
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

/* Raises for a foreign key to another table than the one that the caller knows of. */
static void
check_referenced(const Constraint *constraint, Oid refers_to)
{
	if (constraint == NULL || constraint->contype != CONSTR_FOREIGN)
		return;
	if (constraint->pktable->schemaname == NULL || RangeVarGetRelid(constraint->pktable, NoLock, true) != refers_to)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("foreign key \"%s\" of a node refers to a table that is not known to be one of its own",
						constraint->conname ? constraint->conname : ""),
				 errdetail("It refers to %s.", constraint->pktable->schemaname ?
						   quote_qualified_identifier(constraint->pktable->schemaname, constraint->pktable->relname) :
						   quote_identifier(constraint->pktable->relname)),
				 errhint("Drop it there if it is not to be.")));
}

/*
 * checked_definition(command text, refers_to regclass) -> text: the command, if it adds one key, foreign key to that table or
 * exclusion constraint, or makes one index
 */
Datum
shardfdw_checked_definition(PG_FUNCTION_ARGS)
{
	const char *command;
	List	   *stmts;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	command = text_to_cstring(PG_GETARG_TEXT_PP(0));
	stmts = raw_parser(command, RAW_PARSE_DEFAULT);
	if (list_length(stmts) != 1 || !is_definition(linitial_node(RawStmt, stmts)->stmt))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a node has answered with something that is no definition of a constraint or an index"),
				 errdetail("The command would be: %s", command)));
	check_referenced(added_constraint(linitial_node(RawStmt, stmts)->stmt), PG_ARGISNULL(1) ? InvalidOid : PG_GETARG_OID(1));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
