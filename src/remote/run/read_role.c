/*
 * read_role.c
 *	  Chooses the server of a node that a statement reads: the primary or a standby.
 *
 *	 shardfdw.read_from	node lists standbys	server that is read
 *	   primary			either				the primary
 *	   standby			no					the primary
 *	   standby			yes					a standby
 *	   any				no					the primary
 *	   any				yes					the primary; a standby if the primary cannot be connected to
 *
 * What a transaction has written is on the primary.  So from its first write on, a transaction
 * reads primaries only.  The same is true for statements that write or lock, for cluster snapshots,
 * and for transactions that may write at REPEATABLE READ, since they have one snapshot of a node.
 *
 * A standby is read only if it has
 *
 *	- all that this session has committed on the node (position.h);
 *	- all that any session had committed there shardfdw.max_standby_lag ago;
 *	- the shards whose placement this session has seen.  They may contain rows that the session has
 *	  committed before, on another node.  If the session has committed nothing, it waits for these
 *	  shards once per node, while the primary is available, and then reads the standby in any case.
 *
 * read_role_standby.c says how this is verified.
 */
#include "postgres.h"

#include "access/xact.h"
#include "compat.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "remote/run/read_role.h"
#include "remote/run/read_role_private.h"
#include "remote/wire/connection.h"
#include "remote/xact/committed.h"
#include "remote/xact/txn_private.h"
#include "replication/logicalworker.h"
#include "utils/timestamp.h"

static int	nwriting = 0;		/* running statements that write or lock */
static TimestampTz placed_at = 0;	/* when shards were last placed, as far as this session has seen */
static TimestampTz servers_changed_at = 0;	/* when servers were last changed, as far as this session has seen */

/* May the transaction read standbys at all? */
static bool
may_read_standbys(const ShardSnapshot *snapshot)
{
	/* the executor's hooks do not run what an apply worker does for a subscription */
	return shard_guc_read_from != SHARD_READ_PRIMARY && nwriting == 0 && !IsLogicalWorker() && !snapshot->cut && !IsolationIsSerializable() &&
		(!IsolationUsesXactSnapshot() || XactReadOnly) && !shard_committed_in_doubt() &&
		!shard_txn_has_written && !TransactionIdIsValid(GetTopTransactionIdIfAny());
}

static TimestampTz
oldest_allowed(void)
{
	return shard_guc_max_standby_lag_ms < 0 ? DT_NOBEGIN :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), -(int64) shard_guc_max_standby_lag_ms);
}

/* Finds a standby that has what is needed. 0: there is none; reasons says why. */
static uint32
find_standby(ShardReadNode *node, StringInfo reasons)
{
	TimestampTz first_commit = shard_committed_first_at();
	ShardReadNeed need;

	if (!shard_read_find_own_position(node))
	{
		appendStringInfoString(reasons, _("\nIt is not known how far a standby has to be to have what this session has committed."));
		return 0;
	}
	need.committed = node->position->committed;
	need.as_of = oldest_allowed();
	need.placed_surely = first_commit != 0 && first_commit < placed_at;
	need.placed = need.placed_surely || (!shard_read_primary_is_lost(node) && placed_at > node->primary->placed) ? placed_at : 0;
	return shard_read_choose_standby(node, &need, reasons);
}

static bool
may_read_primary(const ShardReadNode *node)
{
	return shard_guc_read_from == SHARD_READ_ANY && node->only_standby == 0;
}

