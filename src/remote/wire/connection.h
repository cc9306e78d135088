/*
 * connection.h
 *	  One libpq connection to one node for one user: opening without blocking, session settings,
 *	  remote transaction state, closing.
 *
 * A connection has at most one holder at a time (a stream, a COPY, a command).  A caller that needs
 * a connection with a holder calls shard_connection_yield().  The holder then saves what it has not
 * consumed yet, and releases the connection.
 */
#ifndef SHARDFDW_CONNECTION_H
#define SHARDFDW_CONNECTION_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "node_position.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

typedef struct ShardConn ShardConn;
struct ShardPosition;
struct ShardSnapshot;

typedef enum ShardConnState
{
	SHARD_CONN_CONNECTING,		/* PQconnectPoll in progress */
	SHARD_CONN_READY,			/* connected; idle when it has no holder */
	SHARD_CONN_BROKEN			/* to be closed; never used again */
} ShardConnState;

/* The stage that the opening of a connection has reached. */
typedef enum ShardOpenStage
{
	SHARD_OPEN_REFUSED,			/* the node had too many connections; next attempt at retry_at */
	SHARD_OPEN_LOGIN,			/* PQconnectPoll in progress */
	SHARD_OPEN_SETUP,			/* accepted; settings and queries about the node were sent */
	SHARD_OPEN_SETUP_DENIED,	/* the role may not run one of the queries; the others are sent after its answer */
	SHARD_OPEN_SETUP_LESS		/* the other questions were sent */
} ShardOpenStage;

/* Which statement waits for a connection that is being opened. */
typedef enum ShardOpenWatch
{
	SHARD_OPEN_WATCHED,			/* the statement that has begun to open it */
	SHARD_OPEN_PAUSED,			/* none; shard_connection_poll() is not called */
	SHARD_OPEN_RESUMED			/* a later statement; the connection may have failed before that statement began */
} ShardOpenWatch;

/* The opening of a connection; valid only while its state is SHARD_CONN_CONNECTING. */
typedef struct ShardOpening
{
	ShardOpenStage stage;
	ShardOpenWatch watch;
	int			events;			/* socket events to wait for; WL_TIMEOUT: none */
	int			timeout;		/* connect_timeout in seconds; 0: none */
	TimestampTz deadline;		/* when to give up the present host; 0: never */
	TimestampTz began_at;		/* of the present attempt */
	TimestampTz retry_at;		/* SHARD_OPEN_REFUSED: time of the next attempt */
	int			nrefused;		/* number of refusals because the node had too many connections */
	struct ShardHostList *hosts;	/* NULL: there is only one host */
	int			nhosts_left;	/* hosts that may still be tried before the attempt fails */
	int			hosts_stat;		/* number of shard_node_stat_find(); the host that accepts is stored there */
	bool		needs_password; /* fail if the server does not ask for the password */
	bool		asks_allowed;	/* ask how many connections the node allows */
	ShardNodePosition positions[SHARD_POSITION_KINDS];	/* positions that the node must have reached */
} ShardOpening;

/*
 * State of the import of another connection's snapshot.  If BEGIN succeeds and SET TRANSACTION
 * SNAPSHOT fails, that snapshot is lost.
 */
typedef enum ShardImport
{
	SHARD_IMPORT_NONE,			/* nothing to import, or it has succeeded */
	SHARD_IMPORT_SENT,			/* BEGIN and SET TRANSACTION SNAPSHOT were sent */
	SHARD_IMPORT_BEGUN			/* BEGIN has succeeded; the next result is that of SET */
} ShardImport;

/*
 * The purpose of a connection's transaction on its node.  Ordered: a writer's state only increases
 * while its transaction lasts.
 */
typedef enum ShardXactState
{
	SHARD_XACT_NONE,			/* no transaction */
	SHARD_XACT_READS,			/* reads with a snapshot; see ShardRemoteXact.snapshot */
	SHARD_XACT_FOLLOWS,			/* ends with the local transaction; nothing was written yet */
	SHARD_XACT_LOOKED,			/* the same, on the writer: only cursors were opened */
	SHARD_XACT_WROTE			/* the same, but it may have written: takes part in the commit */
} ShardXactState;

