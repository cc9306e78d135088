/*
 * twophase.c
 *	  Atomic commit over nodes.
 *
 *	 PRE_COMMIT   PREPARE TRANSACTION on all nodes in parallel; at the same time
 *				  INSERT INTO shardfdw_internal.commit_log in the local transaction
 *	 local commit is the decision
 *	 COMMIT		  COMMIT PREPARED on all nodes in parallel, then on other coordinators, the first one last
 *	 or ABORT	  ROLLBACK PREPARED, or ROLLBACK where nothing was prepared
 *
 * A participant is a connection.  If a transaction wrote to a node over several connections, the
 * node has a prepared transaction for each of them.  All get the same outcome.
 *
 * Invariants:
 *
 * 1. The log row of a transaction is visible if and only if the transaction has committed.  The
 *	  transaction itself inserts the row, and may commit only after that.
 * 2. COMMIT PREPARED is sent only after the local commit is on disk, here and on synchronous
 *	  standbys.  The commit is forced to be synchronous, whatever synchronous_commit says.
 *	  Otherwise a promoted standby without the row would roll back transactions that some nodes have
 *	  already committed.
 * 3. Recovery (service/recover.c) rolls a prepared transaction back if its local transaction has
 *	  ended, and if the log has no row of it and has not deleted one (commit_log.c).  A PREPARE
 *	  cannot arrive after the log row has become visible, since the local commit waits for all of
 *	  them.
 *
 * 4. gid = shardfdw:<system identifier>:<database oid>:<identity>:<time>:<xid with epoch>:<n>,
 *	  time in microseconds since 1970.  A coordinator touches only gids with its
 *	  identity (identity.c), or with identities that it has taken over.  A clone of the
 *	  server that made the identity prepares and resolves nothing, because it cannot see
 *	  what the original is about to commit.  A coordinator whose nodes have noted another
 *	  identity prepares and resolves nothing, either.
 * 5. A gid is never used twice.  The xid alone does not ensure that: if nothing of an xid had
 *	  reached the disk before a crash, the xid is assigned again, while a node may still have a
 *	  transaction prepared with its first use.  So n is a random number (the token, whose low 16
 *	  bits are zero) plus the number of the connection.  The log row contains the token.
 * 6. Until a session has told all nodes, or has given up, no other session resolves its
 *	  transaction.  Others detect a session that is still working by the lock on its xid, which core
 *	  releases after the commit and abort callbacks.  A node may not have a transaction that it is
 *	  told to commit.  This counts as success only if the session has sent the command before
 *	  without getting the answer, and if the server is still the same.
 *
 * A changed definition is locked until its transaction ends: the local transaction here, the
 * prepared transactions on other coordinators.  The other coordinators commit after the nodes.  So
 * no session looks for a table or a moved shard that does not exist yet.
 *
 * The confirmation that all nodes have committed is written with the row of the session's next
 * two-phase commit, or when the session ends.  Until then a lock (confirmed_lock) tells recovery
 * about the confirmation.  The session takes the lock before PREPARE.  It releases the lock if the
 * commit fails or a node does not confirm it.  Otherwise it keeps the lock until the row of its
 * next two-phase commit has committed.  What remains after a crash is left to
 * recover_prepared_transactions().
 *
 * After the local commit an error is a PANIC.  So that code must not need memory or file handles,
 * which can run out.  Texts and arrays for the second phase are allocated before the first one.
 * The waits are those that raise no errors (wait.h).  A WARNING has no context and is short, so
 * that it fits into the memory that core reserves for error reports.  A cancel, a termination or
 * the death of the postmaster shortens the wait; the session ends after the commit.
 *
 * If a connection is lost during PREPARE or COMMIT PREPARED, the outcome is unknown.  One attempt
 * is made over a new connection (twophase_reconnect.c).  After that it is left to recovery.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "commit_log.h"
#include "compat.h"
#include "fault.h"
#include "flush_commit.h"
#include "foreign/foreign.h"
#include "guc.h"
#include "identity.h"
#include "miscadmin.h"
#include "node_position.h"
#include "own_lock.h"
#include "remote/wire/broadcast.h"
#include "remote/wire/error.h"
#include "remote/wire/node_stat.h"
#include "remote/wire/position.h"
#include "remote/xact/committed.h"
#include "remote/xact/fence.h"
#include "remote/xact/twophase.h"
#include "remote/xact/twophase_reconnect.h"
#include "remote/wire/wait.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define COMMIT_TIMEOUT_MS 30000 /* for COMMIT PREPARED on all nodes */
#define ABORT_TIMEOUT_MS 10000	/* for ROLLBACK PREPARED on all nodes */
#define ABORT_HURRY_MS 400		/* the same, if the user has cancelled */
#define RECONNECT_TIMEOUT_MS 3000	/* for all second attempts together; then recovery does it */
#define RECONNECT_HURRY_MS 200	/* the same, if the user has cancelled */

