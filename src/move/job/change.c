/*
 * change.c
 *	  Reads the messages of logical replication (pgoutput, protocol version 1).
 *
 * See "Logical Replication Message Formats" in PostgreSQL's documentation, and
 * src/backend/replication/logical/proto.c.  Data from a node is not trusted, so every length is checked.
 */
#include "postgres.h"

#include "byte_order.h"
#include "move/job/change.h"

/* The rest of a message. ok is false if the message was too short. */
typedef struct Cursor
{
	const char *data;
	int			left;
	bool		ok;
} Cursor;

static const char *
take(Cursor *cursor, int len)
{
	const char *data = cursor->data;

	if (!cursor->ok || len < 0 || len > cursor->left)
	{
		cursor->ok = false;
		return NULL;
	}
	cursor->data += len;
	cursor->left -= len;
	return data;
}

static int
take_byte(Cursor *cursor)
{
	const char *data = take(cursor, 1);

	return data ? (unsigned char) *data : 0;
}

static int
take_int16(Cursor *cursor)
{
	const char *data = take(cursor, 2);

	return data ? (int16) shard_get_uint16(data) : 0;
}

static uint32
take_int32(Cursor *cursor)
{
	const char *data = take(cursor, 4);

	return data ? shard_get_uint32(data) : 0;
}

static uint64
take_int64(Cursor *cursor)
{
	const char *data = take(cursor, 8);

	return data ? shard_get_uint64(data) : 0;
}

static const char *
take_string(Cursor *cursor)
{
	const char *end = cursor->ok ? memchr(cursor->data, '\0', cursor->left) : NULL;

	if (!end)
	{
		cursor->ok = false;
		return "";
	}
	return take(cursor, end - cursor->data + 1);
}

static void
read_row(Cursor *cursor, ShardChangeRow *row)
{
	row->present = true;
	row->nvalues = take_int16(cursor);
	if (row->nvalues < 0 || row->nvalues > cursor->left)
	{
		cursor->ok = false;
		return;
	}
	row->values = palloc0(sizeof(ShardChangeValue) * Max(row->nvalues, 1));
	for (int i = 0; i < row->nvalues && cursor->ok; i++)
	{
		ShardChangeValue *value = &row->values[i];

		value->kind = take_byte(cursor);
		if (value->kind == 't')
		{
			value->len = (int) take_int32(cursor);
			value->data = take(cursor, value->len);
		}
		else if (value->kind != 'n' && value->kind != 'u')
			cursor->ok = false;
	}
}

static void
read_relation(Cursor *cursor, ShardChange *change)
{
	change->relid = take_int32(cursor);
	change->schema = take_string(cursor);
	change->table = take_string(cursor);
	change->identity = take_byte(cursor);
	change->ncolumns = take_int16(cursor);
	if (change->ncolumns < 0 || change->ncolumns > cursor->left)
	{
		cursor->ok = false;
		return;
	}
	change->columns = palloc0(sizeof(ShardChangeColumn) * Max(change->ncolumns, 1));
	for (int i = 0; i < change->ncolumns; i++)
	{
		change->columns[i].is_key = (take_byte(cursor) & 1) != 0;
		change->columns[i].name = take_string(cursor);
		(void) take_int32(cursor);	/* type */
		(void) take_int32(cursor);	/* its modifier */
	}
}

static void
read_update(Cursor *cursor, ShardChange *change)
{
	int			kind;

	change->relid = take_int32(cursor);
	kind = take_byte(cursor);
	if (kind == 'K' || kind == 'O')
	{
		change->old_row.key_only = kind == 'K';
		read_row(cursor, &change->old_row);
		kind = take_byte(cursor);
	}
	if (kind != 'N')
		cursor->ok = false;
	read_row(cursor, &change->new_row);
}

static void
read_truncate(Cursor *cursor, ShardChange *change)
{
	change->nrelids = (int) take_int32(cursor);
	(void) take_byte(cursor);	/* options: sequences, and CASCADE, whose tables are in the list */
	if (change->nrelids < 0 || change->nrelids > cursor->left / 4)
	{
		cursor->ok = false;
		return;
	}
	change->relids = palloc(sizeof(uint32) * Max(change->nrelids, 1));
	for (int i = 0; i < change->nrelids; i++)
		change->relids[i] = take_int32(cursor);
}

bool
shard_change_read(const char *data, int len, ShardChange *change)
{
	Cursor		cursor = {data, len, true};
	int			kind = take_byte(&cursor);

	memset(change, 0, sizeof(*change));
	change->kind = SHARD_CHANGE_OTHER;
	switch (kind)
	{
		case 'B':
			change->kind = SHARD_CHANGE_BEGIN;
			change->lsn = take_int64(&cursor);
			break;
		case 'C':
			change->kind = SHARD_CHANGE_COMMIT;
			(void) take_byte(&cursor);
			(void) take_int64(&cursor);	/* position of the commit */
			change->end = take_int64(&cursor);
			change->time = take_int64(&cursor);
			break;
		case 'R':
			change->kind = SHARD_CHANGE_RELATION;
			read_relation(&cursor, change);
			break;
		case 'I':
			change->kind = SHARD_CHANGE_INSERT;
			change->relid = take_int32(&cursor);
			if (take_byte(&cursor) != 'N')
				return false;
			read_row(&cursor, &change->new_row);
			break;
		case 'U':
			change->kind = SHARD_CHANGE_UPDATE;
			read_update(&cursor, change);
			break;
		case 'D':
			change->kind = SHARD_CHANGE_DELETE;
			change->relid = take_int32(&cursor);
			change->old_row.key_only = take_byte(&cursor) == 'K';
			read_row(&cursor, &change->old_row);
			break;
		case 'T':
			change->kind = SHARD_CHANGE_TRUNCATE;
			read_truncate(&cursor, change);
			break;
		case 'M':				/* message */
		case 'O':				/* origin */
		case 'Y':				/* type */
			break;
		default:
			return false;
	}
	return cursor.ok;
}
