/*
 * twophase.c
 *	  Atomic commit over nodes.
 *
 *	 PRE_COMMIT   PREPARE TRANSACTION on all nodes at once, meanwhile
 *				  INSERT INTO shardfdw_internal.commit_log in the local transaction
 *	 local commit is the decision
 *	 COMMIT		  COMMIT PREPARED on all nodes at once, then on other coordinators, the first one last
 *	 or ABORT	  ROLLBACK PREPARED, or ROLLBACK where nothing was prepared
 *
 * A participant is a connection: a node to which the transaction wrote over
 * several of them has as many prepared transactions, which are settled alike.
 *
 * Invariants:
 *
 * 1. The log row of a transaction is visible if and only if it committed: the
 *	  transaction itself inserts it, and only after that may it commit.
 * 2. COMMIT PREPARED is sent only after the local commit is on disk, here and on
 *	  synchronous standbys: the commit is forced to be synchronous, whatever
 *	  synchronous_commit says.  A promoted standby without the row would roll back
 *	  what nodes have prepared, while others have committed.
 * 3. Recovery (service/recover.c) rolls a prepared transaction back when its local
 *	  transaction has ended and the log neither has a row of it nor had one that was
 *	  deleted since (commit_log.c).  No PREPARE can arrive after the log row: the
 *	  local commit waited for all of them.
 * 4. gid = shardfdw:<system identifier>:<database oid>:<identity>:<time>:<xid with epoch>:<n>,
 *	  time in microseconds since 1970.  Only gids of this coordinator's identity
 *	  (identity.c), and of identities that it has taken over, are touched.  A server
 *	  that is a copy of the one which made the identity prepares nothing, and settles
 *	  nothing: it does not know what the original is about to commit.  Nor does
 *	  a coordinator whose nodes have been told of another identity.
 * 5. A gid is never used twice.  The xid alone does not ensure that: after a crash
 *	  an xid of which nothing had reached the disk is given out again, while a node
 *	  keeps what was prepared under its first use.  So n is a random number (the
 *	  token, its low 16 bits zero) plus the connection's number, and the log row has
 *	  the token.
 * 6. Until a session has told all nodes, or given up, nobody else settles its
 *	  transaction.  Others see by the lock on its xid that the session is still at
 *	  work: core releases that lock after the callbacks of commit and abort.  So when
 *	  a node does not know a transaction that it is told to commit, this counts as
 *	  success only if the session has told it so before without getting the answer,
 *	  and if it is still the same server.
 *
 * A changed definition is locked until its transaction ends: here the local one, on other
 * coordinators the prepared one.  These are committed after the nodes: nobody looks for a table,
 * or for a moved shard, that is not there yet.
 *
 * That all nodes have confirmed a commit is noted by the row of the next
 * two-phase commit of the same session, or when the session ends.  Until then the
 * session tells recovery so by a lock (confirmed_lock).  It takes the lock before
 * PREPARE, and releases it when the commit fails or a node has not confirmed it;
 * otherwise it keeps the lock until the row of its next two-phase commit has
 * committed.  What remains after a crash is left to recover_prepared_transactions().
 *
 * After the local commit an error is a PANIC, so nothing there may need memory or
 * file handles, which can run out.  Texts and arrays for the second phase are made
 * before the first one.  Waits are those without errors (wait.h).  A WARNING is
 * short, so that it fits into the memory that core keeps for reports, and has no
 * context.  The end of the postmaster, like a cancel or a termination, makes the
 * wait short; the session ends after the commit.
 *
 * When a connection is lost while PREPARE or COMMIT PREPARED is under way, its
 * outcome is not known: one attempt is made over a new connection
 * (twophase_reconnect.c), else recovery does it.
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
#include "remote/pool/broadcast.h"
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
#define ABORT_HURRY_MS 400		/* the same, when the user has cancelled */
#define RECONNECT_TIMEOUT_MS 3000	/* for all second attempts together: then recovery does it */
#define RECONNECT_HURRY_MS 200	/* the same, when the user has cancelled */

