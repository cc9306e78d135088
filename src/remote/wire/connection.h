/*
 * connection.h
 *	  One libpq connection to one node for one user: opening without blocking,
 *	  session settings, remote transaction state, closing.
 *
 * A connection has at most one holder at a time (a stream, a COPY, a command).
 * Whoever needs a held connection calls shard_connection_yield(), which asks
 * the holder to put aside what it has not consumed yet.
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

/* How far the opening of a connection has come. */
typedef enum ShardOpenStage
{
	SHARD_OPEN_REFUSED,			/* the node had too many connections: it is asked again at retry_at */
	SHARD_OPEN_LOGIN,			/* PQconnectPoll in progress */
	SHARD_OPEN_SETUP,			/* accepted: settings were sent, and questions about the node */
	SHARD_OPEN_SETUP_DENIED,	/* the role may not ask one question: once all is read, the others are asked */
	SHARD_OPEN_SETUP_LESS		/* the other questions were sent */
} ShardOpenStage;

/* Who waits for a connection that is being opened. */
typedef enum ShardOpenWatch
{
	SHARD_OPEN_WATCHED,			/* whoever has begun to open it */
	SHARD_OPEN_PAUSED,			/* nobody: shard_connection_poll() is not called */
	SHARD_OPEN_RESUMED			/* a later statement: the connection may have failed before it began */
} ShardOpenWatch;

/* The opening of a connection; valid only while its state is SHARD_CONN_CONNECTING. */
typedef struct ShardOpening
{
	ShardOpenStage stage;
	ShardOpenWatch watch;
	int			events;			/* socket events to wait for; WL_TIMEOUT: none */
	int			timeout;		/* connect_timeout in seconds; 0: none */
	TimestampTz deadline;		/* when the host that is asked is given up; 0: never */
	TimestampTz began_at;		/* when the present attempt began */
	TimestampTz retry_at;		/* SHARD_OPEN_REFUSED: when it is asked again */
	int			nrefused;		/* how often the node had too many connections */
	struct ShardHostList *hosts;	/* NULL: one */
	int			nhosts_left;	/* that may still be begun with, before whoever waits gives up */
	int			hosts_stat;		/* number of shard_node_stat_find(), where the host that accepts is kept */
	bool		needs_password; /* a server that does not ask for the password is refused */
	bool		asks_allowed;	/* one question is how many connections the node allows */
	ShardNodePosition positions[SHARD_POSITION_KINDS];	/* that the node must have reached */
} ShardOpening;

/*
 * How far the import of another connection's snapshot has come.  When BEGIN has
 * succeeded and SET TRANSACTION SNAPSHOT fails, that snapshot is lost.
 */
typedef enum ShardImport
{
	SHARD_IMPORT_NONE,			/* nothing to import, or it has succeeded */
	SHARD_IMPORT_SENT,			/* BEGIN and SET TRANSACTION SNAPSHOT are under way */
	SHARD_IMPORT_BEGUN			/* BEGIN has succeeded; the next result is that of SET */
} ShardImport;

/* What a connection's transaction on its node is for.  In this order: while a writer's lasts, a state gives way to later ones only. */
typedef enum ShardXactState
{
	SHARD_XACT_NONE,			/* there is no transaction */
	SHARD_XACT_READS,			/* it reads with a snapshot; see ShardRemoteXact.snapshot */
	SHARD_XACT_FOLLOWS,			/* it ends with the local transaction, and has written nothing */
	SHARD_XACT_LOOKED,			/* the same, on the connection that writes: it has cursors */
	SHARD_XACT_WROTE			/* the same, but it may have written: it takes part in the commit */
} ShardXactState;

/* The transaction that a connection is in; all zero: none. */
typedef struct ShardRemoteXact
{
	ShardXactState state;
	int			depth;			/* 0: none; 1: begun; n: with n - 1 savepoints */
	uint32		guard;			/* number of a savepoint "shardfdw_stream_n" within all these that still stands; 0: none */
	uint32		stale_savepoint;	/* number of the savepoint depth + 1, which is still there, though its
									 * subtransaction has committed; 0: none */
	TimestampTz savepoint_sent; /* when a savepoint was sent that the node has not shown to stand; 0: all do */
	ShardImport import;
	struct ShardSnapshot *snapshot; /* of SHARD_XACT_READS; NULL: nobody needs it any more, and the
									 * connection's next user ends the transaction */
	char	   *prepared_gid;	/* set when PREPARE TRANSACTION is sent */
} ShardRemoteXact;

