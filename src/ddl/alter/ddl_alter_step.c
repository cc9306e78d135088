/*
 * ddl_alter_step.c
 *	  Divides ALTER TABLE into steps.
 *
 * Core runs the sub-commands in passes: it drops first, and adds columns before it changes their defaults.  What the
 * nodes get depends on the catalog before and after a pass, not before and after the statement.  So the coordinator
 * and the nodes do the steps one after the other:
 *
 *	  DROP --> ALTER TYPE, ADD COLUMN --> constraints, defaults --> the rest
 */
#include "postgres.h"

#include "compat.h"
#include "ddl/alter/ddl_alter.h"

#define NSTEPS 4

/* The step of a sub-command.  The order is that of AlterTablePass in core's tablecmds.c. */
static int
step_of(const AlterTableCmd *cmd)
{
	if (cmd->subtype == SHARD_AT_SET_EXPRESSION)
		return 1;
	switch (cmd->subtype)
	{
		case AT_DropColumn:
		case AT_DropConstraint:
		case AT_DropNotNull:
		case AT_DropExpression:
		case AT_DropIdentity:
			return 0;
		case AT_ColumnDefault:
			return cmd->def == NULL ? 0 : 2;
		case AT_AlterColumnType:
		case AT_AddColumn:
			return 1;
		case AT_AddConstraint:
		case AT_SetNotNull:
		case AT_AddIdentity:
			return 2;
		default:
			return 3;
	}
}

List *
shard_alter_steps(List *cmds)
{
	List	   *steps[NSTEPS] = {NIL};
	List	   *result = NIL;

	foreach_node(AlterTableCmd, cmd, cmds)
		steps[step_of(cmd)] = lappend(steps[step_of(cmd)], cmd);
	for (int i = 0; i < NSTEPS; i++)
		if (steps[i] != NIL)
			result = lappend(result, steps[i]);
	return result;
}
