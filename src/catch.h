/*
 * catch.h
 *	  Runs code whose error does not end the statement.  Only catch.c drops errors.
 *
 * Nothing that the code has done is undone, except by shard_catch_in_subtransaction().  So the other
 * functions are for code that leaves nothing behind, or whose traces the end of the transaction
 * removes.  If the caller does not expect an error, it raises the error again by ReThrowError().
 */
#ifndef SHARDFDW_CATCH_H
#define SHARDFDW_CATCH_H

#include "postgres.h"

typedef void (*ShardStep) (void *arg);

/*
 * Calls step(arg).  Returns a copy of its error in the current memory context, or NULL.  After an error
 * the memory context, the resource owner and the numbers of held interrupts are as before.
 */
extern ErrorData *shard_catch_error(ShardStep step, void *arg);

/* The same without a copy, for places where no memory may be allocated.  Returns whether function has succeeded. */
extern bool shard_catch_noerror(void (*function) (void));

/* The same in a subtransaction.  It commits if step succeeds and keeps is set, otherwise it is rolled back. */
extern ErrorData *shard_catch_in_subtransaction(ShardStep step, void *arg, bool keeps);

/*
 * The same for code that begins transactions.  After an error, the current transaction is aborted, so
 * the current memory context must outlive it.  An error is raised again if passes, which is called
 * before the abort with its SQLSTATE, returns false. passes may be NULL. logs: the error is also logged.
 */
extern ErrorData *shard_catch_transaction(ShardStep step, void *arg, bool (*passes) (int code), bool logs);

#endif