/* What a holder must be able to do when its connection is needed elsewhere. */
typedef struct ShardConnHolder
{
	/*
	 * Reads or sends what is under way until the connection is idle, keeping
	 * rows not consumed yet (streams: spilled), then lets go of it
	 * (shard_connection_release).  May raise errors and answers interrupts.
	 * NULL: it cannot, which is an error.
	 */
	void		(*yield) (ShardConn *conn, void *arg);
	void	   *arg;

	/*
	 * The connection was released, by the holder itself or by others (abort,
	 * a lost connection): forget it.  Must not raise.  NULL: nothing to do.
	 */
	void		(*lost) (ShardConn *conn, void *arg);
} ShardConnHolder;

/* A message of a node that waits to be passed on to the client. */
typedef struct ShardNotice ShardNotice;

/* The variables behind settings of the user; see connection.c. */
typedef struct ShardUserSettings
{
	const void *timezone;		/* compare only */
	int			date_style;
	int			date_order;
	int			interval_style;
	int			float_digits;
	int			bytea_output;
	int			xml_option;
	int			quote_all;
} ShardUserSettings;

/* Which server a connection leads to. */
typedef struct ShardConnServer
{
	TimeLineID	timeline;		/* 0: not known, or a standby */
	int64		system_identifier;	/* 0: not known */
	NameData	database;		/* empty: not known */
	NameData	started;		/* of a standby: when its postmaster was started, as it writes that; else empty */
} ShardConnServer;

/* What has gone over a connection; see remote/wire/node_stat.h. */
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
	char	   *node;			/* server's name, for messages; "name (standby)" */
	uint32		standby;		/* number of the node's standby that it leads to, 1-based; 0: the primary */
	PGconn	   *pg;
	ShardConnState state;
	ShardOpening opening;
	bool		used;			/* has run a statement */
	bool		ending;			/* the node has said that it ends the session */
	bool		keep;			/* not closed after the transaction (option keep_connections) */
	TransactionId unchecked_by;	/* let in by what this transaction has done to positions of the node, see node_position.h; or invalid */
	bool		stateless;		/* option session_state off: a pooler may be on the way */
	bool		is_coordinator; /* another coordinator of the same nodes (option coordinator) */
	int			quota_node;		/* see remote/wire/quota.h */
	TimestampTz opened_at;
	bool		invalidated;	/* options changed, or distrusted: close when idle and outside a transaction */
	uint32		server_hash;	/* system cache hashes of server and mapping, for invalidation */
	uint32		mapping_hash;

	const ShardConnHolder *holder;	/* NULL: free */

	ShardRemoteXact xact;
	bool		end_pending;	/* COMMIT of a read transaction, or what asks for the position, sent; result not read yet */
	bool		has_standbys;	/* the node lists standbys (option standbys) */
	struct ShardPosition *position; /* what this session has committed on the node, see position.h; NULL: not noted */
	uint64		ncommits_asked; /* behind how many of its commits the position is that was asked for; 0: it was not */
	TimestampTz position_asked_at;
	bool		is_extra;		/* writes beside the node's writer, until the local transaction ends */
	List	   *extra_tables;	/* of an extra writer: names (char *) of the tables that only it writes to */

	/*
	 * Session settings as last sent, one string per followed setting; NULL =
	 * not known.  A statement that failed or a ROLLBACK takes back the SETs of
	 * its transaction, so then all of them are forgotten.
	 */
	char	  **settings;
	ShardUserSettings user_settings;	/* from which settings was made; not valid while that is forgotten */
	int			workers;		/* max_parallel_workers_per_gather as last sent; -1 = node's own; -2 = not known */
	int			cpu_factor;		/* as last sent; -1 = not known */
	HTAB	   *prepared;		/* statements that have come up; NULL: none yet */
	size_t		prepared_bytes; /* of the texts among them that have been prepared */
	int			uses_without_room;	/* of statements that were not, for want of room */
	struct ShardPrepared *preparing;	/* the Parse under way */
	ShardNotice *notices;		/* oldest first, bounded */
	int			nnotices;
	int			server_version;
	ShardConnServer server;		/* which server it leads to, if it always leads to the same one */
	Oid			database;		/* OID of the database there; InvalidOid: not known */
	XLogRecPtr	began_at;		/* how far its WAL was when the connection was opened; invalid: not known */
	XLogRecPtr	replayed;		/* of a standby: so far it has replayed at least */
	TimestampTz replayed_at;	/* when it said so */
	NameData	noted_identity; /* of the coordinator that uses the node; empty: none is noted there */
	int			stat_node;		/* see remote/wire/node_stat.h */
	bool		copies_out;		/* the COPY under way, or the last one, was TO STDOUT */
	ShardTraffic traffic;		/* since it was opened */
	ShardTraffic reported;		/* how much of it the counters of the node have */
	char	   *timed_sql;		/* what was sent last, if its time may have to be logged; NULL: not */
	TimestampTz sent_at;		/* when */
};