#define TOKEN_LOW_BITS INT64CONST(0xffff)	/* room for the connection's number */
#define MAX_PARTICIPANTS 0xffff	/* their numbers fit into the token's low bits */
#define SETTLE_SQL_BYTES (GIDSIZE + 32)
#define MAX_WARNING_BYTES 512	/* of a node's message in a WARNING after the commit, see above */

/* The current two-phase commit, and the last one that all nodes have confirmed. */
static ShardLogKey current;
static ShardLogKey settled = {{0}, 0};
static bool exit_callback_registered = false;
/* Does this session hold the lock confirmed_lock() of the xid, which tells recovery that the commit is confirmed? */
static bool holds_current = false;
static bool holds_settled = false;
static uint64 nleft = 0;		/* prepared transactions that commits have left to recovery */
static int	ncommits = 0;		/* since this session has last purged the log */

/* For the second phase, allocated before the first one.  One entry per participant. */
static ShardBroadcast *settle_items;
static char (*settle_sql)[SETTLE_SQL_BYTES];

/* ---------- identifiers ---------- */

#define EPOCH_US ((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

char *
shard_twophase_gid_prefix(void)
{
	return psprintf(SHARD_GID_PREFIX UINT64_FORMAT ":%u:", GetSystemIdentifier(), MyDatabaseId);
}

bool
shard_twophase_read_gid(const char *gid, ShardGid *parts)
{
	const char *digits = "0123456789";
	unsigned long long numbers[5];
	int			n = 0;

	if (strncmp(gid, SHARD_GID_PREFIX, strlen(SHARD_GID_PREFIX)) != 0)
		return false;
	gid += strlen(SHARD_GID_PREFIX);
	for (int field = 0; field < 6; field++)
	{
		bool		is_identity = field == 2;
		size_t		len = strspn(gid, is_identity ? "0123456789abcdef" : digits);

		if (len == 0 || len > 20 || gid[len] != (field < 5 ? ':' : '\0') ||
			(is_identity && len != SHARD_IDENTITY_LEN))
			return false;
		if (is_identity)
			strlcpy(parts->identity, gid, SHARD_IDENTITY_LEN + 1);
		else
		{
			errno = 0;
			numbers[n++] = strtoull(gid, NULL, 10);
			if (errno != 0)
				return false;
		}
		gid += len + 1;
	}
	if (numbers[1] > OID_MAX || numbers[2] > PG_INT64_MAX || numbers[4] > PG_INT64_MAX)
		return false;
	parts->system_identifier = numbers[0];
	parts->database = (Oid) numbers[1];
	parts->time = (TimestampTz) numbers[2] - EPOCH_US;
	parts->key.xid = FullTransactionIdFromU64(numbers[3]);
	parts->key.token = (int64) numbers[4] & ~TOKEN_LOW_BITS;
	return true;
}

bool
shard_twophase_parse_gid(const char *gid, ShardLogKey *key)
{
	ShardGid	parts;

	if (!shard_twophase_read_gid(gid, &parts) || !shard_identity_is_confirmed() ||
		shard_identity_relation(parts.system_identifier, parts.database, parts.identity) == SHARD_IDENTITY_OTHER)
		return false;
	*key = parts.key;
	return true;
}

