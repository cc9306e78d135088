/*
 * copy_input.c
 *	  Reads the input of COPY FROM: a file, a program, the client, or a callback.
 *
 * Core's BeginCopyFrom() has opened the file, started the program or asked the client for data, and EndCopyFrom()
 * will close it.  Between these calls only this file reads.  An input that lasts longer than a transaction (RESUME)
 * is opened and closed here in the same way, because core closes files and programs at the end of a transaction.
 *
 * A slow program or client must not delay cancel requests or the nodes.  So if a read would block, this file waits
 * for input with the latch, and serves the nodes periodically.  Once a client message has begun, it is read
 * completely, as in core.
 */
#include "postgres.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "commands/progress.h"
#include "compat.h"
#include "load/input/copy_input.h"
#include "miscadmin.h"
#include "remote/wire/wait.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/backend_progress.h"
#include "wait_event.h"

#define MESSAGE_COPY_IN 'G'

struct ShardCopyInput
{
	CopyFromState cstate;
	bool		is_client;
	int			fd;				/* descriptor of a file or program; -1: closed, or none */
	StringInfo	message;		/* for a client */
	uint64		nread;

	/* of an input that this file has opened */
	const char *filename;		/* name of the file, or command of the program */
	FILE	   *program;		/* NULL: none */
	MemoryContextCallback callback; /* closes the input */

	ShardCopyIdleHook idle;
	void	   *idle_arg;
	bool		may_block;		/* for example a pipe */
	uint64		size_bytes;		/* of a file; PG_UINT64_MAX: unknown */
	bool		at_end;
};

/* Determines the type of the file fd. */
static void
look_at_file(ShardCopyInput *input)
{
	struct stat st;

	/* fd may have the number of a closed pipe that is still in a wait set */
	shard_wait_sockets_changed();
	input->size_bytes = PG_UINT64_MAX;
	if (input->fd < 0)
		return;
	input->may_block = fstat(input->fd, &st) != 0 || !S_ISREG(st.st_mode);
	if (!input->may_block)
		input->size_bytes = st.st_size;
}

ShardCopyInput *
shard_copy_input_create(CopyFromState cstate, ShardCopyIdleHook idle, void *arg)
{
	ShardCopyInput *input = palloc0(sizeof(ShardCopyInput));

	input->cstate = cstate;
	input->idle = idle;
	input->idle_arg = arg;
	input->is_client = cstate->copy_src == COPY_FRONTEND;
	input->message = cstate->fe_msgbuf;
	input->fd = cstate->copy_src == COPY_FILE ? fileno(cstate->copy_file) : -1;
	look_at_file(input);
	return input;
}

/* Closes an input that this file has opened.  Returns the exit status of the program, or 0. */
static int
close_own(ShardCopyInput *input)
{
	int			status = 0;

	if (input->fd < 0)
		return 0;
	if (input->program)
		status = pclose(input->program);
	else
		close(input->fd);
	input->program = NULL;
	input->fd = -1;
	ReleaseExternalFD();
	shard_wait_sockets_changed();
	return status;
}

/* MemoryContextCallback */
static void
release(void *arg)
{
	(void) close_own(arg);
}

static void
open_program(ShardCopyInput *input)
{
	int			save_errno;

	fflush(NULL);
	pqsignal(SIGPIPE, PG_SIG_DFL);
	errno = 0;
	input->program = popen(input->filename, PG_BINARY_R);
	save_errno = errno;
	pqsignal(SIGPIPE, PG_SIG_IGN);
	errno = save_errno;
	if (input->program)
		input->fd = fileno(input->program);
	else
	{
		ReleaseExternalFD();
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not execute command \"%s\": %m", input->filename)));
	}
}

