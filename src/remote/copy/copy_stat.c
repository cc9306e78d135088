/*
 * copy_stat.c
 *	  Figures of running loads, for other sessions to read, and of this session's last load.
 *
 * The library need not be preloaded for it.  A session that loads creates a segment of dynamic
 * shared memory, and stores its handle in the last parameters of core's progress reporting, which
 * no command of core uses (commands/progress.h).
 *
 *	 set's progress hook -> figures of this session -> segment
 *	                                                     ^ handle
 *	 another session: backend status entries ------------'
 *
 * The segment exists as long as the session, and only the session writes to it.  Readers take a
 * copy.  If the change count shows that the segment was written at the same time, they take another
 * one (as core does with backend status entries).  A handle may be outdated, and may even belong to
 * another segment by now.  The magic number and the pid in the segment show this.
 */
#include "postgres.h"

#include "compat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "remote/copy/copy_stat.h"
#include "storage/dsm.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define SEGMENT_MAGIC 0x73686c64		/* first bytes of a segment */
#define HANDLE_MAGIC INT64CONST(0x73686172646c6f61) /* identifies its handle */
#define PARAM_MAGIC (PGSTAT_NUM_PROGRESS_PARAM - 2)
#define PARAM_HANDLE (PGSTAT_NUM_PROGRESS_PARAM - 1)
#define FIRST_CAPACITY 64
#define READ_TRIES 100

typedef struct StatSegment
{
	uint32		magic;
	int			pid;
	int			capacity;		/* number of targets for which there is room */
	volatile uint32 change_count;	/* odd: it is being written */
	ShardCopyStatLoad load;		/* must be last */
} StatSegment;

struct ShardCopyStat
{
	MemoryContextCallback callback;
	ShardCopySet *set;
	ShardCopyTarget **targets;	/* same order as figures->targets */
	bool		published;
};

/* The running load, if any.  Its figures, or those of the last load (pid = 0: there was none). */
static ShardCopyStat *current = NULL;
static ShardCopyStatLoad *figures = NULL;
static int	capacity = 0;		/* number of targets for which figures has room */

static dsm_segment *segment = NULL;

/* of shard_copy_stat_explain */
static const void *explained = NULL;
static char explanation[sizeof(((ShardCopyStatLoad *) NULL)->reason)];

static Size
load_size(int ntargets)
{
	return offsetof(ShardCopyStatLoad, targets) + mul_size(ntargets, sizeof(ShardCopyStatTarget));
}

static StatSegment *
segment_address(void)
{
	return dsm_segment_address(segment);
}

/* ---------- writing ---------- */

/* Makes room for ntargets targets in figures. */
static void
reserve(int ntargets)
{
	if (ntargets <= capacity)
		return;
	ntargets = Max(ntargets, Max(FIRST_CAPACITY, capacity * 2));
	if (figures == NULL)
		figures = MemoryContextAllocZero(TopMemoryContext, load_size(ntargets));
	else
		figures = repalloc_huge(figures, load_size(ntargets));
	capacity = ntargets;
}

