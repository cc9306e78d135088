/*
 * async.c
 *	  Shard scans under an asynchronous Append.
 *
 * Append asks each of its asynchronous children for a row (Request) and goes on
 * when the answer is "pending"; when it has nothing else to do it lets each
 * pending child name a socket (ConfigureWait), waits for all sockets, and tells
 * those whose socket is ready (Notify):
 *
 *	   Request --row or end--> done
 *		  |
 *		  +--nothing here yet--> pending --Notify--> as Request
 *									|
 *									+--ConfigureWait--> done, or socket
 *
 * A scan of one shard has one stream and so one socket.  Where its stream is
 * queued behind another stream of the node it has none:
 *	 - the streams ahead of it belong to this Append: they have sockets, and when
 *	   they end ours moves on;
 *	 - or to something that nobody reads now: no child has a socket, and Append
 *	   would go round without waiting.  Then the last pending child waits here,
 *	   which makes those who hold connections put aside their rows.
 *
 * A scan of several shards (not planned asynchronously) answers synchronously.
 */
#include "postgres.h"

#include "executor/execAsync.h"
#include "executor/executor.h"
#include "executor/fdw_executor.h"
#include "executor/instrument.h"
#include "executor/scan.h"
#include "miscadmin.h"
#include "storage/latch.h"

/* Answers the request when a row, or the end, is here; false when it is not yet. */
static bool
try_complete(AsyncRequest *areq)
{
	ForeignScanState *node = castNode(ForeignScanState, areq->requestee);
	ShardScanState *state = node->fdw_state;
	TupleTableSlot *result;

	state->async_mode = bms_membership(state->live) != BMS_MULTIPLE;
	state->would_wait = false;

	/*
	 * The node's own function applies conditions and projection; instrumentation
	 * around it is Append's work.
	 */
	result = node->ss.ps.ExecProcNodeReal(&node->ss.ps);
	state->async_mode = false;

	if (TupIsNull(result))
	{
		if (state->would_wait)
			return false;
		result = NULL;
	}
	ExecAsyncRequestDone(areq, result);
	return true;
}

void
shardForeignAsyncRequest(AsyncRequest *areq)
{
	if (!try_complete(areq))
		ExecAsyncRequestPending(areq);
}

void
shardForeignAsyncNotify(AsyncRequest *areq)
{
	if (!try_complete(areq))
		ExecAsyncRequestPending(areq);
}

/* Completes a pending request outside of Request and Notify. */
static bool
try_complete_pending(AsyncRequest *areq)
{
	if (!try_complete(areq))
		return false;
	areq->callback_pending = false;
	ExecAsyncResponse(areq);
	if (areq->requestee->instrument)
		InstrUpdateTupleCount(areq->requestee->instrument,
							  TupIsNull(areq->result) ? 0.0 : 1.0);

	/*
	 * Others may have named sockets: Append must not sleep on them while it
	 * has this answer, or while this stream's end lets a queued one start.
	 */
	SetLatch(MyLatch);
	return true;
}

/*
 * Would Append go round without waiting?  So when it has nothing else to run,
 * no answer, and neither a child before this one nor one after it waits for a
 * socket.
 */
static bool
append_would_spin(AsyncRequest *areq)
{
	AppendState *append = (AppendState *) areq->requestor;
	int			i = areq->request_index;

	if (!IsA(append, AppendState) || !append->as_syncdone)
		return false;
	if (append->as_needrequest != NULL || append->as_nasyncresults > 0)
		return false;
	if (GetNumRegisteredWaitEvents(append->as_eventset) > 1)
		return false;			/* the first is the postmaster's death */
	while ((i = bms_next_member(append->as_asyncplans, i)) >= 0)
	{
		if (append->as_asyncrequests[i]->callback_pending)
			return false;
	}
	return true;
}

void
shardForeignAsyncConfigureWait(AsyncRequest *areq)
{
	ForeignScanState *node = castNode(ForeignScanState, areq->requestee);
	ShardScanState *state = node->fdw_state;
	AppendState *append = (AppendState *) areq->requestor;
	int			events = 0;
	int			fd;

	if (try_complete_pending(areq))
		return;

	Assert(state->nsources == 1);

	/*
	 * Append waits without a timeout, so connecting is waited for here; all
	 * children have begun to connect, so it does not add up.
	 */
	while (shard_stream_connecting(state->streams[0]))
	{
		shard_stream_wait(state->streams, state->nsources, state->wait_set);
		if (try_complete_pending(areq))
			return;
	}
	fd = shard_stream_socket(state->streams[0], &events);
	if (fd >= 0)
	{
		AddWaitEventToSet(append->as_eventset, events, fd, NULL, areq);
		return;
	}
	if (append_would_spin(areq))
	{
		shard_stream_wait(state->streams, state->nsources, state->wait_set);
		(void) try_complete_pending(areq);
	}
}
