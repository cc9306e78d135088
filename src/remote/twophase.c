/*
 * twophase.c
 *	  Atomic commit over nodes.
 *
 *	 PRE_COMMIT   PREPARE TRANSACTION on all nodes at once, meanwhile
 *				  INSERT INTO shardfdw.commit_log in the local transaction
 *	 local commit is the decision
 *	 COMMIT		  COMMIT PREPARED on all nodes at once
 *	 or ABORT	  ROLLBACK PREPARED, or ROLLBACK where nothing was prepared
 *
 * A participant is a connection: a node to which the transaction wrote over
 * several of them has as many prepared transactions, which are settled alike.
 *
 * Invariants:
 *
 * 1. The log row of a transaction is visible if and only if it committed: the
 *	  transaction itself inserts it, and only after that may it commit.
 * 2. COMMIT PREPARED is sent only after the local commit is on disk: the
 *	  commit is forced to be synchronous, whatever synchronous_commit says.
 * 3. A prepared transaction whose local transaction neither runs nor has a log
 *	  row is rolled back (ddl/recover.c).  So a row is deleted only when every
 *	  node has confirmed COMMIT PREPARED, or when no node has anything left of
 *	  the transaction and none of them was promoted since it prepared (that is
 *	  reported: a standby may not have received it).  No PREPARE can come late then: the local commit waited
 *	  for all of them.
 * 4. gid = shardfdw:<system identifier>:<database oid>:<xid with epoch>:<n>.
 *	  Only gids with this system's and this database's prefix are touched.
 * 5. A gid is never used twice.  The xid alone does not give that: after a
 *	  crash an xid can be given out again of which nothing had reached the disk,
 *	  while a node keeps what was prepared for its first user.  So n is a random
 *	  number (the token, its low 16 bits zero) plus the connection's number, and
 *	  the log row has the token.
 *
 * The row of a transaction all of whose nodes have confirmed is deleted by the
 * next two-phase commit of the same session, or when the session ends, so the
 * log has no more rows than there are sessions.  What remains after a crash is
 * left to recover().
 *
 * After the local commit an error is a PANIC, so nothing there may need what can
 * run out.  Texts and arrays for the second phase are made before the first one.
 * Waits are those without errors (wait.h), which need neither memory nor a file
 * handle.  A WARNING is short, so that it fits into the memory that core keeps for
 * reports, and has no context.  The end of the postmaster, like a cancel or a
 * termination, makes the wait short; the session ends behind the commit.
 *
 * When a connection is lost while PREPARE or COMMIT PREPARED is under way, its
 * outcome is not known.  One attempt is made over a new connection to the same
 * address (catalogs cannot be read at that point); else recovery does it.  Recovery
 * alone would do: but a node whose sessions were terminated, or that has
 * restarted, takes a new one at once, and a WARNING to the client of what is
 * settled a moment later, and rows locked until then, are worse than a few lines
 * here.  It is not made where it could block: names are not resolved again, and
 * encryption by GSSAPI is left out.  All attempts of a transaction share one deadline.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "commit_log.h"
#include "fault.h"
#include "libpq/pqcomm.h"
#include "miscadmin.h"
#include "remote/broadcast.h"
#include "remote/error.h"
#include "remote/twophase.h"
#include "remote/wait.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#define COMMIT_TIMEOUT_MS 30000 /* for COMMIT PREPARED on all nodes */
#define ABORT_TIMEOUT_MS 10000	/* for ROLLBACK PREPARED on all nodes */
#define ABORT_HURRY_MS 400		/* the same, when the user has cancelled */
#define RECONNECT_TIMEOUT_MS 3000	/* for all second attempts together */
#define RECONNECT_HURRY_MS 200

#define TOKEN_LOW_BITS INT64CONST(0xffff)	/* room for the connection's number */
#define MAX_PARTICIPANTS 0xffff
#define SETTLE_SQL_BYTES (GIDSIZE + 32)
#define MAX_WARNING_BYTES 512	/* of what a node says in one */

/* The current two-phase commit, and the last one that all nodes confirmed. */
static FullTransactionId current_xid;
static int64 current_token;
static FullTransactionId settled_xid;
static int64 settled_token;
static bool exit_callback_registered = false;

/* For the second phase, made before the first one: an entry per participant. */
static ShardBroadcast *settle_items;
static char (*settle_sql)[SETTLE_SQL_BYTES];

/* ---------- identifiers ---------- */

char *
shard_twophase_gid_prefix(void)
{
	return psprintf("shardfdw:" UINT64_FORMAT ":%u:", GetSystemIdentifier(), MyDatabaseId);
}

