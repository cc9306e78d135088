/*
 * subtransaction.h
 *	  Runs a function in a subtransaction, and catches its error.
 */
#ifndef SHARDFDW_SUBTRANSACTION_H
#define SHARDFDW_SUBTRANSACTION_H

#include "postgres.h"

/*
 * Calls run with arg in a subtransaction.  The subtransaction is rolled back after an error, or if keep is false.
 * Returns the error in the current memory context, or NULL.  The caller has to raise it again, or to report it to the
 * user.
 */
extern ErrorData *shard_subtransaction_run(void (*run) (void *arg), void *arg, bool keep);

#endif