/* Creates a segment with as much room as figures has.  Creates none if the server has too many segments. */
static void
make_segment(void)
{
	StatSegment *shared;

	if (!IsUnderPostmaster || (segment != NULL && segment_address()->capacity >= capacity))
		return;
	if (segment != NULL)
	{
		dsm_segment *old = segment;

		segment = NULL;
		dsm_detach(old);
	}
	segment = dsm_create(offsetof(StatSegment, load) + load_size(capacity), DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (segment == NULL)
		return;
	dsm_pin_mapping(segment);
	shared = segment_address();
	memset(shared, 0, sizeof(StatSegment));
	shared->pid = MyProcPid;
	shared->capacity = capacity;
	pg_write_barrier();
	shared->magic = SEGMENT_MAGIC;
}

static void
write_segment(void)
{
	StatSegment *shared = segment_address();

	Assert(figures->ntargets <= shared->capacity);
	shared->change_count++;
	pg_write_barrier();
	memcpy(&shared->load, figures, load_size(figures->ntargets));
	pg_write_barrier();
	shared->change_count++;
}

static void
announce(bool in_progress)
{
	pgstat_progress_update_param(PARAM_HANDLE, in_progress ? (int64) dsm_segment_handle(segment) : 0);
	pgstat_progress_update_param(PARAM_MAGIC, in_progress ? HANDLE_MAGIC : 0);
}

/* Progress hook of the ShardCopySet.  Never raises. */
static void
update(void *arg)
{
	ShardCopyStat *stat = arg;

	for (int i = 0; i < figures->ntargets; i++)
		shard_copy_target_stat(stat->targets[i], &figures->targets[i].figures);
	if (!stat->published)
		return;
	write_segment();
	/* any command that starts to report its progress erases this */
	announce(true);
}

/* The load has ended.  Other sessions can still read its figures. */
static void
stop(ShardCopyStat *stat)
{
	current = NULL;
	if (!stat->published)
		return;
	stat->published = false;
	announce(false);
	write_segment();
}

/* At the reset of the load's memory: a load that has not ended has failed. */
static void
forget(void *arg)
{
	ShardCopyStat *stat = arg;

	if (current != stat)
		return;
	figures->pid = 0;
	stop(stat);
}

static void
copy_text(char *target, Size nbytes, const char *source)
{
	int			n = source ? pg_mbcliplen(source, strlen(source), nbytes - 1) : 0;

	memcpy(target, source ? source : "", n);
	target[n] = '\0';
}

ShardCopyStat *
shard_copy_stat_begin(MemoryContext cxt, ShardCopySet *set, Oid relid,
					  const char *mode, const char *reason)
{
	ShardCopyStat *stat;

	if (current != NULL)
		return NULL;
	stat = MemoryContextAllocZero(cxt, sizeof(ShardCopyStat));
	reserve(1);
	stat->set = set;
	stat->targets = MemoryContextAllocHuge(cxt, capacity * sizeof(ShardCopyTarget *));

	memset(figures, 0, offsetof(ShardCopyStatLoad, targets));
	figures->pid = MyProcPid;
	figures->userid = GetSessionUserId();
	figures->relid = relid;
	copy_text(figures->mode, sizeof(figures->mode), mode);
	copy_text(figures->reason, sizeof(figures->reason), reason);
	figures->started = GetCurrentTimestamp();

	stat->callback.func = forget;
	stat->callback.arg = stat;
	current = stat;
	MemoryContextRegisterResetCallback(cxt, &stat->callback);
	shard_copy_set_on_progress(set, update, stat);
	return stat;
}

ShardCopyStat *
shard_copy_stat_of(const ShardCopyTarget *target)
{
	for (int i = current ? figures->ntargets - 1 : -1; i >= 0; i--)
		if (current->targets[i] == target)
			return current;
	return NULL;
}

void
shard_copy_stat_explain(const void *cstate, const char *reason)
{
	explained = cstate;
	copy_text(explanation, sizeof(explanation), reason);
}

const char *
shard_copy_stat_reason(const void *cstate)
{
	return cstate != NULL && cstate == explained ? explanation : NULL;
}

void
shard_copy_stat_publish(ShardCopyStat *stat)
{
	if (stat == NULL || stat != current || stat->published)
		return;
	make_segment();
	stat->published = segment != NULL;
	update(stat);
}

void
shard_copy_stat_add(ShardCopyStat *stat, ShardCopyTarget *target, Oid relid, Oid serverid)
{
	ShardCopyStatTarget *entry;

	if (stat == NULL || stat != current)
		return;
	if (figures->ntargets == capacity)
	{
		reserve(capacity + 1);
		stat->targets = repalloc_huge(stat->targets, capacity * sizeof(ShardCopyTarget *));
		if (stat->published)
		{
			/* withdrawn first: if no larger segment is available, no session may read the one that is too small */
			announce(false);
			stat->published = false;
			make_segment();
			stat->published = segment != NULL;
		}
	}
	entry = &figures->targets[figures->ntargets];
	memset(entry, 0, sizeof(*entry));
	entry->relid = relid;
	entry->serverid = serverid;
	stat->targets[figures->ntargets++] = target;
}

void
shard_copy_stat_set_rejected(ShardCopyStat *stat, uint64 nrejected)
{
	if (stat != NULL && stat == current)
		figures->nrejected = nrejected;
}

void
shard_copy_stat_end(ShardCopyStat *stat)
{
	if (stat == NULL || stat != current)
		return;
	shard_copy_set_on_progress(stat->set, NULL, NULL);
	for (int i = 0; i < figures->ntargets; i++)
		shard_copy_target_stat(stat->targets[i], &figures->targets[i].figures);
	figures->finished = GetCurrentTimestamp();
	stop(stat);
}

/* ---------- reading ---------- */

/* Returns a copy of another session's segment.  NULL: there is no load, or it could not be read. */
static ShardCopyStatLoad *
read_segment(dsm_segment *other, int pid)
{
	StatSegment *shared = dsm_segment_address(other);
	Size		nbytes = dsm_segment_map_length(other);
	int			ntargets_max;
	ShardCopyStatLoad *copy;

	if (nbytes < sizeof(StatSegment) || shared->magic != SEGMENT_MAGIC || shared->pid != pid)
		return NULL;
	pg_read_barrier();
	ntargets_max = shared->capacity;
	if (ntargets_max < 0 || offsetof(StatSegment, load) + load_size(ntargets_max) > nbytes)
		return NULL;

	copy = palloc_extended(load_size(ntargets_max), MCXT_ALLOC_HUGE);
	for (int i = 0; i < READ_TRIES; i++)
	{
		uint32		before = shared->change_count;

		pg_read_barrier();
		if (before % 2 == 0)
		{
			memcpy(copy, &shared->load, offsetof(ShardCopyStatLoad, targets));
			if (copy->ntargets >= 0 && copy->ntargets <= ntargets_max)
			{
				memcpy(copy->targets, shared->load.targets, copy->ntargets * sizeof(ShardCopyStatTarget));
				pg_read_barrier();
				if (shared->change_count == before)
				{
					if (copy->pid == pid && copy->finished == 0)
						return copy;
					break;
				}
			}
		}
		pg_usleep(100);
	}
	pfree(copy);
	return NULL;
}

/* Returns the load that another session has announced, if it still exists. */
static ShardCopyStatLoad *
read_session(const PgBackendStatus *status)
{
	dsm_handle	handle = (dsm_handle) status->st_progress_param[PARAM_HANDLE];
	dsm_segment *other;
	ShardCopyStatLoad *load;

	if (status->st_progress_param[PARAM_MAGIC] != HANDLE_MAGIC || handle == DSM_HANDLE_INVALID ||
		dsm_find_mapping(handle) != NULL)
		return NULL;
	other = dsm_attach(handle);
	if (other == NULL)
		return NULL;
	load = read_segment(other, status->st_procpid);
	dsm_detach(other);
	return load;
}

List *
shard_copy_stat_read(void)
{
	int			nbackends = pgstat_fetch_stat_numbackends();
	List	   *loads = NIL;

	if (figures != NULL && figures->pid != 0)
	{
		ShardCopyStatLoad *own;

		if (current != NULL)
			update(current);
		own = palloc_extended(load_size(figures->ntargets), MCXT_ALLOC_HUGE);
		memcpy(own, figures, load_size(figures->ntargets));
		loads = lappend(loads, own);
	}
	for (int i = 1; i <= nbackends; i++)
	{
		LocalPgBackendStatus *local = shard_local_beentry(i);
		ShardCopyStatLoad *load;

		CHECK_FOR_INTERRUPTS();
		if (local == NULL || local->backendStatus.st_databaseid != MyDatabaseId ||
			local->backendStatus.st_procpid == MyProcPid)
			continue;
		load = read_session(&local->backendStatus);
		if (load != NULL)
		{
			load->userid = local->backendStatus.st_userid;
			loads = lappend(loads, load);
		}
	}
	return loads;
}