bool
shard_twophase_parse_gid(const char *gid, FullTransactionId *xid, int64 *token)
{
	char	   *prefix = shard_twophase_gid_prefix();
	size_t		prefixlen = strlen(prefix);
	unsigned long long xidval;
	unsigned long long n;
	int			len = -1;

	if (strncmp(gid, prefix, prefixlen) != 0)
		return false;
	gid += prefixlen;

	/* sscanf would take signs and blanks as well */
	if (strspn(gid, "0123456789:") != strlen(gid) ||
		sscanf(gid, "%llu:%llu%n", &xidval, &n, &len) != 2 ||
		len != (int) strlen(gid))
		return false;
	*xid = FullTransactionIdFromU64(xidval);
	*token = (int64) n & ~TOKEN_LOW_BITS;
	return true;
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

	item->result = NULL;
	/* codes of prepared transactions that are disabled, and used up, but of other things, too */
	if (sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE || sqlstate == ERRCODE_OUT_OF_MEMORY)
	{
		char	   *message = shard_error_message(res, conn);

		PQclear(res);
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("node \"%s\" cannot prepare its part of an atomic commit: %s", conn->node, message),
				 errdetail_plural("The commit takes %d prepared transaction there.",
								  "The commit takes %d prepared transactions there.", nsame, nsame),
				 errhint("Where it lacks prepared transactions, set max_prepared_transactions on the node to at least its max_connections, lower shardfdw.max_connections_per_node, or set shardfdw.commit_protocol to '1pc'.")));
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
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("connection to node \"%s\" was lost while it prepared the transaction", conn->node)));
}