/*
 * SHARD_SERVER_SQL gives the expressions for the fields of ShardConnServer, in
 * their order.  shard_connection_parse_server() reads them from row 0 of res, where
 * they begin at column.  When the node's role may not read the system identifier,
 * the query fails (42501), and is sent again with "NULL" for system; the field is 0.
 */
#define SHARD_SERVER_COLUMNS 3
#define SHARD_TIMELINE_SQL \
	"CASE WHEN NOT pg_catalog.pg_is_in_recovery()" \
	" THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END"
#define SHARD_SYSTEM_SQL "(SELECT system_identifier FROM pg_catalog.pg_control_system())"
#define SHARD_SERVER_SQL(system) SHARD_TIMELINE_SQL ", " system ", pg_catalog.current_database()"
extern void shard_connection_parse_server(const PGresult *res, int column, ShardConnServer *server);

/* Expression for the identity of the coordinator that is noted on a node.  Memory: current context. */
extern char *shard_connection_note_sql(void);

/*
 * Begins to open, to the standby of that number if that is not 0; never blocks (but for name resolution,
 * which libpq does itself).  libpq is in nonblocking mode from here on: whoever calls it
 * directly flushes (shard_connection_flush).  Only the pool calls this.
 * Errors: no user mapping, password rules.
 */
extern ShardConn *shard_connection_start(Oid serverid, Oid userid, uint32 standby, int quota_node);

/*
 * The same for the caller alone: in no pool, not counted, and it lasts over the ends of
 * transactions until shard_connection_close(), or the end of the process.  replicates: it
 * takes the commands of the replication protocol, too.
 */
extern ShardConn *shard_connection_start_own(Oid serverid, Oid userid, bool replicates);

/*
 * The same to what a connection string leads to, which is no server of the catalogs; name: what messages call it.
 * Errors: as shard_conninfo_parse() has them.
 */
extern ShardConn *shard_connection_start_string(const char *conninfo, const char *name, Oid userid, bool replicates);

/* How many standbys the node lists; 0 where a pooler may be on the way, which leads to one server now and to another then. */
extern int	shard_connection_count_standbys(Oid serverid);

/* Where the node, or its standby, is, for remote/wire/quota.h.  Memory: palloc'd; NULL: it is not to be counted. */
extern char *shard_connection_address(Oid serverid, uint32 standby);

/*
 * Moves a connecting connection on.  Returns the socket events to wait for
 * (WL_SOCKET_READABLE/WRITEABLE; WL_TIMEOUT while no socket says anything, because
 * the node had too many connections), 0 when it is ready.  poll_ms: how long
 * they may be waited for before it is called again, -1 without a limit.
 * Errors: ERRCODE_SYSTEM_ERROR, naming the node, also when connect_timeout has
 * passed; ERRCODE_TOO_MANY_CONNECTIONS when the node had too many connections all
 * the time.
 */
