/*
 * copy_dest.c
 *	  Destination of COPY TO: a file, a program, or the client.
 *
 * Messages, the order of checks and the file mode are those of core's COPY TO.  Core's functions cannot be called for
 * a table that core does not read itself.
 *
 * Writes to a program's pipe do not block: while a program does not read, the nodes wait, but this backend answers
 * cancel requests.  Writes to the client are the same as in core, which answers interrupts between two rows.
 *
 * copy_to.c produces the data.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/progress.h"
#include "compat.h"
#include "libpq/pqformat.h"
#include "load/copy_dest.h"
#include "miscadmin.h"
#include "remote/wire/wait.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/backend_progress.h"

#define BUFFER_BYTES (64 * 1024)
#define DIRECT_BYTES (8 * 1024) /* smaller writes are collected up to this size; larger ones are written immediately */

#define MESSAGE_COPY_OUT 'H'
#define MESSAGE_COPY_DATA 'd'
#define MESSAGE_COPY_DONE 'c'

typedef enum DestKind
{
	DEST_FILE,
	DEST_PROGRAM,
	DEST_CLIENT
} DestKind;

struct ShardCopyDest
{
	DestKind	kind;
	const char *filename;		/* of a file or program; NULL: stdout */
	FILE	   *file;			/* file or pipe of the server process; NULL for the client */
	MemoryContextCallback callback;
	StringInfoData buf;			/* bytes not written yet; for the client: the message */
	StringInfoData prefix;		/* bytes to send before the next write to the client */
	uint64		nbytes;
	uint64		nrows;
};

/* ---------- opening ---------- */

/* Invalidates the wait sets that have the pipe, because a socket may get the same descriptor number next. */
static void
forget_pipe(void *arg)
{
	shard_wait_sockets_changed();
}

static void
open_program(ShardCopyDest *dest)
{
	int			flags;

	dest->file = OpenPipeStream(dest->filename, PG_BINARY_W);
	if (dest->file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not execute command \"%s\": %m", dest->filename)));
	dest->callback.func = forget_pipe;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &dest->callback);
	flags = fcntl(fileno(dest->file), F_GETFL);
	if (flags < 0 || fcntl(fileno(dest->file), F_SETFL, flags | O_NONBLOCK) < 0)
		elog(ERROR, "could not set a program's pipe to nonblocking mode: %m");
}

/* Creates a file that others may read, but only its owner may write. */
static FILE *
allocate_file(const char *filename)
{
	mode_t		old_umask = umask(S_IWGRP | S_IWOTH);
	FILE	   *file = NULL;

	PG_TRY();
	{
		file = AllocateFile(filename, PG_BINARY_W);
	}
	PG_FINALLY();
	{
		umask(old_umask);
	}
	PG_END_TRY();
	return file;
}

static void
open_file(ShardCopyDest *dest)
{
	struct stat st;

	if (!is_absolute_path(dest->filename))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("relative path not allowed for COPY to file")));
	dest->file = allocate_file(dest->filename);
	if (dest->file == NULL)
	{
		bool		is_path = errno == ENOENT || errno == EACCES;

		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" for writing: %m", dest->filename),
				 is_path ? errhint("COPY TO instructs the PostgreSQL server process to write a file. "
								   "You may want a client-side facility such as psql's \\copy.") : 0));
	}
	if (fstat(fileno(dest->file), &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", dest->filename)));
	if (S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a directory", dest->filename)));
}

ShardCopyDest *
shard_copy_dest_open(const CopyStmt *stmt, Oid relid)
{
	const int	indexes[] = {PROGRESS_COPY_COMMAND, PROGRESS_COPY_TYPE};
	int64		values[] = {PROGRESS_COPY_COMMAND_TO, PROGRESS_COPY_TYPE_PIPE};
	ShardCopyDest *dest = palloc0(sizeof(ShardCopyDest));

	dest->filename = stmt->filename;
	dest->kind = DEST_FILE;
	if (stmt->filename == NULL && whereToSendOutput == DestRemote)
		dest->kind = DEST_CLIENT;
	else if (stmt->filename == NULL)
		dest->file = stdout;
	else if (stmt->is_program)
	{
		dest->kind = DEST_PROGRAM;
		values[1] = PROGRESS_COPY_TYPE_PROGRAM;
		open_program(dest);
	}
	else
	{
		values[1] = PROGRESS_COPY_TYPE_FILE;
		open_file(dest);
	}
	initStringInfo(&dest->buf);
	initStringInfo(&dest->prefix);
	if (dest->kind != DEST_CLIENT)
		enlargeStringInfo(&dest->buf, BUFFER_BYTES);

	pgstat_progress_start_command(PROGRESS_COMMAND_COPY, relid);
	pgstat_progress_update_multi_param(lengthof(indexes), indexes, values);
	return dest;
}

bool
shard_copy_dest_is_client(const ShardCopyDest *dest)
{
	return dest->kind == DEST_CLIENT;
}

void
shard_copy_dest_begin(ShardCopyDest *dest, bool binary, int ncolumns)
{
	StringInfoData message;

	if (dest->kind != DEST_CLIENT)
		return;
	pq_beginmessage(&message, MESSAGE_COPY_OUT);
	pq_sendbyte(&message, binary ? 1 : 0);
	pq_sendint16(&message, ncolumns);
	for (int i = 0; i < ncolumns; i++)
		pq_sendint16(&message, binary ? 1 : 0);
	pq_endmessage(&message);
}

/* ---------- writing ---------- */

/* Waits for the end of the program.  Raises the program's failure, which explains more than a failed write to it. */
static void
close_program(ShardCopyDest *dest)
{
	FILE	   *file = dest->file;
	int			status;

	dest->file = NULL;
	status = ClosePipeStream(file);
	forget_pipe(NULL);
	if (status == -1)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close pipe to external command: %m")));
	if (status != 0)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("program \"%s\" failed", dest->filename),
				 errdetail_internal("%s", wait_result_to_str(status))));
}

