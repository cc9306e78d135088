/*
 * snapshot.h
 *	  The state of a statement's snapshot on each node.
 */
#ifndef SHARDFDW_SNAPSHOT_H
#define SHARDFDW_SNAPSHOT_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "remote/wire/connection.h"
#include "utils/snapshot.h"

/*
 * A statement's snapshot of the nodes.  Streams of one statement on one node share an exported
 * snapshot; see remote/run/stream.h.  Only txn.c and snapshot.c use its fields and those of its
 * nodes, except shared_as, which is set by the code that shares it.
 */
typedef struct ShardSnapshot ShardSnapshot;

typedef enum ShardSnapshotState
{
	SHARD_SNAPSHOT_NONE,
	SHARD_SNAPSHOT_EXPORTING,			/* requested, but the identifier has not arrived */
	SHARD_SNAPSHOT_EXPORTED
} ShardSnapshotState;

/* The state of a snapshot on one node. */
typedef struct ShardNodeSnapshot
{
	Oid			serverid;
	Oid			userid;
	int			nexpected;		/* number of announced streams */
	ShardSnapshotState state;
	ShardConn  *exporter;		/* only compared, since it may be closed */
	Oid			exporter_userid;
	char	   *id;				/* as returned by pg_export_snapshot() */
	ShardConnServer exported_on;	/* another server may have another snapshot with the same name */
	bool		role_chosen;	/* the choice between primary and standby was made */
	uint32		standby;		/* number of the standby, 1-based; 0: the primary */
	bool		shown;			/* rows of it were returned, so it must not be replaced by another snapshot */
} ShardNodeSnapshot;

struct ShardSnapshot
{
	MemoryContext cxt;			/* contains the snapshot and all fields below */
	int			nuses;			/* number of statements that use it */
	Snapshot	shared_as;		/* statements with this snapshot of the coordinator use it, too; NULL: none */
	List	   *nodes;			/* of ShardNodeSnapshot */
	bool		cut;			/* a cluster snapshot: taken on all nodes at one moment (remote/run/cut.c) */
	char	   *local;			/* says where shards are: a snapshot of the coordinator, from SerializeSnapshot(); NULL: the latest */
	TransactionId local_xmin;	/* its xmin */
};

/* The state of snapshot on a node.  The first call for a node creates an empty entry. */
extern ShardNodeSnapshot *shard_snapshot_node(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * shard_snapshot_expect() announces, before the first stream starts, that nstreams streams will be opened on a node.
 * shard_snapshot_is_single(): does the whole statement expect only one stream on the node?  Then it needs no
 * transaction there (READ COMMITTED).
 */
extern void shard_snapshot_expect(ShardSnapshot *snapshot, Oid serverid, Oid userid, int nstreams);
extern bool shard_snapshot_is_single(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Is more than one stream expected on the node, so that others import the snapshot that one exports? */
extern bool shard_snapshot_is_shared(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * Records that shards are read where they are in the coordinator's snapshot local.  For snapshots of nodes that are used
 * long after they were taken: they do not show the rows of a shard that has moved to the node since then.
 */
extern void shard_snapshot_note_local(ShardSnapshot *snapshot, Snapshot local);

/* Does a snapshot of the node exist only as long as conn's transaction? */
extern bool shard_snapshot_is_exporter(const ShardConn *conn);

/* The identifier that conn's preamble (shard_txn_reader_preamble) has requested has arrived. */
extern void shard_snapshot_exported(ShardConn *conn, const char *snapshot_id);

/* The identifier that conn's preamble has requested will not be read, so another connection must export. */
extern void shard_snapshot_give_up(ShardConn *conn);

#endif