/* The transaction that a connection is in; all zero: none. */
typedef struct ShardRemoteXact
{
	ShardXactState state;
	int			depth;			/* 0: no transaction; 1: after BEGIN; n: with n - 1 savepoints */
	uint32		guard;			/* number of a savepoint "shardfdw_stream_n" inside all these; 0: none */
	uint32		stale_savepoint;	/* number of savepoint depth + 1, which still exists after its subtransaction's commit; 0: none */
	TimestampTz savepoint_sent; /* when a savepoint was sent whose creation the node has not confirmed yet; 0: all are confirmed */
	ShardImport import;
	struct ShardSnapshot *snapshot; /* of SHARD_XACT_READS.  NULL: no longer needed; the next user of the connection ends the transaction */
	char	   *prepared_gid;	/* set when PREPARE TRANSACTION is sent */
} ShardRemoteXact;

/* Callbacks of a holder, for when its connection is needed elsewhere. */
typedef struct ShardConnHolder
{
	/*
	 * Reads or sends until the connection is idle, keeps rows that are not consumed yet (streams:
	 * in a spill file), and then calls shard_connection_release().  May raise errors, can be
	 * interrupted.  NULL: the holder cannot do so, which is an error.
	 */
	void		(*yield) (ShardConn *conn, void *arg);
	void	   *arg;

	/*
	 * The connection was released, by the holder itself or otherwise (abort, a lost connection).
	 * The holder must forget it.  Must not raise.  NULL: nothing to do.
	 */
	void		(*lost) (ShardConn *conn, void *arg);
} ShardConnHolder;

/* A node's message that is still to be sent to the client. */
typedef struct ShardNotice ShardNotice;

/* The variables behind settings of the user; see connection.c. */
typedef struct ShardUserSettings
{
	const void *timezone;		/* only compared */
	int			date_style;
	int			date_order;
	int			interval_style;
	int			float_digits;
	int			bytea_output;
	int			xml_option;
	int			quote_all;
} ShardUserSettings;

/* The server that a connection is connected to. */
typedef struct ShardConnServer
{
	TimeLineID	timeline;		/* 0: unknown, or a standby */
	int64		system_identifier;	/* 0: unknown */
	NameData	database;		/* empty: unknown */
	NameData	started;		/* of a standby: start time of its postmaster as text; else empty */
} ShardConnServer;

/* What was transferred over a connection; see remote/wire/node_stat.h. */
typedef struct ShardTraffic
{
	uint64		rows_read;
	uint64		bytes_sent;
	uint64		bytes_received;
} ShardTraffic;

struct ShardConn
{
	dlist_node	link;			/* in its pool */
	dlist_node	all_link;		/* among all connections of the session */
	Oid			serverid;
	Oid			userid;			/* user whose mapping is used */
	char	   *node;			/* name of the server, for messages; of a standby "name (standby)" */
	uint32		standby;		/* number of the node's standby, 1-based; 0: the primary */
	PGconn	   *pg;
	ShardConnState state;
	ShardOpening opening;
	bool		used;			/* a statement was run */
	bool		ending;			/* the node has announced the end of the session */
	bool		keep;			/* not closed after the transaction (option keep_connections) */
	TransactionId unchecked_by;	/* the xid that changed the node's noted positions, which are not checked then; see node_position.h */
	bool		stateless;		/* option session_state off: there may be a pooler in between */
	bool		is_coordinator; /* another coordinator of the same nodes (option coordinator) */
	int			quota_node;		/* see remote/wire/quota.h */
	TimestampTz opened_at;
	bool		invalidated;	/* options have changed, or it is distrusted: close when idle and outside a transaction */
	uint32		server_hash;	/* syscache hashes of server and mapping, for invalidation */
	uint32		mapping_hash;

	const ShardConnHolder *holder;	/* NULL: free */

	ShardRemoteXact xact;
	bool		end_pending;	/* sent, but not answered yet: COMMIT of a read transaction, or the query for the position */
	bool		has_standbys;	/* the node lists standbys (option standbys) */
	struct ShardPosition *position; /* commits of this session on the node, see position.h; NULL: not recorded */
	uint64		ncommits_asked; /* number of commits before the query for the position; 0: no such query was sent */
	TimestampTz position_asked_at;
	bool		is_extra;		/* writes in addition to the node's writer, until the local transaction ends */
	List	   *extra_tables;	/* of an extra writer: names (char *) of the tables that no other connection writes to */