/* The number of the standby to read; 0: the primary. */
static uint32
choose_server(ShardReadNode *node)
{
	const char *name = GetForeignServer(node->serverid)->servername;
	StringInfoData reasons;
	uint32		number;

	shard_read_note_identifier(node);
	shard_read_take_known_end(node, servers_changed_at);
	if (may_read_primary(node) && shard_read_primary_answers(node))
		return 0;
	/* the system identifier and the position that standbys must match are requested at least once */
	if (node->system_identifier == 0 || node->position->asked_at == 0)
		(void) shard_read_ask_position(node);
	initStringInfo(&reasons);
	if ((number = find_standby(node, &reasons)) > 0)
		return number;
	/* an answer that another session has noted may belong to an earlier server */
	if (node->is_hearsay && shard_read_ask_position(node))
	{
		resetStringInfo(&reasons);
		if ((number = find_standby(node, &reasons)) > 0)
			return number;
	}
	if (node->primary_state == SHARD_READ_SKIPPED)
	{
		node->primary->retry_at = 0;
		node->primary_state = SHARD_READ_NOT_ASKED;
		if (may_read_primary(node))
		{
			if (shard_read_primary_answers(node))
				return 0;
		}
		else if (shard_read_ask_position(node))
		{
			resetStringInfo(&reasons);
			if ((number = find_standby(node, &reasons)) > 0)
				return number;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 shard_read_primary_is_lost(node) ?
			 errmsg("neither the primary nor a standby of node \"%s\" can be read", name) :
			 errmsg("no standby of node \"%s\" can be read", name),
			 shard_read_primary_is_lost(node) ?
			 errdetail("Primary: %s%s", node->primary_reason, reasons.data) :
			 errdetail_internal("%s", reasons.data + 1)));
}

/* NULL: the node lists no standbys. */
static ShardReadNode *
make_node(Oid serverid, Oid userid)
{
	int			nstandbys = shard_connection_count_standbys(serverid);
	ShardReadNode *node;

	if (nstandbys == 0)
		return NULL;
	node = palloc0(sizeof(ShardReadNode));
	node->serverid = serverid;
	node->userid = userid;
	node->nstandbys = nstandbys;
	node->primary = shard_pool_get(serverid, userid);
	node->position = shard_position_get(serverid);
	return node;
}

/* Begins to connect to the server of node that will be tried first. */
static void
warm_first(const ShardReadNode *node)
{
	bool		primary = may_read_primary(node) && GetCurrentTimestamp() >= node->primary->retry_at;

	shard_read_warm(primary ? node->primary : shard_read_first_standby(node));
}

/* Returns what the snapshot has of the node for another user (the owner of a view); NULL: nothing. */
static const ShardNodeSnapshot *
chosen_for_other(const ShardSnapshot *snapshot, const ShardNodeSnapshot *seen)
{
	foreach_ptr(const ShardNodeSnapshot, other, snapshot->nodes)
	{
		if (other != seen && other->serverid == seen->serverid &&
			(other->role_chosen || other->state != SHARD_SNAPSHOT_NONE || other->shown))
			return other;
	}
	return NULL;
}

void
shard_read_role_choose(ShardSnapshot *snapshot, List *serverids, Oid userid)
{
	List	   *nodes = NIL;

	if (!may_read_standbys(snapshot))
		return;
	foreach_oid(serverid, serverids)
	{
		ShardNodeSnapshot *seen = shard_snapshot_node(snapshot, serverid, userid);
		const ShardNodeSnapshot *other = chosen_for_other(snapshot, seen);
		ShardReadNode *node;

		/* a statement that has begun to read the primary continues there */
		if (!seen->role_chosen && seen->state == SHARD_SNAPSHOT_NONE && !seen->shown &&
			(other == NULL || other->standby > 0) && (node = make_node(serverid, userid)) != NULL)
		{
			node->only_standby = other ? other->standby : 0;
			nodes = lappend(nodes, node);
		}
		else
			seen->role_chosen = true;
	}
	if (list_length(nodes) > 1)
		foreach_ptr(ShardReadNode, chosen, nodes)
			warm_first(chosen);
	foreach_ptr(ShardReadNode, node, nodes)
	{
		uint32		standby = choose_server(node);
		ShardNodeSnapshot *seen = shard_snapshot_node(snapshot, node->serverid, userid);

		seen->standby = standby;
		seen->role_chosen = true;
	}
}

void
shard_read_role_run_writing(void (*run) (void *arg), void *arg)
{
	int			before = nwriting++;

	PG_TRY();
	{
		run(arg);
	}
	PG_FINALLY();
	{
		nwriting = before;
	}
	PG_END_TRY();
}

void
shard_read_role_placement_changed(void)
{
	placed_at = GetCurrentTimestamp();
}

void
shard_read_role_servers_changed(void)
{
	servers_changed_at = GetCurrentTimestamp();
	shard_position_forget_ends();
}