bool
shard_twophase_is_undecided(FullTransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();

	/* xid is not assigned: it was assigned before a crash, of which this server has no trace */
	if (!FullTransactionIdPrecedes(xid, next))
		return false;
	if (U64FromFullTransactionId(next) - U64FromFullTransactionId(xid) > MaxTransactionId / 2)
		return false;
	return TransactionIdIsInProgress(XidFromFullTransactionId(xid));
}

bool
shard_twophase_is_running(FullTransactionId xid)
{
	LOCKTAG		tag;

	if (shard_twophase_is_undecided(xid))
		return true;
	if (!FullTransactionIdPrecedes(xid, ReadNextFullTransactionId()))
		return false;

	/* the transaction has ended, but its session may still be telling the nodes */
	SET_LOCKTAG_TRANSACTION(tag, XidFromFullTransactionId(xid));
	return shard_own_lock_is_held(&tag, ShareLock);
}

/*
 * The lock that tells recovery that all nodes have confirmed xid.  The session holds it in mode
 * RowExclusiveLock.  Recovery tries to get it in mode ShareLock, which does not conflict with other
 * sessions that try the same.
 */
static LOCKTAG
confirmed_lock(FullTransactionId xid)
{
	return shard_own_lock(SHARD_LOCK_CONFIRMED, EpochFromFullTransactionId(xid), XidFromFullTransactionId(xid));
}

bool
shard_twophase_is_confirmed(FullTransactionId xid)
{
	LOCKTAG		tag = confirmed_lock(xid);

	return shard_own_lock_is_held(&tag, ShareLock);
}

/*
 * Releases the lock of the last commit.  DISCARD ALL or pg_advisory_unlock_all() may have released
 * it already; LockRelease() of a lock that is not held would raise a WARNING.  Never raises.
 */
static void
release_settled(void)
{
	LOCKTAG		tag = confirmed_lock(settled.xid);

	if (holds_settled && shard_lock_held_by_me(&tag, RowExclusiveLock))
		(void) LockRelease(&tag, RowExclusiveLock, true);
	holds_settled = false;
	settled.xid = InvalidFullTransactionId;
}

/* Releases the lock of the current commit.  Never raises. */
static void
release_current(void)
{
	LOCKTAG		tag = confirmed_lock(current.xid);

	if (holds_current)
		(void) LockRelease(&tag, RowExclusiveLock, true);
	holds_current = false;
}

static void
take_current(void)
{
	LOCKTAG		tag = confirmed_lock(current.xid);

	/* not available while recovery tries the same lock; then recovery asks the nodes */
	holds_current = LockAcquire(&tag, RowExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

static int64
new_token(void)
{
	uint64		token;

	if (!pg_strong_random(&token, sizeof(token)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	return (int64) (token & PG_INT64_MAX) & ~TOKEN_LOW_BITS;
}

/* ---------- first phase ---------- */

/*
 * Raises the error of PREPARE TRANSACTION on item's node. nsame: number of connections over which
 * the transaction wrote to the node.
 */
static void
raise_not_prepared(ShardBroadcast *item, int nsame)
{
	ShardConn  *conn = item->conn;
	int			sqlstate = shard_broadcast_sqlstate(item);
	const char *hint = item->result ? PQresultErrorField(item->result, PG_DIAG_MESSAGE_HINT) : NULL;

	/*
	 * prepared transactions are disabled or used up; deferred triggers may raise the same
	 * SQLSTATEs, so check the hint
	 */
	if (hint && strstr(hint, "max_prepared_transactions"))
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("node \"%s\" cannot prepare its part of an atomic commit: %s", conn->node, shard_error_message(item->result, conn)),
				 errdetail_plural("The commit takes %d prepared transaction there.",
								  "The commit takes %d prepared transactions there.", nsame, nsame),
				 errhint("Set max_prepared_transactions on the node to at least its max_connections, or lower shardfdw.max_connections_per_node.")));
	if (sqlstate != 0)
		(void) shard_broadcast_check(item, NULL, NULL);
	if (item->done)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on node \"%s\" is aborted", conn->node),
				 errdetail("The node answered PREPARE TRANSACTION with ROLLBACK.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("connection to node \"%s\" was lost while it prepared the transaction", conn->node)));
}