	/*
	 * Session settings as last sent, one string per setting; NULL = unknown.  A failed statement or
	 * a ROLLBACK undoes the SETs of its transaction.  Then all of them are forgotten.
	 */
	char	  **settings;
	ShardUserSettings user_settings;	/* the values from which settings was made; not valid after they were forgotten */
	int			workers;		/* max_parallel_workers_per_gather as last sent; -1 = node's own; -2 = unknown */
	int			cpu_factor;		/* as last sent; -1 = unknown */
	HTAB	   *prepared;		/* statements with parameters that were run; NULL: none yet */
	size_t		prepared_bytes; /* total length of the prepared statements */
	int			uses_without_room;	/* uses of statements that were not prepared for lack of room */
	struct ShardPrepared *preparing;	/* the Parse that is not answered yet */
	ShardNotice *notices;		/* oldest first, bounded */
	int			nnotices;
	int			server_version;
	ShardConnServer server;		/* the server, unless a pooler may switch between several */
	Oid			database;		/* OID of the database there; InvalidOid: unknown */
	XLogRecPtr	began_at;		/* WAL position when the connection was opened; invalid: unknown */
	XLogRecPtr	replayed;		/* of a standby: it has replayed at least up to here */
	TimestampTz replayed_at;	/* time of that answer */
	NameData	noted_identity; /* identity of the coordinator that is noted on the node; empty: none */
	int			stat_node;		/* see remote/wire/node_stat.h */
	bool		copies_out;		/* the current or the last COPY was TO STDOUT */
	ShardTraffic traffic;		/* since it was opened */
	ShardTraffic reported;		/* part of traffic that was added to the node's counters */
	char	   *timed_sql;		/* the last text that was sent, if its duration may have to be logged; else NULL */
	TimestampTz sent_at;		/* when it was sent */
};

/*
 * SHARD_SERVER_SQL() is the list of expressions for the fields of ShardConnServer, in their order.
 * shard_connection_parse_server() reads them from row 0 of res, starting at column.  If the node's
 * role may not read the system identifier, the query fails (42501).  It is then sent again with
 * "NULL" as system, and the field is 0.
 */
#define SHARD_SERVER_COLUMNS 3
#define SHARD_TIMELINE_SQL \
	"CASE WHEN NOT pg_catalog.pg_is_in_recovery()" \
	" THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END"
#define SHARD_SYSTEM_SQL "(SELECT system_identifier FROM pg_catalog.pg_control_system())"
#define SHARD_SERVER_SQL(system) SHARD_TIMELINE_SQL ", " system ", pg_catalog.current_database()"
extern void shard_connection_parse_server(const PGresult *res, int column, ShardConnServer *server);

/* Expression that returns the identity of the coordinator noted on a node.  Memory: current context. */
extern char *shard_connection_note_sql(void);

/*
 * Begins to open a connection; standby: number of a standby, 0: the primary.  Never blocks, except
 * for name resolution, which libpq does itself. libpq is in nonblocking mode from here on, so
 * callers of libpq functions must call shard_connection_flush().  Only the pool calls this.
 * Errors: no user mapping, password rules.
 */
extern ShardConn *shard_connection_start(Oid serverid, Oid userid, uint32 standby, int quota_node);

/*
 * The same, for the caller alone: the connection is in no pool, is not counted, and survives the
 * ends of transactions until shard_connection_close() or the end of the process. replicates: it
 * also accepts replication commands.
 */
extern ShardConn *shard_connection_start_own(Oid serverid, Oid userid, bool replicates);

/*
 * The same, for a connection string instead of a foreign server. name: used in messages.  Errors:
 * those of shard_conninfo_parse().
 */
extern ShardConn *shard_connection_start_string(const char *conninfo, const char *name, Oid userid, bool replicates);

/* Number of standbys that the node lists. 0 if session_state is off: a pooler may connect to different servers. */
extern int	shard_connection_count_standbys(Oid serverid);

/* Address of the node or its standby, for remote/wire/quota.h.  Memory: palloc'd.  NULL: not counted. */
extern char *shard_connection_address(Oid serverid, uint32 standby);

