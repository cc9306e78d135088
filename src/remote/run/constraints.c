/*
 * constraints.c
 *	  SET CONSTRAINTS ALL on the nodes that this transaction writes to.
 *
 * Nodes that join later get it with their BEGIN or SAVEPOINT, see txn_constraints.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "remote/run/command.h"
#include "remote/run/constraints.h"
#include "remote/xact/txn_private.h"

void
shard_constraints_set(bool deferred)
{
	int			ncommands = list_length(shard_txn_writers);
	ShardCommand *commands = palloc0(Max(ncommands, 1) * sizeof(ShardCommand));
	ListCell   *lc;

	foreach(lc, shard_txn_writers)
	{
		const ShardWriter *writer = lfirst(lc);
		ShardCommand *command = &commands[foreach_current_index(lc)];

		command->serverid = writer->serverid;
		command->userid = writer->userid;
		command->sql = shard_txn_constraints_sql(deferred);
	}
	shard_command_run(commands, ncommands, SHARD_COMMAND_WRITE, false);
	shard_command_free(commands, ncommands);
	pfree(commands);
	shard_txn_note_constraints(GetCurrentTransactionNestLevel(), deferred);
}
