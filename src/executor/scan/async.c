/*
 * async.c
 *	  Shard scans under an asynchronous Append.
 *
 * Append asks each of its asynchronous children for a row (Request), and continues with other
 * children if the answer is "pending".  If it has nothing else to do, it lets each pending child
 * add a socket (ConfigureWait), waits for all sockets, and notifies the children whose socket is
 * ready (Notify):
 *
 *	   Request --row or end--> done
 *		  |
 *		  +--nothing yet--> pending --Notify--> as Request
 *								|
 *								+--ConfigureWait--> done, or socket
 *
 * To answer, a child may run code of the plan: its conditions and target list, with sub-selects and
 * functions.  That code may need a connection that another child holds.  Then the rows of that
 * other child are spilled, and a third child gets the socket.  So no child may answer while sockets
 * are being added.  Before the first pending child adds its socket, it lets all children answer
 * until none can continue.
 *
 * A scan of one shard has one stream and thus one socket.  It has none while its stream is queued
 * behind another stream of the node.
 *
 * When Append has run all its synchronous children, it would sleep until a socket is ready.
 * Instead, this file waits for the pending streams.  So connections whose holders are not being
 * read are taken from them, connect_timeout is observed, and deadlocks over several nodes are
 * found.
 *
 * A scan of several shards (not planned asynchronously) answers synchronously.  So does every scan
 * under an Append that also has asynchronous children of another wrapper.  These might run code of
 * the plan after our children have added their sockets.
 */
#include "postgres.h"

#include "executor/execAsync.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/scan/fdw_executor.h"
#include "executor/scan/scan.h"
#include "storage/latch.h"

/*
 * Returns the pending child of append with the lowest number above *i, and sets *i to its number.
 * NULL if there is none.
 */
static AsyncRequest *
next_pending(const AppendState *append, int *i)
{
	while ((*i = bms_next_member(append->as_asyncplans, *i)) >= 0)
	{
		if (append->as_asyncrequests[*i]->callback_pending)
			return append->as_asyncrequests[*i];
	}
	return NULL;
}

static ShardScanState *
scan_state(const AsyncRequest *areq)
{
	return ((ForeignScanState *) areq->requestee)->fdw_state;
}

/* The only stream of a pending child. */
static ShardStream *
stream_of(const AsyncRequest *areq)
{
	Assert(scan_state(areq)->nsources == 1);
	return scan_state(areq)->streams[0];
}

/* Are all asynchronous children of append scans of this extension? */
static bool
children_are_ours(const AppendState *append)
{
	int			i = -1;

	while ((i = bms_next_member(append->as_asyncplans, i)) >= 0)
	{
		ForeignScanState *child = castNode(ForeignScanState, append->as_asyncrequests[i]->requestee);

		if (child->fdwroutine->ForeignAsyncRequest != shardForeignAsyncRequest)
			return false;
	}
	return true;
}

/* May the scan answer "pending"? */
static bool
may_be_pending(AsyncRequest *areq)
{
	ShardScanState *state = scan_state(areq);

	if (!state->siblings_known)
	{
		state->siblings_ours = IsA(areq->requestor, AppendState) &&
			children_are_ours((AppendState *) areq->requestor);
		state->siblings_known = true;
	}
	return state->siblings_ours && bms_membership(state->live) != BMS_MULTIPLE;
}

/* If a row or the end has arrived, answers the request.  False if not. */
static bool
try_complete(AsyncRequest *areq)
{
	ForeignScanState *node = castNode(ForeignScanState, areq->requestee);
	ShardScanState *state = node->fdw_state;
	TupleTableSlot *result;

	state->async_mode = may_be_pending(areq);
	state->would_wait = false;

	/* The node's own function applies conditions and projection.  The caller does the instrumentation around it. */
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
	shard_stream_awake(stream_of(areq), true);
	if (!try_complete(areq))
		ExecAsyncRequestPending(areq);
}

/* Lets a pending child answer, if it can, outside Request and Notify. */
static void
answer_pending(AsyncRequest *areq)
{
	double		nrows = 0;

	if (areq->requestee->instrument)
		InstrStartNode(areq->requestee->instrument);
	if (try_complete(areq))
	{
		areq->callback_pending = false;
		ExecAsyncResponse(areq);
		nrows = TupIsNull(areq->result) ? 0 : 1;
	}
	if (areq->requestee->instrument)
		InstrStopNode(areq->requestee->instrument, nrows);
}

/* Has append rows to return, or children to ask for more? */
static bool
has_answer(const AppendState *append)
{
	return append->as_needrequest != NULL || append->as_nasyncresults > 0;
}

/*
 * Waits for append's pending children, or only for those whose connections are being opened.  False
 * if there is nothing to wait for.
 */
static bool
wait_for_children(const AppendState *append, bool connecting)
{
	ShardStream **streams = palloc(append->as_nasyncplans * sizeof(ShardStream *));
	int			nstreams = 0;
	AsyncRequest *areq;

	for (int i = -1; (areq = next_pending(append, &i)) != NULL;)
		if (!connecting || shard_stream_connecting(stream_of(areq)))
			streams[nstreams++] = stream_of(areq);
	if (nstreams > 0)
		shard_stream_wait(streams, nstreams, NULL);
	pfree(streams);
	return nstreams > 0;
}

/*
 * Lets pending children answer until one of them has, or until append has other children to run.
 * All waits are here: append has no timeout, and does not search for deadlocks over several nodes
 * (shard_wait_stalled).
 */
static void
settle(const AppendState *append)
{
	AsyncRequest *areq;

	for (int i = -1; (areq = next_pending(append, &i)) != NULL;)
		shard_stream_awake(stream_of(areq), false);
	for (;;)
	{
		bool		idle = true;

		for (int i = -1; (areq = next_pending(append, &i)) != NULL;)
			answer_pending(areq);
		if (wait_for_children(append, true))
			continue;
		if (has_answer(append))
			return;

		/* a child that has answered, even without a row, may have changed what another one waits for */
		for (int i = -1; (areq = next_pending(append, &i)) != NULL;)
		{
			if (!shard_stream_idle(stream_of(areq)))
				idle = false;
		}
		if (!idle)
			continue;
		if (!append->as_syncdone || !wait_for_children(append, false))
			return;
	}
}

void
shardForeignAsyncConfigureWait(AsyncRequest *areq)
{
	AppendState *append = castNode(AppendState, areq->requestor);
	int			first = -1;
	int			events = 0;
	int			fd;

	if (next_pending(append, &first) == areq)
	{
		/* no socket was added yet; the time is counted for the child that answers */
		if (areq->requestee->instrument)
			InstrStopNode(areq->requestee->instrument, 0);
		settle(append);
		if (areq->requestee->instrument)
			InstrStartNode(areq->requestee->instrument);
	}

	/* append must not sleep if it has an answer */
	if (!areq->callback_pending || has_answer(append))
		return;
	fd = shard_stream_socket(stream_of(areq), &events);
	if (fd >= 0)
		AddWaitEventToSet(append->as_eventset, events, fd, NULL, areq);
}