#define TOKEN_LOW_BITS INT64CONST(0xffff)	/* room for the connection's number */
#define MAX_PARTICIPANTS 0xffff	/* their numbers fit into the token's low bits */
#define SETTLE_SQL_BYTES (GIDSIZE + 32)
#define MAX_WARNING_BYTES 512	/* of a node's message in a WARNING after the commit: see above */

/* The current two-phase commit, and the last one that all nodes confirmed. */
static ShardLogKey current;
static ShardLogKey settled = {{0}, 0};
static bool exit_callback_registered = false;
/* This session holds the lock by which recovery sees that the commit is confirmed: confirmed_lock() of the xid. */
static bool holds_current = false;
static bool holds_settled = false;
static uint64 nleft = 0;		/* prepared transactions that commits have left to recovery */
static int	ncommits = 0;		/* since this session has purged the log */

/* For the second phase, allocated before the first one: an entry per participant. */
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

	/* not given out yet: it was, before a crash after which nobody knows of it */
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

	/* it does not run any more, but its session may still be telling the nodes */
	SET_LOCKTAG_TRANSACTION(tag, XidFromFullTransactionId(xid));
	return shard_own_lock_is_held(&tag, ShareLock);
}

/*
 * The lock by which a session shows that all nodes have confirmed xid.  The session holds it in RowExclusiveLock.
 * Recovery tries to get it in ShareLock, which does not conflict with others that try the same.
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
 * Releases the lock of the last commit, unless DISCARD ALL or pg_advisory_unlock_all() has done so: releasing
 * a lock that is not held would be a WARNING.  Never raises.
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

/* Releases the lock of the current commit, which was taken a moment ago.  Never raises. */
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

	/* fails while recovery is trying the same lock: then recovery asks the nodes */
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
 * Raises what went wrong with PREPARE TRANSACTION on item's node, to which the
 * transaction wrote over nsame connections.
 */
static void
raise_not_prepared(ShardBroadcast *item, int nsame)
{
	ShardConn  *conn = item->conn;
	PGresult   *res = item->result;
	int			sqlstate = shard_broadcast_sqlstate(item);
	const char *hint = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_HINT) : NULL;

	item->result = NULL;
	/* prepared transactions are disabled or used up; triggers that are deferred until now may raise the same SQLSTATEs */
	if (hint && strstr(hint, "max_prepared_transactions"))
	{
		char	   *message = shard_error_message(res, conn);

		PQclear(res);
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("node \"%s\" cannot prepare its part of an atomic commit: %s", conn->node, message),
				 errdetail_plural("The commit takes %d prepared transaction there.",
								  "The commit takes %d prepared transactions there.", nsame, nsame),
				 errhint("Set max_prepared_transactions on the node to at least its max_connections, lower shardfdw.max_connections_per_node, or set shardfdw.commit_protocol to '1pc'.")));
	}
	if (sqlstate != 0)
		shard_error_report(ERROR, res, conn, NULL, NULL);
	PQclear(res);
	if (item->done)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("the transaction on node \"%s\" is aborted", conn->node),
				 errdetail("The node answered PREPARE TRANSACTION with ROLLBACK.")));
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("connection to node \"%s\" was lost while it prepared the transaction", conn->node)));
}

/* Has a node prepared?  Where it was asked how far its WAL is, the last answer is the one to that, a row if the transaction is there. */
static bool
is_prepared(const ShardBroadcast *item)
{
	return shard_broadcast_ok(item, item->has_rows ? "SELECT 1" : "PREPARE TRANSACTION");
}

/* Is it a node, and not a coordinator, nor a server that this transaction drops?  add_coordinator() makes a coordinator of a server. */
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
 * Notes in the local transaction how far the WAL of the nodes is, which is on their disks with what they have prepared.  Of nodes behind
 * a pooler that leads to one server or another nothing is known.
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