/*
 * Has item's node prepared?  If its message also asked for the WAL position, the last answer is the
 * one to that question: a row if the prepared transaction exists.
 */
static bool
is_prepared(const ShardBroadcast *item)
{
	return shard_broadcast_ok(item, item->has_rows ? "SELECT 1" : "PREPARE TRANSACTION");
}

/*
 * Is conn's server a node?  False for a coordinator and for a server that this transaction drops.
 * add_coordinator() turns a server into a coordinator.
 */
static bool
is_node(const ShardConn *conn)
{
	ForeignServer *server = GetForeignServerExtended(conn->serverid, FSV_MISSING_OK);
	ListCell   *lc;

	if (server == NULL)
		return false;
	foreach(lc, server->options)
	{
		if (strcmp(((DefElem *) lfirst(lc))->defname, "coordinator") == 0)
			return false;
	}
	return true;
}

/*
 * Writes the WAL positions of the nodes in the local transaction.  A position is the flushed one,
 * so it covers what the node has prepared.  Skips nodes whose server is unknown, since a pooler may
 * connect to different servers.
 */
static void
write_positions(const ShardBroadcast *items, int nitems, bool has_replicas)
{
	bool		has_references = shard_node_position_has_references() && !shard_node_position_forget_references();

	for (int i = 0; i < nitems; i++)
	{
		const ShardConn *conn = items[i].conn;
		ShardNodePosition position = {conn->server.system_identifier, conn->database, conn->server.timeline, InvalidXLogRecPtr};

		if (!items[i].has_rows || !is_prepared(&items[i]) || position.timeline == 0 ||
			!shard_position_parse_lsn(PQgetvalue(items[i].result, 0, 0), &position.lsn))
			continue;
		if (has_replicas)
			shard_node_position_write(conn->node, SHARD_POSITION_REPLICAS, &position);
		if (has_references)
			shard_node_position_write(conn->node, SHARD_POSITION_REFERENCES, &position);
	}
}

/* Records which connections have prepared, then raises one error for all failed items. */
static void
check_prepared(ShardBroadcast *items, int nitems)
{
	int			failed = -1;

	for (int i = 0; i < nitems; i++)
	{
		if (is_prepared(&items[i]))
			continue;
		/* rolled back for certain, or never sent; of several statements another one may have failed */
		if ((items[i].done && !items[i].has_rows) || !items[i].sent)
			items[i].conn->xact.prepared_gid = NULL;
		if (failed < 0)
			failed = i;
	}
	if (failed >= 0)
	{
		int			nsame = 0;

		for (int i = 0; i < nitems; i++)
			if (items[i].conn->serverid == items[failed].conn->serverid)
				nsame++;
		raise_not_prepared(&items[failed], nsame);
	}
}

/*
 * At the exit of the session: writes that its last transaction is confirmed.  Does not wait for the
 * disk.  If a crash loses this, recovery asks the nodes again.
 */
static void
note_at_exit(int code, Datum arg)
{
	if (code != 0 || !FullTransactionIdIsValid(settled.xid))
		return;
	AbortOutOfAnyTransaction();
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) shard_commit_log_settle(settled, NULL);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * If no recovery worker runs, deletes old rows of the log.  Runs each time this session has added a
 * tenth of the log's limit.
 */
static void
purge_now_and_then(void)
{
	if (shard_guc_preloaded && shard_guc_recovery_interval_s > 0)
		return;
	if (++ncommits < Max(1000, shard_guc_commit_log_max_rows / 10))
		return;
	ncommits = 0;
	shard_commit_log_purge();
}

/*
 * Writes the log row of the current transaction.  The row also says that this session's last
 * transaction is confirmed.
 */