/* Makes every failure of items one error, after noting what is prepared and what is not. */
static void
check_prepared(ShardBroadcast *items, int nitems)
{
	int			failed = -1;

	for (int i = 0; i < nitems; i++)
	{
		if (shard_broadcast_ok(&items[i], "PREPARE TRANSACTION"))
			continue;
		if (items[i].done || !items[i].sent)
			items[i].conn->prepared_gid = NULL; /* surely rolled back, or never sent */
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
 * The client has gone: deletes the row of the last transaction.  Nothing waits
 * for the disk; a row that a crash brings back does no harm.
 */
static void
forget_at_exit(int code, Datum arg)
{
	if (code != 0 || !FullTransactionIdIsValid(settled_xid))
		return;
	AbortOutOfAnyTransaction();
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) shard_commit_log_delete(settled_xid, settled_token);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* The row of the current transaction, in place of the one of this session's last. */
static void
write_log(ShardConn **conns, int nconns)
{
	const char **nodes = palloc(nconns * sizeof(char *));
	TimeLineID *timelines = palloc(nconns * sizeof(TimeLineID));
	List	   *seen = NIL;		/* serverids: a node is named once */
	int			nnodes = 0;

	for (int i = 0; i < nconns; i++)
	{
		if (list_member_oid(seen, conns[i]->serverid))
			continue;
		seen = lappend_oid(seen, conns[i]->serverid);
		timelines[nnodes] = conns[i]->timeline;
		nodes[nnodes++] = conns[i]->node;
	}

	/* not looked at, but no row may be written without one */
	PushActiveSnapshot(GetTransactionSnapshot());
	if (FullTransactionIdIsValid(settled_xid))
		(void) shard_commit_log_delete(settled_xid, settled_token);
	shard_commit_log_insert(current_xid, current_token, nodes, timelines, nnodes);
	PopActiveSnapshot();
	list_free(seen);
	pfree(timelines);
	pfree(nodes);
}

void
shard_twophase_prepare(ShardConn **conns, int nconns)
{
	ShardBroadcast *items = palloc0(nconns * sizeof(ShardBroadcast));
	char	   *prefix = shard_twophase_gid_prefix();

	/* first of all: an abort needs them as soon as there is a prepared_gid */
	settle_items = MemoryContextAlloc(TopTransactionContext, nconns * sizeof(ShardBroadcast));
	settle_sql = MemoryContextAlloc(TopTransactionContext, nconns * SETTLE_SQL_BYTES);
	if (nconns > MAX_PARTICIPANTS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a transaction cannot commit over more than %d connections", MAX_PARTICIPANTS)));
	current_xid = GetTopFullTransactionId();
	current_token = new_token();
	if (!exit_callback_registered)
	{
		before_shmem_exit(forget_at_exit, (Datum) 0);
		exit_callback_registered = true;
	}

	for (int i = 0; i < nconns; i++)
	{
		/* in the transaction's memory, like conns: needed until it has ended */
		char	   *gid = MemoryContextStrdup(TopTransactionContext,
											  psprintf("%s" UINT64_FORMAT ":" INT64_FORMAT, prefix,
													   U64FromFullTransactionId(current_xid),
													   current_token + i + 1));

		items[i].conn = conns[i];
		items[i].sql = psprintf("PREPARE TRANSACTION '%s'", gid);
		conns[i]->prepared_gid = gid;
	}

	ForceSyncCommit();
	SHARD_FAULT_POINT("prepare");
	shard_broadcast_start(items, nconns);
	SHARD_FAULT_POINT("prepare_sent");
	write_log(conns, nconns);
	shard_broadcast_finish(items, nconns, -1, SHARD_BROADCAST_RAISE);
	check_prepared(items, nconns);
	SHARD_FAULT_POINT("prepared");

	for (int i = 0; i < nconns; i++)
		conns[i]->xact_depth = 0;
	pfree(items);
}

/* ---------- a second connection, where catalogs cannot be read ---------- */

/* Waits until connecting pg has ended; true when it is connected. Never raises. */
static bool
finish_connecting(PGconn *pg, TimestampTz deadline)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	while (status != PGRES_POLLING_OK)
	{
		long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);

		if (status == PGRES_POLLING_FAILED || PQstatus(pg) == CONNECTION_BAD ||
			left_ms <= 0 || shard_wait_is_urged())
			return false;
		if (shard_wait_socket(PQsocket(pg),
							  status == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE,
							  left_ms, true) == 0)
			continue;
		status = PQconnectPoll(pg);
		shard_wait_sockets_changed();
	}
	return true;
}

/* Is the parameter one that connect_again() chooses by itself? */
static bool
is_place(const char *keyword)
{
	static const char *const places[] = {"host", "hostaddr", "port", "password", "service", "servicefile", "gssencmode"};

	for (int i = 0; i < lengthof(places); i++)
		if (strcmp(keyword, places[i]) == 0)
			return true;
	return false;
}

static int
add_parameter(const char **keywords, const char **values, int n, const char *keyword, const char *value)
{
	if (!value || value[0] == '\0')
		return n;
	keywords[n] = keyword;
	values[n] = value;
	return n + 1;
}

/*
 * Opens a connection to where lost was connected, with its parameters; NULL when
 * that fails, or could block.  Never raises.
 */
static PGconn *
connect_again(PGconn *lost, TimestampTz deadline)
{
	const char *host = PQhost(lost);
	const char *address = PQhostaddr(lost);
	bool		by_file = host && is_unixsock_path(host);
	const char *keywords[128];
	const char *values[128];
	PQconninfoOption *options;
	int			n = 0;
	PGconn	   *pg;

	if ((!by_file && (!address || address[0] == '\0')) || PQgssEncInUse(lost))
		return NULL;
	options = PQconninfo(lost);
	if (!options)
		return NULL;
	for (PQconninfoOption *option = options; option->keyword && n < lengthof(keywords) - 6; option++)
		if (!is_place(option->keyword))
			n = add_parameter(keywords, values, n, option->keyword, option->val);
	n = add_parameter(keywords, values, n, "host", host);
	if (!by_file)
		n = add_parameter(keywords, values, n, "hostaddr", address);
	n = add_parameter(keywords, values, n, "port", PQport(lost));
	n = add_parameter(keywords, values, n, "password", PQpass(lost));
	n = add_parameter(keywords, values, n, "gssencmode", "disable");
	keywords[n] = values[n] = NULL;
	pg = PQconnectStartParams(keywords, values, 0);
	shard_wait_sockets_changed();
	PQconninfoFree(options);
	if (pg && PQstatus(pg) != CONNECTION_BAD && finish_connecting(pg, deadline))
		return pg;
	PQfinish(pg);
	shard_wait_sockets_changed();
	return NULL;
}

/*
 * Runs sql on the one connection of item, which has been used up to now for
 * another command.
 */
static void
run_next(ShardBroadcast *item, const char *sql, bool has_rows, TimestampTz deadline)
{
	shard_broadcast_clear(item, 1);
	item->sql = sql;
	item->has_rows = has_rows;
	shard_broadcast_start(item, 1);
	shard_broadcast_finish(item, 1, Max(1, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)),
						   SHARD_BROADCAST_HURRY);
}

/* Is the server of item's connection the one that prepared, and not a standby promoted since? */
static bool
is_same_timeline(ShardBroadcast *item, TimeLineID timeline, TimestampTz deadline)
{
	if (timeline == 0)
		return true;
	run_next(item, "SELECT " SHARD_TIMELINE_SQL, true, deadline);
	return shard_broadcast_ok(item, NULL) && PQntuples(item->result) == 1 && PQnfields(item->result) == 1 &&
		shard_connection_parse_timeline(PQgetvalue(item->result, 0, 0)) == timeline;
}

/*
 * Tries sql over a new connection in place of conn's lost one; true when the
 * node did it.  When the node does not know the prepared transaction, a commit
 * has been done before, unless it is another server by now; but a PREPARE may
 * be under way there still.
 */
