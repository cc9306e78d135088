/*
 * ddl_alter_piece.c
 *	  Builds the shards' ALTER TABLE from pieces.
 */
#include "postgres.h"

#include "compat.h"
#include "ddl/alter/ddl_alter.h"

/* One sub-command: the arguments of shard_alter_piece(). */
typedef struct AlterPiece
{
	char	   *before;
	char	  **names;
	char	   *after;
} AlterPiece;

void
shard_alter_piece(ShardAlterState *state, char *before, char **names, char *after)
{
	AlterPiece *piece = palloc(sizeof(AlterPiece));

	piece->before = before;
	piece->names = names;
	piece->after = after;
	state->pieces = lappend(state->pieces, piece);
}

void
shard_alter_send_pieces(ShardAlterState *state, ShardDdlBatch *batch)
{
	if (state->pieces == NIL)
		return;
	for (int i = 0; i < state->table->nshards; i++)
	{
		StringInfoData text;

		initStringInfo(&text);
		foreach_ptr(AlterPiece, piece, state->pieces)
		{
			if (piece->names && piece->names[i] == NULL)
				continue;
			appendStringInfo(&text, "%s%s%s%s", text.len > 0 ? ", " : "", piece->before,
							 piece->names ? piece->names[i] : "", piece->after ? piece->after : "");
		}
		if (text.len > 0)
			shard_ddl_batch_add(batch, i, "ALTER TABLE %s %s", state->table->shards[i].relation, text.data);
		pfree(text.data);
	}
}
