/*
 * txn_constraints.c
 *	  Remembers SET CONSTRAINTS ALL for nodes that join the transaction later.
 *
 * It lasts until the end of the transaction, or until ROLLBACK TO a savepoint
 * from before it.  So the mode that each nesting level has set is kept.  When a node
 * joins later, it is sent behind the BEGIN or SAVEPOINT of that level.
 */
#include "postgres.h"

#include "remote/xact/txn_private.h"
#include "utils/memutils.h"

typedef struct ConstraintMode
{
	int			level;
	bool		deferred;
} ConstraintMode;

/* In TopTransactionContext; at most one for each level, the innermost last. */
static List *modes = NIL;

const char *
shard_txn_constraints_sql(bool deferred)
{
	return deferred ? "SET CONSTRAINTS ALL DEFERRED" : "SET CONSTRAINTS ALL IMMEDIATE";
}

void
shard_txn_note_constraints(int level, bool deferred)
{
	ConstraintMode *mode = modes ? llast(modes) : NULL;
	MemoryContext oldcxt;

	if (!mode || mode->level < level)
	{
		oldcxt = MemoryContextSwitchTo(TopTransactionContext);
		mode = palloc(sizeof(ConstraintMode));
		mode->level = level;
		modes = lappend(modes, mode);
		MemoryContextSwitchTo(oldcxt);
	}
	mode->deferred = deferred;
}

void
shard_txn_append_constraints(int min_level, int max_level, StringInfo buf)
{
	ListCell   *lc;

	foreach(lc, modes)
	{
		const ConstraintMode *mode = lfirst(lc);

		if (mode->level >= min_level && mode->level <= max_level)
			appendStringInfo(buf, "%s; ", shard_txn_constraints_sql(mode->deferred));
	}
}

void
shard_txn_end_constraints(int level, bool committed)
{
	ConstraintMode *mode = modes ? llast(modes) : NULL;
	ConstraintMode *outer;

	if (!mode || mode->level < level)
		return;
	if (committed)
	{
		outer = list_length(modes) > 1 ? list_nth(modes, list_length(modes) - 2) : NULL;
		if (!outer || outer->level < level - 1)
		{
			mode->level = level - 1;
			return;
		}
		outer->deferred = mode->deferred;
	}
	modes = list_delete_last(modes);
}

void
shard_txn_reset_constraints(void)
{
	modes = NIL;				/* the memory is the transaction's */
}
