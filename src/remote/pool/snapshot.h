/*
 * snapshot.h
 *	  What a statement's snapshot is on each node.
 */
#ifndef SHARDFDW_SNAPSHOT_H
#define SHARDFDW_SNAPSHOT_H

#include "postgres.h"

#include "lib/ilist.h"
#include "nodes/pg_list.h"
#include "remote/wire/connection.h"
#include "utils/snapshot.h"

/*
 * One statement's view of the nodes.  Streams of one statement on one node
 * share an exported snapshot; see remote/run/stream.h.  Its fields, and those of its
 * nodes, are for txn.c and snapshot.c only; shared_as is set by who shares it.
 */
typedef struct ShardSnapshot ShardSnapshot;

typedef enum ShardSnapshotState
{
	SHARD_SNAPSHOT_NONE,
	SHARD_SNAPSHOT_EXPORTING,			/* asked for, the identifier has not come */
	SHARD_SNAPSHOT_EXPORTED
} ShardSnapshotState;

/* What a snapshot is on one node. */
typedef struct ShardNodeSnapshot
{
	Oid			serverid;
	Oid			userid;
	int			nexpected;		/* streams announced */
	ShardSnapshotState state;
	ShardConn  *exporter;		/* compare only: it may be gone */
	Oid			exporter_userid;
	char	   *id;				/* as pg_export_snapshot() gave it */
	ShardConnServer exported_on;	/* another server may have another snapshot of that name */
	bool		role_chosen;	/* it is decided whether the primary or a standby is read */
	uint32		standby;		/* its number, 1-based; 0: the primary is read */
	bool		shown;			/* rows of it were returned: another snapshot would be another moment */
} ShardNodeSnapshot;

struct ShardSnapshot
{
	MemoryContext cxt;			/* that holds the snapshot and all fields below */
	int			nuses;			/* statements that read by it */
	Snapshot	shared_as;		/* statements with this snapshot of the coordinator read by it, too; NULL: no others do */
	List	   *nodes;			/* of ShardNodeSnapshot */
	bool		cut;			/* taken on all nodes at one moment (remote/run/cut.c) */
	char	   *local;			/* of a cut: the coordinator's snapshot of that moment, as SerializeSnapshot() writes it */
	TransactionId local_xmin;	/* its xmin */
};

/* What snapshot is on a node.  The first call for a node makes an empty entry. */
extern ShardNodeSnapshot *shard_snapshot_node(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/*
 * Announces, before the first stream starts, that nstreams streams will be
 * opened on a node.  A node for which the whole statement expects one stream
 * alone needs no transaction around it (READ COMMITTED).
 */
extern void shard_snapshot_expect(ShardSnapshot *snapshot, Oid serverid, Oid userid, int nstreams);
extern bool shard_snapshot_is_single(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Is more than one stream expected on the node, so that others import what one exports? */
extern bool shard_snapshot_is_shared(ShardSnapshot *snapshot, Oid serverid, Oid userid);

/* Does a snapshot of the node last only as long as conn's transaction? */
extern bool shard_snapshot_is_exporter(const ShardConn *conn);

/* The identifier that conn's preamble (shard_txn_reader_preamble) has asked for is here. */
extern void shard_snapshot_exported(ShardConn *conn, const char *snapshot_id);

/* To be called when nobody will read the identifier that conn's preamble has asked for: another connection exports. */
extern void shard_snapshot_give_up(ShardConn *conn);

#endif