/* Makes every failure of items one error, after noting what is prepared and what is not. */
static void
check_prepared(ShardBroadcast *items, int nitems)
{
	int			failed = -1;

	for (int i = 0; i < nitems; i++)
	{
		if (is_prepared(&items[i]))
			continue;
		/* surely rolled back, or never sent; of several statements another one may have failed */
		if ((items[i].done && !items[i].has_rows) || !items[i].sent)
			items[i].conn->xact.prepared_gid = NULL;
		if (failed < 0)
			failed = i;
	}
	for (int i = 0; i < nitems; i++)
		if (i != failed)
		{
			PQclear(items[i].result);
			items[i].result = NULL;
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
 * At the session's exit: notes that its last transaction is settled.  Does not wait
 * for the disk: when a crash loses the note, recovery makes it.
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

/* Where no recovery worker runs, a session deletes old rows of the log whenever it has added a tenth of its limit. */
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

/* The row of the current transaction, which says that this session's last one is settled. */
static void
write_log(ShardConn **conns, int nconns, TimestampTz time)
{
	ShardLogNode *nodes = palloc0(nconns * sizeof(ShardLogNode));
	List	   *seen = NIL;		/* serverids: a node is named once */
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

	/* nothing is read with it, but core wants an active snapshot when a row is written */
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

/* Asks the node again which identity is noted there. */
static void
ask_noted(ShardConn *conn)
{
	ShardBroadcast item = {.conn = conn, .sql = psprintf("SELECT %s", shard_connection_note_sql()), .has_rows = true};

	shard_broadcast_start(&item, 1);
	shard_broadcast_finish(&item, 1, -1, SHARD_BROADCAST_RAISE);
	if (shard_broadcast_ok(&item, "SELECT 1") && !PQgetisnull(item.result, 0, 0))
		namestrcpy(&conn->noted_identity, PQgetvalue(item.result, 0, 0));
	shard_broadcast_clear(&item, 1);
}

bool
shard_twophase_is_taken_over(ShardConn *conn)
{
	/* the connection may be older than a take-over by this coordinator */
	if (is_noted_other(conn))
		ask_noted(conn);
	return is_noted_other(conn);
}

/* Raises if another coordinator's identity was noted on a node after ours. */
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
					 errhint("If the other one is not to go on, run SELECT shardfdw.take_over_coordinator() here.")));
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
	ShardBroadcast *items = palloc0(nconns * sizeof(ShardBroadcast));
	TimestampTz now = GetCurrentTimestamp();
	bool		has_positions = has_replicas || shard_node_position_has_references();
	char	   *prefix;

	/* allocated first: an abort needs them as soon as there is a prepared_gid */
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
		/* in the transaction's memory, like conns: needed until it has ended */
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
	pfree(items);
}

/* ---------- second phase ---------- */

