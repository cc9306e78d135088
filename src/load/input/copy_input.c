/*
 * copy_input.c
 *	  The bytes that COPY FROM reads: of a file, a program, or the client.
 *
 * Core's BeginCopyFrom() has opened the file, started the program or asked the
 * client; EndCopyFrom() will close it.  Between these calls only this file reads.
 *
 * A program or client that is slow must not keep a cancel request waiting, nor
 * the nodes: a read that would block waits for input with the latch, and serves
 * the nodes now and then.  A client's message is read as a whole once it has
 * begun, as core does.
 */
#include "postgres.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "commands/progress.h"
#include "compat.h"
#include "load/input/copy_input.h"
#include "miscadmin.h"
#include "remote/wire/wait.h"
#include "storage/latch.h"
#include "utils/backend_progress.h"
#include "wait_event.h"

struct ShardCopyInput
{
	CopyFromState cstate;
	ShardCopyIdleHook idle;
	void	   *idle_arg;
	bool		may_block;		/* a pipe, or the like */
	uint64		size_bytes;		/* of a file; PG_UINT64_MAX: not known */
	bool		at_end;
};

ShardCopyInput *
shard_copy_input_create(CopyFromState cstate, ShardCopyIdleHook idle, void *arg)
{
	ShardCopyInput *input = palloc0(sizeof(ShardCopyInput));
	struct stat st;

	input->cstate = cstate;
	input->idle = idle;
	input->idle_arg = arg;
	/* it may have the number of a pipe that was closed and is still in a wait set */
	shard_wait_sockets_changed();
	input->size_bytes = PG_UINT64_MAX;
	if (cstate->copy_src == COPY_FILE)
	{
		input->may_block = fstat(fileno(cstate->copy_file), &st) != 0 || !S_ISREG(st.st_mode);
		if (!input->may_block)
			input->size_bytes = st.st_size;
	}
	return input;
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
 * The type of the client's next message, or EOF.  While it waits no message is
 * being read, so that an interrupt leaves the protocol in order.
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

/* The client's next message of data into fe_msgbuf; false at the end of its COPY. */
static bool
next_message(ShardCopyInput *input)
{
	StringInfo	msg = input->cstate->fe_msgbuf;

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
	StringInfo	msg = input->cstate->fe_msgbuf;
	size_t		nread = 0;

	/* several small messages at once, as far as they are here already */
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
	int			fd = fileno(input->cstate->copy_file);
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

size_t
shard_copy_input_read(ShardCopyInput *input, char *buf, size_t max_bytes)
{
	CopyFromState cstate = input->cstate;
	size_t		nread;

	if (input->at_end)
		return 0;
	if (cstate->copy_src == COPY_FILE)
		nread = read_file(input, buf, max_bytes);
	else
		nread = read_client(input, buf, max_bytes);
	cstate->bytes_processed += nread;
	pgstat_progress_update_param(PROGRESS_COPY_BYTES_PROCESSED, cstate->bytes_processed);
	return nread;
}

void
shard_copy_input_drain(ShardCopyInput *input)
{
	char		scratch[8192];

	if (input->cstate->copy_src != COPY_FRONTEND)
		return;
	while (shard_copy_input_read(input, scratch, sizeof(scratch)) > 0)
		;
}