static void
write_program(ShardCopyDest *dest, const char *data, size_t len)
{
	int			fd = fileno(dest->file);

	while (len > 0)
	{
		ssize_t		done = write(fd, data, len);

		if (done >= 0)
		{
			data += done;
			len -= done;
		}
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
		{
			shard_wait_announce(SHARD_WAIT_COPY_FILE);
			(void) shard_wait_socket(fd, WL_SOCKET_WRITEABLE, -1, false);
		}
		else if (errno != EINTR)
		{
			int			save_errno = errno;

			if (errno == EPIPE)
				close_program(dest);
			errno = save_errno;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to COPY program: %m")));
		}
		CHECK_FOR_INTERRUPTS();
	}
}

static void
write_file(ShardCopyDest *dest, const char *data, size_t len)
{
	if (fwrite(data, len, 1, dest->file) != 1 || ferror(dest->file))
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write to COPY file: %m")));
	CHECK_FOR_INTERRUPTS();
}

static void
write_through(ShardCopyDest *dest, const char *data, size_t len)
{
	if (len == 0)
		return;
	if (dest->kind == DEST_PROGRAM)
		write_program(dest, data, len);
	else
		write_file(dest, data, len);
}

static void
flush_buffer(ShardCopyDest *dest)
{
	int			len = dest->buf.len;

	dest->buf.len = 0;
	write_through(dest, dest->buf.data, len);
}

static void
send_message(ShardCopyDest *dest, const char *data, int len)
{
	pq_beginmessage_reuse(&dest->buf, MESSAGE_COPY_DATA);
	appendBinaryStringInfo(&dest->buf, dest->prefix.data, dest->prefix.len);
	appendBinaryStringInfo(&dest->buf, data, len);
	pq_endmessage_reuse(&dest->buf);
	dest->prefix.len = 0;
	CHECK_FOR_INTERRUPTS();		/* also if the client has disconnected */
}

void
shard_copy_dest_write(ShardCopyDest *dest, const char *data, int len, uint64 nrows)
{
	const int	indexes[] = {PROGRESS_COPY_BYTES_PROCESSED, PROGRESS_COPY_TUPLES_PROCESSED};
	int64		values[2];

	if (dest->kind == DEST_CLIENT)
		send_message(dest, data, len);
	else
	{
		if (dest->buf.len + len > BUFFER_BYTES || len >= DIRECT_BYTES)
			flush_buffer(dest);
		if (len >= DIRECT_BYTES)
			write_through(dest, data, len);
		else
			appendBinaryStringInfo(&dest->buf, data, len);
	}
	dest->nbytes += len;
	dest->nrows += nrows;
	values[0] = dest->nbytes;
	values[1] = dest->nrows;
	pgstat_progress_update_multi_param(lengthof(indexes), indexes, values);
}

void
shard_copy_dest_prefix(ShardCopyDest *dest, const char *data, int len)
{
	if (dest->kind != DEST_CLIENT)
		shard_copy_dest_write(dest, data, len, 0);
	else
	{
		appendBinaryStringInfo(&dest->prefix, data, len);
		dest->nbytes += len;
	}
}

void
shard_copy_dest_close(ShardCopyDest *dest)
{
	if (dest->kind == DEST_CLIENT)
		pq_putemptymessage(MESSAGE_COPY_DONE);
	else
	{
		flush_buffer(dest);
		if (dest->kind == DEST_PROGRAM)
			close_program(dest);
		else if (dest->filename != NULL && FreeFile(dest->file))
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not close file \"%s\": %m", dest->filename)));
	}
	pgstat_progress_end_command();
}