static void
open_file(ShardCopyInput *input)
{
	struct stat st;

	input->fd = BasicOpenFile(input->filename, O_RDONLY | PG_BINARY);
	if (input->fd < 0)
	{
		bool		has_hint = errno == ENOENT || errno == EACCES;

		ReleaseExternalFD();	/* keeps errno */
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\" for reading: %m", input->filename),
				 has_hint ? errhint("COPY FROM instructs the PostgreSQL server process to read a file. "
									"You may want a client-side facility such as psql's \\copy.") : 0));
	}
	if (fstat(input->fd, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", input->filename)));
	if (S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a directory", input->filename)));
}

/* Asks the client for data. */
static void
open_client(ShardCopyInput *input, int ncolumns)
{
	StringInfoData message;

	if (whereToSendOutput != DestRemote)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("COPY RESUME cannot read standard input of a server in single-user mode")));
	input->is_client = true;
	input->message = makeStringInfo();
	pq_beginmessage(&message, MESSAGE_COPY_IN);
	pq_sendbyte(&message, 0);
	pq_sendint16(&message, ncolumns);
	for (int i = 0; i < ncolumns; i++)
		pq_sendint16(&message, 0);
	pq_endmessage(&message);
	pq_flush();
}

ShardCopyInput *
shard_copy_input_open(const CopyStmt *stmt, int ncolumns)
{
	ShardCopyInput *input = palloc0(sizeof(ShardCopyInput));

	input->fd = -1;
	if (stmt->filename == NULL)
		open_client(input, ncolumns);
	else
	{
		input->filename = pstrdup(stmt->filename);
		input->callback.func = release;
		input->callback.arg = input;
		MemoryContextRegisterResetCallback(CurrentMemoryContext, &input->callback);
		if (!shard_wait_acquire_handle())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("could not open \"%s\"", input->filename),
					 errdetail("There are too many open files on the local server."),
					 errhint("Raise max_files_per_process and/or the operating system's limit of open files.")));
		if (stmt->is_program)
			open_program(input);
		else
			open_file(input);
	}
	look_at_file(input);
	return input;
}

void
shard_copy_input_attach(ShardCopyInput *input, CopyFromState cstate, ShardCopyIdleHook idle, void *arg)
{
	const int	indexes[] = {PROGRESS_COPY_TYPE, PROGRESS_COPY_BYTES_TOTAL, PROGRESS_COPY_BYTES_PROCESSED};
	int64		values[lengthof(indexes)];

	input->cstate = cstate;
	input->idle = idle;
	input->idle_arg = arg;
	cstate->copy_src = input->is_client ? COPY_FRONTEND : COPY_FILE;
	cstate->bytes_processed = input->nread;
	values[0] = input->is_client ? PROGRESS_COPY_TYPE_PIPE : input->program ? PROGRESS_COPY_TYPE_PROGRAM : PROGRESS_COPY_TYPE_FILE;
	values[1] = input->size_bytes == PG_UINT64_MAX ? 0 : (int64) input->size_bytes;
	values[2] = (int64) input->nread;
	pgstat_progress_update_multi_param(lengthof(indexes), indexes, values);
}

void
shard_copy_input_close(ShardCopyInput *input)
{
	bool		is_program = input->program != NULL;
	int			status = close_own(input);

	/* a program that was not read to its end may have been terminated by SIGPIPE */
	if (!is_program || status == 0 || (!input->at_end && wait_result_is_signal(status, SIGPIPE)))
		return;
	if (status == -1)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close pipe to external command: %m")));
	ereport(ERROR,
			(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
			 errmsg("program \"%s\" failed", input->filename),
			 errdetail_internal("%s", wait_result_to_str(status))));
}

uint64
shard_copy_input_bytes(const ShardCopyInput *input)
{
	return input->size_bytes;
}

static bool
is_readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return poll(&pfd, 1, 0) != 0;
}

/*
 * The type of the client's next message, or EOF.  This function waits only between messages, so an interrupt leaves
 * the protocol state consistent.
 */
