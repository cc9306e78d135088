/*
 * catch.c
 *	  Runs code whose error does not end the statement.  Only catch.c drops errors.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catch.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* The treatment of an error. */
typedef enum CatchMode
{
	CATCH_DROP,					/* drops it */
	CATCH_COPY,					/* copies it for the caller */
	CATCH_ABORT,				/* copies it, and aborts the current transaction */
	CATCH_LOG					/* the same, and logs it */
} CatchMode;

/* In PG_CATCH(): takes the error off core's stack. */
static ErrorData *
take_error(MemoryContext cxt, CatchMode mode)
{
	ErrorData  *error = NULL;

	MemoryContextSwitchTo(cxt);
	HOLD_INTERRUPTS();
	if (mode != CATCH_DROP)
		error = CopyErrorData();
	if (mode == CATCH_LOG)
		EmitErrorReport();
	if (mode >= CATCH_ABORT)
		AbortOutOfAnyTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();
	return error;
}

/* Returns whether step has succeeded. *error gets the copy of its error. passes: see shard_catch_transaction(). */
static bool
run(ShardStep step, void *arg, CatchMode mode, bool (*passes) (int code), ErrorData **error)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	uint32		holdoff = InterruptHoldoffCount;
	uint32		cancel_holdoff = QueryCancelHoldoffCount;
	volatile bool succeeded = true;

	*error = NULL;
	PG_TRY();
	{
		step(arg);
	}
	PG_CATCH();
	{
		if (passes && !passes(geterrcode()))
			PG_RE_THROW();
		*error = take_error(cxt, mode);
		MemoryContextSwitchTo(cxt);
		succeeded = false;
		if (mode < CATCH_ABORT)
			CurrentResourceOwner = owner;
		InterruptHoldoffCount = holdoff;	/* the error has reset them */
		QueryCancelHoldoffCount = cancel_holdoff;
	}
	PG_END_TRY();
	return succeeded;
}

ErrorData *
shard_catch_error(ShardStep step, void *arg)
{
	ErrorData  *error;

	(void) run(step, arg, CATCH_COPY, NULL, &error);
	return error;
}

static void
call(void *function)
{
	(*(void (**) (void)) function) ();
}

bool
shard_catch_noerror(void (*function) (void))
{
	ErrorData  *error;

	return run(call, &function, CATCH_DROP, NULL, &error);
}

ErrorData *
shard_catch_transaction(ShardStep step, void *arg, bool (*passes) (int code), bool logs)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *error;

	(void) run(step, arg, logs ? CATCH_LOG : CATCH_ABORT, passes, &error);
	MemoryContextSwitchTo(cxt);
	return error;
}

/* A step in a subtransaction. */
typedef struct InnerStep
{
	ShardStep	step;
	void	   *arg;
	bool		keeps;
	bool		is_released;
} InnerStep;

static void
run_inner(void *arg)
{
	InnerStep  *inner = arg;

	inner->step(inner->arg);
	/* this may fail, too */
	if (inner->keeps)
		ReleaseCurrentSubTransaction();
	inner->is_released = inner->keeps;
}

ErrorData *
shard_catch_in_subtransaction(ShardStep step, void *arg, bool keeps)
{
	InnerStep	inner = {step, arg, keeps};
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *error;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	(void) run(run_inner, &inner, CATCH_COPY, NULL, &error);
	/* otherwise the session would stay in a failed transaction block */
	if (!inner.is_released)
		RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return error;
}
