/*
 * txn_constraints.c
 *	  Remembers SET CONSTRAINTS for nodes that join the transaction later.
 *
 * SET CONSTRAINTS lasts until the end of the transaction, or until ROLLBACK TO an earlier
 * savepoint.  So the settings are kept per nesting level, without those that the same level has
 * overridden.  When a node joins, the settings of a level follow its BEGIN or SAVEPOINT.
 */
#include "postgres.h"

#include "compat.h"
#include "remote/xact/txn_private.h"
#include "utils/memutils.h"

typedef struct ConstraintMode
{
	int			level;
	char	   *name;			/* qualified; NULL: all constraints */
	char	   *sql;
} ConstraintMode;

/* In TopTransactionContext.  Ordered by level, outermost first, and within a level by time. */
static List *modes = NIL;

static void
forget(ConstraintMode *mode)
{
	modes = list_delete_ptr(modes, mode);
	if (mode->name)
		pfree(mode->name);
	pfree(mode->sql);
	pfree(mode);
}

/* Forgets the settings of level that mode overrides completely. */
static void
forget_overridden(int level, const ConstraintMode *mode)
{
	for (int i = list_length(modes) - 1; i >= 0; i--)
	{
		ConstraintMode *other = list_nth(modes, i);

		if (other != mode && other->level == level &&
			(mode->name == NULL || (other->name && strcmp(other->name, mode->name) == 0)))
			forget(other);
	}
}

void
shard_txn_note_constraints(int level, const char *name, const char *sql)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(TopTransactionContext);
	ConstraintMode *mode = palloc(sizeof(ConstraintMode));

	mode->level = level;
	mode->name = name ? pstrdup(name) : NULL;
	mode->sql = pstrdup(sql);
	forget_overridden(level, mode);
	modes = lappend(modes, mode);
	MemoryContextSwitchTo(oldcxt);
}

void
shard_txn_append_constraints(int min_level, int max_level, StringInfo buf)
{
	foreach_ptr(const ConstraintMode, mode, modes)
	{
		if (mode->level >= min_level && mode->level <= max_level)
			appendStringInfo(buf, "%s; ", mode->sql);
	}
}

const char *
shard_txn_constraints_of_all(void)
{
	const char *sql = NULL;

	foreach_ptr(const ConstraintMode, mode, modes)
	{
		if (mode->name == NULL)
			sql = mode->sql;
	}
	return sql;
}

void
shard_txn_end_constraints(int level, bool committed)
{
	/* the first mode that ends; modes go to the parent level in their order */
	int			i = list_length(modes);

	while (i > 0 && ((ConstraintMode *) list_nth(modes, i - 1))->level >= level)
		i--;
	while (i < list_length(modes))
	{
		ConstraintMode *mode = list_nth(modes, i);
		int			nbefore = list_length(modes);

		if (!committed)
		{
			forget(mode);
			continue;
		}
		forget_overridden(level - 1, mode);
		i -= nbefore - list_length(modes);
		mode->level = level - 1;
		i++;
	}
}

void
shard_txn_reset_constraints(void)
{
	modes = NIL;				/* the memory belongs to the transaction */
}
