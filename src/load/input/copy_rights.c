/*
 * copy_rights.c
 *	  Permission checks for the table of a COPY.
 *
 * Libraries that monitor permission checks (pgaudit) assume that each check belongs to a statement that they have
 * seen before: an executor start, or a utility command.  If this extension runs a COPY, only the libraries that were
 * loaded after it see the command.  So this file checks permissions by starting an executor statement that does
 * nothing.  All libraries see that statement.
 */
#include "postgres.h"

#include "compat.h"
#include "executor/executor.h"
#include "load/input/copy_rights.h"
#include "tcop/dest.h"
#include "utils/snapmgr.h"

void
shard_copy_rights_check(ParseState *pstate, CmdType operation)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	QueryDesc  *desc;

	/* without queryId, so that libraries do not count it */
	stmt->commandType = operation;
	stmt->planTree = (Plan *) makeNode(Result);
	stmt->rtable = pstate->p_rtable;
	shard_stmt_set_permissions(stmt, pstate);
	stmt->stmt_location = -1;
	desc = CreateQueryDesc(stmt, pstate->p_sourcetext, GetActiveSnapshot(), InvalidSnapshot,
						   None_Receiver, NULL, NULL, 0);
	ExecutorStart(desc, EXEC_FLAG_EXPLAIN_ONLY);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}