static int
next_message_type(ShardCopyInput *input)
{
	for (;;)
	{
		WaitEvent	event;
		unsigned char type;
		int			rc;

		pq_startmsgread();
		rc = pq_getbyte_if_available(&type);
		if (rc == 1)
			return type;
		pq_endmsgread();
		if (rc == EOF)
			return EOF;

		ModifyWaitEvent(FeBeWaitSet, FeBeWaitSetSocketPos, WL_SOCKET_READABLE, NULL);
		if (WaitEventSetWait(FeBeWaitSet, input->idle(input->idle_arg), &event, 1,
							 shard_wait_event(SHARD_WAIT_COPY_CLIENT)) > 0 &&
			(event.events & WL_POSTMASTER_DEATH))
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating connection due to unexpected postmaster exit")));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Reads the client's next data message into fe_msgbuf.  False at the end of its COPY. */
static bool
next_message(ShardCopyInput *input)
{
	StringInfo	msg = input->message;

	for (;;)
	{
		int			type = next_message_type(input);

		HOLD_CANCEL_INTERRUPTS();
		if (type != EOF && strchr("dcfHS", type) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("unexpected message type 0x%02X during COPY from stdin", type)));
		if (type == EOF ||
			pq_getmessage(msg, type == 'd' ? PQ_LARGE_MESSAGE_LIMIT : PQ_SMALL_MESSAGE_LIMIT))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("unexpected EOF on client connection with an open transaction")));
		RESUME_CANCEL_INTERRUPTS();

		if (type == 'd')
			return true;
		if (type == 'c')
			return false;
		if (type == 'f')
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("COPY from stdin failed: %s", pq_getmsgstring(msg))));
		/* Flush and Sync are ignored: clients may send them during COPY, too */
	}
}

static size_t
read_client(ShardCopyInput *input, char *buf, size_t max_bytes)
{
	StringInfo	msg = input->message;
	size_t		nread = 0;

	/* read several small messages that are already available */
	do
	{
		size_t		nbytes;

		if (msg->cursor >= msg->len && !next_message(input))
		{
			input->at_end = true;
			break;
		}
		nbytes = Min(max_bytes - nread, (size_t) (msg->len - msg->cursor));
		pq_copymsgbytes(msg, buf + nread, (int) nbytes);
		nread += nbytes;
	} while (nread == 0 ||
			 (nread < max_bytes && (msg->cursor < msg->len || shard_client_data_buffered())));
	return nread;
}

static size_t
read_file(ShardCopyInput *input, char *buf, size_t max_bytes)
{
	int			fd = input->fd;
	ssize_t		nread;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (input->may_block && !is_readable(fd))
		{
			shard_wait_announce(SHARD_WAIT_COPY_FILE);
			(void) shard_wait_socket(fd, WL_SOCKET_READABLE, input->idle(input->idle_arg), false);
			continue;
		}
		nread = read(fd, buf, max_bytes);
		if (nread >= 0)
			break;
		if (errno != EINTR && errno != EAGAIN)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read from COPY file: %m")));
	}
	if (nread == 0)
		input->at_end = true;
	return nread;
}

/* The callback waits by itself.  Before that, send nodes what they can accept. */
static size_t
read_callback(ShardCopyInput *input, char *buf, size_t max_bytes)
{
	size_t		nread;

	(void) input->idle(input->idle_arg);
	nread = input->cstate->data_source_cb(buf, 1, (int) Min(max_bytes, PG_INT32_MAX));
	if (nread == 0)
		input->at_end = true;
	return nread;
}

size_t
shard_copy_input_read(ShardCopyInput *input, char *buf, size_t max_bytes)
{
	CopyFromState cstate = input->cstate;
	size_t		nread;

	if (input->at_end)
		return 0;
	if (input->is_client)
		nread = read_client(input, buf, max_bytes);
	else if (cstate->copy_src == COPY_CALLBACK)
		nread = read_callback(input, buf, max_bytes);
	else
		nread = read_file(input, buf, max_bytes);
	input->nread += nread;
	cstate->bytes_processed += nread;
	pgstat_progress_update_param(PROGRESS_COPY_BYTES_PROCESSED, cstate->bytes_processed);
	return nread;
}

void
shard_copy_input_drain(ShardCopyInput *input)
{
	char		scratch[8192];

	if (!input->is_client)
		return;
	while (shard_copy_input_read(input, scratch, sizeof(scratch)) > 0)
		;
}
