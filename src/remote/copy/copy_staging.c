/*
 * copy_staging.c
 *	  Slices that are sent through a staging table, because COPY has found a duplicate.
 *
 *	 [create]; SAVEPOINT; COPY staging; merge; result; clear
 *
 * is one message, and takes one round trip more than a plain COPY.  After CLEAN_SLICES slices
 * without a duplicate, the target's rows are copied directly again, until the next duplicate.
 */
#include "postgres.h"

#include "compat.h"
#include "remote/copy/copy_private.h"
#include "remote/wire/error.h"

#define CLEAN_SLICES 4

void
shard_copy_target_set_staging(ShardCopyTarget *target, const ShardCopyStaging *staging)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(target->set->cxt);
	ShardCopyDetour *detour = palloc0(sizeof(ShardCopyDetour));

	Assert(target->set->guarded);
	detour->sql.create_sql = pstrdup(staging->create_sql);
	detour->sql.copy_sql = pstrdup(staging->copy_sql);
	detour->sql.merge_sql = pstrdup(staging->merge_sql);
	detour->sql.result_sql = pstrdup(staging->result_sql);
	detour->sql.clear_sql = pstrdup(staging->clear_sql);
	detour->sql.drop_sql = pstrdup(staging->drop_sql);
	detour->relname = shard_copy_error_relname(staging->copy_sql);
	target->detour = detour;
	MemoryContextSwitchTo(oldcxt);
}

void
shard_copy_staging_append(ShardCopyDetour *detour, StringInfo sql)
{
	appendStringInfo(sql, "%s; %s; %s; %s", detour->sql.copy_sql, detour->sql.merge_sql,
					 detour->sql.result_sql, detour->sql.clear_sql);
}

/* Row number ordinal of the slice (1-based) was refused. */
static void
refuse_duplicate(ShardCopyLane *lane, ShardCopyPos *pos, uint64 ordinal)
{
	ShardCopyGuard *guard = &lane->guard;
	const ShardCopyDetour *detour = lane->target->detour;

	if (ordinal == 0 || ordinal > guard->end.rowno - guard->pos.rowno)
		shard_error_protocol(lane->conn, lane->target->label, "there is no row of that number");
	shard_copy_refused_add(lane, pos, guard->pos.rowno + ordinal - 1, ERRCODE_UNIQUE_VIOLATION,
						   detour->message, NULL, true);
}

void
shard_copy_staging_confirm(ShardCopyLane *lane)
{
	ShardCopyTarget *target = lane->target;
	ShardCopyDetour *detour = target->detour;
	int			ntuples = lane->rows ? PQntuples(lane->rows) : 0;
	ShardCopyPos pos = lane->guard.pos;
	uint64		nreplaced;

	/* the last row is a summary */
	if (ntuples == 0 || PQnfields(lane->rows) != 2 || !PQgetisnull(lane->rows, ntuples - 1, 0))
		shard_error_protocol(lane->conn, target->label, "the result of a merge is missing");
	for (int i = 0; i < ntuples - 1; i++)
		refuse_duplicate(lane, &pos, strtoull(PQgetvalue(lane->rows, i, 0), NULL, 10));
	nreplaced = strtoull(PQgetvalue(lane->rows, ntuples - 1, 1), NULL, 10);
	PQclear(lane->rows);
	lane->rows = NULL;

	target->stat.nduplicates += ntuples - 1;
	target->stat.nreplaced += nreplaced;
	if (ntuples > 1 || nreplaced > 0)
		detour->nclean = 0;
	else if (++detour->nclean >= CLEAN_SLICES)
		detour->taken = false;
}

bool
shard_copy_staging_is_there(const ShardCopyLane *lane)
{
	foreach_ptr(const ShardCopyTarget, target, lane->targets)
	{
		if (target->detour && target->detour->created)
			return true;
	}
	return false;
}

void
shard_copy_staging_append_drop(ShardCopyLane *lane, StringInfo sql)
{
	foreach_ptr(ShardCopyTarget, target, lane->targets)
	{
		ShardCopyDetour *detour = target->detour;

		if (!detour || !detour->created)
			continue;
		appendStringInfo(sql, "%s; ", detour->sql.drop_sql);
		detour->created = false;
	}
}
