/*
 * copy_rights.c
 *	  Permissions on the table of a COPY.
 *
 * Libraries that watch permission checks (pgaudit) assume that each check belongs to a
 * statement which they have seen before: one that the executor starts, or a utility
 * command.  A COPY that this extension carries out is seen as a command only by the
 * libraries loaded after it.  So that the others see a statement, too, permissions are
 * checked by starting an executor statement that does nothing.
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
