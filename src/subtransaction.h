/*
 * subtransaction.h
 *	  Runs a function in a subtransaction, and catches its error.
 */
#ifndef SHARDFDW_SUBTRANSACTION_H
#define SHARDFDW_SUBTRANSACTION_H

#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/*
 * Calls run with arg in a subtransaction.  The subtransaction is rolled back after an error, or if keep is false.
 * Returns the error in the current memory context, or NULL.  The caller has to raise it again, or to report it to the
 * user.
 */
static inline ErrorData *
shard_subtransaction_run(void (*run) (void *arg), void *arg, bool keep)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorContextCallback *contexts = error_context_stack;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		run(arg);
		if (keep)
			ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	/* must not be skipped: otherwise the session would stay in a failed transaction block */
	if (error != NULL || !keep)
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	error_context_stack = contexts;
	return error;
}

#endif