/*
 * poll: continues to open a connection.  Returns the socket events to wait for, or 0 when it is
 * ready: WL_SOCKET_READABLE/WRITEABLE, or WL_TIMEOUT while there is nothing to wait for at a
 * socket, because the node had too many connections.
 *
 * poll_ms: how long to wait for these events before the next call; -1: no limit.
 *
 * Errors: ERRCODE_SYSTEM_ERROR with the node's name, also if connect_timeout has passed.
 * ERRCODE_TOO_MANY_CONNECTIONS if the node had too many connections all the time.
 */
extern int	shard_connection_poll(ShardConn *conn);
extern long shard_connection_poll_ms(const ShardConn *conn);

/*
 * Called when no statement waits for conn any more.  If it is still connecting, the next statement
 * that needs it continues, with a new connect_timeout.  The connection is opened again if it was
 * lost since, or if the attempt is older than connect_timeout and the node has not answered.
 */
extern void shard_connection_pause(ShardConn *conn);

/* Waits until conn is connected and the COMMIT of end_pending has ended.  Can be interrupted. */
extern void shard_connection_finish(ShardConn *conn);

/* The settings with which a session on a node reads and writes text. */
typedef enum ShardSettings
{
	SHARD_SETTINGS_USER,		/* the user's: casts to text within a query give what the user would get */
	SHARD_SETTINGS_PORTABLE,	/* dates, intervals and floats as every session can read them; the coordinator parses the result */
	SHARD_SETTINGS_LINES		/* the user's, including xmloption, for a node that parses the user's own lines */
} ShardSettings;

/* Appends the values of this user's sessions on nodes, see SHARD_SETTINGS_USER. */
extern void shard_connection_append_settings(StringInfo buf);

/*
 * Appends to buf the SET commands (each ends with "; ") that give the session the user's current
 * TimeZone, DateStyle, IntervalStyle, extra_float_digits, bytea_output, and so on, as settings
 * says.  Also sets max_parallel_workers_per_gather to workers (-1 = node's own value) and the CPU
 * costs by cpu_factor (0 = node's own).  Records them as sent.  Appends nothing if the session has
 * these values. search_path = pg_catalog, pg_temp, standard_conforming_strings = on and client_encoding are
 * set once when connecting.
 */
extern void shard_connection_sync_settings(ShardConn *conn, ShardSettings settings, int workers,
										   int cpu_factor, StringInfo buf);

/*
 * Appends to buf the settings, and xact, the commands that begin a transaction.  Without session
 * state (option session_state off) the settings are SET LOCAL.  They follow xact and end with the
 * transaction (forget_settings).  Otherwise they precede xact, so that they take effect even if
 * xact fails.
 */
extern void shard_connection_append_preamble(ShardConn *conn, ShardSettings settings, int workers,
											 int cpu_factor, const StringInfoData *xact,
											 StringInfo buf);
extern void shard_connection_forget_settings(ShardConn *conn);

/* The next preamble sends all settings, since code on the node may have changed them. */
extern void shard_connection_resend_settings(ShardConn *conn);

/*
 * Appends to buf SET LOCAL for all of these settings.  For a message without session state that is a
 * transaction by itself: the defaults of the node's role and database, search_path among them, must
 * not decide what its text means.
 */
extern void shard_connection_append_message_settings(ShardConn *conn, ShardSettings settings, StringInfo buf);

/*
 * A user's own commands were run on conn, and may have changed the session in ways that this code
 * cannot detect (SET, SET ROLE, BEGIN).  The settings are sent again, and the connection is closed
 * as soon as it is idle and outside a transaction.
 */
extern void shard_connection_distrust(ShardConn *conn);

extern void shard_connection_hold(ShardConn *conn, const ShardConnHolder *holder);
extern void shard_connection_release(ShardConn *conn);	/* takes conn from its holder, calls lost() */
extern void shard_connection_yield(ShardConn *conn);	/* calls the holder's yield(); conn has no holder afterwards */

/*
 * Sends a simple query.  Errors if libpq refuses it.  If a COMMIT is still unanswered
 * (end_pending), waits for that only.
 */
extern void shard_connection_send(ShardConn *conn, const char *sql);

/* The same, with a comment that names the client's statement; see remote/wire/comment.h. */
extern void shard_connection_send_statement(ShardConn *conn, const char *sql);

/* The same as send_statement, with text parameters in the extended protocol (one statement). */
extern void shard_connection_send_params(ShardConn *conn, const char *sql, int nparams,
										 const char *const *params, bool binary_result);