static void
write_log(ShardConn **conns, int nconns, TimestampTz time)
{
	ShardLogNode *nodes = palloc0(nconns * sizeof(ShardLogNode));
	List	   *seen = NIL;		/* serverids: a node is listed once */
	int			nnodes = 0;

	for (int i = 0; i < nconns; i++)
	{
		const ShardConnServer *server = &conns[i]->server;

		if (list_member_oid(seen, conns[i]->serverid))
			continue;
		seen = lappend_oid(seen, conns[i]->serverid);
		nodes[nnodes].name = conns[i]->node;
		nodes[nnodes].timeline = server->timeline;
		nodes[nnodes].system_identifier = server->system_identifier;
		nodes[nnodes++].database = NameStr(server->database);
	}

	/* inserting reads nothing with it, but core requires an active snapshot */
	PushActiveSnapshot(GetTransactionSnapshot());
	purge_now_and_then();
	shard_commit_log_insert(current, time, nodes, nnodes, settled);
	PopActiveSnapshot();
	list_free(seen);
	pfree(nodes);
}

static bool
is_noted_other(const ShardConn *conn)
{
	const char *noted = NameStr(conn->noted_identity);

	return noted[0] != '\0' && shard_identity_noted_relation(noted) == SHARD_IDENTITY_OTHER;
}

/* Asks the node again which identity it has noted. */
static void
ask_noted(ShardConn *conn)
{
	ShardBroadcast *item = shard_broadcast_create(1);

	item->conn = conn;
	item->sql = psprintf("SELECT %s", shard_connection_note_sql());
	item->has_rows = true;
	shard_broadcast_start(item, 1);
	shard_broadcast_finish(item, 1, -1, SHARD_BROADCAST_RAISE);
	if (shard_broadcast_ok(item, "SELECT 1") && !PQgetisnull(item->result, 0, 0))
		namestrcpy(&conn->noted_identity, PQgetvalue(item->result, 0, 0));
	shard_broadcast_free(item);
}

bool
shard_twophase_is_taken_over(ShardConn *conn)
{
	/* the connection may have been opened before this coordinator took over */
	if (is_noted_other(conn))
		ask_noted(conn);
	return is_noted_other(conn);
}

/* Raises if a node has noted the identity of another coordinator after ours. */
static void
check_noted(ShardConn **conns, int nconns)
{
	for (int i = 0; i < nconns; i++)
	{
		if (shard_twophase_is_taken_over(conns[i]))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("node \"%s\" has been taken over by another coordinator", conns[i]->node),
					 errdetail("The identity of this coordinator is \"%s\", the one noted on the node is \"%s\".",
							   shard_identity_get(), shard_error_clean_text(NameStr(conns[i]->noted_identity))),
					 errhint("If the other one is not to go on, run SELECT shardfdw.promote_coordinator() here.")));
	}
}

void
shard_twophase_require_coordinator(ShardConn **conns, int nconns)
{
	shard_identity_require();
	check_noted(conns, nconns);
}

