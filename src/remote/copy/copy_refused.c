/*
 * copy_refused.c
 *	  Stores rows that nodes have refused until they are passed to the hook of their set.
 *
 * The hook is not called within the steps of a lane, since it may need a connection that one of our
 * lanes holds.  So refused rows are copied (add), and passed to the hook between two rounds
 * (deliver).
 */
#include "postgres.h"

#include "remote/copy/copy_private.h"
#include "utils/memutils.h"

static char *
copy_bytes(const char *bytes, size_t nbytes)
{
	char	   *copy = palloc(nbytes + 1);

	memcpy(copy, bytes, nbytes);
	copy[nbytes] = '\0';
	return copy;
}

void
shard_copy_refused_add(ShardCopyLane *lane, ShardCopyPos *pos, uint64 rowno, int sqlstate,
					   const char *message, const char *column, bool duplicate)
{
	ShardCopySet *set = lane->set;
	MemoryContext oldcxt = MemoryContextSwitchTo(set->refused_cxt);
	ShardCopyRefused *refused = palloc0(sizeof(ShardCopyRefused));
	ShardCopyRefusal *refusal = &refused->refusal;
	ShardCopyRow row;

	if (pos->rowno > rowno)
		*pos = lane->guard.pos;
	do
	{
		if (!shard_copy_rows_next(&lane->chunk, pos, &row))
			elog(ERROR, "there is no row " UINT64_FORMAT " in the chunk", rowno);
	} while (pos->rowno <= rowno);
	refusal->target = lane->target;
	refusal->lineno = row.lineno;
	refusal->source_bytes = row.source ? row.source_bytes : row.nbytes;
	refusal->source = copy_bytes(row.source ? row.source : row.data, refusal->source_bytes);
	refusal->sqlstate = sqlstate;
	refusal->message = message ? pstrdup(message) : NULL;
	refusal->column = column && column[0] ? pstrdup(column) : NULL;
	refusal->node = pstrdup(lane->conn->node);
	refusal->label = lane->target->label;
	refusal->duplicate = duplicate;
	slist_push_head(&set->refused, &refused->link);
	MemoryContextSwitchTo(oldcxt);
}

void
shard_copy_refused_deliver(ShardCopySet *set)
{
	bool		lost;

	/* the hook may call this again through a yield; then the outer call also delivers what the inner one has added */
	if (set->delivering)
		return;
	lost = set->lost;
	set->delivering = true;
	while (!slist_is_empty(&set->refused))
	{
		slist_head	newest_first = set->refused;
		slist_head	oldest_first = SLIST_STATIC_INIT(oldest_first);

		slist_init(&set->refused);
		while (!slist_is_empty(&newest_first))
			slist_push_head(&oldest_first, slist_pop_head_node(&newest_first));
		while (!slist_is_empty(&oldest_first))
		{
			ShardCopyRefused *refused = slist_container(ShardCopyRefused, link,
														slist_pop_head_node(&oldest_first));

			/* if the hook raises and an inner block catches that, the load must not continue without these rows */
			set->lost = true;
			set->refuse(set->refuse_arg, &refused->refusal);
			set->lost = lost;
		}
	}
	set->delivering = false;
	MemoryContextReset(set->refused_cxt);
}