/*
 * Statements that the caller wants prepared are prepared after a number of uses on a connection.
 *
 * start_prepare: true if it has sent a Parse.  Then its result must be read to the end before
 * shard_connection_send_params() is called for the same text.  False if nothing is to be prepared.
 *
 * is_stale: the failure was caused by a changed table, or by a pooler.  Then call forget_prepared,
 * so that the next use sends the text again.
 */
extern bool shard_connection_start_prepare(ShardConn *conn, const char *sql, int nparams);
extern bool shard_connection_is_stale(const PGresult *res);
extern void shard_connection_forget_prepared(ShardConn *conn, const char *sql);

/*
 * For callers that wait on several connections in parallel.
 *
 * flush: sends what is buffered.  True if everything was sent, else wait for WL_SOCKET_WRITEABLE
 * too.
 *
 * consume: reads what has arrived.  False if the connection is lost; the next take_result returns
 * the reason.
 *
 * note_sent: must be called for each statement that was sent with libpq directly.  Logs it.
 *
 * take_result: PQgetResult(), and records the end of the statement.
 *
 * note_result: must be called with each result of take_result. count_result: only updates the
 * counters.
 */
extern bool shard_connection_flush(ShardConn *conn);
extern bool shard_connection_consume(ShardConn *conn);
extern void shard_connection_note_sent(ShardConn *conn, const char *sql, int nparams, const char *const *params);
extern PGresult *shard_connection_take_result(ShardConn *conn);
extern void shard_connection_note_result(ShardConn *conn, PGresult *res);
extern void shard_connection_count_result(ShardConn *conn, const PGresult *res);
extern void shard_connection_flush_notices(ShardConn *conn);

/*
 * Does res start a COPY?  A caller that has not requested a COPY must mark the connection as
 * broken, since PQgetResult() would return the same result indefinitely.
 */
extern bool shard_connection_is_copy(const PGresult *res);

/*
 * True if the COMMIT of end_pending has ended, so that a statement can be sent.  Never blocks.  If
 * that COMMIT fails, raises a WARNING only, because its transaction has only read.
 */
extern bool shard_connection_settle(ShardConn *conn);

/* The same, but waits until deadline. */
extern bool shard_connection_settle_noerror(ShardConn *conn, TimestampTz deadline);

/* Does the failure mean that the session has ended? */
extern bool shard_connection_is_lost(const ShardConn *conn, const PGresult *res);

/* False if conn is known to be lost or is about to be closed.  Then its transaction cannot commit. */
extern bool shard_connection_is_alive(const ShardConn *conn);

/* Can conn, which has no holder, take a new statement?  That is, it is alive and runs no query. */
extern bool shard_connection_usable(ShardConn *conn);

/*
 * Ends what runs on conn within timeout_ms: cancel request, then reading.  False if that failed;
 * then conn is broken.  Never raises, for use in abort.
 */
extern bool shard_connection_cancel_noerror(ShardConn *conn, int timeout_ms);

/* Sends a cancel request for what runs on conn, within timeout_ms.  The answer must still be read.  Never raises. */
extern void shard_connection_request_cancel(ShardConn *conn, int timeout_ms);

/*
 * Reads until what runs on conn has ended, without cancelling it.  False if the user cancels, the
 * connection is lost, or timeout_ms (0: no limit) has passed.
 */
extern bool shard_connection_drain_noerror(ShardConn *conn, int timeout_ms);

extern void shard_connection_close(ShardConn *conn);

static inline bool
shard_connection_in_xact(const ShardConn *conn)
{
	return conn->xact.state != SHARD_XACT_NONE;
}

/* Encrypted bytes that were read may not be decrypted yet, so waits for the socket are at most this long. */
#define SHARD_ENCRYPTED_WAIT_MS 1000

static inline bool
shard_connection_is_encrypted(const ShardConn *conn)
{
	return PQsslInUse(conn->pg) || PQgssEncInUse(conn->pg);
}

/* Has the node aborted conn's transaction?  Then the node accepts no statement until it is rolled back. */
static inline bool
shard_connection_is_aborted(const ShardConn *conn)
{
	return shard_connection_in_xact(conn) && PQtransactionStatus(conn->pg) == PQTRANS_INERROR;
}

/* Called once. hint returns advice about a node that cannot be connected to, for messages, or NULL. */
extern void shard_connection_set_hint(const char *(*hint) (const char *node));

#endif