static bool
settle_over_new_connection(ShardConn *conn, const char *sql, bool commit, TimestampTz deadline)
{
	ShardConn	second = {0};
	ShardBroadcast item = {0};
	bool		settled = false;

	if (GetCurrentTimestamp() >= deadline || !shard_wait_acquire_handle())
		return false;
	second.node = conn->node;
	second.state = SHARD_CONN_READY;
	second.pg = connect_again(conn->pg, deadline);
	if (second.pg)
	{
		PQsetnonblocking(second.pg, 1);
		item.conn = &second;
		run_next(&item, sql, false, deadline);
		settled = shard_broadcast_ok(&item, NULL) ||
			(commit && shard_broadcast_sqlstate(&item) == ERRCODE_UNDEFINED_OBJECT &&
			 is_same_timeline(&item, conn->timeline, deadline));
		shard_broadcast_clear(&item, 1);
		PQfinish(second.pg);
		shard_wait_sockets_changed();
	}
	ReleaseExternalFD();
	return settled;
}

/* ---------- second phase ---------- */

static void
warn_not_settled(const ShardBroadcast *item, bool commit)
{
	const char *message = item->result ? PQresultErrorField(item->result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	char		text[MAX_WARNING_BYTES];
	int			elevel = WARNING;

	/* without the postmaster nobody is told, since sending it may end in an exit */
	if (commit && !PostmasterIsAlive())
		elevel = LOG;

	if (message)
		shard_error_copy_text(message, text, sizeof(text));
	ereport(elevel,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 commit ?
			 errmsg("the transaction is committed, but node \"%s\" has not confirmed it", item->conn->node) :
			 errmsg("the transaction is rolled back, but may still be prepared on node \"%s\"", item->conn->node),
			 message ? errdetail_internal("%s", text) : 0,
			 errhint("Rows are locked there until SELECT shardfdw.recover() settles it.")));
}

/*
 * Sends verb (COMMIT or ROLLBACK) PREPARED to all conns that have a
 * prepared_gid.  Returns how many could not be settled.  Never raises.
 */
static int
settle(ShardConn **conns, int nconns, bool commit, long timeout_ms)
{
	ShardBroadcast *items = settle_items;
	ShardBroadcastInterrupt interrupt = commit ? SHARD_BROADCAST_HURRY : SHARD_BROADCAST_IGNORE;
	TimestampTz again_deadline;
	int			nitems = 0;
	int			nfailed = 0;

	for (int i = 0; i < nconns; i++)
	{
		if (!conns[i]->prepared_gid)
			continue;
		snprintf(settle_sql[nitems], SETTLE_SQL_BYTES, "%s PREPARED '%s'", commit ? "COMMIT" : "ROLLBACK",
				 conns[i]->prepared_gid);
		memset(&items[nitems], 0, sizeof(ShardBroadcast));
		items[nitems].conn = conns[i];
		items[nitems].sql = settle_sql[nitems];
		nitems++;
	}
	SHARD_FAULT_POINT(commit ? "commit" : "rollback");
	shard_broadcast_start(items, nitems);
	SHARD_FAULT_POINT(commit ? "commit_sent" : "rollback_sent");
	shard_broadcast_finish(items, nitems, timeout_ms, interrupt);
	SHARD_FAULT_POINT(commit ? "committed" : "rolled_back");

	/* a late cancel request may have hit the command instead of what it was meant for */
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
		bool		settled = shard_broadcast_ok(&items[i], NULL) ||

		/* recover() came first, or it had never been prepared */
			shard_broadcast_sqlstate(&items[i]) == ERRCODE_UNDEFINED_OBJECT;

		if (!settled && !items[i].done)
			settled = settle_over_new_connection(items[i].conn, items[i].sql, commit, again_deadline);
		if (!settled)
		{
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
	settled_xid = InvalidFullTransactionId;
	if (settle(conns, nconns, true, COMMIT_TIMEOUT_MS) == 0)
	{
		settled_xid = current_xid;
		settled_token = current_token;
	}
	for (int i = 0; i < nconns; i++)
		conns[i]->prepared_gid = NULL;
}

void
shard_twophase_leave(ShardConn **conns, int nconns)
{
	for (int i = 0; i < nconns; i++)
	{
		/* an answer may be under way; without it the connection serves nobody */
		if (conns[i]->prepared_gid)
			conns[i]->state = SHARD_CONN_BROKEN;
		conns[i]->prepared_gid = NULL;
	}
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

		if (!conn->prepared_gid || conn->state != SHARD_CONN_READY)
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
			conn->prepared_gid = NULL;
		}
	}
	(void) settle(conns, nconns, false, Max(hurry ? 100 : 1000, TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline)));
	for (int i = 0; i < nconns; i++)
		conns[i]->prepared_gid = NULL;
}