static void
warn_not_settled(const ShardBroadcast *item, bool commit)
{
	const char *message = item->result ? PQresultErrorField(item->result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	char		text[MAX_WARNING_BYTES];
	int			elevel = WARNING;

	/* without the postmaster no message is sent to the client, since that may end the process */
	if (commit && !PostmasterIsAlive())
		elevel = LOG;

	if (commit && shard_broadcast_sqlstate(item) == ERRCODE_UNDEFINED_OBJECT)
	{
		ereport(elevel,
				(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
				 errmsg("the transaction is committed, but node \"%s\" does not know it", item->conn->node),
				 errdetail("Somebody else has committed or rolled back prepared transaction \"%s\" there, or the node is another server than before.",
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
			 errhint("Rows are locked there until SELECT shardfdw.recover_prepared_transactions() settles it.")));
}

/*
 * Releases the lock by which PostgreSQL keeps those who notify, in all databases, in the order of their commits,
 * which the local commit has fixed.  It is kept for as long as the fence: so listeners seldom hear of
 * what a node does not show yet.  Never raises.
 */
static void
release_notify_lock(void)
{
	LOCKTAG		tag;

	/* of the resource owner that was, and is, the current one: that of a procedure that commits, maybe */
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, InvalidOid, 0);
	if (shard_lock_held_by_me(&tag, AccessExclusiveLock))
		(void) LockRelease(&tag, AccessExclusiveLock, false);
}

/*
 * The order in which prepared transactions are settled.  The coordinator whose name comes first is the last: locks that
 * others ask for before they look at anything (reference/reference_turn.c) are let go when all is there to be seen.
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

/* Fills settle_items for the conns that have a prepared_gid and are of the stage; the first nitems are filled already. */
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
 * Sends COMMIT PREPARED, or ROLLBACK PREPARED, to all conns that have a
 * prepared_gid.  Returns how many could not be settled.  Never raises.
 */
static int
settle(ShardConn **conns, int nconns, bool commit, long timeout_ms)
{
	ShardBroadcast *items = settle_items;
	ShardBroadcastInterrupt interrupt = commit ? SHARD_BROADCAST_HURRY : SHARD_BROADCAST_IGNORE;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);
	TimestampTz again_deadline;
	int			nnodes = add_items(conns, nconns, 0, commit, SETTLE_NODES);
	int			nothers = add_items(conns, nconns, nnodes, commit, SETTLE_COORDINATORS);
	int			nitems = add_items(conns, nconns, nothers, commit, SETTLE_FIRST_COORDINATOR);
	int			nfailed = 0;

	SHARD_FAULT_POINT(commit ? "commit" : "rollback");
	shard_broadcast_start(items, nnodes);
	SHARD_FAULT_POINT(commit ? "commit_sent" : "rollback_sent");
	if (commit)
	{
		/* cuts, and others who notify, wait for this commit for a bounded time only, even if a node hangs */
		(void) shard_broadcast_wait(items, nnodes, SHARD_FENCE_HOLD_MS, interrupt);
		shard_fence_let_go();
		release_notify_lock();
	}
	shard_broadcast_finish(items, nnodes, timeout_ms, interrupt);
	if (nitems > nnodes)
	{
		SHARD_FAULT_POINT("settle_coordinators");
		shard_broadcast_start(items + nnodes, nothers - nnodes);
		shard_broadcast_finish(items + nnodes, nothers - nnodes, Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)), interrupt);
		SHARD_FAULT_POINT("settle_first_coordinator");
		shard_broadcast_start(items + nothers, nitems - nothers);
		shard_broadcast_finish(items + nothers, nitems - nothers, Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)), interrupt);
	}
	SHARD_FAULT_POINT(commit ? "committed" : "rolled_back");

	/* a late cancel request may have hit this command instead of the one it was meant for */
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

		/* it had never been prepared */
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
				shard_committed_doubt();	/* recovery will commit it, some time */
			warn_not_settled(&items[i], commit);
			nfailed++;
		}
	}
	shard_broadcast_clear(items, nitems);
	return nfailed;
}

void
shard_twophase_commit(ShardConn **conns, int nconns)
{
	int			nfailed;

	release_settled();			/* the row that has just committed says from now on that it is settled */
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
		/* an answer may be under way; nobody reads it, so the connection cannot be used again */
		if (conns[i]->xact.prepared_gid)
		{
			shard_committed_doubt();
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
	 * Where PREPARE is still under way it is cancelled; whether that came in
	 * time shows in the state of the transaction.
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
			if (!shard_connection_exec_noerror(conn, "ROLLBACK", Max(100, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline))))
				conn->state = SHARD_CONN_BROKEN;
			conn->xact.prepared_gid = NULL;
		}
	}
	release_current();
	(void) settle(conns, nconns, false, Max(hurry ? 100 : 1000, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)));
	for (int i = 0; i < nconns; i++)
		conns[i]->xact.prepared_gid = NULL;
}