extern int	shard_connection_poll(ShardConn *conn);
extern long shard_connection_poll_ms(const ShardConn *conn);

/*
 * To be called when nobody waits for conn any more.  If it is still connecting, the
 * next statement that needs it goes on from there, with a new connect_timeout.  It
 * is opened anew if it was lost in the meantime, or if the attempt is older than
 * connect_timeout and the node has not answered.
 */
extern void shard_connection_pause(ShardConn *conn);

/* Waits until conn is connected, and until a COMMIT of end_pending has ended; answers interrupts. */
extern void shard_connection_finish(ShardConn *conn);

/* In what settings a session on a node writes and reads text. */
typedef enum ShardSettings
{
	SHARD_SETTINGS_USER,		/* the user's: a query's casts to text give what the user would get */
	SHARD_SETTINGS_PORTABLE,	/* dates, intervals and floats are written as every session reads them,
								 * for results whose text the coordinator reads */
	SHARD_SETTINGS_LINES		/* the user's with xmloption, for a node that reads the user's own lines */
} ShardSettings;

/* Appends the values that sessions of this user have on nodes, as SHARD_SETTINGS_USER says. */
extern void shard_connection_append_settings(StringInfo buf);

/*
 * Appends to buf the SET commands (each ended by "; ") that bring the session
 * in line with the user's current TimeZone, DateStyle, IntervalStyle,
 * extra_float_digits, bytea_output..., as far as settings says, and
 * max_parallel_workers_per_gather with workers (-1 = node's own value) and costs
 * of CPU with cpu_factor (0 = node's own); notes them as sent.  Nothing when in line.
 * search_path = pg_catalog, standard_conforming_strings = on and
 * client_encoding are set once when connecting.
 */
extern void shard_connection_sync_settings(ShardConn *conn, ShardSettings settings, int workers,
										   int cpu_factor, StringInfo buf);

/*
 * Appends to buf the settings and xact, the commands that begin a transaction.
 * Without session state (option session_state off) the settings are SET LOCAL: they
 * stand behind xact, and end with the transaction (forget_settings).  Otherwise
 * they stand before it, so that they hold even if xact fails.
 */
extern void shard_connection_append_preamble(ShardConn *conn, ShardSettings settings, int workers,
											 int cpu_factor, const StringInfoData *xact,
											 StringInfo buf);
extern void shard_connection_forget_settings(ShardConn *conn);

/*
 * A user's own commands have run on conn, and may have changed the session in
 * ways nobody can see (SET, SET ROLE, BEGIN): the settings are sent anew, and it
 * is closed as soon as it is idle and outside a transaction.
 */
extern void shard_connection_distrust(ShardConn *conn);

extern void shard_connection_hold(ShardConn *conn, const ShardConnHolder *holder);
extern void shard_connection_release(ShardConn *conn);	/* takes conn from its holder, calling lost() */
extern void shard_connection_yield(ShardConn *conn);	/* calls the holder's yield(); then conn is free */

/*
 * Sends a simple query; errors if libpq refuses.  Waits only for the end of a
 * COMMIT that is still under way (end_pending).
 */
extern void shard_connection_send(ShardConn *conn, const char *sql);

/* The same for a message that ends with what the client's statement asks of the node: see remote/wire/comment.h. */
extern void shard_connection_send_statement(ShardConn *conn, const char *sql);

/* The same as send_statement with parameters as text, by the extended protocol (one statement). */
extern void shard_connection_send_params(ShardConn *conn, const char *sql, int nparams,
										 const char *const *params, bool binary_result);

/*
 * Statements that the caller wants prepared are so once they have come up often enough
 * on a connection.  start_prepare: true when it has sent a Parse, whose result
 * must be read to its end before shard_connection_send_params is called for the
 * same text; false when there is nothing to prepare.  After a failure that a
 * changed table or a pooler on the way has caused (is_stale), forget_prepared
 * makes the next use send the text again.
 */
