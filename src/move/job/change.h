/*
 * change.h
 *	  Reads the messages of logical replication (pgoutput, protocol version 1).
 */
#ifndef SHARDFDW_CHANGE_H
#define SHARDFDW_CHANGE_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

typedef enum ShardChangeKind
{
	SHARD_CHANGE_BEGIN,			/* lsn: of the commit */
	SHARD_CHANGE_COMMIT,
	SHARD_CHANGE_RELATION,		/* relation: the columns of the following messages */
	SHARD_CHANGE_INSERT,		/* new_row */
	SHARD_CHANGE_UPDATE,		/* new_row, and old_row if the identity has changed or consists of all columns */
	SHARD_CHANGE_DELETE,		/* old_row */
	SHARD_CHANGE_TRUNCATE,		/* relids */
	SHARD_CHANGE_OTHER			/* ignored */
} ShardChangeKind;

/* A value. data points into the message and is not terminated. */
typedef struct ShardChangeValue
{
	char		kind;			/* 'n': NULL, 'u': TOASTed and not changed, 't': text */
	const char *data;
	int			len;
} ShardChangeValue;

typedef struct ShardChangeRow
{
	bool		present;
	bool		key_only;		/* columns outside the identity are NULL, whatever their values */
	int			nvalues;
	ShardChangeValue *values;
} ShardChangeRow;

typedef struct ShardChangeColumn
{
	const char *name;
	bool		is_key;			/* of the identity */
} ShardChangeColumn;

typedef struct ShardChange
{
	ShardChangeKind kind;
	XLogRecPtr	lsn;			/* of BEGIN: position of the commit */
	XLogRecPtr	end;			/* of COMMIT: position in the WAL after it */
	TimestampTz time;			/* of COMMIT */
	uint32		relid;			/* on the source; of RELATION and rows */
	const char *schema;			/* of RELATION */
	const char *table;
	char		identity;		/* relreplident */
	int			ncolumns;
	ShardChangeColumn *columns;
	ShardChangeRow old_row;
	ShardChangeRow new_row;
	int			nrelids;		/* of TRUNCATE */
	uint32	   *relids;
} ShardChange;

/*
 * Reads one message.  Returns false if it does not match the protocol.  Strings and values point into data.  Memory:
 * current context.
 */
extern bool shard_change_read(const char *data, int len, ShardChange *change);

#endif