void
shard_twophase_prepare(ShardConn **conns, int nconns, bool has_replicas)
{
	ShardBroadcast *items = shard_broadcast_create(nconns);
	TimestampTz now = GetCurrentTimestamp();
	bool		has_positions = has_replicas || shard_node_position_has_references();
	char	   *prefix;

	/* allocated first, since an abort needs them as soon as there is a prepared_gid */
	settle_items = MemoryContextAlloc(TopTransactionContext, nconns * sizeof(ShardBroadcast));
	settle_sql = MemoryContextAlloc(TopTransactionContext, nconns * SETTLE_SQL_BYTES);
	if (nconns > MAX_PARTICIPANTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a transaction cannot commit over more than %d connections", MAX_PARTICIPANTS)));
	current.xid = GetTopFullTransactionId();
	current.token = new_token();
	prefix = psprintf("%s%s:" INT64_FORMAT ":" UINT64_FORMAT ":", shard_twophase_gid_prefix(), shard_identity_get(),
					  (int64) (now + EPOCH_US), U64FromFullTransactionId(current.xid));
	if (!exit_callback_registered)
	{
		before_shmem_exit(note_at_exit, (Datum) 0);
		exit_callback_registered = true;
	}

	for (int i = 0; i < nconns; i++)
	{
		/* in the transaction's memory, like conns, since it is needed until the transaction has ended */
		char	   *gid = MemoryContextStrdup(TopTransactionContext,
											  psprintf("%s" INT64_FORMAT, prefix, current.token + i + 1));

		items[i].conn = conns[i];
		items[i].has_rows = has_positions && is_node(conns[i]);
		items[i].sql = items[i].has_rows ?
			psprintf("PREPARE TRANSACTION '%s'; SELECT pg_catalog.pg_current_wal_flush_lsn() FROM pg_catalog.pg_prepared_xact() WHERE gid OPERATOR(pg_catalog.=) '%s'", gid, gid) :
			psprintf("PREPARE TRANSACTION '%s'", gid);
		conns[i]->xact.prepared_gid = gid;
	}

	take_current();
	shard_flush_commit_force();
	SHARD_FAULT_POINT("prepare");
	shard_broadcast_start(items, nconns);
	SHARD_FAULT_POINT("prepare_sent");
	write_log(conns, nconns, now);
	shard_broadcast_finish(items, nconns, -1, SHARD_BROADCAST_RAISE);
	if (has_positions)
		write_positions(items, nconns, has_replicas);
	check_prepared(items, nconns);
	SHARD_FAULT_POINT("prepared");

	for (int i = 0; i < nconns; i++)
	{
		conns[i]->xact.state = SHARD_XACT_NONE;
		conns[i]->xact.depth = 0;
	}
	shard_broadcast_free(items);
}

/* ---------- second phase ---------- */

static void
warn_not_settled(const ShardBroadcast *item, bool commit)
{
	const char *message = item->result ? PQresultErrorField(item->result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	char		text[MAX_WARNING_BYTES];
	int			elevel = WARNING;

	/* without the postmaster no message goes to the client, since sending it may end the process */
	if (commit && !PostmasterIsAlive())
		elevel = LOG;

	if (commit && shard_broadcast_sqlstate(item) == ERRCODE_UNDEFINED_OBJECT)
	{
		ereport(elevel,
				(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
				 errmsg("the transaction is committed, but node \"%s\" does not know it", item->conn->node),
				 errdetail("Another session has committed or rolled back prepared transaction \"%s\" there, or the node is another server than before.",
						   item->conn->xact.prepared_gid),
				 errhint("SELECT shardfdw.recover_prepared_transactions() says what can be known.")));
		return;
	}
	if (message)
		shard_error_copy_text(message, text, sizeof(text));
	ereport(elevel,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 commit ?
			 errmsg("the transaction is committed, but node \"%s\" has not confirmed it", item->conn->node) :
			 errmsg("the transaction is rolled back, but may still be prepared on node \"%s\"", item->conn->node),
			 message ? errdetail_internal("%s", text) : 0,
			 errhint("Rows are locked there until SELECT shardfdw.recover_prepared_transactions() resolves it.")));
}

/*
 * Releases the lock with which PostgreSQL keeps notifying sessions of all databases in the order of
 * their commits.  The local commit has fixed that order.  The lock is kept as long as the snapshot
 * barrier, so that listeners rarely get a notification before the nodes show the commit.  Never
 * raises.
 */
static void
release_notify_lock(void)
{
	LOCKTAG		tag;

	/* the current resource owner took it, perhaps that of a procedure that commits */
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	if (shard_lock_held_by_me(&tag, AccessExclusiveLock))
		(void) LockRelease(&tag, AccessExclusiveLock, false);
}

/*
 * The order in which prepared transactions are committed or rolled back.  The coordinator whose
 * name comes first is the last.  Other sessions wait for locks there before they read anything
 * (reference/reference_turn.c).  These locks are released when everything is visible.
 */
typedef enum SettleStage
{
	SETTLE_NODES,
	SETTLE_COORDINATORS,
	SETTLE_FIRST_COORDINATOR
} SettleStage;

static const char *
first_coordinator(ShardConn **conns, int nconns)
{
	const char *first = NULL;

	for (int i = 0; i < nconns; i++)
		if (conns[i]->is_coordinator && (first == NULL || strcmp(conns[i]->node, first) < 0))
			first = conns[i]->node;
	return first;
}

/*
 * Fills settle_items for those conns that have a prepared_gid and belong to stage.  The first
 * nitems are already filled.  Returns the new number.
 */
static int
add_items(ShardConn **conns, int nconns, int nitems, bool commit, SettleStage stage)
{
	const char *first = first_coordinator(conns, nconns);

	for (int i = 0; i < nconns; i++)
	{
		SettleStage its = !conns[i]->is_coordinator ? SETTLE_NODES :
			strcmp(conns[i]->node, first) == 0 ? SETTLE_FIRST_COORDINATOR : SETTLE_COORDINATORS;

		if (!conns[i]->xact.prepared_gid || its != stage)
			continue;
		snprintf(settle_sql[nitems], SETTLE_SQL_BYTES, "%s PREPARED '%s'", commit ? "COMMIT" : "ROLLBACK",
				 conns[i]->xact.prepared_gid);
		memset(&settle_items[nitems], 0, sizeof(ShardBroadcast));
		settle_items[nitems].conn = conns[i];
		settle_items[nitems].sql = settle_sql[nitems];
		nitems++;
	}
	return nitems;
}

/*
 * Waits for the answers of items, which have been sent, and sends again what got no answer or was
 * canceled.  Returns the number of failures.  Never raises.
 */
static int
finish_settling(ShardBroadcast *items, int nitems, bool commit, long timeout_ms)
{
	ShardBroadcastInterrupt interrupt = commit ? SHARD_BROADCAST_HURRY : SHARD_BROADCAST_IGNORE;
	TimestampTz again_deadline;
	int			nfailed = 0;

	shard_broadcast_finish(items, nitems, timeout_ms, interrupt);

	/* a late cancel request may have hit this command instead of an earlier one */
	for (int i = 0; i < nitems; i++)
		if (shard_broadcast_sqlstate(&items[i]) == ERRCODE_QUERY_CANCELED)
		{
			shard_broadcast_clear(&items[i], 1);
			shard_broadcast_start(&items[i], 1);
			shard_broadcast_finish(&items[i], 1, timeout_ms, interrupt);
		}

	again_deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												 shard_wait_interrupted ? RECONNECT_HURRY_MS : RECONNECT_TIMEOUT_MS);
	for (int i = 0; i < nitems; i++)
	{
		bool		is_settled = shard_broadcast_ok(&items[i], NULL) ||

		/* it was never prepared */
			(!commit && shard_broadcast_sqlstate(&items[i]) == ERRCODE_UNDEFINED_OBJECT);

		if (!is_settled && !items[i].done)
			is_settled = shard_twophase_settle_over_new_connection(items[i].conn, items[i].sql, commit && items[i].sent, again_deadline);
		if (is_settled && commit)
		{
			shard_node_stat_add(items[i].conn->stat_node, SHARD_NODE_TWO_PHASE_COMMITS, 1);
			shard_committed_note(items[i].conn->serverid, items[i].conn);
		}
		if (!is_settled)
		{
			if (commit)
				shard_committed_doubt(items[i].conn->serverid);	/* recovery will commit it later */
			warn_not_settled(&items[i], commit);
			nfailed++;
		}
	}
	shard_broadcast_clear(items, nitems);
	return nfailed;
}

