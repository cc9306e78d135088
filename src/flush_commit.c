/*
 * flush_commit.c
 *	  Makes commits wait for the disk before other servers learn of their effects.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "utils/guc.h"

/*
 * The commit of this transaction waits.  The setting is raised when the transaction ends: until then, the end of a
 * function or of a subtransaction could restore it.
 */
static bool forced = false;

/*
 * Synchronous standbys must have the commit, too: if one is promoted, it must contain what other
 * servers were told.
 */
static void
raise_setting(GucSource source, GucAction action)
{
	if (synchronous_commit <= SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "on", PGC_USERSET, source, action, true, 0, false);
}

void
shard_flush_commit_force(void)
{
	ForceSyncCommit();
	forced = true;
}

void
shard_flush_commit_before_end(void)
{
	if (forced)
		raise_setting(PGC_S_SESSION, GUC_ACTION_LOCAL);
}

void
shard_flush_commit_end_transaction(void)
{
	forced = false;
}

void
shard_flush_commit_always(void)
{
	raise_setting(PGC_S_OVERRIDE, GUC_ACTION_SET);
}

/*
 * Returns the end of the WAL written so far.  At the end of a page GetXLogInsertRecPtr() returns
 * the position after the header of the next page, which XLogFlush() does not accept.
 */
static XLogRecPtr
end_of_wal(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	uint32		in_page = end % XLOG_BLCKSZ;

	if (in_page == SizeOfXLogShortPHD || XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD)
		end -= in_page;
	return end;
}

void
shard_flush_commit_all(void)
{
	XLogRecPtr	end;

	if (RecoveryInProgress())
		return;
	end = end_of_wal();
	XLogFlush(end);
	/* as in a commit: an interrupt is reported after the session has left the queue of waiting sessions */
	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(end, true);
	RESUME_INTERRUPTS();
}