extern bool shard_connection_start_prepare(ShardConn *conn, const char *sql, int nparams);
extern bool shard_connection_is_stale(const PGresult *res);
extern void shard_connection_forget_prepared(ShardConn *conn, const char *sql);

/*
 * For callers that wait on several connections at once.
 * flush: sends what is buffered; true when all of it is out, else wait for
 * WL_SOCKET_WRITEABLE too.  consume: reads what is there; false when the
 * connection is lost (the next take_result says why).  note_sent: is told of every
 * statement that is sent by libpq itself; logs it.  take_result: PQgetResult, which
 * notes the end of the statement.  note_result: must see
 * every result that was fetched by take_result itself.  count_result: the part of it
 * that counts what the node has done.
 */
extern bool shard_connection_flush(ShardConn *conn);
extern bool shard_connection_consume(ShardConn *conn);
extern void shard_connection_note_sent(ShardConn *conn, const char *sql, int nparams, const char *const *params);
extern PGresult *shard_connection_take_result(ShardConn *conn);
extern void shard_connection_note_result(ShardConn *conn, PGresult *res);
extern void shard_connection_count_result(ShardConn *conn, const PGresult *res);
extern void shard_connection_flush_notices(ShardConn *conn);

/*
 * True when res is the beginning of a COPY.  A caller that has not asked for a COPY
 * must mark the connection broken: PQgetResult() would return the same for ever.
 */
extern bool shard_connection_is_copy(const PGresult *res);

/*
 * True when the COMMIT of end_pending has ended, so that a statement can be sent.
 * Never blocks.  A failure of that COMMIT is a WARNING: its transaction has only read.
 */
extern bool shard_connection_settle(ShardConn *conn);

/* The same, waiting until deadline. */
extern bool shard_connection_settle_noerror(ShardConn *conn, TimestampTz deadline);

/* True when a failure means that the session has ended. */
extern bool shard_connection_is_lost(const ShardConn *conn, const PGresult *res);

/* False when conn is known to be lost, or to be closed: what it did in its transaction cannot commit. */
extern bool shard_connection_is_alive(const ShardConn *conn);

/* True when conn, without a holder, can take a new statement: alive, no query under way. */
extern bool shard_connection_usable(ShardConn *conn);

/*
 * Waits for and returns the next result of conn (NULL at the end of the
 * statement); answers interrupts.  Memory: caller clears it.
 */
extern PGresult *shard_connection_get_result(ShardConn *conn);

/* Sends sql and waits; the last result must be OK/TUPLES. Errors raised with the node's SQLSTATE. */
extern void shard_connection_exec(ShardConn *conn, const char *sql);

/*
 * Ends whatever runs on conn within timeout_ms (cancel request, then reading on);
 * false when that failed and conn is now broken.  Never raises: for abort.
 */
extern bool shard_connection_cancel_noerror(ShardConn *conn, int timeout_ms);

/* Asks the node to cancel what runs on conn, within timeout_ms; its answer is still to be read. Never raises. */
extern void shard_connection_request_cancel(ShardConn *conn, int timeout_ms);

/*
 * Reads on until what runs on conn has ended, without cancelling it; false when
 * the user wants to cancel meanwhile, or the connection was lost, or after timeout_ms
 * (0: no limit).
 */
extern bool shard_connection_drain_noerror(ShardConn *conn, int timeout_ms);

/* Sends sql and reads its results within timeout_ms; false when it failed or timed out (then broken). */
extern bool shard_connection_exec_noerror(ShardConn *conn, const char *sql, int timeout_ms);

extern void shard_connection_close(ShardConn *conn);

static inline bool
shard_connection_in_xact(const ShardConn *conn)
{
	return conn->xact.state != SHARD_XACT_NONE;
}

/* Has the node aborted conn's transaction?  Until it is rolled back it takes no other statement. */
static inline bool
shard_connection_is_aborted(const ShardConn *conn)
{
	return shard_connection_in_xact(conn) && PQtransactionStatus(conn->pg) == PQTRANS_INERROR;
}

/* To be called once: hint tells what can be done about a node that cannot be connected to, for messages; it may return NULL. */
extern void shard_connection_set_hint(const char *(*hint) (const char *node));

#endif