/*
 * A node has not confirmed the commit.  Tells other coordinators, before they commit, that nodes may
 * have transactions left: their sessions then check what they read (deparse/table_check.c).  Those
 * that do not answer are left to recovery.  Returns their number.  Never raises.
 */
static int
doubt_on_coordinators(ShardConn **conns, int nconns, TimestampTz deadline)
{
	int			nfailed = 0;

	for (int i = 0; i < nconns; i++)
	{
		ShardBroadcast item = {.conn = conns[i]};

		if (!conns[i]->xact.prepared_gid || !conns[i]->is_coordinator ||
			shard_broadcast_exec_noerror(conns[i], SHARD_DOUBT_SQL, Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline))))
			continue;
		conns[i]->state = SHARD_CONN_BROKEN;
		shard_committed_doubt(conns[i]->serverid);
		warn_not_settled(&item, true);
		conns[i]->xact.prepared_gid = NULL;
		nfailed++;
	}
	return nfailed;
}

/*
 * Sends COMMIT PREPARED or ROLLBACK PREPARED to all conns that have a prepared_gid, first to nodes.
 * Returns the number of those that have not confirmed.  Never raises.
 */
static int
settle(ShardConn **conns, int nconns, bool commit, long timeout_ms)
{
	ShardBroadcast *items = settle_items;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	int			nnodes = add_items(conns, nconns, 0, commit, SETTLE_NODES);
	int			nothers;
	int			nitems;
	int			nfailed;

	SHARD_FAULT_POINT(commit ? "commit" : "rollback");
	shard_broadcast_start(items, nnodes);
	SHARD_FAULT_POINT(commit ? "commit_sent" : "rollback_sent");
	if (commit)
	{
		/*
		 * even if a node hangs, cluster snapshots and notifying sessions wait for this commit only
		 * for a bounded time
		 */
		(void) shard_broadcast_wait(items, nnodes, SHARD_FENCE_HOLD_MS, SHARD_BROADCAST_HURRY);
		shard_fence_let_go();
		release_notify_lock();
	}
	nfailed = finish_settling(items, nnodes, commit, timeout_ms);
	if (commit && nfailed > 0)
		nfailed += doubt_on_coordinators(conns, nconns, deadline);
	nothers = add_items(conns, nconns, nnodes, commit, SETTLE_COORDINATORS);
	nitems = add_items(conns, nconns, nothers, commit, SETTLE_FIRST_COORDINATOR);
	if (nitems > nnodes)
	{
		SHARD_FAULT_POINT("settle_coordinators");
		shard_broadcast_start(items + nnodes, nothers - nnodes);
		nfailed += finish_settling(items + nnodes, nothers - nnodes, commit,
								   Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)));
		SHARD_FAULT_POINT("settle_first_coordinator");
		shard_broadcast_start(items + nothers, nitems - nothers);
		nfailed += finish_settling(items + nothers, nitems - nothers, commit,
								   Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)));
	}
	SHARD_FAULT_POINT(commit ? "committed" : "rolled_back");
	return nfailed;
}

