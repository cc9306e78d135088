/*
 * subtransaction.c
 *	  Runs a function in a subtransaction, and catches its error.
 */
#include "postgres.h"

#include "access/xact.h"
#include "subtransaction.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

ErrorData *
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
