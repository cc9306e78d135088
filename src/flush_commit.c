/*
 * flush_commit.c
 *	  Commits that must be on disk before anything that depends on them is told to others.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "flush_commit.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "utils/guc.h"

/* Standbys are waited for, too: a promoted standby must have what others were told. */
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
	raise_setting(PGC_S_SESSION, GUC_ACTION_LOCAL);
}

void
shard_flush_commit_always(void)
{
	raise_setting(PGC_S_OVERRIDE, GUC_ACTION_SET);
}

/*
 * The end of what has been written to the WAL.  Where that is the end of a page, GetXLogInsertRecPtr() gives the position
 * behind the header of the next one, which XLogFlush() refuses.
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
	/* as at a commit: an interrupt is reported when the session has left the queue of those that wait */
	HOLD_INTERRUPTS();
	SyncRepWaitForLSN(end, true);
	RESUME_INTERRUPTS();
}