void
shard_twophase_commit(ShardConn **conns, int nconns)
{
	int			nfailed;

	release_settled();			/* the row that has just committed says that the last one is confirmed */
	nfailed = settle(conns, nconns, true, COMMIT_TIMEOUT_MS);
	nleft += nfailed;
	if (nfailed == 0)
	{
		settled = current;
		holds_settled = holds_current;
		holds_current = false;
	}
	else
		release_current();
	for (int i = 0; i < nconns; i++)
		conns[i]->xact.prepared_gid = NULL;
}

void
shard_twophase_leave(ShardConn **conns, int nconns)
{
	for (int i = 0; i < nconns; i++)
	{
		/* an answer may be on its way; as it will not be read, the connection cannot be used again */
		if (conns[i]->xact.prepared_gid)
		{
			shard_committed_doubt(conns[i]->serverid);
			conns[i]->state = SHARD_CONN_BROKEN;
			nleft++;
		}
		conns[i]->xact.prepared_gid = NULL;
	}
	release_current();
}

uint64
shard_twophase_count_left(void)
{
	return nleft;
}

void
shard_twophase_abort(ShardConn **conns, int nconns)
{
	bool		hurry = shard_wait_interrupted;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													   hurry ? ABORT_HURRY_MS : ABORT_TIMEOUT_MS);

	/*
	 * If PREPARE is still running, it is cancelled.  The state of the transaction then shows
	 * whether the cancel came in time.
	 */
	for (int i = 0; i < nconns; i++)
	{
		ShardConn  *conn = conns[i];
		PGTransactionStatusType status;

		if (!conn->xact.prepared_gid || conn->state != SHARD_CONN_READY)
			continue;
		status = PQtransactionStatus(conn->pg);
		if (status == PQTRANS_ACTIVE)
		{
			if (!shard_connection_cancel_noerror(conn, Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline))))
				continue;
			status = PQtransactionStatus(conn->pg);
		}
		if (status == PQTRANS_INTRANS || status == PQTRANS_INERROR)
		{
			if (!shard_broadcast_exec_noerror(conn, "ROLLBACK", Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline))))
				conn->state = SHARD_CONN_BROKEN;
			conn->xact.prepared_gid = NULL;
		}
	}
	release_current();
	(void) settle(conns, nconns, false, Max(hurry ? 100 : 1000, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)));
	for (int i = 0; i < nconns; i++)
		conns[i]->xact.prepared_gid = NULL;
}
